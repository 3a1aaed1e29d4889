//! Snapshots of jobs, made and taken in: for another store, or back from an archive.

use std::time::Duration;

use async_trait::async_trait;
use recado_core::{AuditEvent, BodyHash, DeadLetter, JobId, Lease, Payload, Status, Timestamp};
use recado_store::{Adopted, Fence, FencedWrite, JobSnapshot, Page, SnapshotState, StoreResult, Transfer};
use rusqlite::{Connection, Row, params};
use tokio::sync::oneshot;

use crate::index::{IdHash, JobLocation, Phase, Slot};
use crate::rows::{self, JOB_COLUMN_COUNT, JOB_COLUMNS, Result};
use crate::schema::FILE_NAME;
use crate::store::audit_log::{ARCHIVED, read_job_records};
use crate::store::inspect::{read_audit, read_dead_letter, unavailable};
use crate::store::{EmbeddedStore, open_file};
use crate::writer::apply::WriteTransaction;
use crate::writer::request::{ChangeError, RequestKind};

/// Jobs that one piece of a forget is told of. It may do fewer.
const FORGET_JOBS_MAX: usize = 64;

/// Tries to truncate the log after something was forgotten, and the time between two.
const TRUNCATE_TRIES_MAX: usize = 100;
const TRUNCATE_TRY_EVERY: Duration = Duration::from_millis(50);

impl WriteTransaction<'_, '_> {
    pub fn adopt(&mut self, snapshots: &[JobSnapshot]) -> Result<Vec<Adopted>, ChangeError> {
        self.require_space(snapshots.iter().map(|snapshot| &snapshot.job.id))?;
        snapshots.iter().map(|snapshot| Ok(self.adopt_one(snapshot)?)).collect()
    }

    fn adopt_one(&mut self, snapshot: &JobSnapshot) -> Result<Adopted> {
        let id = self.index.digest(snapshot.job.id.as_str());
        let mut replaced: Option<Box<str>> = None;
        if let Some(place) = self.index.find(id) {
            let given_up = self.find_discarded(place)?.filter(|_| snapshot.state == SnapshotState::Dead);
            let Some((ended_at, seq)) = given_up else { return Ok(Adopted::Known) };
            replaced =
                rows::find(self.file, "DELETE FROM jobs WHERE seq = ?1 RETURNING records", seq)?.flatten();
            self.index.forget_ended(id, seq, ended_at);
        }
        let seq = self.insert_snapshot(id, snapshot)?;
        let known = replaced.map_or(Ok(Vec::new()), |records| self.adopt_records(&records, seq))?;
        for (nth, event) in snapshot.audit.iter().enumerate().filter(|(_, event)| !known.contains(event)) {
            let mut record = rows::json(event)?;
            if nth < snapshot.archived {
                record = record.replacen('{', ARCHIVED, 1);
            }
            self.write_record(Some(seq), &record)?;
        }
        Ok(Adopted::Done)
    }

    /// Writes a job that is not known, without its trail, and returns the number of its row.
    pub fn insert_snapshot(&mut self, id: IdHash, snapshot: &JobSnapshot) -> Result<u64> {
        let seq = self.index.next_seq;
        self.write_job(seq, snapshot)?;
        if let Some(entry) = &snapshot.dead_letter {
            self.write_dead_letter(seq, entry, snapshot.queue_place)?;
        }
        let job = &snapshot.job;
        let company = self.index.company_key(job.company.as_str());
        let lane = self.index.lane_key(job.route.as_str());
        if snapshot.state == SnapshotState::Waiting {
            let slot = self.index.insert(Slot {
                id,
                seq,
                due: job.due_at.as_millis(),
                expires: job.expires_at.as_millis(),
                company,
                lane,
                priority: job.priority.level(),
                phase: Phase::Free,
            });
            self.on_claimable(slot);
            return Ok(seq);
        }
        self.index.remember_row(id, seq);
        self.index.owner_index.insert(seq, company, lane);
        if let SnapshotState::Ended { at, .. } = &snapshot.state {
            self.index.ended.insert((at.as_millis(), seq));
        }
        Ok(seq)
    }

    /// The trail of a job that came back is its own from now on: what is on it.
    fn adopt_records(&self, records: &str, seq: u64) -> Result<Vec<AuditEvent>> {
        self.execute("UPDATE jobs SET records = ?1 WHERE seq = ?2", params![records, seq])?;
        read_job_records(self.file, records)
    }

