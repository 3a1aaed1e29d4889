//! The audit trail: written with its subject, read by the archiver, trimmed once it is archived.
//!
//! A row is a bundle: the records of one commit, a line each, because most of what a row costs is that it is one. They
//! are numbered from the row's own number on, for good: a line that was forgotten or trimmed is left empty, and the
//! newest bundle is never removed, for it says which number is next. Lines that came along with a job and are archived elsewhere say
//! so at their beginning; they are there for the job's own trail alone.
//!
//! The records about a job are named in the job's own row: a list of numbers, some of which may be trimmed by
//! now. No index over the trail says so, because it would be the dearest part of every settle.

use std::borrow::Cow;

use async_trait::async_trait;
use recado_core::{AuditEvent, JobId, Timestamp};
use recado_store::{AuditLog, AuditRecord, AuditSpan, AuditTrim, Settlement, StoreResult};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Deserialize;

use crate::index::JobLocation;
use crate::rows::{self, Result};
use crate::store::EmbeddedStore;
use crate::store::inspect::unavailable;
use crate::writer::apply::WriteTransaction;
use crate::writer::request::RequestKind;
use crate::writer::statements::Statements;

/// Records of a bundle at most: to read one of them, the whole bundle is read.
const BUNDLE_RECORDS_MAX: usize = 64;

/// Records that one trim looks at: about 10 ms of the writer's time.
const TRIM_RECORDS_MAX: usize = 500;

/// Rows that one piece of a forget removes or rewrites, unless one job alone has more: about 10 ms of the writer's time.
const FORGET_ROWS_MAX: usize = 64;

/// Begin of a line whose record is archived elsewhere. A reader that does not know it reads the event all the
/// same.
pub const ARCHIVED: &str = r#"{"archived":true,"#;

const SELECT_BUNDLE: &str = "SELECT id, records FROM audit WHERE id <= ?1 ORDER BY id DESC LIMIT 1";

/// A settlement whose record and attempt are already as the file keeps them: callers write theirs side by side, and the
/// one writer has less to do.
#[derive(Debug)]
pub struct PreparedSettlement {
    /// Without its record.
    pub settlement: Settlement,
    pub record: Option<String>,
    /// A history that has this attempt alone.
    pub history: Option<String>,
}

impl PreparedSettlement {
    pub fn prepare(mut settlement: Settlement) -> StoreResult<Self> {
        let record = settlement.audit.take().map(|event| rows::json(&event)).transpose();
        let history = settlement.transition.attempt().map(|attempt| rows::json(&[attempt])).transpose();
        let (record, history) = (record.map_err(unavailable)?, history.map_err(unavailable)?);
        Ok(PreparedSettlement { settlement, record, history })
    }
}

/// One piece of a forget.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Forgotten {
    /// Ids that were dealt with, from the first on.
    pub ids: usize,
    /// Jobs that are gone.
    pub jobs: u64,
}

/// Appends records to the trail, many at a time. Those that wait are written before a request may read them.
pub struct Recorder<'a, 'f> {
    statements: &'a Statements<'f>,
    /// The bundle that is being filled: the number of its first record, how many it has, and they.
    first: u64,
    count: usize,
    lines: String,
}

impl<'a, 'f> Recorder<'a, 'f> {
    pub fn new(statements: &'a Statements<'f>) -> Self {
        Recorder { statements, first: 0, count: 0, lines: String::new() }
    }

    /// Numbers come one after the other.
    fn put(&mut self, number: u64, record: &str) -> Result<()> {
        match self.count {
            0 => self.first = number,
            _ => self.lines.push('\n'),
        }
        self.lines.push_str(record);
        self.count += 1;
        if self.count == BUNDLE_RECORDS_MAX { self.flush() } else { Ok(()) }
    }

    pub fn flush(&mut self) -> Result<()> {
        if self.count > 0 {
            let insert = "INSERT INTO audit (id, records) VALUES (?1, ?2)";
            self.statements.execute(insert, params![self.first, self.lines])?;
            self.count = 0;
            self.lines.clear();
        }
        Ok(())
    }
}

/// Some records in a row.
struct Bundle {
    /// The number of the first.
    id: u64,
    lines: String,
}

impl Bundle {
    fn of(row: &Row<'_>) -> Result<Self> {
        Ok(Bundle { id: row.get(0)?, lines: row.get(1)? })
    }

    /// Finds the bundle that has this number, or had it.
    fn find(file: &Connection, number: u64) -> Result<Option<Self>> {
        file.prepare_cached(SELECT_BUNDLE)?.query_row([number], Bundle::of).optional()
    }

    /// The records that are left, with their numbers.
    fn records(&self) -> impl Iterator<Item = (u64, &str)> {
        (self.id..).zip(self.lines.split('\n')).filter(|(_, line)| !line.is_empty())
    }

    fn record(&self, number: u64) -> Option<&str> {
        self.records().find(|(found, _)| *found == number).map(|(_, line)| line)
    }

