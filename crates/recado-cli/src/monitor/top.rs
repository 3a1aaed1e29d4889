//! `recado top`: a server at a glance, drawn again each second.
//!
//! On a terminal it takes the alternate screen and gives it back as it was, however it ends. Elsewhere it is one
//! snapshot. It asks what every other command asks and counts the events it hears; nothing is made for it alone.

mod terminal;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use recado_client::{Client, EventStream, StreamItem};
use recado_config::units::about_size;
use recado_core::reason::clip;
use recado_terminal::{Column, Field, Form, Paint, Screen, clean};
use recado_wire::dlq::{DeadLetterGroup, DeadLetterStats, DeadLetterStatsQuery};
use recado_wire::events::{EventKind, EventQuery};
use recado_wire::health::{JobCounts, Readiness};
use recado_wire::providers::ProviderList;
use recado_wire::tenants::{Tenant, TenantList, TenantQuery};
use serde::Serialize;

use crate::admin::providers;
use crate::delivery::timeline::waits_for;
use crate::{AskArgs, Done, Stop};
use terminal::Terminal;

const DRAWN_EVERY: Duration = Duration::from_secs(1);

/// Rows at most of each table: a glance, not a listing.
const ROWS_MAX: usize = 8;

/// Bytes at most of a reason.
const REASON_SHOWN_MAX_BYTES: usize = 80;

#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:\n  recado top\n  recado top --json\n\nKEYS: q quits.")]
#[command(mut_arg("json", |arg| arg.help("Print one snapshot as JSON")))]
pub struct TopArgs {
    #[command(flatten)]
    ask: AskArgs,
}

