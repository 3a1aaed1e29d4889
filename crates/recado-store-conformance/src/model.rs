//! Random sequences of steps, taken by a store and by the reference side by side.
//!
//! Each step is done on both; the answers and everything that can be read afterwards must be the same.
//! Two things are not compared word for word, because the contract leaves them to the store: tokens and
//! versions, which are mapped, and which job comes first of those whose time or lease ran out at the same
//! moment. There the reference is made to follow the store.

use std::collections::HashSet;
use std::sync::Arc;

use proptest::strategy::Strategy;
use recado_core::{AuditKind, JobId, Lease, LeaseToken, NewJob, Status, Timestamp};
use recado_store::reference::{Candidate, ReferenceStore};
use recado_store::{
    Claim, Claimed, DeadLetterFilter, JobFilter, JobView, KvWritten, PageRequest, Pick, TenantFilter,
};

use super::Home;
use super::given::{self, ACCOUNTS, ENDPOINTS, T0, TestStore};
use super::property_test::for_any;
use crate::suite::snapshot::{ComparableJob, LIST_MAX, Snapshot, walk_jobs};

mod partitions;
mod steps;

use steps::{Expect, KvStep, Shutdown, Step, TokenChoice};

const STEPS_MAX: usize = 100;

/// Restarts in the middle of a store's life, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restarts {
    No,
    /// Its process is the only one: what that held and remembered ends with it.
    Yes,
    /// Others share it: nothing in it changes because one of them comes or goes.
    Shared,
}

/// The precision to which orders are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Whole,
    /// The store is partitioned: each partition has an order of its own, see [`partitions`].
    Partitions,
}

/// Runs random sequences of steps in stores that `home` makes; panics with the shortest one whose answers differ.
pub fn agrees_with_the_reference<H: Home>(home: impl Fn() -> H, restarts: Restarts) {
    compare_sequences(home, restarts, Order::Whole);
}

/// Runs such sequences in a store that is partitioned by company: compares all but what comes first among
/// companies.
pub fn agrees_with_the_reference_in_partitions<H: Home>(home: impl Fn() -> H, restarts: Restarts) {
    compare_sequences(home, restarts, Order::Partitions);
}

fn compare_sequences<H: Home>(home: impl Fn() -> H, restarts: Restarts, order: Order) {
    let sequences = proptest::collection::vec(steps::step(restarts), 1..STEPS_MAX).prop_map(StepSequence);
    for_any(&sequences, async |sequence| run_sequence(home(), &sequence.0, restarts, order).await);
}

/// Shown as one step a line.
#[derive(Clone)]
struct StepSequence(Vec<Step>);

impl std::fmt::Debug for StepSequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|step| write!(f, "\n  {step:?}"))
    }
}

async fn run_sequence(mut home: impl Home, steps: &[Step], restarts: Restarts, order: Order) {
    let model = Arc::new(ReferenceStore::default());
    let mut pair = ModelPair {
        store: TestStore::at(&mut home).await,
        model_store: TestStore(model.clone()),
        model,
        now: T0,
        leases: Vec::new(),
        versions: vec![(0, 0)],
        settled: 0,
        order,
    };
    for (nth, step) in steps.iter().enumerate() {
        let what = format!("step {nth}, {step:?}");
        if let Step::Restart(shutdown) = step {
            pair = pair.restart(&mut home, *shutdown, restarts).await;
        } else {
            pair.take(step, &what).await;
        }
        pair.compare(&what).await;
    }
    pair.compare_at_the_end().await;
}

/// A store, the reference, and what is known of both.
struct ModelPair {
    store: TestStore,
    model: Arc<ReferenceStore>,
    model_store: TestStore,
    now: Timestamp,
    /// Every lease so far: the store's, and the reference's token for it.
    leases: Vec<(Lease, LeaseToken)>,
    /// Every version so far, oldest first: the store's and the reference's. It begins with absence.
    versions: Vec<(u64, u64)>,
    /// Settlements so far. No two are the same word for word: a store may answer those as one that is repeated.
    settled: usize,
    order: Order,
}

