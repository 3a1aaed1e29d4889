//! Taking settings out of a tree so that their author hears of every fault at once.
//!
//! A [`Section`] is asked for the keys it may have; what it was not asked for when it is closed is
//! unknown, and that is a fault too: a setting that does nothing is a setting that misleads.

use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use recado_core::time::{parse_duration, show_duration};

use super::fault::{At, Fault, Place, suggestion};
use super::tree::{Entry, Node, Table, Text, Value};
use crate::units::{parse_size, show_size};

pub type FaultList = RefCell<Vec<Fault>>;

/// A table, while it is being read.
pub struct Section<'t> {
    pub path: String,
    pub place: Place,
    table: &'t Table,
    asked: RefCell<Vec<&'static str>>,
    faults: &'t FaultList,
}

impl<'t> Section<'t> {
    pub fn root(table: &'t Table, faults: &'t FaultList) -> Self {
        Section { path: String::new(), place: Place::Nowhere, table, asked: RefCell::default(), faults }
    }

    /// The section itself as a setting.
    pub fn here<T>(&self, value: T) -> At<T> {
        At { value, path: self.path.clone(), place: self.place.clone() }
    }

    pub fn fault(&self, fault: Fault) {
        self.faults.borrow_mut().push(fault);
    }

    fn path_to(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn setting(&self, key: &str, entry: &'t Entry) -> Setting<'t> {
        Setting { path: self.path_to(key), key: entry.key.clone(), node: &entry.node, faults: self.faults }
    }

    /// Reads one key with `read`, if it is there.
    pub fn get<T>(&self, key: &'static str, read: impl FnOnce(Setting<'t>) -> Option<T>) -> Option<T> {
        self.asked.borrow_mut().push(key);
        read(self.setting(key, self.table.0.get(key)?))
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.0.contains_key(key)
    }

    /// Everything below a key, whatever it is called: `[routes.<name>]`, headers.
    pub fn named<T>(&self, key: &'static str, read: impl Fn(Setting<'t>) -> Option<T>) -> Vec<(String, T)> {
        let Some(section) = self.get(key, Setting::section) else { return Vec::new() };
        let one =
            |(name, entry): (&String, &'t Entry)| Some((name.clone(), read(section.setting(name, entry))?));
        section.table.0.iter().filter_map(one).collect()
    }

    /// Reports keys that were not read.
    pub fn close(self) {
        let known = self.asked.borrow();
        for (name, entry) in self.table.0.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let within = if self.path.is_empty() { String::new() } else { format!(" in [{}]", self.path) };
            let advice = suggestion(name, known.iter().copied(), "keys");
            let at = At { value: (), path: self.path_to(name), place: entry.key.clone() };
            self.fault(at.fault(format!("there is no key `{name}`{within}; {advice}")));
        }
    }
}

/// One value, while it is being read.
pub struct Setting<'t> {
    path: String,
    key: Place,
    node: &'t Node,
    faults: &'t FaultList,
}

impl<'t> Setting<'t> {
    fn at<T>(&self, value: T) -> At<T> {
        At { value, path: self.path.clone(), place: self.node.place.clone() }
    }

    pub fn refuse(&self, message: impl fmt::Display) {
        self.faults.borrow_mut().push(self.at(()).fault(message.to_string()));
    }

    fn wants<T>(&self, what: &str) -> Option<T> {
        self.refuse(format_args!("{} stands here; write {what}", self.node.value.kind()));
        None
    }

