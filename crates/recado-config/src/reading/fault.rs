//! Faults of a configuration, shown at the place where they stand.

use std::fmt;
use std::ops::Range;

/// The source of a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Bytes of the file.
    File { start: usize, end: usize },
    /// An environment variable.
    Variable(String),
    /// A command-line flag.
    Flag(&'static str),
    /// It was not written.
    #[default]
    Nowhere,
}

impl Place {
    pub fn file(span: Range<usize>) -> Self {
        Place::File { start: span.start, end: span.end }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub place: Place,
    /// The key, such as `routes.email.timeout`; empty for what is no setting.
    pub path: String,
    /// The fault and its correction. It repeats no secret.
    pub message: String,
}

/// A file of settings, as it was read. Its `Debug` names the file only: the text may hold secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// Name of the source, as the user calls it.
    pub name: String,
    pub text: String,
    /// Bytes that are not shown: secrets.
    pub hidden: Vec<Range<usize>>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Everything that is wrong, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub source: Source,
    pub list: Vec<Fault>,
}

impl Faults {
    pub fn new(source: Source, mut list: Vec<Fault>) -> Self {
        list.sort_by(|a, b| a.place.cmp(&b.place));
        list.dedup();
        Faults { source, list }
    }
}

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show("error", f)
    }
}

/// Faults that do not stop a start.
#[derive(Clone, Copy, Debug)]
pub struct Warnings<'a>(pub &'a Faults);

impl fmt::Display for Warnings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show("warning", f)
    }
}

impl Faults {
    fn show(&self, word: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.list.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            writeln!(f, "{word}: {}", fault.message)?;
            self.source.show(fault, f)?;
        }
        Ok(())
    }
}

impl Source {
    /// The place of a fault.
    fn show(&self, fault: &Fault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if fault.path.is_empty() { String::new() } else { format!("  {}", fault.path) };
        match &fault.place {
            Place::File { start, end } => self.show_line(*start, *end, &path, f),
            Place::Variable(name) => writeln!(f, " --> ${name}{path}"),
            Place::Flag(flag) => writeln!(f, " --> {flag}{path}"),
            Place::Nowhere if path.is_empty() => Ok(()),
            Place::Nowhere => writeln!(f, " -->{path}"),
        }
    }

    /// One line of the file, and marks below the part of it that is meant.
    fn show_line(&self, start: usize, end: usize, path: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        let start = text.floor_char_boundary(start.min(text.len()));
        let end = text.floor_char_boundary(end.clamp(start, text.len()));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[line_start..].find('\n').map_or(text.len(), |at| line_start + at);
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        let line = text[line_start..line_end].trim_end_matches('\r').char_indices().map(|(at, c)| {
            let at = line_start + at;
            if self.hidden.iter().any(|hidden| hidden.contains(&at)) { '*' } else { shown(c) }
        });
        let number = text[..start].matches('\n').count() + 1;
        let indent = text[line_start..start].chars().count();
        let marks = text[start..end.min(line_end).max(start)].chars().count().max(1);
        let gutter = number.to_string().len();
        writeln!(f, "{:gutter$}--> {}:{number}:{}{path}", "", self.name, indent + 1)?;
        writeln!(f, "{:gutter$} |", "")?;
        writeln!(f, "{number} | {}", line.collect::<String>())?;
        writeln!(f, "{:gutter$} | {:indent$}{:^<marks$}", "", "", "")
    }
}

/// The known word that was probably meant: one that begins so, or is a few slips away.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let word = word.to_lowercase();
    if let Some(begun) = known.clone().into_iter().find(|known| word.len() >= 3 && known.starts_with(&word)) {
        return Some(begun);
    }
    let slips = |candidate: &str| strsim::damerau_levenshtein(&word, &candidate.to_lowercase());
    let nearest =
        known.into_iter().map(|candidate| (slips(candidate), candidate)).min_by_key(|(slips, _)| *slips);
    nearest
        .filter(|(slips, candidate)| *slips <= (candidate.len() / 3).clamp(1, 4))
        .map(|(_, candidate)| candidate)
}

/// `did you mean …?` when a known word is close, and all of them when none is.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone, kind: &str) -> String {
    match closest(word, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let all: Vec<_> = known.into_iter().collect();
            format!("known {kind}: {}", all.join(", "))
        }
    }
}
