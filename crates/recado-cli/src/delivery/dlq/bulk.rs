//! `recado dlq replay`, `recado dlq discard` and `recado dlq bulk`: one dead letter, some, or all that match.
//!
//! Ids that are written out are taken at their word. What a filter chooses is counted first, said, and asked
//! about; then the server does it, and this process only watches.

use std::io;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use recado_client::{Client, ClientError};
use recado_core::JobId;
use recado_core::reason::clip;
use recado_core::words::counted;
use recado_terminal::{Column, Field, Paint, Screen, clean};
use recado_wire::bulk::{
    Bulk, BulkAct, BulkCount, BulkFilter, BulkRequest, BulkSample, BulkState, CANARY_MAX, CanaryState,
    RATE_MAX,
};
use recado_wire::dlq::{DeadLetterFilter, Discarded, ReplayRequest, ReplayStarted};
use recado_wire::word_of;
use serde::Serialize;

use super::{DlqFilterArgs, REASON_SHOWN_MAX_BYTES};
use crate::confirm::confirm;
use crate::{AskArgs, Done, Stop, data};

/// Time between two looks at how far the server came.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Filters for entries that are not named by id.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
struct ChosenArgs {
    #[command(flatten)]
    filters: DlqFilterArgs,
    /// Every dead letter.
    #[arg(long)]
    all: bool,
}

/// Pace of the act.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pace")]
struct PaceArgs {
    /// Only count, and show a few.
    #[arg(long)]
    dry_run: bool,
    /// Entries a second at most.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(RATE_MAX)))]
    rate: Option<u32>,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Job ids; omit them to select by filter.
    job_ids: Vec<String>,
    /// Only those whose reason contains this.
    #[arg(long, alias = "reason-contains", value_name = "TEXT", help_heading = "Selection")]
    reason: Option<String>,
    #[command(flatten)]
    chosen: ChosenArgs,
    #[command(flatten)]
    pace: PaceArgs,
    /// Replay this many first, and the rest when they were delivered.
    #[arg(long, value_name = "COUNT", help_heading = "Pace", value_parser = clap::value_parser!(u32).range(1..=i64::from(CANARY_MAX)))]
    canary: Option<u32>,
    /// Corrected data of one job: JSON, @file or -.
    #[arg(long, help_heading = None::<&str>, value_name = "JSON|@FILE|-")]
    data: Option<String>,
    /// Send the data as first accepted, without later corrections.
    #[arg(long, help_heading = None::<&str>, conflicts_with_all = ["data", "dry_run", "rate", "canary"])]
    original: bool,
    /// Reason, for the audit trail.
    #[arg(long, help_heading = None::<&str>)]
    note: Option<String>,
    #[command(flatten, next_help_heading = None::<&str>)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct DiscardArgs {
    /// Job ids; omit them to select by filter.
    job_ids: Vec<String>,
    /// Only those whose reason contains this.
    #[arg(long, value_name = "TEXT", help_heading = "Selection")]
    reason_contains: Option<String>,
    #[command(flatten)]
    chosen: ChosenArgs,
    #[command(flatten)]
    pace: PaceArgs,
    /// Reason, for the audit trail.
    #[arg(long, help_heading = None::<&str>)]
    reason: String,
    #[command(flatten, next_help_heading = None::<&str>)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct BulkArgs {
    /// One of them; all that are remembered when left out.
    id: Option<String>,
    /// Stop it; what it has done stays done.
    #[arg(long, requires = "id")]
    stop: bool,
    #[command(flatten)]
    ask: AskArgs,
}

impl ChosenArgs {
    /// The filter to send; `None` when entries are chosen by id only.
    fn filter(self, reason: Option<String>, job_ids: &[String]) -> Result<Option<BulkFilter>, Stop> {
        let ids: Result<Vec<_>, _> = job_ids.iter().map(|id| JobId::new(id.as_str())).collect();
        let ids = ids.map_err(|error| Stop::Usage(format!("a job's id {error}")))?;
        let entries = self.filters.with_reason(reason);
        match (entries == DeadLetterFilter::default(), self.all) {
            (false, true) => Err(Stop::usage("--all and a filter exclude each other; give one of the two")),
            (true, true) if !ids.is_empty() => {
                Err(Stop::usage("--all and ids exclude each other; give one of the two"))
            }
            (true, false) if ids.is_empty() => {
                Err(Stop::usage("say which: ids, a filter such as --code 550 or --company acme, or --all"))
            }
            (true, false) => Ok(None),
            (true, true) | (false, false) => {
                Ok(Some(BulkFilter { entries, job_ids: (!ids.is_empty()).then_some(ids) }))
            }
        }
    }
}

