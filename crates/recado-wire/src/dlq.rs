//! The dead letter queue: look, count, replay, discard.

use recado_core::words::{replay_advice, uncertain_attempts};
use recado_core::{Cause, Class, CompanyId, DeadLetterState, JobId, Payload, RouteName, Status, Timestamp};
use serde::{Deserialize, Serialize};

use crate::format::read::{Body, Faults, Fields, Params, Query};
use crate::jobs::Attempt;

/// A job that could not be delivered, with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadLetter {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job_id: JobId,
    /// The same as `jobId`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub outbox_id: JobId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub company_id: CompanyId,
    /// Payload as accepted.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::format::schema::any))]
    pub original_data: Payload,
    /// Payload as last corrected by a person: the one that a replay sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::format::schema::any))]
    pub corrected_data: Option<Payload>,
    pub failed_attempts: u32,
    /// Never empty.
    pub last_failure_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub last_failure_code: Option<Box<str>>,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub last_failure_timestamp: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub enqueued_at: Timestamp,
    #[serde(rename = "movedToDLQAt")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub moved_to_dlq_at: Timestamp,
    /// Time that the entry is kept from `movedToDLQAt` on, in milliseconds.
    pub ttl: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub route: RouteName,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub user_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub correlation_id: Option<Box<str>>,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::format::components::ErrorClassification))]
    pub error_classification: Class,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub stack_trace: Option<Box<str>>,
    pub attempts: Vec<Attempt>,
    /// Failures that a person would call the same have the same one.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub fingerprint: Box<str>,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::format::components::Cause))]
    pub cause: Cause,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::format::components::DeadLetterState))]
    pub state: DeadLetterState,
    /// Attempts that handed it over and got no answer, so that it may have arrived; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_have_arrived: Option<u32>,
    /// Advice before a replay; present with `mayHaveArrived`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The same in Portuguese.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice_pt: Option<String>,
    /// The part that changed in the store after the job was accepted: `data`, `originalData` or `identity`. Absent of
    /// entries that are whole. Damaged data is shown as it is, as a string if it is no JSON any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub damage: Option<Box<str>>,
}

impl From<recado_core::DeadLetter> for DeadLetter {
    fn from(entry: recado_core::DeadLetter) -> Self {
        let uncertain = uncertain_attempts(&entry.attempts);
        let (advice, advice_pt) = replay_advice(uncertain).unzip();
        DeadLetter {
            may_have_arrived: Some(uncertain).filter(|count| *count > 0),
            advice,
            advice_pt,
            damage: entry.damage().map(|damage| damage.as_str().into()),
            outbox_id: entry.job_id.clone(),
            job_id: entry.job_id,
            company_id: entry.company,
            original_data: entry.original_data,
            corrected_data: entry.corrected_data,
            failed_attempts: entry.failed_attempts,
            last_failure_reason: entry.failure.reason.as_str().to_owned(),
            last_failure_code: entry.failure.code,
            last_failure_timestamp: entry.failure.at,
            enqueued_at: entry.enqueued_at,
            moved_to_dlq_at: entry.moved_at,
            ttl: u64::try_from(entry.ttl.as_millis()).unwrap_or(u64::MAX),
            route: entry.route,
            user_id: entry.user_id,
            correlation_id: entry.correlation_id,
            error_classification: entry.failure.class,
            stack_trace: entry.failure.stack_trace,
            attempts: entry.attempts.iter().map(Attempt::from).collect(),
            fingerprint: entry.failure.fingerprint,
            cause: entry.cause,
            state: entry.state,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadLetterList {
    /// Newest first.
    pub items: Vec<DeadLetter>,
    /// Cursor of the next page; absent on the last one. A page may be short, or empty, and still have a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Selects dead letters; every given condition must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct DeadLetterFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::format::components::Name>), param(value_type = Option<crate::format::components::Name>, inline))]
    pub company_id: Option<CompanyId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::format::components::Name>), param(value_type = Option<crate::format::components::Name>, inline))]
    pub route: Option<RouteName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::format::components::NotEmpty>), param(value_type = Option<crate::format::components::NotEmpty>, inline))]
    pub last_failure_code: Option<String>,
    /// The reason contains this, without regard to case.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::format::components::NotEmpty>), param(value_type = Option<crate::format::components::NotEmpty>, inline))]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::format::components::NotEmpty>), param(value_type = Option<crate::format::components::NotEmpty>, inline))]
    pub fingerprint: Option<String>,
    /// Moved to the queue at or after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime), param(value_type = Option<String>, format = DateTime))]
    pub since: Option<Timestamp>,
    /// Moved to the queue before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime), param(value_type = Option<String>, format = DateTime))]
    pub until: Option<Timestamp>,
}

impl DeadLetterFilter {
    pub(crate) fn from_params(params: &mut Params<'_>) -> Self {
        DeadLetterFilter {
            company_id: params.parsed("companyId", CompanyId::new),
            route: params.parsed("route", RouteName::new),
            last_failure_code: params.text("lastFailureCode"),
            reason: params.text("reason"),
            fingerprint: params.text("fingerprint"),
            since: params.time("since"),
            until: params.time("until"),
        }
    }

