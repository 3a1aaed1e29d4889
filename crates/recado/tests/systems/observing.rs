//! Metrics, read by a real Prometheus while the server works, and alerts, received at the far end.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::far_ends::receiver::{self, verified};
use super::given::eventually;
use super::scene::{Scene, waits};

/// A page as it stands. Whole, because an old version of HTTP knows no pieces.
pub fn fetch(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains(" 200 "), "{path}: {answer}");
    body.to_owned()
}

/// A real Prometheus that scrapes a server every second. Ends with the test.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _dir: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn scraping(server: SocketAddr) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let config = format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nscrape_configs:\n  - job_name: recado\n    \
             static_configs:\n      - targets: [\"{server}\"]\n"
        );
        std::fs::write(dir.path().join("prometheus.yml"), config).expect("a file");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a free port");
        let child = Command::new("prometheus")
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"))
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus is missing; install the Debian package prometheus");
        let prometheus = Prometheus { child, address, _dir: dir };
        eventually(|| TcpStream::connect(prometheus.address).is_ok());
        prometheus
    }

    /// The answer of a query of one value.
    fn value(&self, query: &str) -> Option<f64> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer: Value =
            serde_json::from_str(&fetch(self.address, &format!("/api/v1/query?query={encoded}"))).ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

/// Every sample of a page by its name and labels.
pub fn samples(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let sample =
        |line| str::rsplit_once(line, ' ').and_then(|(name, value)| Some((name, value.parse().ok()?)));
    lines.filter_map(sample).collect()
}

