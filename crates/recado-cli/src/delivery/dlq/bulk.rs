//! `recado dlq replay`, `recado dlq discard` and `recado dlq bulk`: one dead letter, some, or all that match.
//!
//! Ids that are written out are taken at their word. What a filter chooses is counted first, said, and asked
//! about; then the server does it, and this process only watches.

use recado_core::words::counted;
use recado_terminal::{Field, Paint, Screen, clean};
use std::io;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use recado_client::Client;
use recado_core::reason::clip;
use recado_core::{CompanyId, JobId, RouteName, Timestamp};
use recado_wire::bulk::{
    Bulk, BulkAct, BulkCount, BulkFilter, BulkRequest, BulkState, CANARY_MAX, CanaryState, RATE_MAX,
};
use recado_wire::dlq::{DeadLetterFilter, ReplayRequest};

use super::REASON_SHOWN_MAX_BYTES;
use crate::confirm::confirm;
use crate::delivery::jobs::{company, route};
use crate::{Done, ServerArgs, Stop, data};

/// Between two looks at how far the server came.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Which dead letters, when they are not named.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which")]
struct ChosenArgs {
    /// Only those of this tenant.
    #[arg(long, value_name = "ID", value_parser = company)]
    company: Option<CompanyId>,
    /// Only those of this route.
    #[arg(long, value_name = "ROUTE", value_parser = route)]
    route: Option<RouteName>,
    /// Only those whose last failure has this code.
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Only those that failed alike.
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<String>,
    /// Only those moved here at or after this time.
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Only those moved here before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Every one.
    #[arg(long)]
    all: bool,
}

