//! The stateless rule for process engines, put on record.

use std::sync::Arc;

use recado_core::redact::{Speaker, redact};
use recado_core::tiss_decision::{self, SubmissionFailure, TissDecision, TissErrorCode};
use recado_core::{Event, EventData, EventJob, EventKind, EventOutcome, Payload, Policy, Timestamp};
use recado_observe::{Backoff, Decided, Fact};
use recado_store::AuditLog;

use crate::environment::Environment;
use crate::error::Result;
use crate::notify::Notifier;
use crate::route::Route;

/// Bytes at most of a claim's error that an event repeats.
const LAST_ERROR_MAX_BYTES: usize = 1_024;

/// Decides about failed submissions of claims.
#[derive(Debug)]
pub struct TissDecisions {
    pub(crate) env: Arc<Environment>,
    pub(crate) audit: Arc<dyn AuditLog>,
    pub(crate) notifier: Arc<Notifier>,
}

impl TissDecisions {
    /// Decides and records. `None` when there is no such route.
    pub async fn decide_claim(&self, failure: &SubmissionFailure<'_>) -> Result<Option<TissDecision>> {
        let Some(route) = self.env.routes.get(failure.route) else { return Ok(None) };
        let now = self.env.now();
        let draw = self.env.random.next_draw();
        let (decision, audit) =
            tiss_decision::decide(failure, &route.classifier, &route.terms.policy, now, draw);
        self.audit.record(vec![audit]).await?;
        self.env.metrics.record(&Fact::Decided {
            route: route.name.as_str(),
            class: decision.classification,
            decided: decided(failure, &decision, &route.terms.policy, now),
        });
        self.tell_of_claim(failure, &decision, route).await;
        let error = redact(failure.submission_error, &Payload::trusted("null"), Speaker::Provider);
        if let (true, Some(at)) = (decision.should_retry, decision.next_retry_time) {
            tracing::info!(
                event = "submission_retry_scheduled",
                claimId = failure.claim_id,
                submissionError = error,
                retryCount = decision.retry_count,
                errorClassification = decision.classification.as_str(),
                backoffMinutes = decision.backoff_minutes,
                nextRetryTime = %at,
                "Retry scheduled"
            );
        } else {
            tracing::warn!(
                event = "submission_retry_refused",
                claimId = failure.claim_id,
                submissionError = error,
                retryCount = decision.retry_count,
                errorClassification = decision.classification.as_str(),
                errorCode = decision.error_code.map(|code| code.as_str()),
                "Claim needs a person"
            );
        }
        Ok(Some(decision))
    }

    /// Emits the two events of a claim; one that needs a person is told to the route's channel too.
    async fn tell_of_claim(&self, failure: &SubmissionFailure<'_>, decision: &TissDecision, route: &Route) {
        let now = self.env.now();
        let kind = match (decision.should_retry, decision.error_code) {
            (true, _) => EventKind::JobRetryScheduled,
            (false, Some(TissErrorCode::MaxRetriesExceeded)) => EventKind::JobRetryExhausted,
            (false, _) => EventKind::JobFailed,
        };
        let data = EventData {
            job: EventJob {
                claim_id: Some(failure.claim_id.into()),
                route: Some(failure.route.into()),
                ..EventJob::default()
            },
            status: (!decision.should_retry).then(|| "suspended".into()),
            outcome: EventOutcome {
                retry_count: Some(decision.retry_count),
                error_code: decision.error_code.map(|code| code.as_str().into()),
                last_error: Some(
                    recado_core::reason::clip(failure.submission_error, LAST_ERROR_MAX_BYTES).into(),
                ),
                error_classification: Some(decision.classification),
                next_retry_time: decision.next_retry_time,
                backoff_minutes: decision.backoff_minutes,
                ..EventOutcome::default()
            },
            ..EventData::default()
        };
        let event = Event::new(kind, None, &[failure.claim_id], now, data);
        if !decision.should_retry {
            let notice = self.notifier.notice(route.fallback.notify.as_deref(), &event, now);
            if let Some(notice) = notice
                && let Err(error) = self.env.jobs.enqueue(vec![notice]).await
            {
                tracing::warn!(%error, claimId = failure.claim_id, "Cannot enqueue a notice");
            }
        }
        self.notifier.events.publish(event);
    }
}

/// The decision as the ledger counts it.
fn decided(
    failure: &SubmissionFailure<'_>,
    decision: &TissDecision,
    policy: &Policy,
    now: Timestamp,
) -> Decided {
    match (decision.next_retry_time, decision.error_code) {
        (Some(at), _) if decision.should_retry => {
            Decided::Retry(Backoff::by_policy(policy, failure.retry_count, at.since(now)))
        }
        (_, Some(TissErrorCode::MaxRetriesExceeded)) => Decided::MaxRetriesExceeded,
        _ => Decided::PermanentError,
    }
}
