//! Says what a run must not have done: each invariant is one function over the history.
//!
//! Nothing here comes from the engine, the stores or the core: it knows events in plain words, and the numbers below.

mod deliveries;
mod leases;
mod operators;
mod timeline;

use std::collections::BTreeMap;

use crate::history::Entry;
use timeline::Timeline;

/// The terms that a run promises, in milliseconds.
pub mod terms {
    /// Length of a lease.
    pub const LEASE: u64 = 15_000;
    /// Longest graceful stop, all in all.
    pub const STOP_MAX: u64 = 8_000 + 2_000;
    /// Jobs of one company before the next one's turn.
    pub const TURN: usize = 3;
    /// A pause holds on all nodes after this long, with two ways of a slow network and a lost call in it.
    pub const PAUSE_BOUND: u64 = 4_000;
    /// All nodes know what the store has after this long, whatever it lost.
    pub const AGREE_BOUND: u64 = 35_000;
    /// A new job to a provider that is well is tried within this long when all faults are over.
    pub const PROMPT: u64 = 15_000;
    /// A retry starts within this long when all faults are over: the policy's longest wait, a breaker's probe, a look at a
    /// receiver that asked for quiet, and the jobs before it.
    pub const RETRIED: u64 = 25_000;
    /// Longest quiet time that an answer imposes on a receiver.
    pub const HOLD_MAX: u64 = 20_000;
    /// A job that becomes due because the clock is set starts within this long, other jobs before it included.
    pub const SCHEDULED: u64 = 20_000;
    /// An act's write may have been made this long before its answer.
    pub const ACT_MAX: u64 = 60_000;
    /// A request of a node or store that stood still arrives within this long after.
    pub const LATE_REQUEST: u64 = 1_000;
    /// A cut of this length, after the last heartbeat, may let a lease run out.
    pub const CUT: u64 = 7_000;
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub at: u64,
    pub words: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    /// Deliveries that happened again, by the allowed cause.
    pub duplicates: BTreeMap<&'static str, u64>,
}

/// Checks a whole run. `ends` is true when everything that can move had time to end.
pub fn check(entries: &[Entry], ends: bool) -> Verdict {
    let timeline = Timeline::new(entries);
    let mut verdict = Verdict::default();
    let invariants: [fn(&Timeline<'_>, &mut Verdict); 15] = [
        deliveries::acknowledged_is_never_lost,
        deliveries::refused_is_never_sent,
        deliveries::terminal_is_final,
        deliveries::duplicates_have_an_allowed_cause,
        deliveries::what_may_have_arrived_stays_with_its_provider,
        deliveries::retries_are_never_early,
        deliveries::scheduled_jobs_follow_the_clock,
        deliveries::dead_letters_have_a_reason,
        deliveries::counts_are_conserved,
        leases::a_job_has_one_lease,
        leases::companies_take_turns,
        operators::pauses_are_obeyed,
        operators::acts_and_outcomes_are_on_record,
        operators::walks_show_everything_once,
        operators::bulk_acts_visit_every_entry,
    ];
    invariants.iter().for_each(|invariant| invariant(&timeline, &mut verdict));
    operators::stops_end(&timeline, &mut verdict);
    operators::nodes_agree(&timeline, &mut verdict);
    if ends {
        deliveries::everything_ends(&timeline, &mut verdict);
        deliveries::new_jobs_are_prompt(&timeline, &mut verdict);
        deliveries::retries_are_never_late(&timeline, &mut verdict);
        deliveries::slots_are_given_back(&timeline, &mut verdict);
    }
    verdict
}

impl Verdict {
    fn violate(&mut self, invariant: &'static str, at: u64, words: String) {
        self.violations.push(Violation { invariant, at, words });
    }
}
