//! Counters. Every one of them only grows, and any two of a kind can be added up.

use std::collections::BTreeMap;

use recado_core::{AttemptResult, Cause, Class};

use crate::fact::{DeadLetterExit, HoldKind, StoreWork};
use crate::histogram::{Ages, Batches, Delays, Histogram, Processing, Recoveries, RoundTrips, StoreTimes};

/// Counters that can be added up.
pub trait AddCounts: Default + Clone {
    fn add(&mut self, other: &Self);
}

impl AddCounts for u64 {
    fn add(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }
}

impl<T: AddCounts, const N: usize> AddCounts for [T; N]
where
    [T; N]: Default,
{
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(mine, more)| mine.add(more));
    }
}

impl<S: Clone> AddCounts for Histogram<S> {
    fn add(&mut self, other: &Self) {
        self.bins.add(&other.bins);
        self.sum.add(&other.sum);
    }
}

impl<K: Ord + Clone, T: AddCounts> AddCounts for BTreeMap<K, T> {
    fn add(&mut self, other: &Self) {
        other.iter().for_each(|(key, more)| self.entry(key.clone()).or_default().add(more));
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Debug, Default)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl AddCounts for $name {
                fn add(&mut self, other: &Self) {
                    $(self.$field.add(&other.$field);)*
                }
            }
        )*
    };
}

/// Attempt numbers that are counted apart; the last place takes all later ones.
pub const NUMBERS: usize = 16;

/// Equal parts that the range of a wait is cut into, to see how evenly it is used.
pub const DECILES: usize = 10;

counters! {
    /// Counts of a route that windows are asked of.
    RouteCounters {
        accepted: u64,
        /// In the order of [`AttemptResult`], whose last is counted as lost.
        results: [u64; AttemptResult::Lost as usize],
        lost: u64,
        /// Failures judged, of attempts and by the claims rule, in the order of [`Class`].
        classes: [u64; Class::ALL.len()],
        /// Questions to the claims rule.
        decisions: u64,
        /// Waits before retries.
        delays: Histogram<Delays>,
        at_cap: u64,
        jitter: [u64; DECILES],
        sent: u64,
        buried: u64,
        cancelled: u64,
        /// Given up because all attempts were spent, or by the claims rule.
        exhausted: u64,
        /// Those of the above that had been tried more than once, or would have been.
        retried_sent: u64,
        retried_buried: u64,
        retried_exhausted: u64,
        /// Attempts of the jobs that were sent.
        attempts_of_sent: u64,
        recoveries: Histogram<Recoveries>,
        processing: Histogram<Processing>,
    }
    /// Counts of a route that are kept only as totals.
    RouteTotals {
        round_trips: Histogram<RoundTrips>,
        /// In the order of [`Cause`].
        causes: [u64; Cause::ALL.len()],
        /// In the order of [`HoldKind`].
        holds: [u64; HoldKind::ALL.len()],
        held_micros: [u64; HoldKind::ALL.len()],
    }
    /// By the attempt's number.
    AttemptCounters {
        ended: [u64; NUMBERS],
        sent: [u64; NUMBERS],
    }
    CompanyCounters {
        attempts: u64,
        failed: u64,
        buried: u64,
    }
    CodeCounters {
        errors: u64,
        buried: u64,
    }
    /// Answers given for one pattern of the API.
    PathCounters {
        /// By method and status; a handful.
        answers: BTreeMap<(&'static str, u16), u64>,
        round_trips: Histogram<RoundTrips>,
    }
    /// Counts of incidents.
    IncidentCounters {
        writes_rejected: u64,
        archived: u64,
    }
    StoreCounters {
        /// In the order of [`StoreWork`].
        times: [Histogram<StoreTimes>; StoreWork::ALL.len()],
        commits: Histogram<Batches>,
        /// In the order of [`DeadLetterExit`].
        left: [u64; DeadLetterExit::ALL.len()],
        ages: Histogram<Ages>,
    }
}

impl RouteCounters {
    /// Attempts that reached a provider, answered or not.
    pub fn attempts(&self) -> u64 {
        self.results.iter().sum()
    }

    pub fn failed(&self) -> u64 {
        self.results[1..].iter().sum()
    }

    pub fn ended(&self) -> u64 {
        self.sent + self.buried
    }

    pub fn retried(&self) -> u64 {
        self.retried_sent + self.retried_buried
    }

    pub fn permanent(&self) -> u64 {
        self.classes[Class::Permanent as usize]
    }

    /// Every try that was judged, here or by the claims rule.
    pub fn judged(&self) -> u64 {
        self.attempts() + self.decisions
    }

    /// Deviation of the jitter from an even use of its range: the sum of the tenths' distances from a tenth.
    /// 0 is even; a generator that uses only one half of the range has 1.
    pub fn jitter_deviation(&self) -> Option<f64> {
        let all: u64 = self.jitter.iter().sum();
        let even = 1.0 / DECILES as f64;
        let distance = |count: &u64| (*count as f64 / all as f64 - even).abs();
        (all > 0).then(|| self.jitter.iter().map(distance).sum())
    }
}
