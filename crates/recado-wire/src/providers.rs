//! Providers: their health, what holds them back, and their breaker for the caller's own code.

use recado_core::breaker::BreakerState;
use recado_core::{RouteName, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::format::components;
use crate::format::read::{Body, Faults};
use crate::jobs::WaitingFor;

/// A provider: guarded by a circuit breaker and limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    #[schema(example = "instagram")]
    pub name: Box<str>,
    #[schema(value_type = components::BreakerState)]
    pub state: BreakerState,
    /// Failures blamed on the provider within the window.
    pub failures_in_window: u64,
    /// Time when it came into this state; absent when it never left it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Reason for this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// Opened by hand: it stays open until it is closed by hand.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held_open: bool,
    /// Absent unless the breaker is open and closes by a probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_probe_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// It asked to be left alone until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_until: Option<Timestamp>,
    /// Deliveries on their way.
    pub running: u64,
    /// Deliveries that may be on their way at the same time right now.
    pub concurrency: u64,
    pub limits: ProviderLimits,
    /// Jobs of its routes that are due and wait because it is held back.
    pub parked: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
    /// Routes that deliver to it.
    #[schema(value_type = Vec<String>)]
    pub routes: Vec<RouteName>,
}

/// A pause that a person set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    pub since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Box<str>>,
}

/// Protection of a provider, as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerLimits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
    pub concurrency: u64,
    /// For each company on its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_rate: Option<RateLimit>,
    /// The most slots that one company can have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_concurrency: Option<u64>,
    /// The most slots that one webhook endpoint, or one host of a company, can have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_concurrency: Option<u64>,
    /// Concurrency follows the provider's answers.
    pub adaptive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BreakerLimits {
    /// This many failures …
    pub failures: u32,
    /// … within this long open it.
    pub within_ms: u64,
    /// Time that it stays open before a probe.
    pub reset_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    pub max: u32,
    pub per_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderList {
    /// By name.
    pub items: Vec<Provider>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum BreakerAction {
    Open,
    Close,
}

/// Body of `POST /v1/providers/{name}/breaker`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BreakerRequest {
    /// Opened by hand it stays open until it is closed by hand.
    pub action: BreakerAction,
    /// Reason, for the next operator.
    #[schema(value_type = components::Reason)]
    pub reason: String,
}

impl Body for BreakerRequest {
    fn check(&self, faults: &mut Faults) {
        faults.check_blank("reason", &self.reason, "is blank; say in words why");
        faults.check_length("reason", Some(&self.reason));
    }
}

/// Body of `pause` and `resume`, for a provider or a route; may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseRequest {
    /// Reason, for the next operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::Note>)]
    pub reason: Option<String>,
}

impl Body for PauseRequest {
    fn check(&self, faults: &mut Faults) {
        faults.check_length("reason", self.reason.as_deref());
    }
}

/// Permit for the caller's own code to ask the provider now. After a yes, the caller reports the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Permit)]
#[serde(rename_all = "camelCase")]
pub struct CallPermit {
    pub permitted: bool,
    #[schema(value_type = components::BreakerState)]
    pub state: BreakerState,
    /// Reason for a no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time to wait before asking again, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Body of `POST /v1/providers/{name}/success`; may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SuccessReport {
    /// Time that the provider took: slow successes may count as failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::DurationMs>)]
    pub took_ms: Option<u64>,
}

impl Body for SuccessReport {
    fn check(&self, faults: &mut Faults) {
        faults.check_duration("tookMs", self.took_ms);
    }
}

/// Body of `POST /v1/providers/{name}/failure`; may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailureReport {
    /// The failure. Report only failures that are the provider's fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::Note>)]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::DurationMs>)]
    pub took_ms: Option<u64>,
}

impl Body for FailureReport {
    fn check(&self, faults: &mut Faults) {
        faults.check_length("reason", self.reason.as_deref());
        faults.check_duration("tookMs", self.took_ms);
    }
}
