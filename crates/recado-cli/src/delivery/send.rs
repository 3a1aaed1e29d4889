//! `recado send`.

use std::time::Duration;

use clap::Args;
use recado_client::{Client, JobRequest};
use recado_config::units::about_duration;
use recado_core::time::millis;
use recado_core::{Status, Timestamp};
use recado_terminal::Screen;
use recado_wire::jobs::JobView;
use tokio::time::Instant;

use crate::delivery::timeline;
use crate::{AskArgs, Done, Stop, data, duration};

/// First and longest wait between two looks at a job.
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_LAST: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  recado send sandbox --company acme --data '{\"script\":[\"421 try later\",\"ok\"]}' --wait
  recado send whatsapp --company acme --data @message.json --job-id order-1042
  echo '{\"script\":[\"ok\"]}' | recado send sandbox --company acme --data - --delay 5m")]
pub struct SendArgs {
    /// Route to deliver by.
    route: String,
    /// Tenant that the job belongs to.
    #[arg(long, value_name = "ID")]
    company: String,
    /// The payload: JSON, @file or - for standard input.
    #[arg(long, value_name = "JSON|@FILE|-")]
    data: String,
    /// Your own id; the same id with the same data is delivered once.
    #[arg(long, value_name = "ID")]
    job_id: Option<String>,
    /// Earliest start, at most 366 days ahead, such as 2026-01-31T08:30:00Z.
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    run_at: Option<Timestamp>,
    /// Delay before the first attempt, such as 5m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    delay: Option<Duration>,
    /// Time to live [default: the server's, 24h].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl: Option<Duration>,
    /// 1 (most urgent) to 9, within the tenant; every tenth job is the one due longest [default: 5].
    #[arg(long, value_name = "1-9", value_parser = clap::value_parser!(u8).range(1..=9))]
    priority: Option<u8>,
    #[arg(long, value_name = "ID", help = "Correlation id, stored for searches")]
    correlation_id: Option<String>,
    #[arg(long, value_name = "ID", help = "User id, stored with the job")]
    user_id: Option<String>,
    /// Wait until it is sent or has failed, at most this long; fails unless it is sent.
    #[arg(long, value_name = "DURATION", value_parser = duration, num_args = 0..=1, require_equals = true, default_missing_value = "60s")]
    wait: Option<Duration>,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(args: SendArgs, screen: &mut Screen) -> Done {
    let client = args.ask.client()?;
    let request = JobRequest {
        job_id: args.job_id,
        user_id: args.user_id,
        correlation_id: args.correlation_id,
        run_at: args.run_at,
        delay_ms: args.delay.map(millis),
        ttl_ms: args.ttl.map(millis),
        priority: args.priority,
        ..JobRequest::new(args.route, args.company, data::read(&args.data)?)
    };
    let accepted = client.enqueue(request).await?;
    let Some(patience) = args.wait else {
        let again = if accepted.duplicate { " (it was here before)" } else { "" };
        return args.ask.show(screen, &accepted, |screen, accepted| {
            screen.line(format_args!("{} {}{again}", accepted.job_id, accepted.status))
        });
    };
    let job = wait_for_end(&client, accepted.job_id.as_str(), patience).await?;
    args.ask.show(screen, &job, timeline::show)?;
    match job.status {
        Status::Sent => Ok(()),
        Status::Failed => Err(Stop::Failed(format!(
            "it failed and is in the dead letter queue; see `recado dlq show {}`",
            job.job_id
        ))),
        Status::Cancelled | Status::Discarded => Err(Stop::Failed(format!("it was {}", job.status))),
        _ => Err(Stop::Failed(format!(
            "not finished after {}; it is still running, see `recado jobs show {}`",
            about_duration(patience),
            job.job_id
        ))),
    }
}

/// Looks until the job has ended or patience has.
async fn wait_for_end(client: &Client, job_id: &str, patience: Duration) -> Result<JobView, Stop> {
    let deadline = Instant::now() + patience;
    let mut wait = LOOK_FIRST;
    loop {
        let job = client.job(job_id).await?;
        let ended =
            matches!(job.status, Status::Sent | Status::Failed | Status::Cancelled | Status::Discarded);
        if ended || Instant::now() >= deadline {
            return Ok(job);
        }
        tokio::time::sleep_until((Instant::now() + wait).min(deadline)).await;
        wait = (wait * 2).min(LOOK_LAST);
    }
}
