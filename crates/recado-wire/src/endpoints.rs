//! Webhook endpoints: URLs that receive a company's events.

use std::fmt;

use recado_core::{CompanyId, EventKind, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::format::components;
use crate::format::read::{Body, Query};

/// The secret that signs a webhook, `whsec_…`. Its `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Body of `POST /v1/endpoints`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointRequest {
    #[schema(required, value_type = components::Name, example = "acme")]
    pub company_id: Option<String>,
    /// URL of the company's receiver.
    #[schema(required, value_type = String, format = "uri", example = "https://example.com/hooks")]
    pub url: Option<String>,
    /// Event types it wants; all when absent or empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<components::EventKind>>)]
    pub events: Option<Vec<String>>,
    /// `whsec_` and 24 to 64 bytes in Base64; drawn by Recado when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$")]
    pub secret: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub description: Option<String>,
}

impl EndpointRequest {
    pub fn new(company_id: impl Into<String>, url: impl Into<String>) -> Self {
        EndpointRequest {
            company_id: Some(company_id.into()),
            url: Some(url.into()),
            ..EndpointRequest::default()
        }
    }
}

/// The engine judges an endpoint as a whole; here only the shape of its JSON is checked.
impl Body for EndpointRequest {}

/// Body of `PATCH /v1/endpoints/{id}`; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uri")]
    pub url: Option<String>,
    /// Everything when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<components::EventKind>>)]
    pub events: Option<Vec<String>>,
    /// Signs from now on; the one before signs beside it for 24 hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$")]
    pub secret: Option<Secret>,
    /// Taken away when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub description: Option<String>,
    /// Switching it on forgets the failures in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

impl Body for EndpointChange {}

/// A place that a company's events go to, signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    pub id: Box<str>,
    #[schema(value_type = String)]
    pub company_id: CompanyId,
    pub url: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Box<str>>,
    /// Event types it gets; all when empty.
    #[schema(value_type = Vec<components::EventKind>)]
    pub events: Vec<EventKind>,
    pub enabled: bool,
    /// In a row; at ten it is switched off.
    pub consecutive_failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<Box<str>>,
    /// Until then the secret before the newest one signs, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_rotating_until: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Shown when it is new, and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub secret: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointList {
    /// Oldest first.
    pub items: Vec<Endpoint>,
    /// Cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Selects endpoints by company; all when absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct EndpointQuery {
    #[param(value_type = Option<components::Name>, inline)]
    pub company_id: Option<CompanyId>,
    /// Items on a page, up to 1000; 100 when absent.
    #[param(value_type = Option<components::PageLimit>, inline)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub cursor: Option<String>,
}

impl Query for EndpointQuery {}

/// Result of a test delivery. A receiver that says no is an answer, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointTested {
    /// It answered with a 2xx.
    pub ok: bool,
    /// Status of its answer, if it gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
}
