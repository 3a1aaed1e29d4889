//! The trail: written with what it is about, read by whoever archives it, trimmed once it is archived.
//!
//! A row's number is its record's number for good, so the newest row is never removed: the next one would get its
//! number, and what must be forgotten of it is made blank. Rows that came along with a job and are archived elsewhere say so at their beginning; they are there for
//! the job's own trail alone.

use recado_core::{AuditEvent, JobId};
use recado_store::{AuditRecord, AuditSpan, AuditTrim};
use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::apply::Apply;
use crate::index::Place;
use crate::rows;

/// Rows that one trim looks at, so that it holds nobody up.
const TRIM_ROWS_MAX: i64 = 1_000;

/// How a row begins whose record is archived elsewhere. A reader that does not know it reads the event all the same.
const ARCHIVED: &str = r#"{"archived":true,"#;

impl Apply<'_> {
    pub fn write_audit(&self, seq: Option<u64>, event: &AuditEvent) -> Result<()> {
        self.append(seq, &rows::json(event)?)
    }

    pub fn write_archived(&self, seq: u64, event: &AuditEvent) -> Result<()> {
        self.append(Some(seq), &rows::json(event)?.replacen('{', ARCHIVED, 1))
    }

    fn append(&self, seq: Option<u64>, record: &str) -> Result<()> {
        self.file
            .prepare_cached("INSERT INTO audit (seq, record) VALUES (?1, ?2)")?
            .execute(params![seq, record])?;
        Ok(())
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
                    "DELETE FROM jobs WHERE seq = ?1 AND status IN ('sent', 'cancelled', 'discarded')",
                )?
                .execute([seq])?;
            if removed == 0 {
                continue;
            }
            self.index.forget_row(id);
            self.index.ended.retain(|(_, ended)| *ended != seq);
            self.forget_records(seq)?;
            gone += 1;
        }
        Ok(gone)
    }

    fn forget_records(&self, seq: u64) -> Result<()> {
        let newest = self
            .file
            .prepare_cached("SELECT record FROM audit WHERE seq = ?1 AND id = (SELECT max(id) FROM audit)")?
            .query_row([seq], |row| rows::audit(row.get_ref(0)?.as_str()?))
            .optional()?;
        if let Some(AuditEvent { route, kind, timestamp, .. }) = newest {
            let blank = rows::json(&AuditEvent::claim("", &route, kind, timestamp))?;
            self.file
                .prepare_cached(
                    "UPDATE audit SET seq = NULL, record = ?1 WHERE id = (SELECT max(id) FROM audit)",
                )?
                .execute([blank.replacen('{', ARCHIVED, 1)])?;
        }
        self.file.prepare_cached("DELETE FROM audit WHERE seq = ?1")?.execute([seq])?;
        Ok(())
    }

    pub fn trim_audit(&self, trim: AuditTrim) -> Result<u64> {
        let up_to = i64::try_from(trim.up_to).unwrap_or(i64::MAX);
        // Times are written so that they sort as text.
        let removed = self
            .file
            .prepare_cached(
                "DELETE FROM audit WHERE id < (SELECT max(id) FROM audit) AND id IN ( \
                   SELECT id FROM (SELECT id, seq, json_extract(record, '$.timestamp') AS at FROM audit \
                                   WHERE id <= ?1 ORDER BY id LIMIT ?4) AS oldest \
                   WHERE at < ?2 \
                      OR (at < ?3 AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.seq = oldest.seq)))",
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
