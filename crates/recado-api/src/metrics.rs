//! Figures for Prometheus, and what the API itself adds to them.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use recado_observe::{Fact, OTHER};

use crate::openapi::ReadProblems;
use crate::state::ApiState;

/// Every figure in Prometheus's text format. Companies are named here, so it asks for the token like the rest.
#[utoipa::path(
    get, path = "/metrics", tag = "alerts",
    responses((status = 200, body = String, content_type = "text/plain"), ReadProblems)
)]
pub(crate) async fn metrics(State(api): State<ApiState>) -> Response {
    let page = api.engine().metrics().await;
    ([(CONTENT_TYPE, HeaderValue::from_static(recado_observe::CONTENT_TYPE))], page).into_response()
}

/// Counts every answer by the pattern that matched, so that nobody's ids become labels.
pub(crate) async fn counted(State(api): State<ApiState>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    api.engine().note(&Fact::Served {
        method: method.as_str(),
        path: path.as_ref().map_or(OTHER, MatchedPath::as_str),
        status: response.status().as_u16(),
        took: began.elapsed(),
    });
    response
}
