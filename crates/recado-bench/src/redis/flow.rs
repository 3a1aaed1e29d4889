//! Jobs in, jobs out, and jobs that a dead node left behind.

use recado_store::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use recado_core::Payload;
use recado_core::time::show_duration;
use recado_engine::{Carrier, Clock, Engine, Submission, SystemClock};
use recado_store_redis::RedisStore;

use super::ROUTE;
use super::node::NodeProcess;
use super::server::RedisServer;
use crate::deliveries::Arrivals;
use crate::report::Report;
use crate::scene::{LEASE, LOOK, at_once, emptied, engine_on, route, submission, submission_of, take_in};
use crate::{BenchOptions, Failed};

const BATCH_JOBS: usize = 1_000;

/// Jobs that wait when memory is measured, also in a quick run: among few, what does not grow with them counts.
const WAITING_JOBS: usize = 100_000;

/// Batches on their way at once.
const BATCHES_AT_ONCE: usize = 3;

/// Callers that each wait for the answer to one job.
const CALLERS: usize = 256;

/// Companies that wait in a drain, so that each partition has some.
const COMPANIES: usize = 12;

const ORPHANS: usize = 100;

/// The job of the node that is killed: longer than any lease, and within the route's timeout.
const ORPHAN_DATA: &str = r#"{"script":["ok"],"latencyMs":25000}"#;

/// An engine in this process, that takes jobs in or notes when they reach it.
fn engine(store: &Arc<RedisStore>, name: &str, carrier: Carrier) -> Result<Engine, Failed> {
    Ok(engine_on(store.clone(), name, LEASE, [route(ROUTE, carrier)?], BTreeMap::new(), None))
}

/// Measures enqueues per second, and the server's memory for each waiting job.
pub async fn enqueue_batches(server: &mut RedisServer, report: &mut Report) -> Result<(), Failed> {
    let store = Arc::new(server.store(1).await?);
    let engine = engine(&store, "intake", Carrier::Workers)?;
    take_in(&engine, BATCH_JOBS, |_| submission(ROUTE)).await?;
    let before = server.used_bytes().await?;
    let started = Instant::now();
    at_once(BATCHES_AT_ONCE, |nth| {
        let share = WAITING_JOBS / BATCHES_AT_ONCE + usize::from(nth < WAITING_JOBS % BATCHES_AT_ONCE);
        let engine = engine.clone();
        async move { take_in(&engine, share, |_| submission(ROUTE)).await }
    })
    .await?;
    let rate = WAITING_JOBS as f64 / started.elapsed().as_secs_f64();
    let bytes = server.used_bytes().await?.saturating_sub(before);
    report.add("enqueue, 1,000 a batch", rate, "jobs/s");
    report.add("memory per waiting job", bytes as f64 / WAITING_JOBS as f64, "bytes");
    engine.stop().await?;
    server.cleared().await
}

pub async fn enqueue_singly(
    options: &BenchOptions,
    server: &mut RedisServer,
    with: &str,
    report: &mut Report,
) -> Result<(), Failed> {
    let store = Arc::new(server.store(1).await?);
    let engine = engine(&store, "intake", Carrier::Workers)?;
    let jobs = options.count(100_000);
    let started = Instant::now();
    let latencies = take_in_by_callers(&engine, jobs).await?;
    let rate = jobs as f64 / started.elapsed().as_secs_f64();
    let what = format!("single enqueue, {CALLERS} callers{with}");
    report.add(what, rate, "jobs/s").set_latencies(latencies);
    engine.stop().await?;
    server.cleared().await
}

