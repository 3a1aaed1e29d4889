//! Kills the server, again and again, while a client enqueues and a provider receives, then audits every job.
//!
//! - what was acknowledged arrived;
//! - what was refused did not;
//! - what arrived more than once was in flight at a kill, and bore the same idempotency key.
//!
//! `RECADO_KILLS` sets how many kills (`cargo xtask kill-loop` runs a hundred), `RECADO_JOBS` how many jobs come in batches.

#[path = "results/mod.rs"]
mod results;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use recado_testkit::free_port;
use recado_testkit::http::{self, Act, Request, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Time that the provider takes over each delivery.
const SINK_TAKES: Duration = Duration::from_millis(15);

/// Jobs that wait at most.
const WAITING_JOBS_MAX: usize = 2_000;

/// Jobs that wait arrive within this long, or one of them does and the others have as long again.
const NEXT_ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// A request that a killed process had sent may reach the provider this long after the kill.
const IN_THE_PIPE: Duration = Duration::from_millis(100);

/// An outcome is on disk this soon after the provider has answered, or the kill comes before.
const SETTLED_WITHIN: Duration = Duration::from_millis(1_500);

const SEED: u64 = 2_026;

/// Jobs in one batch, and clients that send batches.
const BATCH_JOBS: usize = 5_000;
const BATCH_CLIENTS: usize = 2;

/// Jobs for each kill while batches come, and kills at least.
const JOBS_PER_KILL: usize = 500_000;
const BATCH_KILLS_MIN: usize = 3;

/// All jobs of the batches are sent within this long after the last one was acknowledged.
const DRAIN_MAX: Duration = Duration::from_secs(1_200);

/// The provider: remembers what came when, under which key.
#[derive(Debug, Default)]
struct Sink {
    arrivals: Mutex<HashMap<String, Vec<Arrival>>>,
    in_flight: AtomicUsize,
}

#[derive(Debug, Clone, Copy)]
struct Arrival {
    came: Instant,
    answered: Option<Instant>,
}

impl Sink {
    fn take(&self, request: &Request) -> Act {
        let key = request.header("idempotency-key").to_owned();
        assert!(!key.is_empty(), "no Idempotency-Key: {request:?}");
        assert_eq!(request.json()["id"], *key, "the idempotency key is the job's id, on every attempt");
        let nth = {
            let mut arrivals = self.arrivals.lock();
            let of_this = arrivals.entry(key.clone()).or_default();
            of_this.push(Arrival { came: Instant::now(), answered: None });
            of_this.len() - 1
        };
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(SINK_TAKES);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        if let Some(of_this) = self.arrivals.lock().get_mut(&key) {
            of_this[nth].answered = Some(Instant::now());
        }
        text(200, "ok")
    }
}

/// The server, as a process that can be killed.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    async fn start(dir: &Path, address: SocketAddr) -> Server {
        let child = Command::new(env!("CARGO_BIN_EXE_recado"))
            .args([
                "serve",
                "--config",
                "recado.toml",
                "--data-dir",
                "data",
                "--listen",
                &address.to_string(),
            ])
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut server = Server { child, address };
        let asked = Instant::now();
        while !server.is_ready().await {
            assert!(asked.elapsed() < Duration::from_secs(30), "the server is not ready after 30 s");
            assert!(server.child.try_wait().expect("a child").is_none(), "the server ended by itself");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server
    }

    async fn is_ready(&self) -> bool {
        ask(self.address, "GET", "/readyz", "").await.is_ok_and(|(status, _)| status == 200)
    }

    fn kill(mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("it ended");
    }
}

/// One request on a connection of its own: status and body.
async fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
    ask_with(address, method, path, "application/json", body).await
}

async fn ask_with(
    address: SocketAddr,
    method: &str,
    path: &str,
    content: &str,
    body: &str,
) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: {content}\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other("the answer was cut off"))?;
    // A cut answer is no answer, whatever its first line says.
    let (_, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| std::io::Error::other("the answer was cut off"))?;
    Ok((status, body.to_owned()))
}

/// The answers that the client got about its jobs.
#[derive(Debug, Default)]
struct Ledger {
    acknowledged: Mutex<HashSet<String>>,
    refused: Mutex<HashSet<String>>,
    unanswered: AtomicUsize,
}

