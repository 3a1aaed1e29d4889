//! Tenants: their counts and turns, and the terms that an operator sets.

use recado_core::{CompanyId, RouteName, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::INT32_MAX;
use crate::format::components;
use crate::format::read::{Body, Faults, Query};
use crate::jobs::WaitingFor;

pub const WEIGHT_MAX: u32 = 100;

/// One company over all of its routes. What is kept for turns (rounds, priority, jobs in a row) is that of the
/// route where it waits longest, and begins when the store was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    #[schema(value_type = String, example = "acme")]
    pub company_id: CompanyId,
    /// Multiplier of the company's turn.
    pub weight: u32,
    /// Deliveries at most that start in a minute, over all routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_per_minute: Option<u32>,
    pub paused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_since: Option<Timestamp>,
    /// Reason for its pause, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_reason: Option<Box<str>>,
    /// Person who paused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<Box<str>>,
    /// Its dead letters.
    pub dead: u64,
    #[serde(flatten)]
    pub stats: TenantStats,
    pub routes: Vec<TenantRoute>,
}

/// The same on one route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantRoute {
    #[schema(value_type = String)]
    pub route: RouteName,
    #[serde(flatten)]
    pub stats: TenantStats,
}

/// Queue statistics of a company. The last five numbers are its `TenantFairnessMetrics`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantStats {
    /// Due, waiting.
    pub queued: u64,
    /// Waiting to be due.
    pub delayed: u64,
    /// On their way.
    pub delivering: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_processed_at: Option<Timestamp>,
    /// Turns that others got while it had a job that was due.
    pub rounds_without_processing: u64,
    /// 5 for the company just served, 1 for the one that waits longest.
    #[schema(minimum = 1, maximum = 5)]
    pub current_priority: u32,
    pub total_processed: u64,
    /// Consecutive jobs of its current turn; 0 once another tenant is served.
    pub consecutive_batch_count: u32,
    /// Reason why its due jobs are not on their way; absent when none is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantList {
    /// By company.
    pub items: Vec<Tenant>,
    /// Cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Selects tenants; all that have jobs, dead letters or terms of their own when absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct TenantQuery {
    #[param(value_type = Option<components::Name>, inline)]
    pub company_id: Option<CompanyId>,
    /// Only what concerns this route.
    #[param(value_type = Option<components::Name>, inline)]
    pub route: Option<RouteName>,
    /// Items on a page, up to 1000; 100 when absent.
    #[param(value_type = Option<components::PageLimit>, inline)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub cursor: Option<String>,
}

impl Query for TenantQuery {}

/// Body of `PUT /v1/tenants/{companyId}`; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantChange {
    /// Its turn is this many times as long; 1 is the usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub weight: Option<u32>,
    /// Deliveries at most that start in a minute, over all routes; `null` for no bound.
    #[serde(
        default,
        deserialize_with = "crate::format::read::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 2147483647)]
    pub max_per_minute: Option<Option<u32>>,
    /// While it is paused its jobs wait and spend no attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Reason, for the next operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::Note>)]
    pub reason: Option<String>,
}

impl Body for TenantChange {
    const WRITE: &'static [(&'static str, &'static str)] =
        &[("weight", "1 to 100"), ("maxPerMinute", "1 or more, or null for no bound")];

    const NULL_TAKES_AWAY: bool = true;

    fn check(&self, faults: &mut Faults) {
        faults.check_range("weight", self.weight, 1..=WEIGHT_MAX, format!("write 1 to {WEIGHT_MAX}"));
        let max = self.max_per_minute.flatten();
        if max == Some(0) {
            faults.note("maxPerMinute", "is 0; write 1 or more, or pause the tenant");
        }
        let bounds = format!("give 1 to {INT32_MAX}, or null for no bound");
        faults.check_range("maxPerMinute", max, 1..=INT32_MAX, bounds);
        faults.check_length("reason", self.reason.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::read;

    #[test]
    fn null_takes_a_bound_away_and_absence_keeps_it_on_both_ways_of_reading() {
        let rows = [
            (r#"{}"#, None),
            (r#"{"maxPerMinute": null}"#, Some(None)),
            (r#"{"maxPerMinute": 7}"#, Some(Some(7))),
        ];
        for (json, expected) in rows {
            let strict: TenantChange = read::body(json).unwrap().into_result().unwrap();
            let walked: TenantChange = read::by_field(json).unwrap().into_result().unwrap();
            assert_eq!((strict.max_per_minute, &strict), (expected, &walked), "{json}");
            let written = serde_json::to_string(&strict).unwrap();
            assert_eq!(serde_json::from_str::<TenantChange>(&written).unwrap(), strict, "{written}");
        }
    }
}