/// Takes jobs in from callers that each wait for the answer to one job. Returns the time that each answer took.
async fn take_in_by_callers(engine: &Engine, jobs: usize) -> Result<Vec<Duration>, Failed> {
    let asked = Arc::new(AtomicUsize::new(0));
    let latencies = at_once(CALLERS, |_| {
        let (engine, asked) = (engine.clone(), asked.clone());
        async move {
            let mut latencies = Vec::new();
            while asked.fetch_add(1, Ordering::Relaxed) < jobs {
                let at = Instant::now();
                take_in(&engine, 1, |_| submission(ROUTE)).await?;
                latencies.push(at.elapsed());
            }
            Ok(latencies)
        }
    });
    Ok(latencies.await?.concat())
}

/// Measures jobs per second from the first single enqueue to the last delivery, by a node that is at work from the start.
pub async fn end_to_end(
    options: &BenchOptions,
    server: &mut RedisServer,
    report: &mut Report,
) -> Result<(), Failed> {
    let store = Arc::new(server.store(1).await?);
    let intake = engine(&store, "intake", Carrier::Workers)?;
    let mut node = server.node("node-0", 1, LEASE).await?;
    node.go()?;
    let jobs = options.count(100_000);
    let started = Instant::now();
    take_in_by_callers(&intake, jobs).await?;
    emptied(&*store).await?;
    report.add("end to end, single enqueues", jobs as f64 / started.elapsed().as_secs_f64(), "jobs/s");
    node.stop().await?;
    intake.stop().await?;
    server.cleared().await
}

/// From a full queue to an empty one, by this many nodes: jobs a second.
pub async fn drain(
    options: &BenchOptions,
    server: &mut RedisServer,
    partitions: u16,
    nodes: usize,
) -> Result<f64, Failed> {
    let store = Arc::new(server.store(partitions).await?);
    // Taken in while only workers could carry it, so that the clock starts with a full queue.
    let intake = engine(&store, "intake", Carrier::Workers)?;
    let jobs = options.count(100_000);
    take_in(&intake, jobs, |nth| submission_of(&format!("company-{}", nth % COMPANIES), ROUTE)).await?;
    let mut working = Vec::with_capacity(nodes);
    for nth in 0..nodes {
        working.push(server.node(&format!("node-{nth}"), partitions, LEASE).await?);
    }
    let started = Instant::now();
    working.iter_mut().try_for_each(NodeProcess::go)?;
    emptied(&*store).await?;
    let rate = jobs as f64 / started.elapsed().as_secs_f64();
    for node in working {
        node.stop().await?;
    }
    intake.stop().await?;
    server.cleared().await?;
    Ok(rate)
}

/// A node is killed at work: how long until the last of its jobs is at another one's transport.
pub async fn orphans(
    options: &BenchOptions,
    server: &mut RedisServer,
    report: &mut Report,
) -> Result<(), Failed> {
    let store = Arc::new(server.store(1).await?);
    let intake = engine(&store, "intake", Carrier::Workers)?;
    let slow = |_| Submission { data: Payload::trusted(ORPHAN_DATA), ..submission(ROUTE) };
    take_in(&intake, ORPHANS, slow).await?;
    let lease = options.seconds(LEASE.as_secs_f64());
    let mut victim = server.node("victim", 1, lease).await?;
    victim.go()?;
    while store.counts(SystemClock.now()).await?.leased < ORPHANS as u64 {
        tokio::time::sleep(LOOK).await;
    }
    let arrivals = Arc::new(Arrivals::default());
    let heir = engine(&store, "heir", Carrier::Transport(arrivals.clone()))?;
    // As `kill -9`.
    drop(victim);
    let killed = Instant::now();
    emptied(&*store).await?;
    let late = arrivals.since(killed);
    if late.len() != ORPHANS {
        return Err(format!("{} of {ORPHANS} orphaned jobs ran again", late.len()).into());
    }
    let last = late.iter().max().copied().unwrap_or(Duration::ZERO);
    let what = format!("jobs of a killed node run again, lease {}", show_duration(lease));
    report.add(what, last.as_secs_f64(), "s").set_latencies(late);
    heir.stop().await?;
    intake.stop().await?;
    server.cleared().await
}
