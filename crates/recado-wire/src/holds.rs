//! Holds that answers from outside imposed, by a `Retry-After` or a limit that is reached.

use recado_core::{CompanyId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::format::components;
use crate::format::read::Query;

/// Answer to `GET /v1/holds`, by provider and scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoldList {
    pub items: Vec<Hold>,
    /// Cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The page of holds to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct HoldQuery {
    /// Items on a page, up to 1000; 100 when absent.
    #[param(value_type = Option<components::PageLimit>, inline)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub cursor: Option<String>,
}

impl Query for HoldQuery {}

/// A hold that an answer from outside imposed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    #[schema(example = "hold_4f0c…")]
    pub id: Box<str>,
    /// The part of the provider's jobs that waits.
    pub scope: HoldScope,
    #[schema(example = "webhook")]
    pub provider: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub company_id: Option<CompanyId>,
    /// The webhook endpoint that is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_id: Option<Box<str>>,
    /// The host that is held, for jobs that name a `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Box<str>>,
    /// The answer's code, the wait that it asked for, whether `hold_max` cut it, and its words.
    pub reason: Box<str>,
    /// Absent where an older version wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    pub until: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum HoldScope {
    /// Every job of the provider.
    Provider,
    /// The jobs of one company at the provider.
    Company,
    /// The jobs of one company to one webhook endpoint.
    Endpoint,
    /// The jobs of one company to the addresses of one host.
    Host,
}
