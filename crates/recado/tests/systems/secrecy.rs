//! Secrecy: words of payloads and secrets of the configuration, each with a canary in it. Everything goes
//! well, badly and wrong here, with providers that repeat every request; then everything that others than the
//! job's owner can read is searched.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::asking::{JSON, ask_with};
use super::far_ends::mail::Relay;
use super::far_ends::{FarEnd, Request, collector, evolution, json, receiver};
use super::given::{Place, Server};

const TEXT: &str = "CANARYtext81c2d3";
const MAILBOX: &str = "canarymail81c2@example.com";
const PHONE: &str = "5511981818147";

const TOKEN: &str = "CANARYtoken81c2d3e4";
const API_KEY: &str = "CANARYkey81c2d3e4f5";
const PASSWORD: &str = "CANARYpassword81c2";
const BEARER: &str = "CANARYbearer81c2d3";
const OTLP: &str = "CANARYotlp81c2d3e4";
const SIGNING: &str = "CANARYsigning81c2d3e4f5a6";

/// Words that only the job's owner may read, or no reader at all.
fn canaries() -> Vec<String> {
    let mailbox = MAILBOX.split('@').next().expect("a name");
    let plain = [TEXT, mailbox, PHONE, TOKEN, API_KEY, PASSWORD, BEARER, OTLP, SIGNING];
    let encoded = [SIGNING, &format!("recado:{PASSWORD}"), &format!("\0recado\0{PASSWORD}")]
        .map(|secret| BASE64_STANDARD.encode(secret));
    plain.into_iter().map(str::to_owned).chain(encoded).collect()
}

#[track_caller]
fn assert_silent(place: &str, text: &str) {
    for canary in canaries() {
        assert!(!text.contains(&canary), "{canary} is told by {place}: {text}");
    }
}

fn secret() -> String {
    format!("whsec_{}", BASE64_STANDARD.encode(SIGNING))
}

/// Repeats all that it is sent, credentials included; the path says with which status.
fn parrot() -> FarEnd {
    FarEnd::start(|request: &Request| {
        let status = match &*request.path {
            "/yes" => 200,
            "/busy" => 503,
            "/locked" => 401,
            "/slower" => 429,
            _ => 400,
        };
        let auth = request.header("authorization");
        json(status, json!({ "error": format!("cannot take {} from {auth}", request.text()) }))
    })
}

struct Stage {
    parrot: FarEnd,
    phone: FarEnd,
    relay: Relay,
    ops: FarEnd,
    customer: FarEnd,
    collector: FarEnd,
}

impl Stage {
    fn new() -> Self {
        let phone = FarEnd::start(|request: &Request| match request.header("apikey") {
            API_KEY => evolution::not_on_whatsapp(request.json()["number"].as_str().unwrap_or_default()),
            _ => json(401, json!({ "error": "Unauthorized" })),
        });
        Stage {
            parrot: parrot(),
            phone,
            relay: Relay::start(),
            ops: receiver::start(),
            customer: receiver::start(),
            collector: collector::start(),
        }
    }

    fn config(&self, level: &str) -> String {
        let Stage { parrot, phone, relay, ops, collector, .. } = self;
        let (parrot, phone, relay, ops) = (parrot.url(), phone.url(), relay.address(), ops.url());
        format!(
            "[server]\ntoken = \"{TOKEN}\"\n[log]\nlevel = \"{level}\"\n\
             [providers.parrot]\nurl = \"{parrot}\"\nheaders = {{ Authorization = \"Bearer {BEARER}\" }}\n\
             [routes.parrot]\nprovider = \"parrot\"\npolicy = {{ schedule = [\"0s\", \"20ms\"] }}\n\
             [providers.brittle]\nurl = \"{parrot}\"\nbreaker = {{ failures = 1, within = \"60s\", reset = \"1h\" }}\n\
             [routes.brittle]\nprovider = \"brittle\"\n\
             [providers.evolution]\nurl = \"{phone}\"\napi_key = \"{API_KEY}\"\ninstance = \"main\"\n\
             [providers.smtp]\nurl = \"smtp://recado:{PASSWORD}@{relay}?tls=none\"\n\
             [routes.email]\npolicy = {{ base = \"20ms\" }}\n\
             [routes.sandbox]\npolicy = {{ base = \"20ms\", max_attempts = 2 }}\n\
             [providers.webhook]\nsecret = \"{secret}\"\n\
             [notify.ops]\nwebhook = \"{ops}/notices\"\nsecret = \"{secret}\"\n[dlq]\nnotify = \"ops\"\n\
             [alerts]\nevery = \"1s\"\nwebhook = \"{ops}/alerts\"\nsecret = \"{secret}\"\ndlq_size = {{ threshold = 1 }}\n\
             {traces}headers = {{ Authorization = \"Bearer {OTLP}\" }}\n{allowed}",
            secret = secret(),
            traces = collector::config(collector),
            allowed = receiver::ALLOWED,
        )
    }
}

