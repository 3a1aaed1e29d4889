//! Deliveries to real receivers, through the whole product: a server of its own, its API, its store on disk.
//!
//! The receivers are nginx and Postfix's smtp-sink: real programs that cost little. Jobs wait at a paused provider until
//! all of them are in the store, so the clock sees deliveries alone. Beside each rate stands the processor time of the
//! server for one delivery, which a busy machine disturbs less.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use uuid::Uuid;

use super::load::Caller;
use super::process::{KilledOnDrop, free_port};
use super::report::{Report, grouped};
use super::scene::at_once;
use super::{BenchOptions, Failed};

/// Deliveries at once, of every provider.
const CONCURRENCY: usize = 64;
/// Companies that the jobs belong to.
const COMPANIES: usize = 12;
const BATCH_JOBS: usize = 1_000;
/// Bytes at most of the data in one batch, below the server's bound of a request.
const BATCH_BYTES: usize = 8 << 20;
/// Interval of looks at the server until it is done.
const LOOK: Duration = Duration::from_millis(50);
/// Gives up on a server or a delivery that takes longer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Registered endpoints of the webhook figure that has many, each with an address and a secret of its own.
const ENDPOINTS: usize = 20_000;
/// The most endpoints of a company.
const COMPANY_ENDPOINTS: usize = 100;
/// Connections that register endpoints.
const REGISTRARS: usize = 32;
/// Leases that a worker takes at once.
const LEASES_MAX: usize = 64;
const WORKERS: usize = 4;

const BARE_CLIENT: &str = "bare hyper client, 64 at once";

/// Receivers of the deliveries.
#[derive(Clone, Debug)]
pub struct Receivers {
    /// Such as `http://127.0.0.1:8080`.
    pub http: String,
    /// Such as `smtp://127.0.0.1:2525`.
    pub smtp: String,
}

/// One kind of delivery.
struct Kind {
    name: &'static str,
    /// Route and provider have the same name.
    route: &'static str,
    jobs: usize,
    data: fn(&Receivers) -> Value,
}

const KINDS: [Kind; 8] = [
    Kind {
        name: "HTTP",
        route: "bench-http",
        jobs: 100_000,
        data: |_| json!({"path": "hook", "body": text(273)}),
    },
    Kind {
        name: "webhook",
        route: "bench-webhook",
        jobs: 100_000,
        data: |to| json!({"url": format!("{}/hook", to.http), "event": "order.paid", "payload": text(273)}),
    },
    Kind {
        name: "WhatsApp",
        route: "bench-whatsapp",
        jobs: 50_000,
        data: |_| json!({"number": "5511999990000", "text": "x"}),
    },
    Kind { name: "SES", route: "bench-ses", jobs: 50_000, data: |_| email(2_000, 1) },
    Kind { name: "e-mail, 2 kB, 1 recipient", route: "bench-smtp", jobs: 50_000, data: |_| email(2_000, 1) },
    Kind { name: "e-mail, 2 kB, 5 recipients", route: "bench-smtp", jobs: 20_000, data: |_| email(2_000, 5) },
    Kind {
        name: "e-mail, 200 kB, 1 recipient",
        route: "bench-smtp",
        jobs: 3_000,
        data: |_| email(200_000, 1),
    },
    Kind {
        name: "e-mail, 200 kB, 5 recipients",
        route: "bench-smtp",
        jobs: 3_000,
        data: |_| email(200_000, 5),
    },
];

const WORKER_ROUTE: &str = "bench-worker";

fn text(length: usize) -> Value {
    json!({"text": "x".repeat(length)})
}

/// Lines of 70 letters: a relay refuses lines that are too long.
fn email(length: usize, recipients: usize) -> Value {
    let to: Vec<_> = (0..recipients).map(|nth| format!("ana{nth}@example.com")).collect();
    let text = format!("{}\n", "x".repeat(70)).repeat(length / 71);
    json!({"from": "shop@example.com", "to": to, "subject": "An order", "text": text})
}

