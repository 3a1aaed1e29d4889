//! Counters of one shard since it was last merged into the aggregate. A fact is counted here first.

use std::collections::HashMap;

use recado_core::reason::clip;
use recado_core::{AttemptResult, Cause, Timestamp};

use crate::counters::{
    AttemptCounters, CodeCounters, CompanyCounters, DECILES, IncidentCounters, NUMBERS, PathCounters,
    RouteCounters, RouteTotals, StoreCounters,
};
use crate::fact::{AttemptEnded, Backoff, DeadLetterExit, Decided, Ending, Fact};
use crate::ledger::Routes;

/// Names from outside that a shard holds before it is merged early.
const NAMES_MAX: usize = 1_000;

/// Bytes of an error code that are told apart: codes come from providers and workers.
const CODE_LEN_MAX_BYTES: usize = 64;

/// The code of a failure without one.
const NO_CODE: &str = "none";

#[derive(Debug, Default)]
pub struct ShardCounters {
    pub routes: Vec<RouteShard>,
    pub numbers: AttemptCounters,
    pub companies: HashMap<Box<str>, CompanyCounters>,
    pub codes: HashMap<Box<str>, CodeCounters>,
    pub incidents: IncidentCounters,
    pub store: StoreCounters,
    /// By provider, in the order of [`BreakerChange`](recado_core::breaker::BreakerChange).
    pub breaker_changes: HashMap<Box<str>, [u64; 3]>,
    pub paths: HashMap<Box<str>, PathCounters>,
}

#[derive(Clone, Debug, Default)]
pub struct RouteShard {
    pub touched: bool,
    pub counters: RouteCounters,
    pub totals: RouteTotals,
}

impl ShardCounters {
    pub fn new(routes: usize) -> Self {
        ShardCounters { routes: vec![RouteShard::default(); routes], ..ShardCounters::default() }
    }

    pub fn is_full(&self) -> bool {
        self.companies.len().max(self.codes.len()).max(self.paths.len()).max(self.breaker_changes.len())
            >= NAMES_MAX
    }

    pub fn record(&mut self, fact: &Fact<'_>, routes: &Routes, now: Timestamp) {
        match *fact {
            Fact::Accepted { route, jobs } => self.touch_route(routes, route).counters.accepted += jobs,
            Fact::AttemptEnded(ref attempt) => self.record_attempt(attempt, routes),
            Fact::JobEnded { route, company, ending, attempts, retried, since_first_try } => {
                let shard = self.touch_route(routes, route);
                let counters = &mut shard.counters;
                match ending {
                    Ending::Sent => {
                        counters.sent += 1;
                        counters.attempts_of_sent += u64::from(attempts);
                        counters.retried_sent += u64::from(retried);
                        if let Some(since) = since_first_try.filter(|_| retried) {
                            counters.recoveries.record_time(since);
                        }
                    }
                    Ending::Buried { cause, code } => {
                        let exhausted = cause == Cause::Exhausted;
                        counters.buried += 1;
                        counters.exhausted += u64::from(exhausted);
                        counters.retried_buried += u64::from(retried);
                        counters.retried_exhausted += u64::from(retried && exhausted);
                        shard.totals.causes[cause as usize] += 1;
                        entry_of(&mut self.companies, company).buried += 1;
                        entry_of(&mut self.codes, code_label(code)).buried += 1;
                    }
                    Ending::Cancelled => counters.cancelled += 1,
                }
            }
            Fact::DeadLetterLeft { how, moved_at } => {
                self.store.left[how as usize] += 1;
                self.store.ages.record_time(now.since(moved_at));
                self.incidents.archived += u64::from(how == DeadLetterExit::Archived);
            }
            Fact::Decided { route, class, decided } => {
                let counters = &mut self.touch_route(routes, route).counters;
                counters.decisions += 1;
                counters.classes[class as usize] += 1;
                match decided {
                    Decided::Retry(backoff) => record_backoff(counters, backoff),
                    Decided::MaxRetriesExceeded => counters.exhausted += 1,
                    Decided::PermanentError => {}
                }
            }
            Fact::BreakerChanged { provider, change } => {
                entry_of(&mut self.breaker_changes, provider)[change as usize] += 1;
            }
            Fact::HeldBack { route, why, lasted } => {
                let totals = &mut self.touch_route(routes, route).totals;
                totals.holds[why as usize] += 1;
                totals.held_micros[why as usize] += u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX);
            }
            Fact::StoreWorked { work, took } => self.store.times[work as usize].record_time(took),
            Fact::Committed { requests } => self.store.commits.record(requests),
            Fact::WritesRejected { writes } => self.incidents.writes_rejected += writes,
            Fact::Served { method, path, status, took } => {
                let path = entry_of(&mut self.paths, path);
                *path.answers.entry((method_label(method), status)).or_default() += 1;
                path.round_trips.record_time(took);
            }
        }
    }

    fn record_attempt(&mut self, attempt: &AttemptEnded<'_>, routes: &Routes) {
        let shard = self.touch_route(routes, attempt.route);
        if attempt.result == AttemptResult::Lost {
            // The delivering process vanished: that says nothing about the provider.
            shard.counters.lost += 1;
            return;
        }
        let sent = attempt.result == AttemptResult::Sent;
        let counters = &mut shard.counters;
        counters.results[attempt.result as usize] += 1;
        counters.processing.record_time(attempt.lag + attempt.took);
        shard.totals.round_trips.record_time(attempt.took);
        if let Some(backoff) = attempt.retry {
            record_backoff(counters, backoff);
        }
        if let Some(failure) = attempt.failure {
            counters.classes[failure.class as usize] += 1;
            entry_of(&mut self.codes, code_label(failure.code)).errors += 1;
        }
        let number = (attempt.number.max(1) as usize).min(NUMBERS) - 1;
        self.numbers.ended[number] += 1;
        self.numbers.sent[number] += u64::from(sent);
        let company = entry_of(&mut self.companies, attempt.company);
        company.attempts += 1;
        company.failed += u64::from(!sent);
    }

    fn touch_route(&mut self, routes: &Routes, name: &str) -> &mut RouteShard {
        let shard = &mut self.routes[routes.index_of(name)];
        shard.touched = true;
        shard
    }
}

fn record_backoff(counters: &mut RouteCounters, backoff: Backoff) {
    counters.delays.record_time(backoff.delay);
    counters.at_cap += u64::from(backoff.at_cap);
    if let Some(position) = backoff.position {
        let decile = (position.clamp(0.0, 1.0) * DECILES as f64) as usize;
        counters.jitter[decile.min(DECILES - 1)] += 1;
    }
}

/// Returns the entry of a name, which is copied only the first time.
pub fn entry_of<'m, V: Default>(map: &'m mut HashMap<Box<str>, V>, name: &str) -> &'m mut V {
    if !map.contains_key(name) {
        map.insert(name.into(), V::default());
    }
    map.get_mut(name).expect("it was put there")
}

fn code_label(code: Option<&str>) -> &str {
    code.map(|code| clip(code, CODE_LEN_MAX_BYTES)).filter(|code| !code.is_empty()).unwrap_or(NO_CODE)
}

/// Callers may send any word as a method.
fn method_label(method: &str) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    METHODS.into_iter().find(|known| *known == method).unwrap_or(crate::OTHER)
}