impl ModelPair {
    async fn take(&mut self, step: &Step, what: &str) {
        let (store, model) = (&self.store.0, &self.model_store.0);
        match step {
            Step::Enqueue(new) => {
                let jobs = self.keep_each_id_once(steps::jobs(new, self.now));
                let answers = store.enqueue(jobs.clone()).await.unwrap();
                assert_eq!(answers, model.enqueue(jobs).await.unwrap(), "{what}");
            }
            Step::Claim(claim) => self.claim(claim.at(self.now), what).await,
            Step::Settle(steps) => {
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                for (nth, step) in steps.iter().enumerate() {
                    let Some((lease, token)) = self.choose(step.choice).await else { continue };
                    let now = Timestamp::from_millis(self.now.as_millis() + nth as i64);
                    let mut settlement = step.settlement(lease, now, self.now, self.settled + nth);
                    if self.order == Order::Partitions && (nth > 0 || step.choice.any) {
                        settlement.follow_ups.clear();
                    }
                    theirs.push(recado_store::Settlement { token, ..settlement.clone() });
                    ours.push(settlement);
                }
                assert_eq!(store.settle(ours).await.unwrap(), model.settle(theirs).await.unwrap(), "{what}");
                self.settled += steps.len();
            }
            Step::Extend { choices, by_ms } => {
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                for choice in choices {
                    let Some((lease, token)) = self.choose(*choice).await else { continue };
                    ours.push(lease.token);
                    theirs.push(token);
                }
                let until = steps::after(self.now, *by_ms);
                let answers = store.extend(ours, until).await.unwrap();
                assert_eq!(answers, model.extend(theirs, until).await.unwrap(), "{what}");
            }
            Step::Cancel(id) => {
                let (id, audit) = steps::act(*id, AuditKind::Cancelled, self.now);
                let answer = store.cancel(&id, audit.clone()).await.unwrap();
                assert_eq!(answer, model.cancel(&id, audit).await.unwrap(), "{what}");
            }
            Step::Redrive(redrive) => {
                let mut redrive = redrive.at(self.dead_letter(redrive.nth).await, self.now);
                redrive.follow_ups.retain(|_| self.order == Order::Whole);
                let answer = store.redrive(redrive.clone()).await.unwrap();
                assert_eq!(answer, model.redrive(redrive).await.unwrap(), "{what}");
            }
            Step::Discard { nth, follow_ups } => {
                let id = self.dead_letter(*nth).await;
                let audit = given::act(id.as_str(), AuditKind::Discarded, self.now);
                let mut follow_ups = steps::jobs(follow_ups, self.now);
                follow_ups.retain(|_| self.order == Order::Whole);
                let discard = recado_store::Discard { id, replays: None, audit, follow_ups };
                let answer = store.discard(discard.clone()).await.unwrap();
                assert_eq!(answer, model.discard(discard).await.unwrap(), "{what}");
            }
            Step::KvWrite(writes) => self.kv_write(writes, what).await,
            Step::Prune(retention) => {
                let mut retention = retention.clone();
                if self.order == Order::Partitions {
                    retention.ended_max_count = u64::MAX;
                }
                let answer = store.prune(retention.clone(), self.now).await.unwrap();
                assert_eq!(answer, model.prune(retention, self.now).await.unwrap(), "{what}");
            }
            Step::Record(id) => {
                let (_, audit) = steps::act(*id, AuditKind::ClaimRetry, self.now);
                store.record(vec![audit.clone()]).await.unwrap();
                model.record(vec![audit]).await.unwrap();
            }
            Step::Wait { ms } => self.now = steps::after(self.now, *ms),
            Step::Restart(_) => {}
        }
    }

    /// In a partitioned store, keeps each id once: which of two companies has an id that both ask for in one call depends on
    /// where they are.
    fn keep_each_id_once(&self, mut jobs: Vec<NewJob>) -> Vec<NewJob> {
        if self.order == Order::Partitions {
            let mut ids = HashSet::new();
            jobs.retain(|new| ids.insert(new.id.clone()));
        }
        jobs
    }

