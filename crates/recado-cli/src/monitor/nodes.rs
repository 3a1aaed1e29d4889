//! `recado nodes`.

use recado_terminal::{Column, Field, Paint, Screen};
use recado_wire::nodes::{Node, NodeHealth};
use recado_wire::word_of;

use crate::{AskArgs, Done};

pub async fn run(ask: AskArgs, screen: &mut Screen) -> Done {
    ask.show(screen, &ask.client()?.nodes().await?, |screen, list| screen.table(&list.items, COLUMNS))
}

const COLUMNS: &[Column<Node>] = &[
    ("node", |node| Field::from(&node.node_id)),
    ("health", health),
    ("version", |node| Field::from(&node.version)),
    ("listens at", |node| Field::or_dash(node.listen.as_ref())),
    ("since", |node| Field::from(node.started_at)),
    ("last seen", |node| Field::from(node.last_seen_at)),
    ("running", |node| Field::from(node.running)),
    ("a minute", |node| Field::from(node.ended_last_minute)),
    ("share", |node| Field::from(format_args!("{:.1} %", node.share_percent))),
];

fn health(node: &Node) -> Field {
    let paint = match node.health {
        NodeHealth::Ok => Paint::Good,
        NodeHealth::Stopping => Paint::Warn,
        NodeHealth::Silent => Paint::Bad,
    };
    Field::painted(word_of(node.health), paint)
}
