//! Measures how fast jobs come in, each answered after its fsync.

use std::net::SocketAddr;
use std::time::Instant;

use recado_client::{Client, GroupLimits, GroupedEnqueuer, JobRequest};
use recado_core::Payload;
use recado_engine::{Carrier, Engine};
use tokio::task::JoinHandle;

use super::load::{Posted, drive};
use super::report::Report;
use super::scene::{Scene, at_once, job_body, payload, route, serve};
use super::{BenchOptions, Failed, limits};

/// Only workers carry it, so what is measured is taking in, not delivering.
const ROUTE: &str = "bench-worker";

const BATCH_JOBS: usize = 1_000;
const CALLERS: usize = 256;

/// Our API over an engine on an empty store.
async fn served(options: &BenchOptions, name: &str) -> Result<(SocketAddr, Engine, JoinHandle<()>), Failed> {
    let engine = Scene::new(options, name).await?.engine([route(ROUTE, Carrier::Workers)?]);
    let (address, server) = serve(&engine).await?;
    Ok((address, engine, server))
}

pub async fn single(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let (address, engine, server) = served(options, "single").await?;
    let posted = Posted { path: "/v1/jobs", content_type: "application/json", body: || job_body(ROUTE) };
    let driven = drive(address, 50, options.seconds(6.0), posted).await?;
    server.abort();
    engine.stop().await?;
    let name = "single enqueue over HTTP, 50 connections";
    report.add_beside(name, driven.per_second(), "jobs/s", limits::BARE_AXUM).set_latencies(driven.latencies);
    Ok(())
}

pub async fn batch(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let (address, engine, server) = served(options, "batch").await?;
    let body = || {
        let mut lines = String::with_capacity(BATCH_JOBS * 420);
        for _ in 0..BATCH_JOBS {
            lines.push_str(&job_body(ROUTE));
            lines.push('\n');
        }
        lines
    };
    let posted = Posted { path: "/v1/jobs/batch", content_type: "application/x-ndjson", body };
    let driven = drive(address, 3, options.seconds(6.0), posted).await?;
    server.abort();
    engine.stop().await?;
    let (name, rate) = ("batch enqueue over HTTP, 1,000 a batch", driven.per_second() * BATCH_JOBS as f64);
    report.add_beside(name, rate, "jobs/s", limits::RAW_INSERTS).set_latencies(driven.latencies);
    Ok(())
}

pub async fn coalesced(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let (address, engine, server) = served(options, "coalesced").await?;
    let client = Client::new(&format!("http://{address}"), None)?;
    let enqueuer = GroupedEnqueuer::start(client, GroupLimits::default());
    let time = options.seconds(6.0);
    let started = Instant::now();
    let latencies = at_once(CALLERS, |_| {
        let enqueuer = enqueuer.clone();
        async move {
            let mut latencies = Vec::new();
            while started.elapsed() < time {
                let asked = Instant::now();
                enqueuer.enqueue(JobRequest::new(ROUTE, "acme", Payload::trusted(payload()))).await?;
                latencies.push(asked.elapsed());
            }
            Ok(latencies)
        }
    })
    .await?
    .concat();
    let rate = latencies.len() as f64 / started.elapsed().as_secs_f64();
    server.abort();
    engine.stop().await?;
    let name = "enqueue through the client, 256 callers";
    report.add_beside(name, rate, "jobs/s", limits::RAW_INSERTS).set_latencies(latencies);
    Ok(())
}
