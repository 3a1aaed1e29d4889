//! The claims retry rule for process engines: retry or not, and when.

use recado_core::tiss_decision::{TissDecision, TissErrorCode};
use recado_core::{Class, Timestamp};
use serde::{Deserialize, Serialize};

use crate::INT32_MAX;
use crate::format::read::{Body, Faults};

/// The route whose rules and policy decide when the caller names none.
pub const ROUTE_DEFAULT: &str = "tiss-claims";

/// Characters at most of a claim's id.
pub const CLAIM_ID_LEN_MAX: usize = 256;

/// Body of `POST /v1/decisions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DecisionRequest {
    /// `tiss-claims` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::format::components::Name>))]
    pub route: Option<String>,
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 1, max_length = 256, pattern = "\\S", example = "CLM-ENC-001-1234567890")
    )]
    pub claim_id: String,
    /// The message of the submission that failed.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::format::components::NotBlank, example = "SERVICE_UNAVAILABLE"))]
    pub submission_error: String,
    /// Retries already made; 0 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 2147483647))]
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
        DecisionRequest {
            route: None,
            claim_id: claim_id.into(),
            submission_error: submission_error.into(),
            retry_count: None,
            last_submission_time: None,
        }
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Decision {
    pub should_retry: bool,
    /// `null` when there is no retry.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_retry_time: Option<Timestamp>,
    /// One more than was given when there is a retry, the same when there is none.
    pub retry_count: u32,
    pub retry_reason: String,
    /// `null` when there is no retry.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub backoff_minutes: Option<u64>,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::format::components::ErrorClassification))]
    pub error_classification: Class,
    /// Reason why there is no retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<DecisionErrorCode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DecisionErrorCode {
    MaxRetriesExceeded,
    PermanentError,
}

impl DecisionErrorCode {
    pub fn as_str(self) -> &'static str {
        match self {
            DecisionErrorCode::MaxRetriesExceeded => TissErrorCode::MaxRetriesExceeded.as_str(),
            DecisionErrorCode::PermanentError => TissErrorCode::PermanentError.as_str(),
        }
    }
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
            error_code: decision.error_code.map(|code| match code {
                TissErrorCode::MaxRetriesExceeded => DecisionErrorCode::MaxRetriesExceeded,
                TissErrorCode::PermanentError => DecisionErrorCode::PermanentError,
            }),
        }
    }
}
