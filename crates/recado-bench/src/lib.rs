//! `recado bench`: what this build does on this machine, beside what the machine itself can do.
//!
//! Absolute figures say little on a shared machine, so each one stands beside a limit that was measured in
//! the same run: how often the disk syncs, how fast bare SQLite inserts and updates, how fast a bare axum
//! handler answers. The ratio is the figure to keep.

mod curves;
mod deliveries;
mod enqueues;
mod lanes;
mod limits;
mod load;
mod pages;
mod process;
mod real;
mod redis;
mod report;
mod restart;
mod scene;
mod trail;
mod unrecorded;

use std::path::PathBuf;
use std::time::Duration;

pub use real::Receivers;
pub use redis::node::{COMMAND as NODE_COMMAND, run as run_node};
pub use report::Report;

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Throughput and latency of jobs, from enqueue to delivery
    Flow,
    /// Drain and end-to-end rate of the bare queue: the part of flow that `bench/run` puts beside other queues
    Queue,
    /// Cost of turns, breakers and limits, and proof that they hold
    Lanes,
    /// Throughput of jobs over a Redis that nodes share
    Redis,
    /// Cost of keeping the audit trail
    Audit,
    /// Deliveries to real receivers, through the whole product
    Deliveries,
    /// Latency of the dashboard's pages, with a million jobs behind them
    Pages,
    /// Cost of a job while one thing grows, drawn as SVG
    Curves,
}

/// Size and length of a run.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    pub part: Part,
    /// Directory of the files; removed afterwards.
    pub dir: PathBuf,
    /// Scales counts and durations: 1.0 is the full run.
    pub scale: f64,
    /// Waiting jobs for the restart.
    pub pending: usize,
    /// Length of a provider's outage.
    pub outage: Duration,
    /// The Redis to measure; one is started without it.
    pub redis_url: Option<String>,
    /// Receivers of real deliveries.
    pub receivers: Option<Receivers>,
    /// Directory of the drawn curves; created where it is missing.
    pub plots: PathBuf,
}

impl BenchOptions {
    pub fn count(&self, full: usize) -> usize {
        ((full as f64 * self.scale) as usize).max(1_000)
    }

    pub fn seconds(&self, full: f64) -> Duration {
        Duration::from_secs_f64((full * self.scale).max(0.3))
    }
}

/// A failure, in words.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Runs it, telling `progress` what comes next.
pub async fn run(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Report, Failed> {
    if let Some(parent) = options.dir.parent() {
        std::fs::create_dir_all(parent)?;
    }
    // In one step: another bench that is started at the same time must not get it, too.
    let shown = options.dir.display();
    std::fs::create_dir(&options.dir).map_err(|error| format!("cannot make {shown}: {error}"))?;
    let _removed = RemovedOnDrop(options.dir.canonicalize()?);
    let options = BenchOptions { dir: options.dir.canonicalize()?, ..options.clone() };
    match options.part {
        Part::Flow => flow(&options, progress).await,
        Part::Queue => {
            let mut report = Report::default();
            queue(&options, &mut report, progress).await.map(|()| report)
        }
        Part::Lanes => lanes::measure(&options, progress).await,
        Part::Redis => redis::measure(&options, progress).await,
        Part::Audit => trail::measure(&options, progress).await,
        Part::Deliveries => real::measure(&options, progress).await,
        Part::Curves => curves::measure(&options, progress).await,
        Part::Pages => pages::measure(&options, progress).await,
    }
}

/// Removes the files when the measurement is over, however it ends.
struct RemovedOnDrop(PathBuf);

impl Drop for RemovedOnDrop {
    fn drop(&mut self) {
        // A thread that was left behind may still make files there.
        for _ in 0..20 {
            if std::fs::remove_dir_all(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

async fn flow(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Report, Failed> {
    let mut report = Report::default();
    progress("the disk: syncs a second");
    limits::fsync(options, &mut report).await?;
    progress("bare SQLite: inserts and updates");
    limits::sqlite(options, &mut report).await?;
    progress("a bare axum handler, 50 connections");
    limits::bare_axum(options, &mut report).await?;
    progress("single enqueues over HTTP, 50 connections");
    enqueues::single(options, &mut report).await?;
    progress("batch enqueues over HTTP");
    enqueues::batch(options, &mut report).await?;
    progress("enqueues through the coalescing client");
    enqueues::coalesced(options, &mut report).await?;
    queue(options, &mut report, &progress).await?;
    progress("pickup at 200 jobs a second");
    deliveries::pickup(options, &mut report).await?;
    progress("the same beside 20,000 jobs a second");
    deliveries::pickup_under_load(options, &mut report).await?;
    progress("jobs that become due");
    deliveries::due(options, &mut report).await?;
    progress(&format!("restart with {} jobs waiting", options.pending));
    restart::restart(options, &mut report).await?;
    Ok(report)
}

async fn queue(options: &BenchOptions, report: &mut Report, progress: impl Fn(&str)) -> Result<(), Failed> {
    progress("sandbox drain");
    deliveries::drain(options, report).await?;
    progress("single enqueues over HTTP that are delivered");
    deliveries::end_to_end(options, report).await
}
