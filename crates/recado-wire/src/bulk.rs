//! Many dead letters replayed or discarded at once.

use recado_core::{CompanyId, JobId, RouteName, Timestamp};
use serde::{Deserialize, Serialize};

use crate::dlq::{DeadLetterFilter, WORDS_LEN_MAX};
use crate::format::read::{Body, Faults, Fields};

/// Entries a second at most, and by default.
pub const RATE_MAX: u32 = 1_000;
pub const RATE_DEFAULT: u32 = 50;

pub const CANARY_MAX: u32 = 100;

/// Ids at most that one request names.
pub const JOB_IDS_MAX: usize = 1_000;

/// Selects dead letters; every given condition must hold, and `{}` selects all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkFilter {
    #[serde(flatten)]
    pub entries: DeadLetterFilter,
    /// Only these, up to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<crate::format::components::Name>>, min_items = 1, max_items = 1000))]
    pub job_ids: Option<Vec<JobId>>,
}

impl Body for BulkFilter {
    const FIELDS: &'static [&'static str] =
        &["companyId", "route", "lastFailureCode", "reason", "fingerprint", "since", "until", "jobIds"];

    fn from_fields(fields: &mut Fields<'_, '_>) -> Self {
        BulkFilter {
            entries: DeadLetterFilter::from_fields(fields),
            job_ids: fields.parsed_texts("jobIds", JobId::new),
        }
    }

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkRequest {
    pub filter: BulkFilter,
    /// Only count, and show a few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// 1 to 1000; 50 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub rate_per_second: Option<u32>,
    /// So many are replayed first, up to 100; the rest follows when they were delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    pub canary: Option<u32>,
    /// Reason, for the audit trail; a discard needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::format::components::Note>))]
    pub reason: Option<String>,
    /// The same, as a single replay calls it; read where there is no `reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::format::components::Note>))]
    pub note: Option<String>,
}

impl Body for BulkRequest {
    const FIELDS: &'static [&'static str] =
        &["filter", "dryRun", "ratePerSecond", "canary", "reason", "note"];

    fn from_fields(fields: &mut Fields<'_, '_>) -> Self {
        BulkRequest {
            filter: fields.required_object("filter", "an object; {} means every entry"),
            dry_run: fields.boolean("dryRun"),
            rate_per_second: fields.integer("ratePerSecond", "a whole number of entries a second"),
            canary: fields.integer("canary", "a whole number of entries"),
            reason: fields.text("reason"),
            note: fields.text("note"),
        }
    }

    fn check(&self, faults: &mut Faults) {
        faults.within("filter", |faults| self.filter.check(faults));
        let bounds = [("ratePerSecond", self.rate_per_second, RATE_MAX), ("canary", self.canary, CANARY_MAX)];
        for (name, given, max) in bounds {
            if given.is_some_and(|given| !(1..=max).contains(&given)) {
                faults.note(name, format!("is out of range; give 1 to {max}"));
            }
        }
        for (name, words) in [("reason", &self.reason), ("note", &self.note)] {
            if words.as_ref().is_some_and(|words| words.chars().count() > WORDS_LEN_MAX) {
                faults.note(name, format!("is too long; write at most {WORDS_LEN_MAX} characters"));
            }
        }
    }
}

impl BulkRequest {
    /// The reason, if one was given.
    pub fn words(&self) -> Option<&str> {
        let words = self.reason.as_deref().or(self.note.as_deref());
        words.map(str::trim).filter(|words| !words.is_empty())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BulkAct {
    Replay,
    Discard,
}

/// Answer to a dry run: nothing was touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkCount {
    pub act: BulkAct,
    pub dry_run: bool,
    pub total: u64,
    /// A few of them, newest first.
    pub sample: Vec<BulkSample>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkSample {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job_id: JobId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub company_id: CompanyId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub route: RouteName,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub last_failure_code: Option<Box<str>>,
    pub last_failure_reason: String,
    #[serde(rename = "movedToDLQAt")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub moved_to_dlq_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BulkState {
    Running,
    Done,
    /// By a person, or because the canary died: `stoppedBecause` says.
    Stopped,
    /// None of the entries could be dealt with.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CanaryState {
    Starting,
    /// On their way; the rest waits for them.
    Waiting,
    Delivered,
    Died,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Canary {
    pub wanted: u32,
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub job_ids: Vec<JobId>,
    pub state: CanaryState,
    /// Reason why they wait, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub waiting_for: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkFailure {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job_id: JobId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub reason: Box<str>,
}

/// A bulk act and how far it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Bulk {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: Box<str>,
    pub act: BulkAct,
    pub state: BulkState,
    pub filter: BulkFilter,
    /// Counted at the start, and always `done`, `skipped`, `failed` and `left` together. What entered the queue after
    /// that is not touched.
    pub total: u64,
    pub done: u64,
    /// On their way already, or gone: another was faster.
    pub skipped: u64,
    pub failed: u64,
    /// Nothing has become of them: not yet, or not at all when it was stopped.
    pub left: u64,
    /// Up to 20 of those that failed.
    pub failures: Vec<BulkFailure>,
    pub rate_per_second: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub ended_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub actor: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub reason: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub stopped_because: Option<Box<str>>,
}

/// Answer to `GET /v1/replays`: all that are remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkList {
    /// Newest first.
    pub items: Vec<Bulk>,
}
