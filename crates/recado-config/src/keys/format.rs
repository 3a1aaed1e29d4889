//! Formats of values: each reads a value with its checks, writes it as TOML and says in words what it takes.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use recado_core::time::{parse_duration, show_duration};

use crate::Secret;
use crate::keys::table::{Row, Section, defaults};
use crate::reading::fault::suggestion;
use crate::reading::reader::Setting;
use crate::reading::tree::{Text, Value};
use crate::units::{parse_size, show_size};

/// Reads a value and reports its fault.
type ReadValue<T> = Box<dyn Fn(&Setting<'_>) -> Option<T>>;

/// The format of a value of type `T`.
pub struct Format<T> {
    read: ReadValue<T>,
    write: Box<dyn Fn(&T) -> String>,
    /// The values that it takes, in words.
    allowed: String,
    /// A value as TOML that the default file shows where there is none.
    example: Option<String>,
    /// The keys of a table, with or without their values.
    rows: fn(Option<&T>) -> Vec<Row>,
    /// Documentation of a table.
    about: &'static [&'static str],
}

impl<T: 'static> Format<T> {
    pub fn new(
        allowed: impl Into<String>,
        read: impl Fn(&Setting<'_>) -> Option<T> + 'static,
        write: impl Fn(&T) -> String + 'static,
    ) -> Self {
        Format {
            read: Box::new(read),
            write: Box::new(write),
            allowed: allowed.into(),
            example: None,
            rows: |_| Vec::new(),
            about: &[],
        }
    }

    /// The default file shows `example`, as TOML, where there is no value.
    pub fn such_as(self, example: &str) -> Self {
        Format { example: Some(example.to_owned()), ..self }
    }

    /// The default file shows no example.
    pub fn unlisted(self) -> Self {
        Format { example: None, ..self }
    }

    /// The reference lists the values of `listed`; the others are read to be refused in words of their own.
    pub fn listed_as(self, listed: Format<T>) -> Self {
        Format { allowed: listed.allowed, ..self }
    }

    /// A number may stand without quotes: codes are written both ways. The default file shows no example.
    pub fn or_number(self) -> Self {
        let read = self.read;
        let read = move |setting: &Setting<'_>| match setting.value() {
            Value::Integer(number) => setting.read_as_text(number.to_string(), &read),
            _ => read(setting),
        };
        Format { read: Box::new(read), example: None, ..self }
    }

    pub fn written_as(self, write: fn(&T) -> String) -> Self {
        Format { write: Box::new(write), ..self }
    }

    /// Reads a value; a fault is reported at its place.
    pub fn read(&self, setting: &Setting<'_>) -> Option<T> {
        (self.read)(setting)
    }

    /// Writes a value as TOML, secrets hidden.
    pub fn write(&self, value: &T) -> String {
        (self.write)(value)
    }

    /// Describes one key. A table without documentation of its own has that of its section.
    pub fn row(self, key: &'static str, doc: &'static [&'static str], value: Option<&T>) -> Row {
        Row {
            key,
            doc: if doc.is_empty() { self.about } else { doc },
            value: value.map(|value| self.write(value)),
            rows: (self.rows)(value),
            allowed: self.allowed,
            example: self.example,
        }
    }
}

/// A string of TOML.
pub fn quote(words: &str) -> String {
    toml::Value::from(words).to_string()
}

/// A key of TOML: bare where that is allowed.
pub fn quote_key(name: &str) -> String {
    let bare =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if bare { name.to_owned() } else { quote(name) }
}

fn inline_table(entries: impl Iterator<Item = (String, String)>) -> String {
    let entries: Vec<_> = entries.map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", entries.join(", "))
}

/// Text that `parse` reads; `show` may show less than was written.
pub fn custom<T: 'static>(
    example: &'static str,
    parse: fn(&Text) -> Result<T, String>,
    show: fn(&T) -> String,
) -> Format<T> {
    let read = move |setting: &Setting<'_>| match setting.value() {
        Value::Text(text) => setting.accept(parse(text)),
        _ => setting.expect(&format!("a string, such as {}", quote(example))),
    };
    let example = quote(example);
    Format::new(format!("text, such as `{example}`"), read, move |value| quote(&show(value)))
        .such_as(&example)
}

pub fn text(example: &'static str) -> Format<String> {
    custom(example, |written| Ok(written.text.clone()), Clone::clone)
}

pub fn path(example: &'static str) -> Format<PathBuf> {
    custom(example, |written| Ok(PathBuf::from(&written.text)), |path| path.display().to_string())
}

