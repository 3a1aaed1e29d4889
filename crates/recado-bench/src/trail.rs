//! Measures the cost of the audit trail: a record in the store with every settle, and the files that it is
//! archived to.
//!
//! **The whole**: the same drain without any trail, with records alone, and with records and the archiver.
//! All three take turns, forwards and backwards, and the best round of each counts: a disturbance on a shared
//! machine only slows down. Twice: jobs that are sent at once leave one record each, jobs that fail once
//! leave two, one of them with all nine fields. Only the drain is on the clock; the rest that is left to
//! archive when it ends is reported beside, with its speed when nothing else runs.
//!
//! **A record**: jobs are claimed and settled right on the store, once with a record each and once without.
//! Nothing else is on the clock, and the best counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::{Draw, Lease, Payload, Policy, Verdict, decide};
use recado_engine::audit::{TrailTerms, archived_in};
use recado_engine::{Carrier, Clock, Route, Submission, SystemClock};
use recado_store::prelude::*;
use recado_store::{AuditSpan, Settlement, Store};
use recado_transport::Sandbox;

use super::report::Report;
use super::scene::{LEASE, Scene, claim, engine_on, payload, route, submission, take_in};
use super::unrecorded::Unrecorded;
use super::{BenchOptions, Failed};

const BARE_SETTLE: &str = "a claim and a settle without a record, a job";

const ROUNDS: usize = 7;

/// Claimed and settled on the store.
const SETTLED_JOBS: usize = 60_000;

/// The part of the trail that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptTrail {
    Nothing,
    Records,
    Whole,
}

/// A drain of jobs that are all answered alike.
#[derive(Debug, Clone, Copy)]
struct Drain {
    name: &'static str,
    /// The sandbox's answer to each.
    script: &'static str,
    /// Enough for about two seconds.
    jobs: usize,
}

