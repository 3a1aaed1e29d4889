//! `recado providers`.

use std::io;

use clap::{Args, Subcommand};
use recado_config::units::about_millis;
use recado_core::breaker::BreakerState;
use recado_terminal::{Column, Field, Paint, Screen};
use recado_wire::jobs::WaitingFor;
use recado_wire::providers::{BreakerAction, BreakerRequest, PauseRequest, Provider, RateLimit};

use super::OrList;
use crate::delivery::timeline::waits_for;
use crate::{AskArgs, Done};

#[derive(Debug, Subcommand)]
pub enum ProvidersCommand {
    /// List providers: breaker, limits, what waits for them.
    #[command(after_help = "EXAMPLES:\n  recado providers list --json")]
    List(AskArgs),
    /// Show one provider.
    #[command(after_help = "EXAMPLES:\n  recado providers show instagram")]
    Show(ProviderArgs),
    /// Open a breaker by hand, until it is closed by hand.
    #[command(after_help = "EXAMPLES:\n  recado providers open instagram --reason 'their maintenance'")]
    Open(TurnArgs),
    /// Close a breaker by hand.
    #[command(after_help = "EXAMPLES:\n  recado providers close instagram --reason 'they are back'")]
    Close(TurnArgs),
    /// Pause a provider: its jobs wait and spend no attempt.
    #[command(after_help = "EXAMPLES:\n  recado providers pause smtp-main --reason 'new password'")]
    Pause(PauseArgs),
    /// Resume a paused provider.
    #[command(after_help = "EXAMPLES:\n  recado providers resume smtp-main")]
    Resume(PauseArgs),
}

#[derive(Debug, Args)]
pub struct ProviderArgs {
    /// The provider.
    name: String,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct TurnArgs {
    /// The provider.
    name: String,
    /// Reason, for the next operator.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct PauseArgs {
    /// The provider.
    name: String,
    /// Reason, for the next operator.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(args: OrList<ProvidersCommand, AskArgs>, screen: &mut Screen) -> Done {
    match args.or(ProvidersCommand::List) {
        ProvidersCommand::List(ask) => {
            let list = ask.client()?.providers().await?;
            ask.show(screen, &list, |screen, list| screen.table(&list.items, COLUMNS))
        }
        ProvidersCommand::Show(ProviderArgs { name, ask }) => {
            ask.show(screen, &ask.client()?.provider(&name).await?, facts)
        }
        ProvidersCommand::Open(args) => turn(args, BreakerAction::Open, screen).await,
        ProvidersCommand::Close(args) => turn(args, BreakerAction::Close, screen).await,
        ProvidersCommand::Pause(PauseArgs { name, reason, ask }) => {
            let request = PauseRequest { reason };
            ask.show(screen, &ask.client()?.pause_provider(&name, &request).await?, facts)
        }
        ProvidersCommand::Resume(PauseArgs { name, reason, ask }) => {
            let request = PauseRequest { reason };
            ask.show(screen, &ask.client()?.resume_provider(&name, &request).await?, facts)
        }
    }
}

async fn turn(args: TurnArgs, action: BreakerAction, screen: &mut Screen) -> Done {
    let request = BreakerRequest { action, reason: args.reason };
    args.ask.show(screen, &args.ask.client()?.turn_breaker(&args.name, &request).await?, facts)
}

/// Returns the breaker's state, unless a pause or the lack of an address weighs more.
fn state(provider: &Provider) -> Field {
    match provider.state {
        _ if provider.paused.is_some() => Field::painted("paused", Paint::Warn),
        _ if matches!(provider.waiting_for, Some(WaitingFor::Route { .. })) => {
            Field::painted("no address", Paint::Warn)
        }
        // Without a breaker there is nothing that could be closed.
        _ if provider.limits.breaker.is_none() => Field::dash(),
        BreakerState::Closed => Field::painted(provider.state.as_str(), Paint::Good),
        BreakerState::HalfOpen => Field::painted(provider.state.as_str(), Paint::Warn),
        BreakerState::Open => Field::painted(provider.state.as_str(), Paint::Bad),
    }
}

fn rate(rate: RateLimit) -> String {
    format!("{}/{}", rate.max, about_millis(rate.per_ms))
}

fn routes(provider: &Provider) -> String {
    provider.routes.iter().map(|route| route.as_str()).collect::<Vec<_>>().join(",")
}

pub const COLUMNS: &[Column<Provider>] = &[
    ("provider", |provider| Field::from(&provider.name)),
    ("state", state),
    ("failures", |provider| Field::from(provider.failures_in_window)),
    ("running", |provider| Field::from(provider.running)),
    ("slots", |provider| Field::from(provider.concurrency)),
    ("rate", |provider| Field::or_dash(provider.limits.rate.map(rate))),
    ("parked", |provider| Field::from(provider.parked)),
    ("routes", |provider| Field::from(routes(provider))),
    ("why", |provider| Field::or_dash(provider.waiting_for.as_ref().map(waits_for))),
];

fn facts(screen: &mut Screen, provider: &Provider) -> io::Result<()> {
    let (limits, pause) = (&provider.limits, provider.paused.as_ref());
    let breaker = limits.breaker.map(|breaker| {
        let (within, reset) = (about_millis(breaker.within_ms), about_millis(breaker.reset_ms));
        format!("{} failures in {within}, then open for {reset}", breaker.failures)
    });
    let guarded = limits.breaker.map(|_| provider);
    let held_open = guarded.filter(|provider| provider.held_open).map(|_| "until it is closed by hand");
    let adaptive = if limits.adaptive { ", adaptive" } else { "" };
    screen.pairs([
        ("provider", Field::painted(&provider.name, Paint::Strong)),
        ("state", state(provider)),
        ("routes", Field::from(routes(provider))),
        ("parked", Field::from(provider.parked)),
        ("running", Field::from(format_args!("{} of {}", provider.running, provider.concurrency))),
        ("waits", Field::if_any(provider.waiting_for.as_ref().map(waits_for))),
        ("paused since", Field::if_any(pause.map(|pause| pause.since))),
        ("paused because", Field::if_any(pause.and_then(|pause| pause.reason.as_ref()))),
        ("paused by", Field::if_any(pause.and_then(|pause| pause.actor.as_ref()))),
        ("breaker", Field::if_any(breaker)),
        ("failures", Field::if_any(guarded.map(|provider| provider.failures_in_window))),
        ("since", Field::if_any(guarded.and_then(|provider| provider.since))),
        ("reason", Field::if_any(guarded.and_then(|provider| provider.reason.as_ref()))),
        ("next probe", Field::if_any(guarded.and_then(|provider| provider.next_probe_at))),
        ("held open", Field::if_any(held_open)),
        ("quiet until", Field::if_any(provider.quiet_until)),
        ("rate", Field::if_any(limits.rate.map(rate))),
        ("concurrency", Field::from(format_args!("{}{adaptive}", limits.concurrency))),
        ("rate of a company", Field::if_any(limits.company_rate.map(rate))),
        ("concurrency of a company", Field::if_any(limits.company_concurrency)),
        ("concurrency of an endpoint", Field::if_any(limits.endpoint_concurrency)),
    ])
}