    /// The time when a job was discarded, and its row, if it was.
    fn find_discarded(&self, place: JobLocation) -> Result<Option<(i64, u64)>> {
        let JobLocation::Row(seq) = place else { return Ok(None) };
        let discarded = "SELECT endedAt FROM jobs WHERE seq = ?1 AND status = 'discarded'";
        Ok(rows::find(self.file, discarded, seq)?.map(|ended_at| (ended_at, seq)))
    }

    fn write_job(&self, seq: u64, snapshot: &JobSnapshot) -> Result<()> {
        let JobSnapshot { job, body_hash, state, dead_letter, .. } = snapshot;
        let (status, ended_at, answer, data) = match state {
            SnapshotState::Waiting => ("waiting", None, None, Some(&job.data)),
            SnapshotState::Dead => {
                let corrected = dead_letter.as_ref().and_then(|entry| entry.corrected_data.as_ref());
                (Status::Failed.as_str(), None, None, corrected)
            }
            SnapshotState::Ended { status, at, answer } => {
                (status.as_str(), Some(at.as_millis()), answer.as_ref(), None)
            }
        };
        let attempts = (!job.attempts.is_empty()).then(|| rows::json(&job.attempts)).transpose()?;
        self.execute(
            "INSERT INTO jobs (seq, jobId, route, companyId, status, priority, enqueuedAt, dueAt, \
             expiresAt, endedAt, attemptsStarted, attemptsSpent, crashes, deferrals, replays, bodyHash, \
             userId, correlationId, attempts, answer, data, traceparent, checksum) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                seq,
                job.id.as_str(),
                job.route.as_str(),
                job.company.as_str(),
                status,
                job.priority.level(),
                job.enqueued_at.as_millis(),
                job.due_at.as_millis(),
                job.expires_at.as_millis(),
                ended_at,
                job.progress.attempts_started,
                job.progress.attempts_spent,
                job.progress.crashes,
                job.progress.deferrals,
                job.progress.replays,
                &body_hash.0.to_be_bytes()[..],
                job.user_id.as_deref(),
                job.correlation_id.as_deref(),
                attempts,
                answer.map(Payload::as_str),
                data.map(Payload::as_str),
                job.traceparent.map(|parent| parent.to_string()),
                &snapshot.checksum().to_bytes()[..],
            ],
        )?;
        Ok(())
    }

    /// Puts an entry in the queue, at its place or as the newest.
    pub fn write_dead_letter(&mut self, seq: u64, entry: &DeadLetter, place: Option<u64>) -> Result<()> {
        self.execute(
            "INSERT INTO dlq (seq, jobId, outboxId, companyId, route, originalData, failedAttempts, \
             lastFailureReason, lastFailureCode, lastFailureTimestamp, enqueuedAt, movedToDLQAt, ttl, \
             expiresAt, userId, correlationId, errorClassification, stackTrace, attempts, fingerprint, \
             cause, state, entry) \
             VALUES (?, ?2, ?2, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                seq,
                entry.job_id.as_str(),
                entry.company.as_str(),
                entry.route.as_str(),
                entry.original_data.as_str(),
                entry.failed_attempts,
                entry.failure.reason.as_str(),
                entry.failure.code.as_deref(),
                entry.failure.at.to_string(),
                entry.enqueued_at.to_string(),
                entry.moved_at.to_string(),
                i64::try_from(entry.ttl.as_millis()).unwrap_or(i64::MAX),
                entry.expires_at().as_millis(),
                entry.user_id.as_deref(),
                entry.correlation_id.as_deref(),
                entry.failure.class.as_str(),
                entry.failure.stack_trace.as_deref(),
                rows::json(&entry.attempts)?,
                &*entry.failure.fingerprint,
                entry.cause.as_str(),
                entry.state.as_str(),
                place,
            ],
        )?;
        self.index.dead_count += 1;
        Ok(())
    }
}

fn list_snapshots(file: &Connection, after: Option<u64>, limit: usize) -> Result<Page<JobSnapshot>> {
    let mut select = file.prepare_cached(&format!(
        "SELECT {JOB_COLUMNS}, jobs.bodyHash, jobs.status, jobs.endedAt, jobs.answer, jobs.seq FROM jobs \
         WHERE jobs.seq > ?1 ORDER BY jobs.seq LIMIT ?2"
    ))?;
    let after = i64::try_from(after.unwrap_or(0)).unwrap_or(i64::MAX);
    let rows = select.query_map(params![after, limit as i64 + 1], read_snapshot)?;
    let mut found: Vec<(u64, JobSnapshot)> = rows.collect::<Result<_>>()?;
    let more = found.len() > limit;
    found.truncate(limit);
    for (seq, snapshot) in &mut found {
        snapshot.dead_letter = read_dead_letter(file, *seq)?;
        snapshot.audit = read_audit(file, *seq)?;
    }
    let next = found.last().map(|(seq, _)| *seq).filter(|_| more);
    Ok(Page { items: found.into_iter().map(|(_, snapshot)| snapshot).collect(), next })
}

