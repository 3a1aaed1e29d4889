//! The processes that share the store.

use recado_engine::duties::nodes::Health;
use recado_wire::nodes::{Node, NodeHealth, NodeList};

use crate::handlers::prelude::*;

/// The nodes that share the store: version, health, share of the work.
#[utoipa::path(
    get, path = "/v1/nodes", tag = "nodes", operation_id = "listNodes",
    responses((status = 200, body = NodeList), ReadProblems)
)]
pub async fn list(api: ApiState, _: NoQuery) -> ApiResult {
    let items = api.engine.nodes.list().await?.into_iter().map(show).collect();
    answer::ok(&NodeList { items })
}

fn show(node: recado_engine::duties::nodes::Node) -> Node {
    Node {
        node_id: node.id.into(),
        host: node.host.into(),
        listen: node.listen.map(Into::into),
        version: node.version.into(),
        started_at: node.started_at,
        last_seen_at: node.last_seen_at,
        health: match node.health {
            Health::Ok => NodeHealth::Ok,
            Health::Stopping => NodeHealth::Stopping,
            Health::Silent => NodeHealth::Silent,
        },
        running: node.running,
        ended_last_minute: node.ended_last_minute,
        share_percent: (node.share_percent * 10.0).round() / 10.0,
    }
}
