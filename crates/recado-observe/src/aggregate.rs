//! All counts in one place: shards are merged into it, and figures are read from it.

use std::collections::HashMap;

use recado_core::Timestamp;

use crate::OTHER;
use crate::counters::{
    AddCounts, AttemptCounters, CodeCounters, CompanyCounters, IncidentCounters, PathCounters, RouteCounters,
    RouteTotals, StoreCounters,
};
use crate::history::History;
use crate::shard_counters::{RouteShard, ShardCounters, entry_of};
use crate::top_k::TopK;

/// Patterns of the API, and providers, that are counted apart. Both come from configuration and stay below this.
const NAMES_MAX: usize = 200;

#[derive(Debug, Default)]
pub struct Aggregate {
    /// Routes in the order of [`crate::ledger::Routes`].
    pub routes: Vec<(History<RouteCounters>, RouteTotals)>,
    pub numbers: History<AttemptCounters>,
    pub companies: TopK<CompanyCounters>,
    pub codes: TopK<CodeCounters>,
    pub incidents: History<IncidentCounters>,
    pub store: StoreCounters,
    pub breaker_changes: HashMap<Box<str>, [u64; 3]>,
    pub paths: HashMap<Box<str>, PathCounters>,
}

impl Aggregate {
    pub fn new(routes: usize) -> Self {
        Aggregate { routes: vec![Default::default(); routes], ..Aggregate::default() }
    }

    /// Adds the counters of a shard, and resets them.
    pub fn merge_shard(&mut self, shard: &mut ShardCounters, at: Timestamp) {
        for (shard, (history, totals)) in shard.routes.iter_mut().zip(&mut self.routes) {
            if shard.touched {
                history.add(at, &shard.counters);
                totals.add(&shard.totals);
                *shard = RouteShard::default();
            }
        }
        add_counts(&mut self.numbers, &mut shard.numbers, at);
        add_counts(&mut self.incidents, &mut shard.incidents, at);
        self.store.add(&std::mem::take(&mut shard.store));
        for (name, counters) in shard.companies.drain() {
            self.companies.add(&name, at, &counters, counters.attempts + counters.buried);
        }
        for (name, counters) in shard.codes.drain() {
            self.codes.add(&name, at, &counters, counters.errors + counters.buried);
        }
        for (provider, breaker_changes) in shard.breaker_changes.drain() {
            bounded_entry(&mut self.breaker_changes, &provider).add(&breaker_changes);
        }
        for (path, counters) in shard.paths.drain() {
            bounded_entry(&mut self.paths, &path).add(&counters);
        }
    }
}

fn add_counts<C: AddCounts + PartialEq>(history: &mut History<C>, counts: &mut C, at: Timestamp) {
    let counts = std::mem::take(counts);
    if counts != C::default() {
        history.add(at, &counts);
    }
}

fn bounded_entry<'m, V: Default>(map: &'m mut HashMap<Box<str>, V>, name: &str) -> &'m mut V {
    let known = map.contains_key(name) || map.len() < NAMES_MAX;
    entry_of(map, if known { name } else { OTHER })
}
