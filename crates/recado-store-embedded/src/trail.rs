//! The trail: written with what it is about, read by whoever archives it, trimmed once it is archived.
//!
//! A row's number is its record's number for good, so the newest row is never removed: the next one would get its
//! number, and what must be forgotten of it is made blank. Rows that came along with a job and are archived elsewhere
//! say so at their beginning; they are there for the job's own trail alone.
//!
//! Which records are about a job is written in the job's own row: a list of numbers, some of which may be trimmed by
//! now. No index over the trail says so, because it would be the dearest part of every settle.

use recado_core::{AuditEvent, JobId};
use recado_store::{AuditRecord, AuditSpan, AuditTrim, Settlement, StoreError};
use rusqlite::{Connection, OptionalExtension, Result, ToSql, params, params_from_iter};

use crate::apply::Apply;
use crate::index::Place;
use crate::rows;

/// Rows that one trim looks at, so that it holds nobody up.
const TRIM_ROWS_MAX: i64 = 1_000;

/// How a row begins whose record is archived elsewhere. A reader that does not know it reads the event all the same.
const ARCHIVED: &str = r#"{"archived":true,"#;

/// Writes as many records as [`TOGETHER`] says, and one.
const RECORDS: &str = "INSERT INTO audit (id, seq, record) VALUES (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), \
                       (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?)";
const RECORD: &str = "INSERT INTO audit (id, seq, record) VALUES (?, ?, ?)";

/// Records that one statement writes: most of what a statement costs is its beginning and its end.
const TOGETHER: usize = 8;

/// Rows of `audit` whose numbers are in the list `?1`.
pub const OF_JOB: &str = "id IN (SELECT value FROM json_each('[' || ?1 || ']'))";

/// A settlement whose record is already as the file keeps it: callers write theirs side by side, and the one writer
/// has less to do.
#[derive(Debug)]
pub struct Settling {
    /// Without its record.
    pub settlement: Settlement,
    pub record: Option<String>,
}

impl Settling {
    pub fn of(mut settlement: Settlement) -> std::result::Result<Self, StoreError> {
        let record = settlement.audit.take().map(|event| rows::json(&event)).transpose();
        let record = record.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Settling { settlement, record })
    }
}

/// Puts records into the trail, several at a time. What waits is written before anybody looks.
pub struct Recorder<'a> {
    file: &'a Connection,
    /// The number of the next record. Many groups have none, and need not ask.
    next: Option<i64>,
    waiting: Vec<Row>,
}

struct Row {
    number: i64,
    seq: Option<u64>,
    record: String,
}

impl<'a> Recorder<'a> {
    pub fn new(file: &'a Connection) -> Self {
        Recorder { file, next: None, waiting: Vec::new() }
    }

    fn put(&mut self, seq: Option<u64>, record: String) -> Result<i64> {
        let number = match self.next {
            Some(next) => next,
            None => self
                .file
                .prepare_cached("SELECT coalesce(max(id), 0) + 1 FROM audit")?
                .query_row([], |row| row.get(0))?,
        };
        self.next = Some(number + 1);
        self.waiting.push(Row { number, seq, record });
        if self.waiting.len() == TOGETHER {
            self.write()?;
        }
        Ok(number)
    }

    pub fn write(&mut self) -> Result<()> {
        let (statement, rows) = match self.waiting.len() {
            0 => return Ok(()),
            TOGETHER => (RECORDS, TOGETHER),
            _ => (RECORD, 1),
        };
        let mut statement = self.file.prepare_cached(statement)?;
        for rows in self.waiting.chunks(rows) {
            let values = rows.iter().flat_map(|row| [&row.number as &dyn ToSql, &row.seq, &row.record]);
            statement.execute(params_from_iter(values))?;
        }
        self.waiting.clear();
        Ok(())
    }
}

