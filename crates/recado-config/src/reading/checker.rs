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

    /// The faults and the warnings.
    pub fn into_findings(self) -> (Vec<Fault>, Vec<Fault>) {
        (self.faults.into_inner(), self.warnings.into_inner())
    }
}
