//! Alerts on queues: dead letters, jobs that are not taken, jobs that take long, providers that are closed
//! off.

use serde_json::{Value, json};

use super::super::given::{between_ms, eventually};
use super::{HASTY, SHORT, Story, routes};

const ONCE: &str = "policy = { schedule = [\"0s\"] }";
const BAD: &[&str] = &["550 no such user"];

#[test]
fn e10_g8_w5_dead_letters_ring_everywhere_above_100_and_above_50_of_a_company() {
    let rules = format!("dlq_size = {{ {HASTY} }}\ndlq_company = {{ {HASTY} }}");
    let story = Story::with(&rules, &routes(&["loud", "quiet"], ONCE));
    let (size, company) = (("dlq_size", None), ("dlq_company", Some(("company", "loud"))));
    story.send("quiet", 49, BAD);
    story.counted("dlq_entries_total", 49);
    story.send("loud", 51, BAD);
    story.fired(company.0, company.1);
    story.counted("dlq_entries_total", 100);
    assert_eq!(story.rings("dlq_size", None), None, "100 are not more than 100");
    story.send("quiet", 1, BAD);
    let item = story.fired(size.0, size.1);
    assert_eq!(item["value"], 101.0);
    let (status, told) = story.scene.ask(
        "POST",
        "/v1/dlq/discard",
        &json!({ "filter": { "companyId": "loud" }, "reason": "no use" }),
    );
    assert!(status < 300, "{told}");
    story.resolved(company.0, company.1);
    story.resolved(size.0, size.1);
    story.ends(&[size, company]);
}

#[test]
fn an_alert_that_is_back_under_its_limit_says_why_it_still_rings() {
    let rule = "dlq_size = { threshold = 3, pending = \"0s\", resolve_share = 0.5, clear = \"1h\" }";
    let story = Story::with(rule, &routes(&["loud", "quiet"], ONCE));
    story.send("loud", 2, BAD);
    story.send("quiet", 2, BAD);
    let item = story.fired("dlq_size", None);
    assert_eq!((&item["calmSince"], &item["clearsAt"]), (&Value::Null, &Value::Null));
    let discard = |company: &str| {
        let act = json!({ "filter": { "companyId": company }, "reason": "no use" });
        assert!(story.scene.ask("POST", "/v1/dlq/discard", &act).0 < 300);
    };
    let table = || story.scene.recado(&["alerts"]).done();
    discard("loud");
    eventually(|| table().contains("(back under the limit; clears once it stays at or below 50 % of it)"));
    discard("quiet");
    eventually(|| table().contains("(back under the limit since 2"));
    let item = story.rings("dlq_size", None).expect("it waits for an hour");
    assert_eq!(between_ms(&item["calmSince"], &item["clearsAt"]), 3_600_000, "{item}");
    assert_eq!(item["value"], 0.0, "it shows the figure of now: {item}");
    assert!(table().contains(&format!("clears at {} if it stays so)", item["clearsAt"].as_str().unwrap())));
}

#[test]
fn g8_a_queue_of_dead_letters_over_its_size_rings_everywhere() {
    // The other rule says when three were seen, which are as many as may be.
    let rules = format!("dlq_overflow = {{ {SHORT} }}\ndlq_size = {{ threshold = 2, {HASTY} }}");
    let story = Story::with(&rules, &(routes(&["loud"], ONCE) + "[dlq]\nmax_size = 3\n"));
    story.send("loud", 3, BAD);
    story.fired("dlq_size", None);
    assert_eq!(story.rings("dlq_overflow", None), None);
    story.send("loud", 1, BAD);
    let item = story.fired("dlq_overflow", None);
    assert_eq!(item["value"], 1.0);
    story.resolved("dlq_overflow", None);
}