pub async fn measure(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Report, Failed> {
    let receivers = options.receivers.clone().ok_or(
        "deliveries need receivers: give --http http://127.0.0.1:PORT (nginx) and --smtp smtp://127.0.0.1:PORT \
         (smtp-sink); bench/run --real starts both",
    )?;
    let mut report = Report::default();
    progress(BARE_CLIENT);
    bare_client(&receivers, options.count(100_000), &mut report).await?;
    let mut server = Server::start(&options.dir, &receivers).await?;
    for kind in &KINDS {
        progress(kind.name);
        let jobs = ((kind.jobs as f64 * options.scale) as usize).max(300);
        let data = (kind.data)(&receivers);
        let (rate, work) = server.deliver(kind.route, jobs, |nth| job(kind.route, nth, &data)).await?;
        report.add_beside(kind.name, rate, "jobs/s", BARE_CLIENT);
        report.add_beside(format!("{}, processor time", kind.name), work, "µs", "HTTP, processor time");
    }
    let endpoints = options.count(ENDPOINTS);
    let name = format!("webhook, {} endpoints", grouped(endpoints as f64));
    progress(&name);
    let (rate, work) = server.deliver_to_endpoints(&receivers.http, endpoints, endpoints * 5).await?;
    report.add_beside(name.clone(), rate, "jobs/s", "webhook");
    report.add_beside(format!("{name}, processor time"), work, "µs", "webhook, processor time");
    progress("pull workers over HTTP");
    let (rate, work) = server.pull(options.count(50_000)).await?;
    report.add("pull workers over HTTP", rate, "jobs/s");
    report.add("pull workers over HTTP, processor time", work, "µs");
    Ok(report)
}

/// Posts the body of a job with the usual client of this language, and nothing else.
async fn bare_client(receivers: &Receivers, requests: usize, report: &mut Report) -> Result<(), Failed> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<hyper::body::Bytes>>();
    let url: hyper::Uri = format!("{}/hook", receivers.http).parse()?;
    let body = text(273).to_string();
    let (started, work) = (Instant::now(), processor_time("self")?);
    at_once(CONCURRENCY, |_| {
        let (client, url, body) = (client.clone(), url.clone(), body.clone());
        async move {
            for _ in 0..requests / CONCURRENCY {
                let request = hyper::Request::post(&url)
                    .header("content-type", "application/json")
                    .body(Full::from(body.clone()))?;
                client.request(request).await?.into_body().collect().await?;
            }
            Ok::<_, Failed>(())
        }
    })
    .await?;
    let (took, work) = (started.elapsed(), processor_time("self")? - work);
    report.add(BARE_CLIENT, requests as f64 / took.as_secs_f64(), "requests/s");
    report.add("bare hyper client, processor time", work.as_secs_f64() * 1e6 / requests as f64, "µs");
    Ok(())
}

/// A server of this program, with routes to the receivers.
pub struct Server {
    process: KilledOnDrop,
    address: SocketAddr,
    caller: Caller,
}

