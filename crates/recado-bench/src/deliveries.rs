//! Measures how fast jobs leave, how soon they start, how punctual they are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::{Outcome, Payload};
use recado_engine::{Carrier, Clock, Engine, SystemClock};
use recado_store::prelude::*;
use recado_transport::{DataFault, Delivery, Sandbox, Transport, TransportKind};

use super::load::{Posted, drive};
use super::report::Report;
use super::scene::{Scene, job_body, route, serve, submission, take_in};
use super::{BenchOptions, Failed, limits};

const END_TO_END: &str = "end to end: single enqueues over HTTP, 50 connections, delivered";

/// Background load: so many jobs at each tick are 20,000 a second.
const LOAD_JOBS: usize = 100;
const LOAD_TICK: Duration = Duration::from_millis(5);

pub async fn drain(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let scene = Scene::new(options, "drain").await?;
    let (jobs, sandbox) = (options.count(300_000), route("sandbox", Carrier::Transport(Arc::new(Sandbox)))?);
    scene.fill(jobs, sandbox.clone(), |_| submission("sandbox")).await?;
    let bytes_per_job = scene.size_bytes() as f64 / jobs as f64;
    let started = Instant::now();
    let engine = scene.engine([sandbox]);
    scene.emptied().await?;
    let rate = jobs as f64 / started.elapsed().as_secs_f64();
    report.add_beside("sandbox drain", rate, "jobs/s", limits::RAW_UPDATES);
    report.add_beside("sandbox drain per fsync", rate, "jobs/s", limits::FSYNC);
    report.add("disk per waiting job", bytes_per_job, "bytes");
    engine.stop().await?;
    Ok(())
}

/// Measures jobs from a call over HTTP, answered after its fsync, to their end: from the first call to the last
/// delivery.
pub async fn end_to_end(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let scene = Scene::new(options, "end-to-end").await?;
    let engine = scene.engine([route("sandbox", Carrier::Transport(Arc::new(Sandbox)))?]);
    let (address, server) = serve(&engine).await?;
    let posted = Posted { path: "/v1/jobs", content_type: "application/json", body: || job_body("sandbox") };
    let started = Instant::now();
    let driven = drive(address, 50, options.seconds(6.0), posted).await?;
    scene.emptied().await?;
    let rate = driven.latencies.len() as f64 / started.elapsed().as_secs_f64();
    server.abort();
    engine.stop().await?;
    report.add_beside(END_TO_END, rate, "jobs/s", limits::BARE_AXUM).set_latencies(driven.latencies);
    Ok(())
}

/// Notes when each job reached it.
#[derive(Debug, Default)]
pub struct Arrivals(Mutex<HashMap<String, (Instant, i64)>>);

#[async_trait]
impl Transport for Arrivals {
    fn kind(&self) -> TransportKind {
        TransportKind::Custom("arrivals")
    }

    fn check(&self, _data: &Payload) -> Result<(), Vec<DataFault>> {
        Ok(())
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        let at = (Instant::now(), SystemClock.now().as_millis());
        self.0.lock().insert(delivery.job.id.as_str().to_owned(), at);
        Outcome::Accepted { answer: None }
    }
}

impl Arrivals {
    /// Time from `start` to each arrival.
    pub fn since(&self, start: Instant) -> Vec<Duration> {
        self.0.lock().values().map(|(at, _)| at.saturating_duration_since(start)).collect()
    }

