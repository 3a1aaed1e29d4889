//! Output for people: tables and colour on a terminal, plain text in a pipe.
//!
//! Ids, reasons and codes were written by others. They reach a terminal only through [`clean`], so that none
//! of them can move the cursor, change the title or hide a line.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};

use comfy_table::{
    Attribute, Cell, Color, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, presets,
};
use recado_core::Timestamp;

/// Spells out what could steer a terminal or hide in it.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unprintable(c) { cleaned.extend(c.escape_default()) } else { cleaned.push(c) }
    }
    Cow::Owned(cleaned)
}

/// Returns true for control characters, marks that reorder text and characters that take up no room.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Spells out what could steer a terminal in JSON text, which stays JSON with the same meaning: within
/// strings such characters are written as escapes, and between values only spaces and line feeds remain.
pub fn clean_json(json: &str) -> Cow<'_, str> {
    let is_kept = |c: char| c == '\n' || !is_unprintable(c);
    if json.chars().all(is_kept) {
        return Cow::Borrowed(json);
    }
    let mut cleaned = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        match c {
            _ if is_kept(c) => cleaned.push(c),
            // No string holds these unescaped, so they stand between values.
            '\t' | '\r' => cleaned.push(' '),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    cleaned.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    Cow::Owned(cleaned)
}

/// Spells out what could steer a terminal, line by line.
pub fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// A number as people read it.
pub fn grouped(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `NO_COLOR` and dumb terminals are respected.
pub fn colour_is_welcome() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A colour or weight of text.
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
    /// A shorter form for a narrow terminal.
    short: Option<String>,
    paint: Paint,
    presence: Presence,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Presence {
    #[default]
    Given,
    /// A dash stands for it.
    Dash,
    /// [`Screen::pairs`] leaves it out.
    Absent,
}

/// The head of a table's column, and the field that it shows of an item.
pub type Column<T> = (&'static str, fn(&T) -> Field);

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
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
        at.map_or_else(Field::dash, Field::time)
    }

    pub fn dash() -> Self {
        Field { presence: Presence::Dash, ..Field::painted("-", Paint::Faint) }
    }

    pub fn or_dash(text: Option<impl fmt::Display>) -> Self {
        text.map_or_else(Field::dash, Field::from)
    }

    /// A value for [`Screen::pairs`], which leaves out one that there is not.
    pub fn if_any(text: Option<impl fmt::Display>) -> Self {
        text.map_or_else(|| Field { presence: Presence::Absent, ..Field::default() }, Field::from)
    }

    pub fn with_paint(self, paint: Paint) -> Self {
        Field { paint, ..self }
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

    /// Text or bytes as they are.
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        self.out.write_all(text.as_ref())
    }

    /// An answer as JSON, or for people as `show` writes it.
    pub fn answer<T: serde::Serialize>(
        &mut self,
        form: Form,
        answer: &T,
        show: impl FnOnce(&mut Self, &T) -> io::Result<()>,
    ) -> io::Result<()> {
        match form {
            Form::Json => self.json(answer),
            Form::Text => show(self, answer),
        }
    }

    pub fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        writeln!(self.out, "{}", clean_json(&text))
    }

    /// JSON on one line.
    pub fn json_line(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        let text = serde_json::to_string(value)?;
        writeln!(self.out, "{}", clean_json(&text))
    }

    pub fn painted(&self, paint: Paint, words: impl fmt::Display) -> String {
        match paint {
            Paint::Plain => words.to_string(),
            _ if !self.colour => words.to_string(),
            _ => format!("\x1b[{}m{words}\x1b[0m", paint.code()),
        }
    }

    /// A table with a row for each item.
    pub fn table<'a, T: 'a>(
        &mut self,
        items: impl IntoIterator<Item = &'a T>,
        columns: &[Column<T>],
    ) -> io::Result<()> {
        let heads: Vec<_> = columns.iter().map(|(head, _)| *head).collect();
        let row = |item: &T| columns.iter().map(|(_, field)| field(item)).collect();
        self.rows(&heads, items.into_iter().map(row).collect())
    }

    /// A table on a terminal, aligned columns in a pipe. A terminal is spared columns that say nothing.
    pub fn rows(&mut self, heads: &[&str], rows: Vec<Vec<Field>>) -> io::Result<()> {
        let is_given = |field: &Field| field.presence == Presence::Given;
        let says = |at: usize| rows.is_empty() || rows.iter().any(|row| row.get(at).is_some_and(is_given));
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
            table.add_row(fields.map(|(field, _)| self.cell(field)));
        }
        if let Some(width) = self.width {
            if !keep_ids_whole(&mut table, width) {
                return self.records(&table);
            }
            table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
        }
        for line in table.lines() {
            let line = if self.terminal { &line } else { line.strip_prefix(' ').unwrap_or(&line) };
            writeln!(self.out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Each row as lines of names and values, for a terminal too narrow for its table.
    fn records(&mut self, table: &Table) -> io::Result<()> {
        let heads: Vec<_> =
            table.header().into_iter().flat_map(|row| row.cell_iter()).map(Cell::content).collect();
        let widest = heads.iter().map(|head| head.chars().count()).max().unwrap_or_default();
        for (index, row) in table.row_iter().enumerate() {
            if index > 0 {
                writeln!(self.out)?;
            }
            for (head, cell) in heads.iter().zip(row.cell_iter()) {
                let name = self.painted(Paint::Faint, format_args!("{head:widest$}"));
                writeln!(self.out, "{name}  {}", cell.content())?;
            }
        }
        Ok(())
    }

    /// Names and values, one a line.
    pub fn pairs<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a str, Field)>) -> io::Result<()> {
        let is_given = |(_, field): &(&str, Field)| field.presence != Presence::Absent;
        let pairs: Vec<_> = pairs.into_iter().filter(is_given).collect();
        let widest = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, field) in pairs {
            let padding = " ".repeat(widest - name.len() + 2);
            let name = self.painted(Paint::Faint, name);
            let value = self.painted(field.paint, clean(&field.text));
            writeln!(self.out, "{name}{padding}{value}")?;
        }
        Ok(())
    }

    fn cell(&self, field: Field) -> Cell {
        let text = field.short.filter(|_| self.terminal).unwrap_or(field.text);
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
}

