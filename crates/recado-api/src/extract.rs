//! The parts of a request outside its body: path, query and headers.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use recado_core::trace::TRACEPARENT;
use recado_core::{JobId, LeaseToken, TraceParent};
use recado_wire::{ACTOR_HEADER, ACTOR_LEN_MAX, Code, read};

use crate::answer::ApiError;

async fn path_text<S: Send + Sync>(parts: &mut Parts, state: &S) -> String {
    let path = Path::<String>::from_request_parts(parts, state).await;
    path.map(|Path(text)| text).unwrap_or_default()
}

/// A job's id from the path. What cannot be an id is simply not there.
#[derive(Debug)]
pub(crate) struct JobIdPath(pub JobId);

impl<S: Send + Sync> FromRequestParts<S> for JobIdPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = path_text(parts, state).await;
        JobId::new(text.as_str()).map(JobIdPath).map_err(|_| ApiError::no_such_job(&text))
    }
}

/// The one part of the path that varies, as it stands.
#[derive(Debug)]
pub(crate) struct PathSegment(pub String);

impl<S: Send + Sync> FromRequestParts<S> for PathSegment {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(PathSegment(path_text(parts, state).await))
    }
}

/// The two parts of the path that vary, as they stand. What is not UTF-8 is the name of nothing.
#[derive(Debug)]
pub(crate) struct TwoPathSegments(pub String, pub String);

impl<S: Send + Sync> FromRequestParts<S> for TwoPathSegments {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let (first, second) = path.map(|Path(both)| both).unwrap_or_default();
        Ok(TwoPathSegments(first, second))
    }
}

/// The actor, for the audit trail.
#[derive(Debug)]
pub(crate) struct Actor(pub String);

/// The actor when none is named.
const ACTOR_DEFAULT: &str = "api";

impl<S: Send + Sync> FromRequestParts<S> for Actor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(header) = parts.headers.get(ACTOR_HEADER) else {
            return Ok(Actor(ACTOR_DEFAULT.to_owned()));
        };
        let name = std::str::from_utf8(header.as_bytes()).unwrap_or_default().trim();
        if name.is_empty() || name.chars().count() > ACTOR_LEN_MAX || name.contains(char::is_control) {
            let message = format!(
                "is blank, too long, not UTF-8 or holds a control character; give 1 to {ACTOR_LEN_MAX} characters that can be read"
            );
            return Err(ApiError::invalid_at("X-Recado-Actor", message));
        }
        Ok(Actor(name.to_owned()))
    }
}

/// The request's own span. What cannot be read counts as absent, as the specification says.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut given = headers.get_all(TRACEPARENT).iter();
    match (given.next(), given.next()) {
        (Some(one), None) => one.to_str().ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// The query string, checked.
#[derive(Debug)]
pub(crate) struct CheckedQuery<T>(pub T);

impl<T: read::Query, S: Send + Sync> FromRequestParts<S> for CheckedQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(CheckedQuery(read::query(pairs(&parts.uri))?))
    }
}

fn pairs(uri: &Uri) -> Vec<(String, String)> {
    Query::try_from_uri(uri).map(|Query(pairs)| pairs).unwrap_or_default()
}

/// A lease's token from the path.
#[derive(Debug)]
pub(crate) struct LeaseTokenPath(pub LeaseToken);

impl<S: Send + Sync> FromRequestParts<S> for LeaseTokenPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let token = path_text(parts, state).await.parse();
        token
            .map(LeaseTokenPath)
            .map_err(|error: recado_core::lease::NotAToken| ApiError::new(Code::NotFound, error.to_string()))
    }
}
