//! What a person sees: tables and colour on a terminal, plain text in a pipe.
//!
//! Ids, reasons and codes were written by others. They reach a terminal only through [`clean`], so that
//! none of them can move the cursor, change the title or hide a line.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};

use comfy_table::{
    Attribute, Cell, Color, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, presets,
};
use recado_core::Timestamp;

/// Spells out what could steer a terminal: control characters and marks that reorder text.
pub fn clean(text: &str) -> Cow<'_, str> {
    fn steers(c: char) -> bool {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    }
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if steers(c) { cleaned.extend(c.escape_default()) } else { cleaned.push(c) }
    }
    Cow::Owned(cleaned)
}

/// The same, keeping lines apart.
pub fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// `NO_COLOR` and dumb terminals are respected.
pub fn colour_is_welcome() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// How a word stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paint {
    #[default]
    Plain,
    Strong,
    Faint,
    Good,
    Warn,
    Bad,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Paint::Plain => "",
            Paint::Strong => "1",
            Paint::Faint => "2",
            Paint::Good => "32",
            Paint::Warn => "33",
            Paint::Bad => "31",
        }
    }
}

/// One field of a table, as it came: it is cleaned when it is shown.
#[derive(Clone, Debug, Default)]
pub struct Field {
    text: String,
    /// What a table on a terminal has room for.
    short: Option<String>,
    paint: Paint,
    /// It stands for nothing.
    is_dash: bool,
}

impl<T: fmt::Display> From<T> for Field {
    fn from(text: T) -> Self {
        Field { text: text.to_string(), ..Field::default() }
    }
}

impl Field {
    pub fn painted(text: impl fmt::Display, paint: Paint) -> Self {
        Field { text: text.to_string(), paint, ..Field::default() }
    }

    /// A time: to the millisecond in a pipe, to the second in a table.
    pub fn time(at: Timestamp) -> Self {
        let text = at.to_string();
        let short = text.get(..19).map(|to_the_second| to_the_second.replace('T', " "));
        Field { text, short, ..Field::default() }
    }

    pub fn time_or_dash(at: Option<Timestamp>) -> Self {
        at.map_or_else(|| Field::or_dash(None::<&str>), Field::time)
    }

    pub fn or_dash(text: Option<impl fmt::Display>) -> Self {
        text.map_or_else(|| Field { is_dash: true, ..Field::painted("-", Paint::Faint) }, Field::from)
    }
}

/// Standard output, and what it can show.
#[derive(Debug)]
pub struct Screen<W: Write = io::Stdout> {
    out: W,
    terminal: bool,
    colour: bool,
    width: Option<u16>,
}

impl Screen {
    pub fn stdout() -> Self {
        let out = io::stdout();
        let terminal = out.is_terminal();
        let width =
            rustix::termios::tcgetwinsize(&out).ok().map(|size| size.ws_col).filter(|width| *width > 0);
        Screen { terminal, colour: terminal && colour_is_welcome(), width: width.filter(|_| terminal), out }
    }
}

impl<W: Write> Screen<W> {
    /// A terminal of this width, or none.
    pub fn new(out: W, terminal_width: Option<u16>) -> Self {
        Screen { out, terminal: terminal_width.is_some(), colour: false, width: terminal_width }
    }

    /// Something to draw on that is shown all at once, and looks like this.
    pub fn frame(&self) -> Screen<Vec<u8>> {
        Screen { out: Vec::new(), terminal: self.terminal, colour: self.colour, width: self.width }
    }

    pub fn into_inner(self) -> W {
        self.out
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub fn width(&self) -> u16 {
        self.width.unwrap_or(80)
    }

    /// One line of our own words.
    pub fn line(&mut self, words: impl fmt::Display) -> io::Result<()> {
        writeln!(self.out, "{words}")
    }

    pub fn text(&mut self, words: &str) -> io::Result<()> {
        self.out.write_all(words.as_bytes())
    }

    /// What goes to a file or a pipe as it is.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    pub fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, value)?;
        writeln!(self.out)
    }

    pub fn painted(&self, paint: Paint, words: impl fmt::Display) -> String {
        match paint {
            Paint::Plain => words.to_string(),
            _ if !self.colour => words.to_string(),
            _ => format!("\x1b[{}m{words}\x1b[0m", paint.code()),
        }
    }

