//! Accounts whose credential a provider no longer takes.

use recado_core::{CompanyId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::format::components;
use crate::format::read::Query;

/// A company at a provider, marked. The next success takes the mark away, or a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    pub provider: Box<str>,
    #[schema(value_type = String)]
    pub company_id: CompanyId,
    #[schema(example = "token_expired")]
    pub status: Box<str>,
    pub since: Timestamp,
    /// The provider's words.
    pub reason: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<Box<str>>,
    /// The route and the job that found it out.
    pub route: Box<str>,
    pub job_id: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountList {
    pub items: Vec<Account>,
}

/// Selects accounts by company; all when absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct AccountQuery {
    #[param(value_type = Option<components::Name>, inline)]
    pub company_id: Option<CompanyId>,
}

impl Query for AccountQuery {}
