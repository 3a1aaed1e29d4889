//! The contract in its plainest form: a list of jobs, with an index for what every claim and settlement looks up. Obvious,
//! and the oracle for the others.
//!
//! It lives in memory and promises nothing about crashes.

mod audit_log;
mod index;
mod key_value;
mod lanes;
mod last_second;
mod oracle;
mod transfer;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

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
use index::Index;
use key_value::KeyValueTable;
use lanes::Lane;

pub use last_second::SavedState;
pub use oracle::Candidate;

/// Hears of every settlement that a store makes.
pub trait SettlementObserver: std::fmt::Debug + Send + Sync {
    /// A job's lease was settled; the job is given as it was before.
    fn on_settled(&self, job: &Job, transition: &Transition);
}

#[derive(Debug, Default)]
pub struct ReferenceStore {
    state: Mutex<State>,
    /// The number that was raised last under each name. Locked while a fenced write is made.
    fences: tokio::sync::Mutex<HashMap<&'static str, u64>>,
    wakes: Wakes,
}

#[derive(Debug, Default, Clone)]
struct State {
    /// By number, which is the order in which they came. Changed by `insert` and `take` alone, which keep the index and
    /// the lanes in step.
    records: BTreeMap<u64, StoredJob>,
    index: Index,
    last_seq: u64,
    next_fence: u128,
    lanes: HashMap<RouteName, Lane>,
    last_dead: u64,
    /// The numbers of dead letters begin above this one.
    first_dead: u64,
    trail: AuditTrail,
    namespaces: KeyValueTable,
    observer: Option<Arc<dyn SettlementObserver>>,
}

#[derive(Debug, Clone)]
struct StoredJob {
    seq: u64,
    job: Job,
    body_hash: BodyHash,
    state: SnapshotState,
    /// Lease of a job whose state is to wait.
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
    /// Makes a store that tells of its settlements.
    pub fn observed(observer: Arc<dyn SettlementObserver>) -> Self {
        let state = Mutex::new(State { observer: Some(observer), ..State::default() });
        ReferenceStore { state, ..ReferenceStore::default() }
    }

    /// Makes a store whose dead letters have numbers above this one, as a store that was in use before.
    pub fn numbered_above(number: u64) -> Self {
        let state = State { first_dead: number, last_dead: number, ..State::default() };
        ReferenceStore { state: Mutex::new(state), ..ReferenceStore::default() }
    }

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
        state.insert(StoredJob::new(seq, new.into(), body_hash, SnapshotState::Waiting));
        self.wakes.wake(&route);
    }
}

impl State {
    /// Adds a job. One that waits is looked at by the next claim of its route.
    fn insert(&mut self, record: StoredJob) {
        self.index.add(&record);
        if record.waits() {
            self.lanes.entry(record.job.route.clone()).or_default().add_waiting(&record);
        }
        self.records.insert(record.seq, record);
    }

    /// Takes a job out, to change it and insert it again or to forget it. One that waited loses its turn.
    fn take(&mut self, seq: u64) -> Option<StoredJob> {
        let record = self.records.remove(&seq)?;
        self.index.remove(&record);
        if let (true, Some(lane)) = (record.waits(), self.lanes.get_mut(&record.job.route)) {
            lane.remove_waiting(&record);
        }
        Some(record)
    }

    fn change(&mut self, seq: u64, change: impl FnOnce(&mut StoredJob)) {
        if let Some(mut record) = self.take(seq) {
            change(&mut record);
            self.insert(record);
        }
    }

    fn find(&self, id: &JobId) -> Option<&StoredJob> {
        self.records.get(&self.index.find(id)?)
    }

    fn find_leased(&self, token: LeaseToken) -> Option<&StoredJob> {
        self.records.get(&self.index.find_leased(token)?)
    }

    /// Returns the record of a dead letter's job, with the dead letter.
    fn find_dead(&self, id: &JobId) -> Option<(&StoredJob, &DeadLetter)> {
        let record = self.find(id)?;
        record.dead_letter.as_ref().map(|(_, entry)| (record, entry))
    }

    /// Returns the dead letters with their numbers, oldest first.
    fn dead_letters(&self) -> Vec<&(u64, DeadLetter)> {
        let mut entries: Vec<_> =
            self.records.values().filter_map(|record| record.dead_letter.as_ref()).collect();
        entries.sort_by_key(|(number, _)| *number);
        entries
    }

