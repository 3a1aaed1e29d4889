//! `recado endpoints`.

use std::io;

use clap::{Args, Subcommand};
use recado_core::CompanyId;
use recado_terminal::{Field, Paint, Screen, clean};
use recado_wire::PAGE_ITEMS_MAX;
use recado_wire::endpoints::{
    Endpoint, EndpointChange, EndpointList, EndpointQuery, EndpointRequest, EndpointTested, Secret,
};

use super::jobs::company;
use super::{Done, ServerArgs, Stop};

#[derive(Debug, Subcommand)]
pub enum EndpointsCommand {
    /// List endpoints, oldest first.
    #[command(after_help = "EXAMPLES:\n  recado endpoints list --company acme")]
    List(ListArgs),
    /// Add an endpoint and show its secret, this once.
    #[command(
        after_help = "EXAMPLES:\n  recado endpoints add --company acme --to https://example.com/hooks --event JobSent,JobFailed"
    )]
    Add(AddArgs),
    /// Show one endpoint.
    #[command(after_help = "EXAMPLES:\n  recado endpoints show ep_0197")]
    Show(OneArgs),
    /// Change an endpoint; what is not named stays.
    #[command(
        after_help = "EXAMPLES:\n  recado endpoints set ep_0197 --to https://example.com/new\n  recado endpoints set ep_0197 --event all\n  recado endpoints set ep_0197 --off"
    )]
    Set(SetArgs),
    /// Switch an endpoint on again, with no failures to its name.
    #[command(after_help = "EXAMPLES:\n  recado endpoints enable ep_0197")]
    Enable(OneArgs),
    /// Post a signed test at once; fails unless the receiver says yes.
    #[command(after_help = "EXAMPLES:\n  recado endpoints test ep_0197")]
    Test(OneArgs),
    /// Remove an endpoint.
    #[command(after_help = "EXAMPLES:\n  recado endpoints remove ep_0197")]
    Remove(OneArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only those of this tenant.
    #[arg(long, value_name = "ID", value_parser = company)]
    company: Option<CompanyId>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub struct AddArgs {
    /// Tenant whose events it hears.
    #[arg(long, value_name = "ID")]
    company: String,
    /// URL of the receiver.
    #[arg(long, value_name = "ADDRESS")]
    to: String,
    /// Events it hears, separated by commas [default: all].
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',')]
    event: Vec<String>,
    /// A secret of your own, whsec_… or @file [default: drawn].
    #[arg(long, value_name = "SECRET|@FILE")]
    secret: Option<String>,
    /// Its purpose.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub struct SetArgs {
    /// The endpoint's id.
    id: String,
    /// URL of the receiver.
    #[arg(long, value_name = "ADDRESS")]
    to: Option<String>,
    /// Events it hears, separated by commas; or all.
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
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub struct OneArgs {
    /// The endpoint's id.
    id: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
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
            let endpoint = args.server.client()?.add_endpoint(&request).await?;
            show(screen, &endpoint, args.json)
        }
        EndpointsCommand::Show(args) => {
            let endpoint = args.server.client()?.endpoint(&args.id).await?;
            show(screen, &endpoint, args.json)
        }
        EndpointsCommand::Set(args) => set(args, screen).await,
        EndpointsCommand::Enable(args) => {
            let endpoint = args.server.client()?.enable_endpoint(&args.id).await?;
            show(screen, &endpoint, args.json)
        }
        EndpointsCommand::Test(args) => {
            let tested = args.server.client()?.test_endpoint(&args.id).await?;
            test(screen, &args.id, &tested, args.json)
        }
        EndpointsCommand::Remove(args) => {
            args.server.client()?.remove_endpoint(&args.id).await?;
            if args.json {
                screen.json(&serde_json::json!({ "id": args.id, "removed": true }))?;
            } else {
                screen.line(format_args!("{} removed", clean(&args.id)))?;
            }
            Ok(())
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
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Stop::Failed(format!("cannot read {path}: {error}")))?;
    Ok(Secret::new(text.trim()))
}

