//! `recado dlq`.

mod archive;
mod bulk;

use clap::{Args, Subcommand, ValueEnum};
use recado_core::reason::clip;
use recado_core::words::counted;
use recado_core::{CompanyId, DeadLetterState, RouteName, Timestamp};
use recado_terminal::{Field, Paint, Screen, clean_lines};
use recado_wire::dlq::{
    DeadLetter, DeadLetterFilter, DeadLetterQuery, DeadLetterStatsQuery, DeadLetterTimes, GroupBy,
};

use crate::delivery::jobs::{company, route};
use crate::delivery::timeline;
use crate::{Done, ServerArgs};

/// Bytes at most of a reason in a list.
const REASON_SHOWN_MAX_BYTES: usize = 120;

#[derive(Debug, Subcommand)]
pub enum DlqCommand {
    /// List dead letters, newest first.
    #[command(
        after_help = "EXAMPLES:\n  recado dlq list --code 550\n  recado dlq list --reason quota --since 2026-01-31T00:00:00Z --json"
    )]
    List(ListArgs),
    /// Show one dead letter with its data and every attempt.
    #[command(after_help = "EXAMPLES:\n  recado dlq show order-1042")]
    Show(ShowArgs),
    /// Count dead letters over the whole queue.
    #[command(after_help = "EXAMPLES:\n  recado dlq stats\n  recado dlq stats --by company --route email")]
    Stats(StatsArgs),
    /// Give dead letters another chance; each leaves the queue when it is sent.
    #[command(
        after_help = "EXAMPLES:\n  recado dlq replay order-1042 --note 'domain verified'\n  recado dlq replay order-1042 --data @corrected.json\n  recado dlq replay order-1042 --original\n  recado dlq replay --company acme --code 421 --dry-run\n  recado dlq replay --code MailFromDomainNotVerified --canary 3 --rate 20 --yes"
    )]
    Replay(bulk::ReplayArgs),
    /// Give dead letters up for good.
    #[command(
        after_help = "EXAMPLES:\n  recado dlq discard order-1042 --reason 'customer cancelled'\n  recado dlq discard --company acme --until 2026-01-31T00:00:00Z --reason 'customer left' --yes"
    )]
    Discard(bulk::DiscardArgs),
    /// Look at bulk replays and discards, or stop one.
    #[command(after_help = "EXAMPLES:\n  recado dlq bulk\n  recado dlq bulk rpl_0197 --stop")]
    Bulk(bulk::BulkArgs),
    /// Write dead letters out, as lines of JSON or as a table.
    #[command(
        after_help = "EXAMPLES:\n  recado dlq export --out dlq.ndjson\n  recado dlq export --format csv --company acme > acme.csv"
    )]
    Export(archive::ExportArgs),
    /// Bring archived or exported dead letters back. Twice is harmless.
    ///
    /// No other entry is pushed out: lines that find the queue full are refused, and come back when the file is imported
    /// again once there is room. What was discarded since comes back from an export, not from the archive.
    #[command(
        after_help = "EXAMPLES:\n  recado dlq import recado-data/dlq-archive/2026-11.ndjson\n  recado dlq export --out dlq.ndjson && recado dlq import dlq.ndjson"
    )]
    Import(archive::ImportArgs),
}

