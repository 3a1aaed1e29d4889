//! Routes: how they deliver, when they try again, and whether their jobs may leave.

use std::time::Duration;

use recado_core::time::millis;
use recado_core::{Backoff, Policy, RouteName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::WaitingFor;
use crate::providers::Paused;

/// A named way to deliver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    #[schema(value_type = String, example = "email")]
    pub name: RouteName,
    /// Carrier of its jobs; `worker` when programs of yours carry them, `none` when nothing does yet.
    #[schema(example = "smtp")]
    pub transport: Box<str>,
    /// In the order they are tried.
    pub providers: Vec<Box<str>>,
    /// Time that one attempt may take.
    pub timeout_ms: u64,
    pub policy: RoutePolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Jobs that wait, due or not.
    pub waiting: u64,
    /// Reason why all of its jobs wait, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteList {
    /// By name.
    pub items: Vec<Route>,
}

/// Retry policy of a route. Of `baseMs` and `scheduleMs` one is there: a curve, or the wait before each
/// attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutePolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_ms: Option<Vec<u64>>,
    /// Jitter, in the words of the configuration.
    #[schema(example = "±25%")]
    pub jitter: String,
    /// No wait is shorter, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_ms: Option<u64>,
    /// … and none longer, whatever the jitter says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling_ms: Option<u64>,
    /// Counts the first try.
    pub max_attempts: u32,
    /// Every attempt that it allows.
    pub attempts: Vec<PolicyStep>,
}

/// One attempt: the wait before it, and how long after acceptance it is made when every earlier one failed at
/// once. Jitter moves either within its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStep {
    pub attempt: u32,
    pub delay_ms: u64,
    pub delay_min_ms: u64,
    pub delay_max_ms: u64,
    pub at_ms: u64,
    pub at_min_ms: u64,
    pub at_max_ms: u64,
}

impl From<&Policy> for RoutePolicy {
    fn from(policy: &Policy) -> Self {
        let (base_ms, factor, cap_ms, schedule_ms) = match &policy.backoff {
            Backoff::Exponential { base, factor, cap } => {
                (Some(millis(*base)), Some(*factor), Some(millis(*cap)), None)
            }
            Backoff::Schedule(waits) => {
                (None, None, None, Some(waits.iter().map(|wait| millis(*wait)).collect()))
            }
        };
        RoutePolicy {
            base_ms,
            factor,
            cap_ms,
            schedule_ms,
            jitter: policy.jitter.to_string(),
            floor_ms: policy.floor.map(millis),
            ceiling_ms: policy.ceiling.map(millis),
            max_attempts: policy.max_attempts,
            attempts: steps(policy),
        }
    }
}

/// Every attempt that a policy allows.
pub fn steps(policy: &Policy) -> Vec<PolicyStep> {
    let (mut at, mut at_min, mut at_max) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let step = |attempt: u32| {
        let (delay, (low, high)) = match attempt.checked_sub(2) {
            None => (policy.first_delay(), (policy.first_delay(), policy.first_delay())),
            Some(retry) => (policy.nominal(retry), policy.range(retry)),
        };
        (at, at_min, at_max) = (at + delay, at_min + low, at_max + high);
        PolicyStep {
            attempt,
            delay_ms: millis(delay),
            delay_min_ms: millis(low),
            delay_max_ms: millis(high),
            at_ms: millis(at),
            at_min_ms: millis(at_min),
            at_max_ms: millis(at_max),
        }
    };
    (1..=policy.max_attempts).map(step).collect()
}