async fn list(args: ListArgs, screen: &mut Screen) -> Done {
    let client = args.server.client()?;
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
    if args.json {
        screen.json(&list)?;
        return Ok(());
    }
    let heads = ["endpoint", "state", "company", "url", "events", "failures", "why off"];
    screen.table(&heads, list.items.iter().map(row).collect())?;
    Ok(())
}

async fn set(args: SetArgs, screen: &mut Screen) -> Done {
    let change = EndpointChange {
        url: args.to,
        events: args.event.map(named),
        secret: args.secret.as_deref().map(secret).transpose()?,
        description: args.description,
        enabled: match (args.on, args.off) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        },
    };
    if change == EndpointChange::default() {
        return Err(Stop::Usage(
            "nothing to change; name --to, --event, --secret, --description, --on or --off".to_owned(),
        ));
    }
    let endpoint = args.server.client()?.change_endpoint(&args.id, &change).await?;
    show(screen, &endpoint, args.json)
}

fn state(endpoint: &Endpoint) -> Field {
    if endpoint.enabled { Field::painted("on", Paint::Good) } else { Field::painted("off", Paint::Bad) }
}

fn events(endpoint: &Endpoint) -> String {
    match endpoint.events.as_slice() {
        [] => "all".to_owned(),
        events => events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(","),
    }
}

fn row(endpoint: &Endpoint) -> Vec<Field> {
    vec![
        Field::from(&endpoint.id),
        state(endpoint),
        Field::from(&endpoint.company_id),
        Field::from(&endpoint.url),
        Field::from(events(endpoint)),
        Field::from(endpoint.consecutive_failures),
        Field::or_dash(endpoint.disabled_reason.as_deref()),
    ]
}

fn show(screen: &mut Screen, endpoint: &Endpoint, json: bool) -> Done {
    if json {
        screen.json(endpoint)?;
        return Ok(());
    }
    Ok(facts(screen, endpoint)?)
}

fn facts(screen: &mut Screen, endpoint: &Endpoint) -> io::Result<()> {
    let mut facts = vec![
        ("endpoint", Field::painted(&endpoint.id, Paint::Strong)),
        ("state", state(endpoint)),
        ("company", Field::from(&endpoint.company_id)),
        ("url", Field::from(&endpoint.url)),
        ("events", Field::from(events(endpoint))),
    ];
    facts.extend(endpoint.description.as_ref().map(|text| ("description", Field::from(text))));
    facts.push(("failures", Field::from(endpoint.consecutive_failures)));
    facts.extend(endpoint.disabled_at.map(|at| ("off since", Field::from(at))));
    facts.extend(endpoint.disabled_reason.as_ref().map(|why| ("why off", Field::from(why))));
    facts.extend(endpoint.secret_rotating_until.map(|at| ("old secret until", Field::from(at))));
    facts.push(("created", Field::from(endpoint.created_at)));
    facts.push(("changed", Field::from(endpoint.updated_at)));
    facts.extend(endpoint.secret.as_ref().map(|secret| ("secret", Field::from(secret.reveal()))));
    screen.pairs(facts)?;
    if endpoint.secret.is_some() {
        screen.line("\nKeep the secret now: it is not shown again.")?;
    }
    Ok(())
}

fn test(screen: &mut Screen, id: &str, tested: &EndpointTested, json: bool) -> Done {
    if json {
        screen.json(tested)?;
    } else if tested.ok {
        let took = tested.took_ms.map(|took| format!(" in {took}ms")).unwrap_or_default();
        let status = tested.status.unwrap_or_default();
        screen.line(format_args!("{} {status}{took}", screen.painted(Paint::Good, "answered")))?;
    }
    if tested.ok {
        return Ok(());
    }
    let code = tested.error_code.as_deref().map(|code| format!("{code} ")).unwrap_or_default();
    let reason = tested.error_reason.as_deref().unwrap_or("it did not say why");
    Err(Stop::Failed(format!("endpoint {id} did not take it: {code}{reason}")))
}
