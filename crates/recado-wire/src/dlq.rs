//! The dead letter queue: look, count, replay, discard.

pub mod archive;

use recado_core::dead_letter::GroupBy;
use recado_core::time::millis;
use recado_core::words::{replay_advice, uncertain_attempts};
use recado_core::{Cause, Class, CompanyId, DeadLetterState, JobId, Payload, RouteName, Status, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::format::components;
use crate::format::read::{Body, Faults, Query, names_of};
use crate::format::value::{Refusal, RequestValue};
use crate::jobs::Attempt;

/// A job that could not be delivered, with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    #[schema(value_type = String)]
    pub job_id: JobId,
    /// The same as `jobId`.
    #[schema(value_type = String)]
    pub outbox_id: JobId,
    #[schema(value_type = String)]
    pub company_id: CompanyId,
    /// Payload as accepted.
    #[schema(schema_with = components::any)]
    pub original_data: Payload,
    /// Payload as last corrected by a person: the one that a replay sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = components::any)]
    pub corrected_data: Option<Payload>,
    #[serde(flatten)]
    #[schema(inline)]
    pub last_failure: LastFailure,
    #[serde(flatten)]
    #[schema(inline)]
    pub times: DeadLetterTimes,
    #[schema(value_type = String)]
    pub route: RouteName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Box<str>>,
    pub attempts: Vec<Attempt>,
    /// Failures that a person would call the same have the same one.
    pub fingerprint: Box<str>,
    #[schema(value_type = components::Cause)]
    pub cause: Cause,
    #[schema(value_type = components::DeadLetterState)]
    pub state: DeadLetterState,
    #[serde(flatten)]
    #[schema(inline)]
    pub arrival: PossibleArrival,
    /// The part that changed in the store after the job was accepted: `data`, `originalData` or `identity`. Absent of
    /// entries that are whole. Damaged data is shown as it is, as a string if it is no JSON any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<Box<str>>,
}

/// The failures of a dead letter, and the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    pub failed_attempts: u32,
    /// Never empty.
    pub last_failure_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_code: Option<Box<str>>,
    pub last_failure_timestamp: Timestamp,
    #[schema(value_type = components::ErrorClassification)]
    pub error_classification: Class,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<Box<str>>,
}

/// The times of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterTimes {
    pub enqueued_at: Timestamp,
    #[serde(rename = "movedToDLQAt")]
    pub moved_to_dlq_at: Timestamp,
    /// Time that the entry is kept from `movedToDLQAt` on, in milliseconds.
    pub ttl: u64,
}

/// Attempts that the provider may have taken all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PossibleArrival {
    /// Attempts that handed it over and got no answer, so that it may have arrived; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_have_arrived: Option<u32>,
    /// Advice before a replay; present with `mayHaveArrived`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The same in Portuguese.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice_pt: Option<String>,
}

impl From<recado_core::DeadLetter> for DeadLetter {
    fn from(entry: recado_core::DeadLetter) -> Self {
        let uncertain = uncertain_attempts(&entry.attempts);
        let (advice, advice_pt) = replay_advice(uncertain).unzip();
        DeadLetter {
            arrival: PossibleArrival {
                may_have_arrived: Some(uncertain).filter(|count| *count > 0),
                advice,
                advice_pt,
            },
            damage: entry.damage().map(|damage| damage.as_str().into()),
            outbox_id: entry.job_id.clone(),
            job_id: entry.job_id,
            company_id: entry.company,
            original_data: entry.original_data,
            corrected_data: entry.corrected_data,
            last_failure: LastFailure {
                failed_attempts: entry.failed_attempts,
                last_failure_reason: entry.failure.reason.as_str().to_owned(),
                last_failure_code: entry.failure.code,
                last_failure_timestamp: entry.failure.at,
                error_classification: entry.failure.class,
                stack_trace: entry.failure.stack_trace,
            },
            times: DeadLetterTimes {
                enqueued_at: entry.enqueued_at,
                moved_to_dlq_at: entry.moved_at,
                ttl: millis(entry.ttl),
            },
            route: entry.route,
            user_id: entry.user_id,
            correlation_id: entry.correlation_id,
            attempts: entry.attempts.iter().map(Attempt::from).collect(),
            fingerprint: entry.failure.fingerprint,
            cause: entry.cause,
            state: entry.state,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterList {
    /// Newest first.
    pub items: Vec<DeadLetter>,
    /// Cursor of the next page; absent on the last one. A page may be short, or empty, and still have a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Selects dead letters; every given condition must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct DeadLetterFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::Name>)]
    #[param(value_type = Option<components::Name>, inline)]
    pub company_id: Option<CompanyId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::Name>)]
    #[param(value_type = Option<components::Name>, inline)]
    pub route: Option<RouteName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::NotEmpty>)]
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub last_failure_code: Option<String>,
    /// The reason contains this, without regard to case.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::NotEmpty>)]
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::NotEmpty>)]
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub fingerprint: Option<String>,
    /// Moved to the queue at or after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Moved to the queue before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// Selects the dead letters to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct DeadLetterQuery {
    #[serde(flatten)]
    #[param(ignore)]
    pub filter: DeadLetterFilter,
    /// Items on a page at most, up to 1000; 100 when absent. A page ends early once it holds 4 MiB of data.
    #[param(value_type = Option<components::PageLimit>, inline)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub cursor: Option<String>,
}

