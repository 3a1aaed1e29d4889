//! The contract in its plainest form: a list, scanned. Slow, obvious, and the oracle for the others.
//!
//! It lives in memory and promises nothing about crashes.

mod audit_log;
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
    AuditEvent, AuditKind, BodyHash, Burial, DeadLetter, DeadLetterState, Job, JobId, Lease, LeaseToken,
    LostLease, NewJob, Payload, Progress, RouteName, Status, Timestamp, Transition,
};

use crate::{
    Cancelled, Claim, Claimed, Counts, DataBytes, DeadLetterFilter, DeadLetterGroup, Discard, Discarded,
    Durability, Enqueued, Extended, GroupBy, GroupCounts, Inspect, JobFilter, JobStore, JobView, LeftOut,
    Page, PageRequest, Pick, Pruned, Redrive, Redriven, Retention, Settled, Settlement, SnapshotState,
    StoreReport, StoreResult, TenantFilter, TenantView, Waker, Wakes,
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
    last_dead: u64,
    trail: AuditTrail,
    namespaces: KeyValueTable,
}

#[derive(Debug)]
struct StoredJob {
    seq: u64,
    job: Job,
    body_hash: BodyHash,
    state: SnapshotState,
    /// Of a job whose state is to wait.
    lease: Option<HeldLease>,
    /// The entry and its number, the same until it leaves the queue: numbers rise in the order in which entries came.
    dead_letter: Option<(u64, DeadLetter)>,
}

#[derive(Debug, Clone)]
struct HeldLease {
    token: LeaseToken,
    expires_at: Timestamp,
    /// The lease as the next one tells of it, should it run out.
    told: LostLease,
    /// Read by [`oracle`] alone: nothing here outlives the process.
    outlives_process: bool,
}

impl StoredJob {
    fn new(seq: u64, job: Job, body_hash: BodyHash, state: SnapshotState) -> Self {
        StoredJob { seq, job, body_hash, state, lease: None, dead_letter: None }
    }

    fn waits(&self) -> bool {
        self.state == SnapshotState::Waiting && self.lease.is_none()
    }

    /// Returns the job's lease, if it has one, as it is given to its holder.
    fn lease(&self, lost: Option<LostLease>) -> Option<Lease> {
        let HeldLease { token, expires_at, ref told, .. } = *self.lease.as_ref()?;
        let LostLease { attempt, claimed_at, .. } = *told;
        Some(Lease { token, attempt, claimed_at, expires_at, job: self.job.clone(), lost })
    }

    fn end(&mut self, status: Status, at: Timestamp, answer: Option<Payload>) {
        self.state = SnapshotState::Ended { status, at, answer };
        self.job.data = Payload::trusted("null");
        self.dead_letter = None;
    }

    fn view(&self, now: Timestamp) -> JobView {
        let (status, ended_at, answer) = match &self.state {
            SnapshotState::Waiting if self.lease.is_some() => (Status::Delivering, None, None),
            SnapshotState::Waiting => (Status::waiting(&self.job.progress, self.job.due_at, now), None, None),
            SnapshotState::Ended { status, at, answer } => (*status, Some(*at), answer.clone()),
            SnapshotState::Dead => (Status::Failed, None, None),
        };
        let held_by = self.lease.as_ref().map(|held| (held.told.worker.clone(), held.expires_at));
        JobView { job: self.job.clone(), status, ended_at, answer, held_by }
    }
}

impl ReferenceStore {
    /// Inserts the jobs that a change brings about.
    fn insert_follow_ups(&self, state: &mut State, jobs: Vec<NewJob>) {
        for new in jobs {
            if state.position(&new.id).is_none() {
                self.insert_job(state, new);
            }
        }
    }

    fn insert_job(&self, state: &mut State, new: NewJob) {
        state.last_seq += 1;
        let (seq, route, body_hash) = (state.last_seq, new.route.clone(), new.body_hash);
        state.records.push(StoredJob::new(seq, new.into(), body_hash, SnapshotState::Waiting));
        self.wakes.wake(&route);
    }
}

