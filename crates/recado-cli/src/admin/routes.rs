//! `recado routes`.

use clap::{Args, Subcommand};
use recado_terminal::{Column, Field, Paint, Screen};
use recado_wire::providers::PauseRequest;
use recado_wire::routes::Route;

use super::OrList;
use crate::delivery::timeline::waits_for;
use crate::{AskArgs, Done};

#[derive(Debug, Subcommand)]
pub enum RoutesCommand {
    /// List routes: transport, waiting jobs, holds.
    #[command(after_help = "EXAMPLES:\n  recado routes list --json")]
    List(AskArgs),
    /// Pause a route: its jobs wait and spend no attempt.
    #[command(after_help = "EXAMPLES:\n  recado routes pause email --reason 'wrong template'")]
    Pause(RouteArgs),
    /// Resume a paused route.
    #[command(after_help = "EXAMPLES:\n  recado routes resume email")]
    Resume(RouteArgs),
}

#[derive(Debug, Args)]
pub struct RouteArgs {
    /// The route.
    name: String,
    /// Reason, for the next operator.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(args: OrList<RoutesCommand, AskArgs>, screen: &mut Screen) -> Done {
    let (ask, route) = match args.or(RoutesCommand::List) {
        RoutesCommand::List(ask) => {
            let list = ask.client()?.routes().await?;
            return ask.show(screen, &list, |screen, list| screen.table(&list.items, COLUMNS));
        }
        RoutesCommand::Pause(RouteArgs { name, reason, ask }) => {
            let route = ask.client()?.pause_route(&name, &PauseRequest { reason }).await?;
            (ask, route)
        }
        RoutesCommand::Resume(RouteArgs { name, reason, ask }) => {
            let route = ask.client()?.resume_route(&name, &PauseRequest { reason }).await?;
            (ask, route)
        }
    };
    ask.show(screen, &route, |screen, route| screen.table([route], COLUMNS))
}

const COLUMNS: &[Column<Route>] = &[
    ("route", |route| Field::from(&route.name)),
    ("state", |route| match route.paused {
        Some(_) => Field::painted("paused", Paint::Warn),
        None => Field::dash(),
    }),
    ("transport", |route| Field::from(&route.transport)),
    ("providers", |route| Field::from(route.providers.join(","))),
    ("waiting", |route| Field::from(route.waiting)),
    ("why", |route| Field::or_dash(route.waiting_for.as_ref().map(waits_for))),
];