/// All that is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot {
    url: String,
    throughput: Throughput,
    ready: Readiness,
    /// Waiting and running jobs of each route.
    routes: BTreeMap<String, RouteQueue>,
    providers: ProviderList,
    dead_letters: DeadLetterStats,
    tenants: TenantList,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Throughput {
    sent_per_second: f64,
    retried_per_second: f64,
    died_per_second: f64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct RouteQueue {
    queued: u64,
    delayed: u64,
    delivering: u64,
}

pub async fn run(args: TopArgs, screen: &mut Screen) -> Done {
    let (client, url) = (args.ask.client()?, args.ask.server.url());
    let meter = Meter::start(client.events(EventQuery::default()).await?);
    if args.ask.form.get() == Form::Text && screen.is_terminal() {
        return watch(&client, url, &meter, screen).await;
    }
    tokio::time::sleep(DRAWN_EVERY).await;
    args.ask.show(screen, &look(&client, url, meter.read(DRAWN_EVERY)).await?, draw)
}

async fn watch(client: &Client, url: &str, meter: &Meter, screen: &mut Screen) -> Done {
    let mut terminal =
        Terminal::take().map_err(|error| Stop::Failed(format!("cannot use the terminal: {error}")))?;
    let mut since = Instant::now();
    loop {
        let snapshot = look(client, url, meter.read(since.elapsed())).await?;
        since = Instant::now();
        let mut frame = screen.frame();
        draw(&mut frame, &snapshot)?;
        terminal.show(screen, &frame.into_inner())?;
        tokio::select! {
            () = tokio::time::sleep(DRAWN_EVERY) => {}
            () = terminal.left() => return Ok(()),
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

/// Counts events as they come.
#[derive(Debug, Default)]
struct Meter {
    counts: Arc<[AtomicU64; 3]>,
}

impl Meter {
    fn start(mut stream: EventStream) -> Self {
        let meter = Meter::default();
        let counts = meter.counts.clone();
        tokio::spawn(async move {
            while let Ok(heard) = stream.next().await {
                let StreamItem::Event(event) = heard else { continue };
                let at = match event.kind {
                    EventKind::JobSent => 0,
                    EventKind::JobRetryScheduled => 1,
                    EventKind::JobFailed => 2,
                    _ => continue,
                };
                counts[at].fetch_add(1, Ordering::Relaxed);
            }
        });
        meter
    }

    /// Counts since the last look.
    fn read(&self, time: Duration) -> Throughput {
        let seconds = time.as_secs_f64().max(0.001);
        let rate = |at: usize| self.counts[at].swap(0, Ordering::Relaxed) as f64 / seconds;
        Throughput { sent_per_second: rate(0), retried_per_second: rate(1), died_per_second: rate(2) }
    }
}

async fn look(client: &Client, url: &str, throughput: Throughput) -> Result<Snapshot, Stop> {
    let (all_dead, all_tenants) = (DeadLetterStatsQuery::default(), TenantQuery::default());
    let (ready, providers, dead_letters, tenants) = tokio::try_join!(
        client.ready(),
        client.providers(),
        client.dead_letter_stats(&all_dead),
        client.tenants(&all_tenants),
    )?;
    let mut routes: BTreeMap<String, RouteQueue> = BTreeMap::new();
    for on in tenants.items.iter().flat_map(|tenant| &tenant.routes) {
        let queue = routes.entry(on.route.as_str().to_owned()).or_default();
        queue.queued += on.stats.queued;
        queue.delayed += on.stats.delayed;
        queue.delivering += on.stats.delivering;
    }
    Ok(Snapshot { url: url.to_owned(), throughput, ready, routes, providers, dead_letters, tenants })
}

fn draw<W: Write>(screen: &mut Screen<W>, snapshot: &Snapshot) -> io::Result<()> {
    heading(snapshot, screen)?;
    let routes: Vec<_> = snapshot.routes.iter().collect();
    table(
        screen,
        &routes,
        &[
            ("route", |(route, _)| Field::from(route)),
            ("queued", |(_, queue)| Field::from(queue.queued)),
            ("delayed", |(_, queue)| Field::from(queue.delayed)),
            ("delivering", |(_, queue)| Field::from(queue.delivering)),
        ],
    )?;

    let mut all: Vec<_> = snapshot.providers.items.iter().collect();
    // Held providers first: operators look for those.
    all.sort_by_key(|provider| {
        (provider.waiting_for.is_none(), u64::MAX - provider.parked, provider.name.clone())
    });
    table(screen, all, providers::COLUMNS)?;
    table(screen, &snapshot.dead_letters.items, DEAD_LETTER_COLUMNS)?;

    let mut all: Vec<_> = snapshot.tenants.items.iter().collect();
    all.sort_by_key(|tenant| std::cmp::Reverse((tenant.stats.queued, tenant.dead)));
    table(screen, all, TENANT_COLUMNS)
}

const DEAD_LETTER_COLUMNS: &[Column<DeadLetterGroup>] = &[
    ("dead letters", |group| Field::or_dash(group.key.as_ref())),
    ("count", |group| Field::from(group.count)),
    ("for example", |group| Field::from(clip(&group.example_reason, REASON_SHOWN_MAX_BYTES))),
];

const TENANT_COLUMNS: &[Column<Tenant>] = &[
    ("company", |tenant| Field::from(&tenant.company_id)),
    ("queued", |tenant| Field::from(tenant.stats.queued)),
    ("delivering", |tenant| Field::from(tenant.stats.delivering)),
    ("dead", |tenant| Field::from(tenant.dead)),
    ("priority", |tenant| Field::from(tenant.stats.current_priority)),
    ("rounds", |tenant| Field::from(tenant.stats.rounds_without_processing)),
    ("why", |tenant| Field::or_dash(tenant.stats.waiting_for.as_ref().map(waits_for))),
];

fn heading<W: Write>(snapshot: &Snapshot, screen: &mut Screen<W>) -> io::Result<()> {
    let Snapshot { throughput, ready, dead_letters, .. } = snapshot;
    let state = match ready.reasons.first() {
        None => screen.painted(Paint::Good, "ready"),
        Some(why) => screen.painted(Paint::Bad, clean(why)),
    };
    let store =
        ready.store.as_ref().map(|store| format!("{} {}", clean(&store.kind), about_size(store.size_bytes)));
    let title = screen.painted(Paint::Strong, "recado top");
    screen.line(format_args!("{title}  {}  {state}  {}", clean(&snapshot.url), store.unwrap_or_default()))?;
    screen.line(format_args!(
        "sent {:.0}/s  retried {:.0}/s  died {:.0}/s",
        throughput.sent_per_second, throughput.retried_per_second, throughput.died_per_second
    ))?;
    let this_hour = dead_letters.per_hour.last().map_or(0, |hour| hour.count);
    let counts = ready.counts.as_ref();
    let count = |of: fn(&JobCounts) -> u64| counts.map_or(0, of);
    screen.line(format_args!(
        "queued {}  delayed {}  delivering {}  dead {} (+{this_hour} this hour)",
        count(|it| it.ready),
        count(|it| it.delayed),
        count(|it| it.leased),
        dead_letters.total,
    ))
}

/// A table of its first few rows, with a line above; none when there is nothing to say.
fn table<'a, W: Write, T: 'a>(
    screen: &mut Screen<W>,
    items: impl IntoIterator<Item = &'a T>,
    columns: &[Column<T>],
) -> io::Result<()> {
    let items: Vec<_> = items.into_iter().collect();
    if items.is_empty() {
        return Ok(());
    }
    screen.line("")?;
    screen.table(items.iter().take(ROWS_MAX).copied(), columns)?;
    match items.len().saturating_sub(ROWS_MAX) {
        0 => Ok(()),
        more => screen.line(screen.painted(Paint::Faint, format_args!("and {more} more"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot() -> Snapshot {
        let stats = json!({
            "queued": 7, "delayed": 1, "delivering": 2, "roundsWithoutProcessing": 3, "currentPriority": 2,
            "totalProcessed": 9, "consecutiveBatchCount": 1
        });
        let mut tenant = json!({
            "companyId": "acme\u{1b}[2J", "weight": 1, "paused": false, "dead": 4, "routes": [{"route": "email"}]
        });
        for (name, value) in stats.as_object().unwrap() {
            tenant[name] = value.clone();
            tenant["routes"][0][name] = value.clone();
        }
        tenant["companyId"] = json!("acme");
        Snapshot {
            url: "http://127.0.0.1:7400".to_owned(),
            throughput: Throughput { sent_per_second: 12.4, ..Throughput::default() },
            ready: serde_json::from_value(json!({
                "status": "ready",
                "counts": {"delayed": 1, "ready": 7, "leased": 2, "deadLetters": 4, "ended": 0},
                "store": {"kind": "embedded", "durability": "fsync", "sizeBytes": 1_048_576}
            }))
            .unwrap(),
            routes: BTreeMap::from([("email".to_owned(), RouteQueue { queued: 7, delayed: 1, delivering: 2 })]),
            providers: serde_json::from_value(json!({"items": []})).unwrap(),
            dead_letters: serde_json::from_value(json!({
                "by": "lastFailureCode", "total": 4,
                "items": (0..12).map(|n| json!({"key": format!("55{n}"), "count": 1, "exampleReason": "\u{1b}[2Jgone"})).collect::<Vec<_>>(),
                "perHour": [{"hour": "2026-11-15T14:00:00Z", "count": 3}]
            }))
            .unwrap(),
            tenants: serde_json::from_value(json!({"items": [tenant]})).unwrap(),
        }
    }

    #[test]
    fn a_glance_says_what_happens_and_nothing_steers_the_terminal() {
        let mut screen = Screen::new(Vec::new(), Some(100));
        draw(&mut screen, &snapshot()).unwrap();
        let text = String::from_utf8(screen.into_inner()).unwrap();
        for words in ["sent 12/s", "dead 4 (+3 this hour)", "email", "acme", "embedded 1.0 MiB", "and 4 more"]
        {
            assert!(text.contains(words), "no {words}:\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