impl State {
    fn position(&self, id: &JobId) -> Option<usize> {
        self.records.iter().position(|record| record.job.id == *id)
    }

    fn find_leased(&self, token: LeaseToken) -> Option<usize> {
        let is_leased = |record: &StoredJob| record.lease.as_ref().is_some_and(|held| held.token == token);
        self.records.iter().position(is_leased)
    }

    /// Returns the record of a dead letter's job.
    fn find_dead(&mut self, id: &JobId) -> Option<&mut StoredJob> {
        self.records.iter_mut().find(|record| record.job.id == *id && record.dead_letter.is_some())
    }

    /// Returns the dead letters with their numbers, oldest first.
    fn dead_letters(&self) -> Vec<&(u64, DeadLetter)> {
        let mut entries: Vec<_> =
            self.records.iter().filter_map(|record| record.dead_letter.as_ref()).collect();
        entries.sort_by_key(|(number, _)| *number);
        entries
    }

    /// Returns the number of a new dead letter: its place in the queue, or the newest.
    fn dead_number(&mut self, place: Option<u64>) -> u64 {
        let number = place.unwrap_or(self.last_dead + 1);
        self.last_dead = self.last_dead.max(number);
        number
    }

    /// Returns the jobs that this picks, now or later, each with its time: earliest first.
    fn list_by_time(&self, pick: &Pick) -> Vec<(usize, Timestamp)> {
        let time = |record: &StoredJob| match pick {
            Pick::Orphaned => record.lease.as_ref().map(|held| held.expires_at),
            Pick::Ready(route) if record.job.route != *route => None,
            Pick::Ready(_) => Some(record.job.due_at).filter(|_| record.waits()),
            Pick::Overdue => Some(record.job.expires_at).filter(|_| record.waits()),
        };
        let records = self.records.iter().enumerate();
        let mut found: Vec<_> = records.filter_map(|(at, record)| Some((at, time(record)?))).collect();
        found.sort_by_key(|&(at, time)| (time, self.records[at].seq));
        found
    }

    /// Returns the time when time alone will bring more of what this picks.
    fn next_at(&self, pick: &Pick, now: Timestamp) -> Option<Timestamp> {
        self.list_by_time(pick).into_iter().map(|(_, at)| at).find(|at| *at > now)
    }

    fn lease(&mut self, at: usize, claim: &Claim) -> Option<Lease> {
        self.next_fence += 1;
        self.remove_ready(at);
        let record = &mut self.records[at];
        let lost = record.lease.take().map(|held| held.told);
        let told = LostLease {
            attempt: lost.as_ref().map_or(record.job.progress.attempts_started + 1, |lost| lost.attempt),
            claimed_at: claim.now,
            worker: claim.worker.clone(),
            provider: claim.provider.clone().or_else(|| lost.as_ref()?.provider.clone()),
        };
        record.lease = Some(HeldLease {
            token: LeaseToken(self.next_fence),
            expires_at: claim.lease_until,
            told,
            outlives_process: claim.outlives_process,
        });
        record.lease(lost)
    }

    /// Takes a job out of its lane's ring: it waits no more.
    fn remove_ready(&mut self, at: usize) {
        let StoredJob { seq, job, .. } = &self.records[at];
        if let Some(lane) = self.lanes.get_mut(&job.route) {
            lane.remove_ready(*seq);
        }
    }

    fn settle(&mut self, settlement: Settlement) -> Option<RouteName> {
        let at = self.find_leased(settlement.token)?;
        let StoredJob { job, seq, lease, .. } = &mut self.records[at];
        job.progress = settlement.transition.step(job.progress);
        let (route, seq) = (job.route.clone(), *seq);
        *lease = None;
        let is_buried = matches!(settlement.transition, Transition::Bury(_));
        // A dead letter remembers it by itself.
        if let Some(attempt) = settlement.transition.attempt().filter(|_| !is_buried) {
            remember(&mut job.attempts, attempt.clone());
        }
        match settlement.transition {
            Transition::Bury(burial) => self.bury(at, burial),
            Transition::Deliver { answer, .. } => {
                self.records[at].end(Status::Sent, settlement.now, answer);
            }
            Transition::RetryAt { at: due, .. }
            | Transition::Postpone { until: due }
            | Transition::Release { at: due, .. } => job.due_at = due,
        }
        if let Some(event) = settlement.audit {
            self.trail.append(Some(seq), event);
        }
        Some(route)
    }