    /// Returns the number of a new dead letter: its place in the queue, or the newest.
    fn dead_number(&mut self, place: Option<u64>) -> u64 {
        let number = place.map_or(self.last_dead + 1, |place| self.first_dead + place);
        self.last_dead = self.last_dead.max(number);
        number
    }

    fn lease(&mut self, seq: u64, claim: &Claim) -> Option<Lease> {
        self.next_fence += 1;
        let mut record = self.take(seq)?;
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
        let lease = record.lease(lost);
        self.insert(record);
        lease
    }

    fn settle(&mut self, settlement: Settlement) -> Option<RouteName> {
        let mut record = self.take(self.index.find_leased(settlement.token)?)?;
        let (seq, route) = (record.seq, record.job.route.clone());
        if let Some(observer) = &self.observer {
            observer.on_settled(&record.job, &settlement.transition);
        }
        record.job.progress = settlement.transition.step(record.job.progress);
        record.lease = None;
        let is_buried = matches!(settlement.transition, Transition::Bury(_));
        // A dead letter remembers it by itself.
        if let Some(attempt) = settlement.transition.attempt().filter(|_| !is_buried) {
            remember(&mut record.job.attempts, attempt.clone());
        }
        match settlement.transition {
            Transition::Bury(burial) => self.bury(&mut record, burial),
            Transition::Deliver { answer, .. } => record.end(Status::Sent, settlement.now, answer),
            Transition::RetryAt { at: due, .. }
            | Transition::Postpone { until: due }
            | Transition::Release { at: due, .. } => record.job.due_at = due,
        }
        self.insert(record);
        if let Some(event) = settlement.audit {
            self.trail.append(Some(seq), event);
        }
        Some(route)
    }

    /// Moves a job to the dead letter queue. One whose replay failed keeps its place there.
    fn bury(&mut self, record: &mut StoredJob, burial: Burial) {
        let before = record.dead_letter.take();
        let number = before.as_ref().map_or_else(|| self.dead_number(None), |(number, _)| *number);
        let entry = DeadLetter::new(record.job.clone(), before.map(|(_, entry)| entry.original_data), burial);
        record.job.attempts = entry.attempts.clone();
        record.state = SnapshotState::Dead;
        record.dead_letter = Some((number, entry));
    }

