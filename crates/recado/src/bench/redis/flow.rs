//! Jobs in, jobs out, and jobs that a dead node left behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use recado_core::RouteName;
use recado_engine::{Carrier, Clock, Engine, SystemClock};
use recado_store::{Claim, Pick, Store, Turns};
use recado_store_redis::RedisStore;
use recado_transport::Sandbox;

use super::server::Server;
use crate::bench::deliveries::Arrivals;
use crate::bench::report::{Percentiles, Report};
use crate::bench::scene::{emptied, engine_on, route, submission, submission_of, take_in};
use crate::bench::{Failed, Options};

const ROUTE: &str = "sandbox";

const BATCH_JOBS: usize = 1_000;

/// Jobs that wait when memory is measured, also in a quick run: among few, what does not grow with them counts.
const WAITING_JOBS: usize = 100_000;

/// Batches on their way at once.
const BATCHES_AT_ONCE: usize = 3;

/// Callers that each wait for the answer to one job.
const CALLERS: usize = 256;

/// Companies that wait in a drain, so that each partition has some.
const COMPANIES: usize = 12;

const LEASE_SECONDS: f64 = 15.0;

const ORPHANS: usize = 100;

fn node(store: &Arc<RedisStore>, name: &str, carrier: Carrier) -> Result<Engine, Failed> {
    Ok(engine_on(store.clone(), name, [route(ROUTE, carrier)?], BTreeMap::new(), None))
}

/// How many come in a second, and what each takes of the server's memory while it waits.
pub async fn enqueue_batches(server: &mut Server, report: &mut Report) -> Result<(), Failed> {
    let store = Arc::new(server.store(1).await?);
    let engine = node(&store, "intake", Carrier::Workers)?;
    take_in(&engine, BATCH_JOBS, |_| submission(ROUTE)).await?;
    let before = server.used_bytes().await?;
    let started = Instant::now();
    take_in_at_once(&engine, WAITING_JOBS).await?;
    let rate = WAITING_JOBS as f64 / started.elapsed().as_secs_f64();
    let bytes = server.used_bytes().await?.saturating_sub(before);
    report.add("enqueue, 1,000 a batch", rate, "jobs/s");
    report.add("memory per waiting job", bytes as f64 / WAITING_JOBS as f64, "bytes");
    engine.stop().await?;
    server.cleared().await
}

async fn take_in_at_once(engine: &Engine, jobs: usize) -> Result<(), Failed> {
    let callers: Vec<_> = (0..BATCHES_AT_ONCE)
        .map(|nth| {
            let engine = engine.clone();
            let share = jobs / BATCHES_AT_ONCE + usize::from(nth < jobs % BATCHES_AT_ONCE);
            tokio::spawn(async move { take_in(&engine, share, |_| submission(ROUTE)).await })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(())
}

pub async fn enqueue_singly(
    options: &Options,
    server: &mut Server,
    report: &mut Report,
) -> Result<(), Failed> {
    let store = Arc::new(server.store(1).await?);
    let engine = node(&store, "intake", Carrier::Workers)?;
    let jobs = options.count(100_000);
    let asked = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (engine, asked) = (engine.clone(), asked.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while asked.fetch_add(1, Ordering::Relaxed) < jobs {
                    let at = Instant::now();
                    take_in(&engine, 1, |_| submission(ROUTE)).await?;
                    latencies.push(at.elapsed());
                }
                Ok::<_, Failed>(latencies)
            })
        })
        .collect();
    let mut latencies = Vec::with_capacity(jobs);
    for caller in callers {
        latencies.extend(caller.await??);
    }
    let rate = jobs as f64 / started.elapsed().as_secs_f64();
    report.add("single enqueue, 256 callers", rate, "jobs/s").latency_ms = Percentiles::of(latencies);
    engine.stop().await?;
    server.cleared().await
}

/// From a full queue to an empty one, by this many nodes: jobs a second.
pub async fn drain(
    options: &Options,
    server: &mut Server,
    partitions: u16,
    nodes: usize,
) -> Result<f64, Failed> {
    let store = Arc::new(server.store(partitions).await?);
    // Taken in while only workers could carry it, so that the clock starts with a full queue.
    let intake = node(&store, "intake", Carrier::Workers)?;
    let jobs = options.count(100_000);
    take_in(&intake, jobs, |nth| submission_of(&format!("company-{}", nth % COMPANIES), ROUTE)).await?;
    let mut stores = Vec::new();
    for _ in 0..nodes {
        stores.push(Arc::new(server.store(partitions).await?));
    }
    let started = Instant::now();
    let engines: Vec<Engine> = stores
        .iter()
        .enumerate()
        .map(|(nth, store)| node(store, &format!("node-{nth}"), Carrier::Transport(Arc::new(Sandbox))))
        .collect::<Result<_, _>>()?;
    emptied(&*store).await?;
    let rate = jobs as f64 / started.elapsed().as_secs_f64();
    for engine in engines.iter().chain([&intake]) {
        engine.stop().await?;
    }
    server.cleared().await?;
    Ok(rate)
}

/// Jobs whose node never says anything again: how long after their lease the last of them is at the transport.
pub async fn orphans(options: &Options, server: &mut Server, report: &mut Report) -> Result<(), Failed> {
    let store = Arc::new(server.store(1).await?);
    let arrivals = Arc::new(Arrivals::default());
    let intake = node(&store, "intake", Carrier::Workers)?;
    take_in(&intake, ORPHANS, |_| submission(ROUTE)).await?;
    let (lease, now) = (options.seconds(LEASE_SECONDS), SystemClock.now());
    let claim = Claim {
        pick: Pick::Ready(RouteName::new(ROUTE)?),
        max: ORPHANS,
        now,
        lease_until: now.plus(lease),
        worker: "dead".into(),
        outlives_process: false,
        turns: Turns::default(),
    };
    let (ends, leased) = (Instant::now() + lease, store.claim(claim).await?.leases.len());
    let engine = node(&store, "heir", Carrier::Transport(arrivals.clone()))?;
    emptied(&*store).await?;
    let late = arrivals.since(ends);
    if leased != ORPHANS || late.len() != ORPHANS {
        return Err(format!("{} of {ORPHANS} orphaned jobs ran again", late.len()).into());
    }
    let last = late.iter().max().copied().unwrap_or(Duration::ZERO);
    report.add("orphans run again, after the end of their lease", last.as_secs_f64(), "s").latency_ms =
        Percentiles::of(late);
    engine.stop().await?;
    intake.stop().await?;
    server.cleared().await
}
