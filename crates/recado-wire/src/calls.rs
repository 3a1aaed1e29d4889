//! Calls: a provider asked while the caller waits.

use recado_core::{Class, JobId, Payload, TraceParent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::format::components;
use crate::format::read::{Body, Faults};

/// Longest that a caller may wait.
pub const TIMEOUT_MAX_MS: u64 = 300_000;

/// Characters at most of a cache key.
pub const CACHE_KEY_LEN_MAX: usize = 256;

const TIMEOUT_BOUNDS: &str = "whole milliseconds, 1 to 300000";

/// Body of `POST /v1/calls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallRequest {
    #[schema(value_type = components::Name, example = "openai")]
    pub route: String,
    #[schema(value_type = components::Name, example = "acme")]
    pub company_id: String,
    /// The question, as the route's transport wants it.
    #[serde(deserialize_with = "crate::format::read::payload")]
    #[schema(schema_with = components::any)]
    pub data: Payload,
    /// The route's own timeout when absent, and never longer than that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 300000)]
    pub timeout_ms: Option<u64>,
    /// Remembers the answer under this key, within the company and the route, for when the provider fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub cache_key: Option<String>,
    /// The caller's span, as W3C Trace Context writes it; the header of this name where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")]
    pub traceparent: Option<TraceParent>,
}

impl CallRequest {
    pub fn new(route: impl Into<String>, company_id: impl Into<String>, data: Payload) -> Self {
        CallRequest {
            route: route.into(),
            company_id: company_id.into(),
            data,
            timeout_ms: None,
            cache_key: None,
            traceparent: None,
        }
    }
}

impl Body for CallRequest {
    const WRITE: &'static [(&'static str, &'static str)] = &[("timeoutMs", TIMEOUT_BOUNDS)];

    fn check(&self, faults: &mut Faults) {
        faults.note_out_of_range("data", Some(&self.data));
        faults.check_range(
            "timeoutMs",
            self.timeout_ms,
            1..=TIMEOUT_MAX_MS,
            format!("write {TIMEOUT_BOUNDS}"),
        );
        let length = self.cache_key.as_ref().map_or(1, |key| key.chars().count());
        if !(1..=CACHE_KEY_LEN_MAX).contains(&length) {
            let message = format!("has {length} characters; give 1 to {CACHE_KEY_LEN_MAX}, or leave it out");
            faults.note("cacheKey", message);
        }
    }
}

/// Answer to `POST /v1/calls`: the provider's own, or what the route falls back on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallAnswer {
    /// `null` when the provider said yes and nothing else.
    #[schema(required, schema_with = components::any)]
    pub answer: Option<Payload>,
    /// Absent when the answer is not the provider's of this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// `null` when the provider answered.
    #[schema(required)]
    pub fallback: Option<CallFallback>,
    /// Age of the answer, when it was remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// The job that asks again and renews what is remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub retry_job_id: Option<JobId>,
    /// Reason why the provider did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
}

/// Stand-in for the provider's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallFallback {
    /// Its last good answer.
    Cached,
}

/// Failure of the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallError {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<Box<str>>,
    pub error_reason: String,
    #[schema(value_type = components::ErrorClassification)]
    pub error_classification: Class,
    /// The rule that classified it.
    pub rule: Box<str>,
}
