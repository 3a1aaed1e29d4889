//! The stateless rule for process engines.

use recado_core::tiss_decision::SubmissionFailure;
use recado_wire::decisions::{Decision, DecisionRequest, ROUTE_DEFAULT};
use recado_wire::read::{self, Read, suggest};

use crate::handlers::prelude::*;

/// Retry a failed submission or not, and when. Keeps nothing but the audit record.
#[utoipa::path(
    post, path = "/v1/decisions", tag = "decisions", operation_id = "decideRetry",
    request_body = DecisionRequest,
    responses((status = 200, body = Decision), WriteProblems)
)]
pub async fn decide(api: ApiState, request: Request) -> ApiResult {
    let received = body::json(&api, request).await?;
    let Read { value: request, mut faults } = read::body::<DecisionRequest>(received.text()?)?;
    let route = request.route.as_deref().unwrap_or(ROUTE_DEFAULT);
    let routes = api.engine.routes();
    let unknown_route = || format!("is not a known route; {}", suggest(route, &routes.names()));
    if routes.get(route).is_none() {
        faults.note("route", unknown_route());
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
    match api.engine.tiss.decide_claim(&failure).await? {
        Some(decision) => answer::ok(&Decision::from(decision)),
        None => Err(ApiError::invalid_at("/route", unknown_route())),
    }
}
