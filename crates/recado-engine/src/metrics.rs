//! Facts that the engine notes in its ledger, and figures that it reads from it.
//!
//! Facts are noted where they have happened: an enqueue, a claim and a settle by the calls to the store through
//! here, so that none goes uncounted and untimed. The effects of a transition are counted when it is settled,
//! and a person's act when it is done.

pub(crate) mod dead_letter_rate;

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Job, NewJob, Policy, RouteName, Timestamp, Transition, Verdict};
use recado_observe::{
    DeadLetterExit, DeadLetterFlow, DelaySource, Fact, Kpis, Ledger, StoreWork, facts_of_transition,
};
use recado_store::{Claim, Claimed, Enqueued, Settled, Settlement, StoreError, Watcher};
use tokio::time::Instant;

use crate::admission::provider::RefusalReason;
use crate::attempt::deliver::bury_damaged;
use crate::clock::Clock;
use crate::engine::{Engine, Inner};

/// Age of gauges that is good enough for a scrape.
const SCRAPED_MAX_AGE: Duration = Duration::from_secs(5);

/// Whose word set the wait before the next try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WaitBy {
    #[default]
    Policy,
    /// It said for how long.
    Provider,
}

impl WaitBy {
    pub fn of(verdict: &Verdict) -> Self {
        let asked = match verdict {
            Verdict::Delivered { .. } => false,
            Verdict::Partial { refused, .. } => {
                refused.iter().any(|(_, failure)| failure.retry_after.is_some())
            }
            Verdict::Failed(failure) => failure.retry_after.is_some(),
        };
        if asked { WaitBy::Provider } else { WaitBy::Policy }
    }
}

impl Inner {
    pub fn note(&self, fact: &Fact<'_>) {
        self.ledger.record(fact, self.clock.now());
    }

    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        let began = Instant::now();
        let routes: Vec<_> = jobs.iter().map(|job| job.route.clone()).collect();
        let enqueued = self.store.enqueue(jobs).await?;
        self.worked(StoreWork::Enqueue, began);
        let new = routes.iter().zip(&enqueued).filter(|(_, answer)| is_new(answer));
        self.accepted(new.map(|(route, _)| route));
        Ok(enqueued)
    }

    /// Leases jobs. Those whose stored content is damaged are moved to the dead letter queue and not given out.
    pub async fn claim(self: &Arc<Self>, claim: Claim) -> Result<Claimed, StoreError> {
        let began = Instant::now();
        let mut claimed = self.store.claim(claim).await?;
        self.worked(StoreWork::Claim, began);
        bury_damaged(self, &mut claimed.leases);
        Ok(claimed)
    }

    pub async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        let following = |settlement: &Settlement| -> Vec<_> {
            settlement.follow_ups.iter().map(|job| job.route.clone()).collect()
        };
        let following: Vec<_> = settlements.iter().map(following).collect();
        let began = Instant::now();
        let settled = self.store.settle(settlements).await?;
        self.worked(StoreWork::Settle, began);
        let done = following.iter().zip(&settled).filter(|(_, settled)| **settled == Settled::Done);
        self.accepted(done.flat_map(|(routes, _)| routes));
        Ok(settled)
    }

    fn worked(&self, work: StoreWork, began: Instant) {
        self.note(&Fact::StoreWorked { work, took: began.elapsed() });
    }

    /// Jobs that were taken in; neighbours of one route count together.
    pub fn accepted<'a>(&self, routes: impl Iterator<Item = &'a RouteName>) {
        let mut routes = routes.peekable();
        while let Some(route) = routes.next() {
            let mut jobs = 1;
            while routes.next_if(|next| *next == route).is_some() {
                jobs += 1;
            }
            self.note(&Fact::Accepted { route: route.as_str(), jobs });
        }
    }

    /// A transition that has happened to a job, which is given as it was before.
    pub fn transited(&self, job: &Job, transition: &Transition, wait_by: WaitBy, now: Timestamp) {
        let route = self.routes.get(job.route.as_str());
        let other: Policy;
        let policy = match route {
            Some(route) => &route.terms.policy,
            None => {
                other = self.terms_of(&job.route).policy;
                &other
            }
        };
        let delay_source = match wait_by {
            WaitBy::Provider => DelaySource::Imposed,
            WaitBy::Policy => DelaySource::Policy,
        };
        for fact in facts_of_transition(job, transition, policy, delay_source, now) {
            self.ledger.record(&fact, now);
        }
    }

    /// The time when a job's dead letter came to the queue, if this transition removes it.
    pub async fn leaves_queue(&self, job: &Job, transition: &Transition) -> Option<Timestamp> {
        if job.progress.replays == 0 || !matches!(transition, Transition::Deliver { .. }) {
            return None;
        }
        self.store.dead_letter(&job.id).await.ok().flatten().map(|entry| entry.moved_at)
    }

    pub fn left_queue(&self, how: DeadLetterExit, moved_at: Timestamp) {
        self.note(&Fact::DeadLetterLeft { how, moved_at });
    }
}

