//! What is counted, asked of a real Prometheus while the server works; and what rings, heard at the far end.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::far_ends::receiver::{self, verified};
use super::given::eventually;
use super::scene::Scene;

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

    /// What a query of one value has for an answer.
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

/// What the test sends: how many, of which company, and the script of each.
const LOAD: [(usize, &str, &[&str]); 4] = [
    (120, "acme", &["ok"]),
    (40, "acme", &["421 later", "ok"]),
    (15, "globex", &["503 busy"]),
    (25, "globex", &["550 no such user"]),
];

fn send_load(scene: &Scene) -> usize {
    let mut jobs = Vec::new();
    for (kind, (count, company, script)) in LOAD.iter().enumerate() {
        let job = |number| {
            json!({ "jobId": format!("load-{kind}-{number}"), "route": "sandbox", "companyId": company,
                    "data": { "script": script } })
        };
        jobs.extend((0..*count).map(job));
    }
    let (status, answer) = scene.ask("POST", "/v1/jobs/batch", &Value::Array(jobs.clone()));
    assert_eq!(status, 200, "{answer}");
    jobs.len()
}

#[test]
fn g18_e9_t21_a_real_prometheus_reads_what_the_server_did() {
    let scene = Scene::with(FAST);
    let prometheus = Prometheus::scraping(scene.address);
    let sent = send_load(&scene);
    assert_eq!(sent, 200);
    // 120 at once, 40 at the second try; 15 spend three tries each, 25 one.
    let ledger = [
        (r#"recado_jobs_accepted_total{route="sandbox"}"#, 200.0),
        (r#"recado_jobs_ended_total{route="sandbox",status="sent"}"#, 160.0),
        (r#"recado_jobs_ended_total{route="sandbox",status="failed"}"#, 40.0),
        (r#"recado_attempts_total{route="sandbox",result="sent"}"#, 160.0),
        (r#"recado_attempts_total{route="sandbox",result="failed"}"#, 110.0),
        (r#"retry_attempts_total{attempt="1"}"#, 200.0),
        (r#"retry_attempts_total{attempt="2"}"#, 55.0),
        (r#"retry_attempts_total{attempt="3"}"#, 15.0),
        (r#"retry_success_rate{attempt="1"}"#, 120.0 / 200.0),
        ("retry_backoff_delay_seconds_count", 70.0),
        ("dlq_entries_total", 40.0),
        ("dlq_size", 40.0),
        (r#"dlq_by_error_code{error_code="503"}"#, 15.0),
        (r#"dlq_by_error_code{error_code="550"}"#, 25.0),
        (r#"dlq_by_company{company_id="globex"}"#, 40.0),
        (r#"tenant_jobs_processed{company_id="acme"}"#, 200.0),
        (r#"tenant_jobs_processed{company_id="globex"}"#, 70.0),
        (r#"submission_retry_total{route="sandbox"}"#, 70.0),
        (r#"submission_retry_backoff_minutes_count{route="sandbox"}"#, 70.0),
        (r#"submission_retry_max_exceeded{route="sandbox"}"#, 15.0),
        (r#"error_classification_distribution{route="sandbox",classification="PERMANENT"}"#, 25.0),
        (r#"error_classification_distribution{route="sandbox",classification="TRANSIENT"}"#, 85.0),
        (r#"recado_errors_total{error_code="421"}"#, 40.0),
        (r#"recado_dead_letters_total{route="sandbox",cause="EXHAUSTED"}"#, 15.0),
        (r#"recado_http_requests_total{method="POST",path="/v1/jobs/batch",status="200"}"#, 1.0),
    ];
    for (name, expected) in ledger {
        eventually(|| prometheus.value(name).is_some_and(|value| (value - expected).abs() < 1e-9));
    }
    assert_eq!(prometheus.value("up"), Some(1.0));

    let page = fetch(scene.address, "/metrics");
    assert_eq!(
        complaints(&page),
        [r#"submission_retry_backoff_minutes use base unit "seconds" instead of "minutes""#]
    );
    let samples = samples(&page);
    for (name, expected) in ledger {
        assert_eq!(samples.get(name), Some(&expected), "{name}");
    }
    // Those whose value depends on the machine are there, too.
    for family in [
        "tenant_current_priority",
        "tenant_consecutive_batch",
        "tenant_rounds_without_processing",
        "dlq_age_seconds_count",
        "process_resident_memory_bytes",
        "recado_store_size_bytes",
        "recado_store_max_bytes",
    ] {
        assert!(samples.keys().any(|name| name.starts_with(family)), "{family} is missing");
    }
    assert_eq!(samples[&*format!("recado_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))], 1.0);
    for work in ["enqueue", "claim", "settle", "commit", "fsync"] {
        let count = format!("recado_store_operation_seconds_count{{operation=\"{work}\"}}");
        assert!(samples[&*count] > 0.0, "{count}");
    }
    assert!(samples["recado_store_commit_requests_sum"] >= samples["recado_store_commit_requests_count"]);
}

#[test]
fn t15_the_indicators_of_a_route_agree_with_what_was_sent() {
    let scene = Scene::with(FAST);
    send_load(&scene);
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
    assert_eq!(kpis["successAfterRetry"]["met"], false);
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

    let list = scene.get("/v1/alerts");
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