    /// A lease that is current, or, when the step wants to be stale, any that ever was.
    async fn choose(&self, choice: TokenChoice) -> Option<(&Lease, LeaseToken)> {
        let mut among = Vec::new();
        for (lease, token) in &self.leases {
            if choice.any || self.model_store.0.lease(*token).await.unwrap().is_some() {
                among.push((lease, *token));
            }
        }
        (!among.is_empty()).then(|| among[choice.nth % among.len()])
    }

    /// One of the dead letters, or, when there are none, an id that is not one.
    async fn dead_letter(&self, nth: usize) -> JobId {
        let page = PageRequest { before: None, limit: LIST_MAX };
        let entries = self.model_store.0.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items;
        match entries.len() {
            0 => given::id("job-0"),
            count => entries[nth % count].job_id.clone(),
        }
    }

    async fn claim(&mut self, claim: Claim, what: &str) {
        let Claimed { leases, next_at } = self.store.0.claim(claim.clone()).await.unwrap();
        let ids: Vec<_> = leases.iter().map(|lease| lease.job.id.clone()).collect();
        let follows = match claim.pick {
            _ if self.order == Order::Partitions => {
                partitions::assert_may_come(
                    &ids,
                    &self.model.candidates(&claim.pick, claim.now),
                    &claim,
                    what,
                );
                self.model.claim_exactly(&ids, &claim)
            }
            Pick::Ready(_) => self.model_store.0.claim(claim.clone()).await.unwrap(),
            Pick::Overdue | Pick::Orphaned => {
                let candidates = self.model.candidates(&claim.pick, claim.now);
                assert_eq!(leases.len(), claim.max.min(candidates.len()), "{what}: of {candidates:?}");
                assert_ranked(&leases, &candidates, what);
                self.model.claim_exactly(&ids, &claim)
            }
        };
        let theirs: Vec<_> = follows.leases.iter().map(|lease| lease.job.id.clone()).collect();
        assert_eq!(ids, theirs, "{what}: the jobs that came, in order");
        if leases.len() < claim.max {
            assert_eq!(next_at, follows.next_at, "{what}: when there will be more");
        }
        for (ours, theirs) in leases.into_iter().zip(follows.leases) {
            assert_eq!(seen(&ours), seen(&theirs), "{what}: the lease of {}", ours.job.id);
            self.leases.push((ours, theirs.token));
        }
    }

