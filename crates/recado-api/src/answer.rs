//! Answers, and problems.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use recado_engine::EngineError;
use recado_engine::TrailError;
use recado_store::StoreError;
use recado_wire::problem::PROBLEM_JSON;
use recado_wire::read::NotJson;
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
pub(crate) fn write<T: Serialize>(value: &T) -> Result<Vec<u8>, Refused> {
    serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "cannot write an answer");
        Refused::new(Code::Internal, "the answer cannot be written; the log says more")
    })
}

pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    write(value).map_or_else(Refused::into_response, |json| written(status, json))
}

/// Done, and there is nothing to say about it.
pub(crate) fn done() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(crate) fn ok<T: Serialize>(value: &T) -> Response {
    json(StatusCode::OK, value)
}

/// The reason why a request gets no answer of its own kind.
#[derive(Debug)]
pub(crate) struct Refused {
    problem: Box<Problem>,
    retry_after_s: Option<u64>,
}

impl Refused {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }

    pub fn invalid(errors: Vec<FieldFault>) -> Self {
        Problem::invalid(errors).into()
    }

    /// One fault, of a header or a query.
    pub fn invalid_at(pointer: &str, message: impl Into<String>) -> Self {
        Refused::invalid(vec![FieldFault { pointer: pointer.to_owned(), message: message.into() }])
    }

    pub fn no_such_job(id: &str) -> Self {
        Refused::new(Code::NotFound, format!("there is no job `{}`", recado_core::reason::clip(id, 128)))
    }

    pub fn stale() -> Self {
        Refused::new(Code::StaleLease, "the lease ran out or was settled before; nothing changed")
    }

    pub fn busy(detail: impl Into<String>) -> Self {
        Refused { retry_after_s: Some(RETRY_AFTER_SOON_S), ..Refused::new(Code::Overloaded, detail) }
    }

    /// The store could not do it this time; the same again may work.
    pub fn again_soon(detail: impl Into<String>) -> Self {
        Refused { retry_after_s: Some(RETRY_AFTER_SOON_S), ..Refused::new(Code::StoreUnavailable, detail) }
    }

    /// With a time to come back: whole seconds, never early and never at once.
    pub fn after(problem: Problem, wait: Duration) -> Self {
        let whole_s = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Refused { retry_after_s: Some(whole_s.max(1)), ..problem.into() }
    }

    pub fn into_problem(self) -> Problem {
        *self.problem
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Refused { problem: Box::new(problem), retry_after_s: None }
    }
}

impl From<NotJson> for Refused {
    fn from(NotJson(what): NotJson) -> Self {
        Refused::new(Code::InvalidJson, what)
    }
}

impl From<Vec<FieldFault>> for Refused {
    fn from(errors: Vec<FieldFault>) -> Self {
        Refused::invalid(errors)
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let (code, retry_after_s) = match &error {
            StoreError::Full(_) => (Code::StoreFull, RETRY_AFTER_FULL_S),
            StoreError::Unavailable(_) => (Code::StoreUnavailable, RETRY_AFTER_SOON_S),
            StoreError::Broken(_) | StoreError::Fenced => (Code::StoreBroken, RETRY_AFTER_FULL_S),
        };
        Refused { retry_after_s: Some(retry_after_s), ..Refused::new(code, error.to_string()) }
    }
}

impl From<EngineError> for Refused {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Stopping => Refused {
                retry_after_s: Some(RETRY_AFTER_FULL_S),
                ..Refused::new(Code::Stopping, EngineError::Stopping.to_string())
            },
            EngineError::Trail(error) => error.into(),
        }
    }
}

impl From<TrailError> for Refused {
    fn from(error: TrailError) -> Self {
        match error {
            TrailError::Store(error) => error.into(),
            TrailError::None => Refused::new(Code::NotFound, error.to_string()),
            TrailError::Files(_) | TrailError::CutOff => {
                tracing::error!(%error, "cannot use the audit trail");
                Refused::again_soon("the audit trail's files cannot be used right now; the log says why")
            }
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let json = serde_json::to_vec(&self.problem).unwrap_or_default();
        let mut response = Response::new(Body::from(json));
        *response.status_mut() =
            StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
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
            let refused = Refused::from(error);
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
            let response = Refused::after(problem, Duration::from_millis(wait_ms)).into_response();
            assert_eq!(response.headers()[RETRY_AFTER], seconds, "{wait_ms} ms");
        }
    }
}