    /// The number after its last.
    fn end(&self) -> u64 {
        self.id + self.lines.split('\n').count() as u64
    }

    fn without(&self, numbers: &[u64]) -> Self {
        let left = (self.id..).zip(self.lines.split('\n'));
        let left: Vec<_> =
            left.map(|(found, line)| if numbers.contains(&found) { "" } else { line }).collect();
        Bundle { id: self.id, lines: left.join("\n") }
    }
}

/// The number that the next record gets.
pub fn next_number(file: &Connection) -> Result<u64> {
    Ok(Bundle::find(file, i64::MAX.cast_unsigned())?.map_or(1, |newest| newest.end()))
}

fn numbers(records: &str) -> impl Iterator<Item = u64> {
    records.split(',').filter_map(|number| number.parse().ok())
}

impl WriteTransaction<'_, '_> {
    pub fn write_audit(&mut self, seq: Option<u64>, event: &AuditEvent) -> Result<()> {
        self.write_record(seq, &rows::json(event)?)
    }

    pub fn write_record(&mut self, seq: Option<u64>, record: &str) -> Result<()> {
        let number = self.append(record)?;
        self.recorder.flush()?;
        if let Some(seq) = seq {
            self.execute(
                "UPDATE jobs SET records = coalesce(records || ',' || ?2, ?2, records) WHERE seq = ?1",
                params![seq, number],
            )?;
        }
        Ok(())
    }

    /// Appends a record and returns its number. The caller writes it into the job's row.
    pub fn append(&mut self, record: &str) -> Result<u64> {
        let number = self.index.next_record;
        self.index.next_record += 1;
        self.recorder.put(number, record)?;
        Ok(number)
    }

    /// Forgets ended jobs and their records, up to [`FORGET_ROWS_MAX`] rows: the rest is for the next piece.
    pub fn forget(&mut self, ids: &[JobId]) -> Result<Forgotten> {
        let mut forgotten = Forgotten::default();
        let mut rows_left = FORGET_ROWS_MAX;
        for id in ids {
            if rows_left == 0 {
                break;
            }
            forgotten.ids += 1;
            let id = self.index.digest(id.as_str());
            let Some(JobLocation::Row(seq)) = self.index.find(id) else { continue };
            let removed = self
                .file
                .prepare_cached(
                    "DELETE FROM jobs WHERE seq = ?1 AND status IN ('sent', 'cancelled', 'discarded') \
                     RETURNING records, endedAt",
                )?
                .query_row([seq], |row| {
                    Ok((row.get::<_, Option<Box<str>>>(0)?, rows::number::<Option<i64>>(row, 1)))
                })
                .optional()?;
            let Some((records, ended_at)) = removed else { continue };
            self.index.forget_ended(id, seq, ended_at.unwrap_or(0));
            rows_left = rows_left.saturating_sub(1 + self.forget_records(records.as_deref().unwrap_or(""))?);
            forgotten.jobs += 1;
        }
        Ok(forgotten)
    }

    /// Forgets a job's records and returns how many rows it took.
    fn forget_records(&self, records: &str) -> Result<usize> {
        let mut rows = 0;
        for number in numbers(records) {
            let found = Bundle::find(self.file, number)?;
            let Some(bundle) = found.filter(|bundle| bundle.record(number).is_some()) else { continue };
            self.rewrite_bundle(&bundle.without(&[number]))?;
            rows += 1;
        }
        Ok(rows)
    }

    /// Writes what is left of a bundle, or removes it.
    fn rewrite_bundle(&self, left: &Bundle) -> Result<()> {
        let is_newest = left.end() == self.index.next_record;
        if left.records().next().is_none() && !is_newest {
            self.execute("DELETE FROM audit WHERE id = ?1", [left.id])?;
        } else {
            self.execute("UPDATE audit SET records = ?2 WHERE id = ?1", params![left.id, left.lines])?;
        }
        Ok(())
    }

    pub fn trim_audit(&self, trim: AuditTrim) -> Result<u64> {
        let mut select =
            self.file.prepare_cached("SELECT id, records FROM audit WHERE id <= ?1 ORDER BY id")?;
        let mut bundles = select.query_map([i64::try_from(trim.up_to).unwrap_or(i64::MAX)], Bundle::of)?;
        let (mut looked_at, mut gone, mut left) = (0, 0, Vec::new());
        while looked_at < TRIM_RECORDS_MAX
            && let Some(bundle) = bundles.next().transpose()?
        {
            let mut going = Vec::new();
            for (number, record) in bundle.records().filter(|(number, _)| *number <= trim.up_to) {
                looked_at += 1;
                if self.may_go(number, record, trim)? {
                    going.push(number);
                }
            }
            // A bundle that was emptied while it was the newest may go now.
            let is_empty = bundle.records().next().is_none();
            if is_empty || !going.is_empty() {
                left.push(bundle.without(&going));
            }
            gone += going.len() as u64;
        }
        drop(bundles);
        left.iter().try_for_each(|bundle| self.rewrite_bundle(bundle))?;
        Ok(gone)
    }