#[test]
fn e10_slow_processing_rings_everywhere_and_is_over_when_it_is_forgotten() {
    let rule = format!("processing_time = {{ threshold = 1, {SHORT} }}");
    let story = Story::with(&rule, &routes(&["loud", "few"], ONCE));
    let slow = json!({ "script": ["ok"], "latencyMs": 2_600 });
    story.send_data("few", "few", 19, &slow);
    story.send_data("loud", "loud", 20, &slow);
    let about = Some(("route", "loud"));
    story.fired("processing_time", about);
    story.counted("recado_attempts_total{route=\"few\",result=\"sent\"}", 19);
    story.resolved("processing_time", about);
    story.ends(&[("processing_time", about)]);
}

#[test]
fn e10_a_job_that_is_not_claimed_rings_everywhere_and_one_that_waits_on_purpose_does_not() {
    let rule = format!("queue_age = {{ threshold = 1, {HASTY} }}\nbreaker_open = false");
    let opened = routes(&["opened"], ONCE) + "breaker = { failures = 5, within = \"1m\" }\n";
    let lanes = routes(&["quiet", "paused", "away", "throttled", "loud"], ONCE) + "concurrency = 1\n";
    let story = Story::with(&rule, &(opened + &lanes));
    let tell = |method: &str, path: &str, change: &Value| {
        let (status, told) = story.scene.ask(method, path, change);
        assert_eq!(status, 200, "{told}");
    };
    let reason = json!({ "reason": "a test" });
    tell("POST", "/v1/routes/paused/pause", &reason);
    tell("POST", "/v1/providers/away/pause", &reason);
    tell("PUT", "/v1/tenants/still", &json!({ "paused": true }));
    tell("POST", "/v1/providers/opened/breaker", &json!({ "action": "open", "reason": "on purpose" }));
    story.send("throttled", 1, &["429 retry-after=600"]);
    story.counted("recado_attempts_total{route=\"throttled\",result=\"failed\"}", 1);
    let later = json!({ "route": "quiet", "companyId": "acme", "delayMs": 3_600_000, "data": {} });
    story.scene.enqueue(later);
    story.send("paused", 1, &["ok"]);
    story.send("away", 1, &["ok"]);
    story.send("opened", 1, &["ok"]);
    story.send("throttled", 1, &["ok"]);
    story.send_data("quiet", "still", 1, &json!({ "script": ["ok"] }));
    story.send_data("loud", "loud", 2, &json!({ "script": ["ok"], "latencyMs": 4_000 }));
    let about = Some(("route", "loud"));
    story.fired("queue_age", about);
    story.resolved("queue_age", about);
    story.counted("recado_queue_jobs{route=\"paused\",status=\"queued\"}", 1);
    story.counted("recado_queue_jobs{route=\"away\",status=\"queued\"}", 1);
    story.counted("recado_queue_jobs{route=\"throttled\",status=\"queued\"}", 1);
    story.counted("recado_queue_jobs{route=\"quiet\",status=\"queued\"}", 1);
    story.ends(&[("queue_age", about)]);
}

#[test]
fn f5_an_open_breaker_rings_everywhere_until_it_is_closed() {
    let lanes = ["loud", "quiet"]
        .map(|name| routes(&[name], ONCE) + "breaker = { failures = 2, within = \"1h\", reset = \"1h\" }\n");
    let story = Story::with(&format!("breaker_open = {{ {HASTY} }}"), &lanes.concat());
    story.send("quiet", 1, &["503 busy"]);
    story.counted("recado_attempts_total{route=\"quiet\",result=\"failed\"}", 1);
    story.send("loud", 2, &["503 busy"]);
    let about = Some(("provider", "loud"));
    story.fired("breaker_open", about);
    let close = json!({ "action": "close", "reason": "it is back" });
    let (status, told) = story.scene.ask("POST", "/v1/providers/loud/breaker", &close);
    assert_eq!(status, 200, "{told}");
    story.resolved("breaker_open", about);
    story.ends(&[("breaker_open", about)]);
}