    /// Puts an event on the trail of the job it names.
    fn record(&mut self, event: AuditEvent) {
        let id = event.job_id.as_deref().map(JobId::trusted);
        let seq = id.and_then(|id| self.index.find(&id));
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
            if let Some(known) = state.find(&new.id) {
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
                    let Some(seq) = state.next_ready(route, &claim, &claimed.leases) else { break };
                    claimed.leases.extend(state.lease(seq, &claim));
                }
            }
            Pick::Overdue | Pick::Orphaned => {
                let found: Vec<_> = state.index.due(&claim.pick, claim.now).take(claim.max).collect();
                for (_, seq) in found {
                    claimed.leases.extend(state.lease(seq, &claim));
                }
            }
        }
        claimed.next_at = state.index.next_at(&claim.pick, claim.now);
        Ok(claimed)
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> StoreResult<Vec<Extended>> {
        let mut state = self.state.lock();
        let extend = |token| {
            let Some(seq) = state.index.find_leased(token) else { return Extended::Stale };
            state.change(seq, |record| {
                record.lease.iter_mut().for_each(|held| held.expires_at = until);
            });
            Extended::Until(until)
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
        let Some(known) = state.find(id) else { return Ok(Cancelled::Unknown) };
        match known.view(audit.timestamp).status {
            Status::Cancelled => return Ok(Cancelled::Already),
            status @ (Status::Delivering | Status::Sent | Status::Failed | Status::Discarded) => {
                return Ok(Cancelled::Refused(status));
            }
            Status::Scheduled | Status::Queued | Status::Retrying | Status::Parked => {}
        }
        let seq = known.seq;
        state.change(seq, |record| match &mut record.dead_letter {
            // A replay that is called off leaves the dead letter where it was.
            Some((_, entry)) => {
                entry.recall(audit.timestamp);
                record.state = SnapshotState::Dead;
            }
            None => record.end(Status::Cancelled, audit.timestamp, None),
        });
        state.record(audit);
        Ok(Cancelled::Done)
    }

    async fn redrive(&self, redrive: Redrive) -> StoreResult<Redriven> {
        let mut state = self.state.lock();
        let Some((record, entry)) = state.find_dead(&redrive.id) else { return Ok(Redriven::Unknown) };
        if entry.state == DeadLetterState::Replaying {
            return Ok(Redriven::AlreadyReplaying);
        }
        let (seq, route) = (record.seq, record.job.route.clone());
        let data = redrive.data.unwrap_or_else(|| entry.data().clone());
        state.change(seq, |StoredJob { job, state, dead_letter, .. }| {
            if let Some((_, entry)) = dead_letter {
                entry.state = DeadLetterState::Replaying;
                entry.correct(data.clone());
                entry.checksum = entry.checksum.map(|checksum| checksum.with_data(&data));
                job.checksum = entry.checksum;
            }
            job.data = data;
            job.due_at = redrive.due_at;
            job.expires_at = redrive.expires_at;
            job.progress.attempts_spent = 0;
            job.progress.crashes = 0;
            job.progress.replays += 1;
            *state = SnapshotState::Waiting;
        });
        self.wakes.wake(&route);
        state.record(redrive.audit);
        self.insert_follow_ups(&mut state, redrive.follow_ups);
        Ok(Redriven::Done)
    }

    async fn discard(&self, discard: Discard) -> StoreResult<Discarded> {
        let mut state = self.state.lock();
        let Some((record, _)) = state.find_dead(&discard.id) else { return Ok(Discarded::Unknown) };
        if record.state != SnapshotState::Dead {
            return Ok(Discarded::Replaying);
        }
        if discard.replays.is_some_and(|expected| record.job.progress.replays != expected) {
            return Ok(Discarded::DiedAgain);
        }
        let seq = record.seq;
        state.change(seq, |record| record.end(Status::Discarded, discard.audit.timestamp, None));
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
            let Some((record, _)) = state.find_dead(&id) else { continue };
            let (seq, audit) =
                (record.seq, AuditEvent::about(&record.job, AuditKind::DeadLetterExpired, now));
            state.change(seq, |record| record.end(Status::Discarded, now, None));
            state.record(audit);
            pruned.dead_letters += 1;
        }
        let ended_at = |record: &StoredJob| match record.state {
            SnapshotState::Ended { at, .. } => Some((at, record.seq)),
            _ => None,
        };
        let mut ended: Vec<(Timestamp, u64)> = state.records.values().filter_map(ended_at).collect();
        ended.sort_unstable();
        let excess = (ended.len() as u64).saturating_sub(retention.ended_max_count);
        let goes = |nth: u64, at: Timestamp| nth < excess || at.plus(retention.ended_max_age) <= now;
        for (_, (_, seq)) in (0..).zip(ended).take_while(|&(nth, (at, _))| goes(nth, at)) {
            state.take(seq);
            pruned.ended += 1;
        }
        pruned.kv_entries = state.namespaces.prune(now);
        Ok(pruned)
    }

    fn waker(&self, route: &RouteName) -> Waker {
        self.wakes.waker(route)
    }

    async fn leases(&self, tokens: &[LeaseToken]) -> StoreResult<Vec<Option<Lease>>> {
        let state = self.state.lock();
        let lease = |token: &LeaseToken| state.find_leased(*token)?.lease(None);
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
        Ok(state.find(id).map(|record| record.view(now)))
    }

    async fn jobs(&self, filter: JobFilter, page: PageRequest, now: Timestamp) -> StoreResult<Page<JobView>> {
        let state = self.state.lock();
        let views = state.records.values().map(|record| (record.seq, record.view(now)));
        let wanted = views.filter(|(_, view)| {
            filter.status.is_none_or(|want| view.status == want) && filter.is_about(&view.job)
        });
        Ok(page_of(wanted.collect(), page))
    }

    async fn audit(&self, id: &JobId) -> StoreResult<Vec<AuditEvent>> {
        let state = self.state.lock();
        Ok(state.index.find(id).map(|seq| state.trail.events_of(seq)).unwrap_or_default())
    }

    async fn dead_letter(&self, id: &JobId) -> StoreResult<Option<DeadLetter>> {
        Ok(self.state.lock().find_dead(id).map(|(_, entry)| entry.clone()))
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
        for record in state.records.values() {
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
        for StoredJob { job, .. } in self.state.lock().records.values().filter(|record| record.waits()) {
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
