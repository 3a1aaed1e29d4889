//! `recado dlq`.

mod archive;
mod bulk;

use clap::{Args, Subcommand, ValueEnum};
use recado_core::dead_letter::GroupBy;
use recado_core::reason::clip;
use recado_core::words::counted;
use recado_core::{CompanyId, DeadLetterState, RouteName, Timestamp};
use recado_terminal::{Column, Field, Paint, Screen, clean_lines};
use recado_wire::dlq::{
    DeadLetter, DeadLetterFilter, DeadLetterQuery, DeadLetterStats, DeadLetterStatsQuery, DeadLetterTimes,
};

use crate::delivery::jobs::{JobArgs, company, route};
use crate::delivery::timeline;
use crate::{AskArgs, Done, show_cursor};

/// Bytes at most of a reason in a list.
const REASON_SHOWN_MAX_BYTES: usize = 120;

#[derive(Debug, Subcommand)]
pub enum DlqCommand {
    /// List dead letters, newest first.
    #[command(
        after_help = "EXAMPLES:\n  recado dlq list --code 550\n  recado dlq list --reason quota --since 2026-01-31T00:00:00Z --json"
    )]
    List(DlqListArgs),
    /// Show one dead letter with its data and every attempt.
    #[command(after_help = "EXAMPLES:\n  recado dlq show order-1042")]
    Show(JobArgs),
    /// Count dead letters over the whole queue.
    #[command(after_help = "EXAMPLES:\n  recado dlq stats\n  recado dlq stats --by company --route email")]
    Stats(StatsArgs),
    /// Replay dead letters; each leaves the queue once sent.
    #[command(
        after_help = "EXAMPLES:\n  recado dlq replay order-1042 --note 'domain verified'\n  recado dlq replay order-1042 --data @corrected.json\n  recado dlq replay order-1042 --original\n  recado dlq replay --company acme --code 421 --dry-run\n  recado dlq replay --code MailFromDomainNotVerified --canary 3 --rate 20 --yes"
    )]
    Replay(bulk::ReplayArgs),
    /// Discard dead letters permanently.
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
    Export(archive::DlqExportArgs),
    /// Bring archived or exported dead letters back. Importing a file twice is harmless.
    ///
    /// No other entry is pushed out: lines that find the queue full are refused, and come back when the file is imported
    /// again once there is room. Entries discarded since can come back from an export, not from the archive.
    #[command(
        after_help = "EXAMPLES:\n  recado dlq import recado-data/dlq-archive/2026-11.ndjson\n  recado dlq export --out dlq.ndjson && recado dlq import dlq.ndjson"
    )]
    Import(archive::ImportArgs),
}