/// Pace of the act.
#[derive(Debug, Args)]
#[command(next_help_heading = "How")]
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
    /// The jobs' ids; or choose them by what they have in common.
    job_ids: Vec<String>,
    /// Only those whose reason contains this.
    #[arg(long, alias = "reason-contains", value_name = "TEXT", help_heading = "Which")]
    reason: Option<String>,
    #[command(flatten)]
    chosen: ChosenArgs,
    #[command(flatten)]
    pace: PaceArgs,
    /// Replay so many first, and the rest when they were delivered.
    #[arg(long, value_name = "COUNT", help_heading = "How", value_parser = clap::value_parser!(u32).range(1..=i64::from(CANARY_MAX)))]
    canary: Option<u32>,
    /// Corrected data of one job: JSON, @file or -.
    #[arg(long, value_name = "JSON|@FILE|-")]
    data: Option<String>,
    /// Send what was accepted, whatever it was corrected to since.
    #[arg(long, conflicts_with_all = ["data", "dry_run", "rate", "canary"])]
    original: bool,
    /// Reason, for the audit trail.
    #[arg(long)]
    note: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub struct DiscardArgs {
    /// The jobs' ids; or choose them by what they have in common.
    job_ids: Vec<String>,
    /// Only those whose reason contains this.
    #[arg(long, value_name = "TEXT", help_heading = "Which")]
    reason_contains: Option<String>,
    #[command(flatten)]
    chosen: ChosenArgs,
    #[command(flatten)]
    pace: PaceArgs,
    /// Reason, for the audit trail.
    #[arg(long)]
    reason: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub struct BulkArgs {
    /// One of them; all that are remembered when left out.
    id: Option<String>,
    /// Stop it; what it has done stays done.
    #[arg(long, requires = "id")]
    stop: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl ChosenArgs {
    /// The filter to send; `None` when entries are chosen by id only.
    fn filter(self, reason: Option<String>, job_ids: &[String]) -> Result<Option<BulkFilter>, Stop> {
        let ids: Result<Vec<_>, _> = job_ids.iter().map(|id| JobId::new(id.as_str())).collect();
        let ids = ids.map_err(|error| Stop::Usage(format!("a job's id {error}")))?;
        let entries = DeadLetterFilter {
            company_id: self.company,
            route: self.route,
            last_failure_code: self.code,
            reason,
            fingerprint: self.fingerprint,
            since: self.since,
            until: self.until,
        };
        match (entries == DeadLetterFilter::default(), self.all) {
            (false, true) => Err(Stop::Usage("--all stands beside a filter; give one of the two".to_owned())),
            (true, true) if !ids.is_empty() => {
                Err(Stop::Usage("--all stands beside ids; give one of the two".to_owned()))
            }
            (true, false) if ids.is_empty() => Err(Stop::Usage(
                "say which: ids, a filter such as --code 550 or --company acme, or --all".to_owned(),
            )),
            (true, false) => Ok(None),
            (true, true) | (false, false) => {
                Ok(Some(BulkFilter { entries, job_ids: (!ids.is_empty()).then_some(ids) }))
            }
        }
    }
}

pub async fn replay(args: ReplayArgs, screen: &mut Screen) -> Done {
    let client = args.server.client()?;
    let data = args.data.as_deref().map(data::read).transpose()?;
    let filter = args.chosen.filter(args.reason, &args.job_ids)?;
    if data.is_some() && (filter.is_some() || args.job_ids.len() > 1) {
        return Err(Stop::Usage("--data corrects one job; name one".to_owned()));
    }
    if args.original && filter.is_some() {
        return Err(Stop::Usage("--original is for jobs that are named; name them".to_owned()));
    }
    let by_pace = args.pace.dry_run || args.pace.rate.is_some() || args.canary.is_some();
    if let Some(filter) = filter.or_else(|| by_pace.then(|| named(&args.job_ids))) {
        let request = BulkRequest {
            filter,
            dry_run: None,
            rate_per_second: args.pace.rate,
            canary: args.canary,
            reason: None,
            note: args.note,
        };
        return begin(&client, BulkAct::Replay, request, &args.pace, args.json, screen).await;
    }
    let request = ReplayRequest { data, original: args.original.then_some(true), note: args.note };
    let mut failures = Vec::new();
    for id in &args.job_ids {
        match client.replay(id, &request).await {
            Ok(started) if args.json => screen.json(&started)?,
            Ok(started) => screen.line(format_args!("{} is on its way", started.job_id))?,
            Err(error) => failures.push(format!("{id}: {error}")),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Stop::Failed(failures.join("\n"))) }
}

pub async fn discard(args: DiscardArgs, screen: &mut Screen) -> Done {
    let client = args.server.client()?;
    let filter = args.chosen.filter(args.reason_contains, &args.job_ids)?;
    let by_pace = args.pace.dry_run || args.pace.rate.is_some();
    if let Some(filter) = filter.or_else(|| by_pace.then(|| named(&args.job_ids))) {
        let request = BulkRequest {
            filter,
            dry_run: None,
            rate_per_second: args.pace.rate,
            canary: None,
            reason: Some(args.reason),
            note: None,
        };
        return begin(&client, BulkAct::Discard, request, &args.pace, args.json, screen).await;
    }
    let mut failures = Vec::new();
    for id in &args.job_ids {
        match client.discard(id, &args.reason).await {
            Ok(discarded) if args.json => screen.json(&discarded)?,
            Ok(discarded) => screen.line(format_args!("{} {}", discarded.job_id, discarded.status))?,
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

fn word(act: BulkAct) -> &'static str {
    match act {
        BulkAct::Replay => "replay",
        BulkAct::Discard => "discard",
    }
}

async fn begin(
    client: &Client,
    act: BulkAct,
    request: BulkRequest,
    pace: &PaceArgs,
    as_json: bool,
    screen: &mut Screen,
) -> Done {
    let count = client.count_bulk(word(act), &request).await?;
    if pace.dry_run {
        return show_count(&count, as_json, screen);
    }
    if count.total == 0 {
        return Err(Stop::Failed("no dead letter matches; nothing was touched".to_owned()));
    }
    // Named ones have been chosen by hand.
    if count.total > 1 && !pace.yes && request.filter.job_ids.is_none() {
        let (what, total) = (word(act), count.total);
        let otherwise =
            format!("this would {what} {total} dead letters; add --yes, or --dry-run to see a few");
        confirm(&format!("This will {what} {total} dead letters."), &otherwise)?;
    }
    let bulk = match act {
        BulkAct::Replay => client.replay_all(&request).await?,
        BulkAct::Discard => client.discard_all(&request).await?,
    };
    let bulk = follow(client, bulk).await?;
    if as_json {
        screen.json(&bulk)?;
    } else {
        show(&bulk, screen)?;
    }
    match bulk.state {
        BulkState::Done | BulkState::Running => Ok(()),
        BulkState::Stopped | BulkState::Failed => Err(Stop::Failed(
            bulk.stopped_because.map_or_else(|| "it did not end well".to_owned(), Into::into),
        )),
    }
}

fn show_count(count: &BulkCount, as_json: bool, screen: &mut Screen) -> Done {
    if as_json {
        screen.json(count)?;
        return Ok(());
    }
    screen.line(format_args!(
        "would {} {}; nothing was touched",
        word(count.act),
        counted(count.total, "dead letter", "dead letters")
    ))?;
    if !count.sample.is_empty() {
        screen.line("")?;
    }
    let rows = count.sample.iter().map(|entry| {
        vec![
            Field::from(&entry.job_id),
            Field::from(&entry.route),
            Field::from(&entry.company_id),
            Field::time(entry.moved_to_dlq_at),
            Field::or_dash(entry.last_failure_code.as_deref()),
            Field::from(clip(&entry.last_failure_reason, REASON_SHOWN_MAX_BYTES)),
        ]
    });
    if !count.sample.is_empty() {
        screen.table(&["job", "route", "company", "moved", "code", "reason"], rows.collect())?;
    }
    Ok(())
}

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

fn show(bulk: &Bulk, screen: &mut Screen) -> io::Result<()> {
    let progress = bulk.progress;
    let mut facts = vec![
        ("bulk", Field::painted(&bulk.id, Paint::Strong)),
        ("act", Field::from(word(bulk.act))),
        ("state", state(bulk)),
        ("done", Field::from(format_args!("{} of {}", progress.done, progress.total))),
    ];
    facts.extend((progress.skipped > 0).then(|| ("skipped", Field::from(progress.skipped))));
    facts.extend((progress.failed > 0).then(|| ("failed", Field::painted(progress.failed, Paint::Bad))));
    facts.extend((progress.left > 0).then(|| ("left", Field::from(progress.left))));
    if let Some(canary) = &bulk.canary {
        let words = match canary.state {
            CanaryState::Starting => "starting".to_owned(),
            CanaryState::Waiting => note(bulk),
            CanaryState::Delivered => format!("{} delivered", canary.job_ids.len()),
            CanaryState::Died => "died".to_owned(),
        };
        facts.push(("canary", Field::from(words)));
    }
    facts.extend(bulk.actor.as_ref().map(|actor| ("by", Field::from(actor))));
    facts.extend(bulk.stopped_because.as_ref().map(|why| ("because", Field::from(why))));
    screen.pairs(facts)?;
    for failure in &bulk.failures {
        let reason = clip(&failure.reason, REASON_SHOWN_MAX_BYTES);
        screen.line(format_args!("  {}: {}", clean(failure.job_id.as_str()), clean(reason)))?;
    }
    if bulk.state == BulkState::Running {
        screen.line(format_args!("\nIt goes on at the server: recado dlq bulk {}", bulk.id))?;
    }
    Ok(())
}

pub async fn bulk(args: BulkArgs, screen: &mut Screen) -> Done {
    let client = args.server.client()?;
    let Some(id) = &args.id else {
        let list = client.bulks().await?;
        if args.json {
            screen.json(&list)?;
            return Ok(());
        }
        let row = |bulk: &Bulk| {
            vec![
                Field::from(&bulk.id),
                Field::from(word(bulk.act)),
                state(bulk),
                Field::from(format_args!("{} of {}", bulk.progress.done, bulk.progress.total)),
                Field::time(bulk.started_at),
                Field::or_dash(bulk.actor.as_deref()),
                Field::or_dash(bulk.stopped_because.as_deref()),
            ]
        };
        let heads = ["bulk", "act", "state", "done", "started", "by", "because"];
        screen.table(&heads, list.items.iter().map(row).collect())?;
        return Ok(());
    };
    let bulk = if args.stop { client.stop_bulk(id).await? } else { client.bulk(id).await? };
    if args.json {
        screen.json(&bulk)?;
    } else {
        show(&bulk, screen)?;
    }
    Ok(())
}
