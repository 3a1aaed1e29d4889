//! Read queries, on connections of their own: each sees a snapshot and never blocks the writer.
//!
//! A snapshot has what the writer has committed, which may not be on disk for the length of an fsync. Once the store has
//! failed nothing is answered any more: what was committed last may never get there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::{AuditEvent, DeadLetter, JobId, Payload, RouteName, Status, Timestamp};
use recado_store::{
    Counts, DeadLetterFilter, DeadLetterGroup, Durability, GroupBy, Inspect, JobFilter, JobView, LeftOut,
    Page, PageRequest, StoreError, StoreReport, StoreResult, TenantFilter, TenantView,
};
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, ToSql, params_from_iter};

use crate::disk;
use crate::rows::{self, DEAD_LETTER_COLUMNS, JOB_COLUMN_COUNT, JOB_COLUMNS, Result};
use crate::store::EmbeddedStore;
use crate::store::audit_log::read_job_records;
use crate::writer::fsync_thread::FailureReason;

/// Connections that are kept open between questions.
const IDLE_READERS_MAX: usize = 4;

/// Jobs that memory names for one page of a list.
const CANDIDATES_MAX: usize = 2_000;

/// Rows that one page of a filtered list looks through before it answers with what it has.
const SCAN_ROWS_MAX: i64 = 20_000;

#[derive(Debug)]
pub struct Readers {
    path: PathBuf,
    failure_reason: FailureReason,
    /// Absent once the store is closed.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl Readers {
    pub fn new(path: PathBuf, failure_reason: FailureReason) -> Self {
        Readers { path, failure_reason, idle: Mutex::new(Some(Vec::new())) }
    }

    /// Runs a question where blocking is allowed.
    pub async fn query<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let readers = self.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let file = readers.take_connection()?;
            let answer = question(&file).map_err(unavailable);
            match &mut *readers.idle.lock() {
                Some(idle) if idle.len() < IDLE_READERS_MAX => idle.push(file),
                _ => drop(file),
            }
            match readers.failure_reason.get() {
                Some(why) => Err(StoreError::Broken(why.clone())),
                None => answer,
            }
        });
        asked.await.unwrap_or_else(|error| Err(unavailable(error)))
    }

    fn take_connection(&self) -> StoreResult<Connection> {
        let idle = match &mut *self.idle.lock() {
            Some(idle) => idle.pop(),
            None => return Err(StoreError::Broken("the store is closed".to_owned())),
        };
        idle.map_or_else(|| open_reader(&self.path).map_err(unavailable), Ok)
    }

    pub fn close(&self) {
        self.idle.lock().take();
    }
}

pub fn unavailable(error: impl std::error::Error) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// Opens a connection that only reads.
pub fn open_reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = Connection::open_with_flags(path, flags)?;
    file.busy_timeout(std::time::Duration::from_secs(5))?;
    // SQLite's own case folding knows ASCII only.
    let pure = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    file.create_scalar_function("fold", 1, pure, |call| Ok(call.get_raw(0).as_str()?.to_lowercase()))?;
    Ok(file)
}

const VIEW: &str = "jobs.status, jobs.endedAt, jobs.answer, leases.worker, leases.expiresAt";
const VIEW_FROM: &str = "FROM jobs LEFT JOIN leases ON leases.seq = jobs.seq";

/// The jobs that a list looks through.
#[derive(Debug)]
struct Candidates {
    /// Their numbers, newest first.
    seqs: Vec<u64>,
    /// There may be more below the last.
    more: bool,
}

/// The smallest table or index that has all jobs of a status, and what orders it; the table of jobs is last.
fn from_where(filter: &JobFilter, among: Option<&Candidates>) -> (&'static str, &'static str) {
    let by_seq = "ORDER BY jobs.seq DESC";
    match (among, filter.status) {
        (None, _) if filter.correlation_id.is_some() => (VIEW_FROM, by_seq),
        // In the order of the list, which is the one that is wanted.
        (Some(_), _) => (
            "FROM json_each(?1) AS chosen CROSS JOIN jobs ON jobs.seq = chosen.value \
             LEFT JOIN leases ON leases.seq = jobs.seq",
            "",
        ),
        (_, Some(Status::Failed)) => (
            "FROM dlq CROSS JOIN jobs ON jobs.seq = dlq.seq LEFT JOIN leases ON leases.seq = jobs.seq",
            "ORDER BY dlq.seq DESC",
        ),
        (_, Some(Status::Delivering)) => {
            ("FROM leases CROSS JOIN jobs ON jobs.seq = leases.seq", "ORDER BY leases.seq DESC")
        }
        (_, Some(Status::Cancelled | Status::Discarded)) => {
            ("FROM jobs INDEXED BY jobs_given_up LEFT JOIN leases ON leases.seq = jobs.seq", by_seq)
        }
        (_, Some(Status::Retrying)) => {
            ("FROM jobs INDEXED BY jobs_retrying LEFT JOIN leases ON leases.seq = jobs.seq", by_seq)
        }
        _ => (VIEW_FROM, by_seq),
    }
}

