//! The format of a line.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::io::Write as _;

use recado_core::Timestamp;
use serde::Serializer as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// Bytes that a thread keeps for its next line.
const BUFFER_KEPT_MAX_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    /// For people, without colours.
    Plain,
    Coloured,
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
pub fn write(out: &mut Vec<u8>, event: &Event<'_>, at: Timestamp, format: Format) {
    let metadata = event.metadata();
    let mut line = Line::begin(out, format, *metadata.level(), at);
    // The macros of `tracing` put the message before all other fields.
    event.record(&mut line);
    line.end(metadata.target(), at);
}

/// The line about lines that could not be written.
pub fn write_lost(out: &mut Vec<u8>, lost: u64, at: Timestamp, format: Format) {
    let mut line = Line::begin(out, format, Level::WARN, at);
    line.message(&"Log lines were lost: their reader is too slow");
    line.field("lost", Value::Bare(&lost));
    line.end("recado", at);
}

/// A value of a field.
#[derive(Clone, Copy)]
enum Value<'a> {
    /// Quoted in JSON.
    Text(&'a dyn Display),
    /// Stands as it is.
    Bare(&'a dyn Display),
}

/// A line, while it is written.
struct Line<'a> {
    out: &'a mut Vec<u8>,
    format: Format,
}

impl<'a> Line<'a> {
    fn begin(out: &'a mut Vec<u8>, format: Format, level: Level, at: Timestamp) -> Self {
        let (word, paint) = match level {
            Level::ERROR => ("error", "31"),
            Level::WARN => ("warn", "33"),
            Level::INFO => ("info", "32"),
            Level::DEBUG => ("debug", "34"),
            Level::TRACE => ("trace", "35"),
        };
        let mut line = Line { out, format };
        if format == Format::Json {
            let _ = write!(line.out, "{{\"level\":\"{word}\"");
        } else {
            line.painted("2", &at);
            line.out.push(b' ');
            line.painted(paint, &format_args!("{level:<5}"));
        }
        line
    }

    fn message(&mut self, words: &dyn Display) {
        match self.format {
            Format::Json => self.field("message", Value::Text(words)),
            Format::Plain | Format::Coloured => self.clean(&format_args!(" {words}")),
        }
    }

    fn field(&mut self, name: &str, value: Value<'_>) {
        let (Value::Text(shown) | Value::Bare(shown)) = value;
        if self.format != Format::Json {
            self.out.push(b' ');
            self.painted("2", &format_args!("{name}="));
            return self.clean(shown);
        }
        self.out.push(b',');
        self.quote(&name);
        self.out.push(b':');
        match value {
            Value::Text(text) => self.quote(text),
            Value::Bare(bare) => drop(write!(self.out, "{bare}")),
        }
    }

    fn end(mut self, target: &str, at: Timestamp) {
        if self.format == Format::Json {
            let is_ours =
                target == "recado" || target.starts_with("recado_") || target.starts_with("recado::");
            if !is_ours {
                self.field("target", Value::Text(&target));
            }
            self.field("timestamp", Value::Text(&at));
            self.out.push(b'}');
        }
        self.out.push(b'\n');
    }

    fn painted(&mut self, paint: &str, words: &dyn Display) {
        let _ = match self.format {
            Format::Coloured => write!(self.out, "\x1b[{paint}m{words}\x1b[0m"),
            Format::Plain | Format::Json => write!(self.out, "{words}"),
        };
    }

    /// Writes text for a terminal: what could steer it is spelled out.
    fn clean(&mut self, words: &dyn Display) {
        self.out.extend_from_slice(recado_terminal::clean(&words.to_string()).as_bytes());
    }

    /// Writes a string of JSON, escaped as it is written.
    fn quote(&mut self, text: &dyn Display) {
        let _ = serde_json::Serializer::new(&mut *self.out).collect_str(text);
    }
}

impl Line<'_> {
    fn put(&mut self, field: &Field, value: Value<'_>) {
        match (field.name(), value) {
            ("message", Value::Text(words) | Value::Bare(words)) => self.message(words),
            (name, value) => self.field(name.trim_start_matches("r#"), value),
        }
    }
}

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(&value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Bare(&value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::Bare(&value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Bare(&value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, if value.is_finite() { Value::Bare(&value) } else { Value::Text(&value) });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::Text(&format_args!("{value:?}")));
    }
}