impl Server {
    pub async fn start(dir: &Path, receivers: &Receivers) -> Result<Self, Failed> {
        let config = dir.join("recado.toml");
        std::fs::write(&config, configuration(receivers))?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let process = Command::new(std::env::current_exe()?)
            .args(["serve", "--listen", &address.to_string(), "--data-dir"])
            .arg(dir.join("data"))
            .arg("--config")
            .arg(config)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("serve.log"))?)
            .spawn()?;
        let process = KilledOnDrop(process);
        let started = Instant::now();
        let caller = loop {
            match Caller::connect(address).await {
                Ok(caller) => break caller,
                Err(error) if started.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        };
        Ok(Server { process, address, caller })
    }

    async fn post(&mut self, path: &str, body: &Value) -> Result<(), Failed> {
        self.caller.post(path, "application/json", &body.to_string()).await.map(drop)
    }

    /// Enqueues the jobs that `job` writes, the nth of this many, in batches.
    async fn enqueue(&mut self, jobs: usize, job: impl Fn(usize) -> Value) -> Result<(), Failed> {
        let batch_jobs = (BATCH_BYTES / job(0).to_string().len()).clamp(1, BATCH_JOBS);
        for first in (0..jobs).step_by(batch_jobs) {
            let lines: String =
                (first..jobs.min(first + batch_jobs)).map(|nth| format!("{}\n", job(nth))).collect();
            self.caller.post("/v1/jobs/batch", "application/x-ndjson", &lines).await?;
        }
        Ok(())
    }

    /// Returns the rate, and the processor time of a delivery in microseconds.
    async fn deliver(
        &mut self,
        route: &str,
        jobs: usize,
        job: impl Fn(usize) -> Value,
    ) -> Result<(f64, f64), Failed> {
        let provider = format!("/v1/providers/{route}");
        self.post(&format!("{provider}/pause"), &json!({"reason": "bench"})).await?;
        self.enqueue(jobs, job).await?;
        let sent = self.sent(route).await?;
        let (started, work) = (Instant::now(), self.processor_time()?);
        self.post(&format!("{provider}/resume"), &json!({})).await?;
        while self.sent(route).await? < sent + jobs as f64 {
            if started.elapsed() > PATIENCE {
                return Err(format!("{route}: not all jobs were delivered within {PATIENCE:?}").into());
            }
            tokio::time::sleep(LOOK).await;
        }
        self.result(jobs, started, work)
    }

    /// Registers so many endpoints, and delivers signed webhooks to all of them in turn.
    pub async fn deliver_to_endpoints(
        &mut self,
        http: &str,
        endpoints: usize,
        jobs: usize,
    ) -> Result<(f64, f64), Failed> {
        let address = self.address;
        let ids = at_once(REGISTRARS, |nth| {
            let own = (nth..endpoints).step_by(REGISTRARS);
            register(address, own.map(|nth| (nth, format!("{http}/hook/{nth}"))).collect())
        });
        let ids: BTreeMap<usize, String> = ids.await?.into_iter().flatten().collect();
        // The server closes a connection that was idle for so long.
        self.caller = Caller::connect(address).await?;
        let job = |nth: usize| {
            let data =
                json!({"endpointId": ids[&(nth % endpoints)], "event": "order.paid", "payload": text(273)});
            request("bench-webhook", &endpoint_company(nth % endpoints), &data)
        };
        self.deliver("bench-webhook", jobs, job).await
    }

    /// Workers lease and settle over HTTP.
    async fn pull(&mut self, jobs: usize) -> Result<(f64, f64), Failed> {
        let data = text(273);
        self.enqueue(jobs, |nth| job(WORKER_ROUTE, nth, &data)).await?;
        let (started, work) = (Instant::now(), self.processor_time()?);
        let address = self.address;
        at_once(WORKERS, |nth| pull_all(address, nth)).await?;
        self.result(jobs, started, work)
    }

    fn result(&self, jobs: usize, started: Instant, work: Duration) -> Result<(f64, f64), Failed> {
        let (took, work) = (started.elapsed(), self.processor_time()? - work);
        Ok((jobs as f64 / took.as_secs_f64(), work.as_secs_f64() * 1e6 / jobs as f64))
    }

    async fn sent(&mut self, route: &str) -> Result<f64, Failed> {
        let line = format!("recado_attempts_total{{route=\"{route}\",result=\"sent\"}} ");
        let metrics = self.caller.get("/metrics").await?;
        let count = metrics.lines().find_map(|shown| shown.strip_prefix(&line));
        Ok(count.map_or(Ok(0.0), str::parse)?)
    }

    fn processor_time(&self) -> Result<Duration, Failed> {
        processor_time(&self.process.0.id().to_string())
    }
}

