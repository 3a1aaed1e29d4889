//! The log lines of an attempt, under their required names. Never a payload, not even where a
//! provider repeats it.

use recado_core::audit::whole_minutes;
use recado_core::{Lease, Transition};
use std::time::Duration;

use crate::route::Routes;

/// Logs the transition that ends an attempt.
pub(crate) fn attempt(routes: &Routes, lease: &Lease, transition: &Transition) {
    let job = &lease.job;
    let policy = &routes.terms_of(&job.route).policy;
    let (job_id, company, route) = (job.id.as_str(), job.company.as_str(), job.route.as_str());
    match transition {
        Transition::Deliver { attempt, .. } => {
            let took_ms = attempt.ended_at.since(attempt.started_at).as_millis() as u64;
            tracing::info!(
                jobId = job_id,
                companyId = company,
                route,
                attempt = attempt.number,
                tookMs = took_ms,
                "Job sent"
            );
        }
        Transition::RetryAt { at, attempt } => {
            let delay_ms = attempt.next_retry_delay_ms.unwrap_or_default();
            let reason = attempt.error_reason.as_ref().map(|reason| routes.redact(job, reason));
            let class = attempt.error_classification.map(|class| class.as_str());
            tracing::warn!(
                jobId = job_id,
                companyId = company,
                route,
                correlationId = job.correlation_id.as_deref(),
                attempt = attempt.number,
                maxAttempts = policy.max_attempts,
                errorCode = attempt.error_code.as_deref(),
                errorReason = reason,
                errorClassification = class,
                rule = attempt.rule.as_deref(),
                nextRetryDelay = delay_ms,
                isRetryable = true,
                "Job failed, scheduling retry"
            );
            let is_claim = routes.get(route).is_some_and(|route| route.classifier.judges_claims());
            let reason = reason.as_deref();
            // A claim's retry has names of its own.
            tracing::info!(
                event = if is_claim { "submission_retry_scheduled" } else { "delivery_retry_scheduled" },
                claimId = is_claim.then_some(job_id),
                jobId = (!is_claim).then_some(job_id),
                submissionError = reason.filter(|_| is_claim),
                errorReason = reason.filter(|_| !is_claim),
                retryCount = job.progress.attempts_spent + 1,
                errorClassification = class,
                backoffMinutes = whole_minutes(Duration::from_millis(delay_ms)),
                nextRetryTime = %at,
                "Retry scheduled"
            );
        }
        Transition::Bury(burial) => {
            tracing::error!(
                jobId = job_id,
                companyId = company,
                route,
                userId = job.user_id.as_deref(),
                correlationId = job.correlation_id.as_deref(),
                attempt = burial.attempt.as_ref().map_or(job.progress.attempts_started, |last| last.number),
                maxAttempts = policy.max_attempts,
                errorCode = burial.failure.code.as_deref(),
                errorReason = routes.redact(job, &burial.failure.reason),
                errorClassification = burial.failure.class.as_str(),
                rule = &*burial.failure.rule,
                cause = burial.cause.as_str(),
                isRetryable = false,
                "Job moved to the dead letter queue"
            );
        }
        Transition::Postpone { .. } | Transition::Release { .. } => {}
    }
}
