//! Routes: who carries them, and whether their jobs may leave.

use recado_core::RouteName;
use serde::{Deserialize, Serialize};

use crate::jobs::WaitingFor;
use crate::providers::Paused;

/// A named way to deliver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Route {
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "email"))]
    pub name: RouteName,
    /// What carries its jobs out; `worker` when programs of yours do, `none` when nothing does yet.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "smtp"))]
    pub transport: Box<str>,
    /// In the order they are tried.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub providers: Vec<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Jobs that wait, due or not.
    pub waiting: u64,
    /// What holds all of its jobs back, if anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RouteList {
    /// By name.
    pub items: Vec<Route>,
}
