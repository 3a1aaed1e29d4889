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
        host: node.beat.host.into(),
        listen: node.beat.listen.map(Into::into),
        version: node.beat.version.into(),
        started_at: node.beat.started_at,
        last_seen_at: node.beat.seen_at,
        health: match node.health {
            Health::Ok => NodeHealth::Ok,
            Health::Stopping => NodeHealth::Stopping,
            Health::Silent => NodeHealth::Silent,
        },
        running: node.beat.running,
        ended_last_minute: node.beat.ended_last_minute,
        share_percent: (node.share_percent * 10.0).round() / 10.0,
    }
}
