//! Accounts whose credential a provider no longer takes.

use recado_core::{CompanyId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::format::read::{Params, Query};

/// A company at a provider, marked. The next success takes the mark away, or a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Account {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub provider: Box<str>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub company_id: CompanyId,
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "token_expired"))]
    pub status: Box<str>,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub since: Timestamp,
    /// The provider's words.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub reason: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub error_code: Option<Box<str>>,
    /// The route and the job that found it out.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub route: Box<str>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job_id: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccountList {
    pub items: Vec<Account>,
}

/// Selects accounts by company; all when absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct AccountQuery {
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::format::components::Name>, inline))]
    pub company_id: Option<CompanyId>,
}

impl Query for AccountQuery {
    const FIELDS: &'static [&'static str] = &["companyId"];

    fn from_params(params: &mut Params<'_>) -> Self {
        AccountQuery { company_id: params.parsed("companyId", CompanyId::new) }
    }
}
