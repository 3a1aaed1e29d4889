//! Problems, as RFC 9457 defines them.

use recado_core::Class;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::format::components;

/// The content type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// One thing that is wrong with a request, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldFault {
    /// JSON pointer into the body, such as `/data/to/0`; for a query or a header, its name.
    #[schema(example = "/companyId")]
    pub pointer: String,
    /// The fault, and what to write instead.
    #[schema(example = "is missing; write a string")]
    pub message: String,
}

/// The reason why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// `urn:recado:error:<code>`; the code's page is `docs/errors/<code>.md`.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Details of this occurrence.
    pub detail: String,
    /// Stable: programs may rely on it.
    #[schema(value_type = components::ProblemCode)]
    pub code: String,
    /// For bad input, every fault at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldFault>,
    /// For a provider that failed: what it called it, how that was judged, and by which rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<components::ErrorClassification>)]
    pub error_classification: Option<Class>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem {
            kind: format!("urn:recado:error:{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            code: code.as_str().to_owned(),
            errors: Vec::new(),
            error_code: None,
            error_classification: None,
            rule: None,
        }
    }

    /// A body or query that can be read and is not acceptable.
    pub fn invalid(errors: Vec<FieldFault>) -> Self {
        let detail = match errors.as_slice() {
            [one] if one.pointer.is_empty() => format!("The body {}", one.message),
            [one] => format!("{} {}", one.pointer, one.message),
            many => format!("{} faults; see `errors`", many.len()),
        };
        Problem { errors, ..Problem::new(Code::ValidationFailed, detail) }
    }

    /// The code as a value; `None` when the other side is newer and has one more.
    pub fn known_code(&self) -> Option<Code> {
        Code::parse(&self.code)
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:literal, $title:literal;)*) => {
        /// Every code that a problem can have. Each has a page under `docs/errors/`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            pub fn status(self) -> u16 {
                match self { $(Code::$name => $status,)* }
            }

            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// Malformed, truncated or too deeply nested.
    InvalidJson = "invalid_json", 400, "The body is not JSON";
    Unauthorized = "unauthorized", 401, "The token is missing or wrong";
    HostNotAllowed = "host_not_allowed", 403, "The Host header is not one of this server's names";
    OriginNotAllowed = "origin_not_allowed", 403, "Cross-origin request refused";
    NotFound = "not_found", 404, "Not found";
    MethodNotAllowed = "method_not_allowed", 405, "The method does not fit the path";
    /// The body did not arrive in time.
    RequestTimeout = "request_timeout", 408, "The request took too long to arrive";
    /// The state of the thing does not allow it.
    Conflict = "conflict", 409, "Conflict with the current state";
    /// The lease ran out or was settled before.
    StaleLease = "stale_lease", 409, "The lease is no longer yours";
    PayloadTooLarge = "payload_too_large", 413, "The request is too large";
    UnsupportedMediaType = "unsupported_media_type", 415, "The content type is not understood";
    /// It can be read, and something in it is wrong.
    ValidationFailed = "validation_failed", 422, "The request has faults";
    /// Applies to one address; a right token is let in all the same.
    TooManyWrongTokens = "too_many_wrong_tokens", 429, "This address sent too many wrong tokens";
    Internal = "internal", 500, "Internal error";
    /// The provider of a call said no, and would say so again.
    ProviderRefused = "provider_refused", 502, "The provider refused the call for good";
    /// Nothing was written; come back later.
    StoreFull = "store_full", 503, "The store takes no new jobs right now";
    StoreUnavailable = "store_unavailable", 503, "The store did not answer";
    /// The process is about to end and has to start again.
    StoreBroken = "store_broken", 503, "The store has failed";
    Stopping = "stopping", 503, "The server is stopping";
    /// Too much is on its way in at the same time.
    Overloaded = "overloaded", 503, "Server overloaded";
    /// The provider of a call failed, and there is no earlier answer to fall back on.
    ProviderUnavailable = "provider_unavailable", 503, "The provider is not available";
    TooManyConnections = "too_many_connections", 503, "The server has too many connections";
}

impl Code {
    pub fn parse(text: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}
