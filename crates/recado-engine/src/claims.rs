//! The stateless rule for process engines, put on record.

use recado_core::claim::{self, ClaimDecision, SubmissionFailure};

use crate::engine::{Engine, EngineError};

impl Engine {
    /// Decides and records. `None` when there is no such route.
    pub async fn decide_claim(
        &self,
        failure: &SubmissionFailure<'_>,
    ) -> Result<Option<ClaimDecision>, EngineError> {
        let Some(route) = self.routes().get(failure.route) else { return Ok(None) };
        let now = self.now();
        let draw = self.inner.chance.draw();
        let (decision, audit) = claim::decide(failure, &route.classifier, &route.terms.policy, now, draw);
        self.store().record(vec![audit]).await?;
        if let (true, Some(at)) = (decision.should_retry, decision.next_retry_time) {
            tracing::info!(
                event = "submission_retry_scheduled",
                claimId = failure.claim_id,
                submissionError = failure.submission_error,
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
                submissionError = failure.submission_error,
                retryCount = decision.retry_count,
                errorClassification = decision.classification.as_str(),
                errorCode = decision.error_code.map(|code| code.as_str()),
                "Claim needs a person"
            );
        }
        Ok(Some(decision))
    }
}
