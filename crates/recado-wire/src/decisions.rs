//! The claims retry rule for process engines: retry or not, and when.

use recado_core::tiss_decision::TissDecision;
use recado_core::{Class, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::INT32_MAX;
use crate::format::components;
use crate::format::read::{Body, Faults};

pub use recado_core::tiss_decision::TissErrorCode as DecisionErrorCode;

/// The route whose rules and policy decide when the caller names none.
pub const ROUTE_DEFAULT: &str = "tiss-claims";

/// Characters at most of a claim's id.
pub const CLAIM_ID_LEN_MAX: usize = 256;

/// Body of `POST /v1/decisions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecisionRequest {
    /// `tiss-claims` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::Name>)]
    pub route: Option<String>,
    #[schema(min_length = 1, max_length = 256, pattern = "\\S", example = "CLM-ENC-001-1234567890")]
    pub claim_id: String,
    /// The message of the submission that failed.
    #[schema(value_type = components::NotBlank, example = "SERVICE_UNAVAILABLE")]
    pub submission_error: String,
    /// Retries already made; 0 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 2147483647)]
    pub retry_count: Option<u32>,
    /// May be absent on the first try. Without an offset it is UTC, as process engines write it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::format::read::time_of_process_engine"
    )]
    pub last_submission_time: Option<Timestamp>,
}

impl DecisionRequest {
    pub fn new(claim_id: impl Into<String>, submission_error: impl Into<String>) -> Self {
        let (claim_id, submission_error) = (claim_id.into(), submission_error.into());
        DecisionRequest { claim_id, submission_error, ..DecisionRequest::default() }
    }
}

impl Body for DecisionRequest {
    const WRITE: &'static [(&'static str, &'static str)] =
        &[("retryCount", "how many retries were made, 0 or more")];

    fn check(&self, faults: &mut Faults) {
        faults.check_blank("claimId", &self.claim_id, "is empty; name the claim");
        let length = self.claim_id.chars().count();
        if length > CLAIM_ID_LEN_MAX {
            faults.note("claimId", format!("has {length} characters; give at most {CLAIM_ID_LEN_MAX}"));
        }
        faults.check_range("retryCount", self.retry_count, 0..=INT32_MAX, format!("give 0 to {INT32_MAX}"));
        let fault = "is empty; give the message of the submission that failed";
        faults.check_blank("submissionError", &self.submission_error, fault);
    }
}

/// Answer to `POST /v1/decisions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    pub should_retry: bool,
    /// `null` when there is no retry.
    #[schema(required)]
    pub next_retry_time: Option<Timestamp>,
    /// One more than was given when there is a retry, the same when there is none.
    pub retry_count: u32,
    pub retry_reason: String,
    /// `null` when there is no retry.
    #[schema(required)]
    pub backoff_minutes: Option<u64>,
    #[schema(value_type = components::ErrorClassification)]
    pub error_classification: Class,
    /// Reason why there is no retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::DecisionErrorCode>)]
    pub error_code: Option<DecisionErrorCode>,
}

impl From<TissDecision> for Decision {
    fn from(decision: TissDecision) -> Self {
        Decision {
            should_retry: decision.should_retry,
            next_retry_time: decision.next_retry_time,
            retry_count: decision.retry_count,
            retry_reason: decision.retry_reason,
            backoff_minutes: decision.backoff_minutes,
            error_classification: decision.classification,
            error_code: decision.error_code,
        }
    }
}
