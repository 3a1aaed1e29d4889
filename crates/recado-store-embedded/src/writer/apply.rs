//! The changes that requests make, each to the file and to the index together.
//!
//! They run on the writer's thread inside a transaction that the writer opened. When any of them fails the
//! writer rolls back and rebuilds the index from the file, so none of them undoes anything itself.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use parking_lot::Mutex;
use recado_core::dead_letter::RECALLED_KEPT;
use recado_core::{
    AuditEvent, AuditKind, BodyHash, Burial, Checksum, DeadLetter, DeadLetterState, JobId, Lease, LeaseToken,
    LostLease, NewJob, Payload, Priority, Progress, Random, RouteName, Status, Timestamp, Transition,
};
use recado_store::{
    Cancelled, Claim, Claimed, Discard, Discarded, Enqueued, Extended, Fence, FencedWrite, JobSnapshot, Pick,
    Pruned, Redrive, Redriven, Retention, Settled, SnapshotState, StoreError,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use tokio::sync::oneshot;

use crate::disk::SpaceGuard;
use crate::index::{ActiveLease, Index, JobLocation, Phase, Slot};
use crate::rows::{self, ATTEMPTS_COLUMN, JOB_COLUMNS, Result};
use crate::store::audit_log::{PreparedSettlement, Recorder};
use crate::writer::lock_space;
use crate::writer::request::ChangeError;
use crate::writer::statements::Statements;
use crate::writer::unsynced::UnsyncedJobs;

/// Rows of each kind that one piece of a prune removes at most: about 10 ms of the writer's time.
pub const PRUNE_ROWS_MAX: usize = 250;

static READ_JOB: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {JOB_COLUMNS} FROM jobs WHERE jobs.seq = ?1"));

/// The file and the index, for the length of one transaction.
pub struct WriteTransaction<'a, 'f> {
    pub file: &'f Connection,
    pub statements: &'a Statements<'f>,
    pub index: &'a mut Index,
    pub recorder: Recorder<'a, 'f>,
    pub random: &'a Random,
    pub space: &'a Mutex<SpaceGuard>,
    /// The number that was raised last under each name.
    pub fences: &'a mut BTreeMap<&'static str, u64>,
    /// Callers who want the log truncated when the transaction has ended. False when a reader is in the way.
    pub truncate_requests: &'a mut Vec<oneshot::Sender<bool>>,
    /// Routes that may have work now; their listeners are woken after the commit.
    pub routes_to_wake: &'a mut Vec<RouteName>,
    pub unsynced: &'a mut UnsyncedJobs,
    /// A claim took a job whose last change is not on disk yet.
    pub claimed_unsynced: bool,
}

pub fn make_token(seq: u64, fence: u64) -> LeaseToken {
    LeaseToken(u128::from(seq) << 64 | u128::from(fence))
}

pub fn seq_of(token: LeaseToken) -> u64 {
    (token.0 >> 64) as u64
}

impl WriteTransaction<'_, '_> {
    /// Refuses new jobs while there is no space for them. A request that holds known jobs only needs none.
    pub fn require_space<'j>(&self, mut ids: impl Iterator<Item = &'j JobId>) -> Result<(), ChangeError> {
        match lock_space(self.space, self.file).refusal() {
            Some(why) if !ids.all(|id| self.index.find(self.index.digest(id.as_str())).is_some()) => {
                Err(ChangeError::Refused(StoreError::Full(why.to_owned())))
            }
            _ => Ok(()),
        }
    }

    pub fn raise_fence(&mut self, fence: Fence) -> Result<(), ChangeError> {
        let raised = self.fences.entry(fence.name).or_default();
        *raised = fence.number.max(*raised);
        self.require_fence(fence)
    }

    fn require_fence(&self, fence: Fence) -> Result<(), ChangeError> {
        match self.fences.get(fence.name) == Some(&fence.number) {
            true => Ok(()),
            false => Err(ChangeError::Refused(StoreError::Fenced)),
        }
    }

    /// Carries a write out if its fence stands.
    pub fn write_fenced(&mut self, fence: Fence, write: FencedWrite) -> Result<Vec<Lease>, ChangeError> {
        self.require_fence(fence)?;
        match write {
            FencedWrite::Claim(claim) => return Ok(self.claim(&claim)?.leases),
            FencedWrite::Adopt(snapshots) => drop(self.adopt(&snapshots)?),
            FencedWrite::Record(events) => self.record(&events)?,
            FencedWrite::KvWrite(writes, now) => drop(self.kv_write(writes, now)?),
        }
        Ok(Vec::new())
    }

    pub fn enqueue(&mut self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, ChangeError> {
        self.require_space(jobs.iter().map(|job| &job.id))?;
        let mut answers = Vec::with_capacity(jobs.len());
        for new in jobs {
            answers.push(self.insert_job(new)?);
        }
        Ok(answers)
    }

    /// Inserts the jobs that a change brings about, however short room is: the reserve is for these too.
    fn enqueue_follow_ups(&mut self, jobs: Vec<NewJob>) -> Result<()> {
        jobs.into_iter().try_for_each(|new| self.insert_job(new).map(drop))
    }

    fn insert_job(&mut self, new: NewJob) -> Result<Enqueued> {
        let id = self.index.digest(new.id.as_str());
        if let Some(seq) = self.index.row_of(id) {
            return self.answer_known(seq, &new);
        }
        let status = Status::waiting(&Progress::default(), new.due_at, new.enqueued_at);
        let body_hash = new.body_hash;
        self.insert_snapshot(id, &JobSnapshot::new(new.into(), body_hash, SnapshotState::Waiting))?;
        Ok(Enqueued::Accepted { status })
    }

    fn answer_known(&self, seq: u64, new: &NewJob) -> Result<Enqueued> {
        let (hash, stored, due, spent): ([u8; 16], String, i64, u32) = self
            .file
            .prepare_cached("SELECT bodyHash, status, dueAt, attemptsSpent FROM jobs WHERE seq = ?1")?
            .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        if BodyHash(u128::from_be_bytes(hash)) != new.body_hash {
            return Ok(Enqueued::Conflict);
        }
        let progress = Progress { attempts_spent: spent, ..Progress::default() };
        let status = Status::parse(&stored).unwrap_or_else(|| match self.index.leases.contains_key(&seq) {
            true => Status::Delivering,
            false => Status::waiting(&progress, Timestamp::from_millis(due), new.enqueued_at),
        });
        Ok(Enqueued::Duplicate { status })
    }

    /// The job in this slot waits from now on: listeners to its route are woken when that is on disk. Not if the lane
    /// has one that is due earlier: listeners have been woken for that one, or know its time from their last claim.
    pub fn on_claimable(&mut self, slot: u32) {
        let Slot { seq, due, lane, .. } = *self.index.slots.get(slot);
        self.unsynced.add(seq);
        if self.index.next_due(lane).is_some_and(|next| next < due) {
            return;
        }
        let route = self.index.route(slot);
        if self.routes_to_wake.last() != Some(&route) && !self.routes_to_wake.contains(&route) {
            self.routes_to_wake.push(route);
        }
    }

    pub fn claim(&mut self, claim: &Claim) -> Result<Claimed> {
        let now = claim.now.as_millis();
        let mut claimed = Claimed::default();
        match &claim.pick {
            Pick::Ready(route) => {
                let Some(lane) = self.index.lane_of(route.as_str()) else { return Ok(claimed) };
                self.index.begin_claim(lane, now);
                while claimed.leases.len() < claim.max {
                    let Some(slot) = self.index.take_ready(lane, now, &claim.turns) else { break };
                    claimed.leases.push(self.lease_slot(slot, claim, None)?);
                }
                claimed.next_at = self.index.next_due(lane).map(Timestamp::from_millis);
            }
            Pick::Overdue => {
                while claimed.leases.len() < claim.max {
                    let Some(slot) = self.index.take_overdue(now) else { break };
                    claimed.leases.push(self.lease_slot(slot, claim, None)?);
                }
                claimed.next_at = self.index.next_expiry().map(Timestamp::from_millis);
            }
            Pick::Orphaned => {
                while claimed.leases.len() < claim.max {
                    let Some(seq) = self.index.find_orphan(now) else { break };
                    // A new lease that ends by then, too, is found again.
                    if claimed.leases.iter().any(|lease| seq_of(lease.token) == seq) {
                        break;
                    }
                    let Some(held) = self.index.leases.get(&seq) else { break };
                    let (slot, lost) = (held.slot, held.as_lost.clone());
                    claimed.leases.push(self.lease_slot(slot, claim, Some(lost))?);
                }
                claimed.next_at = self.index.next_lease_end().map(|(at, _)| Timestamp::from_millis(at));
            }
        }
        Ok(claimed)
    }

    fn lease_slot(&mut self, slot: u32, claim: &Claim, lost: Option<LostLease>) -> Result<Lease> {
        let seq = self.index.slots.get(slot).seq;
        self.claimed_unsynced |= self.unsynced.contains(seq);
        let fence = self.random.next_u64();
        let (mut job, attempts) = self.read_job(seq, |row| {
            let job = rows::job(row)?;
            // A history that cannot be read is no history: the job is damaged and goes no further.
            let attempts = row.get::<_, Option<Box<str>>>(ATTEMPTS_COLUMN).ok().flatten();
            Ok((job, attempts))
        })?;
        let attempts = attempts.filter(|_| !job.attempts.is_empty());
        // One copy of each name in memory, however many jobs bear it.
        job.route = self.index.route(slot);
        job.company = self.index.company(slot);
        let as_lost = LostLease {
            attempt: lost.as_ref().map_or(job.progress.attempts_started + 1, |lost| lost.attempt),
            claimed_at: claim.now,
            worker: claim.worker.clone(),
            provider: claim.provider.clone().or_else(|| lost.as_ref()?.provider.clone()),
        };
        let (attempt, expires_at) = (as_lost.attempt, claim.lease_until.as_millis());
        self.execute(
            "INSERT OR REPLACE INTO leases VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                seq,
                fence.cast_signed(),
                attempt,
                claim.now.as_millis(),
                expires_at,
                &*claim.worker,
                claim.outlives_process,
                as_lost.provider.as_deref(),
            ],
        )?;
        let progress = job.progress;
        self.index.add_lease(ActiveLease { slot, fence, expires_at, as_lost, progress, attempts });
        Ok(Lease {
            token: make_token(seq, fence),
            attempt,
            claimed_at: claim.now,
            expires_at: claim.lease_until,
            job,
            lost,
        })
    }

    /// Runs a statement that is prepared once.
    pub fn execute(&self, sql: &'static str, values: impl Params) -> Result<usize> {
        self.statements.execute(sql, values)
    }

    fn read_job<T>(&self, seq: u64, read: impl FnOnce(&Row<'_>) -> Result<T>) -> Result<T> {
        self.statements.query_row(&READ_JOB, [seq], read)
    }

    pub fn extend(&mut self, tokens: &[LeaseToken], until: Timestamp) -> Result<Vec<Extended>> {
        let mut answers = Vec::with_capacity(tokens.len());
        for &given in tokens {
            let seq = seq_of(given);
            match self.index.leases.get(&seq) {
                Some(held) if make_token(seq, held.fence) == given => {
                    self.execute(
                        "UPDATE leases SET expiresAt = ?2 WHERE seq = ?1",
                        params![seq, until.as_millis()],
                    )?;
                    self.index.extend(seq, until.as_millis());
                    answers.push(Extended::Until(until));
                }
                _ => answers.push(Extended::Stale),
            }
        }
        Ok(answers)
    }

    pub fn settle(&mut self, settlements: Vec<PreparedSettlement>) -> Result<Vec<Settled>> {
        settlements.into_iter().map(|settling| self.settle_one(settling)).collect()
    }

    fn settle_one(
        &mut self,
        PreparedSettlement { settlement, record, history }: PreparedSettlement,
    ) -> Result<Settled> {
        let seq = seq_of(settlement.token);
        let held = match self.index.leases.get(&seq) {
            Some(held) if make_token(seq, held.fence) == settlement.token => held.clone(),
            _ => return Ok(Settled::Stale),
        };
        let record = record.map(|record| self.append(&record)).transpose()?;
        let progress = settlement.transition.step(held.progress);
        let attempts = match (&held.attempts, settlement.transition.attempt()) {
            (None, _) => history,
            (Some(before), None) => Some(before.to_string()),
            (Some(before), Some(attempt)) => Some(rows::append_attempt(before, attempt)?),
        };
        match settlement.transition {
            Transition::Deliver { answer, .. } => {
                let Progress { attempts_started, attempts_spent, crashes, deferrals, replays } = progress;
                let (ended_at, answer) = (settlement.now.as_millis(), answer.as_ref().map(Payload::as_str));
                self.execute(
                    "UPDATE jobs SET status = 'sent', endedAt = ?2, attemptsStarted = ?3, \
                     attemptsSpent = ?4, crashes = ?5, deferrals = ?6, attempts = ?7, answer = ?8, \
                     data = NULL, records = coalesce(records || ',' || ?9, ?9, records) WHERE seq = ?1",
                    params![
                        seq,
                        ended_at,
                        attempts_started,
                        attempts_spent,
                        crashes,
                        deferrals,
                        attempts,
                        answer,
                        record
                    ],
                )?;
                if replays > 0 {
                    self.index.dead_count -= self.execute("DELETE FROM dlq WHERE seq = ?1", [seq])? as u64;
                }
                self.index.retire(held.slot);
                self.index.ended.insert((ended_at, seq));
            }
            Transition::RetryAt { at: due, .. }
            | Transition::Postpone { until: due }
            | Transition::Release { at: due, .. } => {
                self.requeue(seq, held.slot, progress, due, attempts, record)?
            }
            Transition::Bury(burial) => self.bury(seq, &held, progress, burial, record)?,
        }
        self.execute("DELETE FROM leases WHERE seq = ?1", [seq])?;
        self.index.remove_lease(seq);
        self.enqueue_follow_ups(settlement.follow_ups)?;
        Ok(Settled::Done)
    }

    fn requeue(
        &mut self,
        seq: u64,
        slot: u32,
        progress: Progress,
        due: Timestamp,
        attempts: Option<String>,
        record: Option<u64>,
    ) -> Result<()> {
        let due = due.as_millis();
        let Progress { attempts_started, attempts_spent, crashes, deferrals, .. } = progress;
        self.execute(
            "UPDATE jobs SET dueAt = ?2, attemptsStarted = ?3, attemptsSpent = ?4, crashes = ?5, \
             deferrals = ?6, attempts = ?7, records = coalesce(records || ',' || ?8, ?8, records) \
             WHERE seq = ?1",
            params![seq, due, attempts_started, attempts_spent, crashes, deferrals, attempts, record],
        )?;
        self.index.queue(slot, due);
        self.on_claimable(slot);
        Ok(())
    }

    fn bury(
        &mut self,
        seq: u64,
        held: &ActiveLease,
        progress: Progress,
        burial: Burial,
        record: Option<u64>,
    ) -> Result<()> {
        let mut job = self.read_job(seq, rows::job)?;
        job.progress = progress;
        let accepted = match progress.replays {
            0 => None,
            // The payload that it was accepted with; a person may have corrected it since.
            _ => self
                .file
                .prepare_cached("SELECT originalData FROM dlq WHERE seq = ?1")?
                .query_row([seq], |row| Ok(Payload::trusted(rows::text(row, 0))))
                .optional()?,
        };
        let entry = DeadLetter::new(job, accepted, burial);
        let Progress { attempts_started, attempts_spent, crashes, deferrals, .. } = progress;
        let (attempts, data) =
            (rows::json(&entry.attempts)?, entry.corrected_data.as_ref().map(Payload::as_str));
        self.execute(
            "UPDATE jobs SET status = 'failed', attemptsStarted = ?2, attemptsSpent = ?3, crashes = ?4, \
             deferrals = ?5, attempts = ?6, data = ?7, \
             records = coalesce(records || ',' || ?8, ?8, records) WHERE seq = ?1",
            params![seq, attempts_started, attempts_spent, crashes, deferrals, attempts, data, record],
        )?;
        // A replay that failed again has never left the queue: its entry keeps its place.
        let place: Option<u64> =
            rows::find(self.file, "DELETE FROM dlq WHERE seq = ?1 RETURNING entry", seq)?;
        self.index.dead_count -= u64::from(place.is_some());
        self.write_dead_letter(seq, &entry, place)?;
        self.index.retire(held.slot);
        Ok(())
    }

    /// Ends a job that is not leased.
    fn end_job(&mut self, seq: u64, status: Status, now: Timestamp) -> Result<()> {
        self.execute(
            "UPDATE jobs SET status = ?2, endedAt = ?3, data = NULL WHERE seq = ?1",
            params![seq, status.as_str(), now.as_millis()],
        )?;
        self.index.ended.insert((now.as_millis(), seq));
        Ok(())
    }

    pub fn cancel(&mut self, id: &JobId, event: &AuditEvent) -> Result<Cancelled> {
        let now = event.timestamp;
        let slot = match self.index.find(self.index.digest(id.as_str())) {
            None => return Ok(Cancelled::Unknown),
            Some(JobLocation::Row(seq)) => {
                let stored: Option<String> =
                    rows::find(self.file, "SELECT status FROM jobs WHERE seq = ?1", seq)?;
                return Ok(match stored.as_deref().and_then(Status::parse) {
                    Some(Status::Cancelled) => Cancelled::Already,
                    Some(ended) => Cancelled::Refused(ended),
                    None => Cancelled::Unknown,
                });
            }
            Some(JobLocation::Live(slot)) => slot,
        };
        let seq = self.index.slots.get(slot).seq;
        if self.index.leases.contains_key(&seq) {
            return Ok(Cancelled::Refused(Status::Delivering));
        }
        self.index.remove_waiting(slot);
        self.index.retire(slot);
        // A replay that is called off leaves the dead letter where it was.
        let replaying = self.execute(
            "UPDATE dlq SET state = 'dead', ttl = ttl + max(?2 - expiresAt, 0), \
             expiresAt = max(?2, expiresAt) WHERE seq = ?1 AND state = 'replaying'",
            params![seq, now.plus(RECALLED_KEPT).as_millis()],
        )?;
        if replaying > 0 {
            self.execute(
                "UPDATE jobs SET status = 'failed', \
                 data = nullif(data, (SELECT originalData FROM dlq WHERE dlq.seq = jobs.seq)) WHERE seq = ?1",
                [seq],
            )?;
        } else {
            self.end_job(seq, Status::Cancelled, now)?;
        }
        self.write_audit(Some(seq), event)?;
        Ok(Cancelled::Done)
    }

    fn find_dead_letter(&self, id: &JobId) -> Result<Option<(u64, DeadLetterState)>> {
        let Some(seq) = self.index.row_of(self.index.digest(id.as_str())) else { return Ok(None) };
        let state: Option<String> = rows::find(self.file, "SELECT state FROM dlq WHERE seq = ?1", seq)?;
        Ok(state.map(|state| (seq, rows::dead_letter_state(&state))))
    }

    pub fn redrive(&mut self, redrive: Redrive) -> Result<Redriven> {
        let seq = match self.find_dead_letter(&redrive.id)? {
            None => return Ok(Redriven::Unknown),
            Some((_, DeadLetterState::Replaying)) => return Ok(Redriven::AlreadyReplaying),
            Some((seq, DeadLetterState::Dead)) => seq,
        };
        let (company, route, priority, checksum): (String, String, u8, Option<Vec<u8>>) = self
            .file
            .prepare_cached("SELECT companyId, route, priority, checksum FROM jobs WHERE seq = ?1")?
            .query_row([seq], |row| {
                let (company, route) = (rows::text(row, 0).into(), rows::text(row, 1).into());
                let priority = Priority::new(rows::number(row, 2)).unwrap_or_default();
                Ok((company, route, priority.level(), row.get(3).ok().flatten()))
            })?;
        let checksum = match (checksum.as_deref().and_then(Checksum::from_bytes), &redrive.data) {
            (Some(before), Some(data)) => Some(before.with_data(data).to_bytes().to_vec()),
            _ => checksum,
        };
        let (due, expires) = (redrive.due_at.as_millis(), redrive.expires_at.as_millis());
        self.execute("UPDATE dlq SET state = 'replaying' WHERE seq = ?1", [seq])?;
        self.execute(
            "UPDATE jobs SET status = 'waiting', dueAt = ?2, expiresAt = ?3, attemptsSpent = 0, \
             crashes = 0, replays = replays + 1, checksum = ?5, \
             data = coalesce(?4, data, (SELECT originalData FROM dlq WHERE dlq.seq = jobs.seq)) \
             WHERE seq = ?1",
            params![seq, due, expires, redrive.data.as_ref().map(Payload::as_str), checksum],
        )?;
        let id = self.index.digest(redrive.id.as_str());
        self.index.forget_row(id);
        let (company, lane) = (self.index.company_key(&company), self.index.lane_key(&route));
        let slot =
            self.index.insert(Slot { id, seq, due, expires, company, lane, priority, phase: Phase::Free });
        self.on_claimable(slot);
        self.write_audit(Some(seq), &redrive.audit)?;
        self.enqueue_follow_ups(redrive.follow_ups)?;
        Ok(Redriven::Done)
    }

    pub fn discard(&mut self, discard: Discard) -> Result<Discarded> {
        match self.find_dead_letter(&discard.id)? {
            None => Ok(Discarded::Unknown),
            Some((_, DeadLetterState::Replaying)) => Ok(Discarded::Replaying),
            Some((seq, DeadLetterState::Dead)) => {
                if let Some(expected) = discard.replays
                    && rows::find(self.file, "SELECT replays FROM jobs WHERE seq = ?1", seq)?
                        != Some(expected)
                {
                    return Ok(Discarded::DiedAgain);
                }
                self.drop_dead_letter(seq, &discard.audit)?;
                self.enqueue_follow_ups(discard.follow_ups)?;
                Ok(Discarded::Done)
            }
        }
    }

    fn drop_dead_letter(&mut self, seq: u64, event: &AuditEvent) -> Result<()> {
        self.execute("DELETE FROM dlq WHERE seq = ?1", [seq])?;
        self.index.dead_count -= 1;
        self.end_job(seq, Status::Discarded, event.timestamp)?;
        self.write_audit(Some(seq), event)
    }

    pub fn prune(&mut self, retention: &Retention, now: Timestamp) -> Result<Pruned> {
        let mut pruned = Pruned::default();
        let mut over = self.file.prepare_cached(
            "SELECT jobs.seq, jobs.jobId, jobs.route, jobs.companyId, jobs.userId, jobs.correlationId \
             FROM dlq JOIN jobs ON jobs.seq = dlq.seq \
             WHERE dlq.expiresAt <= ?1 AND dlq.state = 'dead' ORDER BY dlq.expiresAt LIMIT ?2",
        )?;
        let expired: Vec<(u64, AuditEvent)> = over
            .query_map(params![now.as_millis(), PRUNE_ROWS_MAX as i64], |row| {
                let (id, route): (String, String) = (row.get(1)?, row.get(2)?);
                let mut event = AuditEvent::claim(&id, &route, AuditKind::DeadLetterExpired, now);
                event.job_id = Some(id.into());
                event.company_id = row.get(3)?;
                event.user_id = row.get(4)?;
                event.correlation_id = row.get(5)?;
                Ok((row.get(0)?, event))
            })?
            .collect::<Result<_>>()?;
        for (seq, event) in &expired {
            self.drop_dead_letter(*seq, event)?;
        }
        pruned.dead_letters = expired.len() as u64;

        let max_count = usize::try_from(retention.ended_max_count).unwrap_or(usize::MAX);
        while let Some(&(ended_at, seq)) = self.index.ended.first() {
            let too_old = Timestamp::from_millis(ended_at).plus(retention.ended_max_age) <= now;
            if !too_old && self.index.ended.len() <= max_count {
                break;
            }
            if pruned.ended as usize >= PRUNE_ROWS_MAX {
                pruned.more = true;
                break;
            }
            self.index.ended.remove(&(ended_at, seq));
            self.index.owner_index.remove(seq);
            let id: Option<String> =
                rows::find(self.file, "DELETE FROM jobs WHERE seq = ?1 RETURNING jobId", seq)?;
            if let Some(id) = id {
                self.index.forget_row(self.index.digest(&id));
                pruned.ended += 1;
            }
        }
        pruned.kv_entries = self.prune_entries(now)?;
        pruned.more |= expired.len().max(pruned.kv_entries as usize) >= PRUNE_ROWS_MAX;
        Ok(pruned)
    }

    pub fn record(&mut self, events: &[AuditEvent]) -> Result<()> {
        events.iter().try_for_each(|event| {
            let about = event.job_id.as_deref().and_then(|id| self.index.row_of(self.index.digest(id)));
            self.write_audit(about, event)
        })
    }
}
