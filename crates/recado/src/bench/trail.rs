//! What the audit trail costs: a record in the store with every settle, and the files that it is archived to.
//!
//! **The whole**: the same drain without any trail, with records alone, and with records and the archiver. All three
//! take turns, forwards and backwards, and what is lost is what one turn lacks to another of its round: whatever
//! disturbs a shared machine for long disturbs them all. The median of the rounds counts. Twice: jobs that are sent at once leave one
//! record each, jobs that fail once leave two, one of them with all nine fields. Only the drain is on the clock; what
//! is left to be archived when it ends is said beside.
//!
//! **A record**: jobs are claimed and settled right on the store, once with a record each and once without. Nothing
//! else is on the clock, and the best counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::{Draw, Lease, Payload, Policy, Verdict, decide};
use recado_engine::trail::{TrailTerms, archived_in};
use recado_engine::{Carrier, Clock, Route, Submission, SystemClock};
use recado_store::{AuditSpan, Claim, Pick, Settlement, Store, Turns};
use recado_transport::Sandbox;

use super::report::Report;
use super::scene::{LEASE, Scene, engine_on, payload, route, submission, take_in};
use super::unrecorded::Unrecorded;
use super::{Failed, Options};

const BARE_SETTLE: &str = "a claim and a settle without a record, a job";

const ROUNDS: usize = 5;

/// Of one drain.
const JOBS: usize = 60_000;

/// As many as the engine claims at a time.
const CLAIM_JOBS: usize = 256;

/// How much of the trail is kept.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Nothing,
    Records,
    Whole,
}