const OPENED: &str = "Circuit breaker opened; its jobs wait and spend no attempt";

/// Asks with the token.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let bearer = format!("Bearer {TOKEN}");
    ask_with(address, (method, path), &[JSON, ("authorization", &bearer)], body)
}

fn job(id: &str, route: &str, data: &Value) -> String {
    json!({ "jobId": id, "route": route, "companyId": "acme", "data": data }).to_string()
}

fn words(path: &str) -> Value {
    json!({ "path": path, "body": { "text": TEXT, "to": MAILBOX, "phone": PHONE } })
}

/// Waits until the job stands so.
#[track_caller]
fn once(server: &Server, id: &str, status: &str) {
    let started = Instant::now();
    loop {
        let job: Value = serde_json::from_str(&ask(server.address, "GET", &format!("/v1/jobs/{id}"), "").1)
            .expect("a job");
        if job["status"] == status {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{id} does not become {status}: {job:#}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Everything that can happen to a job, and where its owner reads of it.
fn deliver_all(stage: &Stage, server: &Server) {
    let endpoint = json!({ "companyId": "acme", "url": stage.customer.url(), "events": ["JobFailed"] });
    assert_eq!(ask(server.address, "POST", "/v1/endpoints", &endpoint.to_string()).0, 201);
    let mail = |subject: &str| json!({ "from": "a@acme.example", "to": [MAILBOX], "subject": subject, "text": format!("Olá {TEXT}") });
    stage.relay.orders("RCPT", &[&format!("451 4.2.1 <{MAILBOX}> busy with {TEXT}"), "250 2.1.5 ok"]);
    stage.relay.orders("RCPT", &[&format!("550 5.1.1 <{MAILBOX}>: no such user")]);
    for (id, route, data, status) in [
        ("well", "parrot", words("yes"), "sent"),
        ("exhausted", "parrot", words("busy"), "failed"),
        ("refused", "parrot", words("no"), "failed"),
        ("locked-out", "parrot", words("locked"), "failed"),
        ("throttled", "parrot", words("slower"), "failed"),
        ("unreachable", "whatsapp", json!({ "number": PHONE, "text": TEXT }), "failed"),
        ("delayed-mail", "email", mail("one"), "sent"),
        ("refused-mail", "email", mail("two"), "failed"),
        ("panicking", "sandbox", json!({ "script": ["panic"], "note": TEXT }), "failed"),
        (
            "scripted",
            "sandbox",
            json!({ "script": [format!("550 {TEXT} to {MAILBOX} at {PHONE}")] }),
            "failed",
        ),
    ] {
        let (status_code, answer) = ask(server.address, "POST", "/v1/jobs", &job(id, route, &data));
        assert_eq!(status_code, 202, "{answer}");
        once(server, id, status);
    }
    ask(server.address, "POST", "/v1/jobs", &job("parked", "brittle", &words("busy")));
    server.logged(OPENED, 1);
}

/// Requests that are wrong in every way, and what they are told.
fn refused_all(server: &Server) -> Vec<(u16, String)> {
    let bad_fields = json!({
        "route": "parrot", "companyId": "acme", "priority": TEXT, "runAt": TEXT, "traceparent": TEXT,
        "data": { "path": format!("//{TEXT}"), "method": TEXT, "headers": { "idempotency-key": TEXT }, "bodyBase64": TEXT },
    });
    let bad_mail = json!({ "from": TEXT, "to": [TEXT], "subject": 7, "text": { "a": TEXT } });
    let call = json!({ "route": "parrot", "companyId": "acme", "data": words("busy") });
    let address = server.address;
    vec![
        ask(address, "POST", "/v1/jobs", &bad_fields.to_string()),
        ask(address, "POST", "/v1/jobs", &job("bad-mail", "email", &bad_mail)),
        ask(address, "POST", "/v1/jobs", &format!("{{\"data\": \"{TEXT}\", ")),
        ask(address, "POST", "/v1/jobs", &job("well", "parrot", &words("no"))),
        ask(address, "POST", "/v1/calls", &call.to_string()),
        ask(
            address,
            "POST",
            "/v1/decisions",
            &json!({ "claimId": " ", "submissionError": TEXT }).to_string(),
        ),
        ask(address, "DELETE", "/v1/jobs/refused", ""),
        ask(
            address,
            "POST",
            "/v1/dlq/refused/replay",
            &json!({ "data": { "path": 7, "body": TEXT } }).to_string(),
        ),
        ask(
            address,
            "POST",
            "/v1/endpoints",
            &json!({ "companyId": "acme", "url": format!("ftp://{TEXT}") }).to_string(),
        ),
        ask_with(address, ("GET", "/v1/jobs"), &[("authorization", &format!("Bearer {TEXT}"))], ""),
    ]
}

fn told_by(far_end: &FarEnd) -> String {
    far_end.ledger().iter().map(Request::text).collect::<Vec<_>>().join("\n")
}

fn nothing_is_told_at(level: &str) {
    let stage = Stage::new();
    let place = Place::with(&stage.config(level));
    let server = place.serve();
    deliver_all(&stage, &server);
    let problems = refused_all(&server);
    let statuses: Vec<_> = problems.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [422, 422, 400, 409, 503, 422, 409, 422, 422, 401], "{problems:#?}");
    stage.ops.once("AlertFired", 1);
    stage.ops.once("\"refused-mail\"", 1);
    collector::spans_of(&stage.collector, "attempt", "panicking", 2);

    // Readers with the right read it, and the far ends have it: the search below could find something.
    for id in ["refused", "exhausted", "locked-out"] {
        let owners = ask(server.address, "GET", &format!("/v1/jobs/{id}"), "").1;
        let reason =
            serde_json::from_str::<Value>(&owners).expect("JSON")["attempts"][0]["errorReason"].to_string();
        for canary in [TEXT, MAILBOX, PHONE] {
            assert!(reason.contains(canary), "the provider did not repeat {canary}: {reason}");
        }
        assert!(ask(server.address, "GET", &format!("/v1/dlq/{id}"), "").1.contains(TEXT));
    }
    assert!(told_by(&stage.customer).contains(TEXT), "the owner's own endpoint hears every word");
    assert!(told_by(&stage.parrot).contains(PHONE));
    assert_eq!(stage.parrot.ledger()[0].header("authorization"), format!("Bearer {BEARER}"));
    assert_eq!(stage.phone.ledger()[0].header("apikey"), API_KEY);
    assert_eq!(stage.collector.ledger()[0].header("authorization"), format!("Bearer {OTLP}"));
    assert!(stage.ops.ledger()[0].is_signed_with(&secret()));

    for (_, problem) in &problems {
        assert_silent("a problem", problem);
    }
    assert_silent("/metrics", &ask(server.address, "GET", "/metrics", "").1);
    for path in ["/v1/providers", "/v1/tenants", "/v1/alerts", "/v1/kpis", "/v1/nodes", "/v1/routes"] {
        assert_silent(path, &ask(server.address, "GET", path, "").1);
    }
    assert_silent("traces", &told_by(&stage.collector));
    assert_silent("alerts and notices", &told_by(&stage.ops));
    server.logged("Job moved to the dead letter queue", 7);
    server.logged("A task panicked", 2);
    server.logged("Call failed", 1);
    let log: Vec<_> = server.log().iter().map(Value::to_string).collect();
    log.iter().for_each(|line| assert_silent("the log", line));
    let log = log.join("\n");
    assert!(
        log.contains("c***@example.com") && log.contains("***47"),
        "personal data is shown in part: {log}"
    );
    server.signal("TERM");
    let (status, err) = server.ended();
    assert!(status.success(), "{err}");
    assert_silent("standard error", &err);
}

#[test]
fn no_canary_is_told_at_level_trace() {
    nothing_is_told_at("trace");
}

#[test]
fn no_canary_is_told_at_level_debug() {
    nothing_is_told_at("debug");
}

#[test]
fn a_faulty_configuration_is_told_without_its_secrets() {
    let stage = Stage::new();
    let wrong = stage
        .config("loud")
        .replace("[routes.parrot]", "tokn = \"CANARYbearer81c2d3\"\n[routes.parrot]")
        .replace("?tls=none", "?tls=perhaps")
        .replace(TOKEN, &TOKEN[..12]);
    let place = Place::with(&wrong);
    for arguments in [&["config", "check"][..], &["serve", "--listen", "127.0.0.1:0"], &["config", "show"]] {
        let said = place.run(arguments);
        assert_ne!(said.code, 0, "{said:?}");
        assert!(said.err.contains("recado.toml"), "{said:?}");
        let said = format!("{}{}", said.out, said.err);
        assert_silent("a message about the configuration", &said);
        assert!(!said.contains(&TOKEN[..12]), "{said}");
    }
    let place = Place::with(&stage.config("info"));
    let shown = place.run(&["config", "show"]).done();
    assert!(shown.contains("***"), "{shown}");
    assert_silent("config show", &shown);
}

#[test]
fn the_search_finds_what_is_told() {
    let found = std::panic::catch_unwind(|| assert_silent("a test", &format!("to {MAILBOX}")));
    assert!(found.is_err());
}
