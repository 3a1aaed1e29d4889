//! `recado providers`.

use std::io;

use clap::{Args, Subcommand};
use recado_config::units::about_duration;
use recado_core::breaker::BreakerState;
use recado_terminal::{Field, Paint, Screen};
use recado_wire::jobs::WaitingFor;
use recado_wire::providers::{BreakerAction, BreakerRequest, PauseRequest, Provider, RateLimit};

use super::timeline::waits_for;
use super::{Done, ServerArgs};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "EXAMPLES:\n  recado providers\n  recado providers open instagram --reason 'their maintenance'\n  recado providers pause smtp-main"
)]
pub struct ProvidersArgs {
    #[command(subcommand)]
    command: Option<ProvidersCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum ProvidersCommand {
    /// List providers: breaker, limits, what waits for them.
    #[command(after_help = "EXAMPLES:\n  recado providers list --json")]
    List(ListArgs),
    /// Show one provider.
    #[command(after_help = "EXAMPLES:\n  recado providers show instagram")]
    Show(OneArgs),
    /// Open a breaker by hand, until it is closed by hand.
    #[command(after_help = "EXAMPLES:\n  recado providers open instagram --reason 'their maintenance'")]
    Open(TurnArgs),
    /// Close a breaker by hand.
    #[command(after_help = "EXAMPLES:\n  recado providers close instagram --reason 'they are back'")]
    Close(TurnArgs),
    /// Pause a provider: its jobs wait and spend no attempt.
    #[command(after_help = "EXAMPLES:\n  recado providers pause smtp-main --reason 'new password'")]
    Pause(PauseArgs),
    /// Let a paused provider go on.
    #[command(after_help = "EXAMPLES:\n  recado providers resume smtp-main")]
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
    /// The provider.
    name: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
struct TurnArgs {
    /// The provider.
    name: String,
    /// Reason, for the next operator.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
struct PauseArgs {
    /// The provider.
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

pub async fn run(args: ProvidersArgs, screen: &mut Screen) -> Done {
    match args.command {
        None => list(args.list, screen).await,
        Some(ProvidersCommand::List(args)) => list(args, screen).await,
        Some(ProvidersCommand::Show(args)) => {
            let provider = args.server.client()?.provider(&args.name).await?;
            show(screen, &provider, args.json)
        }
        Some(ProvidersCommand::Open(args)) => turn(args, BreakerAction::Open, screen).await,
        Some(ProvidersCommand::Close(args)) => turn(args, BreakerAction::Close, screen).await,
        Some(ProvidersCommand::Pause(args)) => {
            let request = PauseRequest { reason: args.reason };
            let provider = args.server.client()?.pause_provider(&args.name, &request).await?;
            show(screen, &provider, args.json)
        }
        Some(ProvidersCommand::Resume(args)) => {
            let provider = args.server.client()?.resume_provider(&args.name).await?;
            show(screen, &provider, args.json)
        }
    }
}

async fn list(args: ListArgs, screen: &mut Screen) -> Done {
    let list = args.server.client()?.providers().await?;
    if args.json {
        screen.json(&list)?;
    } else {
        let heads = ["provider", "state", "failures", "running", "slots", "rate", "parked", "routes", "why"];
        screen.table(&heads, list.items.iter().map(row).collect())?;
    }
    Ok(())
}

async fn turn(args: TurnArgs, action: BreakerAction, screen: &mut Screen) -> Done {
    let request = BreakerRequest { action, reason: args.reason };
    let provider = args.server.client()?.turn_breaker(&args.name, &request).await?;
    show(screen, &provider, args.json)
}

/// Returns the breaker's state, unless a pause or the lack of an address weighs more.
fn state(provider: &Provider) -> Field {
    match provider.state {
        _ if provider.paused.is_some() => Field::painted("paused", Paint::Warn),
        _ if matches!(provider.waiting_for, Some(WaitingFor::Route { .. })) => {
            Field::painted("no address", Paint::Warn)
        }
        // Without a breaker there is nothing that could be closed.
        _ if provider.limits.breaker.is_none() => Field::or_dash(None::<&str>),
        BreakerState::Closed => Field::painted(provider.state.as_str(), Paint::Good),
        BreakerState::HalfOpen => Field::painted(provider.state.as_str(), Paint::Warn),
        BreakerState::Open => Field::painted(provider.state.as_str(), Paint::Bad),
    }
}

fn duration(millis: u64) -> String {
    about_duration(std::time::Duration::from_millis(millis))
}

fn rate(rate: RateLimit) -> String {
    format!("{}/{}", rate.max, duration(rate.per_ms))
}

fn routes(provider: &Provider) -> String {
    provider.routes.iter().map(|route| route.as_str()).collect::<Vec<_>>().join(",")
}

pub fn row(provider: &Provider) -> Vec<Field> {
    vec![
        Field::from(&provider.name),
        state(provider),
        Field::from(provider.failures_in_window),
        Field::from(provider.running),
        Field::from(provider.concurrency),
        Field::or_dash(provider.limits.rate.map(rate)),
        Field::from(provider.parked),
        Field::from(routes(provider)),
        Field::or_dash(provider.waiting_for.as_ref().map(waits_for)),
    ]
}

fn show(screen: &mut Screen, provider: &Provider, json: bool) -> Done {
    if json {
        screen.json(provider)?;
        return Ok(());
    }
    Ok(facts(screen, provider)?)
}

fn facts(screen: &mut Screen, provider: &Provider) -> io::Result<()> {
    let limits = &provider.limits;
    let mut facts = vec![
        ("provider", Field::painted(&provider.name, Paint::Strong)),
        ("state", state(provider)),
        ("routes", Field::from(routes(provider))),
        ("parked", Field::from(provider.parked)),
        ("running", Field::from(format!("{} of {}", provider.running, provider.concurrency))),
    ];
    facts.extend(provider.waiting_for.as_ref().map(|why| ("waits", Field::from(waits_for(why)))));
    if let Some(pause) = &provider.paused {
        facts.push(("paused since", Field::from(pause.since)));
        facts.extend(pause.reason.as_ref().map(|reason| ("paused because", Field::from(reason))));
        facts.extend(pause.actor.as_ref().map(|actor| ("paused by", Field::from(actor))));
    }
    if let Some(breaker) = limits.breaker {
        let terms = format!(
            "{} failures in {}, then {} of quiet",
            breaker.failures,
            duration(breaker.within_ms),
            duration(breaker.reset_ms)
        );
        facts.push(("breaker", Field::from(terms)));
        facts.push(("failures", Field::from(provider.failures_in_window)));
        facts.extend(provider.since.map(|at| ("since", Field::from(at))));
        facts.extend(provider.reason.as_ref().map(|reason| ("reason", Field::from(reason))));
        facts.extend(provider.next_probe_at.map(|at| ("next probe", Field::from(at))));
        if provider.held_open {
            facts.push(("held open", Field::from("until it is closed by hand")));
        }
    }
    facts.extend(provider.quiet_until.map(|at| ("quiet until", Field::from(at))));
    facts.extend(limits.rate.map(|limit| ("rate", Field::from(rate(limit)))));
    let adaptive = if limits.adaptive { ", follows its answers" } else { "" };
    facts.push(("concurrency", Field::from(format!("{}{adaptive}", limits.concurrency))));
    facts.extend(limits.company_rate.map(|limit| ("rate of a company", Field::from(rate(limit)))));
    facts.extend(limits.company_concurrency.map(|max| ("concurrency of a company", Field::from(max))));
    facts.extend(limits.endpoint_concurrency.map(|max| ("concurrency of an endpoint", Field::from(max))));
    screen.pairs(facts)
}
