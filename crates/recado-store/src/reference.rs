//! The contract in its plainest form: a list, scanned. Slow, obvious, and the oracle for the others.
//!
//! It lives in memory and promises nothing about crashes.

mod audit_log;
mod dead_letters;
mod key_value;
mod lanes;
mod oracle;
mod transfer;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::job::remember;
use recado_core::{
    AuditEvent, AuditKind, BodyHash, DeadLetter, DeadLetterState, Job, JobId, Lease, LeaseToken, LostLease,
    NewJob, Payload, Progress, RouteName, Status, Timestamp, Transition,
};

use crate::{
    Cancelled, Claim, Claimed, Counts, DataBytes, DeadLetterFilter, DeadLetterGroup, Discard, Discarded,
    Durability, Enqueued, Extended, GroupBy, Inspect, JobFilter, JobStore, JobView, LeftOut, Page,
    PageRequest, Pick, Pruned, Redrive, Redriven, Retention, Settled, Settlement, StoreError, StoreReport,
    TenantFilter, TenantView, Waker, Wakes,
};
use audit_log::AuditTrail;
use key_value::KeyValueTable;
use lanes::Lane;

pub use oracle::Candidate;

#[derive(Debug, Default)]
pub struct ReferenceStore {
    state: Mutex<State>,
    /// The number that was raised last under each name. Locked while a fenced write is made.
    fences: tokio::sync::Mutex<HashMap<&'static str, u64>>,
    wakes: Wakes,
}

#[derive(Debug, Default)]
struct State {
    records: Vec<StoredJob>,
    last_seq: u64,
    next_fence: u128,
    lanes: HashMap<RouteName, Lane>,
    /// By number.
    dead: Vec<(u64, DeadLetter)>,
    last_dead: u64,
    trail: AuditTrail,
    namespaces: KeyValueTable,
}

#[derive(Debug)]
struct StoredJob {
    seq: u64,
    job: Job,
    body_hash: BodyHash,
    phase: Phase,
}

#[derive(Debug, Clone)]
enum Phase {
    Waiting,
    Leased(HeldLease),
    Ended { status: Status, at: Timestamp, answer: Option<Payload> },
    Dead,
}

#[derive(Debug, Clone)]
struct HeldLease {
    token: LeaseToken,
    attempt: u32,
    claimed_at: Timestamp,
    expires_at: Timestamp,
    worker: Box<str>,
    provider: Option<Box<str>>,
    /// Read by [`oracle`] alone: nothing here outlives the process.
    outlives_process: bool,
}

impl ReferenceStore {
    /// Inserts the jobs that a change brings about.
    fn insert_follow_ups(&self, state: &mut State, jobs: Vec<NewJob>) {
        for new in jobs {
            if state.find(&new.id).is_none() {
                self.insert_job(state, new);
            }
        }
    }

    fn insert_job(&self, state: &mut State, new: NewJob) {
        state.last_seq += 1;
        let (seq, route, body_hash) = (state.last_seq, new.route.clone(), new.body_hash);
        state.records.push(StoredJob { seq, body_hash, job: Job::from(new), phase: Phase::Waiting });
        self.wakes.wake(&route);
    }
}

impl State {
    fn find(&mut self, id: &JobId) -> Option<&mut StoredJob> {
        self.records.iter_mut().find(|record| record.job.id == *id)
    }

    fn find_leased(&mut self, token: LeaseToken) -> Option<&mut StoredJob> {
        self.records
            .iter_mut()
            .find(|record| matches!(&record.phase, Phase::Leased(held) if held.token == token))
    }

    /// Returns the jobs that wait, earliest end of life first.
    fn list_by_expiry(&self) -> Vec<(usize, Timestamp)> {
        let mut waiting: Vec<(usize, Timestamp)> = (0..self.records.len())
            .filter(|&at| matches!(self.records[at].phase, Phase::Waiting))
            .map(|at| (at, self.records[at].job.expires_at))
            .collect();
        waiting.sort_by_key(|&(at, expires)| (expires, self.records[at].seq));
        waiting
    }

    /// Returns the jobs that wait on a route, earliest due first.
    fn list_by_due_time(&self, route: &RouteName) -> Vec<(usize, Timestamp)> {
        let waits = |record: &StoredJob| matches!(record.phase, Phase::Waiting) && record.job.route == *route;
        let mut waiting: Vec<(usize, Timestamp)> = (0..self.records.len())
            .filter(|&at| waits(&self.records[at]))
            .map(|at| (at, self.records[at].job.due_at))
            .collect();
        waiting.sort_by_key(|&(at, due)| (due, self.records[at].seq));
        waiting
    }