    async fn kv_write(&mut self, writes: &[KvStep], what: &str) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for write in writes {
            let expect = self.expected(write).await;
            ours.push(write.write(expect.map(|(ours, _)| ours), self.now));
            theirs.push(write.write(expect.map(|(_, theirs)| theirs), self.now));
        }
        let ours = self.store.0.kv_write(ours, self.now).await.unwrap();
        let theirs = self.model_store.0.kv_write(theirs, self.now).await.unwrap();
        assert_eq!(ours.len(), theirs.len(), "{what}");
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            let (ours, theirs) = match (ours, theirs) {
                (KvWritten::Done { version: ours }, KvWritten::Done { version: theirs }) => {
                    let (last, last_theirs) = self.versions[self.versions.len() - 1];
                    if theirs > last_theirs {
                        assert!(ours > last, "{what}: version {ours} was given after {last}");
                        self.versions.push((ours, theirs));
                    }
                    (ours, theirs)
                }
                (KvWritten::Conflict { version: ours }, KvWritten::Conflict { version: theirs }) => {
                    (ours, theirs)
                }
                differ => panic!("{what}: {differ:?}"),
            };
            assert!(
                self.versions.contains(&(ours, theirs)),
                "{what}: version {ours} for the reference's {theirs}"
            );
        }
    }

    /// The version that a write expects, in the store's and in the reference's number.
    async fn expected(&self, write: &KvStep) -> Option<(u64, u64)> {
        match write.expect {
            Expect::Whatever => None,
            Expect::Absent => Some((0, 0)),
            Expect::Old(nth) => Some(self.versions[nth % self.versions.len()]),
            Expect::Current => {
                let there = self.model_store.0.kv_get(write.namespace, write.key, self.now).await.unwrap();
                let current = there.map_or(0, |entry| entry.version);
                self.versions.iter().copied().find(|(_, theirs)| *theirs == current)
            }
        }
    }

    async fn restart(self, home: &mut impl Home, shutdown: Shutdown, restarts: Restarts) -> ModelPair {
        if shutdown == Shutdown::Close {
            self.store.0.close().await.unwrap();
        }
        drop(self.store);
        if restarts == Restarts::Yes {
            self.model.restart();
        }
        ModelPair { store: TestStore::at(home).await, ..self }
    }

    async fn compare(&self, what: &str) {
        let ours = Snapshot::of(&self.store, self.now).await;
        let theirs = Snapshot::of(&self.model_store, self.now).await;
        let tenants = self.store.0.tenants(TenantFilter::default(), self.now).await.unwrap();
        let model_tenants = self.model_store.0.tenants(TenantFilter::default(), self.now).await.unwrap();
        match self.order {
            Order::Whole => {
                ours.assert_same(&theirs, what);
                assert_eq!(tenants, model_tenants, "{what}: the statistics of tenants");
            }
            Order::Partitions => {
                partitions::sorted(ours).assert_same(&partitions::sorted(theirs), what);
                assert_eq!(
                    partitions::jobs_of(&tenants),
                    partitions::jobs_of(&model_tenants),
                    "{what}: what tenants have"
                );
            }
        }
        for namespace in [ACCOUNTS, ENDPOINTS] {
            let ours = self.store.0.kv_list(namespace, self.now).await.unwrap();
            let theirs = self.model_store.0.kv_list(namespace, self.now).await.unwrap();
            for (ours, theirs) in ours.iter().zip(&theirs) {
                let pair = (ours.version, theirs.version);
                assert!(
                    self.versions.contains(&pair),
                    "{what}: entry {} has version {}",
                    ours.key,
                    ours.version
                );
            }
        }
    }

    async fn compare_at_the_end(&self) {
        for status in Status::ALL {
            let filter = JobFilter { status: Some(status), ..JobFilter::default() };
            let mut ours = walk_jobs(&self.store, &filter, 3, self.now).await;
            let mut theirs = walk_jobs(&self.model_store, &filter, 3, self.now).await;
            if self.order == Order::Partitions {
                ours.sort();
                theirs.sort();
            }
            assert_eq!(ours, theirs, "jobs that are {status}");
        }
        for (lease, token) in &self.leases {
            let ours = self.store.0.lease(lease.token).await.unwrap();
            let theirs = self.model_store.0.lease(*token).await.unwrap();
            assert_eq!(ours.as_ref().map(seen), theirs.as_ref().map(seen), "a lease of {}", lease.job.id);
        }
    }
}

/// A lease without its token, and with its job spelt out.
fn seen(lease: &Lease) -> (u32, Timestamp, Timestamp, Option<recado_core::LostLease>, ComparableJob) {
    let job = lease.job.clone();
    let view = JobView { job, status: Status::Delivering, ended_at: None, answer: None, held_by: None };
    (lease.attempt, lease.claimed_at, lease.expires_at, lease.lost.clone(), view.into())
}

/// The earliest come first; among equals the store may choose.
fn assert_ranked(leases: &[Lease], candidates: &[Candidate], what: &str) {
    let rank = |lease: &Lease| candidates.iter().find(|candidate| candidate.id == lease.job.id).map(|c| c.at);
    let ours: Vec<_> = leases.iter().map(rank).collect();
    let expected: Vec<_> = candidates.iter().take(leases.len()).map(|candidate| Some(candidate.at)).collect();
    assert_eq!(ours, expected, "{what}: the times that {} jobs were picked by", leases.len());
}