fn view(row: &Row<'_>, now: Timestamp) -> Result<JobView> {
    let job = rows::job(row)?;
    let at = JOB_COLUMN_COUNT;
    let held_by = match row.get::<_, Option<Box<str>>>(at + 3)? {
        Some(worker) => Some((worker, Timestamp::from_millis(row.get(at + 4)?))),
        None => None,
    };
    let stored = row.get_ref(at)?.as_str()?;
    Ok(JobView {
        status: Status::parse(stored).unwrap_or_else(|| match &held_by {
            Some(_) => Status::Delivering,
            None => Status::waiting(&job.progress, job.due_at, now),
        }),
        ended_at: row.get::<_, Option<i64>>(at + 1)?.map(Timestamp::from_millis),
        answer: row.get::<_, Option<Box<str>>>(at + 2)?.map(Payload::trusted),
        held_by,
        job,
    })
}

pub fn read_job(file: &Connection, seq: u64, now: Timestamp) -> Result<Option<JobView>> {
    file.prepare_cached(&format!("SELECT {JOB_COLUMNS}, {VIEW} {VIEW_FROM} WHERE jobs.seq = ?1"))?
        .query_row([seq], |row| view(row, now))
        .optional()
}

/// A cursor comes from outside and may be any number.
fn below(before: u64) -> i64 {
    i64::try_from(before).unwrap_or(i64::MAX)
}

/// The conditions of a query and their values.
#[derive(Default)]
struct WhereClause {
    sql: String,
    values: Vec<Box<dyn ToSql + Send>>,
}

impl WhereClause {
    fn and(&mut self, condition: &str, value: impl ToSql + Send + 'static) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.push(Box::new(value));
    }

    fn and_if<T: ToSql + Send + 'static>(&mut self, condition: &str, value: Option<T>) {
        if let Some(value) = value {
            self.and(condition, value);
        }
    }
}

fn list_jobs(
    file: &Connection,
    filter: &JobFilter,
    among: Option<&Candidates>,
    page: PageRequest,
    now: Timestamp,
) -> Result<Page<JobView>> {
    let newest: i64 = file.query_row("SELECT coalesce(max(seq), 0) FROM jobs", [], |row| row.get(0))?;
    let top = page.before.map_or(newest, |before| newest.min(below(before) - 1));
    let (from, order) = from_where(filter, among);
    let scans = from == VIEW_FROM && filter.correlation_id.is_none();
    let bottom = if scans { (top - SCAN_ROWS_MAX).max(0) } else { 0 };
    let mut wanted = WhereClause::default();
    if let Some(candidates) = among {
        wanted.values.push(Box::new(rows::json(&candidates.seqs)?));
    }
    wanted.and("jobs.seq <= ?", top);
    wanted.and("jobs.seq > ?", bottom);
    wanted.and_if("jobs.correlationId = ?", filter.correlation_id.as_deref().map(str::to_owned));
    wanted.and_if("jobs.userId = ?", filter.user_id.as_deref().map(str::to_owned));
    wanted.and_if("jobs.companyId = ?", filter.company.as_ref().map(|company| company.as_str().to_owned()));
    wanted.and_if("jobs.route = ?", filter.route.as_ref().map(|route| route.as_str().to_owned()));
    match filter.status {
        None => {}
        Some(Status::Delivering) => wanted.sql.push_str(" AND leases.seq IS NOT NULL"),
        Some(status @ (Status::Sent | Status::Failed)) => wanted.and("jobs.status = ?", status.as_str()),
        Some(status @ (Status::Cancelled | Status::Discarded)) => {
            wanted.and("jobs.status IN ('cancelled', 'discarded') AND jobs.status = ?", status.as_str());
        }
        Some(status) => {
            wanted.sql.push_str(" AND jobs.status = 'waiting' AND leases.seq IS NULL");
            match status {
                Status::Retrying => wanted.sql.push_str(" AND jobs.attemptsSpent > 0"),
                Status::Scheduled => wanted.and("jobs.attemptsSpent = 0 AND jobs.dueAt > ?", now.as_millis()),
                Status::Queued => wanted.and("jobs.attemptsSpent = 0 AND jobs.dueAt <= ?", now.as_millis()),
                _ => wanted.sql.push_str(" AND 0"),
            }
        }
    }
    let sql = format!(
        "SELECT {JOB_COLUMNS}, {VIEW}, jobs.seq {from} WHERE 1 {} {order} LIMIT {}",
        wanted.sql,
        page.limit + 1
    );
    let mut select = file.prepare_cached(&sql)?;
    let found = select.query_map(params_from_iter(wanted.values), |row| {
        Ok((row.get(JOB_COLUMN_COUNT + 5)?, view(row, now)?))
    })?;
    let mut found = Page::gather(found, page.limit)?;
    found.next = found.next.or_else(|| match among {
        Some(candidates) => candidates.seqs.last().copied().filter(|_| candidates.more),
        None => (bottom > 0).then(|| bottom.cast_unsigned() + 1),
    });
    Ok(found)
}