    /// A table on a terminal, aligned columns in a pipe. A terminal is spared columns that say nothing.
    pub fn table(&mut self, heads: &[&str], rows: Vec<Vec<Field>>) -> io::Result<()> {
        let says =
            |at: usize| rows.is_empty() || rows.iter().any(|row| row.get(at).is_some_and(|it| !it.is_dash));
        let kept: Vec<_> = (0..heads.len()).map(|at| !self.terminal || says(at)).collect();
        let mut table = Table::new();
        table.load_style(if self.terminal { RULED } else { presets::NOTHING });
        if self.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let heads = heads.iter().zip(&kept).filter(|(_, kept)| **kept);
        table.set_header(heads.map(|(head, _)| Cell::new(head).add_attribute(Attribute::Bold)));
        for row in rows {
            let fields = row.into_iter().zip(&kept).filter(|(_, kept)| **kept);
            table.add_row(fields.map(|(field, _)| cell(field, self.terminal)));
        }
        if let Some(width) = self.width {
            table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
            keep_ids_whole(&mut table, width);
        }
        for line in table.lines() {
            let line = if self.terminal { &line } else { line.strip_prefix(' ').unwrap_or(&line) };
            writeln!(self.out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Names and values, one a line.
    pub fn pairs(&mut self, pairs: Vec<(&str, Field)>) -> io::Result<()> {
        let widest = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, field) in pairs {
            let padding = " ".repeat(widest - name.len() + 2);
            let name = self.painted(Paint::Faint, name);
            let value = self.painted(field.paint, clean(&field.text));
            writeln!(self.out, "{name}{padding}{value}")?;
        }
        Ok(())
    }
}

/// A line below the head, and nothing else.
const RULED: TableStyle = presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─'));

/// Columns that the last one, which holds words, needs at least to be read.
const WORDS_WIDTH_MIN: u16 = 18;

/// Ids and times are for copying: only the last column is broken over lines, where there is room for that.
fn keep_ids_whole(table: &mut Table, width: u16) {
    let widths = table.column_max_content_widths();
    let Some((words, others)) = widths.split_last() else { return };
    let taken: u16 = others.iter().map(|width| width + COLUMN_GAP).sum();
    if taken + COLUMN_GAP + WORDS_WIDTH_MIN.min(*words) > width {
        return;
    }
    for column in table.column_iter_mut().take(others.len()) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// Columns between two columns.
const COLUMN_GAP: u16 = 3;

fn cell(field: Field, short: bool) -> Cell {
    let text = field.short.filter(|_| short).unwrap_or(field.text);
    let cell = Cell::new(clean(&text));
    match field.paint {
        Paint::Plain => cell,
        Paint::Strong => cell.add_attribute(Attribute::Bold),
        Paint::Faint => cell.add_attribute(Attribute::Dim),
        Paint::Good => cell.fg(Color::Green),
        Paint::Warn => cell.fg(Color::Yellow),
        Paint::Bad => cell.fg(Color::Red),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        assert_eq!(clean("550 no such user"), "550 no such user");
        assert_eq!(clean("\x1b[2Jgone\x07\r\n"), "\\u{1b}[2Jgone\\u{7}\\r\\n");
        assert_eq!(clean("a\u{9b}1m b\u{202e}c"), "a\\u{9b}1m b\\u{202e}c");
        assert_eq!(clean("olá ±25%"), "olá ±25%");
        assert_eq!(clean_lines("a\nb\x1b"), "a\nb\\u{1b}");
    }

    #[test]
    fn a_pipe_gets_plain_aligned_text() {
        let mut out = Vec::new();
        let rows = vec![
            vec!["job-1".into(), Field::painted("sent", Paint::Good)],
            vec!["j\x1b[1m".into(), "failed".into()],
        ];
        Screen::new(&mut out, None).table(&["job", "status"], rows).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "job         status\njob-1       sent\nj\\u{1b}[1m  failed\n");
    }

    #[test]
    fn a_terminal_gets_a_table_whose_words_are_broken_and_whose_ids_are_not() {
        let mut out = Vec::new();
        let at = Field::time(Timestamp::from_millis(1_760_869_800_123));
        let rows = vec![vec![
            "01a1de91-cd16-7185-b25b-b325e7ba50cc".into(),
            at,
            "550 no such user here, nor anywhere".into(),
        ]];
        Screen::new(&mut out, Some(90)).table(&["job", "moved", "reason"], rows).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[2].contains("01a1de91-cd16-7185-b25b-b325e7ba50cc   2025-10-19 10:30:00   550 no"),
            "{text}"
        );
        assert!(lines.len() > 3 && lines.iter().all(|line| line.chars().count() <= 90), "{text}");
    }

    #[test]
    fn a_terminal_is_spared_columns_that_say_nothing_and_a_pipe_keeps_them() {
        let shown = |width: Option<u16>| {
            let mut out = Vec::new();
            let rows = vec![vec!["a".into(), Field::or_dash(None::<&str>), "words".into()]];
            Screen::new(&mut out, width).table(&["job", "next", "reason"], rows).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!shown(Some(60)).contains("next"), "{}", shown(Some(60)));
        assert!(shown(None).contains("next"), "{}", shown(None));
    }
}