/// Filters without `--reason`, which `discard` uses for the audit note.
#[derive(Debug, Args)]
struct DlqFilterArgs {
    /// Only those of this tenant.
    #[arg(long, value_name = "ID", value_parser = company)]
    company: Option<CompanyId>,
    /// Only those of this route.
    #[arg(long, value_name = "ROUTE", value_parser = route)]
    route: Option<RouteName>,
    /// Only those whose last failure has this code.
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Only entries with this failure fingerprint.
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
struct SearchArgs {
    #[command(flatten)]
    filters: DlqFilterArgs,
    /// Only those whose reason contains this.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct DlqListArgs {
    #[command(flatten)]
    search: SearchArgs,
    /// Entries on a page, up to 1000.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Cursor at the end of the page before.
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
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
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(command: DlqCommand, screen: &mut Screen) -> Done {
    match command {
        DlqCommand::List(args) => list(args, screen).await,
        DlqCommand::Show(JobArgs { job_id, ask }) => {
            ask.show(screen, &ask.client()?.dead_letter(&job_id).await?, show)
        }
        DlqCommand::Stats(args) => stats(args, screen).await,
        DlqCommand::Replay(args) => bulk::replay(args, screen).await,
        DlqCommand::Discard(args) => bulk::discard(args, screen).await,
        DlqCommand::Bulk(args) => bulk::bulk(args, screen).await,
        DlqCommand::Export(args) => archive::export(args, screen).await,
        DlqCommand::Import(args) => archive::import(args, screen).await,
    }
}

impl DlqFilterArgs {
    fn with_reason(self, reason: Option<String>) -> DeadLetterFilter {
        let DlqFilterArgs { company, route, code, fingerprint, since, until } = self;
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

impl From<SearchArgs> for DeadLetterFilter {
    fn from(search: SearchArgs) -> Self {
        search.filters.with_reason(search.reason)
    }
}

async fn list(args: DlqListArgs, screen: &mut Screen) -> Done {
    let query = DeadLetterQuery { filter: args.search.into(), limit: Some(args.limit), cursor: args.cursor };
    let page = args.ask.client()?.dead_letters(&query).await?;
    args.ask.show(screen, &page, |screen, page| {
        screen.table(&page.items, COLUMNS)?;
        show_cursor(screen, page.next_cursor.as_ref())
    })
}

fn state(entry: &DeadLetter) -> Field {
    match entry.state {
        DeadLetterState::Dead => Field::painted("dead", Paint::Bad),
        DeadLetterState::Replaying => Field::painted("replaying", Paint::Warn),
    }
}

const COLUMNS: &[Column<DeadLetter>] = &[
    ("job", |entry| Field::from(&entry.job_id)),
    ("state", state),
    ("route", |entry| Field::from(&entry.route)),
    ("company", |entry| Field::from(&entry.company_id)),
    ("cause", |entry| Field::from(entry.cause.as_str())),
    ("attempts", |entry| Field::from(entry.last_failure.failed_attempts)),
    ("moved", |entry| Field::time(entry.times.moved_to_dlq_at)),
    ("code", |entry| Field::or_dash(entry.last_failure.last_failure_code.as_ref())),
    ("reason", |entry| Field::from(clip(&entry.last_failure.last_failure_reason, REASON_SHOWN_MAX_BYTES))),
];

fn show(screen: &mut Screen, entry: &DeadLetter) -> std::io::Result<()> {
    let corrected = entry.corrected_data.as_ref().map(|data| data.as_str());
    let DeadLetterTimes { enqueued_at, moved_to_dlq_at, ttl } = entry.times;
    let failure = &entry.last_failure;
    screen.pairs([
        ("job", Field::painted(&entry.job_id, Paint::Strong)),
        ("state", state(entry)),
        ("cause", Field::from(entry.cause.as_str())),
        ("reason", Field::from(&failure.last_failure_reason)),
        ("code", Field::or_dash(failure.last_failure_code.as_ref())),
        ("class", Field::from(failure.error_classification.as_str())),
        ("route", Field::from(&entry.route)),
        ("company", Field::from(&entry.company_id)),
        ("enqueued", Field::from(enqueued_at)),
        ("moved", Field::from(moved_to_dlq_at)),
        ("kept until", Field::from(moved_to_dlq_at.plus(std::time::Duration::from_millis(ttl)))),
        ("fingerprint", Field::from(&entry.fingerprint)),
        ("beware", Field::if_any(entry.arrival.advice.as_ref()).with_paint(Paint::Warn)),
        ("user", Field::if_any(entry.user_id.as_ref())),
        ("correlation", Field::if_any(entry.correlation_id.as_ref())),
        ("damaged", Field::if_any(entry.damage.as_ref()).with_paint(Paint::Bad)),
        ("data", Field::from(entry.original_data.as_str())),
        ("corrected", Field::if_any(corrected).with_paint(Paint::Warn)),
    ])?;
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
        By::Company => GroupBy::Company,
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
    let stats = args.ask.client()?.dead_letter_stats(&query).await?;
    args.ask.show(screen, &stats, |screen, stats| show_stats(screen, args.by, stats))
}

fn show_stats(screen: &mut Screen, by: By, stats: &DeadLetterStats) -> std::io::Result<()> {
    let by = by.to_possible_value();
    let head = by.as_ref().map_or("", |value| value.get_name());
    let share = |count: u64| format!("{:.1}%", 100.0 * count as f64 / stats.total.max(1) as f64);
    let rows = stats.items.iter().map(|group| {
        vec![
            Field::or_dash(group.key.as_ref()),
            Field::from(group.count),
            Field::from(share(group.count)),
            Field::from(clip(&group.example_reason, REASON_SHOWN_MAX_BYTES)),
        ]
    });
    screen.rows(&[head, "count", "share", "for example"], rows.collect())?;
    let lately = |hours: usize| stats.per_hour.iter().rev().take(hours).map(|hour| hour.count).sum::<u64>();
    screen.line(format_args!(
        "\n{} in all; {} came this hour, {} in the last 24",
        stats.total,
        lately(1),
        lately(24)
    ))
}
