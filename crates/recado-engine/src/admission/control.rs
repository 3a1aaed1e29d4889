//! Limits and pauses that all nodes share, and the steps by which they change. The breaker has a file of its own,
//! [`crate::admission::breaker`].
//!
//! Nothing here does I/O or reads a clock: [`crate::shared::value`] writes, and each step brings its time along.

use std::sync::Arc;
use std::time::Duration;

use recado_core::Timestamp;
use recado_core::limit::{Limit, Rate};
use recado_store::Namespace;
use serde::{Deserialize, Serialize};

use crate::shared::value::{Replayable, SharedValue};

/// Limits of a provider (`name/`), and of a company there (`name/company`).
pub(crate) const LIMITS: Namespace = Namespace::new("limits");

/// Holds on receivers that users choose, by provider, company and receiver.
pub(crate) const RECEIVER_HOLDS: Namespace = Namespace::new("receiver-holds");

/// Limits of a company over all providers, by company.
pub(crate) const TENANT_LIMITS: Namespace = Namespace::new("tenant-limits");

/// Pauses of routes, by route.
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

/// A limit that all nodes share.
pub(crate) type SharedLimit = Arc<SharedValue<Limit>>;

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
    ClockSetBack(Rate),
    /// An operator lifts the quiet.
    Lift,
    /// The quiet began no later than now, and lasts no longer than this from now on.
    BoundQuiet(Duration),
}

impl Replayable for Limit {
    /// A change, and its time.
    type Step = (LimitChange, Timestamp);
    /// The number that was got.
    type Effect = u32;

    fn apply(&mut self, (change, at): &Self::Step) -> u32 {
        match change {
            LimitChange::Take(rate, count) => return self.take(*rate, *count, *at),
            LimitChange::GiveBack(rate, count, taken_at) => self.return_unused(*rate, *count, *taken_at),
            LimitChange::Postdate(rate, count, taken_at) => self.postdate(*rate, *count, *taken_at, *at),
            LimitChange::Quiet { until, why, max } => self.quiet_until(*until, why, *max, *at),
            LimitChange::Lift => self.lift_quiet(),
            LimitChange::BoundQuiet(max) => self.bound_quiet(*max, *at),
            LimitChange::ClockSetBack(rate) => self.clamp_future_times(*rate, *at),
        }
        0
    }

    fn expires_at(&self) -> Option<Timestamp> {
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

    fn apply(&mut self, pause: &Option<Pause>) {
        self.paused.clone_from(pause);
    }
}
