//! Probes, and the way to the documents.

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use recado_store::Counts;
use recado_wire::health::{Health, JobCounts, Readiness, Ready, StoreState};

use crate::handlers::prelude::*;

/// The process is alive. Asks nothing of the store, so that a slow disk gets no process killed.
#[utoipa::path(get, path = "/healthz", tag = "probes", operation_id = "getHealth", responses((status = 200, body = Health)))]
pub async fn healthz() -> ApiResult {
    answer::ok(&Health { status: "alive".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// The server is ready for work: the store answers, or a part of it does, it takes jobs, and nothing is stopping.
#[utoipa::path(
    get, path = "/readyz", tag = "probes", operation_id = "getReadiness",
    responses(
        (status = 200, body = Readiness),
        (status = 503, description = "Not ready, and why.", body = Readiness),
        GateProblems,
    )
)]
pub async fn readyz(api: ApiState, headers: HeaderMap) -> ApiResult {
    let readiness = check_readiness(&api).await;
    let status = match readiness.status {
        Ready::Ready => StatusCode::OK,
        Ready::NotReady => StatusCode::SERVICE_UNAVAILABLE,
    };
    let may_know = api.options.token.as_ref().is_none_or(|token| token.is_shown_in(&headers));
    let unnamed = Readiness { status: readiness.status, reasons: Vec::new(), counts: None, store: None };
    answer::json(status, if may_know { &readiness } else { &unnamed })
}

async fn check_readiness(api: &ApiState) -> Readiness {
    let engine = &api.engine;
    let mut reasons = Vec::new();
    // What does not work although the rest does: a balancer that took this node away would take the rest with it.
    let mut unanswered = None;
    if engine.is_stopping() || api.options.closing.is_cancelled() {
        reasons.push("the server is stopping".to_owned());
    }
    let store = match engine.inspect().report().await {
        Ok(report) => {
            if let Some(why) = &report.refusing {
                reasons.push(format!("the store refuses new jobs: {why}"));
            }
            unanswered = report.unanswered;
            Some(StoreState {
                kind: report.kind.to_owned(),
                durability: report.durability.as_str().to_owned(),
                size_bytes: report.size_bytes,
                free_bytes: report.free_bytes,
                refusing: report.refusing,
            })
        }
        Err(error) => {
            reasons.push(error.to_string());
            None
        }
    };
    // A count would wait again for what did not answer just now, all of the store or a part of it.
    let mut counts = None;
    if store.is_some() && unanswered.is_none() {
        match engine.inspect().counts(engine.now()).await {
            Ok(Counts { delayed, ready, leased, dead_letters, ended, .. }) => {
                counts = Some(JobCounts { delayed, ready, leased, dead_letters, ended });
            }
            Err(error) => reasons.push(error.to_string()),
        }
    }
    let status = if reasons.is_empty() { Ready::Ready } else { Ready::NotReady };
    reasons.extend(unanswered.map(|which| format!("a part of the store is away: {which}")));
    Readiness { status, reasons, counts, store }
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "probes", operation_id = "getOpenApi",
    responses(
        (status = 200, description = "OpenAPI.", content_type = "application/json", body = Object),
        GateProblems,
    )
)]
pub async fn openapi_json() -> Response {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| crate::openapi().to_string().into());
    answer::written(StatusCode::OK, DOCUMENT.clone())
}

/// Links to start from.
pub async fn root() -> Response {
    let text = concat!(
        "Recado ",
        env!("CARGO_PKG_VERSION"),
        "\n\n",
        "GET  /openapi.json   what this server understands\n",
        "POST /v1/jobs        enqueue a job\n",
        "GET  /v1/dlq         what could not be delivered\n",
        "GET  /v1/events      what happens, as it happens\n",
        "GET  /metrics        figures for Prometheus\n",
        "GET  /readyz         whether it is ready for work\n",
    );
    ([(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))], text).into_response()
}
