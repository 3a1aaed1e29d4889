//! Random lives, lived by a store and by the reference side by side.
//!
//! Each step is done on both; the answers and everything that can be read afterwards must be the same.
//! Two things are not compared word for word, because the contract leaves them to the store: tokens, which
//! are mapped, and whose turn it is between tenants. There the store's choice is checked against the rules
//! and the reference is made to follow it.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};
use recado_core::{AuditKind, CompanyId, JobId, Lease, LeaseToken, Status, Timestamp};

use super::Home;
use super::given::{self, Desk, T0};
use super::snapshot::{LIST_MAX, Seen, Snapshot, walk_jobs};
use crate::reference::{Candidate, ReferenceStore, TURN_JOBS_MAX};
use crate::{Claim, Claimed, DeadLetterFilter, JobFilter, JobView, PageRequest, Pick};

mod steps;

use steps::{Step, TokenChoice};

/// Lives that are tried unless `PROPTEST_CASES` says otherwise.
const CASES_DEFAULT: u32 = 128;

const STEPS_MAX: usize = 100;

/// Whether the store is opened again in the middle of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restarts {
    No,
    Yes,
}

/// Lives random lives in stores that `home` makes; panics with the shortest one that differs.
pub fn agrees_with_the_reference<H: Home>(home: impl Fn() -> H, restarts: Restarts) {
    let mut config = Config { failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES_DEFAULT;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lives = proptest::collection::vec(steps::step(restarts), 1..STEPS_MAX).prop_map(Life);
    let lived = TestRunner::new(config).run(&lives, |life| {
        runtime.block_on(live(home(), &life.0));
        Ok(())
    });
    if let Err(error) = lived {
        panic!("{error}");
    }
}

/// Shown as one step a line.
#[derive(Clone)]
struct Life(Vec<Step>);

impl std::fmt::Debug for Life {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|step| write!(f, "\n  {step:?}"))
    }
}

async fn live(mut home: impl Home, steps: &[Step]) {
    let model = Arc::new(ReferenceStore::default());
    let mut pair = Pair {
        desk: Desk::at(&mut home).await,
        model_desk: Desk(model.clone()),
        model,
        now: T0,
        leases: Vec::new(),
    };
    for (nth, step) in steps.iter().enumerate() {
        let what = format!("step {nth}, {step:?}");
        if let Step::Restart { close } = step {
            pair = pair.restart(&mut home, *close).await;
        } else {
            pair.take(step, &what).await;
        }
        pair.compare(&what).await;
    }
    pair.compare_at_the_end().await;
}

/// A store, the reference, and what is known of both.
struct Pair {
    desk: Desk,
    model: Arc<ReferenceStore>,
    model_desk: Desk,
    now: Timestamp,
    /// Every lease so far: the store's, and the reference's token for it.
    leases: Vec<(Lease, LeaseToken)>,
}

impl Pair {
    async fn take(&mut self, step: &Step, what: &str) {
        let (store, model) = (&self.desk.0, &self.model_desk.0);
        match step {
            Step::Enqueue(new) => {
                let jobs: Vec<_> = new.iter().map(|new| new.job(self.now)).collect();
                let answers = store.enqueue(jobs.clone()).await.unwrap();
                assert_eq!(answers, model.enqueue(jobs).await.unwrap(), "{what}");
            }
            Step::Claim(claim) => self.claim(claim.at(self.now), what).await,
            Step::Settle(endings) => {
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                for (nth, (choice, ending)) in endings.iter().enumerate() {
                    let Some((lease, token)) = self.choose(*choice).await else { continue };
                    let now = Timestamp::from_millis(self.now.as_millis() + nth as i64);
                    let settlement = ending.settlement(lease, now);
                    theirs.push(crate::Settlement { token, ..settlement.clone() });
                    ours.push(settlement);
                }
                assert_eq!(store.settle(ours).await.unwrap(), model.settle(theirs).await.unwrap(), "{what}");
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
                let redrive = redrive.at(self.dead_letter(redrive.nth).await, self.now);
                let answer = store.redrive(redrive.clone()).await.unwrap();
                assert_eq!(answer, model.redrive(redrive).await.unwrap(), "{what}");
            }
            Step::Discard { nth } => {
                let id = self.dead_letter(*nth).await;
                let audit = given::act(id.as_str(), AuditKind::Discarded, self.now);
                let answer = store.discard(&id, audit.clone()).await.unwrap();
                assert_eq!(answer, model.discard(&id, audit).await.unwrap(), "{what}");
            }
            Step::Prune(retention) => {
                let answer = store.prune(retention.clone(), self.now).await.unwrap();
                assert_eq!(answer, model.prune(retention.clone(), self.now).await.unwrap(), "{what}");
            }
            Step::Record(id) => {
                let (_, audit) = steps::act(*id, AuditKind::ClaimRetry, self.now);
                store.record(vec![audit.clone()]).await.unwrap();
                model.record(vec![audit]).await.unwrap();
            }
            Step::Wait { ms } => self.now = steps::after(self.now, *ms),
            Step::Restart { .. } => {}
        }
    }