    /// Moves a job to the dead letter queue. One whose replay failed keeps its place there.
    fn bury(&mut self, at: usize, burial: Burial) {
        let before = self.records[at].dead_letter.take();
        let number = before.as_ref().map_or_else(|| self.dead_number(None), |(number, _)| *number);
        let record = &mut self.records[at];
        let entry = DeadLetter::new(record.job.clone(), before.map(|(_, entry)| entry.original_data), burial);
        record.job.attempts = entry.attempts.clone();
        record.state = SnapshotState::Dead;
        record.dead_letter = Some((number, entry));
    }

    /// Puts an event on the trail of the job it names.
    fn record(&mut self, event: AuditEvent) {
        let about = |record: &&StoredJob| Some(record.job.id.as_str()) == event.job_id.as_deref();
        let seq = self.records.iter().find(about).map(|record| record.seq);
        self.trail.append(seq, event);
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
    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        let mut state = self.state.lock();
        let mut answers = Vec::with_capacity(jobs.len());
        for new in jobs {
            if let Some(at) = state.position(&new.id) {
                let known = &state.records[at];
                let status = known.view(new.enqueued_at).status;
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

    async fn claim(&self, claim: Claim) -> StoreResult<Claimed> {
        let mut state = self.state.lock();
        let mut claimed = Claimed::default();
        match &claim.pick {
            Pick::Ready(route) => {
                state.mark_due(Some(route), claim.now);
                while claimed.leases.len() < claim.max {
                    let Some(at) = state.next_ready(route, &claim, &claimed.leases) else { break };
                    claimed.leases.extend(state.lease(at, &claim));
                }
            }
            Pick::Overdue | Pick::Orphaned => {
                let found = state.list_by_time(&claim.pick).into_iter();
                for (at, _) in found.filter(|(_, time)| *time <= claim.now).take(claim.max) {
                    claimed.leases.extend(state.lease(at, &claim));
                }
            }
        }
        claimed.next_at = state.next_at(&claim.pick, claim.now);
        Ok(claimed)
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> StoreResult<Vec<Extended>> {
        let mut state = self.state.lock();
        let extend = |token| match state.find_leased(token).and_then(|at| state.records[at].lease.as_mut()) {
            Some(held) => {
                held.expires_at = until;
                Extended::Until(until)
            }
            None => Extended::Stale,
        };
        Ok(tokens.into_iter().map(extend).collect())
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
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

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> StoreResult<Cancelled> {
        let mut state = self.state.lock();
        let Some(at) = state.position(id) else { return Ok(Cancelled::Unknown) };
        match state.records[at].view(audit.timestamp).status {
            Status::Cancelled => return Ok(Cancelled::Already),
            status @ (Status::Delivering | Status::Sent | Status::Failed | Status::Discarded) => {
                return Ok(Cancelled::Refused(status));
            }
            Status::Scheduled | Status::Queued | Status::Retrying | Status::Parked => {}
        }
        state.remove_ready(at);
        let record = &mut state.records[at];
        match &mut record.dead_letter {
            // A replay that is called off leaves the dead letter where it was.
            Some((_, entry)) => {
                entry.recall(audit.timestamp);
                record.state = SnapshotState::Dead;
            }
            None => record.end(Status::Cancelled, audit.timestamp, None),
        }
        state.record(audit);
        Ok(Cancelled::Done)
    }

    async fn redrive(&self, redrive: Redrive) -> StoreResult<Redriven> {
        let mut state = self.state.lock();
        let Some(StoredJob { job, state: stands, dead_letter: Some((_, entry)), .. }) =
            state.find_dead(&redrive.id)
        else {
            return Ok(Redriven::Unknown);
        };
        if entry.state == DeadLetterState::Replaying {
            return Ok(Redriven::AlreadyReplaying);
        }
        entry.state = DeadLetterState::Replaying;
        let data = redrive.data.unwrap_or_else(|| entry.data().clone());
        entry.correct(data.clone());
        entry.checksum = entry.checksum.map(|checksum| checksum.with_data(&data));
        job.checksum = entry.checksum;
        job.data = data;
        job.due_at = redrive.due_at;
        job.expires_at = redrive.expires_at;
        job.progress.attempts_spent = 0;
        job.progress.crashes = 0;
        job.progress.replays += 1;
        *stands = SnapshotState::Waiting;
        self.wakes.wake(&job.route);
        state.record(redrive.audit);
        self.insert_follow_ups(&mut state, redrive.follow_ups);
        Ok(Redriven::Done)
    }

    async fn discard(&self, discard: Discard) -> StoreResult<Discarded> {
        let mut state = self.state.lock();
        let Some(record) = state.find_dead(&discard.id) else { return Ok(Discarded::Unknown) };
        if record.state != SnapshotState::Dead {
            return Ok(Discarded::Replaying);
        }
        if discard.replays.is_some_and(|expected| record.job.progress.replays != expected) {
            return Ok(Discarded::DiedAgain);
        }
        record.end(Status::Discarded, discard.audit.timestamp, None);
        state.record(discard.audit);
        self.insert_follow_ups(&mut state, discard.follow_ups);
        Ok(Discarded::Done)
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> StoreResult<Pruned> {
        let mut state = self.state.lock();
        let mut pruned = Pruned::default();
        let is_over = |entry: &DeadLetter| entry.state == DeadLetterState::Dead && entry.expires_at() <= now;
        let over = state.dead_letters().into_iter().filter(|(_, entry)| is_over(entry));
        for id in over.map(|(_, entry)| entry.job_id.clone()).collect::<Vec<_>>() {
            let Some(record) = state.find_dead(&id) else { continue };
            let audit = AuditEvent::about(&record.job, AuditKind::DeadLetterExpired, now);
            record.end(Status::Discarded, now, None);
            state.record(audit);
            pruned.dead_letters += 1;
        }
        let ended_at = |record: &StoredJob| match record.state {
            SnapshotState::Ended { at, .. } => Some((at, record.seq)),
            _ => None,
        };
        let mut ended: Vec<(Timestamp, u64)> = state.records.iter().filter_map(ended_at).collect();
        ended.sort_unstable();
        let excess = (ended.len() as u64).saturating_sub(retention.ended_max_count);
        let goes = |nth: u64, at: Timestamp| nth < excess || at.plus(retention.ended_max_age) <= now;
        let gone = (0..).zip(&ended).take_while(|(nth, (at, _))| goes(*nth, *at)).count();
        pruned.ended = gone as u64;
        state.records.retain(|record| !ended[..gone].iter().any(|(_, seq)| *seq == record.seq));
        pruned.kv_entries = state.namespaces.prune(now);
        Ok(pruned)
    }

    fn waker(&self, route: &RouteName) -> Waker {
        self.wakes.waker(route)
    }

    async fn leases(&self, tokens: &[LeaseToken]) -> StoreResult<Vec<Option<Lease>>> {
        let state = self.state.lock();
        let lease = |token: &LeaseToken| state.records[state.find_leased(*token)?].lease(None);
        Ok(tokens.iter().map(lease).collect())
    }

    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}

#[async_trait]
impl Inspect for ReferenceStore {
    fn durability(&self) -> Durability {
        Durability::Memory
    }

    async fn job(&self, id: &JobId, now: Timestamp) -> StoreResult<Option<JobView>> {
        let state = self.state.lock();
        Ok(state.position(id).map(|at| state.records[at].view(now)))
    }

    async fn jobs(&self, filter: JobFilter, page: PageRequest, now: Timestamp) -> StoreResult<Page<JobView>> {
        let state = self.state.lock();
        let views = state.records.iter().map(|record| (record.seq, record.view(now)));
        let wanted = views.filter(|(_, view)| {
            filter.status.is_none_or(|want| view.status == want) && filter.is_about(&view.job)
        });
        Ok(page_of(wanted.collect(), page))
    }

    async fn audit(&self, id: &JobId) -> StoreResult<Vec<AuditEvent>> {
        let state = self.state.lock();
        let trail = |at: usize| state.trail.events_of(state.records[at].seq);
        Ok(state.position(id).map(trail).unwrap_or_default())
    }

    async fn dead_letter(&self, id: &JobId) -> StoreResult<Option<DeadLetter>> {
        Ok(self
            .state
            .lock()
            .find_dead(id)
            .and_then(|record| record.dead_letter.clone())
            .map(|(_, entry)| entry))
    }

    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> StoreResult<Page<DeadLetter>> {
        let state = self.state.lock();
        let wanted = state.dead_letters().into_iter().filter(|(_, entry)| filter.matches(entry));
        Ok(page_of(wanted.cloned().collect(), page))
    }

    async fn oldest_dead_letters(&self, limit: usize) -> StoreResult<Vec<DeadLetter>> {
        let state = self.state.lock();
        let dead = state.dead_letters().into_iter().filter(|(_, entry)| entry.state == DeadLetterState::Dead);
        Ok(dead.take(limit).map(|(_, entry)| entry.clone()).collect())
    }

    async fn dead_letter_groups(
        &self,
        by: GroupBy,
        filter: DeadLetterFilter,
    ) -> StoreResult<Vec<DeadLetterGroup>> {
        let mut groups = GroupCounts::default();
        let state = self.state.lock();
        for (_, entry) in state.dead_letters().into_iter().filter(|(_, entry)| filter.matches(entry)) {
            groups.add(by.key_of(entry), 1, entry.failure.reason.as_str());
        }
        Ok(groups.largest_first())
    }

    async fn counts(&self, now: Timestamp) -> StoreResult<Counts> {
        let mut state = self.state.lock();
        state.mark_due(None, now);
        let mut counts = Counts { dead_letters: state.dead_letters().len() as u64, ..Counts::default() };
        for record in &state.records {
            match record.state {
                SnapshotState::Waiting if record.lease.is_some() => counts.leased += 1,
                SnapshotState::Waiting => {
                    let due = record.job.due_at <= now;
                    *(if due { &mut counts.ready } else { &mut counts.delayed }) += 1;
                    *counts.waiting_by_route.entry(record.job.route.clone()).or_default() += 1;
                }
                SnapshotState::Ended { .. } => counts.ended += 1,
                SnapshotState::Dead => {}
            }
        }
        Ok(counts)
    }

    async fn oldest_due(
        &self,
        left_out: &LeftOut,
        now: Timestamp,
    ) -> StoreResult<BTreeMap<RouteName, Timestamp>> {
        let mut oldest = BTreeMap::new();
        for StoredJob { job, .. } in self.state.lock().records.iter().filter(|record| record.waits()) {
            let left_out = [None, Some(job.route.clone())]
                .into_iter()
                .any(|route| left_out.contains(&(route, job.company.clone())));
            if job.due_at <= now && !left_out {
                let known = oldest.entry(job.route.clone()).or_insert(job.due_at);
                *known = job.due_at.min(*known);
            }
        }
        Ok(oldest)
    }

    async fn tenants(&self, filter: TenantFilter, now: Timestamp) -> StoreResult<Vec<TenantView>> {
        let mut state = self.state.lock();
        state.mark_due(None, now);
        Ok(state.tenants(&filter, now))
    }

    async fn report(&self) -> StoreResult<StoreReport> {
        Ok(StoreReport { kind: "memory", durability: self.durability(), ..StoreReport::default() })
    }
}