    fn may_go(&self, number: u64, record: &str, trim: AuditTrim) -> Result<bool> {
        let Some(RecordSubject { timestamp, job_id }) = parse_record(record) else { return Ok(true) };
        let is_old = timestamp < trim.before;
        Ok(is_old || timestamp < trim.forgotten_before && !self.is_on_a_trail(number, job_id.as_deref())?)
    }

    /// Returns true if its job is still known. Another job may have its id by now.
    fn is_on_a_trail(&self, number: u64, job_id: Option<&str>) -> Result<bool> {
        let row = job_id.and_then(|id| self.index.row_of(self.index.digest(id)));
        let Some(seq) = row else { return Ok(false) };
        let records: Option<Option<Box<str>>> =
            rows::find(self.file, "SELECT records FROM jobs WHERE seq = ?1", seq)?;
        Ok(records.flatten().is_some_and(|records| numbers(&records).any(|found| found == number)))
    }
}

/// The fields of a record that trimming needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordSubject<'a> {
    timestamp: Timestamp,
    #[serde(borrow)]
    job_id: Option<Cow<'a, str>>,
}

/// Reads a record. A damaged one is logged and left out, so that all others are read.
fn parse_record<'j, T: Deserialize<'j>>(record: &'j str) -> Option<T> {
    serde_json::from_str(record)
        .inspect_err(|error| tracing::error!(%error, "A stored audit record is damaged; it is left out"))
        .ok()
}

/// The records under these numbers, oldest first.
pub fn read_job_records(file: &Connection, records: &str) -> Result<Vec<AuditEvent>> {
    let mut events = Vec::new();
    for number in numbers(records) {
        let bundle = Bundle::find(file, number)?;
        events.extend(bundle.and_then(|bundle| bundle.record(number).and_then(parse_record)));
    }
    Ok(events)
}

fn read_span(file: &Connection, span: AuditSpan, limit: usize) -> Result<Vec<AuditRecord>> {
    let mut found = Vec::new();
    if span.part != 0 {
        return Ok(found);
    }
    let order = if span.newest_first { "DESC" } else { "ASC" };
    let mut select = file.prepare_cached(&format!(
        "SELECT id, records FROM audit WHERE id >= coalesce((SELECT max(id) FROM audit WHERE id <= ?1), 0) \
         ORDER BY id {order}"
    ))?;
    let mut bundles = select.query_map([i64::try_from(span.after).unwrap_or(i64::MAX)], Bundle::of)?;
    while found.len() < limit
        && let Some(bundle) = bundles.next().transpose()?
    {
        let wanted = |(number, line): &(u64, &str)| *number > span.after && !line.starts_with(ARCHIVED);
        let mut records: Vec<_> = bundle.records().filter(wanted).collect();
        if span.newest_first {
            records.reverse();
        }
        let read = |(number, line)| Some(AuditRecord { number, event: parse_record(line)? });
        found.extend(records.into_iter().filter_map(read).take(limit - found.len()));
    }
    Ok(found)
}

#[async_trait]
impl AuditLog for EmbeddedStore {
    async fn record(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
        self.write(RequestKind::Other, move |transaction| transaction.record(&events)).await
    }

    async fn trim_audit(&self, trim: AuditTrim) -> StoreResult<u64> {
        self.write(RequestKind::Other, move |transaction| transaction.trim_audit(trim)).await
    }

    async fn audit_records(&self, span: AuditSpan, limit: usize) -> StoreResult<Vec<AuditRecord>> {
        let found = self.readers.query(move |file| read_span(file, span, limit)).await?;
        if !found.is_empty() {
            // What a reader sees is committed, and may not have been forced to disk yet. A power cut could take it
            // back and give its number to another record: the archiver must get it only when it is durable.
            self.record(Vec::new()).await?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_without_a_look_at_any_other_bundle() {
        let file = Connection::open_in_memory().unwrap();
        crate::schema::prepare(&file).unwrap();
        let mut explain = file.prepare(&format!("EXPLAIN QUERY PLAN {SELECT_BUNDLE}")).unwrap();
        let steps = explain.query_map([7], |row| row.get::<_, String>(3)).unwrap();
        let plan = steps.map(Result::unwrap).collect::<Vec<_>>().join("; ");
        assert!(plan.contains("SEARCH audit USING INTEGER PRIMARY KEY"), "{plan}");
    }

    #[test]
    fn what_is_forgotten_leaves_a_gap_and_moves_no_other_record() {
        let bundle = Bundle { id: 5, lines: "{5}\n{6}\n{7}".to_owned() };
        assert_eq!((bundle.end(), bundle.record(6), bundle.record(8)), (8, Some("{6}"), None));
        let left = bundle.without(&[6, 7]);
        assert_eq!((left.end(), left.records().collect::<Vec<_>>()), (8, vec![(5, "{5}")]));
        let empty = left.without(&[5]);
        assert_eq!((empty.end(), empty.records().count()), (8, 0));
    }
}
