//! Answers, and problems.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use recado_core::reason::clip;
use recado_engine::route::Routes;
use recado_engine::{EngineError, TrailError};
use recado_store::StoreError;
use recado_wire::problem::PROBLEM_JSON;
use recado_wire::read::{FAULTS_MAX, NotJson};
use recado_wire::{Code, FieldFault, Problem};
use serde::Serialize;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Seconds after which a refused caller may come back.
const RETRY_AFTER_FULL_S: u64 = 5;
const RETRY_AFTER_SOON_S: u64 = 1;

/// Tells browsers and proxies to keep no answer, unless it says otherwise, and to take its type as it is said.
pub(crate) fn protect(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// JSON that is already written.
pub(crate) fn written(status: StatusCode, json: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(json.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// A value as JSON.
pub(crate) fn write<T: Serialize>(value: &T) -> ApiResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "Cannot write an answer");
        ApiError::new(Code::Internal, "the answer cannot be written; the log says more")
    })
}

pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> ApiResult {
    write(value).map(|json| written(status, json))
}

/// Answers 204 No Content.
pub(crate) fn done() -> ApiResult {
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(crate) fn ok<T: Serialize>(value: &T) -> ApiResult {
    json(StatusCode::OK, value)
}

/// Bytes at most that a message repeats of a name.
const NAME_SHOWN_MAX_BYTES: usize = 128;

/// Returns the part of a caller's name that a message repeats.
pub(crate) fn shown_name(name: &str) -> &str {
    clip(name, NAME_SHOWN_MAX_BYTES)
}

/// The answer of a handler.
pub(crate) type ApiResult<T = Response> = Result<T, ApiError>;

/// A refusal of a request, answered as a problem.
#[derive(Debug)]
pub(crate) struct ApiError {
    problem: Box<Problem>,
    retry_after_s: Option<u64>,
}

impl ApiError {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }

    pub fn invalid(errors: Vec<FieldFault>) -> Self {
        Problem::invalid(errors).into()
    }

    /// One fault, of a header or a query.
    pub fn invalid_at(pointer: &str, message: impl Into<String>) -> Self {
        ApiError::invalid(vec![FieldFault { pointer: pointer.to_owned(), message: message.into() }])
    }

    /// Faults that the engine found, each with its place; as many as are told.
    pub fn faulty(faults: impl IntoIterator<Item = (String, String)>) -> Self {
        let fault = |(pointer, message)| FieldFault { pointer, message };
        ApiError::invalid(faults.into_iter().take(FAULTS_MAX).map(fault).collect())
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        ApiError::new(Code::NotFound, detail)
    }

    pub fn conflict(detail: impl Into<String>) -> Self {
        ApiError::new(Code::Conflict, detail)
    }

    pub fn no_such_job(id: &str) -> Self {
        ApiError::not_found(format!("there is no job `{}`", shown_name(id)))
    }

    pub fn no_such_route(routes: &Routes, name: &str) -> Self {
        ApiError::not_found(routes.unknown_route(name))
    }

    pub fn stale() -> Self {
        ApiError::new(Code::StaleLease, "the lease ran out or was settled before; nothing changed")
    }

    pub fn busy(detail: impl Into<String>) -> Self {
        ApiError::new(Code::Overloaded, detail).retry_after(RETRY_AFTER_SOON_S)
    }

    /// Refuses because the store failed this time; a repetition may succeed.
    pub fn again_soon(detail: impl Into<String>) -> Self {
        ApiError::new(Code::StoreUnavailable, detail).retry_after(RETRY_AFTER_SOON_S)
    }

    /// Refuses with a time to come back, in whole seconds and at least one.
    pub fn after(problem: Problem, wait: Duration) -> Self {
        let whole_s = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        ApiError::from(problem).retry_after(whole_s.max(1))
    }

    fn retry_after(self, seconds: u64) -> Self {
        ApiError { retry_after_s: Some(seconds), ..self }
    }

    pub fn into_problem(self) -> Problem {
        *self.problem
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        ApiError { problem: Box::new(problem), retry_after_s: None }
    }
}

impl From<NotJson> for ApiError {
    fn from(NotJson(what): NotJson) -> Self {
        ApiError::new(Code::InvalidJson, what)
    }
}

impl From<Vec<FieldFault>> for ApiError {
    fn from(errors: Vec<FieldFault>) -> Self {
        ApiError::invalid(errors)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let (code, retry_after_s) = match &error {
            StoreError::Full(_) => (Code::StoreFull, RETRY_AFTER_FULL_S),
            StoreError::Unavailable(_) => (Code::StoreUnavailable, RETRY_AFTER_SOON_S),
            StoreError::Broken(_) | StoreError::Fenced => (Code::StoreBroken, RETRY_AFTER_FULL_S),
        };
        ApiError::new(code, error.to_string()).retry_after(retry_after_s)
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Stopping => {
                ApiError::new(Code::Stopping, error.to_string()).retry_after(RETRY_AFTER_FULL_S)
            }
            EngineError::Trail(error) => error.into(),
        }
    }
}

impl From<TrailError> for ApiError {
    fn from(error: TrailError) -> Self {
        match error {
            TrailError::Store(error) => error.into(),
            TrailError::None => ApiError::not_found(error.to_string()),
            TrailError::Busy => ApiError::busy(error.to_string()),
            TrailError::Files(_) | TrailError::CutOff | TrailError::StoreIsOlder => {
                tracing::error!(%error, "Cannot use the audit trail");
                ApiError::again_soon("the audit trail's files cannot be used right now; the log says why")
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = written(status, serde_json::to_vec(&self.problem).unwrap_or_default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.problem.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_cannot_do_is_a_503_with_a_time_to_come_back() {
        let rows = [
            (StoreError::Full("x".to_owned()).into(), "store_full"),
            (StoreError::Unavailable("x".to_owned()).into(), "store_unavailable"),
            (StoreError::Broken("x".to_owned()).into(), "store_broken"),
            (EngineError::Stopping, "stopping"),
        ];
        for (error, code) in rows {
            let error: EngineError = error;
            let refused = ApiError::from(error);
            assert_eq!(refused.problem.code, code);
            let response = refused.into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(response.headers().contains_key(RETRY_AFTER), "{code}");
        }
    }
    #[test]
    fn a_time_to_come_back_is_whole_seconds_and_never_early() {
        for (wait_ms, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (100_000_000, "100000")] {
            let problem = Problem::new(Code::ProviderUnavailable, "x");
            let response = ApiError::after(problem, Duration::from_millis(wait_ms)).into_response();
            assert_eq!(response.headers()[RETRY_AFTER], seconds, "{wait_ms} ms");
        }
    }
}
