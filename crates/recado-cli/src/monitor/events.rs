//! `recado events`.

use std::io;

use clap::Args;
use recado_client::{EventStream, StreamItem};
use recado_core::{CompanyId, Event, EventKind, JobId, RouteName};
use recado_terminal::{Form, Paint, Screen, clean};
use recado_wire::events::{EventQuery, Gap};
use serde_json::json;

use crate::delivery::jobs::{company, route};
use crate::{AskArgs, Done, Stop};

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  recado events
  recado events --company acme --event JobFailed,token_expired
  recado events --json | jq 'select(.data.cause == \"EXHAUSTED\")'

Follows until you stop it with Ctrl-C. A lost connection is taken up again where it broke off.")]
#[command(mut_arg("json", |arg| arg.help("Print JSON, one event a line")))]
pub struct EventsArgs {
    /// Only those of this tenant.
    #[arg(long, value_name = "ID", value_parser = company)]
    company: Option<CompanyId>,
    /// Only these, separated by commas.
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',', value_parser = kind)]
    event: Vec<EventKind>,
    /// Only those of this route.
    #[arg(long, value_name = "ROUTE", value_parser = route)]
    route: Option<RouteName>,
    /// Only those about this job.
    #[arg(long, value_name = "ID", value_parser = job)]
    job: Option<JobId>,
    /// Only those with this correlation id.
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Continue after this event.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

fn kind(name: &str) -> Result<EventKind, String> {
    EventKind::parse(name.trim()).ok_or_else(|| {
        let known: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("write one or more of {}", known.join(", "))
    })
}

fn job(text: &str) -> Result<JobId, String> {
    JobId::new(text).map_err(|error| error.to_string())
}

pub async fn run(args: EventsArgs, screen: &mut Screen) -> Done {
    let query = EventQuery {
        company_id: args.company,
        events: args.event,
        route: args.route,
        job_id: args.job,
        correlation_id: args.correlation_id,
        last_event_id: args.after,
    };
    let stream = args.ask.client()?.events(query).await?;
    tokio::select! {
        done = follow(stream, args.ask.form.get(), screen) => done,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.map_err(|error| Stop::Failed(format!("cannot wait for Ctrl-C: {error}")))
        }
    }
}

async fn follow(mut stream: EventStream, form: Form, screen: &mut Screen) -> Done {
    loop {
        match (stream.next().await?, form) {
            (StreamItem::Event(event), Form::Json) => screen.json_line(&event)?,
            (StreamItem::Event(event), Form::Text) => show(screen, &event)?,
            (StreamItem::Gap(gap), Form::Json) => screen.json_line(&json!({ "gap": gap }))?,
            (StreamItem::Gap(gap), Form::Text) => show_gap(screen, &gap)?,
        }
    }
}

fn paint(kind: EventKind) -> Paint {
    match kind {
        EventKind::JobSent | EventKind::CircuitBreakerClosed | EventKind::AlertResolved => Paint::Good,
        EventKind::JobRetryScheduled | EventKind::JobReplayed | EventKind::CircuitBreakerHalfOpen => {
            Paint::Warn
        }
        EventKind::JobDiscarded => Paint::Faint,
        EventKind::JobRetryExhausted
        | EventKind::JobFailed
        | EventKind::JobExpired
        | EventKind::CircuitBreakerOpened
        | EventKind::EndpointDisabled
        | EventKind::TokenExpired
        | EventKind::AlertFired => Paint::Bad,
    }
}

/// One line: when, what, and whatever is known of these, in the order a reader asks for them.
fn show(screen: &mut Screen, event: &Event) -> io::Result<()> {
    let data = &event.data;
    let facts = [
        ("company", event.company_id.as_ref().map(ToString::to_string)),
        ("route", data.job.route.as_ref().map(ToString::to_string)),
        ("job", data.job.job_id.as_ref().map(ToString::to_string)),
        ("endpoint", data.endpoint_id.as_ref().map(ToString::to_string)),
        ("provider", data.provider.as_ref().map(ToString::to_string)),
        ("attempt", data.outcome.attempt.as_ref().map(ToString::to_string)),
        ("cause", data.outcome.cause.map(|cause| cause.as_str().to_owned())),
        ("next", data.outcome.next_retry_time.as_ref().map(ToString::to_string)),
        ("by", data.actor.as_ref().map(ToString::to_string)),
        ("code", data.outcome.error_code.as_ref().map(ToString::to_string)),
    ];
    let at = screen.painted(Paint::Faint, event.timestamp);
    let what = screen.painted(paint(event.kind), format_args!("{:<18}", event.kind.as_str()));
    let mut line = format!("{at}  {what}");
    for (name, value) in facts {
        if let Some(value) = value {
            line.push_str(&format!("  {} {}", screen.painted(Paint::Faint, name), clean(&value)));
        }
    }
    if let Some(words) = data.outcome.last_error.as_deref().or(data.reason.as_deref()) {
        line.push_str(&format!("  {}", clean(words)));
    }
    screen.line(line)
}

fn show_gap(screen: &mut Screen, gap: &Gap) -> io::Result<()> {
    let missed = gap.missed.map(|missed| format!("{missed} ")).unwrap_or_default();
    let words = format!("{missed}events are missing here: {}", clean(&gap.reason));
    screen.line(screen.painted(Paint::Warn, words))
}
