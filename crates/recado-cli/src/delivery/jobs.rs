//! `recado jobs`.

use clap::{Args, Subcommand};
use recado_core::{CompanyId, RouteName, Status};
use recado_terminal::{Column, Field, Screen};
use recado_wire::audit::AuditItem;
use recado_wire::jobs::{JobQuery, JobView};
use recado_wire::word_of;

use crate::delivery::timeline;
use crate::{AskArgs, Done, show_cursor};

#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// List jobs, newest first.
    #[command(
        after_help = "EXAMPLES:\n  recado jobs list --status retrying --company acme\n  recado jobs list --json | jq '.items[].jobId'"
    )]
    List(JobListArgs),
    /// Show one job with every attempt.
    #[command(after_help = "EXAMPLES:\n  recado jobs show order-1042")]
    Show(JobArgs),
    /// Stop a job that has not been sent.
    #[command(after_help = "EXAMPLES:\n  recado jobs cancel order-1042")]
    Cancel(JobArgs),
    /// Show everything on record about one job.
    #[command(after_help = "EXAMPLES:\n  recado jobs audit order-1042 --json")]
    Audit(JobArgs),
}

#[derive(Debug, Args)]
pub struct JobListArgs {
    /// Only jobs in this state.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<Status>,
    /// Only jobs of this tenant.
    #[arg(long, value_name = "ID", value_parser = company)]
    company: Option<CompanyId>,
    /// Only jobs of this route.
    #[arg(long, value_name = "ROUTE", value_parser = route)]
    route: Option<RouteName>,
    /// Only jobs with this correlation id.
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Jobs on a page, up to 1000.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Cursor at the end of the page before.
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

/// One job.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// The job's id.
    pub job_id: String,
    #[command(flatten)]
    pub ask: AskArgs,
}

pub async fn run(command: JobsCommand, screen: &mut Screen) -> Done {
    match command {
        JobsCommand::List(args) => list(args, screen).await,
        JobsCommand::Show(JobArgs { job_id, ask }) => {
            ask.show(screen, &ask.client()?.job(&job_id).await?, timeline::show)
        }
        JobsCommand::Cancel(JobArgs { job_id, ask }) => {
            let cancelled = ask.client()?.cancel(&job_id).await?;
            ask.show(screen, &cancelled, |screen, it| {
                screen.line(format_args!("{} {}", it.job_id, it.status))
            })
        }
        JobsCommand::Audit(JobArgs { job_id, ask }) => {
            let trail = ask.client()?.audit(&job_id).await?;
            ask.show(screen, &trail, |screen, trail| screen.table(&trail.items, AUDIT_COLUMNS))
        }
    }
}

async fn list(args: JobListArgs, screen: &mut Screen) -> Done {
    let query = JobQuery {
        status: args.status,
        company_id: args.company,
        route: args.route,
        correlation_id: args.correlation_id,
        limit: Some(args.limit),
        cursor: args.cursor,
    };
    let page = args.ask.client()?.jobs(&query).await?;
    args.ask.show(screen, &page, |screen, page| {
        screen.table(&page.items, COLUMNS)?;
        show_cursor(screen, page.next_cursor.as_ref())
    })
}

const COLUMNS: &[Column<JobView>] = &[
    ("job", |job| Field::from(&job.job_id)),
    ("status", |job| Field::painted(job.status, timeline::status_paint(job.status))),
    ("route", |job| Field::from(&job.route)),
    ("company", |job| Field::from(&job.company_id)),
    ("attempts", |job| Field::from(job.attempts.len())),
    ("enqueued", |job| Field::time(job.times.enqueued_at)),
    ("next attempt", |job| Field::time_or_dash(job.wait.next_attempt_at)),
    ("last error", |job| Field::or_dash(last_error(job))),
];

fn last_error(job: &JobView) -> Option<String> {
    let last = job.attempts.last().filter(|_| job.status != Status::Sent)?;
    let reason = last.error_reason.as_deref()?;
    Some(match last.error_code.as_deref() {
        Some(code) => format!("{code} {reason}"),
        None => reason.to_owned(),
    })
}

const AUDIT_COLUMNS: &[Column<AuditItem>] = &[
    ("time", |item| Field::time(item.timestamp)),
    ("event", |item| Field::from(word_of(item.event).to_lowercase())),
    ("attempt", |item| Field::or_dash(item.attempt)),
    ("class", |item| Field::or_dash(item.retry.error_classification.map(|class| class.as_str()))),
    ("retry", |item| Field::or_dash(item.retry.should_retry.map(|retry| if retry { "yes" } else { "no" }))),
    ("next", |item| Field::time_or_dash(item.retry.next_retry_time)),
    ("rule", |item| Field::or_dash(item.rule.as_ref())),
    ("by", |item| Field::or_dash(item.actor.as_ref())),
    ("reason", |item| {
        Field::or_dash(item.retry.retry_reason.as_deref().or(item.retry.error_message.as_deref()))
    }),
];

fn status(text: &str) -> Result<Status, String> {
    Status::parse(text).ok_or_else(|| format!("write one of {}", Status::ALL.map(Status::as_str).join(", ")))
}

pub fn company(text: &str) -> Result<CompanyId, String> {
    CompanyId::new(text).map_err(|error| error.to_string())
}

pub fn route(text: &str) -> Result<RouteName, String> {
    RouteName::new(text).map_err(|error| error.to_string())
}