/// Which dead letters are meant.
#[derive(Debug, Args)]
struct Filters {
    /// Only those of this tenant.
    #[arg(long, value_name = "ID", value_parser = company)]
    company: Option<CompanyId>,
    /// Only those of this route.
    #[arg(long, value_name = "ROUTE", value_parser = route)]
    route: Option<RouteName>,
    /// Only those whose last failure has this code.
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Only those whose reason contains this.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only those that failed alike.
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<String>,
    /// Only those moved here at or after this time.
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Only those moved here before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    filters: Filters,
    /// Entries on a page, up to 1000.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
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
pub struct ShowArgs {
    /// The job's id.
    job_id: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    #[value(alias = "lastFailureCode")]
    Code,
    #[value(alias = "companyId")]
    Company,
    Route,
    Fingerprint,
}

#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Count by this field.
    #[arg(long, value_enum, default_value_t = By::Code)]
    by: By,
    /// Only those of this tenant.
    #[arg(long, value_name = "ID", value_parser = company)]
    company: Option<CompanyId>,
    /// Only those of this route.
    #[arg(long, value_name = "ROUTE", value_parser = route)]
    route: Option<RouteName>,
    /// Only those moved here at or after this time.
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Only those moved here before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(command: DlqCommand, screen: &mut Screen) -> Done {
    match command {
        DlqCommand::List(args) => list(args, screen).await,
        DlqCommand::Show(args) => {
            let entry = args.server.client()?.dead_letter(&args.job_id).await?;
            if args.json {
                screen.json(&entry)?
            } else {
                show(screen, &entry)?
            }
            Ok(())
        }
        DlqCommand::Stats(args) => stats(args, screen).await,
        DlqCommand::Replay(args) => bulk::replay(args, screen).await,
        DlqCommand::Discard(args) => bulk::discard(args, screen).await,
        DlqCommand::Bulk(args) => bulk::bulk(args, screen).await,
        DlqCommand::Export(args) => archive::export(args, screen).await,
        DlqCommand::Import(args) => archive::import(args, screen).await,
    }
}

impl From<Filters> for DeadLetterFilter {
    fn from(filters: Filters) -> Self {
        let Filters { company, route, code, reason, fingerprint, since, until } = filters;
        DeadLetterFilter {
            company_id: company,
            route,
            last_failure_code: code,
            reason,
            fingerprint,
            since,
            until,
        }
    }
}

async fn list(args: ListArgs, screen: &mut Screen) -> Done {
    let query = DeadLetterQuery { filter: args.filters.into(), limit: Some(args.limit), cursor: args.cursor };
    let page = args.server.client()?.dead_letters(&query).await?;
    if args.json {
        screen.json(&page)?;
        return Ok(());
    }
    let heads = ["job", "state", "route", "company", "cause", "attempts", "moved", "code", "reason"];
    screen.table(&heads, page.items.iter().map(row).collect())?;
    if let Some(cursor) = page.next_cursor {
        screen.line(format_args!("\nThere is more: --cursor {cursor}"))?;
    }
    Ok(())
}

fn state(entry: &DeadLetter) -> Field {
    match entry.state {
        DeadLetterState::Dead => Field::painted("dead", Paint::Bad),
        DeadLetterState::Replaying => Field::painted("replaying", Paint::Warn),
    }
}

fn row(entry: &DeadLetter) -> Vec<Field> {
    let failure = &entry.last_failure;
    vec![
        Field::from(&entry.job_id),
        state(entry),
        Field::from(&entry.route),
        Field::from(&entry.company_id),
        Field::from(entry.cause.as_str()),
        Field::from(failure.failed_attempts),
        Field::time(entry.times.moved_to_dlq_at),
        Field::or_dash(failure.last_failure_code.as_deref()),
        Field::from(clip(&failure.last_failure_reason, REASON_SHOWN_MAX_BYTES)),
    ]
}

fn show(screen: &mut Screen, entry: &DeadLetter) -> std::io::Result<()> {
    let DeadLetterTimes { enqueued_at, moved_to_dlq_at, ttl } = entry.times;
    let failure = &entry.last_failure;
    let mut facts = vec![
        ("job", Field::painted(&entry.job_id, Paint::Strong)),
        ("state", state(entry)),
        ("cause", Field::from(entry.cause.as_str())),
        ("reason", Field::from(&failure.last_failure_reason)),
        ("code", Field::or_dash(failure.last_failure_code.as_deref())),
        ("class", Field::from(failure.error_classification.as_str())),
        ("route", Field::from(&entry.route)),
        ("company", Field::from(&entry.company_id)),
        ("enqueued", Field::from(enqueued_at)),
        ("moved", Field::from(moved_to_dlq_at)),
        ("kept until", Field::from(moved_to_dlq_at.plus(std::time::Duration::from_millis(ttl)))),
        ("fingerprint", Field::from(&entry.fingerprint)),
    ];
    facts.extend(entry.arrival.advice.as_ref().map(|words| ("beware", Field::painted(words, Paint::Warn))));
    facts.extend(entry.user_id.as_ref().map(|user| ("user", Field::from(user))));
    facts.extend(entry.correlation_id.as_ref().map(|id| ("correlation", Field::from(id))));
    facts.extend(entry.damage.as_ref().map(|what| ("damaged", Field::painted(what, Paint::Bad))));
    facts.push(("data", Field::from(entry.original_data.as_str())));
    let corrected = entry.corrected_data.as_ref().map(|data| data.as_str());
    facts.extend(corrected.map(|data| ("corrected", Field::painted(data, Paint::Warn))));
    screen.pairs(facts)?;
    if let Some(trace) = &failure.stack_trace {
        screen.line(format_args!("\n{}", clean_lines(trace)))?;
    }
    screen.line("")?;
    timeline::attempts(screen, &entry.attempts)?;
    let attempts = counted(failure.failed_attempts.into(), "attempt", "attempts");
    screen.line(format_args!("╰─ failed for good after {attempts}"))
}

async fn stats(args: StatsArgs, screen: &mut Screen) -> Done {
    let by = match args.by {
        By::Code => GroupBy::LastFailureCode,
        By::Company => GroupBy::CompanyId,
        By::Route => GroupBy::Route,
        By::Fingerprint => GroupBy::Fingerprint,
    };
    let query = DeadLetterStatsQuery {
        by: Some(by),
        company_id: args.company,
        route: args.route,
        since: args.since,
        until: args.until,
    };
    let stats = args.server.client()?.dead_letter_stats(&query).await?;
    if args.json {
        screen.json(&stats)?;
        return Ok(());
    }
    let head = match args.by {
        By::Code => "code",
        By::Company => "company",
        By::Route => "route",
        By::Fingerprint => "fingerprint",
    };
    let share = |count: u64| format!("{:.1}%", 100.0 * count as f64 / stats.total.max(1) as f64);
    let rows = stats.items.iter().map(|group| {
        let example = clip(&group.example_reason, REASON_SHOWN_MAX_BYTES);
        vec![
            Field::or_dash(group.key.as_deref()),
            Field::from(group.count),
            Field::from(share(group.count)),
            Field::from(example),
        ]
    });
    screen.table(&[head, "count", "share", "for example"], rows.collect())?;
    let lately = |hours: usize| stats.per_hour.iter().rev().take(hours).map(|hour| hour.count).sum::<u64>();
    screen.line(format_args!(
        "\n{} in all; {} came this hour, {} in the last 24",
        stats.total,
        lately(1),
        lately(24)
    ))?;
    Ok(())
}
