//! `recado endpoints`.

use std::io;

use clap::{Args, Subcommand};
use recado_terminal::{Column, Field, Paint, Screen, clean};
use recado_wire::PAGE_ITEMS_MAX;
use recado_wire::endpoints::{
    Endpoint, EndpointChange, EndpointList, EndpointQuery, EndpointRequest, Secret,
};

use super::OfTenantArgs;
use crate::{AskArgs, Done, Stop, data};

#[derive(Debug, Subcommand)]
pub enum EndpointsCommand {
    /// List endpoints, oldest first.
    #[command(after_help = "EXAMPLES:\n  recado endpoints list --company acme")]
    List(OfTenantArgs),
    /// Add an endpoint and show its secret (shown only now).
    #[command(
        after_help = "EXAMPLES:\n  recado endpoints add --company acme --to https://example.com/hooks --event JobSent,JobFailed"
    )]
    Add(AddArgs),
    /// Show one endpoint.
    #[command(after_help = "EXAMPLES:\n  recado endpoints show ep_0197")]
    Show(EndpointArgs),
    /// Change an endpoint; what is not named stays.
    #[command(
        after_help = "EXAMPLES:\n  recado endpoints set ep_0197 --to https://example.com/new\n  recado endpoints set ep_0197 --event all\n  recado endpoints set ep_0197 --off"
    )]
    Set(EndpointSetArgs),
    /// Enable an endpoint again and reset its failure count.
    #[command(after_help = "EXAMPLES:\n  recado endpoints enable ep_0197")]
    Enable(EndpointArgs),
    /// Send a signed test event; fails unless the receiver accepts it.
    #[command(after_help = "EXAMPLES:\n  recado endpoints test ep_0197")]
    Test(EndpointArgs),
    /// Remove an endpoint.
    #[command(after_help = "EXAMPLES:\n  recado endpoints remove ep_0197")]
    Remove(EndpointArgs),
}

