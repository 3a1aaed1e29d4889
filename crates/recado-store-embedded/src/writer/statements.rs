//! The writer's statements, each prepared once.

use std::cell::RefCell;

use rusqlite::{Connection, Params, Row, Statement};

use crate::rows::Result;

/// Prepared statements of one connection.
///
/// A statement is found by the address of its text. The writer runs several for every job, and rusqlite's own cache, which
/// hashes and compares their texts, was a tenth of its work.
pub struct Statements<'f> {
    file: &'f Connection,
    prepared: RefCell<Vec<(&'static str, Statement<'f>)>>,
}

impl<'f> Statements<'f> {
    pub fn new(file: &'f Connection) -> Self {
        Statements { file, prepared: RefCell::default() }
    }

    pub fn execute(&self, sql: &'static str, values: impl Params) -> Result<usize> {
        self.with(sql, |statement| statement.execute(values))
    }

    /// Reads the one row that a statement gives.
    pub fn query_row<T>(
        &self,
        sql: &'static str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with(sql, |statement| statement.query_row(values, read))
    }

    fn with<T>(&self, sql: &'static str, run: impl FnOnce(&mut Statement<'f>) -> Result<T>) -> Result<T> {
        let mut prepared = self.prepared.borrow_mut();
        if let Some((_, statement)) = prepared.iter_mut().find(|(known, _)| std::ptr::eq(*known, sql)) {
            return run(statement);
        }
        let mut statement = self.file.prepare(sql)?;
        let outcome = run(&mut statement);
        prepared.push((sql, statement));
        outcome
    }
}