fn complaints(page: &str) -> Vec<String> {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is missing; install the Debian package prometheus");
    child.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("a page");
    let output = child.wait_with_output().expect("an answer");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8")).concat();
    said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

const FAST: &str = "[routes.sandbox]\npolicy = { base = \"20ms\", cap = \"20ms\", max_attempts = 3 }\n\
                    [providers.sandbox]\nbreaker = false\n";

/// The test's load: count, company, and the script of each.
const LOAD: [(usize, &str, &[&str]); 4] = [
    (120, "acme", &["ok"]),
    (40, "acme", &["421 later", "ok"]),
    (15, "globex", &["503 busy"]),
    (25, "globex", &["550 no such user"]),
];

/// Times that the load is sent while Prometheus looks on.
const WAVES: usize = 5;

fn send_load(scene: &Scene, wave: usize) -> usize {
    let mut jobs = Vec::new();
    for (kind, (count, company, script)) in LOAD.iter().enumerate() {
        let job = |number| {
            json!({ "jobId": format!("load-{wave}-{kind}-{number}"), "route": "sandbox", "companyId": company,
                    "data": { "script": script } })
        };
        jobs.extend((0..*count).map(job));
    }
    let (status, answer) = scene.ask("POST", "/v1/jobs/batch", &Value::Array(jobs.clone()));
    assert_eq!(status, 200, "{answer}");
    jobs.len()
}

/// Metrics of the contract. Each is in the ledger that the test keeps.
const REQUIRED: [&str; 16] = [
    "retry_attempts_total",
    "retry_backoff_delay_seconds",
    "retry_success_rate",
    "dlq_entries_total",
    "dlq_size",
    "dlq_age_seconds",
    "dlq_by_error_code",
    "dlq_by_company",
    "tenant_jobs_processed",
    "tenant_current_priority",
    "tenant_consecutive_batch",
    "tenant_rounds_without_processing",
    "submission_retry_total",
    "submission_retry_backoff_minutes",
    "submission_retry_max_exceeded",
    "error_classification_distribution",
];

/// Counts that follow from the load, all of it done: 120 arrive at once and 40 at the second try; 15 spend
/// three tries each and 25 one.
fn ledger() -> Vec<(String, f64)> {
    let waves = WAVES as f64;
    let counts = [
        (r#"recado_jobs_accepted_total{route="sandbox"}"#, 200),
        (r#"recado_jobs_ended_total{route="sandbox",status="sent"}"#, 160),
        (r#"recado_jobs_ended_total{route="sandbox",status="failed"}"#, 40),
        (r#"recado_attempts_total{route="sandbox",result="sent"}"#, 160),
        (r#"recado_attempts_total{route="sandbox",result="failed"}"#, 110),
        (r#"retry_attempts_total{attempt="1"}"#, 200),
        (r#"retry_attempts_total{attempt="2"}"#, 55),
        (r#"retry_attempts_total{attempt="3"}"#, 15),
        ("retry_backoff_delay_seconds_count", 70),
        ("dlq_entries_total", 40),
        (r#"tenant_jobs_processed{company_id="acme"}"#, 200),
        (r#"tenant_jobs_processed{company_id="globex"}"#, 70),
        (r#"submission_retry_total{route="sandbox"}"#, 70),
        (r#"submission_retry_backoff_minutes_count{route="sandbox"}"#, 70),
        (r#"submission_retry_max_exceeded{route="sandbox"}"#, 15),
        (r#"error_classification_distribution{route="sandbox",classification="PERMANENT"}"#, 25),
        (r#"error_classification_distribution{route="sandbox",classification="TRANSIENT"}"#, 85),
        (r#"recado_errors_total{error_code="421"}"#, 40),
        (r#"recado_dead_letters_total{route="sandbox",cause="EXHAUSTED"}"#, 15),
        (r#"recado_http_requests_total{method="POST",path="/v1/jobs/batch",status="200"}"#, 1),
    ];
    let shares = [
        (r#"retry_success_rate{attempt="1"}"#, 120.0 / 200.0),
        (r#"retry_success_rate{attempt="2"}"#, 40.0 / 55.0),
        (r#"retry_success_rate{attempt="3"}"#, 0.0),
    ];
    let counts = counts.map(|(name, count)| (name.to_owned(), f64::from(count) * waves));
    counts.into_iter().chain(shares.map(|(name, share)| (name.to_owned(), share))).collect()
}

/// Counts that follow from a person's acts on dead letters, and from the jobs' own waits.
fn ledger_of_acts(scene: &Scene) -> Vec<(String, f64)> {
    let discard = json!({ "filter": { "lastFailureCode": "503" }, "reason": "no use" });
    let (status, told) = scene.ask("POST", "/v1/dlq/discard", &discard);
    assert!(status < 300, "{told}");
    let (status, told) =
        scene.ask("POST", "/v1/dlq/load-0-3-0/replay", &json!({ "data": { "script": ["ok"] } }));
    assert!(status < 300, "{told}");
    scene.sent("load-0-3-0");
    let (given_up, replayed) = ((WAVES * 15) as f64, 1.0);
    let left = (WAVES * 25) as f64 - replayed;
    eventually(|| scene.get("/v1/dlq?limit=1000")["items"].as_array().map(Vec::len) == Some(left as usize));
    let waited_ms: u64 = (0..WAVES)
        .flat_map(|wave| LOAD.iter().enumerate().map(move |(kind, (count, ..))| (wave, kind, *count)))
        .flat_map(|(wave, kind, count)| (0..count).map(move |number| format!("load-{wave}-{kind}-{number}")))
        .flat_map(|id| waits(&scene.job(&id)))
        .sum();
    let seconds = waited_ms as f64 / 1e3;
    let mut ledger = vec![
        ("dlq_age_seconds_count".to_owned(), given_up + replayed),
        (r#"recado_dead_letters_left_total{how="discarded"}"#.to_owned(), given_up),
        (r#"recado_dead_letters_left_total{how="replayed"}"#.to_owned(), replayed),
        ("dlq_size".to_owned(), left),
        (r#"dlq_by_error_code{error_code="550"}"#.to_owned(), left),
        (r#"dlq_by_company{company_id="globex"}"#.to_owned(), left),
        ("retry_backoff_delay_seconds_sum".to_owned(), seconds),
        (r#"submission_retry_backoff_minutes_sum{route="sandbox"}"#.to_owned(), seconds / 60.0),
    ];
    let tenants = scene.get("/v1/tenants");
    for tenant in tenants["items"].as_array().expect("tenants") {
        let company = tenant["companyId"].as_str().expect("a name");
        for (metric, field) in [
            ("tenant_current_priority", "currentPriority"),
            ("tenant_consecutive_batch", "consecutiveBatchCount"),
            ("tenant_rounds_without_processing", "roundsWithoutProcessing"),
        ] {
            let value = tenant[field].as_f64().expect("a number");
            ledger.push((format!("{metric}{{company_id=\"{company}\"}}"), value));
        }
    }
    ledger
}

#[test]
fn g18_e9_t21_a_real_prometheus_reads_what_the_server_did() {
    let scene = Scene::with(FAST);
    let prometheus = Prometheus::scraping(scene.address);
    for wave in 0..WAVES {
        assert_eq!(send_load(&scene, wave), 200);
        scene.job_once(&format!("load-{wave}-2-14"), "failed");
    }
    let agrees = |(name, expected): &(String, f64)| {
        eventually(|| prometheus.value(name).is_some_and(|value| (value - expected).abs() < 1e-6));
    };
    let load = ledger();
    load.iter().for_each(agrees);
    let acts = ledger_of_acts(&scene);
    acts.iter().for_each(agrees);
    assert_eq!(prometheus.value("up"), Some(1.0));
    for family in REQUIRED {
        let is_of = |rest: &str| rest.is_empty() || rest.starts_with(['{', '_']);
        let checked = load.iter().chain(&acts).any(|(name, _)| name.strip_prefix(family).is_some_and(is_of));
        assert!(checked, "{family} is not in the ledger");
    }

    let page = fetch(scene.address, "/metrics");
    assert_eq!(
        complaints(&page),
        [r#"submission_retry_backoff_minutes use base unit "seconds" instead of "minutes""#]
    );
    let samples = samples(&page);
    for (name, expected) in &acts {
        let value = samples.get(name.as_str()).copied().unwrap_or(f64::NAN);
        assert!((value - expected).abs() < 1e-6, "{name} is {value} and not {expected}");
    }
    // Those whose value depends on the machine are there, too.
    for family in ["process_resident_memory_bytes", "recado_store_size_bytes"] {
        assert!(samples.contains_key(family), "{family} is missing");
    }
    assert_eq!(samples[&*format!("recado_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))], 1.0);
    // Where jobs are kept on Redis, commits, forces and its bound are its own business.
    let works = ["enqueue", "claim", "settle", "commit", "fsync"];
    let has_files = std::env::var_os("RECADO_TEST_STORE").is_none();
    assert_eq!(samples.contains_key("recado_store_max_bytes"), has_files);
    for work in &works[..if has_files { 5 } else { 3 }] {
        let count = format!("recado_store_operation_seconds_count{{operation=\"{work}\"}}");
        assert!(samples[&*count] > 0.0, "{count}");
    }
    assert!(samples["recado_store_commit_requests_sum"] >= samples["recado_store_commit_requests_count"]);
}

#[test]
fn t15_the_indicators_of_a_route_agree_with_what_was_sent() {
    let scene = Scene::with(FAST);
    send_load(&scene, 0);
    let mut kpis = Value::Null;
    // An outcome is counted a moment after it is written down.
    eventually(|| {
        kpis = scene.get("/v1/kpis?route=sandbox&windowMs=3600000");
        let volume = |name: &str| kpis[name]["volume"].as_u64();
        (volume("successAfterRetry"), volume("meanAttempts")) == (Some(55), Some(160))
            && kpis["deadLetters"]["entries"] == 40
    });
    let near = |name: &str, expected: f64| {
        let value = kpis[name]["value"].as_f64().unwrap_or(f64::NAN);
        assert!((value - expected).abs() < 1e-9, "{name}: {}", kpis[name]);
    };
    near("successAfterRetry", 40.0 / 55.0);
    near("meanAttempts", 200.0 / 160.0);
    near("lostShare", 15.0 / 55.0);
    near("permanentShare", 25.0 / 270.0);
    assert_eq!(kpis["successAfterRetry"]["verdict"], "missed");
    let few = scene.get("/v1/kpis?route=webhook&windowMs=3600000");
    assert_eq!(few["successAfterRetry"]["verdict"], "tooFew");
    assert_eq!(
        (&kpis["successAfterRetry"]["atLeast"], &kpis["lostShare"]["atMost"]),
        (&json!(0.85), &json!(0.03))
    );
    assert_eq!(kpis["deadLetters"]["byCompany"], json!([{ "name": "globex", "count": 40 }]));
    assert_eq!(kpis["byAttempt"][1], json!({ "attempt": 2, "ended": 55, "sent": 40 }));
    assert_eq!(scene.ask("GET", "/v1/kpis?route=nowhere", &Value::Null).0, 404);
    let (status, faults) = scene.ask("GET", "/v1/kpis?windowMs=5", &Value::Null);
    assert_eq!((status, &faults["errors"][0]["pointer"]), (422, &json!("/windowMs")));

    let table = scene.recado(&["kpis", "--route", "sandbox", "--window", "1h"]).done();
    assert!(table.contains("success after retry") && table.contains("72.7 %"), "{table}");
    assert_eq!(scene.recado(&["kpis", "--route", "sandbox", "--json"]).json()["meanAttempts"]["value"], 1.25);
}

/// Rings soon, and is over soon.
fn hasty(webhook: &str) -> String {
    format!(
        "{FAST}[providers.instagram]\nbreaker = {{ failures = 2, within = \"60s\", reset = \"60s\" }}\n\
         [routes.instagram]\ntransport = \"sandbox\"\nprovider = \"instagram\"\npolicy = {{ schedule = [\"0s\", \"10ms\"] }}\n\
         [alerts]\nevery = \"1s\"\nwebhook = \"{webhook}/alerts\"\nsecret = \"{secret}\"\n\
         failure_rate = {{ threshold = 0.5, window = \"20s\", min_volume = 5, pending = \"0s\", clear = \"1s\", except = [\"instagram\"] }}\n\
         permanent_rate = {{ threshold = 0.5, window = \"20s\", min_volume = 5, pending = \"0s\", clear = \"1s\" }}\n\
         dlq_size = {{ threshold = 3, clear = \"1s\" }}\n\
         dlq_company = {{ threshold = 2, clear = \"1s\", severity = \"critical\" }}\n\
         breaker_open = {{ clear = \"1s\" }}\n\
         dlq_rate = false\n{allowed}",
        secret = receiver::SECRET,
        allowed = receiver::ALLOWED,
    )
}

fn names(list: &Value) -> Vec<(String, Value)> {
    let items = list["items"].as_array().expect("items").iter();
    items
        .map(|alert| (alert["name"].as_str().expect("a name").to_owned(), alert["subject"].clone()))
        .collect()
}

#[test]
fn e10_g8_t16_alerts_fire_and_resolve_at_the_far_end_and_for_the_company() {
    let (ops, customer) = (receiver::start(), receiver::start());
    let scene = Scene::with(&hasty(&ops.url()));
    let (_, secret) = scene.endpoint("globex", &customer.url(), &["AlertFired", "AlertResolved"]);
    let stream = scene.listen();
    let send = |id: &str, route: &str, script: Value| {
        scene.send(route, "globex", id, &json!({ "script": script }));
    };
    for number in 0..2 {
        send(&format!("bad-{number}"), "sandbox", json!(["550 no such user"]));
    }
    scene.job_once("bad-1", "failed");
    assert_eq!(names(&scene.get("/v1/alerts")), [], "two of three are quiet");
    for number in 2..6 {
        send(&format!("bad-{number}"), "sandbox", json!(["550 no such user"]));
    }
    for alert in ["dlq_size", "dlq_company", "failure_rate", "permanent_rate"] {
        let [fired] = &ops.once(&format!("\"alert\":\"{alert}\""), 1)[..] else {
            panic!("{alert} rang twice")
        };
        let event = verified(fired, receiver::SECRET);
        assert_eq!(event["type"], "AlertFired", "{event}");
        assert_eq!(fired.header("webhook-event"), "AlertFired");
        let reasons = [&event["data"]["reason"], &event["data"]["reasonPt"]];
        assert!(reasons.iter().all(|words| words.as_str().is_some_and(|words| !words.is_empty())), "{event}");
        assert!(event["data"]["runbook"].as_str().is_some_and(|page| page.ends_with(&format!("#{alert}"))));
    }
    let told = verified(&customer.once("AlertFired", 1)[0], &secret);
    assert_eq!((&told["companyId"], &told["data"]["alert"]), (&json!("globex"), &json!("dlq_company")));
    assert_eq!(stream.hears("AlertFired", "globex")["data"]["severity"], "critical");

    let mut list = Value::Null;
    // What rings was measured before the last of them was buried.
    eventually(|| {
        list = scene.get("/v1/alerts");
        list["items"][0]["value"] == 6.0
    });
    let about = |name: &str, subject: Value| (name.to_owned(), subject);
    let firing = [
        about("dlq_company", json!("globex")),
        about("dlq_size", Value::Null),
        about("failure_rate", json!("sandbox")),
        about("permanent_rate", json!("sandbox")),
    ];
    assert_eq!(names(&list), firing);
    let message = list["items"][0]["message"].as_str().expect("words");
    assert_eq!(message, "Company globex: 6 of its jobs are in the dead letter queue; the limit is 2");
    let portuguese = list["items"][0]["messagePt"].as_str().expect("words");
    assert!(portuguese.starts_with("Empresa globex: 6 de suas tarefas"), "{portuguese}");
    let off = list["rules"].as_array().expect("rules").iter().find(|rule| rule["name"] == "dlq_rate");
    assert_eq!(off.expect("the rule")["enabled"], false);
    let table = scene.recado(&["alerts"]).done();
    assert!(table.contains("dlq_company") && table.contains("company globex"), "{table}");

    // A restart does not ring again, and hears that it is over.
    let scene = scene.restarted();
    for number in 0..6 {
        let (status, answer) =
            scene.ask("POST", &format!("/v1/dlq/bad-{number}/discard"), &json!({ "reason": "no use" }));
        assert_eq!(status, 200, "{answer}");
    }
    for alert in ["dlq_size", "dlq_company", "failure_rate", "permanent_rate"] {
        let told = ops.once(&format!("\"alert\":\"{alert}\""), 2);
        let kinds: Vec<_> = told.iter().map(|request| request.json()["type"].clone()).collect();
        assert_eq!(kinds, [json!("AlertFired"), json!("AlertResolved")], "{alert}");
    }
    assert_eq!(customer.once("AlertResolved", 1).len(), 1);
    eventually(|| scene.get("/v1/alerts")["items"] == json!([]));
}

#[test]
fn f1_an_open_breaker_rings_and_is_over_when_the_provider_is_back() {
    let ops = receiver::start();
    let scene = Scene::with(&hasty(&ops.url()));
    let down = json!({ "script": ["503 down", "ok"] });
    for id in ["one", "two"] {
        scene.send("instagram", "acme", id, &down);
    }
    let fired = ops.once("\"alert\":\"breaker_open\"", 1);
    let event = verified(&fired[0], receiver::SECRET);
    assert_eq!((&event["type"], &event["data"]["provider"]), (&json!("AlertFired"), &json!("instagram")));
    let (status, answer) = scene.ask(
        "POST",
        "/v1/providers/instagram/breaker",
        &json!({ "action": "close", "reason": "it is back" }),
    );
    assert_eq!(status, 200, "{answer}");
    let told = ops.once("\"alert\":\"breaker_open\"", 2);
    assert_eq!(told[1].json()["type"], "AlertResolved");
}

#[test]
fn a_channel_that_speaks_as_slack_does_gets_a_text() {
    let ops = receiver::start();
    let scene = Scene::with(&format!(
        "{FAST}[alerts]\nevery = \"1s\"\nwebhook = \"{}/services/T0/B0/x\"\nformat = \"slack\"\ndlq_size = {{ threshold = 0 }}\n{}",
        ops.url(),
        receiver::ALLOWED
    ));
    scene.send("sandbox", "acme", "bad", &json!({ "script": ["550 no such user"] }));
    let told = ops.once("AlertFired", 1)[0].json();
    let text = told["text"].as_str().expect("a text");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("Recado: AlertFired (alert dlq_size)"));
    assert_eq!(lines.next(), Some("1 jobs are in the dead letter queue; the limit is 0"));
    assert_eq!(told.as_object().expect("an object").len(), 1);
}
