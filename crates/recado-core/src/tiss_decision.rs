//! The retry rule of insurance claims: given a submission error and a count, retry or not, and when.
//!
//! Stateless. A process engine asks, keeps the answer, and comes back with the next count.

use std::time::Duration;

use crate::audit::{AuditEvent, AuditKind, whole_minutes};
use crate::classify::{Class, Classifier};
use crate::outcome::Fault;
use crate::policy::{Draw, Policy};
use crate::values::named_enum::named_enum;
use crate::values::time::Timestamp;

#[derive(Clone, Debug)]
pub struct SubmissionFailure<'a> {
    pub claim_id: &'a str,
    pub route: &'a str,
    pub submission_error: &'a str,
    /// Retries already made.
    pub retry_count: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TissDecision {
    pub should_retry: bool,
    pub next_retry_time: Option<Timestamp>,
    pub retry_count: u32,
    pub retry_reason: String,
    pub backoff_minutes: Option<u64>,
    pub classification: Class,
    pub error_code: Option<TissErrorCode>,
}

named_enum! {
    pub enum TissErrorCode {
        MaxRetriesExceeded = "MAX_RETRIES_EXCEEDED",
        PermanentError = "PERMANENT_ERROR",
    }
}

/// Decides whether a failed submission is retried. The count is checked before the error, in the order of the rule.
pub fn decide(
    failure: &SubmissionFailure<'_>,
    classifier: &Classifier,
    policy: &Policy,
    now: Timestamp,
    draw: Draw,
) -> (TissDecision, AuditEvent) {
    let judged = classifier.classify(Fault { text: failure.submission_error.into(), ..Fault::default() });
    let retries_max = policy.max_attempts.saturating_sub(1);
    let audit = |kind| {
        AuditEvent::claim(failure.claim_id, failure.route, kind, now)
            .failure(&judged)
            .retry_count(failure.retry_count)
    };
    let refuse = |error: TissErrorCode, reason: String| {
        let audit = audit(AuditKind::ClaimRefused).reason(reason.clone());
        let decision = TissDecision {
            should_retry: false,
            next_retry_time: None,
            retry_count: failure.retry_count,
            retry_reason: reason,
            backoff_minutes: None,
            classification: judged.class,
            error_code: Some(error),
        };
        (decision, audit)
    };
    if failure.retry_count >= retries_max {
        return refuse(
            TissErrorCode::MaxRetriesExceeded,
            format!("Maximum of {retries_max} retries exceeded"),
        );
    }
    if !judged.class.is_retryable() {
        return refuse(TissErrorCode::PermanentError, format!("Permanent error: {}", judged.reason));
    }
    let delay = whole_if_minutes(policy.delay(failure.retry_count, None, draw));
    let next_retry_time = now.plus(delay);
    let retry_count = failure.retry_count + 1;
    let retry_reason = format!("Retry {retry_count} of {retries_max}");
    let audit = audit(AuditKind::ClaimRetry)
        .retry_count(retry_count)
        .backoff(delay, next_retry_time)
        .reason(retry_reason.clone());
    let decision = TissDecision {
        should_retry: true,
        next_retry_time: Some(next_retry_time),
        retry_count,
        retry_reason,
        backoff_minutes: Some(whole_minutes(delay)),
        classification: judged.class,
        error_code: None,
    };
    (decision, audit)
}

/// The rule speaks in whole minutes, so that `nextRetryTime` and `backoffMinutes` say the same thing.
/// Policies that live below a minute keep their precision.
fn whole_if_minutes(delay: Duration) -> Duration {
    if delay < Duration::from_secs(60) { delay } else { Duration::from_secs(60 * whole_minutes(delay)) }
}