    /// Returns the leased jobs, earliest end of the lease first.
    fn list_by_lease_end(&self) -> Vec<(usize, Timestamp)> {
        let mut held: Vec<(usize, Timestamp)> = Vec::new();
        for (at, record) in self.records.iter().enumerate() {
            if let Phase::Leased(lease) = &record.phase {
                held.push((at, lease.expires_at));
            }
        }
        held.sort_by_key(|&(at, expires)| (expires, self.records[at].seq));
        held
    }

    /// Returns the time when time alone will bring more of what this picks.
    fn next_at(&self, pick: &Pick, now: Timestamp) -> Option<Timestamp> {
        let times: Vec<Timestamp> = match pick {
            Pick::Ready(route) => self.list_by_due_time(route).into_iter().map(|(_, due)| due).collect(),
            Pick::Overdue => self.list_by_expiry().into_iter().map(|(_, expires)| expires).collect(),
            Pick::Orphaned => self.list_by_lease_end().into_iter().map(|(_, expires)| expires).collect(),
        };
        times.into_iter().filter(|at| *at > now).min()
    }

    fn lease(&mut self, at: usize, claim: &Claim) -> Lease {
        self.next_fence += 1;
        let token = LeaseToken(self.next_fence);
        self.remove_ready(at);
        let record = &mut self.records[at];
        let lost = match &record.phase {
            Phase::Leased(held) => Some(LostLease {
                attempt: held.attempt,
                claimed_at: held.claimed_at,
                worker: held.worker.clone(),
                provider: held.provider.clone(),
            }),
            _ => None,
        };
        let attempt = lost.as_ref().map_or(record.job.progress.attempts_started + 1, |lost| lost.attempt);
        record.phase = Phase::Leased(HeldLease {
            token,
            attempt,
            claimed_at: claim.now,
            expires_at: claim.lease_until,
            worker: claim.worker.clone(),
            provider: claim.provider.clone().or_else(|| lost.as_ref()?.provider.clone()),
            outlives_process: claim.outlives_process,
        });
        Lease {
            token,
            attempt,
            claimed_at: claim.now,
            expires_at: claim.lease_until,
            job: record.job.clone(),
            lost,
        }
    }

    /// Takes a job out of its lane's ring: it waits no more.
    fn remove_ready(&mut self, at: usize) {
        let StoredJob { seq, job, .. } = &self.records[at];
        if let Some(lane) = self.lanes.get_mut(&job.route) {
            lane.remove_ready(*seq);
        }
    }

    fn end_job(&mut self, at: usize, status: Status, now: Timestamp, answer: Option<Payload>) {
        let record = &mut self.records[at];
        record.phase = Phase::Ended { status, at: now, answer };
        record.job.data = Payload::trusted("null");
    }

    fn settle(&mut self, settlement: Settlement) -> Option<RouteName> {
        let record = self.find_leased(settlement.token)?;
        record.job.progress = settlement.transition.step(record.job.progress);
        let (route, seq) = (record.job.route.clone(), record.seq);
        let id = record.job.id.clone();
        let at = self.records.iter().position(|record| record.job.id == id)?;
        if let Transition::Bury(burial) = settlement.transition {
            self.bury(at, burial);
        } else {
            let record = &mut self.records[at];
            if let Some(attempt) = settlement.transition.attempt() {
                remember(&mut record.job.attempts, attempt.clone());
            }
            match settlement.transition {
                Transition::Deliver { answer, .. } => {
                    self.end_job(at, Status::Sent, settlement.now, answer);
                    self.dead.retain(|(_, entry)| entry.job_id != id);
                }
                Transition::RetryAt { at: due, .. }
                | Transition::Postpone { until: due }
                | Transition::Release { at: due, .. } => {
                    record.job.due_at = due;
                    record.phase = Phase::Waiting;
                }
                Transition::Bury(_) => {}
            }
        }
        if let Some(event) = settlement.audit {
            self.trail.append(Some(seq), event);
        }
        Some(route)
    }

