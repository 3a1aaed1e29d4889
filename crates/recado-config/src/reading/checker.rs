//! Collects the faults and warnings of a configuration, each at the place of its key.

use std::cell::RefCell;

use crate::reading::fault::{Fault, Place};
use crate::reading::tree::Table;

/// The settings that are checked, and the findings so far. Checks name a key by its path; the tree knows the line.
#[derive(Debug, Default)]
pub struct Checker {
    settings: Table,
    faults: RefCell<Vec<Fault>>,
    warnings: RefCell<Vec<Fault>>,
}

impl Checker {
    pub fn new(settings: Table) -> Self {
        Checker { settings, ..Checker::default() }
    }

    pub fn settings(&self) -> &Table {
        &self.settings
    }

    /// Returns true if a key is written, rightly or not.
    pub fn has(&self, path: &str) -> bool {
        self.settings.place(path).is_some()
    }

    pub fn fault(&self, path: &str, message: impl ToString) {
        self.faults.borrow_mut().push(self.finding(path, message.to_string()));
    }

    pub fn fault_at(&self, place: &Place, path: &str, message: impl ToString) {
        let fault = Fault { place: place.clone(), path: path.to_owned(), message: message.to_string() };
        self.faults.borrow_mut().push(fault);
    }

    pub fn warn(&self, path: &str, message: impl ToString) {
        self.warnings.borrow_mut().push(self.finding(path, message.to_string()));
    }

    fn finding(&self, path: &str, message: String) -> Fault {
        let place = self.settings.place(path).cloned().unwrap_or_default();
        Fault { place, path: path.to_owned(), message }
    }

    /// The table at this path, for checks that name its keys alone.
    pub fn scope(&self, path: impl Into<String>) -> Scope<'_> {
        Scope { path: path.into(), checker: self }
    }

    /// The faults and the warnings.
    pub fn into_findings(self) -> (Vec<Fault>, Vec<Fault>) {
        (self.faults.into_inner(), self.warnings.into_inner())
    }
}

/// A table under check. Its keys are named without its path; an empty key is the table itself.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    pub path: String,
    pub checker: &'a Checker,
}

impl<'a> Scope<'a> {
    pub fn path(&self, key: &str) -> String {
        if key.is_empty() { self.path.clone() } else { format!("{}.{key}", self.path) }
    }

    /// The table or the list item at this key.
    pub fn below(&self, key: &str) -> Scope<'a> {
        self.checker.scope(self.path(key))
    }

    pub fn has(&self, key: &str) -> bool {
        self.checker.has(&self.path(key))
    }

    /// The key, or the table itself where the key is not written.
    pub fn written<'k>(&self, key: &'k str) -> &'k str {
        if self.has(key) { key } else { "" }
    }

    pub fn fault(&self, key: &str, message: impl ToString) {
        self.checker.fault(&self.path(key), message);
    }

    /// Reports a fault after which nothing can be made of the table.
    pub fn refuse<T>(&self, key: &str, message: impl ToString) -> Option<T> {
        self.fault(key, message);
        None
    }

    /// Reports the fault of a key whose value is not accepted.
    pub fn accept<T, E: ToString>(&self, key: &str, checked: Result<T, E>) -> Option<T> {
        checked.map_err(|error| self.fault(key, error)).ok()
    }
}
