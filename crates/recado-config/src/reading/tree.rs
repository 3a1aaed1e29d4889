//! Settings as a tree in which every value knows where it was written.
//!
//! Three layers share this shape: the file, the `[environments.<name>]` table within it, and variables
//! and flags. Later layers are laid over earlier ones, table by table; lists are replaced whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Place, Source};
use super::hidden;

#[derive(Clone, Debug, Default)]
pub struct Table(pub BTreeMap<String, Entry>);

#[derive(Clone, Debug)]
pub struct Entry {
    /// Place of the key.
    pub key: Place,
    pub node: Node,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub place: Place,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub enum Value {
    Text(Text),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Date,
    List(Vec<Node>),
    Table(Table),
}

#[derive(Clone, Debug)]
pub struct Text {
    pub text: String,
    /// The text of the file, where `${NAME}` was replaced: this may be shown.
    pub written: Option<String>,
    /// It comes from a variable or a flag, where everything is text.
    pub loose: bool,
}

impl Text {
    /// Text of a variable or a flag.
    pub fn loose(text: impl Into<String>) -> Self {
        Text { text: text.into(), written: None, loose: true }
    }
}

impl Value {
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Boolean(_) => "true or false",
            Value::Date => "a date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

impl Node {
    /// Visits this value and those below it, each with its path.
    fn visit(&mut self, path: &str, visitor: &mut dyn FnMut(&str, &mut Node)) {
        visitor(path, self);
        match &mut self.value {
            Value::List(items) => {
                let items = items.iter_mut().enumerate();
                items.for_each(|(at, item)| item.visit(&format!("{path}[{at}]"), visitor));
            }
            Value::Table(table) => {
                table.visit(&mut |below, node| visitor(&format!("{path}.{below}"), node));
            }
            _ => {}
        }
    }

    fn place_below(&self, rest: &str) -> Option<&Place> {
        match &self.value {
            _ if rest.is_empty() => Some(&self.place),
            Value::Table(table) => table.place(rest.strip_prefix('.')?),
            Value::List(items) => {
                let (index, rest) = rest.strip_prefix('[')?.split_once(']')?;
                items.get(index.parse::<usize>().ok()?)?.place_below(rest)
            }
            _ => None,
        }
    }
}

/// Reads a file. Every fault of its syntax is told.
pub fn parse(source: &Source) -> Result<Table, Vec<Fault>> {
    let (document, errors) = DeTable::parse_recoverable(&source.text);
    if errors.is_empty() {
        return Ok(table(document.get_ref(), &Place::file));
    }
    let fault = |error: &toml::de::Error| Fault {
        place: error.span().map_or(Place::Nowhere, Place::file),
        path: String::new(),
        message: format!("this is not TOML: {}", error.message()),
    };
    // One slip often makes the parser stumble several times on the same line; the first says it best.
    let mut lines = BTreeSet::new();
    let first_of_line = |error: &&toml::de::Error| {
        let before = &source.text[..error.span().map_or(0, |span| span.start).min(source.text.len())];
        lines.insert(before.matches('\n').count())
    };
    Err(errors.iter().filter(first_of_line).map(fault).collect())
}

/// Gives bytes of the text that is parsed their place.
type PlaceOf<'a> = &'a dyn Fn(Range<usize>) -> Place;

fn table(table: &DeTable<'_>, place: PlaceOf<'_>) -> Table {
    let entries = table.iter().map(|(key, value)| {
        (key.get_ref().to_string(), Entry { key: place(key.span()), node: node(value, place) })
    });
    Table(entries.collect())
}

fn node(value: &Spanned<DeValue<'_>>, place: PlaceOf<'_>) -> Node {
    let read = match value.get_ref() {
        DeValue::String(text) => Value::Text(Text { text: text.to_string(), written: None, loose: false }),
        DeValue::Integer(number) => {
            Value::Integer(i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX))
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(on) => Value::Boolean(*on),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(list) => Value::List(list.iter().map(|item| node(item, place)).collect()),
        DeValue::Table(inner) => Value::Table(table(inner, place)),
    };
    Node { place: place(value.span()), value: read }
}

/// One value of TOML, for a variable that holds a list or a table. Its parts have no place of their own.
pub fn parse_value(text: &str, place: &Place) -> Option<Value> {
    Some(node(&DeValue::parse(text).ok()?, &|_| place.clone()).value)
}

impl Table {
    /// Lays `over` upon this table.
    pub fn overlay(&mut self, over: Table) {
        for (name, entry) in over.0 {
            match (self.0.get_mut(&name), entry) {
                (
                    Some(Entry { node: Node { value: Value::Table(under), .. }, .. }),
                    Entry { node: Node { value: Value::Table(over), .. }, .. },
                ) => under.overlay(over),
                (_, entry) => {
                    self.0.insert(name, entry);
                }
            }
        }
    }