impl Apply<'_> {
    pub fn write_audit(&mut self, seq: Option<u64>, event: &AuditEvent) -> Result<()> {
        self.append_to(seq, rows::json(event)?)
    }

    pub fn write_archived(&mut self, seq: u64, event: &AuditEvent) -> Result<()> {
        self.append_to(Some(seq), rows::json(event)?.replacen('{', ARCHIVED, 1))
    }

    fn append_to(&mut self, seq: Option<u64>, record: String) -> Result<()> {
        let number = self.append(seq, record)?;
        self.recorder.write()?;
        if let Some(seq) = seq {
            self.file
                .prepare_cached(
                    "UPDATE jobs SET records = coalesce(records || ',' || ?2, ?2, records) WHERE seq = ?1",
                )?
                .execute(params![seq, number])?;
        }
        Ok(())
    }

    /// The record's number. Whoever calls this writes it into the job's row.
    pub fn append(&mut self, seq: Option<u64>, record: String) -> Result<i64> {
        self.recorder.put(seq, record)
    }

    /// Ended jobs and their records, at once.
    pub fn forget(&mut self, ids: &[JobId]) -> Result<u64> {
        let mut gone = 0;
        for id in ids {
            let id = self.index.digest(id.as_str());
            let Some(Place::Row(seq)) = self.index.find(id) else { continue };
            let removed = self
                .file
                .prepare_cached(
                    "DELETE FROM jobs WHERE seq = ?1 AND status IN ('sent', 'cancelled', 'discarded') \
                     RETURNING records",
                )?
                .query_row([seq], |row| row.get::<_, Option<Box<str>>>(0))
                .optional()?;
            let Some(records) = removed else { continue };
            self.index.forget_row(id);
            self.index.owners.forget(seq);
            self.index.ended.retain(|(_, ended)| *ended != seq);
            if let Some(records) = records {
                self.forget_records(&records)?;
            }
            gone += 1;
        }
        Ok(gone)
    }

    fn forget_records(&self, records: &str) -> Result<()> {
        let newest = self
            .file
            .prepare_cached(&format!(
                "SELECT record FROM audit WHERE id = (SELECT max(id) FROM audit) AND {OF_JOB}"
            ))?
            .query_row([records], |row| rows::audit(row.get_ref(0)?.as_str()?))
            .optional()?;
        if let Some(AuditEvent { route, kind, timestamp, .. }) = newest {
            let blank = rows::json(&AuditEvent::claim("", &route, kind, timestamp))?;
            self.file
                .prepare_cached(
                    "UPDATE audit SET seq = NULL, record = ?1 WHERE id = (SELECT max(id) FROM audit)",
                )?
                .execute([blank.replacen('{', ARCHIVED, 1)])?;
        }
        self.file
            .prepare_cached(&format!(
                "DELETE FROM audit WHERE id < (SELECT max(id) FROM audit) AND {OF_JOB}"
            ))?
            .execute([records])?;
        Ok(())
    }

    pub fn trim_audit(&self, trim: AuditTrim) -> Result<u64> {
        let up_to = i64::try_from(trim.up_to).unwrap_or(i64::MAX);
        // Times are written so that they sort as text. A forgotten job's row may be another job's by now.
        let removed = self
            .file
            .prepare_cached(
                "DELETE FROM audit WHERE id < (SELECT max(id) FROM audit) AND id IN ( \
                   SELECT id FROM (SELECT id, seq, json_extract(record, '$.timestamp') AS at FROM audit \
                                   WHERE id <= ?1 ORDER BY id LIMIT ?4) AS oldest \
                   WHERE at < ?2 \
                      OR (at < ?3 AND NOT EXISTS ( \
                            SELECT 1 FROM jobs WHERE jobs.seq = oldest.seq \
                            AND instr(',' || jobs.records || ',', ',' || oldest.id || ','))))",
            )?
            .execute(params![
                up_to,
                trim.before.to_string(),
                trim.forgotten_before.to_string(),
                TRIM_ROWS_MAX
            ])?;
        Ok(removed as u64)
    }
}

/// What is on record under these numbers, oldest first.
pub fn of_job(file: &Connection, records: &str) -> Result<Vec<AuditEvent>> {
    let mut select = file.prepare_cached(&format!("SELECT record FROM audit WHERE {OF_JOB} ORDER BY id"))?;
    let events = select.query_map([records], |row| rows::audit(row.get_ref(0)?.as_str()?))?;
    events.collect()
}

pub fn read(file: &Connection, span: AuditSpan, limit: usize) -> Result<Vec<AuditRecord>> {
    if span.part != 0 {
        return Ok(Vec::new());
    }
    let order = if span.newest_first { "DESC" } else { "ASC" };
    let mut select = file.prepare_cached(&format!(
        "SELECT id, record FROM audit WHERE id > ?1 AND substr(record, 1, {}) <> ?2 ORDER BY id {order} LIMIT ?3",
        ARCHIVED.len()
    ))?;
    let after = i64::try_from(span.after).unwrap_or(i64::MAX);
    let found = select.query_map(params![after, ARCHIVED, limit as i64], |row| {
        Ok(AuditRecord { number: row.get(0)?, event: rows::audit(row.get_ref(1)?.as_str()?)? })
    })?;
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jobs_trail_is_found_without_a_look_at_anybody_elses() {
        let file = Connection::open_in_memory().unwrap();
        crate::schema::prepare(&file).unwrap();
        let question = format!("EXPLAIN QUERY PLAN SELECT record FROM audit WHERE {OF_JOB} ORDER BY id");
        let mut explain = file.prepare(&question).unwrap();
        let steps = explain.query_map(["1,2"], |row| row.get::<_, String>(3)).unwrap();
        let plan = steps.map(Result::unwrap).collect::<Vec<_>>().join("; ");
        assert!(plan.contains("SEARCH audit USING INTEGER PRIMARY KEY"), "{plan}");
    }
}
