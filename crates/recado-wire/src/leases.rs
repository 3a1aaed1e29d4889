//! Leases: workers outside Recado take jobs and report the results.

use recado_core::{CompanyId, JobId, Payload, RouteName, Timestamp, TraceParent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::format::components;
use crate::format::problem::Problem;
use crate::format::read::{Body, Faults, object};
use crate::jobs::Attempt;

/// Leases at most for one request.
pub const LEASES_MAX: u32 = 1_000;

/// Routes at most in one request.
pub const ROUTES_MAX: usize = 100;

/// Longest wait of one long poll.
pub const WAIT_MAX_MS: u64 = 60_000;

/// Bounds of a lease.
pub const LEASE_MIN_MS: u64 = 1_000;
pub const LEASE_MAX_MS: u64 = 12 * 60 * 60 * 1_000;

/// Length of a lease by default.
pub const LEASE_DEFAULT_MS: u64 = 60_000;

/// Characters at most of a worker's name.
pub const WORKER_ID_LEN_MAX: usize = 128;

/// Body of `POST /v1/leases`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaseRequest {
    /// Routes of transport `worker`; the first is asked first.
    #[schema(value_type = Vec<components::Name>, min_items = 1, max_items = 100)]
    pub routes: Vec<String>,
    /// Leases wanted at most; 1 when absent. Fewer come once they hold 4 MiB of data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max: Option<u32>,
    /// Time to wait for the first; 0 when absent, up to a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 60000)]
    pub wait_ms: Option<u64>,
    /// Length of the leases; a minute when absent, up to 12 hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 43200000)]
    pub lease_ms: Option<u64>,
    /// Holder of the leases, for the record.
    #[schema(min_length = 1, max_length = 128, pattern = "\\S")]
    pub worker_id: String,
}

impl Body for LeaseRequest {
    const WRITE: &'static [(&'static str, &'static str)] =
        &[("max", "1 to 1000"), ("waitMs", WAIT_BOUNDS), ("leaseMs", LEASE_BOUNDS)];

    fn check(&self, faults: &mut Faults) {
        if self.routes.is_empty() {
            faults.note("routes", "is empty; name at least one route of transport \"worker\"");
        }
        if self.routes.len() > ROUTES_MAX {
            faults.note("routes", format!("names {} routes; give at most {ROUTES_MAX}", self.routes.len()));
        }
        faults.check_range("max", self.max, 1..=LEASES_MAX, "write 1 to 1000");
        faults.check_range("waitMs", self.wait_ms, 0..=WAIT_MAX_MS, format!("write {WAIT_BOUNDS}"));
        check_lease(self.lease_ms, faults);
        if self.worker_id.trim().is_empty() || self.worker_id.chars().count() > WORKER_ID_LEN_MAX {
            faults
                .note("workerId", format!("is blank or too long; write 1 to {WORKER_ID_LEN_MAX} characters"));
        }
    }
}

const LEASE_BOUNDS: &str = "whole milliseconds, 1000 (a second) to 43200000 (12 hours)";

const WAIT_BOUNDS: &str = "whole milliseconds, 0 to 60000";

fn check_lease(lease_ms: Option<u64>, faults: &mut Faults) {
    faults.check_range("leaseMs", lease_ms, LEASE_MIN_MS..=LEASE_MAX_MS, format!("write {LEASE_BOUNDS}"));
}

/// Answer to `POST /v1/leases`; empty when nothing came in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Leases {
    pub leases: Vec<Lease>,
}

/// The right to deliver one job, for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    pub lease_token: String,
    pub expires_at: Timestamp,
    /// Number of the attempt, over the job's whole life.
    pub attempt: u32,
    pub job: LeasedJob,
}

/// A worker's view of a job. `jobId` is the idempotency key to hand to the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeasedJob {
    #[schema(value_type = String)]
    pub job_id: JobId,
    #[schema(value_type = String)]
    pub route: RouteName,
    #[schema(value_type = String)]
    pub company_id: CompanyId,
    #[schema(schema_with = components::any)]
    pub data: Payload,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Box<str>>,
    /// The parent of the spans that the worker makes for this job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub traceparent: Option<TraceParent>,
    pub priority: u8,
    pub enqueued_at: Timestamp,
    pub expires_at: Timestamp,
    /// The tries before this one.
    pub attempts: Vec<Attempt>,
}