pub async fn replay(args: ReplayArgs, screen: &mut Screen) -> Done {
    let client = args.ask.client()?;
    let data = args.data.as_deref().map(data::read).transpose()?;
    let filter = args.chosen.filter(args.reason, &args.job_ids)?;
    if data.is_some() && (filter.is_some() || args.job_ids.len() > 1) {
        return Err(Stop::usage("--data corrects one job; name one"));
    }
    if args.original && filter.is_some() {
        return Err(Stop::usage("--original is for jobs that are named; name them"));
    }
    let by_pace = args.pace.dry_run || args.pace.rate.is_some() || args.canary.is_some();
    if let Some(filter) = filter.or_else(|| by_pace.then(|| named(&args.job_ids))) {
        let (canary, note) = (args.canary, args.note);
        let request = BulkRequest { filter, canary, note, ..BulkRequest::default() };
        return begin(&client, BulkAct::Replay, request, &args.pace, &args.ask, screen).await;
    }
    let request = ReplayRequest { data, original: args.original.then_some(true), note: args.note };
    let replay = async |id: &str| client.replay(id, &request).await;
    let line = |started: &ReplayStarted| format!("{} is on its way", started.job_id);
    each(&args.job_ids, replay, line, &args.ask, screen).await
}

pub async fn discard(args: DiscardArgs, screen: &mut Screen) -> Done {
    let client = args.ask.client()?;
    let filter = args.chosen.filter(args.reason_contains, &args.job_ids)?;
    let by_pace = args.pace.dry_run || args.pace.rate.is_some();
    if let Some(filter) = filter.or_else(|| by_pace.then(|| named(&args.job_ids))) {
        let request = BulkRequest { filter, reason: Some(args.reason), ..BulkRequest::default() };
        return begin(&client, BulkAct::Discard, request, &args.pace, &args.ask, screen).await;
    }
    let discard = async |id: &str| client.discard(id, &args.reason).await;
    let line = |discarded: &Discarded| format!("{} {}", discarded.job_id, discarded.status);
    each(&args.job_ids, discard, line, &args.ask, screen).await
}

/// Acts on each job that is named, and tells of all failures at the end.
async fn each<T: Serialize>(
    ids: &[String],
    act: impl AsyncFn(&str) -> Result<T, ClientError>,
    line: impl Fn(&T) -> String,
    ask: &AskArgs,
    screen: &mut Screen,
) -> Done {
    let mut failures = Vec::new();
    for id in ids {
        match act(id).await {
            Ok(done) => ask.show(screen, &done, |screen, done| screen.line(line(done)))?,
            Err(error) => failures.push(format!("{id}: {error}")),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Stop::Failed(failures.join("\n"))) }
}

/// The ids have been checked.
fn named(ids: &[String]) -> BulkFilter {
    let job_ids = Some(ids.iter().map(|id| JobId::trusted(id.as_str())).collect());
    BulkFilter { job_ids, ..BulkFilter::default() }
}

async fn begin(
    client: &Client,
    act: BulkAct,
    request: BulkRequest,
    pace: &PaceArgs,
    ask: &AskArgs,
    screen: &mut Screen,
) -> Done {
    let request = BulkRequest { rate_per_second: pace.rate, ..request };
    let count = client.count_bulk(&word_of(act), &request).await?;
    if pace.dry_run {
        return ask.show(screen, &count, show_count);
    }
    if count.total == 0 {
        return Err(Stop::failed("no dead letter matches; nothing was touched"));
    }
    // Named ones have been chosen by hand.
    if count.total > 1 && !pace.yes && request.filter.job_ids.is_none() {
        let (what, total) = (word_of(act), count.total);
        let otherwise =
            format!("this would {what} {total} dead letters; add --yes, or --dry-run to see a few");
        confirm(&format!("This will {what} {total} dead letters."), &otherwise)?;
    }
    let bulk = match act {
        BulkAct::Replay => client.replay_all(&request).await?,
        BulkAct::Discard => client.discard_all(&request).await?,
    };
    let bulk = follow(client, bulk).await?;
    ask.show(screen, &bulk, show)?;
    match bulk.state {
        BulkState::Done | BulkState::Running => Ok(()),
        BulkState::Stopped | BulkState::Failed => {
            Err(Stop::failed(bulk.stopped_because.as_deref().unwrap_or("the bulk action failed")))
        }
    }
}

fn show_count(screen: &mut Screen, count: &BulkCount) -> io::Result<()> {
    let dead_letters = counted(count.total, "dead letter", "dead letters");
    screen.line(format_args!("would {} {dead_letters}; nothing was touched", word_of(count.act)))?;
    if count.sample.is_empty() {
        return Ok(());
    }
    screen.line("")?;
    screen.table(&count.sample, SAMPLE_COLUMNS)
}

