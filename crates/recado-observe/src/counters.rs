//! The counts themselves. Every one of them only grows, and any two of a kind can be added up.

use recado_core::{AttemptResult, Cause, Class};

use crate::fact::{Hold, Left, StoreWork};
use crate::histogram::{Ages, Batches, Delays, Processing, Recoveries, Spread, Talks, Works};

/// Counters that can be added up.
pub trait Sum: Default + Clone {
    fn add(&mut self, other: &Self);
}

impl Sum for u64 {
    fn add(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }
}

impl<T: Sum, const N: usize> Sum for [T; N]
where
    [T; N]: Default,
{
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(mine, more)| mine.add(more));
    }
}

impl<S: Clone> Sum for Spread<S> {
    fn add(&mut self, other: &Self) {
        self.bins.add(&other.bins);
        self.sum.add(&other.sum);
    }
}

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Debug, Default)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl Sum for $name {
                fn add(&mut self, other: &Self) {
                    $(self.$field.add(&other.$field);)*
                }
            }
        )*
    };
}

/// Attempts told apart by their number; the last place takes all later ones.
pub const NUMBERS: usize = 16;

/// Equal parts that the range of a wait is cut into, to see how evenly it is used.
pub const DECILES: usize = 10;

pub const RESULTS: [AttemptResult; 4] =
    [AttemptResult::Sent, AttemptResult::Partial, AttemptResult::Failed, AttemptResult::Uncertain];
pub const CLASSES: [Class; 4] = [Class::Transient, Class::Permanent, Class::RateLimit, Class::Unknown];

tally! {
    /// Counts of a route that windows are asked of.
    RouteTally {
        accepted: u64,
        /// In the order of [`RESULTS`].
        results: [u64; 4],
        lost: u64,
        /// Failures judged, of attempts and by the claims rule, in the order of [`CLASSES`].
        classes: [u64; 4],
        /// Questions to the claims rule.
        decisions: u64,
        /// Waits before retries.
        delays: Spread<Delays>,
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
        recoveries: Spread<Recoveries>,
        processing: Spread<Processing>,
    }
    /// Counts of a route that are kept only as totals.
    RouteTotals {
        talks: Spread<Talks>,
        /// In the order of [`Cause::ALL`].
        causes: [u64; 5],
        /// In the order of [`Hold::ALL`].
        holds: [u64; 4],
        held_micros: [u64; 4],
    }
    /// By the attempt's number.
    NumberTally {
        ended: [u64; NUMBERS],
        sent: [u64; NUMBERS],
    }
    CompanyTally {
        attempts: u64,
        failed: u64,
        buried: u64,
    }
    CodeTally {
        errors: u64,
        buried: u64,
    }
    /// Counts of incidents.
    IncidentTally {
        writes_rejected: u64,
        archived: u64,
    }
    StoreTally {
        /// In the order of [`StoreWork::ALL`].
        works: [Spread<Works>; 5],
        commits: Spread<Batches>,
        /// In the order of [`Left::ALL`].
        left: [u64; 4],
        ages: Spread<Ages>,
    }
}

impl RouteTally {
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
        self.classes[place(Class::Permanent, &CLASSES)]
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

/// Returns the index of a word in the list of all of its kind.
pub fn place<T: PartialEq>(word: T, all: &[T]) -> usize {
    all.iter().position(|one| *one == word).unwrap_or_default()
}

const _: () = {
    assert!(Cause::ALL.len() == 5 && Hold::ALL.len() == 4);
    assert!(Left::ALL.len() == 4 && StoreWork::ALL.len() == 5);
};
