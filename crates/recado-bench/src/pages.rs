//! Measures the latency of the dashboard's pages: a store with a million jobs and ten thousand dead letters,
//! and every request that a page makes, one after another.
//!
//! Jobs are put into the store as another one would hand them over, at every stage; only workers could carry
//! them, so nothing moves while it is looked at.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use recado_core::{
    Attempt, AttemptResult, BodyHash, Cause, Class, CompanyId, DeadLetter, DeadLetterState, Job, JobId,
    LastFailure, Payload, Priority, Progress, Reason, RouteName, Status, Timestamp,
};
use recado_engine::{Carrier, Clock, SystemClock};
use recado_store::{JobSnapshot, SnapshotState, Store};

use super::load::Caller;
use super::report::Report;
use super::scene::{Scene, payload, route, serve};
use super::{BenchOptions, Failed};

const JOBS: usize = 1_000_000;
const COMPANIES: usize = 200;
const ROUTES: [&str; 4] = ["email", "whatsapp", "instagram", "invoices"];

/// A company and a route with a handful of jobs, the oldest of all: what is rare is what a list looks for longest.
const RARE: &str = "rare";
const RARE_JOBS: usize = 5;

/// Jobs that one request puts in.
const BITE_JOBS: usize = 5_000;

/// Every page has what it shows within this.
const BOUND: Duration = Duration::from_millis(100);

/// The requests of the pages, each once.
const REQUESTS: &[&str] = &[
    "/readyz",
    "/v1/nodes",
    "/v1/alerts",
    "/v1/kpis",
    "/v1/providers",
    "/v1/routes",
    "/v1/accounts",
    "/v1/endpoints",
    "/v1/replays",
    "/v1/tenants",
    "/v1/tenants?companyId=company-7",
    "/v1/tenants?route=email",
    "/v1/jobs?limit=300",
    "/v1/jobs?limit=50",
    "/v1/jobs?limit=50&status=scheduled",
    "/v1/jobs?limit=50&status=queued",
    "/v1/jobs?limit=50&status=delivering",
    "/v1/jobs?limit=50&status=retrying",
    "/v1/jobs?limit=50&status=parked",
    "/v1/jobs?limit=50&status=sent",
    "/v1/jobs?limit=50&status=failed",
    "/v1/jobs?limit=50&status=cancelled",
    "/v1/jobs?limit=50&status=discarded",
    "/v1/jobs?limit=50&companyId=company-7",
    "/v1/jobs?limit=50&companyId=rare",
    "/v1/jobs?limit=50&companyId=unknown",
    "/v1/jobs?limit=50&companyId=company-7&status=discarded",
    "/v1/jobs?limit=50&companyId=company-7&status=queued",
    "/v1/jobs?limit=50&companyId=company-7&status=failed",
    "/v1/jobs?limit=50&companyId=rare&status=retrying",
    "/v1/jobs?limit=50&companyId=rare&status=failed",
    "/v1/jobs?limit=50&route=email",
    "/v1/jobs?limit=50&route=rare",
    "/v1/jobs?limit=50&route=email&companyId=company-7",
    "/v1/jobs?limit=50&correlationId=order-7",
    "/v1/jobs?limit=50&correlationId=nothing",
    "/v1/jobs/job-77",
    "/v1/jobs/job-77/audit",
    "/v1/dlq?limit=50",
    "/v1/dlq?limit=50&companyId=company-7",
    "/v1/dlq?limit=50&companyId=rare",
    "/v1/dlq?limit=50&route=email",
    "/v1/dlq?limit=50&lastFailureCode=550",
    "/v1/dlq?limit=50&lastFailureCode=554",
    "/v1/dlq?limit=50&reason=mailbox",
    "/v1/dlq?limit=50&reason=quota",
    "/v1/dlq?limit=50&reason=nothing+like+it",
    "/v1/dlq?limit=50&since=2020-01-01T00:00:00Z&until=2100-01-01T00:00:00Z",
    "/v1/dlq/stats",
    "/v1/dlq/stats?by=companyId",
    "/v1/dlq/stats?by=route",
    "/v1/dlq/stats?by=fingerprint",
    "/v1/dlq/stats?by=lastFailureCode&companyId=company-7",
    "/v1/dlq/stats?by=fingerprint&since=2020-01-01T00:00:00Z",
    "/v1/dlq/job-0",
];