    pub(crate) fn from_fields(fields: &mut Fields<'_, '_>) -> Self {
        DeadLetterFilter {
            company_id: fields.parsed("companyId", CompanyId::new),
            route: fields.parsed("route", RouteName::new),
            last_failure_code: fields.text("lastFailureCode"),
            reason: fields.text("reason"),
            fingerprint: fields.text("fingerprint"),
            since: fields.time("since"),
            until: fields.time("until"),
        }
    }
}

/// Selects the dead letters to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct DeadLetterQuery {
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", param(ignore))]
    pub filter: DeadLetterFilter,
    /// Items on a page at most, up to 1000; 100 when absent. A page ends early once it holds 4 MiB of data.
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::format::components::PageLimit>, inline))]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::format::components::NotEmpty>, inline))]
    pub cursor: Option<String>,
}

impl Query for DeadLetterQuery {
    const FIELDS: &'static [&'static str] = &[
        "companyId",
        "route",
        "lastFailureCode",
        "reason",
        "fingerprint",
        "since",
        "until",
        "limit",
        "cursor",
    ];

    fn from_params(params: &mut Params<'_>) -> Self {
        DeadLetterQuery {
            filter: DeadLetterFilter::from_params(params),
            limit: params.limit(),
            cursor: params.text("cursor"),
        }
    }
}

/// Field to count dead letters by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum GroupBy {
    #[default]
    LastFailureCode,
    CompanyId,
    Route,
    Fingerprint,
}

/// Grouping and filter of the statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct DeadLetterStatsQuery {
    /// `lastFailureCode` when absent.
    #[cfg_attr(feature = "openapi", param(inline))]
    pub by: Option<GroupBy>,
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::format::components::Name>, inline))]
    pub company_id: Option<CompanyId>,
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::format::components::Name>, inline))]
    pub route: Option<RouteName>,
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub since: Option<Timestamp>,
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub until: Option<Timestamp>,
}

impl Query for DeadLetterStatsQuery {
    const FIELDS: &'static [&'static str] = &["by", "companyId", "route", "since", "until"];

    fn from_params(params: &mut Params<'_>) -> Self {
        let choices = [
            ("lastFailureCode", GroupBy::LastFailureCode),
            ("companyId", GroupBy::CompanyId),
            ("route", GroupBy::Route),
            ("fingerprint", GroupBy::Fingerprint),
        ];
        DeadLetterStatsQuery {
            by: params.choice("by", &choices),
            company_id: params.parsed("companyId", CompanyId::new),
            route: params.parsed("route", RouteName::new),
            since: params.time("since"),
            until: params.time("until"),
        }
    }
}

/// Answer to `GET /v1/dlq/stats`, counted over all entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadLetterStats {
    pub by: GroupBy,
    pub total: u64,
    /// Largest first.
    pub items: Vec<DeadLetterGroup>,
    /// Entries that came in each of the last 24 hours, including those that have left; over the whole queue,
    /// oldest first.
    pub per_hour: Vec<DeadLettersInHour>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadLettersInHour {
    /// Begin of the hour.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub hour: Timestamp,
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadLetterGroup {
    /// `null` for entries that have no such value.
    #[cfg_attr(feature = "openapi", schema(required, value_type = Option<String>))]
    pub key: Option<Box<str>>,
    pub count: u64,
    /// One entry's reason, so that a group can be read.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub example_reason: Box<str>,
}

/// Characters at most of a note or a reason.
pub const WORDS_LEN_MAX: usize = 1_000;

/// Body of `POST /v1/dlq/{jobId}/replay`; may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReplayRequest {
    /// Corrected data; when absent what it was corrected to last, or else the original.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::format::schema::any))]
    pub data: Option<Payload>,
    /// With the original data, whatever it was corrected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<bool>,
    /// Reason, for the audit trail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::format::components::Note>))]
    pub note: Option<String>,
}

impl Body for ReplayRequest {
    const FIELDS: &'static [&'static str] = &["data", "original", "note"];

    fn from_fields(fields: &mut Fields<'_, '_>) -> Self {
        ReplayRequest {
            data: fields.json("data"),
            original: fields.boolean("original"),
            note: fields.text("note"),
        }
    }

    fn check(&self, faults: &mut Faults) {
        faults.note_out_of_range("data", self.data.as_ref());
        if self.data.is_some() && self.original == Some(true) {
            faults.note("original", "stands beside data; give one of the two");
        }
        if self.note.as_ref().is_some_and(|note| note.chars().count() > WORDS_LEN_MAX) {
            faults.note("note", format!("is too long; write at most {WORDS_LEN_MAX} characters"));
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReplayStarted {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job_id: JobId,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::format::components::DeadLetterState))]
    pub state: DeadLetterState,
}

/// Body of `POST /v1/dlq/{jobId}/discard`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DiscardRequest {
    /// Reason for giving it up, for the audit trail.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::format::components::Reason))]
    pub reason: String,
}

impl Body for DiscardRequest {
    const FIELDS: &'static [&'static str] = &["reason"];

    fn from_fields(fields: &mut Fields<'_, '_>) -> Self {
        DiscardRequest { reason: fields.required_text("reason") }
    }

    fn check(&self, faults: &mut Faults) {
        if self.reason.trim().is_empty() {
            faults.note("reason", "is blank; say in words why it is given up");
        }
        if self.reason.chars().count() > WORDS_LEN_MAX {
            faults.note("reason", format!("is too long; write at most {WORDS_LEN_MAX} characters"));
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Discarded {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job_id: JobId,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::format::components::Status))]
    pub status: Status,
}
