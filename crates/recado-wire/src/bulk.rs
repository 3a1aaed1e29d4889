//! Many dead letters replayed or discarded at once.

use recado_core::{CompanyId, JobId, RouteName, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::dlq::DeadLetterFilter;
use crate::format::components;
use crate::format::read::{Body, Faults};

pub use recado_core::dead_letter::bulk::{BulkAct, BulkState, CanaryState};

/// Entries a second at most.
pub const RATE_MAX: u32 = 1_000;

pub const CANARY_MAX: u32 = 100;

/// Ids at most that one request names.
pub const JOB_IDS_MAX: usize = 1_000;

/// Selects dead letters; every given condition must hold, and `{}` selects all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", from = "FlatFilter")]
pub struct BulkFilter {
    #[serde(flatten)]
    pub entries: DeadLetterFilter,
    /// Only these, up to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<components::Name>>, min_items = 1, max_items = 1000)]
    pub job_ids: Option<Vec<JobId>>,
}

/// The same as requests write it: a reader that flattens does not know where a fault is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FlatFilter {
    company_id: Option<CompanyId>,
    route: Option<RouteName>,
    last_failure_code: Option<String>,
    reason: Option<String>,
    fingerprint: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    job_ids: Option<Vec<JobId>>,
}

impl From<FlatFilter> for BulkFilter {
    fn from(flat: FlatFilter) -> Self {
        let FlatFilter { company_id, route, last_failure_code, reason, fingerprint, since, until, job_ids } =
            flat;
        let entries =
            DeadLetterFilter { company_id, route, last_failure_code, reason, fingerprint, since, until };
        BulkFilter { entries, job_ids }
    }
}

impl Body for BulkFilter {
    fn check(&self, faults: &mut Faults) {
        let texts = [
            ("lastFailureCode", &self.entries.last_failure_code),
            ("reason", &self.entries.reason),
            ("fingerprint", &self.entries.fingerprint),
        ];
        for (name, _) in texts.iter().filter(|(_, text)| text.as_deref() == Some("")) {
            faults.note(name, "is empty; give a value or leave it out");
        }
        match self.job_ids.as_ref().map(Vec::len) {
            Some(0) => faults.note("jobIds", "is empty; name some jobs, or leave it out"),
            Some(count) if count > JOB_IDS_MAX => {
                faults.note(
                    "jobIds",
                    format!("names {count} jobs; name at most {JOB_IDS_MAX}, or use a filter"),
                );
            }
            _ => {}
        }
    }
}

/// Body of `POST /v1/dlq/replay` and `POST /v1/dlq/discard`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkRequest {
    pub filter: BulkFilter,
    /// Only count, and show a few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// 1 to 1000; 50 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub rate_per_second: Option<u32>,
    /// This many are replayed first, up to 100; the rest follows when they were delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub canary: Option<u32>,
    /// Reason, for the audit trail; a discard needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::Note>)]
    pub reason: Option<String>,
    /// The same, as a single replay calls it; read where there is no `reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::Note>)]
    pub note: Option<String>,
}

impl Body for BulkRequest {
    const WRITE: &'static [(&'static str, &'static str)] = &[
        ("filter", "an object; {} means every entry"),
        ("ratePerSecond", "a whole number of entries a second"),
        ("canary", "a whole number of entries"),
    ];

    fn check(&self, faults: &mut Faults) {
        faults.within("filter", |faults| self.filter.check(faults));
        let bounds = [("ratePerSecond", self.rate_per_second, RATE_MAX), ("canary", self.canary, CANARY_MAX)];
        for (name, given, max) in bounds {
            faults.check_range(name, given, 1..=max, format!("give 1 to {max}"));
        }
        faults.check_length("reason", self.reason.as_deref());
        faults.check_length("note", self.note.as_deref());
    }
}

impl BulkRequest {
    /// The reason, if one was given.
    pub fn words(&self) -> Option<&str> {
        let words = self.reason.as_deref().or(self.note.as_deref());
        words.map(str::trim).filter(|words| !words.is_empty())
    }
}

/// Answer to a dry run: nothing was touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkCount {
    #[schema(value_type = components::BulkAct)]
    pub act: BulkAct,
    pub dry_run: bool,
    pub total: u64,
    /// A few of them, newest first.
    pub sample: Vec<BulkSample>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkSample {
    #[schema(value_type = String)]
    pub job_id: JobId,
    #[schema(value_type = String)]
    pub company_id: CompanyId,
    #[schema(value_type = String)]
    pub route: RouteName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_code: Option<Box<str>>,
    pub last_failure_reason: String,
    #[serde(rename = "movedToDLQAt")]
    pub moved_to_dlq_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Canary {
    pub wanted: u32,
    #[schema(value_type = Vec<String>)]
    pub job_ids: Vec<JobId>,
    #[schema(value_type = components::CanaryState)]
    pub state: CanaryState,
    /// Reason why they wait, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkFailure {
    #[schema(value_type = String)]
    pub job_id: JobId,
    pub reason: Box<str>,
}

/// A bulk act and how far it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bulk {
    pub id: Box<str>,
    #[schema(value_type = components::BulkAct)]
    pub act: BulkAct,
    #[schema(value_type = components::BulkState)]
    pub state: BulkState,
    pub filter: BulkFilter,
    #[serde(flatten)]
    #[schema(inline)]
    pub progress: BulkProgress,
    /// Up to 20 of those that failed.
    pub failures: Vec<BulkFailure>,
    pub rate_per_second: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    pub started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_because: Option<Box<str>>,
}

/// The entries of a bulk act, by what became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkProgress {
    /// Counted at the start, and always `done`, `skipped`, `failed` and `left` together. What entered the queue after
    /// that is not touched.
    pub total: u64,
    pub done: u64,
    /// On their way already, or gone: another was faster.
    pub skipped: u64,
    pub failed: u64,
    /// Nothing has become of them: not yet, or not at all when it was stopped.
    pub left: u64,
}

/// Answer to `GET /v1/replays`: all that are remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkList {
    /// Newest first.
    pub items: Vec<Bulk>,
}
