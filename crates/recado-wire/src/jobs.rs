//! Jobs: enqueue, look at, list, cancel.

use recado_core::limit::{LimitKind, PauseScope};
use recado_core::{
    AttemptResult, Blame, Class, CompanyId, JobId, Payload, RouteName, Status, Timestamp, TraceParent,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::format::components;
use crate::format::problem::Problem;
use crate::format::read::{Body, Query};

/// Characters at most of a user's or a correlation's id.
pub const PERSON_ID_LEN_MAX: usize = 256;

/// Shortest time to live of a job.
pub const TTL_MIN_MS: u64 = 1_000;

/// A job to enqueue: the body of `POST /v1/jobs`, or one item of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobRequest {
    /// The caller's outboxId and idempotency key: a UUID, or up to 128 characters of `A–Z a–z 0–9 . _ : -`.
    /// Made by Recado when absent. Not `batch`, `stats`, `export`, `import`, `replay`, `discard` or only dots, and none
    /// that begins with `evt_` or `refresh:`: those have a meaning of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::Name>)]
    pub job_id: Option<String>,
    #[schema(value_type = components::Name, example = "email")]
    pub route: String,
    /// The tenant.
    #[schema(value_type = components::Name, example = "acme")]
    pub company_id: String,
    /// Payload, as the route's transport wants it.
    #[serde(deserialize_with = "crate::format::read::payload")]
    #[schema(schema_with = components::any)]
    pub data: Payload,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::PersonId>)]
    pub user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::PersonId>)]
    pub correlation_id: Option<String>,
    /// The caller's span, as W3C Trace Context writes it; the header of this name where it is absent. Every attempt
    /// is a child of it. It is no part of the job's identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$", example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    pub traceparent: Option<TraceParent>,
    /// Earliest start, with its offset, and within 366 days. Excludes `delayMs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// Delay before the first attempt. Excludes `runAt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::DurationMs>)]
    pub delay_ms: Option<u64>,
    /// Time that it is worth delivering, from when it may first run; 24 hours when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::TimeToLiveMs>)]
    pub ttl_ms: Option<u64>,
    /// 1 (most urgent) to 9, within the tenant; 5 when absent. Every tenth job of a tenant on a route is the one that has
    /// been due longest, whatever its priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9)]
    pub priority: Option<u8>,
}

impl JobRequest {
    pub fn new(route: impl Into<String>, company_id: impl Into<String>, data: Payload) -> Self {
        JobRequest {
            job_id: None,
            route: route.into(),
            company_id: company_id.into(),
            data,
            user_id: None,
            correlation_id: None,
            traceparent: None,
            run_at: None,
            delay_ms: None,
            ttl_ms: None,
            priority: None,
        }
    }

    pub fn with_id(mut self, job_id: impl Into<String>) -> Self {
        self.job_id = Some(job_id.into());
        self
    }
}

/// The engine checks values; it does so for every caller, not only for this wire.
impl Body for JobRequest {
    const WRITE: &'static [(&'static str, &'static str)] = &[
        ("ttlMs", "whole milliseconds from 1000 on"),
        ("priority", "1 (most urgent) to 9, or leave it out for 5"),
    ];
}

/// Answer to `POST /v1/jobs`: the job is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobAccepted {
    #[schema(value_type = String)]
    pub job_id: JobId,
    #[schema(value_type = components::Status)]
    pub status: Status,
    /// The same job exists already; this is its state.
    pub duplicate: bool,
    /// Loss that a crash of the store's machine can cause: see `GET /readyz`.
    #[schema(example = "fsync")]
    pub durability: String,
}

/// Answer to `POST /v1/jobs/batch`, item by item in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchAnswer {
    pub accepted: u64,
    pub duplicates: u64,
    pub refused: u64,
    /// Loss that a crash of the store's machine can cause: see `GET /readyz`.
    #[schema(example = "fsync")]
    pub durability: String,
    pub items: Vec<BatchItem>,
}

/// Result of one job of a batch: it has either a status or an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchItem {
    /// Counts from 0; blank lines of NDJSON do not count.
    pub index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub job_id: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::Status>)]
    pub status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// A job and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    #[schema(value_type = String)]
    pub job_id: JobId,
    #[schema(value_type = String)]
    pub route: RouteName,
    #[schema(value_type = String)]
    pub company_id: CompanyId,
    #[schema(value_type = components::Status)]
    pub status: Status,
    pub priority: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Box<str>>,
    /// The span that every attempt is a child of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub traceparent: Option<TraceParent>,
    #[serde(flatten)]
    #[schema(inline)]
    pub times: JobTimes,
    pub attempts: Vec<Attempt>,
    #[serde(flatten)]
    #[schema(inline)]
    pub wait: JobWait,
    /// Times a person brought it back from the dead letter queue.
    pub replays: u32,
    /// The provider's answer when it took the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = components::any)]
    pub answer: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HeldBy>,
    /// Place of its dead letter in the archive, when the queue was full. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<Archived>,
    /// The payload, while it exists. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = components::any)]
    pub data: Option<Payload>,
}

/// The times of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobTimes {
    pub enqueued_at: Timestamp,
    /// Earliest start: as the caller asked, and after a failure when the next try is due.
    pub run_at: Timestamp,
    pub expires_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// The wait of a job for its next try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobWait {
    /// The time of its next try; while it is `parked`, the end of what holds it back. `null` when that is not known, when
    /// nothing more is going to happen by itself, or while an attempt is on its way.
    #[schema(required)]
    pub next_attempt_at: Option<Timestamp>,
    /// Times it was held back without spending an attempt. While it is `parked`, the wait that it is in counts.
    pub deferrals: u32,
    /// `null` when it does not wait. With status `parked` it is `breaker`, `limit` or `pause`.
    #[schema(required)]
    pub waiting_for: Option<WaitingFor>,
}