    /// Puts an event on the trail of the job it names.
    fn record(&mut self, event: AuditEvent) {
        let about = |record: &&StoredJob| Some(record.job.id.as_str()) == event.job_id.as_deref();
        let seq = self.records.iter().find(about).map(|record| record.seq);
        self.trail.append(seq, event);
    }

    fn view(record: &StoredJob, now: Timestamp) -> JobView {
        let (status, ended_at, answer, held_by) = match &record.phase {
            Phase::Waiting => {
                (Status::waiting(&record.job.progress, record.job.due_at, now), None, None, None)
            }
            Phase::Leased(held) => {
                (Status::Delivering, None, None, Some((held.worker.clone(), held.expires_at)))
            }
            Phase::Ended { status, at, answer, .. } => (*status, Some(*at), answer.clone(), None),
            Phase::Dead => (Status::Failed, None, None, None),
        };
        JobView { job: record.job.clone(), status, ended_at, answer, held_by }
    }
}

fn page_of<T: DataBytes>(mut newest_first: Vec<(u64, T)>, page: PageRequest) -> Page<T> {
    newest_first.retain(|(order, _)| page.before.is_none_or(|before| *order < before));
    newest_first.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
    let Ok(page) = Page::gather(newest_first.into_iter().map(Ok::<_, Infallible>), page.limit);
    page
}

