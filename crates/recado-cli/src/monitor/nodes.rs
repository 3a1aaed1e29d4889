//! `recado nodes`.

use clap::Args;
use recado_terminal::{Field, Paint, Screen};
use recado_wire::nodes::{Node, NodeHealth};
use recado_wire::word_of;

use crate::{Done, ServerArgs};

#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:\n  recado nodes\n  recado nodes --json")]
pub struct NodesArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(args: NodesArgs, screen: &mut Screen) -> Done {
    let list = args.server.client()?.nodes().await?;
    if args.json {
        screen.json(&list)?;
    } else {
        let heads =
            ["node", "health", "version", "listens at", "since", "last seen", "running", "a minute", "share"];
        screen.table(&heads, list.items.iter().map(row).collect())?;
    }
    Ok(())
}

fn row(node: &Node) -> Vec<Field> {
    let paint = match node.health {
        NodeHealth::Ok => Paint::Good,
        NodeHealth::Stopping => Paint::Warn,
        NodeHealth::Silent => Paint::Bad,
    };
    vec![
        Field::from(&node.node_id),
        Field::painted(word_of(node.health), paint),
        Field::from(&node.version),
        Field::or_dash(node.listen.as_ref()),
        Field::from(node.started_at),
        Field::from(node.last_seen_at),
        Field::from(node.running),
        Field::from(node.ended_last_minute),
        Field::from(format!("{:.1} %", node.share_percent)),
    ]
}
