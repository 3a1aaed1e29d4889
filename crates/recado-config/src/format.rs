//! Formats of values: each reads a value with its checks, writes it as TOML and says in words what it takes.

use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use recado_core::time::{parse_duration, show_duration};

use crate::Secret;
use crate::fault::suggestion;
use crate::reader::Setting;
use crate::table::{Row, Section, defaults};
use crate::tree::{Text, Value};
use crate::units::{parse_size, show_size};

pub trait Format {
    type Value;

    /// Reads a value; a fault is reported at its place.
    fn read(&self, setting: &Setting<'_>) -> Option<Self::Value>;

    /// Writes a value as TOML, secrets hidden.
    fn write(&self, value: &Self::Value) -> String;

    /// The values that it takes, in words.
    fn allowed(&self) -> String;

    /// A value as TOML that the default file shows where there is none.
    fn example(&self) -> Option<String> {
        None
    }

    /// The keys of a table and what the table is for.
    fn rows(&self, _value: Option<&Self::Value>) -> Vec<Row> {
        Vec::new()
    }

    fn about(&self) -> &'static [&'static str] {
        &[]
    }

    /// The default file shows `example`, as TOML, where there is no value.
    fn such_as(self, example: &'static str) -> Listed<Self>
    where
        Self: Sized,
    {
        Listed { format: self, example }
    }
}

/// A format with an example for the default file.
pub struct Listed<F> {
    format: F,
    example: &'static str,
}

impl<F: Format> Format for Listed<F> {
    type Value = F::Value;

    fn read(&self, setting: &Setting<'_>) -> Option<F::Value> {
        self.format.read(setting)
    }

    fn write(&self, value: &F::Value) -> String {
        self.format.write(value)
    }

    fn allowed(&self) -> String {
        self.format.allowed()
    }

    fn example(&self) -> Option<String> {
        Some(self.example.to_owned())
    }

    fn rows(&self, value: Option<&F::Value>) -> Vec<Row> {
        self.format.rows(value)
    }
}

/// Describes one key. A table that stands without documentation of its own has that of its section.
pub fn row<F: Format>(
    key: &'static str,
    doc: &'static [&'static str],
    format: &F,
    value: Option<&F::Value>,
) -> Row {
    Row {
        key,
        doc: if doc.is_empty() { format.about() } else { doc },
        allowed: format.allowed(),
        example: format.example(),
        value: value.map(|value| format.write(value)),
        rows: format.rows(value),
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

/// A string that means something.
pub struct TextFormat<T> {
    example: &'static str,
    parse: fn(&Text) -> Result<T, String>,
    show: fn(&T) -> String,
    listed: bool,
    numbers: Numbers,
}

/// Numbers where text is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Refused,
    Read,
    ReadAndWritten,
}

impl<T> TextFormat<T> {
    fn new(example: &'static str, parse: fn(&Text) -> Result<T, String>, show: fn(&T) -> String) -> Self {
        TextFormat { example, parse, show, listed: true, numbers: Numbers::Refused }
    }

    /// The default file does not show an example.
    pub fn unlisted(self) -> Self {
        TextFormat { listed: false, ..self }
    }

    /// A number may stand without quotes.
    pub fn or_number(self) -> Self {
        TextFormat { numbers: Numbers::Read, ..self }
    }

    /// The same, and a number is written without quotes, too.
    pub fn or_bare_number(self) -> Self {
        TextFormat { numbers: Numbers::ReadAndWritten, ..self }
    }
}

pub fn text(example: &'static str) -> TextFormat<String> {
    TextFormat::new(example, |written| Ok(written.text.clone()), Clone::clone)
}

pub fn path(example: &'static str) -> TextFormat<PathBuf> {
    TextFormat::new(example, |written| Ok(PathBuf::from(&written.text)), |path| path.display().to_string())
}

/// Text that is never shown.
pub fn secret(example: &'static str) -> TextFormat<Secret> {
    TextFormat::new(example, |written| Ok(Secret::new(&written.text)), |_| "***".to_owned())
}

/// Text that has a type of its own.
pub fn parsed<T: FromStr<Err: Display> + Display>(example: &'static str) -> TextFormat<T> {
    TextFormat::new(
        example,
        |written| written.text.parse().map_err(|error: T::Err| error.to_string()),
        T::to_string,
    )
}

/// Text that `parse` reads; it may show less than was written.
pub fn custom<T>(
    example: &'static str,
    parse: fn(&Text) -> Result<T, String>,
    show: fn(&T) -> String,
) -> TextFormat<T> {
    TextFormat::new(example, parse, show)
}

impl<T> Format for TextFormat<T> {
    type Value = T;

    fn read(&self, setting: &Setting<'_>) -> Option<T> {
        let read = match setting.value() {
            Value::Text(text) => (self.parse)(text),
            Value::Integer(number) if self.numbers != Numbers::Refused => {
                (self.parse)(&Text { text: number.to_string(), written: None, loose: true })
            }
            _ => return setting.expect(&format!("a string, such as {}", quote(self.example))),
        };
        read.or_else(|message| setting.refuse::<T>(message).ok_or(())).ok()
    }

    fn write(&self, value: &T) -> String {
        let shown = (self.show)(value);
        let is_number = shown.bytes().all(|byte| byte.is_ascii_digit());
        if self.numbers == Numbers::ReadAndWritten && is_number { shown } else { quote(&shown) }
    }

    fn allowed(&self) -> String {
        format!("text, such as `{}`", quote(self.example))
    }

    fn example(&self) -> Option<String> {
        self.listed.then(|| quote(self.example))
    }
}

/// One of some words.
pub struct WordFormat<T> {
    what: &'static str,
    words: Vec<(&'static str, T)>,
}

/// One of some words; `what` is what they are.
pub fn word<T>(what: &'static str, words: impl IntoIterator<Item = (&'static str, T)>) -> WordFormat<T> {
    WordFormat { what, words: words.into_iter().collect() }
}

impl<T: Clone + PartialEq> Format for WordFormat<T> {
    type Value = T;

    fn read(&self, setting: &Setting<'_>) -> Option<T> {
        let Value::Text(Text { text, .. }) = setting.value() else {
            return setting.expect(&format!("a string, such as \"{}\"", self.words[0].0));
        };
        if let Some((_, value)) = self.words.iter().find(|(word, _)| word == text) {
            return Some(value.clone());
        }
        let words: Vec<_> = self.words.iter().map(|(word, _)| *word).collect();
        let advice = suggestion(text, words, "ones");
        setting.refuse(format_args!("there is no {} `{text}`; {advice}", self.what))
    }

    fn write(&self, value: &T) -> String {
        quote(self.words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word))
    }

    fn allowed(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|(word, _)| format!("`\"{word}\"`")).collect();
        words.join(", ")
    }
}

