//! Records facts from many threads, and computes figures from them.
//!
//! A fact lands on the shard of its thread, under a lock that other threads seldom want. A shard
//! holds facts of one slot of time only: it is merged into the aggregate when the next slot begins, and
//! before every reading, so that a reading holds every fact recorded before it.
//!
//! Locks are taken in one order, shard before aggregate, and a shard waits for the aggregate at most once a slot.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indexmap::IndexSet;
use parking_lot::{Mutex, MutexGuard};
use recado_core::Timestamp;

use crate::aggregate::Aggregate;
use crate::fact::Fact;
use crate::gauges::Gauges;
use crate::history::SLOT_MS;
use crate::kpis::{DeadLetterFlow, KpiWindow, Kpis};
use crate::shard_counters::ShardCounters;
use crate::{OTHER, metrics};

const SHARDS: usize = 16;

#[derive(Debug)]
pub struct Ledger {
    routes: Routes,
    shards: [Shard; SHARDS],
    aggregate: Mutex<Aggregate>,
}

/// A cache line of its own, so that threads do not disturb each other.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<(i64, ShardCounters)>);

impl Ledger {
    /// `routes` names every route; a fact about any other counts as [`OTHER`].
    pub fn new<N: Into<Box<str>>>(routes: impl IntoIterator<Item = N>) -> Self {
        let routes = Routes(routes.into_iter().map(Into::into).chain([OTHER.into()]).collect());
        let count = routes.0.len();
        Ledger {
            shards: std::array::from_fn(|_| Shard(Mutex::new((0, ShardCounters::new(count))))),
            aggregate: Mutex::new(Aggregate::new(count)),
            routes,
        }
    }

    pub fn record(&self, fact: &Fact<'_>, now: Timestamp) {
        let slot = now.as_millis().div_euclid(SLOT_MS);
        let mut shard = self.shards[own_shard()].0.lock();
        if shard.0 != slot || shard.1.is_full() {
            self.flush_shard(&mut shard);
            shard.0 = slot;
        }
        shard.1.record(fact, &self.routes, now);
    }

    fn flush_shard(&self, (slot, shard): &mut (i64, ShardCounters)) {
        self.aggregate.lock().merge_shard(shard, Timestamp::from_millis(*slot * SLOT_MS));
    }

    /// Merges all shards, and returns every fact recorded so far.
    pub(crate) fn flush(&self) -> MutexGuard<'_, Aggregate> {
        for shard in &self.shards {
            self.flush_shard(&mut shard.0.lock());
        }
        self.aggregate.lock()
    }

    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Writes everything in Prometheus's text format, of type [`crate::CONTENT_TYPE`].
    pub fn metrics(&self, gauges: &Gauges, now: Timestamp) -> String {
        metrics::render(&self.flush(), &self.routes, gauges, now)
    }

    /// Returns the retry KPIs for a route, or for all of them; `None` for an unknown route. The
    /// window may be up to a week.
    pub fn kpis(&self, route: Option<&str>, window: Duration, now: Timestamp) -> Option<Kpis> {
        let route = match route {
            Some(name) => Some(self.routes.0.get_index_of(name)?),
            None => None,
        };
        let aggregate = &self.flush();
        Some(KpiWindow { aggregate, routes: &self.routes, route, window, now }.kpis())
    }

    /// Returns the flow into the dead letter queue in the window; it is counted since `since`.
    pub fn dead_letter_flow(&self, window: Duration, since: Timestamp, now: Timestamp) -> DeadLetterFlow {
        let aggregate = &self.flush();
        KpiWindow { aggregate, routes: &self.routes, route: None, window, now }.dead_letter_flow(since)
    }
}

/// The routes by their place in the aggregate, [`OTHER`] among them.
#[derive(Debug)]
pub(crate) struct Routes(IndexSet<Box<str>>);

impl Routes {
    pub fn index_of(&self, name: &str) -> usize {
        let known = self.0.get_index_of(name).or_else(|| self.0.get_index_of(OTHER));
        known.expect("other is always there")
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    /// The name that a route's figures go by.
    pub fn label(&self, name: &str) -> &str {
        &self.0[self.index_of(name)]
    }
}

/// The shard of this thread: handed out in turn, kept for the thread's life.
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        let shard = own.get().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        own.set(Some(shard));
        shard
    })
}