#[async_trait]
impl JobStore for ReferenceStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        let mut state = self.state.lock();
        let mut answers = Vec::with_capacity(jobs.len());
        for new in jobs {
            if let Some(known) = state.find(&new.id) {
                let status = State::view(known, new.enqueued_at).status;
                let same = known.body_hash == new.body_hash;
                answers.push(if same { Enqueued::Duplicate { status } } else { Enqueued::Conflict });
                continue;
            }
            let status = Status::waiting(&Progress::default(), new.due_at, new.enqueued_at);
            self.insert_job(&mut state, new);
            answers.push(Enqueued::Accepted { status });
        }
        Ok(answers)
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let mut state = self.state.lock();
        let mut claimed = Claimed::default();
        match &claim.pick {
            Pick::Ready(route) => {
                state.mark_due(Some(route), claim.now);
                while claimed.leases.len() < claim.max {
                    let Some(at) = state.next_ready(route, &claim, &claimed.leases) else { break };
                    let lease = state.lease(at, &claim);
                    claimed.leases.push(lease);
                }
            }
            Pick::Overdue | Pick::Orphaned => {
                let found = if claim.pick == Pick::Overdue {
                    state.list_by_expiry()
                } else {
                    state.list_by_lease_end()
                };
                for (at, _) in found.into_iter().filter(|(_, time)| *time <= claim.now).take(claim.max) {
                    let lease = state.lease(at, &claim);
                    claimed.leases.push(lease);
                }
            }
        }
        claimed.next_at = state.next_at(&claim.pick, claim.now);
        Ok(claimed)
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> Result<Vec<Extended>, StoreError> {
        let mut state = self.state.lock();
        let extend = |token| match state.find_leased(token).map(|record| &mut record.phase) {
            Some(Phase::Leased(held)) => {
                held.expires_at = until;
                Extended::Until(until)
            }
            _ => Extended::Stale,
        };
        Ok(tokens.into_iter().map(extend).collect())
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        let mut state = self.state.lock();
        let settle = |mut settlement: Settlement| {
            let follow_ups = std::mem::take(&mut settlement.follow_ups);
            let Some(route) = state.settle(settlement) else { return Settled::Stale };
            self.wakes.wake(&route);
            self.insert_follow_ups(&mut state, follow_ups);
            Settled::Done
        };
        Ok(settlements.into_iter().map(settle).collect())
    }

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> Result<Cancelled, StoreError> {
        let mut state = self.state.lock();
        let Some(at) = state.records.iter().position(|record| record.job.id == *id) else {
            return Ok(Cancelled::Unknown);
        };
        match State::view(&state.records[at], audit.timestamp).status {
            Status::Cancelled => return Ok(Cancelled::Already),
            status @ (Status::Delivering | Status::Sent | Status::Failed | Status::Discarded) => {
                return Ok(Cancelled::Refused(status));
            }
            Status::Scheduled | Status::Queued | Status::Retrying | Status::Parked => {}
        }
        state.remove_ready(at);
        match state.dead.iter_mut().find(|(_, entry)| entry.job_id == *id) {
            // A replay that is called off leaves the dead letter where it was.
            Some((_, entry)) => {
                entry.recall(audit.timestamp);
                state.records[at].phase = Phase::Dead;
            }
            None => state.end_job(at, Status::Cancelled, audit.timestamp, None),
        }
        state.record(audit);
        Ok(Cancelled::Done)
    }

    async fn redrive(&self, redrive: Redrive) -> Result<Redriven, StoreError> {
        let mut state = self.state.lock();
        let Some((_, entry)) = state.dead.iter_mut().find(|(_, entry)| entry.job_id == redrive.id) else {
            return Ok(Redriven::Unknown);
        };
        if entry.state == DeadLetterState::Replaying {
            return Ok(Redriven::AlreadyReplaying);
        }
        entry.state = DeadLetterState::Replaying;
        let data = redrive.data.unwrap_or_else(|| entry.data().clone());
        entry.correct(data.clone());
        entry.checksum = entry.checksum.map(|checksum| checksum.with_data(&data));
        let checksum = entry.checksum;
        if let Some(record) = state.find(&redrive.id) {
            let job = &mut record.job;
            job.checksum = checksum;
            job.data = data;
            job.due_at = redrive.due_at;
            job.expires_at = redrive.expires_at;
            job.progress.attempts_spent = 0;
            job.progress.crashes = 0;
            job.progress.replays += 1;
            record.phase = Phase::Waiting;
            self.wakes.wake(&record.job.route);
        }
        state.record(redrive.audit);
        self.insert_follow_ups(&mut state, redrive.follow_ups);
        Ok(Redriven::Done)
    }

    async fn discard(&self, discard: Discard) -> Result<Discarded, StoreError> {
        let mut state = self.state.lock();
        let Some(found) = state.dead.iter().position(|(_, entry)| entry.job_id == discard.id) else {
            return Ok(Discarded::Unknown);
        };
        if state.dead[found].1.state == DeadLetterState::Replaying {
            return Ok(Discarded::Replaying);
        }
        let replays = state.find(&discard.id).map(|record| record.job.progress.replays);
        if discard.replays.is_some_and(|expected| replays != Some(expected)) {
            return Ok(Discarded::DiedAgain);
        }
        state.dead.remove(found);
        if let Some(at) = state.records.iter().position(|record| record.job.id == discard.id) {
            state.end_job(at, Status::Discarded, discard.audit.timestamp, None);
        }
        state.record(discard.audit);
        self.insert_follow_ups(&mut state, discard.follow_ups);
        Ok(Discarded::Done)
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned, StoreError> {
        let mut state = self.state.lock();
        let mut pruned = Pruned::default();
        let over: Vec<DeadLetter> = state
            .dead
            .iter()
            .filter(|(_, entry)| entry.state == DeadLetterState::Dead && entry.expires_at() <= now)
            .map(|(_, entry)| entry.clone())
            .collect();
        for entry in over {
            pruned.dead_letters += 1;
            state.dead.retain(|(_, other)| other.job_id != entry.job_id);
            if let Some(at) = state.records.iter().position(|record| record.job.id == entry.job_id) {
                let audit = AuditEvent::about(&state.records[at].job, AuditKind::DeadLetterExpired, now);
                state.end_job(at, Status::Discarded, now, None);
                state.record(audit);
            }
        }
        let mut ended: Vec<(Timestamp, u64, JobId)> = Vec::new();
        for record in &state.records {
            if let Phase::Ended { at, .. } = record.phase {
                ended.push((at, record.seq, record.job.id.clone()));
            }
        }
        ended.sort_by_key(|(at, seq, _)| (*at, *seq));
        let excess =
            ended.len().saturating_sub(usize::try_from(retention.ended_max_count).unwrap_or(usize::MAX));
        let gone: Vec<JobId> = ended
            .into_iter()
            .enumerate()
            .take_while(|(nth, (at, ..))| *nth < excess || at.plus(retention.ended_max_age) <= now)
            .map(|(_, (.., id))| id)
            .collect();
        pruned.ended = gone.len() as u64;
        state.records.retain(|record| !gone.contains(&record.job.id));
        pruned.kv_entries = state.namespaces.prune(now);
        Ok(pruned)
    }

    fn waker(&self, route: &RouteName) -> Waker {
        self.wakes.waker(route)
    }

    async fn lease(&self, token: LeaseToken) -> Result<Option<Lease>, StoreError> {
        let mut state = self.state.lock();
        Ok(state.find_leased(token).and_then(|record| match &record.phase {
            Phase::Leased(held) => Some(Lease {
                token,
                attempt: held.attempt,
                claimed_at: held.claimed_at,
                expires_at: held.expires_at,
                job: record.job.clone(),
                lost: None,
            }),
            _ => None,
        }))
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl Inspect for ReferenceStore {
    fn durability(&self) -> Durability {
        Durability::Memory
    }

    async fn job(&self, id: &JobId, now: Timestamp) -> Result<Option<JobView>, StoreError> {
        Ok(self.state.lock().find(id).map(|record| State::view(record, now)))
    }

    async fn jobs(
        &self,
        filter: JobFilter,
        page: PageRequest,
        now: Timestamp,
    ) -> Result<Page<JobView>, StoreError> {
        let state = self.state.lock();
        let views = state.records.iter().map(|record| (record.seq, State::view(record, now)));
        let wanted = views.filter(|(_, view)| {
            filter.status.is_none_or(|want| view.status == want) && filter.is_about(&view.job)
        });
        Ok(page_of(wanted.collect(), page))
    }

    async fn audit(&self, id: &JobId) -> Result<Vec<AuditEvent>, StoreError> {
        let mut state = self.state.lock();
        let Some(seq) = state.find(id).map(|record| record.seq) else { return Ok(Vec::new()) };
        Ok(state.trail.events_of(seq))
    }

    async fn dead_letter(&self, id: &JobId) -> Result<Option<DeadLetter>, StoreError> {
        Ok(self
            .state
            .lock()
            .dead
            .iter()
            .find(|(_, entry)| entry.job_id == *id)
            .map(|(_, entry)| entry.clone()))
    }

    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError> {
        let state = self.state.lock();
        Ok(page_of(state.dead.iter().filter(|(_, entry)| filter.matches(entry)).cloned().collect(), page))
    }

    async fn oldest_dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let state = self.state.lock();
        let dead = state.dead.iter().filter(|(_, entry)| entry.state == DeadLetterState::Dead);
        Ok(dead.take(limit).map(|(_, entry)| entry.clone()).collect())
    }

    async fn dead_letter_groups(
        &self,
        by: GroupBy,
        filter: DeadLetterFilter,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        Ok(self.state.lock().groups(by, &filter))
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts, StoreError> {
        let mut state = self.state.lock();
        state.mark_due(None, now);
        let mut counts = Counts { dead_letters: state.dead.len() as u64, ..Counts::default() };
        for record in &state.records {
            match record.phase {
                Phase::Waiting => {
                    let due = record.job.due_at <= now;
                    *(if due { &mut counts.ready } else { &mut counts.delayed }) += 1;
                    *counts.waiting_by_route.entry(record.job.route.clone()).or_default() += 1;
                }
                Phase::Leased(_) => counts.leased += 1,
                Phase::Ended { .. } => counts.ended += 1,
                Phase::Dead => {}
            }
        }
        Ok(counts)
    }

    async fn oldest_due(
        &self,
        left_out: &LeftOut,
        now: Timestamp,
    ) -> Result<BTreeMap<RouteName, Timestamp>, StoreError> {
        let mut oldest = BTreeMap::new();
        for StoredJob { job, phase, .. } in &self.state.lock().records {
            let left_out = [None, Some(job.route.clone())]
                .into_iter()
                .any(|route| left_out.contains(&(route, job.company.clone())));
            if matches!(phase, Phase::Waiting) && job.due_at <= now && !left_out {
                let known = oldest.entry(job.route.clone()).or_insert(job.due_at);
                *known = job.due_at.min(*known);
            }
        }
        Ok(oldest)
    }

    async fn tenants(&self, filter: TenantFilter, now: Timestamp) -> Result<Vec<TenantView>, StoreError> {
        let mut state = self.state.lock();
        state.mark_due(None, now);
        Ok(state.tenants(&filter, now))
    }

    async fn report(&self) -> Result<StoreReport, StoreError> {
        Ok(StoreReport {
            kind: "memory",
            durability: self.durability(),
            size_bytes: 0,
            used_bytes: 0,
            free_bytes: None,
            max_bytes: None,
            refusing: None,
            unanswered: None,
        })
    }
}