const SAMPLE_COLUMNS: &[Column<BulkSample>] = &[
    ("job", |entry| Field::from(&entry.job_id)),
    ("route", |entry| Field::from(&entry.route)),
    ("company", |entry| Field::from(&entry.company_id)),
    ("moved", |entry| Field::time(entry.moved_to_dlq_at)),
    ("code", |entry| Field::or_dash(entry.last_failure_code.as_ref())),
    ("reason", |entry| Field::from(clip(&entry.last_failure_reason, REASON_SHOWN_MAX_BYTES))),
];

/// Watches until it has ended. Ctrl-C stops the watching and leaves it running.
async fn follow(client: &Client, mut bulk: Bulk) -> Result<Bulk, Stop> {
    let bar = ProgressBar::with_draw_target(Some(bulk.progress.total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    while bulk.state == BulkState::Running {
        let progress = bulk.progress;
        bar.set_position(progress.done + progress.skipped + progress.failed);
        bar.set_message(clean(&note(&bulk)).into_owned());
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = tokio::signal::ctrl_c() => {
                bar.finish_and_clear();
                return Ok(bulk);
            }
        }
        bulk = client.bulk(&bulk.id).await?;
    }
    bar.finish_and_clear();
    Ok(bulk)
}

fn note(bulk: &Bulk) -> String {
    let failed = bulk.progress.failed;
    let failed = if failed > 0 { format!("{failed} failed  ") } else { String::new() };
    let canary = bulk.canary.as_ref().filter(|canary| canary.state == CanaryState::Waiting);
    match canary.map(|canary| canary.waiting_for.as_deref()) {
        Some(Some(why)) => format!("{failed}the canary waits: {why}"),
        Some(None) => format!("{failed}waiting for the canary"),
        None => failed,
    }
}

fn state(bulk: &Bulk) -> Field {
    match bulk.state {
        BulkState::Running => Field::painted("running", Paint::Warn),
        BulkState::Done => Field::painted("done", Paint::Good),
        BulkState::Stopped => Field::painted("stopped", Paint::Bad),
        BulkState::Failed => Field::painted("failed", Paint::Bad),
    }
}

fn progress(bulk: &Bulk) -> Field {
    let progress = &bulk.progress;
    let skipped = match progress.skipped {
        0 => String::new(),
        count => format!(", {count} skipped"),
    };
    Field::from(format_args!("{} of {}{skipped}", progress.done, progress.total))
}

fn show(screen: &mut Screen, bulk: &Bulk) -> io::Result<()> {
    let if_not_zero = |count: u64| Field::if_any((count > 0).then_some(count));
    let canary = bulk.canary.as_ref().map(|canary| match canary.state {
        CanaryState::Starting => "starting".to_owned(),
        CanaryState::Waiting => note(bulk),
        CanaryState::Delivered => format!("{} delivered", canary.job_ids.len()),
        CanaryState::Died => "died".to_owned(),
    });
    screen.pairs([
        ("bulk", Field::painted(&bulk.id, Paint::Strong)),
        ("act", Field::from(word_of(bulk.act))),
        ("state", state(bulk)),
        ("done", progress(bulk)),
        ("failed", if_not_zero(bulk.progress.failed).with_paint(Paint::Bad)),
        ("left", if_not_zero(bulk.progress.left)),
        ("canary", Field::if_any(canary)),
        ("by", Field::if_any(bulk.actor.as_ref())),
        ("because", Field::if_any(bulk.stopped_because.as_ref())),
    ])?;
    for failure in &bulk.failures {
        let reason = clip(&failure.reason, REASON_SHOWN_MAX_BYTES);
        screen.line(format_args!("  {}: {}", clean(failure.job_id.as_str()), clean(reason)))?;
    }
    if bulk.state == BulkState::Running {
        screen.line(format_args!(
            "\nStill running on the server; follow it with: recado dlq bulk {}",
            bulk.id
        ))?;
    }
    Ok(())
}

const COLUMNS: &[Column<Bulk>] = &[
    ("bulk", |bulk| Field::from(&bulk.id)),
    ("act", |bulk| Field::from(word_of(bulk.act))),
    ("state", state),
    ("done", progress),
    ("started", |bulk| Field::time(bulk.started_at)),
    ("by", |bulk| Field::or_dash(bulk.actor.as_ref())),
    ("because", |bulk| Field::or_dash(bulk.stopped_because.as_ref())),
];

pub async fn bulk(args: BulkArgs, screen: &mut Screen) -> Done {
    let client = args.ask.client()?;
    let Some(id) = &args.id else {
        let list = client.bulks().await?;
        return args.ask.show(screen, &list, |screen, list| screen.table(&list.items, COLUMNS));
    };
    let bulk = if args.stop { client.stop_bulk(id).await? } else { client.bulk(id).await? };
    args.ask.show(screen, &bulk, show)
}
