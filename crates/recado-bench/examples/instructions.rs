//! Does one step of a job's way so many times: `instructions STEP COUNT`.
//!
//! `cargo xtask instructions` runs it under callgrind with two counts; the difference is the work of the step alone.
//! Everything else (the store, the jobs in it, the receiver) is the same for both counts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::decide::{Terms, decide_after_attempt};
use recado_core::{
    BodyHash, CompanyId, Draw, Fault, JobId, Lease, NewJob, Outcome, Payload, Policy, Priority, Random,
    RouteName, Timestamp, Verdict,
};
use recado_store::prelude::*;
use recado_store::{Claim, Pick, Settlement, Turns};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};
use recado_transport::{Delivery, Http, HttpConfig, Transport, Wanted};
use recado_transport_webhook::{Endpoints, Guard, Secret, Target, Webhook, WebhookConfig};
use tokio::runtime::Builder;

/// The product's own.
#[global_allocator]
static MEMORY: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Failed = Box<dyn std::error::Error>;

/// Jobs that wait in the store before a step begins, as many as any count needs.
const WAITING_JOBS: usize = 4_000;
/// Jobs of one claim.
const CLAIM_JOBS: usize = 50;
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const LEASE: Duration = Duration::from_secs(3_600);
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"ok\":true}";

fn main() -> Result<(), Failed> {
    let mut args = std::env::args().skip(1);
    let (step, count) = (args.next().unwrap_or_default(), args.next().unwrap_or_default().parse()?);
    Builder::new_current_thread().enable_all().build()?.block_on(run(&step, count))
}

async fn run(step: &str, count: usize) -> Result<(), Failed> {
    let dir = std::env::temp_dir().join(format!("recado-instructions-{}", std::process::id()));
    let store = EmbeddedStore::open(&EmbeddedOptions::at(&dir), Arc::new(Random::from_seed(7)))?;
    match step {
        "enqueue" => {
            for nth in 0..count {
                store.enqueue(vec![job(nth, r#"{"script":["ok"]}"#)?]).await?;
            }
        }
        "claim" => drop(claim(&store, count).await?),
        "settle" => {
            let leases = claim(&store, WAITING_JOBS).await?;
            for lease in leases.into_iter().take(count) {
                store.settle(vec![settlement(&lease)]).await?;
            }
        }
        "http" => {
            let config = HttpConfig::new(format!("http://{}", receiver()?).parse()?);
            let data = r#"{"path":"orders","body":{"text":"An order was paid."}}"#;
            send(&store, &Http::new(config)?, data, count).await?;
        }
        "webhook" => {
            let guard = Guard { allowed: vec!["127.0.0.0/8".parse()?], ..Guard::default() };
            let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLwMfKQ9r8GKYqrTw".parse()?;
            let config = WebhookConfig { guard, secret: Some(secret), ..WebhookConfig::default() };
            let url = format!("http://{}/orders", receiver()?);
            let data = format!(r#"{{"url":"{url}","event":"order.paid","payload":{{"text":"An order."}}}}"#);
            send(&store, &Webhook::new(config, Arc::new(NoEndpoints))?, &data, count).await?;
        }
        other => return Err(format!("there is no step `{other}`").into()),
    }
    store.close().await?;
    Ok(std::fs::remove_dir_all(dir)?)
}

fn job(nth: usize, data: &str) -> Result<NewJob, Failed> {
    Ok(NewJob {
        id: JobId::new(format!("job-{nth:06}"))?,
        route: RouteName::new("orders")?,
        company: CompanyId::new("acme")?,
        data: Payload::new(data)?,
        body_hash: BodyHash(nth as _),
        user_id: None,
        correlation_id: None,
        traceparent: None,
        priority: Priority::default(),
        enqueued_at: NOW,
        due_at: NOW,
        expires_at: NOW.plus(LEASE),
    })
}

/// Fills the store and claims so many of its jobs.
async fn claim(store: &EmbeddedStore, count: usize) -> Result<Vec<Lease>, Failed> {
    let jobs: Result<_, _> = (0..WAITING_JOBS).map(|nth| job(nth, r#"{"script":["ok"]}"#)).collect();
    store.enqueue(jobs?).await?;
    let mut leases = Vec::new();
    while leases.len() < count {
        let claim = Claim {
            pick: Pick::Ready(RouteName::new("orders")?),
            max: CLAIM_JOBS,
            now: NOW,
            lease_until: NOW.plus(LEASE),
            worker: "bench".into(),
            provider: None,
            outlives_process: false,
            turns: Turns::default(),
        };
        leases.extend(store.claim(claim).await?.leases);
    }
    Ok(leases)
}

fn settlement(lease: &Lease) -> Settlement {
    let terms = Terms {
        policy: Policy::exponential(Duration::from_secs(1), Duration::from_secs(60), 5),
        dead_letter_ttl: LEASE,
        crashes_max: 5,
        start_over_after: None,
    };
    let sent = Verdict::Delivered { answer: None };
    let (transition, audit) = decide_after_attempt(lease, sent, &terms, NOW, NOW, Draw::new(0.5));
    Settlement { token: lease.token, transition, audit: Some(audit), now: NOW, follow_ups: Vec::new() }
}

async fn send(
    store: &EmbeddedStore,
    transport: &dyn Transport,
    data: &str,
    count: usize,
) -> Result<(), Failed> {
    let mut lease = claim(store, 1).await?.swap_remove(0);
    lease.job.data = Payload::new(data)?;
    for _ in 0..count {
        let (timeout, answer) = (Duration::from_secs(60), Wanted::Receipt);
        let delivery = Delivery { job: &lease.job, attempt: 1, now: NOW, timeout, answer };
        if let Outcome::Failed(fault) = transport.send(delivery).await {
            return Err(format!("not delivered: {fault:?}").into());
        }
    }
    Ok(())
}

/// A receiver that takes everything: the least work that answers a request.
fn receiver() -> Result<SocketAddr, Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        let mut request = [0; 4_096];
        while let Ok((mut stream, _)) = listener.accept() {
            while stream.read(&mut request).is_ok_and(|length| length > 0) {
                let _ = stream.write_all(ANSWER);
            }
        }
    });
    Ok(address)
}

/// Jobs name their address themselves.
#[derive(Debug)]
struct NoEndpoints;

#[async_trait]
impl Endpoints for NoEndpoints {
    async fn target(&self, _: &CompanyId, _: &str) -> Result<Option<Target>, Fault> {
        Ok(None)
    }
}
