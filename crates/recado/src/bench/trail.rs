//! What the audit trail costs: a record in the store with every settle, and the files that it is archived to.
//!
//! Records: jobs are claimed and settled right on the store, once with a record each and once without. Nothing else is
//! on the clock, so the difference is all that a record costs; what it means stands beside a whole drain.
//!
//! Files: the same drain with the archiver and without. Each job fails once and then succeeds, so each leaves two records, one of them with all nine fields. Both kinds take
//! turns, and the best of each counts: whatever disturbs a shared machine makes a drain slower and never faster. Only
//! the drain is on the clock; what is left to be archived when it ends is said beside.

use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::{Draw, Lease, Payload, Policy, Verdict, decide};
use recado_engine::trail::{TrailTerms, archived_in};
use recado_engine::{Carrier, Clock, Route, SystemClock};
use recado_store::{AuditSpan, Claim, Pick, Settlement, Store, Turns};
use recado_transport::Sandbox;

use super::report::Report;
use super::scene::{LEASE, Scene, route, submission, take_in};
use super::{Failed, Options};

const BARE_SETTLE: &str = "a claim and a settle without a record, a job";
const WITHOUT: &str = "drain, each job fails once: without the archiver";
const WITH: &str = "drain, each job fails once: with the archiver";

/// Drains of each kind; the best counts.
const ROUNDS: usize = 3;

/// As many as the engine claims at a time.
const CLAIM_JOBS: usize = 256;

pub async fn measure(options: &Options, progress: impl Fn(&str)) -> Result<Report, Failed> {
    let mut report = Report::default();
    let (mut without, mut with, mut behind) = (0.0_f64, 0.0_f64, 0);
    for nth in 1..=ROUNDS {
        progress(&format!("a drain without the archiver and one with it, {nth} of {ROUNDS}"));
        without = without.max(drain(options, false).await?.0);
        let (rate, left) = drain(options, true).await?;
        if rate > with {
            (with, behind) = (rate, left);
        }
    }
    let (mut bare, mut recorded) = (f64::MAX, f64::MAX);
    for nth in 1..=ROUNDS {
        progress(&format!("settles without a record and with one, {nth} of {ROUNDS}"));
        bare = bare.min(settles(options, false).await?);
        recorded = recorded.min(settles(options, true).await?);
    }
    report.add(BARE_SETTLE, bare, "µs");
    report.add_beside("a record adds", recorded - bare, "µs", BARE_SETTLE);
    // Two settles a job, and two records.
    let drain_us = 1e6 / without;
    report.add("records' share of a drain", 2.0 * (recorded - bare) / drain_us * 100.0, "%");
    report.add(WITHOUT, without, "jobs/s");
    report.add_beside(WITH, with, "jobs/s", WITHOUT);
    report.add("lost to the archiver", (1.0 - with / without) * 100.0, "%");
    report.add("records not archived yet at the end", behind as f64, "records");
    Ok(report)
}

/// Jobs a second from a full queue to an empty one, and how many records the files still lack.
async fn drain(options: &Options, archive: bool) -> Result<(f64, u64), Failed> {
    let scene = Scene::new(options, "trail").await?;
    // Taken in while only workers could carry it, so that the clock starts with a full queue.
    let intake = scene.engine([quick(Carrier::Workers)?]);
    let jobs = options.count(100_000);
    let data = Payload::trusted(super::scene::payload().replacen("[\"ok\"]", "[\"503 busy\",\"ok\"]", 1));
    take_in(&intake, jobs, |_| recado_engine::Submission { data: data.clone(), ..submission("sandbox") })
        .await?;
    let terms =
        TrailTerms { dir: scene.dir.join("audit"), key: None, months_kept: recado_audit::MONTHS_KEPT };
    let started = Instant::now();
    let engine =
        scene.archiving_engine([quick(Carrier::Transport(Arc::new(Sandbox)))?], archive.then_some(terms));
    scene.emptied().await?;
    let rate = jobs as f64 / started.elapsed().as_secs_f64();
    let left = if archive { unarchived(&*scene.store).await? } else { 0 };
    engine.stop().await?;
    scene.removed()?;
    Ok((rate, left))
}

/// Microseconds that it takes to claim and to settle a job.
async fn settles(options: &Options, with_record: bool) -> Result<f64, Failed> {
    let scene = Scene::new(options, "records").await?;
    let lane = route("sandbox", Carrier::Workers)?;
    let (name, terms) = (lane.name.clone(), lane.terms.clone());
    let intake = scene.engine([lane]);
    let jobs = options.count(100_000);
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
