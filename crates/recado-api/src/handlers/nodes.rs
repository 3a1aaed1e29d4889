//! The processes that share the store.

use axum::extract::State;
use axum::response::Response;
use recado_engine::duties::nodes::Health;
use recado_wire::nodes::{Node, NodeHealth, NodeList};

use crate::answer::{self, ApiError};
use crate::extract::CheckedQuery;
use crate::openapi::ReadProblems;
use crate::state::ApiState;

/// The nodes that share the store: version, health, share of the work.
#[utoipa::path(
    get, path = "/v1/nodes", tag = "nodes", operation_id = "listNodes",
    responses((status = 200, body = NodeList), ReadProblems)
)]
pub(crate) async fn list(
    State(api): State<ApiState>,
    CheckedQuery(()): CheckedQuery<()>,
) -> Result<Response, ApiError> {
    let items = api.engine().nodes.list().await?.into_iter().map(show).collect();
    Ok(answer::ok(&NodeList { items }))
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