    /// Sends a steady 200 jobs a second over these routes in turn: how long each took from the moment a caller
    /// asks, over the durable answer, to the transport.
    pub async fn pickups(
        &self,
        engine: &Engine,
        routes: &[&str],
        time: Duration,
    ) -> Result<Vec<Duration>, Failed> {
        let jobs = (200.0 * time.as_secs_f64()) as usize;
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        let mut asked = Vec::with_capacity(jobs);
        for route in routes.iter().cycle().take(jobs) {
            tick.tick().await;
            let submission = submission(route);
            let id = submission.job_id.clone().unwrap_or_default();
            asked.push((id, Instant::now()));
            engine.intake.submit(vec![submission]).await?;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut arrived = self.0.lock();
        let waits = asked.iter().filter_map(|(id, at)| Some(arrived.remove(id)?.0.duration_since(*at)));
        let waits: Vec<Duration> = waits.collect();
        if waits.len() != jobs {
            return Err(format!("{} of {jobs} jobs were picked up", waits.len()).into());
        }
        Ok(waits)
    }
}

pub async fn pickup(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let scene = Scene::new(options, "pickup").await?;
    let arrivals = Arc::new(Arrivals::default());
    let engine = scene.engine([route("arrivals", Carrier::Transport(arrivals.clone()))?]);
    let waits = arrivals.pickups(&engine, &["arrivals"], options.seconds(10.0)).await?;
    engine.stop().await?;
    let jobs = waits.len() as f64;
    report.add("pickup at 200 jobs/s", jobs, "jobs").set_latencies(waits);
    Ok(())
}

/// Measures the same pickup while other jobs go through the same engine.
pub async fn pickup_under_load(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let scene = Scene::new(options, "pickup-under-load").await?;
    let arrivals = Arc::new(Arrivals::default());
    let engine = scene.engine([
        route("arrivals", Carrier::Transport(arrivals.clone()))?,
        route("sandbox", Carrier::Transport(Arc::new(Sandbox)))?,
    ]);
    let started = Instant::now();
    let load = tokio::spawn(load(engine.clone()));
    let waits = arrivals.pickups(&engine, &["arrivals"], options.seconds(10.0)).await?;
    let ended = scene.store.counts(SystemClock.now()).await?.ended;
    let rate = (ended as f64 - waits.len() as f64) / started.elapsed().as_secs_f64();
    load.abort();
    engine.stop().await?;
    report.add("pickup at 200 jobs/s beside 20,000 jobs/s: the others", rate, "jobs/s").set_latencies(waits);
    Ok(())
}

/// Enqueues background jobs until it is aborted.
async fn load(engine: Engine) -> Result<(), Failed> {
    let mut tick = tokio::time::interval(LOAD_TICK);
    loop {
        tick.tick().await;
        take_in(&engine, LOAD_JOBS, |_| submission("sandbox")).await?;
    }
}

/// Measures how late scheduled jobs start.
pub async fn due(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let scene = Scene::new(options, "due").await?;
    let arrivals = Arc::new(Arrivals::default());
    let engine = scene.engine([route("arrivals", Carrier::Transport(arrivals.clone()))?]);
    let jobs = options.count(4_000);
    let spread_ms = 4_000;
    let first = SystemClock.now().plus(Duration::from_millis(1_500));
    let mut due = HashMap::new();
    let mut batch = Vec::with_capacity(jobs);
    for nth in 0..jobs {
        let at = first.plus(Duration::from_millis((nth * spread_ms / jobs) as u64));
        let mut later = submission("arrivals");
        later.run_at = Some(at);
        due.insert(later.job_id.clone().unwrap_or_default(), at.as_millis());
        batch.push(later);
    }
    engine.intake.submit(batch).await?;
    let wait = first.plus(Duration::from_millis(spread_ms as u64 + 1_000)).since(SystemClock.now());
    tokio::time::sleep(wait).await;
    engine.stop().await?;
    let arrived = arrivals.0.lock();
    let late: Vec<i64> = due.iter().filter_map(|(id, at)| Some(arrived.get(id)?.1 - at)).collect();
    if late.len() != jobs || late.iter().any(|late| *late < 0) {
        return Err(format!("{} of {jobs} jobs started, some before their time", late.len()).into());
    }
    let late = late.into_iter().map(|late| Duration::from_millis(late.unsigned_abs())).collect();
    report.add("start after due time", jobs as f64, "jobs").set_latencies(late);
    Ok(())
}
