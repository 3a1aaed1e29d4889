//! Takes settings out of a tree and reports every fault at once.
//!
//! A [`Reader`] is asked for the keys that its table may have. The keys that it was not asked for when it is closed are
//! unknown, and that is a fault too: a setting without effect misleads its author.

use std::cell::RefCell;

use crate::reading::checker::Checker;
use crate::reading::fault::suggestion;
use crate::reading::tree::{Entry, Node, Table, Text, Value};

/// A table, while it is read.
#[derive(Debug)]
pub struct Reader<'t> {
    path: String,
    table: &'t Table,
    asked: RefCell<Vec<&'static str>>,
    checker: &'t Checker,
}

impl<'t> Reader<'t> {
    pub fn root(checker: &'t Checker) -> Self {
        Reader { path: String::new(), table: checker.settings(), asked: RefCell::default(), checker }
    }

    fn setting(&self, name: &str, entry: &'t Entry) -> Setting<'t> {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Setting { path, node: &entry.node, checker: self.checker }
    }

    /// Reads one key, if it is written.
    pub fn get<T>(&self, key: &'static str, read: impl FnOnce(&Setting<'t>) -> Option<T>) -> Option<T> {
        self.asked.borrow_mut().push(key);
        read(&self.setting(key, self.table.0.get(key)?))
    }

    /// Every entry by its name: `[routes.<name>]`, headers.
    pub fn entries(&self) -> impl Iterator<Item = (&'t String, Setting<'t>)> {
        self.table.0.iter().map(|(name, entry)| (name, self.setting(name, entry)))
    }

    /// Reports keys that were not read.
    pub fn close(self) {
        let known = self.asked.borrow();
        for (name, entry) in self.table.0.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let within = if self.path.is_empty() { String::new() } else { format!(" in [{}]", self.path) };
            let advice = suggestion(name, known.iter().copied(), "keys");
            let message = format!("there is no key `{name}`{within}; {advice}");
            self.checker.fault_at(&entry.key, &self.setting(name, entry).path, message);
        }
    }
}

/// One value, while it is read.
#[derive(Debug)]
pub struct Setting<'t> {
    pub path: String,
    node: &'t Node,
    checker: &'t Checker,
}

impl<'t> Setting<'t> {
    pub fn value(&self) -> &'t Value {
        &self.node.value
    }

    /// Reads other text as if it stood here.
    pub fn read_as_text<T>(&self, text: String, read: impl Fn(&Setting<'_>) -> Option<T>) -> Option<T> {
        let node = Node { place: self.node.place.clone(), value: Value::Text(Text::loose(text)) };
        read(&Setting { path: self.path.clone(), node: &node, checker: self.checker })
    }

    /// Reports a fault; the value counts as absent.
    pub fn refuse<T>(&self, message: impl ToString) -> Option<T> {
        self.checker.fault_at(&self.node.place, &self.path, message);
        None
    }

    /// Reports the fault of a value that could not be read.
    pub fn accept<T, E: ToString>(&self, read: Result<T, E>) -> Option<T> {
        read.or_else(|error| self.refuse(error.to_string()).ok_or(())).ok()
    }

    /// Reports a fault of a key below, or of this value where that key is not written.
    pub fn refuse_below(&self, key: &str, message: impl ToString) {
        let scope = self.checker.scope(&self.path);
        scope.fault(scope.written(key), message);
    }

    /// Reports a value of the wrong type.
    pub fn expect<T>(&self, wanted: &str) -> Option<T> {
        self.refuse(format_args!("{} stands here; write {wanted}", self.value().kind()))
    }

    /// The items, if it is a list.
    pub fn items(&self) -> Option<impl Iterator<Item = Setting<'t>>> {
        let Value::List(items) = self.value() else { return None };
        let item = |(at, node)| Setting { path: format!("{}[{at}]", self.path), node, checker: self.checker };
        Some(items.iter().enumerate().map(item))
    }

    pub fn table(&self) -> Option<Reader<'t>> {
        match self.value() {
            Value::Table(table) => Some(Reader {
                path: self.path.clone(),
                table,
                asked: RefCell::default(),
                checker: self.checker,
            }),
            _ => self.expect(&format!("a table, such as [{}]", self.path)),
        }
    }
}
