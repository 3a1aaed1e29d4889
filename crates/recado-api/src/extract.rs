//! The parts of a request outside its body: path, query and headers.

use std::convert::Infallible;
use std::ops::Deref;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use recado_core::lease::NotAToken;
use recado_core::trace::TRACEPARENT;
use recado_core::{JobId, LeaseToken, TraceParent};
use recado_wire::{ACTOR_HEADER, ACTOR_LEN_MAX, read};

use crate::answer::{ApiError, ApiResult};
use crate::state::ApiState;

/// The state, as an argument of handlers.
impl FromRequestParts<ApiState> for ApiState {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, api: &ApiState) -> Result<Self, Infallible> {
        Ok(api.clone())
    }
}

/// The one part of the path that varies.
#[derive(Debug)]
pub(crate) struct InPath<T>(pub T);

/// A value that stands in a path.
pub(crate) trait PathValue: Sized {
    fn read(text: String) -> ApiResult<Self>;
}

/// Takes the text as it stands.
impl PathValue for String {
    fn read(text: String) -> ApiResult<Self> {
        Ok(text)
    }
}

/// A value that cannot be an id is answered as not found.
impl PathValue for JobId {
    fn read(text: String) -> ApiResult<Self> {
        JobId::new(text.as_str()).map_err(|_| ApiError::no_such_job(&text))
    }
}

impl PathValue for LeaseToken {
    fn read(text: String) -> ApiResult<Self> {
        text.parse().map_err(|error: NotAToken| ApiError::not_found(error.to_string()))
    }
}

impl<T: PathValue, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        T::read(path.map(|Path(text)| text).unwrap_or_default()).map(InPath)
    }
}

impl<T> Deref for InPath<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The two parts of the path that vary, as they stand. A segment that is not UTF-8 matches no resource.
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

    async fn from_request_parts(parts: &mut Parts, _: &S) -> ApiResult<Self> {
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

impl Deref for Actor {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
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

/// No query at all.
pub(crate) type NoQuery = CheckedQuery<()>;

impl<T: read::Query, S: Send + Sync> FromRequestParts<S> for CheckedQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> ApiResult<Self> {
        let pairs = Query::try_from_uri(&parts.uri).map(|Query(pairs)| pairs).unwrap_or_default();
        Ok(CheckedQuery(read::query(pairs)?))
    }
}
