//! `recado jobs`.

use clap::{Args, Subcommand};
use recado_core::{CompanyId, RouteName, Status};
use recado_terminal::{Field, Screen};
use recado_wire::audit::AuditItem;
use recado_wire::jobs::{JobQuery, JobView};
use recado_wire::word_of;

use crate::delivery::timeline;
use crate::{Done, ServerArgs};

#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// List jobs, newest first.
    #[command(
        after_help = "EXAMPLES:\n  recado jobs list --status retrying --company acme\n  recado jobs list --json | jq '.items[].jobId'"
    )]
    List(ListArgs),
    /// Show one job with every attempt.
    #[command(after_help = "EXAMPLES:\n  recado jobs show order-1042")]
    Show(OneArgs),
    /// Stop a job that has not been sent.
    #[command(after_help = "EXAMPLES:\n  recado jobs cancel order-1042")]
    Cancel(OneArgs),
    /// Show everything on record about one job.
    #[command(after_help = "EXAMPLES:\n  recado jobs audit order-1042 --json")]
    Audit(OneArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
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
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub struct OneArgs {
    /// The job's id.
    job_id: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(command: JobsCommand, screen: &mut Screen) -> Done {
    match command {
        JobsCommand::List(args) => list(args, screen).await,
        JobsCommand::Show(args) => {
            let job = args.server.client()?.job(&args.job_id).await?;
            if args.json {
                screen.json(&job)?
            } else {
                timeline::show(screen, &job)?
            }
            Ok(())
        }
        JobsCommand::Cancel(args) => {
            let cancelled = args.server.client()?.cancel(&args.job_id).await?;
            if args.json {
                screen.json(&cancelled)?
            } else {
                screen.line(format_args!("{} {}", cancelled.job_id, cancelled.status))?
            }
            Ok(())
        }
        JobsCommand::Audit(args) => {
            let trail = args.server.client()?.audit(&args.job_id).await?;
            if args.json {
                screen.json(&trail)?;
            } else {
                let heads = ["time", "event", "attempt", "class", "retry", "next", "rule", "by", "reason"];
                screen.table(&heads, trail.items.iter().map(audit_row).collect())?;
            }
            Ok(())
        }
    }
}

async fn list(args: ListArgs, screen: &mut Screen) -> Done {
    let query = JobQuery {
        status: args.status,
        company_id: args.company,
        route: args.route,
        correlation_id: args.correlation_id,
        limit: Some(args.limit),
        cursor: args.cursor,
    };
    let page = args.server.client()?.jobs(&query).await?;
    if args.json {
        screen.json(&page)?;
        return Ok(());
    }
    let heads = ["job", "status", "route", "company", "attempts", "enqueued", "next attempt", "last error"];
    screen.table(&heads, page.items.iter().map(row).collect())?;
    if let Some(cursor) = page.next_cursor {
        screen.line(format_args!("\nThere is more: --cursor {cursor}"))?;
    }
    Ok(())
}

fn row(job: &JobView) -> Vec<Field> {
    let last = job.attempts.last().filter(|_| job.status != Status::Sent);
    let error = last.and_then(|attempt| {
        let reason = attempt.error_reason.as_deref()?;
        Some(match attempt.error_code.as_deref() {
            Some(code) => format!("{code} {reason}"),
            None => reason.to_owned(),
        })
    });
    vec![
        Field::from(&job.job_id),
        Field::painted(job.status, timeline::status_paint(job.status)),
        Field::from(&job.route),
        Field::from(&job.company_id),
        Field::from(job.attempts.len()),
        Field::time(job.times.enqueued_at),
        Field::time_or_dash(job.wait.next_attempt_at),
        Field::or_dash(error),
    ]
}

fn audit_row(item: &AuditItem) -> Vec<Field> {
    vec![
        Field::time(item.timestamp),
        Field::from(word_of(item.event).to_lowercase()),
        Field::or_dash(item.attempt),
        Field::or_dash(item.retry.error_classification.map(|class| class.as_str())),
        Field::or_dash(item.retry.should_retry.map(|retry| if retry { "yes" } else { "no" })),
        Field::time_or_dash(item.retry.next_retry_time),
        Field::or_dash(item.rule.as_deref()),
        Field::or_dash(item.actor.as_deref()),
        Field::or_dash(item.retry.retry_reason.as_deref().or(item.retry.error_message.as_deref())),
    ]
}

fn status(text: &str) -> Result<Status, String> {
    Status::parse(text).ok_or_else(|| format!("write one of {}", Status::ALL.map(Status::as_str).join(", ")))
}

pub fn company(text: &str) -> Result<CompanyId, String> {
    CompanyId::new(text).map_err(|error| error.to_string())
}

pub fn route(text: &str) -> Result<RouteName, String> {
    RouteName::new(text).map_err(|error| error.to_string())
}