fn is_new(answer: &Enqueued) -> bool {
    matches!(answer, Enqueued::Accepted { .. })
}

/// The reason why a lane waits, in the ledger's words. A store that does not answer holds all lanes alike,
/// and is no lane's figure.
pub(crate) fn hold_of(held: &RefusalReason) -> Option<recado_observe::HoldKind> {
    use recado_observe::HoldKind;
    match held {
        RefusalReason::Breaker { .. } => Some(HoldKind::Breaker),
        RefusalReason::Rate | RefusalReason::Quiet(_) => Some(HoldKind::Rate),
        RefusalReason::Busy | RefusalReason::CompanyBusy => Some(HoldKind::Concurrency),
        RefusalReason::Paused(_) => Some(HoldKind::Pause),
        RefusalReason::Store => None,
    }
}

/// For how long a lane has been held back, and by what. DeliveryFeedback when that changes.
#[derive(Debug, Default)]
pub(crate) struct HoldTimer(Option<(recado_observe::HoldKind, Instant)>);

impl HoldTimer {
    pub fn held(&mut self, engine: &Inner, route: &RouteName, why: Option<recado_observe::HoldKind>) {
        if self.0.map(|(why, _)| why) == why {
            return;
        }
        let now = Instant::now();
        if let Some((why, since)) = self.0 {
            engine.note(&Fact::HeldBack { route: route.as_str(), why, lasted: now - since });
        }
        self.0 = why.map(|why| (why, now));
    }
}

/// The store's own work, as it tells of it.
#[derive(Debug)]
pub(crate) struct StoreWatcher {
    pub ledger: Arc<Ledger>,
    pub clock: Arc<dyn Clock>,
}

impl Watcher for StoreWatcher {
    fn committed(&self, requests: u64, took: Duration) {
        let now = self.clock.now();
        self.ledger.record(&Fact::Committed { requests }, now);
        self.ledger.record(&Fact::StoreWorked { work: StoreWork::Commit, took }, now);
    }

    fn forced(&self, took: Duration) {
        self.ledger.record(&Fact::StoreWorked { work: StoreWork::Fsync, took }, self.clock.now());
    }
}

impl Engine {
    /// Counts something that happened around the engine.
    pub fn note(&self, fact: &Fact<'_>) {
        self.inner.note(fact);
    }

    /// Everything in Prometheus's text format. What the store cannot tell right now is left out.
    pub async fn metrics(&self) -> String {
        let gauges = self.inner.gauges(SCRAPED_MAX_AGE).await;
        self.inner.ledger.metrics(&gauges, self.now())
    }

    /// Returns the retry KPIs of a route, or of all of them, as this process saw them; `None` when there is no
    /// such route.
    pub fn kpis(&self, route: Option<&str>, window: Duration) -> Option<Kpis> {
        self.inner.ledger.kpis(route, window, self.now())
    }

    /// The flow into the dead letter queue in the window, as this process saw it.
    pub fn dead_letter_flow(&self, window: Duration) -> DeadLetterFlow {
        self.inner.ledger.dead_letter_flow(window, self.started_at(), self.now())
    }

    /// Since when this process has counted.
    pub fn started_at(&self) -> Timestamp {
        self.inner.nodes.started_at()
    }
}
