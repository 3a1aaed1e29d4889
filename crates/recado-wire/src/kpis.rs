//! Retry KPIs, each beside its target.

use recado_core::{RouteName, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::format::components;
use crate::format::read::Query;

/// Window by default: a day.
pub const WINDOW_DEFAULT_MS: u64 = 24 * 60 * 60 * 1_000;

/// Furthest back: a week.
pub const WINDOW_MAX_MS: u64 = 7 * WINDOW_DEFAULT_MS;

/// Below this the figures are too coarse.
pub const WINDOW_MIN_MS: u64 = 60_000;

/// Selects the indicators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct KpiQuery {
    /// Only this route; all together when absent.
    #[param(value_type = Option<components::Name>, inline)]
    pub route: Option<RouteName>,
    /// Window to look back on, from 60000 (a minute) to 604800000 (a week); a day when absent.
    #[param(minimum = 60000, maximum = 604800000)]
    pub window_ms: Option<u64>,
}

impl Query for KpiQuery {
    const RANGES: &'static [(&'static str, u64, u64, &'static str)] =
        &[("windowMs", WINDOW_MIN_MS, WINDOW_MAX_MS, " milliseconds")];
}

/// Answer to `GET /v1/kpis`: what the node that answers saw. Shares are from 0 to 1, times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kpis {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    pub window_ms: u64,
    /// Begin of the figures: the window's, or the process's when that is younger.
    pub since: Timestamp,
    /// Share of the retried jobs that were sent, of those that ended.
    pub success_after_retry: Kpi,
    /// Attempts of a job that was sent, those before a replay with them.
    pub mean_attempts: Kpi,
    /// Share of the retried jobs that spent all their attempts, of those that ended.
    pub lost_share: Kpi,
    /// From the first try to success, of retried jobs; the median.
    pub time_to_success_seconds: Kpi,
    /// Share of the judged tries that met a permanent error.
    pub permanent_share: Kpi,
    /// Share of the retries whose wait was at the policy's cap.
    pub at_cap_share: Kpi,
    /// Deviation of the jitter from an even use of its range.
    pub jitter_deviation: Kpi,
    pub mean_backoff_seconds: Kpi,
    /// By the attempt's number, over all routes.
    pub by_attempt: Vec<AttemptRate>,
    /// Flow into the dead letter queue, over all routes.
    pub dead_letters: DeadLetterFlow,
    /// Length of one part of `course`.
    pub course_part_ms: u64,
    /// The window in equal parts, oldest first, from where the figures begin.
    pub course: Vec<CoursePart>,
    /// Route by route, busiest first; only those that did something.
    pub by_route: Vec<RouteFlow>,
}

/// Counts of one part of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoursePart {
    /// Its begin.
    pub at: Timestamp,
    /// Jobs that were sent.
    pub sent: u64,
    /// Failed attempts that are tried again.
    pub retried: u64,
    /// Jobs that became dead letters.
    pub dead: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteFlow {
    pub route: String,
    pub attempts: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Jobs that were sent.
    pub sent: u64,
    /// Jobs that became dead letters.
    pub dead: u64,
}

/// A figure, beside what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kpi {
    /// Absent when there was nothing to measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The target, if it is a floor …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// … or a ceiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The same as `verdict`; absent when that is `tooFew`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    pub verdict: KpiVerdict,
    /// Volume that it was measured on.
    pub volume: u64,
    /// Less than this is `tooFew` to judge.
    pub min_volume: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum KpiVerdict {
    /// The target is met.
    Met,
    /// The target is missed.
    Missed,
    /// It was measured on less than `minVolume`.
    TooFew,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptRate {
    /// The last one stands for all later numbers.
    pub attempt: u32,
    pub ended: u64,
    pub sent: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterFlow {
    pub entries: u64,
    /// On average since `since`, or over the first hour while that is not over.
    pub per_hour: f64,
    /// Dead letters as a share of the jobs that ended sent or dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_of_sends: Option<f64>,
    /// Most first; the largest, and `other`.
    pub by_company: Vec<NamedCount>,
    pub by_error_code: Vec<NamedCount>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedCount {
    pub name: String,
    pub count: u64,
}
