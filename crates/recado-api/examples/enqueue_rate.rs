//! How fast one job at a time goes in, beside a bare axum handler on the same machine.
//!
//! `cargo run --release -p recado-api --example enqueue_rate [connections] [seconds]`

#![expect(clippy::print_stdout, reason = "a report is for reading")]
#![expect(clippy::unwrap_used, reason = "what cannot be measured fails")]

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use recado_api::{ApiOptions, ApiState, ServeLimits, router, serve};
use recado_core::decide::Terms;
use recado_core::{Policy, RouteName, rules};
use recado_engine::{Carrier, Chance, Engine, Route, Routes, Settings, SystemClock};
use recado_store::Retention;
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const JSON: &str = r#"{"route":"work","companyId":"acme","userId":"u-1","correlationId":"c-1","data":{"from":"a@acme.example","to":["ana@example.com"],"subject":"Your invoice","text":"Dear Ana, your invoice of this month is attached. Please pay within thirty days. Kind regards, the team at Acme. This line makes it three hundred bytes."}}"#;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().unwrap());
    let (connections, seconds) = (args.next().unwrap_or(50), args.next().unwrap_or(5));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    println!("{connections} connections, {seconds} s each, {} bytes a job", JSON.len());
    let bare = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new()
            .route("/v1/jobs", post(async |body: Bytes| (StatusCode::ACCEPTED, body.len().to_string())));
        tokio::spawn(async move { axum::serve(listener, app).await });
        measure(address, connections, seconds).await
    });
    println!("bare axum handler      {bare}");
    let dir = tempfile::TempDir::new().unwrap();
    let durable = runtime.block_on(async {
        let store = EmbeddedStore::open(&EmbeddedOptions::at(dir.path())).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let engine =
            Engine::start(Arc::new(store), routes(), settings(), Arc::new(SystemClock), Chance::seeded(1));
        let app = router(ApiState::new(engine, ApiOptions::default()));
        tokio::spawn(serve(listener, app, ServeLimits::default(), std::future::pending()));
        measure(address, connections, seconds).await
    });
    println!(
        "POST /v1/jobs, fsynced {durable}   {:.2} of the bare rate",
        durable.per_second / bare.per_second
    );
}

/// Processor time is this process's, senders included: on a busy machine it says more than the rate.
struct Rate {
    per_second: f64,
    cpu_us: f64,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8.0} requests/s {:>6.1} µs of processor each", self.per_second, self.cpu_us)
    }
}

/// Processor time used so far, where Linux tells it.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

fn routes() -> Routes {
    let day = Duration::from_secs(86_400);
    Routes::new([Route {
        name: RouteName::new("work").unwrap(),
        carrier: Carrier::Workers,
        provider: "work".into(),
        classifier: rules::named("general").unwrap(),
        terms: Terms { policy: Policy::exponential(day, day, 3), dead_letter_ttl: day, crashes_max: 3 },
        timeout: day,
        concurrency: 1,
    }])
}

fn settings() -> Settings {
    let day = Duration::from_secs(86_400);
    Settings {
        node: "bench".into(),
        lease: day,
        stop_grace: day,
        retention: Retention { ended_max_age: day, ended_max_count: 1_000_000 },
        job_ttl: day,
        dead_letter_ttl: day,
        crashes_max: 3,
    }
}

/// Requests a second, each connection sending one after the other.
async fn measure(address: SocketAddr, connections: u32, seconds: u32) -> Rate {
    let request: Arc<str> = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{JSON}",
        JSON.len()
    )
    .into();
    let done = Arc::new(AtomicU64::new(0));
    let (started, cpu_before) = (Instant::now(), cpu());
    let until = started + Duration::from_secs(u64::from(seconds));
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (request, done) = (request.clone(), done.clone());
        senders.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut answer = [0; 1_024];
            while Instant::now() < until {
                stream.write_all(request.as_bytes()).await.unwrap();
                let length = stream.read(&mut answer).await.unwrap();
                assert!(
                    answer[..length].starts_with(b"HTTP/1.1 202"),
                    "{}",
                    String::from_utf8_lossy(&answer[..length])
                );
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while senders.join_next().await.is_some() {}
    let done = done.load(Ordering::Relaxed) as f64;
    let cpu_us = (cpu() - cpu_before).as_secs_f64() * 1e6 / done;
    Rate { per_second: done / started.elapsed().as_secs_f64(), cpu_us }
}
