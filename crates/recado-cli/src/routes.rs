//! `recado routes`.

use clap::{Args, Subcommand};
use recado_terminal::{Field, Paint, Screen};
use recado_wire::providers::PauseRequest;
use recado_wire::routes::Route;

use super::timeline::waits_for;
use super::{Done, ServerArgs};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "EXAMPLES:\n  recado routes\n  recado routes pause email --reason 'wrong template'\n  recado routes resume email"
)]
pub struct RoutesArgs {
    #[command(subcommand)]
    command: Option<RoutesCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum RoutesCommand {
    /// List routes: who carries them, what waits, what holds them back.
    #[command(after_help = "EXAMPLES:\n  recado routes list --json")]
    List(ListArgs),
    /// Pause a route: its jobs wait and spend no attempt.
    #[command(after_help = "EXAMPLES:\n  recado routes pause email --reason 'wrong template'")]
    Pause(OneArgs),
    /// Let a paused route go on.
    #[command(after_help = "EXAMPLES:\n  recado routes resume email")]
    Resume(OneArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
struct OneArgs {
    /// The route.
    name: String,
    /// Reason, for the next operator.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(args: RoutesArgs, screen: &mut Screen) -> Done {
    match args.command {
        None => list(args.list, screen).await,
        Some(RoutesCommand::List(args)) => list(args, screen).await,
        Some(RoutesCommand::Pause(args)) => {
            let request = PauseRequest { reason: args.reason };
            let route = args.server.client()?.pause_route(&args.name, &request).await?;
            show(screen, &route, args.json)
        }
        Some(RoutesCommand::Resume(args)) => {
            let request = PauseRequest { reason: args.reason };
            let route = args.server.client()?.resume_route(&args.name, &request).await?;
            show(screen, &route, args.json)
        }
    }
}

const HEADS: [&str; 6] = ["route", "state", "transport", "providers", "waiting", "why"];

async fn list(args: ListArgs, screen: &mut Screen) -> Done {
    let list = args.server.client()?.routes().await?;
    if args.json {
        screen.json(&list)?;
    } else {
        screen.table(&HEADS, list.items.iter().map(row).collect())?;
    }
    Ok(())
}

fn show(screen: &mut Screen, route: &Route, json: bool) -> Done {
    if json {
        screen.json(route)?;
    } else {
        screen.table(&HEADS, vec![row(route)])?;
    }
    Ok(())
}

fn row(route: &Route) -> Vec<Field> {
    let state = match route.paused {
        Some(_) => Field::painted("paused", Paint::Warn),
        None => Field::or_dash(None::<&str>),
    };
    vec![
        Field::from(&route.name),
        state,
        Field::from(&route.transport),
        Field::from(route.providers.join(",")),
        Field::from(route.waiting),
        Field::or_dash(route.waiting_for.as_ref().map(waits_for)),
    ]
}