/// Read in two parts: a reader that flattens does not know where a fault is.
impl Query for DeadLetterQuery {
    fn names() -> Vec<&'static str> {
        [names_of::<DeadLetterFilter>(), names_of::<Paging>()].concat()
    }

    fn from_params(params: RequestValue<'_, '_>) -> Result<Self, Refusal> {
        let filter = DeadLetterFilter::deserialize(params.clone())?;
        let Paging { limit, cursor } = Paging::deserialize(params)?;
        Ok(DeadLetterQuery { filter, limit, cursor })
    }
}

#[derive(Deserialize)]
struct Paging {
    limit: Option<u32>,
    cursor: Option<String>,
}

/// Grouping and filter of the statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct DeadLetterStatsQuery {
    /// `lastFailureCode` when absent.
    #[param(value_type = Option<components::GroupBy>, inline)]
    pub by: Option<GroupBy>,
    #[param(value_type = Option<components::Name>, inline)]
    pub company_id: Option<CompanyId>,
    #[param(value_type = Option<components::Name>, inline)]
    pub route: Option<RouteName>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl Query for DeadLetterStatsQuery {}

/// Answer to `GET /v1/dlq/stats`, counted over all entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterStats {
    #[schema(value_type = components::GroupBy)]
    pub by: GroupBy,
    pub total: u64,
    /// Largest first.
    pub items: Vec<DeadLetterGroup>,
    /// Entries that came in each of the last 24 hours, including those that have left; over the whole queue,
    /// oldest first.
    pub per_hour: Vec<DeadLettersInHour>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersInHour {
    /// Begin of the hour.
    pub hour: Timestamp,
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterGroup {
    /// `null` for entries that have no such value.
    #[schema(required)]
    pub key: Option<Box<str>>,
    pub count: u64,
    /// One entry's reason, so that a group can be read.
    pub example_reason: Box<str>,
}

/// Characters at most of a note or a reason.
pub const WORDS_LEN_MAX: usize = 1_000;

/// Body of `POST /v1/dlq/{jobId}/replay`; may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplayRequest {
    /// Corrected data; when absent what it was corrected to last, or else the original.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = components::any)]
    pub data: Option<Payload>,
    /// True to replay the original data, without later corrections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<bool>,
    /// Reason, for the audit trail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::Note>)]
    pub note: Option<String>,
}

impl Body for ReplayRequest {
    fn check(&self, faults: &mut Faults) {
        faults.note_out_of_range("data", self.data.as_ref());
        if self.data.is_some() && self.original == Some(true) {
            faults.note("original", "cannot be combined with data; give one of the two");
        }
        faults.check_length("note", self.note.as_deref());
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplayStarted {
    #[schema(value_type = String)]
    pub job_id: JobId,
    #[schema(value_type = components::DeadLetterState)]
    pub state: DeadLetterState,
}

/// Body of `POST /v1/dlq/{jobId}/discard`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiscardRequest {
    /// Reason for giving it up, for the audit trail.
    #[schema(value_type = components::Reason)]
    pub reason: String,
}

impl Body for DiscardRequest {
    fn check(&self, faults: &mut Faults) {
        faults.check_blank("reason", &self.reason, "is blank; say in words why it is given up");
        faults.check_length("reason", Some(&self.reason));
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Discarded {
    #[schema(value_type = String)]
    pub job_id: JobId,
    #[schema(value_type = components::Status)]
    pub status: Status,
}
