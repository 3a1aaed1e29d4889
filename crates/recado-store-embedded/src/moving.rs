//! Jobs given and taken whole: to another store, or back from an archive.

use recado_core::{AuditEvent, BodyHash, DeadLetter, DeadLetterState, Payload, Status, Timestamp};
use recado_store::{Adopted, JobSnapshot, Page, Standing};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::apply::Apply;
use crate::index::{Entry, Place};
use crate::inspect;
use crate::rows::{self, JOB_COLUMN_COUNT, JOB_COLUMNS};
use crate::trail;

type Result<T> = rusqlite::Result<T>;

impl Apply<'_> {
    pub fn adopt(&mut self, transfers: &[JobSnapshot]) -> Result<Vec<Adopted>> {
        transfers.iter().map(|transfer| self.adopt_one(transfer)).collect()
    }

    fn adopt_one(&mut self, transfer: &JobSnapshot) -> Result<Adopted> {
        let id = self.index.digest(transfer.job.id.as_str());
        let mut replaced = None;
        if let Some(place) = self.index.find(id) {
            let given_up = self.given_up(place)?.filter(|_| transfer.standing == Standing::Dead);
            let Some((ended_at, seq)) = given_up else { return Ok(Adopted::Known) };
            replaced = self
                .file
                .prepare_cached("DELETE FROM jobs WHERE seq = ?1 RETURNING records")?
                .query_row([seq], |row| row.get::<_, Option<Box<str>>>(0))?;
            self.index.forget_row(id);
            self.index.owners.forget(seq);
            self.index.ended.remove(&(ended_at, seq));
        }
        let seq = self.index.next_seq;
        self.write_job(seq, transfer)?;
        if let Some(entry) = &transfer.dead_letter {
            self.write_dead_letter(seq, entry, transfer.queue_place)?;
        }
        let job = &transfer.job;
        let company = self.index.company_key(job.company.as_str());
        let lane = self.index.lane_key(job.route.as_str());
        match &transfer.standing {
            Standing::Waiting => {
                let entry = Entry {
                    id,
                    seq,
                    due: job.due_at.as_millis(),
                    expires: job.expires_at.as_millis(),
                    company,
                    lane,
                    priority: job.priority.level(),
                };
                self.index.insert(entry);
                self.ring(job.route.clone());
            }
            Standing::Dead => self.index.remember_row(id, seq),
            Standing::Ended { at, .. } => {
                self.index.remember_row(id, seq);
                self.index.ended.insert((at.as_millis(), seq));
            }
        }
        self.index.owners.note(seq, company, lane);
        let known = replaced.map_or(Ok(Vec::new()), |records| self.take_trail_over(&records, seq))?;
        for (nth, event) in transfer.audit.iter().enumerate().filter(|(_, event)| !known.contains(event)) {
            match nth < transfer.archived {
                true => self.write_archived(seq, event)?,
                false => self.write_audit(Some(seq), event)?,
            }
        }
        Ok(Adopted::Done)
    }

    /// The trail of a job that came back is its own from now on: what is on it.
    fn take_trail_over(&self, records: &str, seq: u64) -> Result<Vec<AuditEvent>> {
        self.file
            .prepare_cached("UPDATE jobs SET records = ?1 WHERE seq = ?2")?
            .execute(params![records, seq])?;
        trail::of_job(self.file, records)
    }

    /// The time when a job was discarded, and its row, if it was.
    fn given_up(&self, place: Place) -> Result<Option<(i64, u64)>> {
        let Place::Row(seq) = place else { return Ok(None) };
        self.file
            .prepare_cached("SELECT endedAt FROM jobs WHERE seq = ?1 AND status = 'discarded'")?
            .query_row([seq], |row| row.get(0))
            .optional()
            .map(|ended_at| ended_at.map(|at| (at, seq)))
    }

    fn write_job(&self, seq: u64, transfer: &JobSnapshot) -> Result<()> {
        let JobSnapshot { job, body_hash, standing, dead_letter, .. } = transfer;
        let (status, ended_at, answer) = match standing {
            Standing::Waiting => ("waiting", None, None),
            Standing::Dead => (Status::Failed.as_str(), None, None),
            Standing::Ended { status, at, answer } => {
                (status.as_str(), Some(at.as_millis()), answer.as_ref())
            }
        };
        let attempts = (!job.attempts.is_empty()).then(|| rows::json(&job.attempts)).transpose()?;
        let data = match standing {
            Standing::Waiting => Some(&job.data),
            Standing::Dead => dead_letter.as_ref().and_then(|entry| entry.corrected_data.as_ref()),
            Standing::Ended { .. } => None,
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
                &transfer.checksum().to_bytes()[..],
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
                entry.last_failure_reason.as_str(),
                entry.last_failure_code.as_deref(),
                entry.last_failure_at.to_string(),
                entry.enqueued_at.to_string(),
                entry.moved_at.to_string(),
                i64::try_from(entry.ttl.as_millis()).unwrap_or(i64::MAX),
                entry.expires_at().as_millis(),
                entry.user_id.as_deref(),
                entry.correlation_id.as_deref(),
                entry.class.as_str(),
                entry.stack_trace.as_deref(),
                rows::json(&entry.attempts)?,
                &*entry.fingerprint,
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

pub fn transfers(file: &Connection, after: Option<u64>, limit: usize) -> Result<Page<JobSnapshot>> {
    let mut select = file.prepare_cached(&format!(
        "SELECT {JOB_COLUMNS}, jobs.bodyHash, jobs.status, jobs.endedAt, jobs.answer, jobs.seq FROM jobs \
         WHERE jobs.seq > ?1 ORDER BY jobs.seq LIMIT ?2"
    ))?;
    let after = i64::try_from(after.unwrap_or(0)).unwrap_or(i64::MAX);
    let rows = select.query_map(params![after, limit as i64 + 1], transfer)?;
    let mut found: Vec<(u64, JobSnapshot)> = rows.collect::<Result<_>>()?;
    let more = found.len() > limit;
    found.truncate(limit);
    for (seq, transfer) in &mut found {
        transfer.dead_letter = inspect::dead_letter(file, *seq)?;
        transfer.audit = inspect::audit(file, *seq)?;
    }
    let next = found.last().map(|(seq, _)| *seq).filter(|_| more);
    Ok(Page { items: found.into_iter().map(|(_, transfer)| transfer).collect(), next })
}

fn transfer(row: &Row<'_>) -> Result<(u64, JobSnapshot)> {
    let at = JOB_COLUMN_COUNT;
    let standing = match Status::parse(row.get_ref(at + 1)?.as_str()?) {
        None => Standing::Waiting,
        Some(Status::Failed) => Standing::Dead,
        Some(status) => Standing::Ended {
            status,
            at: Timestamp::from_millis(row.get::<_, Option<i64>>(at + 2)?.unwrap_or(0)),
            answer: row.get::<_, Option<Box<str>>>(at + 3)?.map(Payload::trusted),
        },
    };
    let transfer = JobSnapshot {
        job: rows::job(row)?,
        body_hash: BodyHash(row.get(at).map(u128::from_be_bytes)?),
        standing,
        dead_letter: None,
        queue_place: None,
        audit: Vec::new(),
        archived: 0,
    };
    Ok((row.get(at + 4)?, transfer))
}
