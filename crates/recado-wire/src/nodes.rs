//! The processes that share the store.

use recado_core::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer to `GET /v1/nodes`, by id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeList {
    pub items: Vec<Node>,
}

/// One process that delivers jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    #[schema(example = "mail-1/4711-9f3c")]
    pub node_id: String,
    pub host: String,
    /// Address of its API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "10.0.0.5:7400")]
    pub listen: Option<String>,
    pub version: String,
    pub started_at: Timestamp,
    pub last_seen_at: Timestamp,
    pub health: NodeHealth,
    /// Deliveries under way.
    pub running: u64,
    /// Deliveries that ended in the last minute, however they ended.
    pub ended_last_minute: u64,
    /// Its share in the work of all nodes in the last minute.
    #[schema(minimum = 0, maximum = 100)]
    pub share_percent: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeHealth {
    Ok,
    /// It lets its deliveries end and takes no more.
    Stopping,
    /// No heartbeat for 15 seconds: its jobs go to the others as their leases run out.
    Silent,
}
