//! Snapshots of jobs, made and taken in: for another store, or back from an archive.

use recado_core::{AuditEvent, BodyHash, DeadLetter, DeadLetterState, Payload, Status, Timestamp};
use recado_store::{Adopted, JobSnapshot, Page, SnapshotState};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::apply::WriteTransaction;
use crate::audit_log;
use crate::index::{JobLocation, WaitingJob};
use crate::inspect;
use crate::rows::{self, JOB_COLUMN_COUNT, JOB_COLUMNS};

type Result<T> = rusqlite::Result<T>;

impl WriteTransaction<'_> {
    pub fn adopt(&mut self, snapshots: &[JobSnapshot]) -> Result<Vec<Adopted>> {
        snapshots.iter().map(|snapshot| self.adopt_one(snapshot)).collect()
    }

    fn adopt_one(&mut self, snapshot: &JobSnapshot) -> Result<Adopted> {
        let id = self.index.digest(snapshot.job.id.as_str());
        let mut replaced = None;
        if let Some(place) = self.index.find(id) {
            let given_up = self.find_discarded(place)?.filter(|_| snapshot.state == SnapshotState::Dead);
            let Some((ended_at, seq)) = given_up else { return Ok(Adopted::Known) };
            replaced = self
                .file
                .prepare_cached("DELETE FROM jobs WHERE seq = ?1 RETURNING records")?
                .query_row([seq], |row| row.get::<_, Option<Box<str>>>(0))?;
            self.index.forget_row(id);
            self.index.owner_index.remove(seq);
            self.index.ended.remove(&(ended_at, seq));
        }
        let seq = self.index.next_seq;
        self.write_job(seq, snapshot)?;
        if let Some(entry) = &snapshot.dead_letter {
            self.write_dead_letter(seq, entry, snapshot.queue_place)?;
        }
        let job = &snapshot.job;
        let company = self.index.company_key(job.company.as_str());
        let lane = self.index.lane_key(job.route.as_str());
        match &snapshot.state {
            SnapshotState::Waiting => {
                let entry = WaitingJob {
                    id,
                    seq,
                    due: job.due_at.as_millis(),
                    expires: job.expires_at.as_millis(),
                    company,
                    lane,
                    priority: job.priority.level(),
                };
                self.index.insert(entry);
                self.wake_route(job.route.clone());
            }
            SnapshotState::Dead => self.index.remember_row(id, seq),
            SnapshotState::Ended { at, .. } => {
                self.index.remember_row(id, seq);
                self.index.ended.insert((at.as_millis(), seq));
            }
        }
        self.index.owner_index.insert(seq, company, lane);
        let known = replaced.map_or(Ok(Vec::new()), |records| self.adopt_records(&records, seq))?;
        for (nth, event) in snapshot.audit.iter().enumerate().filter(|(_, event)| !known.contains(event)) {
            match nth < snapshot.archived {
                true => self.write_archived(seq, event)?,
                false => self.write_audit(Some(seq), event)?,
            }
        }
        Ok(Adopted::Done)
    }

    /// The trail of a job that came back is its own from now on: what is on it.
    fn adopt_records(&self, records: &str, seq: u64) -> Result<Vec<AuditEvent>> {
        self.file
            .prepare_cached("UPDATE jobs SET records = ?1 WHERE seq = ?2")?
            .execute(params![records, seq])?;
        audit_log::read_job_records(self.file, records)
    }

    /// The time when a job was discarded, and its row, if it was.
    fn find_discarded(&self, place: JobLocation) -> Result<Option<(i64, u64)>> {
        let JobLocation::Row(seq) = place else { return Ok(None) };
        self.file
            .prepare_cached("SELECT endedAt FROM jobs WHERE seq = ?1 AND status = 'discarded'")?
            .query_row([seq], |row| row.get(0))
            .optional()
            .map(|ended_at| ended_at.map(|at| (at, seq)))
    }

    fn write_job(&self, seq: u64, snapshot: &JobSnapshot) -> Result<()> {
        let JobSnapshot { job, body_hash, state, dead_letter, .. } = snapshot;
        let (status, ended_at, answer) = match state {
            SnapshotState::Waiting => ("waiting", None, None),
            SnapshotState::Dead => (Status::Failed.as_str(), None, None),
            SnapshotState::Ended { status, at, answer } => {
                (status.as_str(), Some(at.as_millis()), answer.as_ref())
            }
        };
        let attempts = (!job.attempts.is_empty()).then(|| rows::json(&job.attempts)).transpose()?;
        let data = match state {
            SnapshotState::Waiting => Some(&job.data),
            SnapshotState::Dead => dead_letter.as_ref().and_then(|entry| entry.corrected_data.as_ref()),
            SnapshotState::Ended { .. } => None,
        };
        self.file
            .prepare_cached(
                "INSERT INTO jobs (seq, jobId, route, companyId, status, priority, enqueuedAt, dueAt, expiresAt, \
                 endedAt, attemptsStarted, attemptsSpent, crashes, deferrals, replays, bodyHash, userId, \
                 correlationId, attempts, answer, data, traceparent, checksum) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, \
                 ?22, ?23)",
            )?
            .execute(params![
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
            ])?;
        Ok(())
    }

    /// Puts an entry in the queue, at its place or as the newest.
    pub fn write_dead_letter(&mut self, seq: u64, entry: &DeadLetter, place: Option<u64>) -> Result<()> {
        self.file
            .prepare_cached(
                "INSERT INTO dlq (seq, jobId, outboxId, companyId, route, originalData, failedAttempts, lastFailureReason, \
                 lastFailureCode, lastFailureTimestamp, enqueuedAt, movedToDLQAt, ttl, expiresAt, userId, correlationId, \
                 errorClassification, stackTrace, attempts, fingerprint, cause, state, entry) \
                 VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, \
                 ?22)",
            )?
            .execute(params![
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
                match entry.state {
                    DeadLetterState::Dead => "dead",
                    DeadLetterState::Replaying => "replaying",
                },
                place,
            ])?;
        self.index.dead_count += 1;
        Ok(())
    }
}

pub fn list_snapshots(file: &Connection, after: Option<u64>, limit: usize) -> Result<Page<JobSnapshot>> {
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
        snapshot.dead_letter = inspect::dead_letter(file, *seq)?;
        snapshot.audit = inspect::audit(file, *seq)?;
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
    let snapshot = JobSnapshot {
        job: rows::job(row)?,
        body_hash: BodyHash(row.get(at).map(u128::from_be_bytes)?),
        state,
        dead_letter: None,
        queue_place: None,
        audit: Vec::new(),
        archived: 0,
    };
    Ok((row.get(at + 4)?, snapshot))
}