const DRAINS: [Drain; 2] = [
    Drain { name: "drain, each job sent at once", script: r#"["ok"]"#, jobs: 180_000 },
    Drain { name: "drain, each job fails once", script: r#"["503 busy","ok"]"#, jobs: 60_000 },
];

/// Jobs a second of the three drains of a round.
#[derive(Debug, Default, Clone, Copy)]
struct Round {
    nothing: f64,
    records: f64,
    whole: f64,
    /// Records that the files still lacked at its end, and how many a second were copied then.
    behind: f64,
    copied: f64,
}

pub async fn measure(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Report, Failed> {
    let mut report = Report::default();
    settled(options, &progress, &mut report).await?;
    for of in DRAINS {
        let name = of.name;
        let mut rounds = Vec::new();
        for nth in 1..=ROUNDS {
            progress(&format!("{name}: without a trail, with records, with files, {nth} of {ROUNDS}"));
            let mut turns = [KeptTrail::Nothing, KeptTrail::Records, KeptTrail::Whole];
            if nth % 2 == 0 {
                turns.reverse();
            }
            let mut round = Round::default();
            for kept in turns {
                drain(options, of, kept, &mut round).await?;
            }
            rounds.push(round);
        }
        drained(&mut report, name, &rounds);
    }
    Ok(report)
}

fn drained(report: &mut Report, name: &str, rounds: &[Round]) {
    let best = |of: fn(&Round) -> f64| rounds.iter().map(of).fold(0.0, f64::max);
    let nothing = best(|round| round.nothing);
    let records = best(|round| round.records);
    let whole = best(|round| round.whole);
    let without = format!("{name}: without a trail");
    report.add(without.clone(), nothing, "jobs/s");
    report.add_beside(format!("{name}: with records"), records, "jobs/s", without.clone());
    report.add_beside(format!("{name}: with records and files"), whole, "jobs/s", without);
    let mut lost = |to: &str, left: f64, of: f64| {
        report.add(format!("{name}: lost to {to}"), (1.0 - left / of) * 100.0, "%");
    };
    lost("records", records, nothing);
    lost("the archiver", whole, records);
    lost("the whole trail (aim: < 15 %)", whole, nothing);
    let behind = best(|round| round.behind);
    report.add(format!("{name}: records not in the files yet at its end"), behind, "records");
    let copied = best(|round| round.copied);
    report.add(format!("{name}: those copied, with nothing else to do"), copied, "records/s");
}

/// From a full queue to an empty one.
async fn drain(options: &BenchOptions, of: Drain, kept: KeptTrail, round: &mut Round) -> Result<(), Failed> {
    let scene = Scene::new(options, "trail").await?;
    let (jobs, sandbox) = (options.count(of.jobs), quick(Carrier::Transport(Arc::new(Sandbox)))?);
    let data = Payload::trusted(payload().replacen(r#"["ok"]"#, of.script, 1));
    let submission = |_| Submission { data: data.clone(), ..submission("sandbox") };
    scene.fill(jobs, sandbox.clone(), submission).await?;
    let store: Arc<dyn Store> = match kept {
        KeptTrail::Nothing => Arc::new(Unrecorded(scene.store.clone())),
        KeptTrail::Records | KeptTrail::Whole => scene.store.clone(),
    };
    let terms =
        TrailTerms { dir: scene.dir.join("audit"), key: None, months_kept: recado_audit::MONTHS_KEPT };
    let terms = (kept == KeptTrail::Whole).then_some(terms);
    let started = Instant::now();
    let engine = engine_on(store, "bench", LEASE, [sandbox], BTreeMap::new(), terms);
    scene.emptied().await?;
    let rate = jobs as f64 / started.elapsed().as_secs_f64();
    match kept {
        KeptTrail::Nothing => round.nothing = rate,
        KeptTrail::Records => round.records = rate,
        KeptTrail::Whole => (round.whole, round.behind) = (rate, unarchived(&*scene.store).await?),
    }
    let stopping = Instant::now();
    engine.stop().await?;
    if kept == KeptTrail::Whole {
        round.copied = round.behind / stopping.elapsed().as_secs_f64();
    }
    scene.removed()
}

/// Measures what a record adds to a claim and a settle.
async fn settled(
    options: &BenchOptions,
    progress: &impl Fn(&str),
    report: &mut Report,
) -> Result<(), Failed> {
    let (mut bare, mut recorded) = (f64::MAX, f64::MAX);
    for nth in 1..=ROUNDS {
        progress(&format!("settles without a record and with one, {nth} of {ROUNDS}"));
        bare = bare.min(settles(options, KeptTrail::Nothing).await?);
        recorded = recorded.min(settles(options, KeptTrail::Records).await?);
    }
    report.add(BARE_SETTLE, bare, "µs");
    report.add_beside("a record adds", recorded - bare, "µs", BARE_SETTLE);
    Ok(())
}

/// Microseconds that it takes to claim and to settle a job.
async fn settles(options: &BenchOptions, kept: KeptTrail) -> Result<f64, Failed> {
    let scene = Scene::new(options, "records").await?;
    let lane = route("sandbox", Carrier::Workers)?;
    let (name, terms) = (lane.name.clone(), lane.terms.clone());
    let intake = scene.engine([lane]);
    let jobs = options.count(SETTLED_JOBS);
    take_in(&intake, jobs, |_| submission("sandbox")).await?;
    let store = &scene.store;
    let started = Instant::now();
    loop {
        let claim = claim(&name, LEASE);
        let now = claim.now;
        let leases = store.claim(claim).await?.leases;
        if leases.is_empty() {
            break;
        }
        let settlement = |lease: &Lease| {
            let sent = Verdict::Delivered { answer: None };
            let (transition, audit) =
                decide::decide_after_attempt(lease, sent, &terms, now, now, Draw::new(0.5));
            let audit = (kept != KeptTrail::Nothing).then_some(audit);
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

async fn unarchived(store: &dyn Store) -> Result<f64, Failed> {
    let archived = archived_in(store, SystemClock.now()).await?;
    let newest = store.audit_records(AuditSpan { part: 0, after: 0, newest_first: true }, 1).await?;
    let newest = newest.first().map_or(0, |record| record.number);
    Ok(newest.saturating_sub(archived.get(&0).copied().unwrap_or(0)) as f64)
}
