//! Measures how fast jobs come in, each answered after its fsync.

use std::net::SocketAddr;
use std::time::Instant;

use recado_api::{ApiOptions, ApiState, ServeLimits};
use recado_client::{Client, GroupLimits, GroupedEnqueuer, JobRequest};
use recado_core::Payload;
use recado_engine::{Carrier, Engine};

use super::load::drive;
use super::report::{Percentiles, Report};
use super::scene::{Scene, job_body, payload, route};
use super::{BenchOptions, Failed, limits};

/// Only workers carry it, so what is measured is taking in, not delivering.
const ROUTE: &str = "bench-worker";

const BATCH_JOBS: usize = 1_000;
const CALLERS: usize = 256;

/// Our API on a free port, over an engine on an empty store.
async fn serve(
    options: &BenchOptions,
    name: &str,
) -> Result<(SocketAddr, Engine, tokio::task::JoinHandle<()>), Failed> {
    let scene = Scene::new(options, name).await?;
    let engine = scene.engine([route(ROUTE, Carrier::Workers)?]);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = recado_api::router(ApiState::new(engine.clone(), ApiOptions::default()));
    let server =
        tokio::spawn(recado_api::serve(listener, router, ServeLimits::default(), std::future::pending()));
    Ok((address, engine, server))
}

pub async fn single(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let (address, engine, server) = serve(options, "single").await?;
    let time = options.seconds(6.0);
    let driven = tokio::task::spawn_blocking(move || {
        drive(address, 50, time, "/v1/jobs", "application/json", || job_body(ROUTE))
    })
    .await??;
    server.abort();
    engine.stop().await?;
    let rate = driven.per_second();
    report
        .add_beside("single enqueue over HTTP, 50 connections", rate, "jobs/s", limits::BARE_AXUM)
        .latency_ms = Percentiles::of(driven.latencies);
    Ok(())
}

pub async fn batch(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let (address, engine, server) = serve(options, "batch").await?;
    let time = options.seconds(6.0);
    let body = || {
        let mut lines = String::with_capacity(BATCH_JOBS * 420);
        for _ in 0..BATCH_JOBS {
            lines.push_str(&job_body(ROUTE));
            lines.push('\n');
        }
        lines
    };
    let driven = tokio::task::spawn_blocking(move || {
        drive(address, 3, time, "/v1/jobs/batch", "application/x-ndjson", body)
    })
    .await??;
    server.abort();
    engine.stop().await?;
    let rate = driven.per_second() * BATCH_JOBS as f64;
    report
        .add_beside("batch enqueue over HTTP, 1,000 a batch", rate, "jobs/s", limits::RAW_INSERTS)
        .latency_ms = Percentiles::of(driven.latencies);
    Ok(())
}

pub async fn coalesced(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let (address, engine, server) = serve(options, "coalesced").await?;
    let client = Client::new(&format!("http://{address}"), None)?;
    let enqueuer = GroupedEnqueuer::start(client, GroupLimits::default());
    let time = options.seconds(6.0);
    let started = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let enqueuer = enqueuer.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while started.elapsed() < time {
                    let asked = Instant::now();
                    enqueuer.enqueue(JobRequest::new(ROUTE, "acme", Payload::trusted(payload()))).await?;
                    latencies.push(asked.elapsed());
                }
                Ok::<_, Failed>(latencies)
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for caller in callers {
        latencies.extend(caller.await??);
    }
    let rate = latencies.len() as f64 / started.elapsed().as_secs_f64();
    server.abort();
    engine.stop().await?;
    report
        .add_beside("enqueue through the client, 256 callers", rate, "jobs/s", limits::RAW_INSERTS)
        .latency_ms = Percentiles::of(latencies);
    Ok(())
}
