//! A circuit breaker, as a value that is stepped.
//!
//! ```text
//!            n failures within t                   reset time over
//!   CLOSED ────────────────────▶ OPEN ─────────────────────────────▶ HALF_OPEN
//!     ▲                            ▲        one probe, leased            │
//!     │                            └──────────── it fails ───────────────┤
//!     └───────────────────────────────────────── it succeeds ────────────┘
//! ```
//!
//! Only failures that are the provider's fault count. A probe is leased like a job: when its process
//! vanishes, another probe may go. After it closes, work is let back in on a ramp. Nothing here reads a clock,
//! so one breaker steps alike on every node and in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::values::named_enum::named_enum;
use crate::values::time::Timestamp;

/// Configuration of a provider's breaker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BreakerTerms {
    /// This many failures …
    pub failures: u32,
    /// … within this long open it.
    pub within: Duration,
    /// Time that it stays open before a probe.
    pub reset: Duration,
    /// A success that took this long counts as a failure.
    pub slow: Option<Duration>,
    /// Time that a probe may take before another one may try.
    pub probe: Duration,
    /// Time that the way back to full strength takes after it closes.
    pub ramp: Duration,
}

impl BreakerTerms {
    /// The default breaker: terms that the configuration leaves out.
    pub const fn new(failures: u32, within: Duration, reset: Duration) -> Self {
        BreakerTerms {
            failures,
            within,
            reset,
            slow: None,
            probe: Duration::from_secs(90),
            ramp: Duration::from_secs(30),
        }
    }
}

named_enum! {
    #[derive(Default)]
    pub enum BreakerState {
        #[default]
        Closed = "CLOSED",
        Open = "OPEN",
        HalfOpen = "HALF_OPEN",
    }
}

/// The health of a provider as its breaker knows it. Small enough to be kept as one durable value.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Breaker {
    pub state: BreakerState,
    /// Times of the latest failures, oldest first; never more than open it.
    pub failures: VecDeque<Timestamp>,
    /// Since when it has been in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// While open: the time of the next probe. While half open: the time when another probe may replace a
    /// silent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_probe_at: Option<Timestamp>,
    /// It was opened by hand and waits to be closed by hand.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held_open: bool,
    /// The reason for the current state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
}

/// The breaker's answer to a delivery that asks to go out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Admission {
    /// Deliveries up to this share of full strength, above 0 and at most 1.
    Allowed(f64),
    /// One delivery, whose outcome decides.
    Probe,
    /// No delivery before `until`, if that is known.
    Refused { until: Option<Timestamp> },
}

/// A change of the breaker's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerChange {
    Opened,
    HalfOpened,
    Closed,
}

/// The share of deliveries let through when the ramp begins.
const RAMP_START: f64 = 0.05;

/// Largest difference between the clocks of nodes that share a breaker. A time further ahead was written
/// before the clock was set back.
pub const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(1);

impl Breaker {
    /// Asks for leave to send. A probe is granted to one caller, which must report its result.
    pub fn admit(&mut self, terms: &BreakerTerms, now: Timestamp) -> (Admission, Option<BreakerChange>) {
        let admission = self.peek_admission(terms, now);
        let mut change = None;
        if admission == Admission::Probe {
            if self.state == BreakerState::Open {
                self.enter_state(BreakerState::HalfOpen, now);
                change = Some(BreakerChange::HalfOpened);
            }
            self.next_probe_at = Some(now.plus(terms.probe));
        }
        (admission, change)
    }

    /// Returns the answer that the next caller would get, without changing anything.
    pub fn peek_admission(&self, terms: &BreakerTerms, now: Timestamp) -> Admission {
        match self.state {
            BreakerState::Closed => Admission::Allowed(self.ramp_share(terms, now)),
            _ if self.held_open => Admission::Refused { until: None },
            _ if self.next_probe_at.is_none_or(|at| at <= now) => Admission::Probe,
            _ => Admission::Refused { until: self.next_probe_at },
        }
    }

    /// Returns true if a delivery that was sent at `sent_at` still counts. While the breaker is half open
    /// only the probe counts, not a delivery sent before it opened.
    pub fn counts_result_sent_at(&self, sent_at: Timestamp) -> bool {
        self.state != BreakerState::HalfOpen || self.since.is_none_or(|since| sent_at >= since)
    }

    /// The share of full strength that the ramp allows at `now`.
    pub fn ramp_share(&self, terms: &BreakerTerms, now: Timestamp) -> f64 {
        let Some(since) = self.since.filter(|_| self.state == BreakerState::Closed) else { return 1.0 };
        if terms.ramp.is_zero() {
            return 1.0;
        }
        let done = now.since(since).as_secs_f64() / terms.ramp.as_secs_f64();
        (RAMP_START + (1.0 - RAMP_START) * done).min(1.0)
    }