pub fn read_audit(file: &Connection, seq: u64) -> Result<Vec<AuditEvent>> {
    let records: Option<Option<Box<str>>> = rows::find(file, "SELECT records FROM jobs WHERE seq = ?1", seq)?;
    records.flatten().map_or(Ok(Vec::new()), |records| read_job_records(file, &records))
}

pub fn read_dead_letter(file: &Connection, seq: u64) -> Result<Option<DeadLetter>> {
    file.prepare_cached(&format!("SELECT {DEAD_LETTER_COLUMNS} FROM dlq WHERE seq = ?1"))?
        .query_row([seq], rows::dead_letter)
        .optional()
        .map(|found| found.map(|(_, entry)| entry))
}

fn dead_letter_clause(filter: &DeadLetterFilter) -> WhereClause {
    let mut wanted = WhereClause::default();
    wanted.and_if("companyId = ?", filter.company.as_ref().map(|company| company.as_str().to_owned()));
    wanted.and_if("route = ?", filter.route.as_ref().map(|route| route.as_str().to_owned()));
    wanted.and_if("lastFailureCode = ?", filter.last_failure_code.as_deref().map(str::to_owned));
    wanted.and_if("fingerprint = ?", filter.fingerprint.as_deref().map(str::to_owned));
    wanted.and_if("movedToDLQAt >= ?", filter.since.map(|since| since.to_string()));
    wanted.and_if("movedToDLQAt < ?", filter.until.map(|until| until.to_string()));
    wanted.and_if("instr(fold(lastFailureReason), ?) > 0", filter.reason.as_deref().map(str::to_lowercase));
    wanted
}

#[async_trait]
impl Inspect for EmbeddedStore {
    fn durability(&self) -> Durability {
        Durability::Fsync
    }

    async fn job(&self, id: &JobId, now: Timestamp) -> StoreResult<Option<JobView>> {
        let Some(seq) = self.row_of(id) else { return Ok(None) };
        self.readers.query(move |file| read_job(file, seq, now)).await
    }

    async fn jobs(&self, filter: JobFilter, page: PageRequest, now: Timestamp) -> StoreResult<Page<JobView>> {
        let among = self.find_candidates(&filter, page, now);
        self.readers.query(move |file| list_jobs(file, &filter, among.as_ref(), page, now)).await
    }

    async fn audit(&self, id: &JobId) -> StoreResult<Vec<AuditEvent>> {
        let Some(seq) = self.row_of(id) else { return Ok(Vec::new()) };
        self.readers.query(move |file| read_audit(file, seq)).await
    }

    async fn dead_letter(&self, id: &JobId) -> StoreResult<Option<DeadLetter>> {
        let Some(seq) = self.row_of(id) else { return Ok(None) };
        self.readers.query(move |file| read_dead_letter(file, seq)).await
    }

    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> StoreResult<Page<DeadLetter>> {
        let mut wanted = dead_letter_clause(&filter);
        let filtered = !wanted.values.is_empty();
        wanted.and_if("entry < ?", page.before.map(below));
        // What a filter looks at is all in one index; payloads are read only of what is shown.
        let found = match filtered {
            true => format!("entry IN (SELECT entry FROM dlq WHERE 1 {})", wanted.sql),
            false => format!("1 {}", wanted.sql),
        };
        let limit = page.limit + 1;
        let sql =
            format!("SELECT {DEAD_LETTER_COLUMNS} FROM dlq WHERE {found} ORDER BY entry DESC LIMIT {limit}");
        self.readers
            .query(move |file| {
                let mut select = file.prepare_cached(&sql)?;
                let found = select.query_map(params_from_iter(wanted.values), rows::dead_letter)?;
                Page::gather(found, page.limit)
            })
            .await
    }