/// Enqueues until told to stop: mostly good jobs, now and then one that must be refused. Pauses while many jobs wait, so
/// that the provider keeps up, however many kills there are.
async fn enqueue(
    client: usize,
    address: SocketAddr,
    ledger: Arc<Ledger>,
    sink: Arc<Sink>,
    stop: Arc<AtomicBool>,
) {
    let mut nth = 0_usize;
    while !stop.load(Ordering::SeqCst) {
        if ledger.acknowledged.lock().len() > sink.arrivals.lock().len() + WAITING_JOBS_MAX {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        nth += 1;
        let bad = nth.is_multiple_of(20);
        let id = format!("{}-{client}-{nth}", if bad { "bad" } else { "job" });
        let path = if bad { "../escape" } else { "deliver" };
        let body = format!(
            r#"{{"jobId":"{id}","route":"sink","companyId":"company-{client}","data":{{"path":"{path}","body":{{"id":"{id}"}}}}}}"#
        );
        match ask(address, "POST", "/v1/jobs", &body).await {
            Ok((200 | 202, _)) => {
                ledger.acknowledged.lock().insert(id);
            }
            Ok((422, _)) => {
                ledger.refused.lock().insert(id);
            }
            Ok((503, _)) => tokio::time::sleep(Duration::from_millis(5)).await,
            Ok((status, body)) => panic!("unexpected answer {status}: {body}"),
            Err(_) => {
                ledger.unanswered.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_is_repeated_without_cause_over_kills() {
    let kills: usize =
        std::env::var("RECADO_KILLS").map_or(8, |kills| kills.parse().expect("RECADO_KILLS is a number"));
    let dir = tempfile::tempdir().expect("a directory");
    let sink = Arc::new(Sink::default());
    let taking = sink.clone();
    let sink_address = http::start(move |request: Request| taking.take(&request)).expect("a port");
    let config = format!(
        "[providers.sink]\ntransport = \"http\"\nurl = \"http://{sink_address}/\"\n\n\
         [routes.sink]\nprovider = \"sink\"\n\
         policy = {{ base = \"50ms\", factor = 2, cap = \"500ms\", jitter = \"±25%\", max_attempts = 50 }}\n\n\
         [engine]\npoison_after = 100\n"
    );
    std::fs::write(dir.path().join("recado.toml"), config).expect("a file");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));

    let ledger = Arc::new(Ledger::default());
    let stop = Arc::new(AtomicBool::new(false));
    let mut server = Server::start(dir.path(), address).await;
    let clients: Vec<_> = (0..8)
        .map(|client| tokio::spawn(enqueue(client, address, ledger.clone(), sink.clone(), stop.clone())))
        .collect();

    let mut killed_at = Vec::new();
    let mut killed_in_flight = 0;
    let mut chance = fastrand::Rng::with_seed(SEED);
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(chance.u64(60..500))).await;
        killed_in_flight += usize::from(sink.in_flight.load(Ordering::SeqCst) > 0);
        server.kill();
        killed_at.push(Instant::now());
        server = Server::start(dir.path(), address).await;
    }
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.expect("the client went on to the end");
    }

    let acknowledged = ledger.acknowledged.lock().clone();
    let mut missing: Vec<_> = acknowledged.iter().collect();
    let mut came = Instant::now();
    while !missing.is_empty() {
        let before = missing.len();
        {
            let arrivals = sink.arrivals.lock();
            missing.retain(|id| !arrivals.contains_key(*id));
        }
        if missing.len() < before {
            came = Instant::now();
        }
        if came.elapsed() > NEXT_ARRIVES_WITHIN {
            let (left, some) = (missing.len(), &missing[..missing.len().min(10)]);
            panic!("{left} acknowledged and not delivered, and none came for a minute, for example {some:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Whatever would still be repeated has its chance.
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.kill();

    let arrivals = sink.arrivals.lock().clone();
    let refused = ledger.refused.lock().clone();
    assert!(!refused.is_empty(), "some jobs were refused");
    for id in &refused {
        assert!(!arrivals.contains_key(id), "{id} was refused and delivered all the same");
    }
    let mut repeated = 0;
    for (id, came) in &arrivals {
        for pair in came.windows(2) {
            repeated += 1;
            let explained = killed_at.iter().any(|kill| {
                let between = pair[0].came <= *kill + IN_THE_PIPE && *kill <= pair[1].came;
                let unsettled = pair[0].answered.is_none_or(|answered| answered + SETTLED_WITHIN >= *kill);
                between && unsettled
            });
            let off = |kill: &Instant| kill.saturating_duration_since(pair[0].came).max(pair[0].came - *kill);
            let nearest = killed_at.iter().map(off).min();
            assert!(explained, "{id} was repeated, and no kill was nearer than {nearest:?}: {came:?}");
        }
    }
    let mut row = results::Row {
        fault: "kill -9 at random",
        operation: "traffic",
        test: "kill_loop",
        seed: SEED,
        runs: kills,
        fired: killed_in_flight,
        acknowledged: acknowledged.len(),
        ..results::Row::default()
    };
    row.add_duplicates("death before the record", repeated);
    println!(
        "{kills} kills, {killed_in_flight} with deliveries in flight; {} acknowledged, {} refused, {} unanswered, {} delivered, {repeated} repeated",
        acknowledged.len(),
        refused.len(),
        ledger.unanswered.load(Ordering::SeqCst),
        arrivals.len(),
    );
    assert!(
        killed_in_flight * 2 >= kills,
        "at most {killed_in_flight} of {kills} kills hit work in flight: the fault did not fire"
    );
    row.write();
}

fn batch(nth: usize) -> String {
    let job = |at: usize| {
        let (id, company) = (nth * BATCH_JOBS + at, at % 7);
        format!(r#"{{"jobId":"batch-{id}","route":"sandbox","companyId":"company-{company}","data":{{}}}}"#)
    };
    (0..BATCH_JOBS).map(job).collect::<Vec<_>>().join("\n")
}

/// Sends a batch until it is answered, as a client of an outbox does. Returns the answer.
async fn send_batch(address: SocketAddr, nth: usize, cut_off: &AtomicUsize) -> serde_json::Value {
    let body = batch(nth);
    loop {
        match ask_with(address, "POST", "/v1/jobs/batch", "application/x-ndjson", &body).await {
            Ok((200..=299, answer)) => {
                let answer: serde_json::Value = serde_json::from_str(&answer).expect("a batch's answer");
                // A busy server may refuse some of a batch: those are sent again.
                if answer["refused"] == 0 {
                    return answer;
                }
            }
            Ok((503 | 429, _)) => {}
            Ok((status, body)) => panic!("unexpected answer {status}: {body}"),
            Err(_) => drop(cut_off.fetch_add(1, Ordering::SeqCst)),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_job_of_many_batches_is_known_and_sent_after_kills() {
    let jobs: usize =
        std::env::var("RECADO_JOBS").map_or(40_000, |jobs| jobs.parse().expect("RECADO_JOBS is a number"));
    let (batches, kills) = (jobs / BATCH_JOBS, (jobs / JOBS_PER_KILL).max(BATCH_KILLS_MIN));
    let dir = tempfile::tempdir().expect("a directory");
    let config = format!("[retention]\nended_max_count = {}\n", 2 * jobs);
    std::fs::write(dir.path().join("recado.toml"), config).expect("a file");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut server = Server::start(dir.path(), address).await;

    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let cut_off = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..BATCH_CLIENTS)
        .map(|_| {
            let (next, done, cut_off) = (next.clone(), done.clone(), cut_off.clone());
            tokio::spawn(async move {
                loop {
                    let nth = next.fetch_add(1, Ordering::SeqCst);
                    if nth >= batches {
                        return;
                    }
                    send_batch(address, nth, &cut_off).await;
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let (mut chance, mut struck) = (fastrand::Rng::with_seed(SEED), 0);
    for kill in 0..kills {
        let share = kill as f64 + chance.f64();
        while (done.load(Ordering::SeqCst) as f64) < share * batches as f64 / kills as f64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let before = cut_off.load(Ordering::SeqCst);
        server.kill();
        server = Server::start(dir.path(), address).await;
        struck += usize::from(cut_off.load(Ordering::SeqCst) > before);
    }
    for client in clients {
        client.await.expect("the client went on to the end");
    }

    // Asked for once more, every job is known, and none is accepted anew.
    let drained = Instant::now();
    for nth in 0..batches {
        loop {
            let answer = send_batch(address, nth, &cut_off).await;
            assert_eq!(answer["accepted"], 0, "a job of batch {nth} was acknowledged and is not known");
            let items = answer["items"].as_array().expect("items");
            assert_eq!(items.len(), BATCH_JOBS);
            if items.iter().all(|item| item["status"] == "sent") {
                break;
            }
            assert!(drained.elapsed() < DRAIN_MAX, "jobs of batch {nth} are not sent after {DRAIN_MAX:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    server.kill();
    println!(
        "{} jobs in {batches} batches, {kills} kills, {struck} of them cut off a request",
        batches * BATCH_JOBS
    );
    assert!(struck * 2 >= kills, "only {struck} of {kills} kills cut a request off");
    let row = results::Row {
        fault: "kill -9 at random",
        operation: "batches of 5,000",
        test: "kill_loop",
        seed: SEED,
        runs: kills,
        fired: struck,
        acknowledged: batches * BATCH_JOBS,
        ..results::Row::default()
    };
    row.write();
}