/// What the sandbox answers to each job, and what a drain of such jobs is called.
const SCRIPTS: [(&str, &str); 2] =
    [(r#"["ok"]"#, "drain, each job sent at once"), (r#"["503 busy","ok"]"#, "drain, each job fails once")];

/// Jobs a second of the three drains of a round.
#[derive(Debug, Default, Clone, Copy)]
struct Round {
    nothing: f64,
    records: f64,
    whole: f64,
    /// Records that the files still lacked at its end.
    behind: u64,
}

pub async fn measure(options: &Options, progress: impl Fn(&str)) -> Result<Report, Failed> {
    let mut report = Report::default();
    settled(options, &progress, &mut report).await?;
    for (script, name) in SCRIPTS {
        let mut rounds = Vec::new();
        for nth in 1..=ROUNDS {
            progress(&format!("{name}: without a trail, with records, with files, {nth} of {ROUNDS}"));
            let mut turns = [Kept::Nothing, Kept::Records, Kept::Whole];
            if nth % 2 == 0 {
                turns.reverse();
            }
            let mut round = Round::default();
            for kept in turns {
                drain(options, script, kept, &mut round).await?;
            }
            rounds.push(round);
        }
        drained(&mut report, name, &rounds);
    }
    Ok(report)
}

fn drained(report: &mut Report, name: &str, rounds: &[Round]) {
    let median = |of: &dyn Fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let without = format!("{name}: without a trail");
    report.add(without.clone(), median(&|round| round.nothing), "jobs/s");
    report.add_beside(
        format!("{name}: with records"),
        median(&|round| round.records),
        "jobs/s",
        without.clone(),
    );
    report.add_beside(
        format!("{name}: with records and files"),
        median(&|round| round.whole),
        "jobs/s",
        without,
    );
    let lost = |left: f64, of: f64| (1.0 - left / of) * 100.0;
    report.add(format!("{name}: lost to records"), median(&|round| lost(round.records, round.nothing)), "%");
    report.add(
        format!("{name}: lost to the archiver"),
        median(&|round| lost(round.whole, round.records)),
        "%",
    );
    report.add(
        format!("{name}: lost to the whole trail (aim: < 15 %)"),
        median(&|round| lost(round.whole, round.nothing)),
        "%",
    );
    report.add(
        format!("{name}: records not in the files yet at its end"),
        median(&|round| round.behind as f64),
        "records",
    );
}

/// From a full queue to an empty one.
async fn drain(options: &Options, script: &str, kept: Kept, round: &mut Round) -> Result<(), Failed> {
    let scene = Scene::new(options, "trail").await?;
    // Taken in while only workers could carry it, so that the clock starts with a full queue.
    let intake = scene.engine([quick(Carrier::Workers)?]);
    let jobs = options.count(JOBS);
    let data = Payload::trusted(payload().replacen(r#"["ok"]"#, script, 1));
    take_in(&intake, jobs, |_| Submission { data: data.clone(), ..submission("sandbox") }).await?;
    let store: Arc<dyn Store> = match kept {
        Kept::Nothing => Arc::new(Unrecorded(scene.store.clone())),
        Kept::Records | Kept::Whole => scene.store.clone(),
    };
    let terms =
        TrailTerms { dir: scene.dir.join("audit"), key: None, months_kept: recado_audit::MONTHS_KEPT };
    let terms = matches!(kept, Kept::Whole).then_some(terms);
    let started = Instant::now();
    let routes = [quick(Carrier::Transport(Arc::new(Sandbox)))?];
    let engine = engine_on(store, "bench", LEASE, routes, BTreeMap::new(), terms);
    scene.emptied().await?;
    let rate = jobs as f64 / started.elapsed().as_secs_f64();
    match kept {
        Kept::Nothing => round.nothing = rate,
        Kept::Records => round.records = rate,
        Kept::Whole => (round.whole, round.behind) = (rate, unarchived(&*scene.store).await?),
    }
    engine.stop().await?;
    scene.removed()
}

/// What a record adds to a claim and a settle.
async fn settled(options: &Options, progress: &impl Fn(&str), report: &mut Report) -> Result<(), Failed> {
    let (mut bare, mut recorded) = (f64::MAX, f64::MAX);
    for nth in 1..=ROUNDS {
        progress(&format!("settles without a record and with one, {nth} of {ROUNDS}"));
        bare = bare.min(settles(options, false).await?);
        recorded = recorded.min(settles(options, true).await?);
    }
    report.add(BARE_SETTLE, bare, "µs");
    report.add_beside("a record adds", recorded - bare, "µs", BARE_SETTLE);
    Ok(())
}

/// Microseconds that it takes to claim and to settle a job.
async fn settles(options: &Options, with_record: bool) -> Result<f64, Failed> {
    let scene = Scene::new(options, "records").await?;
    let lane = route("sandbox", Carrier::Workers)?;
    let (name, terms) = (lane.name.clone(), lane.terms.clone());
    let intake = scene.engine([lane]);
    let jobs = options.count(JOBS);
    take_in(&intake, jobs, |_| submission("sandbox")).await?;
    let store = &scene.store;
    let started = Instant::now();
    loop {
        let now = SystemClock.now();
        let claim = Claim {
            pick: Pick::Ready(name.clone()),
            max: CLAIM_JOBS,
            now,
            lease_until: now.plus(LEASE),
            worker: "bench".into(),
            outlives_process: false,
            turns: Turns::default(),
        };
        let leases = store.claim(claim).await?.leases;
        if leases.is_empty() {
            break;
        }
        let settlement = |lease: &Lease| {
            let sent = Verdict::Delivered { answer: None };
            let (transition, audit) = decide::after_attempt(lease, sent, &terms, now, now, Draw::new(0.5));
            let audit = with_record.then_some(audit);
            Settlement { token: lease.token, transition, audit, now, follow_ups: Vec::new() }
        };
        store.settle(leases.iter().map(settlement).collect()).await?;
    }
    let took = started.elapsed().as_secs_f64();
    intake.stop().await?;
    scene.removed()?;
    Ok(took * 1e6 / jobs as f64)
}

/// Tried again at once, so that waiting is no part of the figure.
fn quick(carrier: Carrier) -> Result<Route, Failed> {
    let mut route = route("sandbox", carrier)?;
    route.terms.policy = Policy::exponential(Duration::from_millis(1), Duration::from_millis(1), 5);
    Ok(route)
}

async fn unarchived(store: &dyn Store) -> Result<u64, Failed> {
    let archived = archived_in(store, SystemClock.now()).await?;
    let newest = store.audit_in(AuditSpan { part: 0, after: 0, newest_first: true }, 1).await?;
    let newest = newest.first().map_or(0, |record| record.number);
    Ok(newest.saturating_sub(archived.get(&0).copied().unwrap_or(0)))
}