/// Text that is never shown.
pub fn secret(example: &'static str) -> Format<Secret> {
    custom(example, |written| Ok(Secret::new(&written.text)), |_| "***".to_owned())
}

/// Text that has a type of its own.
pub fn parsed<T: FromStr<Err: Display> + Display + 'static>(example: &'static str) -> Format<T> {
    custom(example, |written| written.text.parse().map_err(|error: T::Err| error.to_string()), T::to_string)
}

/// One of some words; `what` is what they are.
pub fn word<T: Clone + PartialEq + 'static>(
    what: &'static str,
    words: impl IntoIterator<Item = (&'static str, T)>,
) -> Format<T> {
    let words: Vec<_> = words.into_iter().collect();
    let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    let allowed: Vec<_> = names.iter().map(|word| format!("`\"{word}\"`")).collect();
    let known = words.clone();
    let read = move |setting: &Setting<'_>| {
        let Value::Text(Text { text, .. }) = setting.value() else {
            return setting.expect(&format!("a string, such as \"{}\"", names[0]));
        };
        let value = known.iter().find(|(word, _)| word == text).map(|(_, value)| value.clone());
        value.or_else(|| {
            let advice = suggestion(text, names.iter().copied(), "ones");
            setting.refuse(format_args!("there is no {what} `{text}`; {advice}"))
        })
    };
    let write =
        move |value: &T| quote(words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word));
    Format::new(allowed.join(", "), read, write)
}

/// One of some names, kept as it is.
pub fn name<const COUNT: usize>(what: &'static str, names: [&'static str; COUNT]) -> Format<&'static str> {
    word(what, names.map(|name| (name, name)))
}

/// Text for a quantity between two bounds; `needs_unit` is the fault of a bare number.
fn quantity<T: PartialOrd + 'static, E: ToString + 'static>(
    what: &'static str,
    example: &'static str,
    range: RangeInclusive<T>,
    parse: fn(&str) -> Result<T, E>,
    show: fn(&T) -> String,
    needs_unit: fn(i128) -> String,
) -> Format<T> {
    let (low, high) = (show(range.start()), show(range.end()));
    let allowed = format!("{what}, {low} to {high}");
    let read = move |setting: &Setting<'_>| match setting.value() {
        Value::Text(text) => {
            let value = setting.accept(parse(&text.text))?;
            if range.contains(&value) {
                return Some(value);
            }
            let shown = show(&value);
            setting.refuse(format_args!("`{shown}` is out of bounds; write \"{low}\" to \"{high}\""))
        }
        Value::Integer(number) => setting.refuse(needs_unit(*number)),
        _ => setting.expect(&format!("a {what}, such as \"{example}\"")),
    };
    Format::new(allowed, read, move |value| quote(&show(value)))
}

pub fn duration(range: RangeInclusive<Duration>) -> Format<Duration> {
    let show = |duration: &Duration| show_duration(*duration);
    quantity("duration", "30s", range, parse_duration, show, |number| match number {
        ..0 => "a duration is not negative and needs a unit; write one such as \"30s\"".to_owned(),
        _ => format!("a duration needs a unit; write \"{number}s\" or \"{number}ms\""),
    })
}

/// A number of bytes.
pub fn size(range: RangeInclusive<u64>) -> Format<u64> {
    quantity(
        "size",
        "64MiB",
        range,
        parse_size,
        |size| show_size(*size),
        |number| format!("a size needs a unit; write \"{number}B\" or \"{number}MiB\""),
    )
}

/// A whole number.
pub fn count<T: TryFrom<u64> + Display + 'static>(range: RangeInclusive<u64>) -> Format<T> {
    let bounds = format!("{} to {}", range.start(), range.end());
    let allowed = format!("whole number, {bounds}");
    let read = move |setting: &Setting<'_>| {
        let number = match setting.value() {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) if text.loose => text.text.trim().parse().ok(),
            _ => None,
        };
        let number =
            number.filter(|number| range.contains(number)).and_then(|number| T::try_from(number).ok());
        number.or_else(|| setting.refuse(format_args!("write a whole number from {bounds}")))
    };
    Format::new(allowed, read, T::to_string)
}

/// Any number.
pub fn number(example: &'static str) -> Format<f64> {
    let read = move |setting: &Setting<'_>| {
        let number = match setting.value() {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Text(text) if text.loose => text.text.trim().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| number.is_finite());
        number.or_else(|| setting.refuse(format_args!("write a number, such as {example}")))
    };
    Format::new(format!("number, such as `{example}`"), read, f64::to_string)
}

