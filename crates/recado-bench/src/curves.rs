//! Cost curves: what a job costs while one thing grows, drawn by `recado bench curves`.
//!
//! Each curve is an SVG, and all numbers are in `curves.json` beside them. Every point is measured once or is the best
//! of a few runs, so single points of a busy machine are off; the shape is what to look at.

mod plot;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use recado_core::{Outcome, Payload};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::{Carrier, Submission};
use recado_transport::{DataFault, Delivery, Sandbox, Transport, TransportKind};

use super::lanes::{Arrival, cost_by_companies, parked_claim_us};
use super::real::{Receivers, Server};
use super::report::grouped;
use super::restart::{ROUTE as PENDING_ROUTE, fill_and_restart};
use super::scene::{Scene, drained_to, route, submission};
use super::{BenchOptions, Failed, Report};
use plot::{Panel, Plot, Series};

/// Pairs of x and y.
type Points = Vec<(f64, f64)>;

/// Runs of a point where the best counts.
const ROUNDS: usize = 2;

pub async fn measure(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Report, Failed> {
    std::fs::create_dir_all(&options.plots)?;
    let (mut plots, mut report) = (Vec::new(), Report::default());
    write(latency(options, &progress).await?, options, &mut plots)?;
    write(parked(options, &progress).await?, options, &mut plots)?;
    write(payload(options, &progress).await?, options, &mut plots)?;
    write(endpoints(options, &progress).await?, options, &mut plots)?;
    write(companies(options, &progress).await?, options, &mut plots)?;
    write(pending(options, &progress).await?, options, &mut plots)?;
    for plot in &plots {
        add_figures(plot, &mut report);
    }
    Ok(report)
}

/// Writes a plot and the numbers of all so far, so that a run that ends early leaves what it has measured.
fn write(plot: Plot, options: &BenchOptions, plots: &mut Vec<Plot>) -> Result<(), Failed> {
    std::fs::write(options.plots.join(plot.file).with_extension("svg"), plot.svg()?)?;
    plots.push(plot);
    std::fs::write(options.plots.join("curves.json"), serde_json::to_string_pretty(&plots)?)?;
    Ok(())
}

fn add_figures(plot: &Plot, report: &mut Report) {
    for panel in &plot.panels {
        for series in &panel.series {
            for (x, y) in &series.points {
                let of = if series.name.is_empty() { String::new() } else { format!(", {}", series.name) };
                report.add(format!("{}{of}, {}: {}", panel.name, plot.x, grouped(*x)), *y, panel.unit);
            }
        }
    }
}

/// Powers of ten; a quick run leaves the last one out.
fn decades(options: &BenchOptions, from: u32, to: u32) -> impl Iterator<Item = usize> + use<> {
    let last = if options.scale < 1.0 { to - 1 } else { to };
    (from..=last).map(|power| 10_usize.pow(power))
}

/// Drains the first of many jobs; starts a server over all of them.
async fn pending(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Plot, Failed> {
    let (mut rates, mut bytes, mut seconds) = (Points::new(), Points::new(), Points::new());
    for jobs in decades(options, 4, 7) {
        progress(&format!("{} pending jobs", grouped(jobs as f64)));
        let restarted = fill_and_restart(options, "pending", jobs).await?;
        let scene = Scene::new(options, "pending").await?;
        let drained = jobs.min(options.count(200_000));
        let started = Instant::now();
        let engine = scene.engine([route(PENDING_ROUTE, Carrier::Transport(Arc::new(Sandbox)))?]);
        drained_to(&*scene.store, (jobs - drained) as u64).await?;
        rates.push((jobs as f64, drained as f64 / started.elapsed().as_secs_f64()));
        bytes.push((jobs as f64, restarted.bytes_per_job));
        seconds.push((jobs as f64, restarted.ready_after.as_secs_f64()));
        engine.stop().await?;
        scene.removed()?;
    }
    Ok(Plot {
        file: "pending",
        title: "Pending jobs",
        x: "pending jobs",
        panels: vec![
            Panel::line("drain", "jobs/s", rates),
            Panel::line("memory of a job", "bytes", bytes),
            Panel::line("restart until ready", "s", seconds),
        ],
    })
}

async fn companies(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Plot, Failed> {
    let orders = [(Arrival::Mixed, "jobs in no order"), (Arrival::InTurn, "jobs in the order of the turns")];
    let (mut time, mut work) = (Vec::new(), Vec::new());
    for (arrival, name) in orders {
        let (mut times, mut works) = (Points::new(), Points::new());
        for companies in decades(options, 0, 5) {
            progress(&format!("{} companies, {name}", grouped(companies as f64)));
            let cost = cost_by_companies(options, companies, arrival, ROUNDS).await?;
            times.push((companies as f64, cost.time_us));
            works.push((companies as f64, cost.work_us));
        }
        time.push(Series { name: name.to_owned(), points: times });
        work.push(Series { name: name.to_owned(), points: works });
    }
    Ok(Plot {
        file: "companies",
        title: "Companies that take turns, with breaker and rate",
        x: "companies",
        panels: vec![
            Panel { name: "time of a job", unit: "µs", series: time },
            Panel { name: "processor time of a job", unit: "µs", series: work },
        ],
    })
}

/// Delivers signed webhooks by a server of its own to a receiver in this process.
async fn endpoints(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Plot, Failed> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let http = format!("http://{}", listener.local_addr()?);
    let receiver = axum::Router::new().fallback(async || "");
    let receiver = tokio::spawn(async move { axum::serve(listener, receiver).await });
    let receivers = Receivers { http, smtp: "smtp://127.0.0.1:2525".into() };
    let (mut rates, mut works) = (Points::new(), Points::new());
    for endpoints in decades(options, 0, 5) {
        progress(&format!("{} webhook endpoints", grouped(endpoints as f64)));
        let dir = options.dir.join(format!("endpoints-{endpoints}"));
        std::fs::create_dir(&dir)?;
        let mut server = Server::start(&dir, &receivers).await?;
        let jobs = options.count(30_000).max(endpoints);
        let (rate, work) = server.deliver_to_endpoints(&receivers.http, endpoints, jobs).await?;
        rates.push((endpoints as f64, rate));
        works.push((endpoints as f64, work));
        drop(server);
        std::fs::remove_dir_all(dir)?;
    }
    receiver.abort();
    Ok(Plot {
        file: "endpoints",
        title: "Webhook endpoints, each with its own address and secret",
        x: "endpoints",
        panels: vec![
            Panel::line("signed webhooks", "jobs/s", rates),
            Panel::line("processor time of a delivery", "µs", works),
        ],
    })
}

async fn parked(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Plot, Failed> {
    let mut claims = Points::new();
    for parked in std::iter::once(0).chain(decades(options, 3, 6)) {
        progress(&format!("{} parked jobs", grouped(parked as f64)));
        let mut best = f64::MAX;
        for _ in 0..ROUNDS {
            best = best.min(parked_claim_us(options, parked).await?);
        }
        claims.push((parked as f64, best));
    }
    Ok(Plot {
        file: "parked",
        title: "Parked jobs beside a lane",
        x: "parked jobs",
        panels: vec![Panel::line("claim of 256 jobs", "µs", claims)],
    })
}

/// Bytes of a payload and jobs of them.
const PAYLOADS: [(usize, usize); 4] =
    [(103, 200_000), (1 << 10, 200_000), (10 << 10, 50_000), (100 << 10, 5_000)];

async fn payload(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Plot, Failed> {
    let mut rates = [("enqueue", Points::new()), ("drain", Points::new())];
    for (bytes, jobs) in PAYLOADS {
        let kib = bytes as f64 / 1024.0;
        progress(&format!("payloads of {kib:.1} KiB"));
        let jobs = options.count(jobs);
        let scene = Scene::new(options, "payload").await?;
        let sandbox = route("sandbox", Carrier::Transport(Arc::new(Sandbox)))?;
        let data = format!(r#"{{"script":["ok"],"text":"{}"}}"#, "x".repeat(bytes - 27));
        let sized = |_| Submission { data: Payload::trusted(data.clone()), ..submission("sandbox") };
        let started = Instant::now();
        scene.fill(jobs, sandbox.clone(), sized).await?;
        rates[0].1.push((kib, jobs as f64 / started.elapsed().as_secs_f64()));
        let started = Instant::now();
        let engine = scene.engine([sandbox]);
        scene.emptied().await?;
        rates[1].1.push((kib, jobs as f64 / started.elapsed().as_secs_f64()));
        engine.stop().await?;
        scene.removed()?;
    }
    let series = |y: fn(f64, f64) -> f64| {
        let of = |(name, points): &(&str, Points)| Series {
            name: (*name).to_owned(),
            points: points.iter().map(|(x, rate)| (*x, y(*x, *rate))).collect(),
        };
        rates.iter().map(of).collect()
    };
    Ok(Plot {
        file: "payload",
        title: "Size of a payload",
        x: "KiB of payload",
        panels: vec![
            Panel { name: "jobs", unit: "jobs/s", series: series(|_, rate| rate) },
            Panel { name: "payload", unit: "MiB/s", series: series(|kib, rate| kib * rate / 1024.0) },
        ],
    })
}

/// A provider that takes its time.
#[derive(Debug)]
struct SlowProvider(Duration);

#[async_trait]
impl Transport for SlowProvider {
    fn kind(&self) -> TransportKind {
        TransportKind::Custom("slow provider")
    }

    fn check(&self, _data: &Payload) -> Result<(), Vec<DataFault>> {
        Ok(())
    }

    async fn send(&self, _delivery: Delivery<'_>) -> Outcome {
        if !self.0.is_zero() {
            tokio::time::sleep(self.0).await;
        }
        Outcome::Accepted { answer: None }
    }
}

const LATENCIES_MS: [u64; 5] = [0, 1, 10, 100, 1_000];
const CONCURRENCIES: [usize; 5] = [1, 8, 64, 512, 4_096];

async fn latency(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Plot, Failed> {
    let mut series = Vec::new();
    for concurrency in CONCURRENCIES {
        progress(&format!("a slow provider, {concurrency} deliveries at once"));
        let mut points = Points::new();
        for ms in LATENCIES_MS {
            points.push((ms as f64, slow_drain(options, concurrency, Duration::from_millis(ms)).await?));
        }
        series.push(Series { name: format!("concurrency {}", grouped(concurrency as f64)), points });
    }
    Ok(Plot {
        file: "latency",
        title: "Latency of a provider",
        x: "ms of latency",
        panels: vec![Panel { name: "drain", unit: "jobs/s", series }],
    })
}

/// Jobs a second that a provider of this latency gets from so many deliveries at once.
async fn slow_drain(options: &BenchOptions, concurrency: usize, latency: Duration) -> Result<f64, Failed> {
    let a_job = latency.max(Duration::from_millis(1));
    let expected = concurrency as f64 * options.seconds(2.0).as_secs_f64() / a_job.as_secs_f64();
    // At least two for each slot, so that slots are used again.
    let jobs = (expected as usize).min(options.count(100_000)).max(concurrency * 2);
    let scene = Scene::new(options, "latency").await?;
    let slow = route("slow", Carrier::Transport(Arc::new(SlowProvider(latency))))?;
    scene.fill(jobs, slow.clone(), |_| submission("slow")).await?;
    let terms = BTreeMap::from([("slow".into(), ProviderTerms::plain(concurrency))]);
    let started = Instant::now();
    let engine = scene.guarded_engine([slow], terms);
    scene.emptied().await?;
    let rate = jobs as f64 / started.elapsed().as_secs_f64();
    engine.stop().await?;
    scene.removed()?;
    Ok(rate)
}