#[derive(Debug, Args)]
pub struct AddArgs {
    /// Tenant whose events it receives.
    #[arg(long, value_name = "ID")]
    company: String,
    /// URL of the receiver.
    #[arg(long, value_name = "ADDRESS")]
    to: String,
    /// Events it receives, separated by commas [default: all].
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',')]
    event: Vec<String>,
    /// A secret of your own, whsec_… or @file [default: generated].
    #[arg(long, value_name = "SECRET|@FILE")]
    secret: Option<String>,
    /// Its purpose.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct EndpointSetArgs {
    /// The endpoint's id.
    id: String,
    /// URL of the receiver.
    #[arg(long, value_name = "ADDRESS")]
    to: Option<String>,
    /// Events it receives, separated by commas; or all.
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',')]
    event: Option<Vec<String>>,
    /// A new secret, whsec_… or @file; the one before signs beside it for a day.
    #[arg(long, value_name = "SECRET|@FILE")]
    secret: Option<String>,
    /// Its purpose; empty to remove it.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Switch it on.
    #[arg(long, conflicts_with = "off")]
    on: bool,
    /// Switch it off.
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct EndpointArgs {
    /// The endpoint's id.
    id: String,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(command: EndpointsCommand, screen: &mut Screen) -> Done {
    match command {
        EndpointsCommand::List(args) => list(args, screen).await,
        EndpointsCommand::Add(args) => {
            let request = EndpointRequest {
                events: Some(args.event).filter(|events| !events.is_empty()).map(named),
                secret: args.secret.as_deref().map(secret).transpose()?,
                description: args.description,
                ..EndpointRequest::new(args.company, args.to)
            };
            args.ask.show(screen, &args.ask.client()?.add_endpoint(&request).await?, facts)
        }
        EndpointsCommand::Show(EndpointArgs { id, ask }) => {
            ask.show(screen, &ask.client()?.endpoint(&id).await?, facts)
        }
        EndpointsCommand::Set(args) => set(args, screen).await,
        EndpointsCommand::Enable(EndpointArgs { id, ask }) => {
            ask.show(screen, &ask.client()?.enable_endpoint(&id).await?, facts)
        }
        EndpointsCommand::Test(args) => test(args, screen).await,
        EndpointsCommand::Remove(EndpointArgs { id, ask }) => {
            ask.client()?.remove_endpoint(&id).await?;
            let removed = serde_json::json!({ "id": id, "removed": true });
            ask.show(screen, &removed, |screen, _| screen.line(format_args!("{} removed", clean(&id))))
        }
    }
}

/// `all` is how a person writes that nothing is left out.
fn named(events: Vec<String>) -> Vec<String> {
    if events.iter().any(|event| event.trim().eq_ignore_ascii_case("all")) {
        return Vec::new();
    }
    events.into_iter().map(|event| event.trim().to_owned()).collect()
}

/// From a file it shows neither in the shell's history nor in the list of processes.
fn secret(said: &str) -> Result<Secret, Stop> {
    let Some(path) = said.strip_prefix('@') else { return Ok(Secret::new(said)) };
    Ok(Secret::new(data::read_file(path)?.trim()))
}

async fn list(args: OfTenantArgs, screen: &mut Screen) -> Done {
    let client = args.ask.client()?;
    let mut query = EndpointQuery { company_id: args.company, limit: Some(PAGE_ITEMS_MAX), cursor: None };
    let mut list = EndpointList { items: Vec::new(), next_cursor: None };
    loop {
        let page = client.endpoints(&query).await?;
        list.items.extend(page.items);
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    args.ask.show(screen, &list, |screen, list| screen.table(&list.items, COLUMNS))
}

async fn set(args: EndpointSetArgs, screen: &mut Screen) -> Done {
    let change = EndpointChange {
        url: args.to,
        events: args.event.map(named),
        secret: args.secret.as_deref().map(secret).transpose()?,
        description: args.description,
        enabled: (args.on || args.off).then_some(args.on),
    };
    if change == EndpointChange::default() {
        let otherwise = "nothing to change; name --to, --event, --secret, --description, --on or --off";
        return Err(Stop::usage(otherwise));
    }
    args.ask.show(screen, &args.ask.client()?.change_endpoint(&args.id, &change).await?, facts)
}

fn state(endpoint: &Endpoint) -> Field {
    if endpoint.enabled { Field::painted("on", Paint::Good) } else { Field::painted("off", Paint::Bad) }
}

fn events(endpoint: &Endpoint) -> Field {
    match endpoint.events.as_slice() {
        [] => Field::from("all"),
        events => Field::from(events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(",")),
    }
}

const COLUMNS: &[Column<Endpoint>] = &[
    ("endpoint", |endpoint| Field::from(&endpoint.id)),
    ("state", state),
    ("company", |endpoint| Field::from(&endpoint.company_id)),
    ("url", |endpoint| Field::from(&endpoint.url)),
    ("events", events),
    ("failures", |endpoint| Field::from(endpoint.consecutive_failures)),
    ("why off", |endpoint| Field::or_dash(endpoint.disabled_reason.as_ref())),
];

fn facts(screen: &mut Screen, endpoint: &Endpoint) -> io::Result<()> {
    screen.pairs([
        ("endpoint", Field::painted(&endpoint.id, Paint::Strong)),
        ("state", state(endpoint)),
        ("company", Field::from(&endpoint.company_id)),
        ("url", Field::from(&endpoint.url)),
        ("events", events(endpoint)),
        ("description", Field::if_any(endpoint.description.as_ref())),
        ("failures", Field::from(endpoint.consecutive_failures)),
        ("off since", Field::if_any(endpoint.disabled_at)),
        ("why off", Field::if_any(endpoint.disabled_reason.as_ref())),
        ("old secret until", Field::if_any(endpoint.secret_rotating_until)),
        ("created", Field::from(endpoint.created_at)),
        ("changed", Field::from(endpoint.updated_at)),
        ("secret", Field::if_any(endpoint.secret.as_ref().map(Secret::reveal))),
    ])?;
    if endpoint.secret.is_some() {
        screen.line("\nKeep the secret now: it is not shown again.")?;
    }
    Ok(())
}

async fn test(args: EndpointArgs, screen: &mut Screen) -> Done {
    let tested = args.ask.client()?.test_endpoint(&args.id).await?;
    args.ask.show(screen, &tested, |screen, tested| {
        if !tested.ok {
            return Ok(());
        }
        let took = tested.took_ms.map(|took| format!(" in {took}ms")).unwrap_or_default();
        let status = tested.status.unwrap_or_default();
        screen.line(format_args!("{} {status}{took}", screen.painted(Paint::Good, "answered")))
    })?;
    if tested.ok {
        return Ok(());
    }
    let code = tested.error_code.as_deref().map(|code| format!("{code} ")).unwrap_or_default();
    let reason = tested.error_reason.as_deref().unwrap_or("it did not say why");
    Err(Stop::Failed(format!("endpoint {} did not take it: {code}{reason}", args.id)))
}
