//! `recado tenants`.

use std::io;

use clap::{Args, Subcommand};
use recado_core::{CompanyId, RouteName};
use recado_terminal::{Column, Field, Paint, Screen};
use recado_wire::tenants::{Tenant, TenantChange, TenantQuery, TenantRoute, WEIGHT_MAX};

use super::OrList;
use crate::delivery::jobs::{company, route};
use crate::delivery::timeline::waits_for;
use crate::{AskArgs, Done, Stop, show_cursor};

#[derive(Debug, Subcommand)]
pub enum TenantsCommand {
    /// List tenants: counts, turns, and why each waits.
    #[command(after_help = "EXAMPLES:\n  recado tenants list --route email")]
    List(TenantListArgs),
    /// Show one tenant on each of its routes.
    #[command(after_help = "EXAMPLES:\n  recado tenants show acme")]
    Show(TenantArgs),
    /// Set a tenant's weight, limit or pause; what is not named stays.
    #[command(
        after_help = "EXAMPLES:\n  recado tenants set acme --weight 3\n  recado tenants set acme --max-per-minute 60\n  recado tenants set acme --max-per-minute none --resume"
    )]
    Set(TenantSetArgs),
}

#[derive(Debug, Args)]
pub struct TenantListArgs {
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
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct TenantArgs {
    /// The tenant.
    company: String,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct TenantSetArgs {
    /// The tenant.
    company: String,
    /// Multiplies its turn: 1 is normal.
    #[arg(long, value_name = "1-100", value_parser = clap::value_parser!(u32).range(1..=i64::from(WEIGHT_MAX)))]
    weight: Option<u32>,
    /// Deliveries at most that start in a minute; or none.
    #[arg(long, value_name = "COUNT|none", value_parser = bound)]
    max_per_minute: Option<Bound>,
    /// Pause it: its jobs wait and spend no attempt.
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Resume it.
    #[arg(long)]
    resume: bool,
    /// Reason, for the next operator.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
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

pub async fn run(args: OrList<TenantsCommand, TenantListArgs>, screen: &mut Screen) -> Done {
    match args.or(TenantsCommand::List) {
        TenantsCommand::List(args) => list(args, screen).await,
        TenantsCommand::Show(TenantArgs { company, ask }) => {
            ask.show(screen, &ask.client()?.tenant(&company).await?, facts)
        }
        TenantsCommand::Set(args) => set(args, screen).await,
    }
}

async fn list(args: TenantListArgs, screen: &mut Screen) -> Done {
    let TenantListArgs { company, route, limit, cursor, ask } = args;
    let query = TenantQuery { company_id: company, route, limit: Some(limit), cursor };
    let list = ask.client()?.tenants(&query).await?;
    ask.show(screen, &list, |screen, list| {
        screen.table(&list.items, COLUMNS)?;
        show_cursor(screen, list.next_cursor.as_ref())
    })
}

async fn set(args: TenantSetArgs, screen: &mut Screen) -> Done {
    let change = TenantChange {
        weight: args.weight,
        max_per_minute: args.max_per_minute.map(|Bound(max)| max),
        paused: (args.pause || args.resume).then_some(args.pause),
        reason: args.reason,
    };
    if (change.weight, change.max_per_minute, change.paused) == (None, None, None) {
        return Err(Stop::usage("nothing to change; name --weight, --max-per-minute, --pause or --resume"));
    }
    args.ask.show(screen, &args.ask.client()?.set_tenant(&args.company, &change).await?, facts)
}

const COLUMNS: &[Column<Tenant>] = &[
    ("company", |tenant| Field::from(&tenant.company_id)),
    ("state", |tenant| match tenant.paused {
        true => Field::painted("paused", Paint::Warn),
        false => Field::dash(),
    }),
    ("weight", |tenant| Field::from(tenant.weight)),
    ("queued", |tenant| Field::from(tenant.stats.queued)),
    ("delayed", |tenant| Field::from(tenant.stats.delayed)),
    ("delivering", |tenant| Field::from(tenant.stats.delivering)),
    ("dead", |tenant| Field::from(tenant.dead)),
    ("processed", |tenant| Field::from(tenant.stats.total_processed)),
    ("last", |tenant| Field::time_or_dash(tenant.stats.last_processed_at)),
    ("rounds", |tenant| Field::from(tenant.stats.rounds_without_processing)),
    ("priority", |tenant| Field::from(tenant.stats.current_priority)),
    ("in a row", |tenant| Field::from(tenant.stats.consecutive_batch_count)),
    ("why", |tenant| Field::or_dash(tenant.stats.waiting_for.as_ref().map(waits_for))),
];

const ROUTE_COLUMNS: &[Column<TenantRoute>] = &[
    ("route", |on| Field::from(&on.route)),
    ("queued", |on| Field::from(on.stats.queued)),
    ("delayed", |on| Field::from(on.stats.delayed)),
    ("delivering", |on| Field::from(on.stats.delivering)),
    ("processed", |on| Field::from(on.stats.total_processed)),
    ("last", |on| Field::time_or_dash(on.stats.last_processed_at)),
    ("rounds", |on| Field::from(on.stats.rounds_without_processing)),
    ("priority", |on| Field::from(on.stats.current_priority)),
    ("in a row", |on| Field::from(on.stats.consecutive_batch_count)),
    ("why", |on| Field::or_dash(on.stats.waiting_for.as_ref().map(waits_for))),
];

fn facts(screen: &mut Screen, tenant: &Tenant) -> io::Result<()> {
    screen.pairs([
        ("company", Field::painted(&tenant.company_id, Paint::Strong)),
        ("weight", Field::from(tenant.weight)),
        ("a minute", Field::or_dash(tenant.max_per_minute)),
        ("state", Field::if_any(tenant.paused.then_some("paused")).with_paint(Paint::Warn)),
        ("paused since", Field::if_any(tenant.paused_since)),
        ("paused because", Field::if_any(tenant.paused_reason.as_ref())),
        ("paused by", Field::if_any(tenant.paused_by.as_ref())),
        ("dead", Field::from(tenant.dead)),
        ("waits", Field::if_any(tenant.stats.waiting_for.as_ref().map(waits_for))),
    ])?;
    if tenant.routes.is_empty() {
        return Ok(());
    }
    screen.line("")?;
    screen.table(&tenant.routes, ROUTE_COLUMNS)
}
