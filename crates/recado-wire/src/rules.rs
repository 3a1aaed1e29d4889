//! Classification rules that the history suggests.

use recado_core::{Class, RouteName, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::format::components;
use crate::format::read::Query;

/// Selects the failures to learn from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct SuggestionQuery {
    /// Only this route; all when absent.
    #[param(value_type = Option<components::Name>, inline)]
    pub route: Option<RouteName>,
    /// Beginning of the period to read; seven days ago when absent.
    pub since: Option<Timestamp>,
}

impl Query for SuggestionQuery {}

/// Answer to `GET /v1/rules/suggestions`, those that would change most first. Nothing changes by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuggestionList {
    pub items: Vec<RuleSuggestion>,
    /// All suggestions as one text for the configuration: a table for each route.
    #[schema(
        example = "[routes.email]\nclassify = [{ code = \"554\", text = \"account closed\", as = \"permanent\" }]\n"
    )]
    pub toml: String,
    pub since: Timestamp,
    /// Records of the audit trail that were read.
    pub records_read: u64,
    /// The last record that was read, where there were more than one answer may take: ask again with a later `since`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_until: Option<Timestamp>,
}

/// A rule that the history of one error supports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleSuggestion {
    #[schema(value_type = components::Name)]
    pub route: RouteName,
    /// The same for all failures of the route that differ only in numbers, addresses and identifiers.
    pub fingerprint: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<Box<str>>,
    /// The words that such failures share, with `…` for all else: nothing of a payload, no id of a company, a user or a
    /// correlation, no number, no address. Absent unless jobs of at least three recipients or companies failed so and
    /// are still kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// Attempts that failed so.
    pub count: u64,
    /// Jobs that were tried again with the same data, and arrived.
    pub retried_to_success: u64,
    /// Jobs that were tried again with the same data, and died of the same error.
    pub retried_in_vain: u64,
    #[schema(value_type = components::ErrorClassification)]
    pub today: Class,
    #[schema(value_type = components::ErrorClassification)]
    pub suggested: Class,
    /// From 0 to 1: the lower bound of Wilson's 95 % interval of the share of jobs that speak for the suggestion, so
    /// that few jobs give little confidence.
    #[schema(minimum = 0, maximum = 1)]
    pub confidence: f64,
    /// The line for the route's table in the configuration.
    #[schema(example = r#"classify = [{ code = "554", text = "account closed", as = "permanent" }]"#)]
    pub toml: String,
    /// Attempts that would not have been made, or jobs that would have been retried, had the rule been there: counted
    /// by running it over the same records.
    pub would_have_changed: u64,
    /// Jobs that arrived and that the rule would have given up.
    pub would_have_lost: u64,
}