/// A length of time between two bounds.
pub struct DurationFormat(RangeInclusive<Duration>);

fn within<T: PartialOrd>(
    range: &RangeInclusive<T>,
    value: T,
    show: impl Fn(&T) -> String,
    setting: &Setting<'_>,
) -> Option<T> {
    if range.contains(&value) {
        return Some(value);
    }
    let (low, high) = (show(range.start()), show(range.end()));
    setting.refuse(format_args!("`{}` is out of bounds; write \"{low}\" to \"{high}\"", show(&value)))
}

pub fn duration(range: RangeInclusive<Duration>) -> DurationFormat {
    DurationFormat(range)
}

impl Format for DurationFormat {
    type Value = Duration;

    fn read(&self, setting: &Setting<'_>) -> Option<Duration> {
        let duration = match setting.value() {
            Value::Text(text) => {
                parse_duration(&text.text).or_else(|error| setting.refuse(error).ok_or(())).ok()?
            }
            Value::Integer(number) if *number < 0 => {
                return setting
                    .refuse("a duration is not negative and needs a unit; write one such as \"30s\"");
            }
            Value::Integer(number) => {
                return setting
                    .refuse(format_args!("a duration needs a unit; write \"{number}s\" or \"{number}ms\""));
            }
            _ => return setting.expect("a duration, such as \"30s\""),
        };
        within(&self.0, duration, |duration| show_duration(*duration), setting)
    }

    fn write(&self, value: &Duration) -> String {
        quote(&show_duration(*value))
    }

    fn allowed(&self) -> String {
        format!("duration, {} to {}", show_duration(*self.0.start()), show_duration(*self.0.end()))
    }
}

/// A number of bytes between two bounds.
pub struct SizeFormat(RangeInclusive<u64>);

pub fn size(range: RangeInclusive<u64>) -> SizeFormat {
    SizeFormat(range)
}

impl Format for SizeFormat {
    type Value = u64;

