//! The stateless rule for process engines.

use axum::extract::{Request, State};
use axum::response::Response;
use recado_core::tiss_decision::SubmissionFailure;
use recado_wire::decisions::{Decision, DecisionRequest, ROUTE_DEFAULT};
use recado_wire::read::{self, suggest};

use crate::answer::{self, ApiError};
use crate::body;
use crate::openapi::WriteProblems;
use crate::state::ApiState;

/// Retry a failed submission or not, and when. Keeps nothing but the audit record.
#[utoipa::path(
    post, path = "/v1/decisions", tag = "decisions", operation_id = "decideRetry", request_body = DecisionRequest,
    responses((status = 200, body = Decision), WriteProblems)
)]
pub(crate) async fn decide(State(api): State<ApiState>, request: Request) -> Result<Response, ApiError> {
    let received = body::json(&api, request).await?;
    let asked = read::body::<DecisionRequest>(received.text()?)?;
    let (request, mut faults) = (asked.value, asked.faults);
    let route = request.route.as_deref().unwrap_or(ROUTE_DEFAULT);
    if api.engine().routes().get(route).is_none() {
        faults.note(
            "route",
            format!("is not a route here; {}", suggest(route, &api.engine().routes().names())),
        );
    }
    if !faults.is_empty() {
        return Err(faults.into_vec().into());
    }
    let failure = SubmissionFailure {
        claim_id: request.claim_id.trim(),
        route,
        submission_error: &request.submission_error,
        retry_count: request.retry_count.unwrap_or(0),
    };
    match api.engine().tiss.decide_claim(&failure).await? {
        Some(decision) => Ok(answer::ok(&Decision::from(decision))),
        None => Err(ApiError::invalid_at("/route", "is not a route here")),
    }
}
