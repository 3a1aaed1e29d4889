//! Facts that the engine counts, and the figures that are read from them.
//!
//! Enqueues, claims and settles are counted and timed by [`instrumented_store`], so that none goes uncounted. The
//! effects of a transition are counted when it is settled, and a person's act when it is done.

pub(crate) mod dead_letter_rate;
pub(crate) mod instrumented_store;

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Job, Policy, RouteName, Timestamp, Transition, Verdict};
use recado_observe::{
    DeadLetterExit, DeadLetterFlow, DelaySource, Fact, HoldKind, Kpis, Ledger, StoreWork, facts_of_transition,
};
use recado_store::Watcher;
use tokio::time::Instant;

use crate::clock::Clock;

/// Returns the source of the retry delay: the policy, or the provider's `Retry-After`.
pub(crate) fn delay_source_of(verdict: &Verdict) -> DelaySource {
    let asked = match verdict {
        Verdict::Delivered { .. } => false,
        Verdict::Partial { refused, .. } => refused.iter().any(|(_, failure)| failure.retry_after.is_some()),
        Verdict::Failed(failure) => failure.retry_after.is_some(),
    };
    if asked { DelaySource::Imposed } else { DelaySource::Policy }
}

/// Counts what happens in this process.
#[derive(Debug)]
pub struct Metrics {
    pub(crate) ledger: Ledger,
    clock: Arc<dyn Clock>,
    started_at: Timestamp,
}

impl Metrics {
    pub(crate) fn new(routes: Vec<&str>, clock: Arc<dyn Clock>) -> Self {
        let started_at = clock.now();
        Metrics { ledger: Ledger::new(routes), clock, started_at }
    }

    /// Counts something that happened now.
    pub fn record(&self, fact: &Fact<'_>) {
        self.ledger.record(fact, self.clock.now());
    }

    /// Counts jobs that were taken in; neighbours of one route count together.
    pub(crate) fn record_accepted<'a>(&self, routes: impl Iterator<Item = &'a RouteName>) {
        let mut routes = routes.peekable();
        while let Some(route) = routes.next() {
            let mut jobs = 1;
            while routes.next_if(|next| *next == route).is_some() {
                jobs += 1;
            }
            self.record(&Fact::Accepted { route: route.as_str(), jobs });
        }
    }

    /// Counts a transition that has happened to a job, which is given as it was before.
    pub(crate) fn record_transition(
        &self,
        job: &Job,
        transition: &Transition,
        policy: &Policy,
        delay_source: DelaySource,
        now: Timestamp,
    ) {
        for fact in facts_of_transition(job, transition, policy, delay_source, now) {
            self.ledger.record(&fact, now);
        }
    }

    /// Counts a dead letter that left the queue.
    pub(crate) fn record_dead_letter_left(&self, how: DeadLetterExit, moved_at: Timestamp) {
        self.record(&Fact::DeadLetterLeft { how, moved_at });
    }

    /// Returns the retry KPIs of a route, or of all of them, as this process saw them; `None` when there is no
    /// such route.
    pub fn kpis(&self, route: Option<&str>, window: Duration) -> Option<Kpis> {
        self.ledger.kpis(route, window, self.clock.now())
    }

    /// Returns the flow into the dead letter queue in the window, as this process saw it.
    pub fn dead_letter_flow(&self, window: Duration) -> DeadLetterFlow {
        self.ledger.dead_letter_flow(window, self.started_at, self.clock.now())
    }

    /// Returns the time since when this process has counted.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }
}

impl Watcher for Metrics {
    fn on_commit(&self, requests: u64, took: Duration) {
        let now = self.clock.now();
        self.ledger.record(&Fact::Committed { requests }, now);
        self.ledger.record(&Fact::StoreWorked { work: StoreWork::Commit, took }, now);
    }

    fn on_fsync(&self, took: Duration) {
        self.ledger.record(&Fact::StoreWorked { work: StoreWork::Fsync, took }, self.clock.now());
    }
}

/// Measures for how long a lane has been held back, and by what. Counted when that changes.
#[derive(Debug, Default)]
pub(crate) struct HoldTimer(Option<(HoldKind, Instant)>);

impl HoldTimer {
    pub fn switch(&mut self, metrics: &Metrics, route: &RouteName, why: Option<HoldKind>) {
        if self.0.map(|(why, _)| why) == why {
            return;
        }
        let now = Instant::now();
        if let Some((why, since)) = self.0 {
            metrics.record(&Fact::HeldBack { route: route.as_str(), why, lasted: now - since });
        }
        self.0 = why.map(|why| (why, now));
    }
}
