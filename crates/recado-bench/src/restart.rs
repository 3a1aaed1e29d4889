//! A process with a long queue starts: how soon is it ready, and what does each waiting job cost?

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::process::{KilledOnDrop, free_port};
use super::report::Report;
use super::scene::{Scene, route, submission, take_in};
use super::{BenchOptions, Failed};
use recado_engine::Carrier;
use recado_wire::health::Ready;

/// Gives up on a server that is not ready by then.
const READY_WITHIN: Duration = Duration::from_secs(180);

/// A route that a server without a configuration has, and that only workers carry.
pub const ROUTE: &str = "tiss-claims";

/// A server that was started over a full store.
pub struct Restarted {
    pub ready_after: Duration,
    pub bytes_per_job: f64,
}

pub async fn restart(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let Restarted { ready_after, bytes_per_job } =
        fill_and_restart(options, "restart-full", options.pending).await?;
    report.add("restart until ready", ready_after.as_secs_f64(), "s");
    report.add("memory per waiting job", bytes_per_job, "bytes");
    Ok(())
}

/// Takes in so many jobs, and measures a server that starts over them.
pub async fn fill_and_restart(
    options: &BenchOptions,
    name: &str,
    pending: usize,
) -> Result<Restarted, Failed> {
    let empty = Scene::new(options, "restart-empty").await?;
    empty.engine([]).stop().await?;
    let (_, empty_bytes, _) = serve_and_measure(&empty.dir).await?;
    empty.removed()?;

    let full = Scene::new(options, name).await?;
    let intake = full.engine([route(ROUTE, Carrier::Workers)?]);
    take_in(&intake, pending, |_| submission(ROUTE)).await?;
    intake.stop().await?;
    let (ready_after, full_bytes, waiting) = serve_and_measure(&full.dir).await?;
    if (waiting as usize) < pending {
        return Err(format!("{waiting} jobs came back of {pending}").into());
    }
    let bytes_per_job = full_bytes.saturating_sub(empty_bytes) as f64 / pending as f64;
    Ok(Restarted { ready_after, bytes_per_job })
}

/// Starts this very program on the directory: how long until it is ready, its resident memory and how many jobs
/// wait then.
async fn serve_and_measure(dir: &std::path::Path) -> Result<(Duration, u64, u64), Failed> {
    let port = free_port()?;
    let started = Instant::now();
    let child = Command::new(std::env::current_exe()?)
        .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"])
        .arg(dir)
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let server = KilledOnDrop(child);
    let client = recado_client::Client::new(&format!("http://127.0.0.1:{port}"), None)?;
    let readiness = loop {
        match client.ready().await {
            Ok(readiness) if readiness.status == Ready::Ready => break readiness,
            _ if started.elapsed() > READY_WITHIN => {
                return Err("the server did not become ready within three minutes".into());
            }
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let ready_after = started.elapsed();
    let waiting = readiness.counts.map_or(0, |counts| counts.ready + counts.delayed);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.0.id()))?;
    let resident_kib: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok())
        .ok_or("no VmRSS in /proc")?;
    Ok((ready_after, resident_kib << 10, waiting))
}
