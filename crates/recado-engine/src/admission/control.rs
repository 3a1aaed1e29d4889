//! The shared values of a provider, a route or a company, and the steps by which they change.
//!
//! Nothing here does I/O or reads a clock: [`crate::shared::value`] writes, and each step brings its time along.

use std::time::Duration;

use recado_core::Timestamp;
use recado_core::breaker::{Admission, Breaker, BreakerChange, BreakerTerms};
use recado_core::limit::{Limit, Rate};
use recado_store::Namespace;
use serde::{Deserialize, Serialize};

use crate::shared::value::Replayable;

/// Valves, by provider.
pub(crate) const PROVIDERS: Namespace = Namespace::new("providers");

/// Limits of a provider (`name/`), and of a company there (`name/company`).
pub(crate) const LIMITS: Namespace = Namespace::new("limits");

/// Holds on receivers that users choose, by provider, company and receiver.
pub(crate) const RECEIVER_HOLDS: Namespace = Namespace::new("receiver-holds");

/// Limits of a company over all providers, by company.
pub(crate) const TENANT_LIMITS: Namespace = Namespace::new("tenant-limits");

/// Doors, by route.
pub(crate) const ROUTES: Namespace = Namespace::new("routes");

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
pub(crate) struct ProviderControl {
    pub breaker: Breaker,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

#[derive(Clone, Debug)]
pub(crate) struct ControlStep {
    pub at: Timestamp,
    pub what: ControlChange,
}

#[derive(Clone, Debug)]
pub(crate) enum ControlChange {
    /// A delivery asks for the probe.
    Probe(BreakerTerms),
    /// The report of a delivery that was sent at this time.
    Heard {
        sent_at: Timestamp,
        terms: BreakerTerms,
        news: BreakerFeedback,
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
pub(crate) enum BreakerFeedback {
    Succeeded(Duration),
    Failed(Box<str>),
    /// It says nothing about the provider.
    Inconclusive,
}

/// The effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlEffect {
    pub swing: Option<BreakerChange>,
    /// The caller that asked for the probe has it.
    pub probe: bool,
}

impl Replayable for ProviderControl {
    type Step = ControlStep;
    type Effect = ControlEffect;

    fn step(&mut self, ControlStep { at, what }: &ControlStep) -> ControlEffect {
        let breaker = &mut self.breaker;
        let mut probe = false;
        let swing = match what {
            ControlChange::Probe(terms) => {
                let (admission, swing) = breaker.admit(terms, *at);
                probe = admission == Admission::Probe;
                swing
            }
            ControlChange::Heard { sent_at, .. } if !breaker.counts_result_sent_at(*sent_at) => None,
            ControlChange::Heard { terms, news, .. } => match news {
                BreakerFeedback::Succeeded(took) => breaker.record_success(terms, *took, *at),
                BreakerFeedback::Failed(why) => breaker.record_failure(terms, why, *at),
                BreakerFeedback::Inconclusive => {
                    breaker.record_inconclusive_probe(*at);
                    None
                }
            },
            ControlChange::SetBack(terms) => {
                breaker.clamp_future_times(terms, *at);
                None
            }
            ControlChange::Turn { open: true, why } => breaker.hold_open(why, *at),
            ControlChange::Turn { open: false, why } => breaker.close(why, *at),
            ControlChange::Pause(pause) => {
                self.paused.clone_from(pause);
                None
            }
        };
        ControlEffect { swing, probe }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LimitStep {
    pub at: Timestamp,
    pub what: LimitChange,
}

#[derive(Clone, Debug)]
pub(crate) enum LimitChange {
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

impl Replayable for Limit {
    type Step = LimitStep;
    /// The number that was got.
    type Effect = u32;

    fn step(&mut self, LimitStep { at, what }: &LimitStep) -> u32 {
        match what {
            LimitChange::Take(rate, count) => return self.take(*rate, *count, *at),
            LimitChange::GiveBack(rate, count, taken_at) => self.return_unused(*rate, *count, *taken_at),
            LimitChange::Postdate(rate, count, taken_at) => self.postdate(*rate, *count, *taken_at, *at),
            LimitChange::Quiet { until, why, max } => self.quiet_until(*until, why, *max, *at),
            LimitChange::Lift => self.lift_quiet(),
            LimitChange::BoundQuiet(max) => self.bound_quiet(*max, *at),
            LimitChange::SetBack(rate) => self.clamp_future_times(*rate, *at),
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
pub(crate) struct RouteControl {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

impl Replayable for RouteControl {
    type Step = Option<Pause>;
    type Effect = ();

    fn step(&mut self, pause: &Option<Pause>) {
        self.paused.clone_from(pause);
    }
}