    fn read(&self, setting: &Setting<'_>) -> Option<u64> {
        let size = match setting.value() {
            Value::Text(text) => {
                parse_size(&text.text).or_else(|error| setting.refuse(error).ok_or(())).ok()?
            }
            Value::Integer(number) => {
                return setting
                    .refuse(format_args!("a size needs a unit; write \"{number}B\" or \"{number}MiB\""));
            }
            _ => return setting.expect("a size, such as \"64MiB\""),
        };
        within(&self.0, size, |size| show_size(*size), setting)
    }

    fn write(&self, value: &u64) -> String {
        quote(&show_size(*value))
    }

    fn allowed(&self) -> String {
        format!("size, {} to {}", show_size(*self.0.start()), show_size(*self.0.end()))
    }
}

/// A whole number.
pub struct CountFormat<T> {
    range: RangeInclusive<u64>,
    quoted: bool,
    number: PhantomData<T>,
}

pub fn count<T>(range: RangeInclusive<u64>) -> CountFormat<T> {
    CountFormat { range, quoted: false, number: PhantomData }
}

impl<T> CountFormat<T> {
    /// It may stand in quotes.
    pub fn or_quoted(self) -> Self {
        CountFormat { quoted: true, ..self }
    }
}

impl<T: TryFrom<u64> + Display> Format for CountFormat<T> {
    type Value = T;

    fn read(&self, setting: &Setting<'_>) -> Option<T> {
        let number = match setting.value() {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) if text.loose || self.quoted => text.text.trim().parse().ok(),
            _ => None,
        };
        match number.filter(|number| self.range.contains(number)).and_then(|number| T::try_from(number).ok())
        {
            Some(number) => Some(number),
            None => {
                let (low, high) = (self.range.start(), self.range.end());
                setting.refuse(format_args!("write a whole number from {low} to {high}"))
            }
        }
    }

    fn write(&self, value: &T) -> String {
        value.to_string()
    }

    fn allowed(&self) -> String {
        format!("whole number, {} to {}", self.range.start(), self.range.end())
    }
}

/// Any number.
pub struct NumberFormat {
    example: &'static str,
}

pub fn number(example: &'static str) -> NumberFormat {
    NumberFormat { example }
}

impl Format for NumberFormat {
    type Value = f64;

    fn read(&self, setting: &Setting<'_>) -> Option<f64> {
        let number = match setting.value() {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Text(text) if text.loose => text.text.trim().parse().ok(),
            _ => None,
        };
        match number.filter(|number| number.is_finite()) {
            Some(number) => Some(number),
            None => setting.refuse(format_args!("write a number, such as {}", self.example)),
        }
    }

    fn write(&self, value: &f64) -> String {
        value.to_string()
    }

    fn allowed(&self) -> String {
        format!("number, such as `{}`", self.example)
    }
}

/// `true` or `false`.
pub struct SwitchFormat;

pub fn switch() -> SwitchFormat {
    SwitchFormat
}

impl Format for SwitchFormat {
    type Value = bool;

    fn read(&self, setting: &Setting<'_>) -> Option<bool> {
        match setting.value() {
            Value::Boolean(on) => Some(*on),
            Value::Text(text) if text.loose && text.text == "true" => Some(true),
            Value::Text(text) if text.loose && text.text == "false" => Some(false),
            _ => setting.refuse("write true or false, without quotes"),
        }
    }

    fn write(&self, value: &bool) -> String {
        value.to_string()
    }

    fn allowed(&self) -> String {
        "`true` or `false`".to_owned()
    }
}

/// A list, each item in the same format. Items that cannot be read are reported and left out.
pub struct ListFormat<F> {
    item: F,
    /// A list as TOML.
    example: &'static str,
    single: bool,
}

pub fn list<F: Format>(item: F, example: &'static str) -> ListFormat<F> {
    ListFormat { item, example, single: false }
}

impl<F> ListFormat<F> {
    /// One item may stand without the brackets.
    pub fn or_single(self) -> Self {
        ListFormat { single: true, ..self }
    }
}

impl<F: Format> Format for ListFormat<F> {
    type Value = Vec<F::Value>;

    fn read(&self, setting: &Setting<'_>) -> Option<Vec<F::Value>> {
        match setting.value() {
            Value::List(items) => {
                Some(setting.items(items).filter_map(|item| self.item.read(&item)).collect())
            }
            _ if self.single => Some(vec![self.item.read(setting)?]),
            _ => setting.expect(&format!("a list, such as {}", self.example)),
        }
    }