    /// A lease that is current, or, when the step wants to be stale, any that ever was.
    async fn choose(&self, choice: TokenChoice) -> Option<(&Lease, LeaseToken)> {
        let mut among = Vec::new();
        for (lease, token) in &self.leases {
            if choice.any || self.model_desk.0.lease(*token).await.unwrap().is_some() {
                among.push((lease, *token));
            }
        }
        (!among.is_empty()).then(|| among[choice.nth % among.len()])
    }

    /// One of the dead letters, or, when there are none, an id that is not one.
    async fn dead_letter(&self, nth: usize) -> JobId {
        let page = PageRequest { before: None, limit: LIST_MAX };
        let entries = self.model_desk.0.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items;
        match entries.len() {
            0 => given::id("job-0"),
            count => entries[nth % count].job_id.clone(),
        }
    }

    async fn claim(&mut self, claim: Claim, what: &str) {
        let candidates = self.model.candidates(&claim.pick, claim.now);
        let Claimed { leases, next_at } = self.desk.0.claim(claim.clone()).await.unwrap();
        assert_eq!(leases.len(), claim.max.min(candidates.len()), "{what}: of {candidates:?}");
        match claim.pick {
            Pick::Ready(_) => assert_fair(&leases, &candidates, what),
            Pick::Overdue | Pick::Orphaned => assert_ranked(&leases, &candidates, what),
        }
        let ids: Vec<_> = leases.iter().map(|lease| lease.job.id.clone()).collect();
        let follows = self.model.claim_exactly(&ids, &claim);
        if leases.len() < claim.max {
            assert_eq!(next_at, follows.next_at, "{what}: when there will be more");
        }
        for (ours, theirs) in leases.into_iter().zip(follows.leases) {
            assert_eq!(seen(&ours), seen(&theirs), "{what}: the lease of {}", ours.job.id);
            self.leases.push((ours, theirs.token));
        }
    }

    async fn restart(self, home: &mut impl Home, close: bool) -> Pair {
        if close {
            self.desk.0.close().await.unwrap();
        }
        drop(self.desk);
        self.model.restart();
        Pair { desk: Desk::at(home).await, ..self }
    }

    async fn compare(&self, what: &str) {
        let ours = Snapshot::of(&self.desk, self.now).await;
        ours.assert_same(&Snapshot::of(&self.model_desk, self.now).await, what);
    }

    async fn compare_at_the_end(&self) {
        for status in Status::ALL {
            let filter = JobFilter { status: Some(status), ..JobFilter::default() };
            let ours = walk_jobs(&self.desk, &filter, 3, self.now).await;
            assert_eq!(
                ours,
                walk_jobs(&self.model_desk, &filter, 3, self.now).await,
                "jobs that are {status}"
            );
        }
        for (lease, token) in &self.leases {
            let ours = self.desk.0.lease(lease.token).await.unwrap();
            let theirs = self.model_desk.0.lease(*token).await.unwrap();
            assert_eq!(ours.as_ref().map(seen), theirs.as_ref().map(seen), "a lease of {}", lease.job.id);
        }
    }
}

/// A lease without its token, and with its job spelt out.
fn seen(lease: &Lease) -> (u32, Timestamp, Timestamp, Option<recado_core::LostLease>, Seen) {
    let job = lease.job.clone();
    let view = JobView { job, status: Status::Delivering, ended_at: None, answer: None, held_by: None };
    (lease.attempt, lease.claimed_at, lease.expires_at, lease.lost.clone(), view.into())
}

/// Within a tenant the order is the contract's; between tenants, nobody gets more than a turn while others wait.
fn assert_fair(leases: &[Lease], candidates: &[Candidate], what: &str) {
    let mut lines: HashMap<&CompanyId, Vec<&Candidate>> = HashMap::new();
    for candidate in candidates.iter().rev() {
        lines.entry(&candidate.company).or_default().push(candidate);
    }
    let mut run: Option<(&CompanyId, u32)> = None;
    for lease in leases {
        let company = &lease.job.company;
        let next = lines.get_mut(company).and_then(Vec::pop).map(|next| next.id.as_str());
        assert_eq!(next, Some(lease.job.id.as_str()), "{what}: the next job of {company}");
        let length = run.filter(|(last, _)| *last == company).map_or(1, |(_, length)| length + 1);
        run = Some((company, length));
        let others_wait = lines.iter().any(|(other, line)| *other != company && !line.is_empty());
        assert!(
            length <= TURN_JOBS_MAX || !others_wait,
            "{what}: {company} got {length} in a row while others waited"
        );
    }
}

/// The earliest come first; among equals the store may choose.
fn assert_ranked(leases: &[Lease], candidates: &[Candidate], what: &str) {
    let rank = |lease: &Lease| candidates.iter().find(|candidate| candidate.id == lease.job.id).map(|c| c.at);
    let ours: Vec<_> = leases.iter().map(rank).collect();
    let expected: Vec<_> = candidates.iter().take(leases.len()).map(|candidate| Some(candidate.at)).collect();
    assert_eq!(ours, expected, "{what}: the times that {} jobs were picked by", leases.len());
}