    pub fn get_table(&self, name: &str) -> Option<&Table> {
        match &self.0.get(name)?.node.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The place of the value at a path such as `routes.email.classify[0].as`; of a table, the place of its name.
    /// Names may hold dots, so every name that the path begins with is followed.
    pub fn place(&self, path: &str) -> Option<&Place> {
        self.0.iter().find_map(|(name, Entry { key, node })| {
            match (path.strip_prefix(name.as_str())?, &node.value) {
                ("", Value::Table(_)) => Some(key),
                (rest, _) => node.place_below(rest),
            }
        })
    }

    /// Puts a value at a path, making the tables on the way.
    pub fn put(&mut self, path: &[&str], node: Node) {
        let within_table = |node: Node, name: &&str| {
            let (key, place) = (node.place.clone(), node.place.clone());
            let entries = BTreeMap::from([((*name).to_owned(), Entry { key, node })]);
            Node { place, value: Value::Table(Table(entries)) }
        };
        if let Value::Table(table) = path.iter().rfold(node, within_table).value {
            self.overlay(table);
        }
    }

    /// Visits every value, each with its path.
    fn visit(&mut self, visitor: &mut dyn FnMut(&str, &mut Node)) {
        self.0.iter_mut().for_each(|(name, entry)| entry.node.visit(name, visitor));
    }

    /// Replaces `${NAME}` in every string. The settings of environments are left alone: those of this one have been laid
    /// over already. Returns a fault for each variable that is not set.
    pub fn expand(&mut self, lookup: &dyn Fn(&str) -> Option<String>) -> Vec<Fault> {
        let mut faults = Vec::new();
        self.visit(&mut |path, node| match &mut node.value {
            Value::Text(text) if !text.loose && path.split('.').next() != Some("environments") => {
                match replace(&text.text, lookup) {
                    Ok(replaced) if replaced == text.text => {}
                    Ok(replaced) => text.written = Some(std::mem::replace(&mut text.text, replaced)),
                    Err(message) => {
                        faults.push(Fault { place: node.place.clone(), path: path.to_owned(), message });
                    }
                }
            }
            _ => {}
        });
        faults
    }

    /// Bytes of the file that hold secrets.
    pub fn secrets(&mut self, source: &Source) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.visit(&mut |path, node| found.extend(secret(path, node, source)));
        found
    }
}

/// `${NAME}` becomes the variable's value, `$${` a plain `${`; any other dollar stays.
fn replace(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            done.push_str(&rest[..at - 1]);
            done.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        done.push_str(&rest[..at]);
        let name = rest[at + 2..].split('}').next().unwrap_or_default();
        let shaped = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !shaped || !rest[at + 2 + name.len()..].starts_with('}') {
            return Err(
                "`${` begins a variable, such as ${SMTP_PASSWORD}; write `$${` for the characters themselves"
                    .to_owned(),
            );
        }
        done.push_str(&lookup(name).ok_or_else(|| {
            format!("the environment variable {name} is not set; set it, or write the value here")
        })?);
        rest = &rest[at + 3 + name.len()..];
    }
    done.push_str(rest);
    Ok(done)
}

/// Bytes of the file that hold this value, if it may be a secret.
fn secret(path: &str, node: &Node, source: &Source) -> Option<Range<usize>> {
    let (Value::Text(Text { text, .. }), Place::File { start, end }) = (&node.value, &node.place) else {
        return None;
    };
    let mut names = path.split('.').map(|part| part.split('[').next().unwrap_or_default());
    let is_secret = hidden::may_hold_a_secret(text)
        || names.clone().next_back().is_some_and(hidden::sounds_secret)
        || names.any(hidden::is_secret_table);
    let is_only_a_name = text.starts_with("${") && text.find('}') == Some(text.len() - 1);
    let written = source.text.get(*start..*end).unwrap_or_default();
    let quote = written.len() - written.trim_start_matches(['"', '\'']).len();
    let is_hidden = is_secret && !is_only_a_name && written.len() >= 2 * quote;
    is_hidden.then(|| start + quote..end - quote)
}