/// The nth job of a route whose companies take turns.
fn job(route: &str, nth: usize, data: &Value) -> Value {
    request(route, &format!("company-{}", nth % COMPANIES), data)
}

fn request(route: &str, company: &str, data: &Value) -> Value {
    json!({"jobId": Uuid::new_v4().to_string(), "route": route, "companyId": company, "data": data})
}

fn endpoint_company(nth: usize) -> String {
    format!("company-{}", nth / COMPANY_ENDPOINTS)
}

/// Registers endpoints by their numbers and addresses, and returns their ids. They subscribe to an event that does not
/// occur, because the events of all deliveries would go to each of them otherwise.
async fn register(
    address: SocketAddr,
    endpoints: Vec<(usize, String)>,
) -> Result<Vec<(usize, String)>, Failed> {
    let mut caller = Caller::connect(address).await?;
    let mut ids = Vec::with_capacity(endpoints.len());
    for (nth, url) in endpoints {
        let asked = json!({"companyId": endpoint_company(nth), "url": url, "events": ["EndpointDisabled"]});
        let answer = caller.post("/v1/endpoints", "application/json", &asked.to_string()).await?;
        let added: Value = serde_json::from_str(answer)?;
        ids.push((nth, added["id"].as_str().ok_or("an endpoint without an id")?.to_owned()));
    }
    Ok(ids)
}

/// Leases and settles until nothing is left.
async fn pull_all(address: SocketAddr, nth: usize) -> Result<(), Failed> {
    let mut caller = Caller::connect(address).await?;
    let ask = json!({"routes": [WORKER_ROUTE], "max": LEASES_MAX, "waitMs": 0, "leaseMs": 30_000,
        "workerId": format!("bench-{nth}")})
    .to_string();
    loop {
        let answer: Value = serde_json::from_str(caller.post("/v1/leases", "application/json", &ask).await?)?;
        let leases = answer["leases"].as_array().ok_or("no leases in the answer")?;
        if leases.is_empty() {
            return Ok(());
        }
        let settled: Vec<_> =
            leases.iter().map(|lease| json!({"leaseToken": lease["leaseToken"], "succeed": {}})).collect();
        caller.post("/v1/leases/settle", "application/json", &Value::from(settled).to_string()).await?;
    }
}

/// Processor time of a process and its threads so far, where the system tells it.
fn processor_time(process: &str) -> Result<Duration, Failed> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in parentheses, may hold spaces. User and system time are the 12th and 13th field after it.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    let total = ticks(11).zip(ticks(12)).map(|(user, system)| user + system);
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64(total.ok_or("no times in /proc")? as f64 / per_second as f64))
}

fn configuration(receivers: &Receivers) -> String {
    let Receivers { http, smtp } = receivers;
    let routes: String = KINDS
        .iter()
        .map(|kind| kind.route)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .map(|route| format!("[routes.{route}]\nprovider = \"{route}\"\n"))
        .collect();
    format!(
        r#"
[webhooks]
allow = ["127.0.0.0/8"]

[providers.bench-http]
transport = "http"
url = "{http}"
concurrency = {CONCURRENCY}

[providers.bench-webhook]
transport = "webhook"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLwMfKQ9r8GKYqrTw"
concurrency = {CONCURRENCY}
tenant_concurrency = {CONCURRENCY}
endpoint_concurrency = {CONCURRENCY}

[providers.bench-whatsapp]
transport = "whatsapp"
url = "{http}"
api_key = "bench"
instance = "bench"
concurrency = {CONCURRENCY}

[providers.bench-ses]
transport = "ses"
url = "{http}"
region = "sa-east-1"
access_key_id = "AKIABENCH"
secret_access_key = "bench"
concurrency = {CONCURRENCY}

[providers.bench-smtp]
url = "{smtp}?tls=none"
concurrency = {CONCURRENCY}

{routes}
[routes.{WORKER_ROUTE}]
transport = "worker"
"#
    )
}
