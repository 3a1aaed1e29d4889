//! What the audit trail's files cost: the same drain with the archiver and without.
//!
//! Each job fails once and then succeeds, so each leaves two records, one of them with all nine fields. Both kinds take
//! turns, and the best of each counts: whatever disturbs a shared machine makes a drain slower and never faster. Only
//! the drain is on the clock; what is left to be archived when it ends is said beside.

use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::{Payload, Policy};
use recado_engine::trail::{TrailTerms, archived_in};
use recado_engine::{Carrier, Clock, Route, SystemClock};
use recado_store::{AuditSpan, Store};
use recado_transport::Sandbox;

use super::report::Report;
use super::scene::{Scene, route, submission, take_in};
use super::{Failed, Options};

const WITHOUT: &str = "drain, each job fails once: without the archiver";
const WITH: &str = "drain, each job fails once: with the archiver";

/// Drains of each kind; the best counts.
const ROUNDS: usize = 3;

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