pub async fn measure(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Report, Failed> {
    let (scene, jobs) = (Scene::new(options, "pages").await?, options.count(JOBS));
    progress(&format!("pages: filling a store with {jobs} jobs"));
    fill(&*scene.store, jobs).await?;
    let names = ROUTES.into_iter().chain([RARE]);
    let routes = names.map(|name| route(name, Carrier::Workers)).collect::<Result<Vec<_>, _>>()?;
    let engine = scene.engine(routes);
    let (address, server) = serve(&engine).await?;
    progress(&format!("pages: {} requests, each again and again", REQUESTS.len()));
    let mut report = Report::default();
    ask_all(address, options.count(20_000) / 1_000, &mut report).await?;
    server.abort();
    engine.stop().await?;
    Ok(report)
}

/// Each request once to warm up, then so often; the slowest first.
async fn ask_all(address: SocketAddr, times: usize, report: &mut Report) -> Result<(), Failed> {
    let mut caller = Caller::connect(address).await?;
    let mut asked = Vec::new();
    for path in REQUESTS {
        caller.get(path).await.map_err(|error| format!("{path}: {error}"))?;
        let mut waits = Vec::with_capacity(times);
        for _ in 0..times {
            let at = Instant::now();
            caller.get(path).await?;
            waits.push(at.elapsed());
        }
        asked.push((*path, waits));
    }
    asked.sort_by_key(|(_, waits)| std::cmp::Reverse(waits.iter().max().copied()));
    let late = asked.iter().filter(|(_, waits)| waits.iter().any(|wait| *wait > BOUND)).count();
    report.add("requests that took longer than 100 ms", late as f64, "requests");
    for (path, waits) in asked {
        let times = waits.len() as f64;
        report.add(path, times, "times").set_latencies(waits);
    }
    Ok(())
}

async fn fill(store: &dyn Store, jobs: usize) -> Result<(), Failed> {
    let now = SystemClock.now();
    for first in (0..jobs).step_by(BITE_JOBS) {
        let some = (first..jobs.min(first + BITE_JOBS)).map(|nth| transfer(nth, jobs, now));
        store.adopt(some.collect::<Result<Vec<_>, _>>()?).await?;
    }
    Ok(())
}

/// The job of this number. One in a hundred is dead, a few were given up; the last twentieth waits, of which some are
/// for later and some failed before; all others were sent.
fn transfer(nth: usize, jobs: usize, now: Timestamp) -> Result<JobSnapshot, Failed> {
    let is_rare = nth < RARE_JOBS;
    let age = Duration::from_secs(((jobs - nth) / 10) as u64);
    let enqueued_at = Timestamp::from_millis(now.as_millis() - i64::try_from(age.as_millis())?);
    let company = if is_rare { RARE.to_owned() } else { format!("company-{}", nth * 31 % COMPANIES) };
    let waits = nth > jobs - jobs / 20;
    let tried = u32::from(!waits || nth.is_multiple_of(50));
    let due_at = if nth.is_multiple_of(7) { now.plus(Duration::from_secs(86_400)) } else { enqueued_at };
    let job = Job {
        traceparent: None,
        id: JobId::new(format!("job-{nth}"))?,
        route: RouteName::new(if is_rare { RARE } else { ROUTES[nth % ROUTES.len()] })?,
        company: CompanyId::new(company)?,
        data: Payload::trusted(payload()),
        user_id: None,
        correlation_id: nth.is_multiple_of(10).then(|| format!("order-{}", nth / 100).into()),
        priority: Priority::default(),
        enqueued_at,
        due_at: if waits { due_at } else { enqueued_at },
        expires_at: now.plus(Duration::from_secs(7 * 86_400)),
        progress: Progress { attempts_started: tried, attempts_spent: tried, ..Progress::default() },
        attempts: Vec::new(),
        checksum: None,
    };
    let ended = |status| SnapshotState::Ended { status, at: enqueued_at, answer: None };
    let state = match nth % 1_000 {
        _ if waits => SnapshotState::Waiting,
        0..10 => SnapshotState::Dead,
        10 => ended(Status::Cancelled),
        11..15 => ended(Status::Discarded),
        _ => ended(Status::Sent),
    };
    let dead_letter = (state == SnapshotState::Dead).then(|| entry(nth, &job)).transpose()?;
    Ok(JobSnapshot { dead_letter, ..JobSnapshot::new(job, BodyHash(nth as u128), state) })
}

fn entry(nth: usize, job: &Job) -> Result<DeadLetter, Failed> {
    let (code, reason) = match nth % 10 {
        0 => ("554", "the daily quota is used up"),
        1..4 => ("421", "too many connections, try again later"),
        _ => ("550", "Mailbox not found"),
    };
    let mut attempt = Attempt::ended(1, job.enqueued_at, job.enqueued_at, AttemptResult::Failed);
    attempt.error_code = Some(code.into());
    attempt.error_reason = Some(Reason::new(reason)?);
    Ok(DeadLetter {
        job_id: job.id.clone(),
        company: job.company.clone(),
        route: job.route.clone(),
        original_data: job.data.clone(),
        corrected_data: None,
        failed_attempts: 1,
        failure: LastFailure {
            fingerprint: recado_core::dead_letter::fingerprint(&job.route, Some(code), &Reason::new(reason)?),
            reason: Reason::new(reason)?,
            code: Some(code.into()),
            at: job.enqueued_at,
            class: Class::Permanent,
            stack_trace: None,
        },
        enqueued_at: job.enqueued_at,
        moved_at: job.enqueued_at,
        ttl: Duration::from_secs(7 * 86_400),
        user_id: None,
        correlation_id: job.correlation_id.clone(),
        attempts: vec![attempt],
        cause: Cause::Permanent,
        state: DeadLetterState::Dead,
        checksum: None,
    })
}
