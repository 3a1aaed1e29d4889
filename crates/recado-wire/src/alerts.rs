//! Alerts: the firing ones, and the rules.

use recado_core::Timestamp;
use recado_core::alert::{Severity, Unit};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::format::components;

/// Answer to `GET /v1/alerts`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertList {
    /// Firing alerts, by name and subject.
    pub items: Vec<Alert>,
    /// Every rule there is, on or off.
    pub rules: Vec<AlertRule>,
}

/// A firing alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    #[schema(example = "dlq_company")]
    pub name: String,
    /// Kind of its subject.
    pub about: AlertAbout,
    /// Name of the subject; absent when the alert is about the whole server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "acme")]
    pub subject: Option<String>,
    #[schema(value_type = components::AlertSeverity)]
    pub severity: Severity,
    /// Last measured value: a share from 0 to 1, a count, seconds or a multiple, by the rule.
    pub value: f64,
    /// In the same unit.
    pub threshold: f64,
    /// Since when the figure has been above its threshold.
    pub since: Timestamp,
    #[schema(example = "Company acme: 63 of its jobs are in the dead letter queue; the limit is 50")]
    pub message: String,
    /// The same in Portuguese.
    pub message_pt: String,
    /// Page that says what to do.
    pub runbook: String,
    /// Since when the figure has been well below its threshold (at or below `resolveShare` of it), or there has been
    /// nothing to measure. `value` stays the one that it fired for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calm_since: Option<Timestamp>,
    /// Time at which it ends if it stays calm; present with `calmSince`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clears_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum AlertAbout {
    All,
    Route,
    Company,
    ErrorCode,
    Provider,
}

/// A rule by which an alert fires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertRule {
    pub name: String,
    pub enabled: bool,
    #[schema(value_type = components::AlertSeverity)]
    pub severity: Severity,
    /// Unit of its figures.
    #[schema(value_type = components::AlertUnit)]
    pub unit: Unit,
    /// The alert fires above this.
    pub threshold: f64,
    /// Window of the measurement; 0 for a current value.
    pub window_ms: u64,
    /// Less than this in the window says nothing.
    pub min_volume: u64,
    /// Time above the threshold before the alert fires.
    pub pending_ms: u64,
    /// It is calm at or below this share of the threshold, …
    pub resolve_share: f64,
    /// … and over after this long of calm.
    pub clear_ms: u64,
    /// Names it does not fire for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
}