/// One try that reached out to the provider. What is not known is `null`; `provider` and `recipients` are absent then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub attempt: u32,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    #[schema(value_type = components::AttemptResult)]
    pub result: AttemptResult,
    #[schema(required)]
    pub error_code: Option<Box<str>>,
    #[schema(required)]
    pub error_reason: Option<String>,
    #[schema(required, value_type = Option<components::ErrorClassification>)]
    pub error_classification: Option<Class>,
    /// The rule that classified it.
    #[schema(required)]
    pub rule: Option<Box<str>>,
    /// Party at fault; only the provider's own failures count towards its breaker.
    #[schema(required, value_type = Option<components::Blame>)]
    pub blame: Option<Blame>,
    #[schema(required)]
    pub next_retry_delay_ms: Option<u64>,
    /// Provider that served it; absent from attempts that older versions made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Box<str>>,
    /// Result for each recipient, when they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<Recipient>,
    /// The latest result of each recipient in attempts that are no longer listed. Only the oldest one listed has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_recipients: Vec<Recipient>,
}

/// One recipient of a message, in one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recipient {
    pub recipient: Box<str>,
    #[schema(value_type = components::AttemptResult)]
    pub result: AttemptResult,
    #[schema(required)]
    pub error_code: Option<Box<str>>,
    #[schema(required)]
    pub error_reason: Option<String>,
    #[schema(required, value_type = Option<components::ErrorClassification>)]
    pub error_classification: Option<Class>,
    #[schema(required)]
    pub rule: Option<Box<str>>,
}

impl From<&recado_core::RecipientResult> for Recipient {
    fn from(one: &recado_core::RecipientResult) -> Self {
        Recipient {
            recipient: one.recipient.clone(),
            result: one.result,
            error_code: one.error_code.clone(),
            error_reason: one.error_reason.as_ref().map(|reason| reason.as_str().to_owned()),
            error_classification: one.error_classification,
            rule: one.rule.clone(),
        }
    }
}

impl From<&recado_core::Attempt> for Attempt {
    fn from(attempt: &recado_core::Attempt) -> Self {
        Attempt {
            attempt: attempt.number,
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            result: attempt.result,
            error_code: attempt.error_code.clone(),
            error_reason: attempt.error_reason.as_ref().map(|reason| reason.as_str().to_owned()),
            error_classification: attempt.error_classification,
            rule: attempt.rule.clone(),
            blame: attempt.blame,
            next_retry_delay_ms: attempt.next_retry_delay_ms,
            provider: attempt.provider.clone(),
            recipients: attempt.recipients.iter().map(Recipient::from).collect(),
            earlier_recipients: (attempt.earlier.iter())
                .flat_map(|earlier| &earlier.recipients)
                .map(Recipient::from)
                .collect(),
        }
    }
}

/// Reason why a job, a tenant or a provider's jobs wait. `why` is an English sentence; clients in another
/// language use `reason`, `code` and `said`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "reason", rename_all = "camelCase")]
pub enum WaitingFor {
    /// For the time its caller asked for.
    Delay { until: Timestamp },
    /// For its next try, after a failure.
    Retry { until: Timestamp },
    /// For its route, which cannot deliver as it is configured.
    Route { why: String },
    /// For a provider whose circuit breaker is open.
    Breaker {
        why: String,
        /// Words of a person or of the provider.
        #[serde(skip_serializing_if = "Option::is_none")]
        said: Option<Box<str>>,
        /// Time of the next probe, unless a person has to close it.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// For a rate that is used up, a provider that asked for quiet, or a company's deliveries that are on their way.
    Limit {
        #[schema(value_type = components::LimitCode)]
        code: LimitKind,
        why: String,
        /// The provider's words.
        #[serde(skip_serializing_if = "Option::is_none")]
        said: Option<Box<str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// For a person who paused its tenant, its route or its provider.
    Pause {
        #[schema(value_type = components::PauseCode)]
        code: PauseScope,
        why: String,
        /// Reason that this person gave.
        #[serde(skip_serializing_if = "Option::is_none")]
        said: Option<Box<str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
        /// Person who paused it.
        #[serde(skip_serializing_if = "Option::is_none")]
        actor: Option<Box<str>>,
    },
    /// For its turn: it is due, and others are before it or every slot is taken.
    Turn,
}

/// A dead letter that is out of the queue, and how it comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Archived {
    pub at: Timestamp,
    /// The file on the server that has its line.
    pub place: Box<str>,
    /// The command that brings it back.
    pub bring_back: String,
}

/// Holder of a job's lease, and the lease's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldBy {
    pub worker_id: Box<str>,
    pub until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobList {
    /// Newest first.
    pub items: Vec<JobView>,
    /// Cursor of the next page; absent on the last one. A page may be short, or empty, and still have a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Selects the jobs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct JobQuery {
    #[param(value_type = Option<components::Status>, inline)]
    pub status: Option<Status>,
    #[param(value_type = Option<components::Name>, inline)]
    pub company_id: Option<CompanyId>,
    #[param(value_type = Option<components::Name>, inline)]
    pub route: Option<RouteName>,
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub correlation_id: Option<String>,
    /// Items on a page at most, up to 1000; 100 when absent.
    #[param(value_type = Option<components::PageLimit>, inline)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub cursor: Option<String>,
}

impl Query for JobQuery {}

/// Answer to `DELETE /v1/jobs/{jobId}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobCancelled {
    #[schema(value_type = String)]
    pub job_id: JobId,
    /// `cancelled`; or `failed` when it was a replay, whose dead letter stays.
    #[schema(value_type = components::Status)]
    pub status: Status,
}