/// A line below the head, and nothing else.
const RULED: TableStyle = presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─'));

/// Columns that the last one, which holds words, needs at least to be read.
const WORDS_WIDTH_MIN: u16 = 18;

/// Ids and times are for copying: only the last column is broken over lines. Returns false when there is no room for
/// that.
fn keep_ids_whole(table: &mut Table, width: u16) -> bool {
    let widths = table.column_max_content_widths();
    let Some((words, others)) = widths.split_last() else { return true };
    let taken: u16 = others.iter().map(|width| width + COLUMN_GAP).sum();
    let fits = taken + COLUMN_GAP + WORDS_WIDTH_MIN.min(*words) <= width;
    for column in table.column_iter_mut().take(others.len()) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    fits
}

/// Columns between two columns.
const COLUMN_GAP: u16 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        let shown = [0.0, 5.0, 0.126, -0.5, 99.99, 100.4, 12_345.0, 1_234_567.8].map(grouped);
        assert_eq!(shown, ["0", "5", "0.13", "-0.50", "99.99", "100", "12,345", "1,234,568"]);
    }

    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        assert_eq!(clean("550 no such user"), "550 no such user");
        assert_eq!(clean("\x1b[2Jgone\x07\r\n"), "\\u{1b}[2Jgone\\u{7}\\r\\n");
        assert_eq!(clean("a\u{9b}1m b\u{202e}c"), "a\\u{9b}1m b\\u{202e}c");
        assert_eq!(clean("olá ±25%"), "olá ±25%");
        assert_eq!(clean_lines("a\nb\x1b"), "a\nb\\u{1b}");
    }

    #[test]
    fn characters_that_hide_or_reorder_are_spelled_out_in_text_and_in_json() {
        for c in ['\u{9b}', '\u{202e}', '\u{200b}', '\u{61c}', '\u{feff}', '\u{ad}', '\u{2066}', '\u{e0041}']
        {
            let text = format!("a{c}b");
            assert!(!clean(&text).contains(c), "{c:?}");
            let json = serde_json::to_string(&text).unwrap();
            assert!(!clean_json(&json).contains(c), "{c:?}");
            assert_eq!(serde_json::from_str::<String>(&clean_json(&json)).unwrap(), text);
        }
        let mut out = Vec::new();
        let payload = recado_core::Payload::new("{\"a\":\r\t\"x\u{9b}\"}").unwrap();
        Screen::new(&mut out, None).json(&payload).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"a\":  \"x\\u009b\"}\n");
    }

    #[test]
    fn a_narrow_terminal_gets_names_and_values_instead_of_columns_of_letters() {
        let mut out = Vec::new();
        let row = || vec!["01a1de91-cd16-7185".into(), "failed".into(), "550 no such user here".into()];
        Screen::new(&mut out, Some(40)).rows(&["job", "status", "reason"], vec![row(), row()]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let record = "job     01a1de91-cd16-7185\nstatus  failed\nreason  550 no such user here\n";
        assert_eq!(text, format!("{record}\n{record}"));
    }

    #[test]
    fn a_pipe_gets_plain_aligned_text() {
        let mut out = Vec::new();
        let rows = vec![
            vec!["job-1".into(), Field::painted("sent", Paint::Good)],
            vec!["j\x1b[1m".into(), "failed".into()],
        ];
        Screen::new(&mut out, None).rows(&["job", "status"], rows).unwrap();
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
        Screen::new(&mut out, Some(90)).rows(&["job", "moved", "reason"], rows).unwrap();
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
            let rows = vec![vec!["a".into(), Field::dash(), "words".into()]];
            Screen::new(&mut out, width).rows(&["job", "next", "reason"], rows).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!shown(Some(60)).contains("next"), "{}", shown(Some(60)));
        assert!(shown(None).contains("next"), "{}", shown(None));
    }
}