/// `true` or `false`.
pub fn switch() -> Format<bool> {
    let read = |setting: &Setting<'_>| match setting.value() {
        Value::Boolean(on) => Some(*on),
        Value::Text(text) if text.loose && text.text == "true" => Some(true),
        Value::Text(text) if text.loose && text.text == "false" => Some(false),
        _ => setting.refuse("write true or false, without quotes"),
    };
    Format::new("`true` or `false`", read, bool::to_string)
}

/// A list, each item in the same format; `example` is a list as TOML. Items that cannot be read are left out.
pub fn list<T: 'static>(item: Format<T>, example: &'static str) -> Format<Vec<T>> {
    let Format { read, write, .. } = item;
    let read = move |setting: &Setting<'_>| match setting.items() {
        Some(items) => Some(items.filter_map(|item| read(&item)).collect()),
        None => setting.expect(&format!("a list, such as {example}")),
    };
    let write =
        move |values: &Vec<T>| format!("[{}]", values.iter().map(&write).collect::<Vec<_>>().join(", "));
    Format::new(format!("list, such as `{example}`"), read, write)
}

/// A [`list`] in which one item may stand without the brackets.
pub fn one_or_list<T: 'static>(item: fn() -> Format<T>, example: &'static str) -> Format<Vec<T>> {
    let Format { read, write, allowed, .. } = list(item(), example);
    let read = move |setting: &Setting<'_>| match setting.items() {
        Some(_) => read(setting),
        None => Some(vec![item().read(setting)?]),
    };
    Format::new(allowed, read, write)
}

/// A list of tables, one a line.
pub fn tables<S: Section + 'static>(example: &'static str) -> Format<Vec<S>> {
    let write = |values: &Vec<S>| {
        let lines: String = values.iter().map(|value| format!("  {},\n", table().write(value))).collect();
        format!("[\n{lines}]")
    };
    let Format { read, allowed, .. } = list(table::<S>(), example);
    Format { rows: |_| defaults::<S>().rows(), ..Format::new(allowed, read, write) }
}

/// Values by names that the author chooses.
pub type Named<T> = BTreeMap<String, T>;

/// A table of values in the same format, by any name.
pub fn named<T: 'static>(item: Format<T>) -> Format<Named<T>> {
    let Format { read, write, .. } = item;
    let read = move |setting: &Setting<'_>| {
        let entries = setting.table()?;
        let read = |(name, value): (&String, Setting<'_>)| Some((name.clone(), read(&value)?));
        Some(entries.entries().filter_map(read).collect())
    };
    let write = move |values: &Named<T>| {
        inline_table(values.iter().map(|(name, value)| (quote_key(name), write(value))))
    };
    Format::new("table", read, write)
}

/// Sections of the same shape, by any name.
pub fn named_tables<S: Section + 'static>() -> Format<Named<S>> {
    Format { rows: |_| defaults::<S>().rows(), about: S::ABOUT, ..named(table::<S>()) }
}

/// A table with keys of its own.
pub fn table<S: Section + 'static>() -> Format<S> {
    let read = |setting: &Setting<'_>| {
        let reader = setting.table()?;
        let section = S::read(&reader);
        reader.close();
        Some(section)
    };
    let write = |value: &S| {
        inline_table(value.rows().into_iter().filter_map(|row| Some((row.key.to_owned(), row.value?))))
    };
    let rows = |value: Option<&S>| value.map_or_else(|| defaults::<S>().rows(), S::rows);
    Format { rows, about: S::ABOUT, ..Format::new("table", read, write) }
}

/// A table whose keys are read elsewhere.
pub fn any_table() -> Format<()> {
    Format::new("table", |setting| setting.table().map(drop), |()| "{}".to_owned())
}

/// A part that is on with its terms, or off.
#[derive(Clone, Debug)]
pub enum Switchable<S> {
    Off,
    /// `None` where only `true` is written.
    On(Option<S>),
}

/// `false`, `true` or a table with terms.
pub fn switchable<S: Section + 'static>() -> Format<Switchable<S>> {
    let read = |setting: &Setting<'_>| match setting.value() {
        Value::Table(_) => Some(Switchable::On(Some(table().read(setting)?))),
        _ => Some(if switch().read(setting)? { Switchable::On(None) } else { Switchable::Off }),
    };
    let write = |value: &Switchable<S>| match value {
        Switchable::Off => "false".to_owned(),
        Switchable::On(None) => "true".to_owned(),
        Switchable::On(Some(terms)) => table().write(terms),
    };
    Format { rows: |_| defaults::<S>().rows(), ..Format::new("table, `true` or `false`", read, write) }
}