fn read_snapshot(row: &Row<'_>) -> Result<(u64, JobSnapshot)> {
    let at = JOB_COLUMN_COUNT;
    let state = match Status::parse(row.get_ref(at + 1)?.as_str()?) {
        None => SnapshotState::Waiting,
        Some(Status::Failed) => SnapshotState::Dead,
        Some(status) => SnapshotState::Ended {
            status,
            at: Timestamp::from_millis(row.get::<_, Option<i64>>(at + 2)?.unwrap_or(0)),
            answer: row.get::<_, Option<Box<str>>>(at + 3)?.map(Payload::trusted),
        },
    };
    let body_hash = BodyHash(row.get(at).map(u128::from_be_bytes)?);
    Ok((row.get(at + 4)?, JobSnapshot::new(rows::job(row)?, body_hash, state)))
}

#[async_trait]
impl Transfer for EmbeddedStore {
    /// In pieces, so that others get their turn in between; the log is truncated once, when all are gone.
    async fn forget(&self, ids: Vec<JobId>) -> StoreResult<u64> {
        let (mut gone, mut rest) = (0, &ids[..]);
        while !rest.is_empty() {
            let some = rest[..rest.len().min(FORGET_JOBS_MAX)].to_vec();
            let forgotten =
                self.write(RequestKind::Other, move |transaction| transaction.forget(&some)).await?;
            gone += forgotten.jobs;
            rest = &rest[forgotten.ids..];
        }
        self.truncate_log_after_forget().await?;
        Ok(gone)
    }

    async fn adopt(&self, snapshots: Vec<JobSnapshot>) -> StoreResult<Vec<Adopted>> {
        self.write(RequestKind::Other, move |transaction| transaction.adopt(&snapshots)).await
    }

    async fn raise_fence(&self, fence: Fence) -> StoreResult<()> {
        self.write(RequestKind::Other, move |transaction| transaction.raise_fence(fence)).await
    }

    async fn write_fenced(&self, fence: Fence, write: FencedWrite) -> StoreResult<Vec<Lease>> {
        self.write(RequestKind::Other, move |transaction| transaction.write_fenced(fence, write)).await
    }

    async fn snapshots(&self, after: Option<u64>, limit: usize) -> StoreResult<Page<JobSnapshot>> {
        self.readers.query(move |file| list_snapshots(file, after, limit)).await
    }

    async fn snapshot(&self, id: &JobId) -> StoreResult<Option<JobSnapshot>> {
        let Some(seq) = self.row_of(id) else { return Ok(None) };
        let page = self.readers.query(move |file| list_snapshots(file, Some(seq - 1), 1)).await?;
        // Its row may have been forgotten in between, and the next one is another job's.
        Ok(page.items.into_iter().find(|transfer| transfer.job.id == *id))
    }
}

impl EmbeddedStore {
    /// Truncates the log, which still has what was forgotten. Most of it is checkpointed beside the writer, and the
    /// writer only does the rest. A reader may be in the way for a moment.
    async fn truncate_log_after_forget(&self) -> StoreResult<()> {
        for _ in 0..TRUNCATE_TRIES_MAX {
            let path = self.dir.join(FILE_NAME);
            let checkpoint = move || {
                let file = open_file(&path).map_err(unavailable)?;
                let checkpointed = file.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
                checkpointed.map_err(unavailable)
            };
            tokio::task::spawn_blocking(checkpoint).await.unwrap_or_else(|error| Err(unavailable(error)))?;
            let (truncated, is_truncated) = oneshot::channel();
            let request = move |transaction: &mut WriteTransaction<'_, '_>| {
                transaction.truncate_requests.push(truncated);
                Ok::<_, ChangeError>(())
            };
            self.write(RequestKind::Other, request).await?;
            if is_truncated.await.map_err(|_| self.failed())? {
                return Ok(());
            }
            tokio::time::sleep(TRUNCATE_TRY_EVERY).await;
        }
        tracing::warn!(
            "Cannot truncate the database log while it is being read; erased data stays in it for now"
        );
        Ok(())
    }
}