    fn plain_text(&self, example: &str) -> Option<&'t Text> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => self.wants(&format!("a string, such as {example}")),
        }
    }

    pub fn text(self, example: &str) -> Option<At<String>> {
        Some(self.at(self.plain_text(example)?.text.clone()))
    }

    /// The text, and how it may be shown when `${NAME}` was replaced in it.
    pub fn text_and_written(self, example: &str) -> Option<At<(String, Option<String>)>> {
        let text = self.plain_text(example)?;
        Some(self.at((text.text.clone(), text.written.clone())))
    }

    /// Text that reads as something.
    pub fn parsed<T: FromStr<Err: fmt::Display>>(self, example: &str) -> Option<At<T>> {
        let value = self.plain_text(example)?.text.parse().map_err(|error| self.refuse(error)).ok()?;
        Some(self.at(value))
    }

    /// A word or a number: codes are written both ways.
    pub fn text_or_number(self, example: &str) -> Option<At<String>> {
        match &self.node.value {
            Value::Integer(number) => Some(self.at(number.to_string())),
            _ => self.text(example),
        }
    }

    /// One of some words; `what` is what they are.
    pub fn choice<T: Copy>(self, what: &str, words: &[(&'static str, T)]) -> Option<At<T>> {
        let text = &self.plain_text(&format!("\"{}\"", words[0].0))?.text;
        if let Some((_, value)) = words.iter().find(|(word, _)| word == text) {
            return Some(self.at(*value));
        }
        let advice = suggestion(text, words.iter().map(|(word, _)| *word), "ones");
        self.refuse(format_args!("there is no {what} `{text}`; {advice}"));
        None
    }

    pub fn duration(self, range: RangeInclusive<Duration>) -> Option<At<Duration>> {
        let duration = match &self.node.value {
            Value::Text(text) => parse_duration(&text.text).map_err(|error| self.refuse(error)).ok()?,
            Value::Integer(number) if *number < 0 => {
                self.refuse(format_args!(
                    "a duration is not negative and needs a unit; write one such as \"30s\""
                ));
                return None;
            }
            Value::Integer(number) => {
                self.refuse(format_args!("a duration needs a unit; write \"{number}s\" or \"{number}ms\""));
                return None;
            }
            _ => return self.wants("a duration, such as \"30s\""),
        };
        self.within(duration, &range, |duration| show_duration(*duration))
    }

    pub fn size(self, range: RangeInclusive<u64>) -> Option<At<u64>> {
        let size = match &self.node.value {
            Value::Text(text) => parse_size(&text.text).map_err(|error| self.refuse(error)).ok()?,
            Value::Integer(number) => {
                self.refuse(format_args!("a size needs a unit; write \"{number}B\" or \"{number}MiB\""));
                return None;
            }
            _ => return self.wants("a size, such as \"64MiB\""),
        };
        self.within(size, &range, |size| show_size(*size))
    }

    fn within<T: PartialOrd>(
        self,
        value: T,
        range: &RangeInclusive<T>,
        show: impl Fn(&T) -> String,
    ) -> Option<At<T>> {
        if range.contains(&value) {
            return Some(self.at(value));
        }
        let (low, high) = (show(range.start()), show(range.end()));
        self.refuse(format_args!("`{}` is out of bounds; write \"{low}\" to \"{high}\"", show(&value)));
        None
    }

    pub fn count(self, range: RangeInclusive<u64>) -> Option<At<u64>> {
        let number = match &self.node.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) if text.loose => text.text.trim().parse().ok(),
            _ => None,
        };
        match number.filter(|number| range.contains(number)) {
            Some(number) => Some(self.at(number)),
            None => {
                self.refuse(format_args!("write a whole number from {} to {}", range.start(), range.end()));
                None
            }
        }
    }

    pub fn number(self, example: &str) -> Option<At<f64>> {
        let number = match &self.node.value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Text(text) if text.loose => text.text.trim().parse().ok(),
            _ => None,
        };
        match number.filter(|number| number.is_finite()) {
            Some(number) => Some(self.at(number)),
            None => {
                self.refuse(format_args!("write a number, such as {example}"));
                None
            }
        }
    }

    pub fn switch(self) -> Option<At<bool>> {
        match &self.node.value {
            Value::Boolean(on) => Some(self.at(*on)),
            Value::Text(text) if text.loose && text.text == "true" => Some(self.at(true)),
            Value::Text(text) if text.loose && text.text == "false" => Some(self.at(false)),
            _ => {
                self.refuse("write true or false, without quotes");
                None
            }
        }
    }

    /// A list, each item read with `read`; items that cannot be read are left out and told.
    pub fn list<T>(self, example: &str, read: impl Fn(Setting<'t>) -> Option<T>) -> Option<At<Vec<T>>> {
        let Value::List(items) = &self.node.value else {
            return self.wants(&format!("a list, such as {example}"));
        };
        let item = |(at, node): (usize, &'t Node)| {
            let path = format!("{}[{at}]", self.path);
            read(Setting { path, key: node.place.clone(), node, faults: self.faults })
        };
        let values = items.iter().enumerate().filter_map(item).collect();
        Some(self.at(values))
    }

    pub fn is_list(&self) -> bool {
        matches!(self.node.value, Value::List(_))
    }

    pub fn is_table(&self) -> bool {
        matches!(self.node.value, Value::Table(_))
    }

    pub fn section(self) -> Option<Section<'t>> {
        match &self.node.value {
            Value::Table(table) => {
                let Setting { path, key: place, faults, .. } = self;
                Some(Section { path, place, table, asked: RefCell::default(), faults })
            }
            _ => self.wants(&format!("a table, such as [{}]", self.path)),
        }
    }
}
