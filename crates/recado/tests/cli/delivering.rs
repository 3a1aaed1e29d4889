//! Jobs that arrive: at the first try, after retries, on time, once.

use serde_json::json;

use super::given::{FAST, Place, between_ms};

#[test]
fn e1_e4_e7_two_421_and_an_ok_end_sent_on_the_third_attempt_with_both_delays_in_range() {
    let place = Place::new();
    let server = place.serve();
    let job = json!({"jobId": "third-time", "route": "sandbox", "companyId": "acme", "data": {"script": ["421 try later", "421", "ok"]}});
    let id = server.enqueue(job);
    let job = server.job_once(&id, "sent");

    let attempts = job["attempts"].as_array().unwrap();
    let results: Vec<_> = attempts.iter().map(|attempt| attempt["result"].as_str().unwrap()).collect();
    assert_eq!(results, ["failed", "failed", "sent"]);
    assert_eq!(attempts[0]["errorCode"], "421");
    assert_eq!(attempts[0]["errorReason"], "try later");
    assert_eq!(attempts[1]["errorReason"], "the provider answered 421 and nothing more");
    for (at, range) in [(0, 750..=1_250), (1, 1_500..=2_500)] {
        let attempt = &attempts[at];
        assert_eq!(attempt["errorClassification"], "TRANSIENT");
        assert_eq!(attempt["rule"], "general/421");
        let delay = attempt["nextRetryDelayMs"].as_i64().unwrap();
        assert!(range.contains(&delay), "retry {at} after {delay} ms");
        let waited = between_ms(&attempt["endedAt"], &attempts[at + 1]["startedAt"]);
        assert!(waited >= delay, "it came {} ms early", delay - waited);
    }

    let trail = server.get("/v1/jobs/third-time/audit");
    let events = trail["items"].as_array().unwrap().iter().map(|item| item["event"].as_str().unwrap());
    let events: Vec<_> = events.filter(|event| !event.ends_with("_READ")).collect();
    let analysed = ["ERROR_ANALYSED", "BACKOFF_CALCULATED", "RETRY_SCHEDULED", "RETRY_DECIDED"];
    assert_eq!(events, [&analysed[..], &analysed[..], &["DELIVERED"]].concat());

    let shown = server.run(&place, &["jobs", "show", "third-time"]).done();
    for expected in [
        "status    sent",
        "attempt 1  failed",
        "421 try later",
        "TRANSIENT  rule general/421",
        "attempt 3  sent",
    ] {
        assert!(shown.contains(expected), "{expected:?} is missing from\n{shown}");
    }
    assert_eq!(shown.matches("next attempt after").count(), 2, "{shown}");
    let audit = server.run(&place, &["jobs", "audit", "third-time"]).done();
    assert_eq!(audit.matches("retry_scheduled").count(), 2, "{audit}");
    assert!(audit.contains("Retry 1 of 4") && audit.contains("general/421"), "{audit}");
    server.stop();
}

#[test]
fn f8_the_providers_own_wish_replaces_the_policys_delay_and_is_never_shortened() {
    let server = Place::with(FAST).serve();
    let id = server.enqueue(
        json!({"route": "sandbox", "companyId": "acme", "data": {"script": ["429 retry-after=1", "ok"]}}),
    );
    let job = server.job_once(&id, "sent");
    let first = &job["attempts"][0];
    assert_eq!(
        (first["errorClassification"].as_str(), first["nextRetryDelayMs"].as_i64()),
        (Some("RATE_LIMIT"), Some(1_000))
    );
    assert!(between_ms(&first["endedAt"], &job["attempts"][1]["startedAt"]) >= 1_000);
}

#[test]
fn a_delayed_job_starts_on_time() {
    let server = Place::new().serve();
    let id = server.enqueue(json!({"route": "sandbox", "companyId": "acme", "data": {}, "delayMs": 400}));
    assert_eq!(server.get(&format!("/v1/jobs/{id}"))["status"], "scheduled");
    let job = server.job_once(&id, "sent");
    let waited = between_ms(&job["enqueuedAt"], &job["attempts"][0]["startedAt"]);
    assert!((400..1_400).contains(&waited), "it started after {waited} ms");
}

#[test]
fn g15_the_same_id_is_delivered_once_and_another_body_under_it_is_refused() {
    let place = Place::new();
    let server = place.serve();
    let send = |data: &str| {
        server.run(&place, &["send", "sandbox", "--company", "acme", "--job-id", "once", "--data", data])
    };
    assert_eq!(send("{\"a\": 1, \"b\": 2}").done(), "once queued\n");
    server.job_once("once", "sent");
    assert_eq!(send("{\"b\":2,\"a\":1}").done(), "once sent (it was here before)\n");
    let refused = send("{\"a\": 3}").failed_with(1);
    assert!(refused.contains("(conflict)"), "{refused}");
    assert_eq!(server.get("/v1/jobs/once")["attempts"].as_array().unwrap().len(), 1);
}

#[test]
fn a_lost_answer_is_told_apart_from_a_failure_and_tried_again() {
    let server = Place::with(FAST).serve();
    let id = server.enqueue(
        json!({"route": "sandbox", "companyId": "acme", "data": {"script": ["drop", "timeout", "ok"]}}),
    );
    let job = server.job_once(&id, "sent");
    let said: Vec<_> = job["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["result"].as_str(), it["errorCode"].as_str()))
        .collect();
    assert_eq!(said[0], (Some("uncertain"), Some("CONNECTION_LOST")));
    assert_eq!(said[1].1, Some("TIMEOUT"));
}

#[test]
fn a_panic_costs_its_job_one_attempt_and_other_jobs_nothing() {
    let server = Place::with(FAST).serve();
    let bad =
        server.enqueue(json!({"route": "sandbox", "companyId": "acme", "data": {"script": ["panic", "ok"]}}));
    let good = server.enqueue(json!({"route": "sandbox", "companyId": "acme", "data": {"script": ["ok"]}}));
    server.job_once(&good, "sent");
    let job = server.job_once(&bad, "sent");
    assert_eq!(job["attempts"][0]["errorCode"], "PANIC");
    assert_eq!(job["attempts"][0]["errorReason"], "the transport panicked: the sandbox script says panic");
    assert_eq!(server.logged("A task panicked", 1).len(), 1, "a panic is one line of the log");
    server.stop();
}

#[test]
fn jobs_of_a_route_for_workers_wait_until_a_worker_takes_them() {
    let server = Place::new().serve();
    let id = server.enqueue(json!({"route": "tiss-claims", "companyId": "acme", "data": {"claim": 1}}));
    let (status, leases) = server.ask(
        "POST",
        "/v1/leases",
        &json!({"routes": ["tiss-claims"], "max": 1, "waitMs": 5000, "leaseMs": 30000, "workerId": "w1"}),
    );
    assert_eq!(status, 200, "{leases}");
    let token = leases["leases"][0]["leaseToken"].as_str().unwrap();
    assert_eq!(server.get(&format!("/v1/jobs/{id}"))["heldBy"]["workerId"], "w1");
    let (status, settled) =
        server.ask("POST", &format!("/v1/leases/{token}/succeed"), &json!({"result": {"protocol": "P1"}}));
    assert_eq!(status, 200, "{settled}");
    assert_eq!(server.job_once(&id, "sent")["answer"]["protocol"], "P1");
}
