//! The shared values of a provider, a route or a company, and the steps by which they change.
//!
//! Nothing here does I/O or reads a clock: [`crate::agreed`] writes, and each step brings its time along.

use std::time::Duration;

use recado_core::Timestamp;
use recado_core::breaker::{Admission, Breaker, BreakerChange, BreakerTerms};
use recado_core::limit::{Limit, Rate};
use recado_store::Shelf;
use serde::{Deserialize, Serialize};

use crate::agreed::Stepped;

/// Valves, by provider.
pub(crate) const PROVIDERS: Shelf = Shelf::new("providers");

/// Limits of a provider (`name/`), and of a company there (`name/company`).
pub(crate) const LIMITS: Shelf = Shelf::new("limits");

/// Holds on receivers that users choose, by provider, company and receiver.
pub(crate) const RECEIVER_HOLDS: Shelf = Shelf::new("receiver-holds");

/// Limits of a company over all providers, by company.
pub(crate) const TENANT_LIMITS: Shelf = Shelf::new("tenant-limits");

/// Doors, by route.
pub(crate) const ROUTES: Shelf = Shelf::new("routes");

/// A pause that a person set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    pub since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Box<str>>,
}

/// A provider's breaker and its pause.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Valve {
    pub breaker: Breaker,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

#[derive(Clone, Debug)]
pub(crate) struct ValveStep {
    pub at: Timestamp,
    pub what: Change,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A delivery asks for the probe.
    Probe(BreakerTerms),
    /// The report of a delivery that was sent at this time.
    Heard {
        sent_at: Timestamp,
        terms: BreakerTerms,
        news: News,
    },
    /// The clock was set back since this was written.
    SetBack(BreakerTerms),
    /// A person opens the breaker, or closes it.
    Turn {
        open: bool,
        why: Box<str>,
    },
    Pause(Option<Pause>),
}

#[derive(Clone, Debug)]
pub(crate) enum News {
    Succeeded(Duration),
    Failed(Box<str>),
    /// It says nothing about the provider.
    Inconclusive,
}

/// The effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub swing: Option<BreakerChange>,
    /// The caller that asked for the probe has it.
    pub probe: bool,
}

impl Stepped for Valve {
    type Step = ValveStep;
    type Effect = Effect;

    fn step(&mut self, ValveStep { at, what }: &ValveStep) -> Effect {
        let breaker = &mut self.breaker;
        let mut probe = false;
        let swing = match what {
            Change::Probe(terms) => {
                let (admission, swing) = breaker.admit(terms, *at);
                probe = admission == Admission::Probe;
                swing
            }
            Change::Heard { sent_at, .. } if !breaker.counts_result_sent_at(*sent_at) => None,
            Change::Heard { terms, news, .. } => match news {
                News::Succeeded(took) => breaker.record_success(terms, *took, *at),
                News::Failed(why) => breaker.record_failure(terms, why, *at),
                News::Inconclusive => {
                    breaker.record_inconclusive_probe(*at);
                    None
                }
            },
            Change::SetBack(terms) => {
                breaker.clamp_future_times(terms, *at);
                None
            }
            Change::Turn { open: true, why } => breaker.hold_open(why, *at),
            Change::Turn { open: false, why } => breaker.close(why, *at),
            Change::Pause(pause) => {
                self.paused.clone_from(pause);
                None
            }
        };
        Effect { swing, probe }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LimitStep {
    pub at: Timestamp,
    pub what: Spend,
}

#[derive(Clone, Debug)]
pub(crate) enum Spend {
    Take(Rate, u32),
    /// Sends that were taken then are not wanted after all.
    GiveBack(Rate, u32, Timestamp),
    /// Sends that were taken then go out only now.
    Postdate(Rate, u32, Timestamp),
    /// An answer asks for quiet, and its route waits `max` at most; or a rule imposes it.
    Quiet {
        until: Timestamp,
        why: Box<str>,
        max: Option<Duration>,
    },
    /// The clock was set back since this was written.
    SetBack(Rate),
    /// An operator lifts the quiet.
    Lift,
    /// The quiet began no later than now, and lasts no longer than this from now on.
    BoundQuiet(Duration),
}

impl Stepped for Limit {
    type Step = LimitStep;
    /// The number that was got.
    type Effect = u32;

    fn step(&mut self, LimitStep { at, what }: &LimitStep) -> u32 {
        match what {
            Spend::Take(rate, count) => return self.take(*rate, *count, *at),
            Spend::GiveBack(rate, count, taken_at) => self.return_unused(*rate, *count, *taken_at),
            Spend::Postdate(rate, count, taken_at) => self.postdate(*rate, *count, *taken_at, *at),
            Spend::Quiet { until, why, max } => self.quiet_until(*until, why, *max, *at),
            Spend::Lift => self.lift_quiet(),
            Spend::BoundQuiet(max) => self.bound_quiet(*max, *at),
            Spend::SetBack(rate) => self.clamp_future_times(*rate, *at),
        }
        0
    }

    fn over_at(&self) -> Option<Timestamp> {
        Some(Limit::expires_at(self))
    }
}

/// The pause of a route.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Door {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

impl Stepped for Door {
    type Step = Option<Pause>;
    type Effect = ();

    fn step(&mut self, pause: &Option<Pause>) {
        self.paused.clone_from(pause);
    }
}