impl From<recado_core::Lease> for Lease {
    fn from(lease: recado_core::Lease) -> Self {
        let job = lease.job;
        Lease {
            lease_token: lease.token.to_string(),
            expires_at: lease.expires_at,
            attempt: lease.attempt,
            job: LeasedJob {
                job_id: job.id,
                route: job.route,
                company_id: job.company,
                data: job.data,
                user_id: job.user_id,
                correlation_id: job.correlation_id,
                traceparent: job.traceparent,
                priority: job.priority.level(),
                enqueued_at: job.enqueued_at,
                expires_at: job.expires_at,
                attempts: job.attempts.iter().map(Attempt::from).collect(),
            },
        }
    }
}

/// Body of `POST /v1/leases/{leaseToken}/succeed`; may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SucceedRequest {
    /// The provider's answer; kept with the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = components::any)]
    pub result: Option<Payload>,
}

/// Bytes at most of a `result`, as for the answers that Recado's own transports keep.
pub const RESULT_MAX_BYTES: usize = 16 * 1_024;

impl Body for SucceedRequest {
    fn check(&self, faults: &mut Faults) {
        faults.note_out_of_range("result", self.result.as_ref());
        if self.result.as_ref().is_some_and(|result| result.as_str().len() > RESULT_MAX_BYTES) {
            faults.note(
                "result",
                format!("is too large to be kept; give at most {RESULT_MAX_BYTES} bytes of JSON"),
            );
        }
    }
}

/// Body of `POST /v1/leases/{leaseToken}/fail`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailRequest {
    /// The other side's name for it: a status, an SMTP code, an error name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128, pattern = "\\S")]
    pub code: Option<String>,
    /// The failure, in words; the route's rules read it.
    #[schema(value_type = components::NotBlank)]
    pub message: String,
    /// Bytes, not characters, are what is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 65536)]
    pub stack_trace: Option<String>,
    /// The wait that the other side asks for, obeyed and never shortened; 0 leaves the policy in charge.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::DurationMs>)]
    pub retry_after_ms: Option<u64>,
}

/// Characters at most of a failure's code.
pub const CODE_LEN_MAX: usize = 128;

/// Bytes at most of a failure's stack trace.
pub const STACK_TRACE_MAX_BYTES: usize = 64 * 1_024;

impl FailRequest {
    pub fn new(message: impl Into<String>) -> Self {
        FailRequest { code: None, message: message.into(), stack_trace: None, retry_after_ms: None }
    }
}

impl Body for FailRequest {
    fn check(&self, faults: &mut Faults) {
        faults.check_blank("message", &self.message, "is blank; say in words what went wrong");
        if self
            .code
            .as_ref()
            .is_some_and(|code| code.trim().is_empty() || code.chars().count() > CODE_LEN_MAX)
        {
            faults.note(
                "code",
                format!("is blank or too long; give 1 to {CODE_LEN_MAX} characters, or leave it out"),
            );
        }
        if self.stack_trace.as_ref().is_some_and(|trace| trace.len() > STACK_TRACE_MAX_BYTES) {
            faults.note("stackTrace", format!("is too long; give at most {STACK_TRACE_MAX_BYTES} bytes"));
        }
        faults.check_duration("retryAfterMs", self.retry_after_ms);
    }
}

/// Body of `POST /v1/leases/{leaseToken}/extend`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtendRequest {
    /// Length of the lease from now on.
    #[schema(minimum = 1000, maximum = 43200000)]
    pub lease_ms: u64,
}

impl Body for ExtendRequest {
    const WRITE: &'static [(&'static str, &'static str)] = &[("leaseMs", LEASE_BOUNDS)];

    fn check(&self, faults: &mut Faults) {
        check_lease(Some(self.lease_ms), faults);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaseExtended {
    pub lease_token: String,
    pub expires_at: Timestamp,
}

/// The report is durable, and the lease is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaseSettled {
    pub lease_token: String,
    /// Always true; a lease that is no longer yours is a problem instead.
    pub settled: bool,
}

/// One item of `POST /v1/leases/settle`: either `succeed` or `fail`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SettleRequest {
    #[schema(pattern = "^[0-9A-Fa-f]{32}$")]
    pub lease_token: String,
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub succeed: Option<SucceedRequest>,
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub fail: Option<FailRequest>,
}

impl Body for SettleRequest {
    fn check(&self, faults: &mut Faults) {
        match (&self.succeed, &self.fail) {
            (Some(said), None) => faults.within("succeed", |faults| said.check(faults)),
            (None, Some(said)) => faults.within("fail", |faults| said.check(faults)),
            (Some(_), Some(_)) => faults.note("fail", "cannot be combined with succeed; give one of the two"),
            (None, None) => faults.note("succeed", "is missing, and fail too; give one of the two"),
        }
    }
}

/// Answer to `POST /v1/leases/settle`, item by item in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettleAnswer {
    pub settled: u64,
    pub refused: u64,
    pub items: Vec<SettleItem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettleItem {
    pub index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
    pub settled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}