    fn write(&self, value: &Vec<F::Value>) -> String {
        let items: Vec<_> = value.iter().map(|item| self.item.write(item)).collect();
        match self.item.rows(None).is_empty() {
            true => format!("[{}]", items.join(", ")),
            false => format!("[\n  {},\n]", items.join(",\n  ")),
        }
    }

    fn allowed(&self) -> String {
        format!("list, such as `{}`", self.example)
    }

    fn rows(&self, _value: Option<&Self::Value>) -> Vec<Row> {
        self.item.rows(None)
    }
}

/// Values by names that the author chooses.
pub type Named<T> = Vec<(String, T)>;

/// A table of values in the same format, by any name.
pub struct NamedFormat<F>(F);

pub fn named<F: Format>(item: F) -> NamedFormat<F> {
    NamedFormat(item)
}

impl<F: Format> Format for NamedFormat<F> {
    type Value = Named<F::Value>;

    fn read(&self, setting: &Setting<'_>) -> Option<Named<F::Value>> {
        let entries = setting.table()?;
        let read = |(name, value): (&String, Setting<'_>)| Some((name.clone(), self.0.read(&value)?));
        Some(entries.entries().filter_map(read).collect())
    }

    fn write(&self, value: &Named<F::Value>) -> String {
        inline_table(value.iter().map(|(name, value)| (quote_key(name), self.0.write(value))))
    }

    fn allowed(&self) -> String {
        "table".to_owned()
    }

    fn rows(&self, _value: Option<&Self::Value>) -> Vec<Row> {
        self.0.rows(None)
    }

    fn about(&self) -> &'static [&'static str] {
        self.0.about()
    }
}

/// A table with keys of its own.
pub struct TableFormat<S>(PhantomData<S>);

pub fn table<S: Section>() -> TableFormat<S> {
    TableFormat(PhantomData)
}

impl<S: Section> Format for TableFormat<S> {
    type Value = S;

    fn read(&self, setting: &Setting<'_>) -> Option<S> {
        let reader = setting.table()?;
        let section = S::read(&reader);
        reader.close();
        Some(section)
    }

    fn write(&self, value: &S) -> String {
        let written = value.rows().into_iter().filter_map(|row| Some((row.key.to_owned(), row.value?)));
        inline_table(written)
    }

    fn allowed(&self) -> String {
        "table".to_owned()
    }

    fn rows(&self, value: Option<&S>) -> Vec<Row> {
        value.map_or_else(|| defaults::<S>().rows(), S::rows)
    }

    fn about(&self) -> &'static [&'static str] {
        S::ABOUT
    }
}

/// A table whose keys are read elsewhere.
pub struct AnyTable;

impl Format for AnyTable {
    type Value = ();

    fn read(&self, setting: &Setting<'_>) -> Option<()> {
        setting.table().map(drop)
    }

    fn write(&self, (): &()) -> String {
        "{}".to_owned()
    }

    fn allowed(&self) -> String {
        "table".to_owned()
    }
}

/// A part that is on with its terms, or off.
#[derive(Clone, Debug)]
pub enum Switchable<S> {
    Off,
    /// `None` where only `true` is written.
    On(Option<S>),
}

/// `false`, `true` or a table with terms.
pub struct SwitchableFormat<S>(TableFormat<S>);

pub fn switchable<S: Section>() -> SwitchableFormat<S> {
    SwitchableFormat(table())
}

impl<S: Section> Format for SwitchableFormat<S> {
    type Value = Switchable<S>;

    fn read(&self, setting: &Setting<'_>) -> Option<Switchable<S>> {
        match setting.value() {
            Value::Table(_) => Some(Switchable::On(Some(self.0.read(setting)?))),
            _ => Some(if switch().read(setting)? { Switchable::On(None) } else { Switchable::Off }),
        }
    }

    fn write(&self, value: &Switchable<S>) -> String {
        match value {
            Switchable::Off => "false".to_owned(),
            Switchable::On(None) => "true".to_owned(),
            Switchable::On(Some(terms)) => self.0.write(terms),
        }
    }

    fn allowed(&self) -> String {
        "table, `true` or `false`".to_owned()
    }

    fn rows(&self, _value: Option<&Self::Value>) -> Vec<Row> {
        self.0.rows(None)
    }
}