    async fn dead_letter_groups(
        &self,
        by: GroupBy,
        filter: DeadLetterFilter,
    ) -> StoreResult<Vec<DeadLetterGroup>> {
        let column = by.as_str();
        let wanted = dead_letter_clause(&filter);
        let sql = format!(
            "SELECT {column}, count(*), lastFailureReason, min(entry) FROM dlq WHERE 1 {} GROUP BY {column} ORDER BY 2 DESC, 1",
            wanted.sql
        );
        self.readers
            .query(move |file| {
                let mut select = file.prepare_cached(&sql)?;
                let groups = select.query_map(params_from_iter(wanted.values), |row| {
                    Ok(DeadLetterGroup { key: row.get(0)?, count: row.get(1)?, example_reason: row.get(2)? })
                })?;
                groups.collect()
            })
            .await
    }

    async fn oldest_dead_letters(&self, limit: usize) -> StoreResult<Vec<DeadLetter>> {
        self.readers
            .query(move |file| {
                let mut select = file.prepare_cached(&format!(
                    "SELECT {DEAD_LETTER_COLUMNS} FROM dlq WHERE state = 'dead' ORDER BY entry LIMIT ?1"
                ))?;
                let entries = select.query_map([limit as i64], rows::dead_letter)?;
                entries.map(|found| found.map(|(_, entry)| entry)).collect()
            })
            .await
    }

    async fn counts(&self, now: Timestamp) -> StoreResult<Counts> {
        let mut index = self.index.lock();
        let (delayed, ready) = index.waiting_counts(now.as_millis());
        Ok(Counts {
            delayed,
            ready,
            leased: index.leases.len() as u64,
            dead_letters: index.dead_count,
            ended: index.ended.len() as u64,
            waiting_by_route: index.waiting_by_route(),
        })
    }

    async fn oldest_due(
        &self,
        left_out: &LeftOut,
        now: Timestamp,
    ) -> StoreResult<BTreeMap<RouteName, Timestamp>> {
        Ok(self.index.lock().oldest_due(left_out, now.as_millis()))
    }

    async fn tenants(&self, filter: TenantFilter, now: Timestamp) -> StoreResult<Vec<TenantView>> {
        Ok(self.index.lock().tenants(&filter, now.as_millis()))
    }

    async fn report(&self) -> StoreResult<StoreReport> {
        if self.requests.is_closed() {
            return Err(self.failed());
        }
        if let Some(why) = self.place.find_missing() {
            return Err(StoreError::Broken(why));
        }
        let (used_bytes, max_bytes, refusing) = {
            let mut space = self.space.lock();
            (space.held_bytes, space.max_bytes(), space.refusal().map(str::to_owned))
        };
        Ok(StoreReport {
            kind: "embedded",
            durability: self.durability(),
            size_bytes: disk::used_bytes(&self.dir),
            used_bytes,
            free_bytes: disk::free_bytes(&self.dir),
            max_bytes,
            refusing,
            unanswered: None,
        })
    }
}

impl EmbeddedStore {
    /// Returns the jobs that a list has to look through, where memory knows them: to look through all takes long.
    fn find_candidates(&self, filter: &JobFilter, page: PageRequest, now: Timestamp) -> Option<Candidates> {
        let max = CANDIDATES_MAX.max(page.limit + 1);
        let now = now.as_millis();
        let top = page.before.map_or(u64::MAX, |before| before.saturating_sub(1));
        let index = self.index.lock();
        let Some(owner) = index.owner_filter(filter) else {
            return Some(Candidates { seqs: Vec::new(), more: false });
        };
        let is_asked_for = filter.company.is_some() || filter.route.is_some();
        let seqs = match filter.status {
            _ if filter.correlation_id.is_some() => return None,
            Some(Status::Queued) => index.find_waiting(owner, i64::MIN..=now, top, max),
            Some(Status::Scheduled) => index.find_waiting(owner, now.saturating_add(1)..=i64::MAX, top, max),
            None | Some(Status::Sent) if is_asked_for => index.owner_index.find_newest(owner, top, max),
            _ => return None,
        };
        Some(Candidates { more: seqs.len() == max, seqs })
    }
}