    /// Records a delivery that succeeded, or whose answer shows that the provider is alive.
    pub fn record_success(
        &mut self,
        terms: &BreakerTerms,
        took: Duration,
        now: Timestamp,
    ) -> Option<BreakerChange> {
        if terms.slow.is_some_and(|slow| took >= slow) {
            return self.record_failure(terms, "too slow", now);
        }
        match self.state {
            BreakerState::HalfOpen => {
                self.failures.clear();
                self.enter_state(BreakerState::Closed, now);
                (self.reason, self.next_probe_at) = (None, None);
                Some(BreakerChange::Closed)
            }
            // A straggler that was sent before it opened says nothing about now.
            BreakerState::Closed | BreakerState::Open => None,
        }
    }

    /// Records a failure that the provider is to blame for.
    pub fn record_failure(
        &mut self,
        terms: &BreakerTerms,
        why: &str,
        now: Timestamp,
    ) -> Option<BreakerChange> {
        match self.state {
            BreakerState::Closed => {
                self.count_failure(terms, now);
                let full = self.failures.len() >= terms.failures.max(1) as usize;
                full.then(|| self.open(terms, why, now))
            }
            BreakerState::HalfOpen => Some(self.open(terms, why, now)),
            BreakerState::Open => None,
        }
    }

    /// Records a probe that says nothing about the provider, because the message or the credential was to blame:
    /// another may go at once.
    pub fn record_inconclusive_probe(&mut self, now: Timestamp) {
        if self.state == BreakerState::HalfOpen {
            self.next_probe_at = Some(now);
        }
    }

    fn count_failure(&mut self, terms: &BreakerTerms, now: Timestamp) {
        self.failures.retain(|at| now.since(*at) < terms.within);
        while self.failures.len() >= terms.failures.max(1) as usize {
            self.failures.pop_front();
        }
        self.failures.push_back(now);
    }

    /// Returns true if it holds times that lie in the future: the clock was set back.
    pub fn has_future_times(&self, terms: &BreakerTerms, now: Timestamp) -> bool {
        let latest = now.plus(CLOCKS_DIFFER_MAX);
        self.since.is_some_and(|since| since > latest)
            || self.failures.back().is_some_and(|at| *at > latest)
            || self.next_probe_at.is_some_and(|at| at > latest.plus(self.probe_wait(terms)))
    }

    /// Treats times that lie in the future as now, so that nothing waits longer than its terms say.
    pub fn clamp_future_times(&mut self, terms: &BreakerTerms, now: Timestamp) {
        self.since = self.since.map(|since| since.min(now));
        self.failures.iter_mut().for_each(|at| *at = now.min(*at));
        self.next_probe_at = self.next_probe_at.map(|at| at.min(now.plus(self.probe_wait(terms))));
    }

    /// Time until the next probe in this state.
    fn probe_wait(&self, terms: &BreakerTerms) -> Duration {
        if self.state == BreakerState::Open { terms.reset } else { terms.probe }
    }

    /// Failures that count at `now`.
    pub fn failures_in_window(&self, terms: &BreakerTerms, now: Timestamp) -> usize {
        self.failures.iter().filter(|at| now.since(**at) < terms.within).count()
    }

    fn open(&mut self, terms: &BreakerTerms, why: &str, now: Timestamp) -> BreakerChange {
        self.enter_state(BreakerState::Open, now);
        self.next_probe_at = Some(now.plus(terms.reset));
        self.reason = Some(why.into());
        BreakerChange::Opened
    }

    fn enter_state(&mut self, state: BreakerState, now: Timestamp) {
        self.state = state;
        self.since = Some(now);
    }

    /// Opens the breaker by hand; it stays open until it is closed by hand.
    pub fn hold_open(&mut self, why: &str, now: Timestamp) -> Option<BreakerChange> {
        self.held_open = true;
        self.set_by_hand(BreakerState::Open, why, now).then_some(BreakerChange::Opened)
    }

    /// Closes the breaker by hand.
    pub fn close(&mut self, why: &str, now: Timestamp) -> Option<BreakerChange> {
        self.held_open = false;
        self.failures.clear();
        self.set_by_hand(BreakerState::Closed, why, now).then_some(BreakerChange::Closed)
    }

    /// Returns true if that changed its state.
    fn set_by_hand(&mut self, state: BreakerState, why: &str, now: Timestamp) -> bool {
        let changes = self.state != state;
        if changes {
            self.enter_state(state, now);
        }
        self.next_probe_at = None;
        self.reason = Some(why.into());
        changes
    }
}
