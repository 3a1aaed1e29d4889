//! `recado tenants`.

use std::io;

use clap::{Args, Subcommand};
use recado_core::{CompanyId, RouteName};
use recado_terminal::{Field, Paint, Screen};
use recado_wire::tenants::{Tenant, TenantChange, TenantQuery, TenantRoute, WEIGHT_MAX};

use crate::delivery::jobs::{company, route};
use crate::delivery::timeline::waits_for;
use crate::{Done, ServerArgs, Stop};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "EXAMPLES:\n  recado tenants\n  recado tenants --route email\n  recado tenants set acme --weight 3"
)]
pub struct TenantsArgs {
    #[command(subcommand)]
    command: Option<TenantsCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum TenantsCommand {
    /// List tenants: counts, turns, and why each waits.
    #[command(after_help = "EXAMPLES:\n  recado tenants list --route email")]
    List(ListArgs),
    /// Show one tenant on each of its routes.
    #[command(after_help = "EXAMPLES:\n  recado tenants show acme")]
    Show(OneArgs),
    /// Say how a tenant is treated; what is not named stays.
    #[command(
        after_help = "EXAMPLES:\n  recado tenants set acme --weight 3\n  recado tenants set acme --max-per-minute 60\n  recado tenants set acme --max-per-minute none --resume"
    )]
    Set(SetArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only this tenant.
    #[arg(long, value_name = "ID", value_parser = company)]
    company: Option<CompanyId>,
    /// Only what concerns this route.
    #[arg(long, value_name = "ROUTE", value_parser = route)]
    route: Option<RouteName>,
    /// Tenants on a page, up to 1000.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Cursor at the end of the page before.
    #[arg(long)]
    cursor: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
struct OneArgs {
    /// The tenant.
    company: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
struct SetArgs {
    /// The tenant.
    company: String,
    /// Its turn is this many times as long.
    #[arg(long, value_name = "1-100", value_parser = clap::value_parser!(u32).range(1..=i64::from(WEIGHT_MAX)))]
    weight: Option<u32>,
    /// Deliveries at most that start in a minute; or none.
    #[arg(long, value_name = "COUNT|none", value_parser = bound)]
    max_per_minute: Option<Bound>,
    /// Let its jobs wait; they spend no attempt.
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Let it go on.
    #[arg(long)]
    resume: bool,
    /// Reason, for the next operator.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// A bound, or that there is none. Not an `Option`: that would be one that may be left out.
#[derive(Clone, Copy, Debug)]
struct Bound(Option<u32>);

fn bound(text: &str) -> Result<Bound, String> {
    match text.parse() {
        _ if text == "none" => Ok(Bound(None)),
        Ok(count) if count > 0 => Ok(Bound(Some(count))),
        _ => Err("write 1 or more, or none".to_owned()),
    }
}

pub async fn run(args: TenantsArgs, screen: &mut Screen) -> Done {
    match args.command {
        None => list(args.list, screen).await,
        Some(TenantsCommand::List(args)) => list(args, screen).await,
        Some(TenantsCommand::Show(args)) => {
            let tenant = args.server.client()?.tenant(&args.company).await?;
            show(screen, &tenant, args.json)
        }
        Some(TenantsCommand::Set(args)) => set(args, screen).await,
    }
}

async fn list(args: ListArgs, screen: &mut Screen) -> Done {
    let query = TenantQuery {
        company_id: args.company,
        route: args.route,
        limit: Some(args.limit),
        cursor: args.cursor,
    };
    let list = args.server.client()?.tenants(&query).await?;
    if args.json {
        screen.json(&list)?;
    } else {
        let heads = [
            "company",
            "state",
            "weight",
            "queued",
            "delayed",
            "delivering",
            "dead",
            "processed",
            "last",
            "rounds",
            "priority",
            "in a row",
            "why",
        ];
        screen.table(&heads, list.items.iter().map(row).collect())?;
        if let Some(cursor) = list.next_cursor {
            screen.line(format_args!("\nThere is more: --cursor {cursor}"))?;
        }
    }
    Ok(())
}

async fn set(args: SetArgs, screen: &mut Screen) -> Done {
    let change = TenantChange {
        weight: args.weight,
        max_per_minute: args.max_per_minute.map(|Bound(max)| max),
        paused: (args.pause || args.resume).then_some(args.pause),
        reason: args.reason,
    };
    if (change.weight, change.max_per_minute, change.paused) == (None, None, None) {
        return Err(Stop::Usage(
            "nothing to change; name --weight, --max-per-minute, --pause or --resume".to_owned(),
        ));
    }
    let tenant = args.server.client()?.set_tenant(&args.company, &change).await?;
    show(screen, &tenant, args.json)
}

fn state(tenant: &Tenant) -> Field {
    if tenant.paused { Field::painted("paused", Paint::Warn) } else { Field::or_dash(None::<&str>) }
}

fn row(tenant: &Tenant) -> Vec<Field> {
    let stats = &tenant.stats;
    vec![
        Field::from(&tenant.company_id),
        state(tenant),
        Field::from(tenant.weight),
        Field::from(stats.queued),
        Field::from(stats.delayed),
        Field::from(stats.delivering),
        Field::from(tenant.dead),
        Field::from(stats.total_processed),
        Field::time_or_dash(stats.last_processed_at),
        Field::from(stats.rounds_without_processing),
        Field::from(stats.current_priority),
        Field::from(stats.consecutive_batch_count),
        Field::or_dash(stats.waiting_for.as_ref().map(waits_for)),
    ]
}

fn route_row(on: &TenantRoute) -> Vec<Field> {
    let stats = &on.stats;
    vec![
        Field::from(&on.route),
        Field::from(stats.queued),
        Field::from(stats.delayed),
        Field::from(stats.delivering),
        Field::from(stats.total_processed),
        Field::time_or_dash(stats.last_processed_at),
        Field::from(stats.rounds_without_processing),
        Field::from(stats.current_priority),
        Field::from(stats.consecutive_batch_count),
        Field::or_dash(stats.waiting_for.as_ref().map(waits_for)),
    ]
}

fn show(screen: &mut Screen, tenant: &Tenant, json: bool) -> Done {
    if json {
        screen.json(tenant)?;
        return Ok(());
    }
    Ok(facts(screen, tenant)?)
}

fn facts(screen: &mut Screen, tenant: &Tenant) -> io::Result<()> {
    let mut facts = vec![
        ("company", Field::painted(&tenant.company_id, Paint::Strong)),
        ("weight", Field::from(tenant.weight)),
        ("a minute", Field::or_dash(tenant.max_per_minute)),
    ];
    facts.extend(tenant.paused.then(|| ("state", state(tenant))));
    facts.extend(tenant.paused_since.map(|at| ("paused since", Field::from(at))));
    facts.extend(tenant.paused_reason.as_ref().map(|reason| ("paused because", Field::from(reason))));
    facts.extend(tenant.paused_by.as_ref().map(|actor| ("paused by", Field::from(actor))));
    facts.push(("dead", Field::from(tenant.dead)));
    facts.extend(tenant.stats.waiting_for.as_ref().map(|why| ("waits", Field::from(waits_for(why)))));
    screen.pairs(facts)?;
    if tenant.routes.is_empty() {
        return Ok(());
    }
    screen.line("")?;
    let heads = [
        "route",
        "queued",
        "delayed",
        "delivering",
        "processed",
        "last",
        "rounds",
        "priority",
        "in a row",
        "why",
    ];
    screen.table(&heads, tenant.routes.iter().map(route_row).collect())
}
