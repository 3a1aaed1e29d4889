//! What lies there: dead letters, jobs that nobody takes, jobs that take long, providers that are left alone.

use serde_json::json;

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
fn e10_a_job_that_nobody_takes_rings_everywhere_and_one_whose_time_has_not_come_does_not() {
    let rule = format!("queue_age = {{ threshold = 1, {HASTY} }}");
    let story = Story::with(&rule, &routes(&["loud", "quiet"], ONCE));
    let tell = |path: &str| {
        let (status, told) = story.scene.ask("POST", path, &json!({ "reason": "a test" }));
        assert_eq!(status, 200, "{told}");
    };
    tell("/v1/routes/loud/pause");
    let later = json!({ "route": "quiet", "companyId": "acme", "delayMs": 3_600_000, "data": {} });
    story.scene.enqueue(later);
    story.send("loud", 1, &["ok"]);
    let about = Some(("route", "loud"));
    story.fired("queue_age", about);
    tell("/v1/routes/loud/resume");
    story.resolved("queue_age", about);
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
