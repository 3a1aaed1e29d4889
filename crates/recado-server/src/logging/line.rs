//! The format of a line.

use std::cell::RefCell;
use std::fmt::{self, Write as _};

use recado_core::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// Bytes that a thread keeps for its next line.
const BUFFER_KEPT_MAX_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Human { colour: bool },
}

/// Lends the thread's buffer. An event within an event (a `Debug` that logs) gets one of its own.
pub fn with_buffer(write: impl FnOnce(&mut Vec<u8>)) {
    thread_local!(static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
    BUFFER.with(|buffer| match buffer.try_borrow_mut() {
        Ok(mut buffer) => {
            buffer.clear();
            write(&mut buffer);
            buffer.shrink_to(BUFFER_KEPT_MAX_BYTES);
        }
        Err(_) => write(&mut Vec::new()),
    });
}

/// Writes one event as one line, the line's end included.
pub fn write(line: &mut Vec<u8>, event: &Event<'_>, at: Timestamp, format: Format) {
    match format {
        Format::Json => {
            let level = match *event.metadata().level() {
                Level::ERROR => "error",
                Level::WARN => "warn",
                Level::INFO => "info",
                Level::DEBUG => "debug",
                Level::TRACE => "trace",
            };
            let mut json = Json::open(line, level);
            event.record(&mut Message(&mut json));
            event.record(&mut Fields(&mut json));
            json.close(event.metadata().target(), at);
        }
        Format::Human { colour } => {
            let mut human = Human { line, colour };
            human.head(*event.metadata().level(), at);
            event.record(&mut Message(&mut human));
            event.record(&mut Fields(&mut human));
            line.push(b'\n');
        }
    }
}

/// The line about lines that could not be written.
pub fn write_lost(line: &mut Vec<u8>, lost: u64, at: Timestamp, format: Format) {
    let words = "Log lines were lost: their reader is too slow";
    match format {
        Format::Json => {
            let mut json = Json::open(line, "warn");
            json.message(&words);
            json.field("lost", &lost.to_string(), false);
            json.close("recado", at);
        }
        Format::Human { colour } => {
            let mut human = Human { line, colour };
            human.head(Level::WARN, at);
            human.message(&words);
            human.field("lost", &lost.to_string(), false);
            line.push(b'\n');
        }
    }
}

/// Takes the parts of an event as they come.
trait Line {
    fn message(&mut self, words: &dyn fmt::Display);
    /// `text` is quoted, anything else stands as it is.
    fn field(&mut self, name: &str, value: &dyn fmt::Display, text: bool);
}

struct Json<'a>(&'a mut Vec<u8>);

impl<'a> Json<'a> {
    fn open(line: &'a mut Vec<u8>, level: &str) -> Self {
        line.extend_from_slice(b"{\"level\":\"");
        line.extend_from_slice(level.as_bytes());
        line.push(b'"');
        Json(line)
    }

    fn close(self, target: &str, at: Timestamp) {
        let line = self.0;
        if !is_ours(target) {
            line.extend_from_slice(b",\"target\":");
            quote(line, &target);
        }
        line.extend_from_slice(b",\"timestamp\":\"");
        let _ = write!(Bytes(line), "{at}");
        line.extend_from_slice(b"\"}\n");
    }
}

impl Line for Json<'_> {
    fn message(&mut self, words: &dyn fmt::Display) {
        self.0.extend_from_slice(b",\"message\":");
        quote(self.0, words);
    }

    fn field(&mut self, name: &str, value: &dyn fmt::Display, text: bool) {
        self.0.push(b',');
        quote(self.0, &name);
        self.0.push(b':');
        if text {
            quote(self.0, value);
        } else {
            let _ = write!(Bytes(self.0), "{value}");
        }
    }
}

fn is_ours(target: &str) -> bool {
    target == "recado" || target.starts_with("recado_") || target.starts_with("recado::")
}

struct Human<'a> {
    line: &'a mut Vec<u8>,
    colour: bool,
}

impl Human<'_> {
    fn head(&mut self, level: Level, at: Timestamp) {
        let (word, paint) = match level {
            Level::ERROR => ("ERROR", "31"),
            Level::WARN => ("WARN ", "33"),
            Level::INFO => ("INFO ", "32"),
            Level::DEBUG => ("DEBUG", "34"),
            Level::TRACE => ("TRACE", "35"),
        };
        let at = at.to_string();
        self.painted("2", &at);
        self.line.push(b' ');
        self.painted(paint, &word);
    }

    fn painted(&mut self, paint: &str, words: &dyn fmt::Display) {
        let mut out = Bytes(self.line);
        let _ = if self.colour { write!(out, "\x1b[{paint}m{words}\x1b[0m") } else { write!(out, "{words}") };
    }
}

impl Line for Human<'_> {
    fn message(&mut self, words: &dyn fmt::Display) {
        let _ = write!(Clean(self.line), " {words}");
    }

    fn field(&mut self, name: &str, value: &dyn fmt::Display, _: bool) {
        self.line.push(b' ');
        self.painted("2", &format_args!("{name}="));
        let _ = write!(Clean(self.line), "{value}");
    }
}

/// Finds the message, wherever it stands among the fields.
struct Message<'a, L>(&'a mut L);

impl<L: Line> Visit for Message<'_, L> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.0.message(&value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.message(&format_args!("{value:?}"));
        }
    }
}

/// Everything but the message.
struct Fields<'a, L>(&'a mut L);

impl<L: Line> Fields<'_, L> {
    fn put(&mut self, field: &Field, value: &dyn fmt::Display, text: bool) {
        if field.name() != "message" {
            self.0.field(field.name().trim_start_matches("r#"), value, text);
        }
    }
}

impl<L: Line> Visit for Fields<'_, L> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, &value, true);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, &value, false);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, &value, false);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, &value, false);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, &value, !value.is_finite());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, &format_args!("{value:?}"), true);
    }
}

struct Bytes<'a>(&'a mut Vec<u8>);

impl fmt::Write for Bytes<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// A string of JSON, escaped as it is written.
fn quote(line: &mut Vec<u8>, value: &dyn fmt::Display) {
    line.push(b'"');
    let _ = write!(Escaped(line), "{value}");
    line.push(b'"');
}

struct Escaped<'a>(&'a mut Vec<u8>);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while let Some(at) = rest.iter().position(|b| *b < 0x20 || matches!(b, b'"' | b'\\' | 0x7f)) {
            self.0.extend_from_slice(&rest[..at]);
            match rest[at] {
                b'"' => self.0.extend_from_slice(b"\\\""),
                b'\\' => self.0.extend_from_slice(b"\\\\"),
                b'\n' => self.0.extend_from_slice(b"\\n"),
                b'\r' => self.0.extend_from_slice(b"\\r"),
                b'\t' => self.0.extend_from_slice(b"\\t"),
                control => write!(Bytes(self.0), "\\u{control:04x}")?,
            }
            rest = &rest[at + 1..];
        }
        self.0.extend_from_slice(rest);
        Ok(())
    }
}

/// Text for a terminal: what could steer it is spelled out.
struct Clean<'a>(&'a mut Vec<u8>);

impl fmt::Write for Clean<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(recado_terminal::clean(text).as_bytes());
        Ok(())
    }
}
