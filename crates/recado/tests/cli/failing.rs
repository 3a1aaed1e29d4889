//! Jobs that do not arrive: the dead letter queue, and the ways out of it.

use serde_json::json;

use super::given::{FAST, Place, eventually};

const EMAIL: &str =
    "[routes.email]\ntransport = \"sandbox\"\npolicy = { base = \"20ms\", max_attempts = 5 }\n";

#[test]
fn e5_e6_e7_g3_a_550_on_email_fails_after_one_attempt() {
    let place = Place::with(EMAIL);
    let server = place.serve();
    let id = server.enqueue(
        json!({"route": "email", "companyId": "acme", "data": {"script": ["550 5.1.1 no such user"]}}),
    );
    let job = server.job_once(&id, "failed");
    assert_eq!(job["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(job["attempts"][0]["rule"], "smtp/550");
    let entry = server.get(&format!("/v1/dlq/{id}"));
    assert_eq!(
        (entry["cause"].as_str(), entry["errorClassification"].as_str()),
        (Some("PERMANENT"), Some("PERMANENT"))
    );
    assert_eq!(
        (entry["lastFailureCode"].as_str(), entry["lastFailureReason"].as_str()),
        (Some("550"), Some("5.1.1 no such user"))
    );
}

#[test]
fn g3_g4_g7_f11_five_421_end_in_the_queue_and_a_replay_that_succeeds_takes_the_entry_out() {
    let place = Place::with(EMAIL);
    let server = place.serve();
    let five = ["421 a", "421 b", "421 c", "421 d", "421 e"];
    let job = json!({"jobId": "order-1042", "route": "email", "companyId": "acme", "userId": "ana", "correlationId": "c-1", "data": {"script": five}});
    server.enqueue(job);
    server.job_once("order-1042", "failed");

    let entry = server.get("/v1/dlq/order-1042");
    assert_eq!((entry["cause"].as_str(), entry["failedAttempts"].as_i64()), (Some("EXHAUSTED"), Some(5)));
    assert_eq!((entry["outboxId"].as_str(), entry["companyId"].as_str()), (Some("order-1042"), Some("acme")));
    assert_eq!((entry["userId"].as_str(), entry["correlationId"].as_str()), (Some("ana"), Some("c-1")));
    assert_eq!(entry["originalData"], json!({"script": five}));
    assert_eq!((entry["lastFailureReason"].as_str(), entry["ttl"].as_i64()), (Some("e"), Some(604_800_000)));
    assert!(
        entry["enqueuedAt"].is_string()
            && entry["movedToDLQAt"].is_string()
            && entry["lastFailureTimestamp"].is_string()
    );
    assert_eq!(entry["attempts"].as_array().unwrap().len(), 5);

    let listed = server.run(&place, &["dlq", "list"]).done();
    assert!(
        listed.contains("order-1042") && listed.contains("EXHAUSTED") && listed.contains("421"),
        "{listed}"
    );
    let stats = server.run(&place, &["dlq", "stats", "--by", "company", "--json"]).json();
    assert_eq!((stats["total"].as_i64(), stats["items"][0]["key"].as_str()), (Some(1), Some("acme")));

    // While the replay is under way the entry is still there.
    let slow = r#"{"script":["ok"],"latencyMs":700}"#;
    let replayed = server
        .run(&place, &["dlq", "replay", "order-1042", "--data", slow, "--note", "server is back"])
        .done();
    assert_eq!(replayed, "order-1042 is on its way\n");
    server.job_when("order-1042", |job| job["status"] == "delivering");
    assert_eq!(server.get("/v1/dlq/order-1042")["state"], "replaying");
    let job = server.job_once("order-1042", "sent");
    assert_eq!(job["attempts"].as_array().unwrap().len(), 6, "its history stays");
    assert_eq!(server.ask("GET", "/v1/dlq/order-1042", &json!(null)).0, 404);

    let audit = server.run(&place, &["jobs", "audit", "order-1042"]).done();
    assert!(
        audit.contains("Replayed with corrected data: server is back") && audit.contains("tester"),
        "{audit}"
    );
}

#[test]
fn g7_a_replay_that_fails_leaves_the_entry_and_starts_with_a_fresh_budget() {
    let place = Place::with(EMAIL);
    let server = place.serve();
    let id = server.enqueue(json!({"route": "email", "companyId": "acme", "data": {"script": ["421"]}}));
    server.job_once(&id, "failed");
    server.run(&place, &["dlq", "replay", &id]).done();
    eventually(|| server.get(&format!("/v1/dlq/{id}"))["failedAttempts"] == 10);
    assert_eq!(server.get(&format!("/v1/dlq/{id}"))["state"], "dead");
}

#[test]
fn a_dead_letter_is_discarded_only_with_a_reason() {
    let place = Place::with(EMAIL);
    let server = place.serve();
    let id = server.enqueue(json!({"route": "email", "companyId": "acme", "data": {"script": ["554 no"]}}));
    server.job_once(&id, "failed");
    assert!(server.run(&place, &["dlq", "discard", &id]).failed_with(2).contains("--reason"));
    assert!(
        server.run(&place, &["dlq", "discard", &id, "--reason", " "]).failed_with(1).contains("is blank")
    );
    let said = server.run(&place, &["dlq", "discard", &id, "--reason", "customer left"]).done();
    assert_eq!(said, format!("{id} discarded\n"));
    assert!(server.run(&place, &["dlq", "show", &id]).failed_with(1).contains("(not_found)"));
}

#[test]
fn a_job_whose_next_try_would_come_too_late_expires() {
    let place = Place::with("[routes.sandbox]\npolicy = { base = \"5s\" }\n");
    let server = place.serve();
    let id = server.enqueue(
        json!({"route": "sandbox", "companyId": "acme", "ttlMs": 1000, "data": {"script": ["503 busy"]}}),
    );
    server.job_once(&id, "failed");
    let entry = server.get(&format!("/v1/dlq/{id}"));
    assert_eq!(entry["cause"], "EXPIRED");
    let reason = entry["lastFailureReason"].as_str().unwrap();
    assert!(reason.starts_with("busy; the next try would start at "), "{reason}");
}

#[test]
fn data_that_cannot_be_delivered_is_refused_with_every_fault() {
    let server = Place::new().serve();
    let (status, problem) = server.ask(
        "POST",
        "/v1/jobs",
        &json!({"route": "sandbox", "companyId": "a b", "data": {"script": "ok", "latencyMs": -1}}),
    );
    assert_eq!(status, 422, "{problem}");
    let pointers: Vec<_> =
        problem["errors"].as_array().unwrap().iter().map(|it| it["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/companyId", "/data/script", "/data/latencyMs"]);
}

#[test]
fn own_rules_of_the_file_decide_before_the_built_in_ones() {
    let rule = "[routes.email]\ntransport = \"sandbox\"\npolicy = { base = \"20ms\" }\nclassify = [ { code = \"550\", text = \"try again later\", as = \"transient\" } ]\n";
    let server = Place::with(rule).serve();
    let id = server.enqueue(
        json!({"route": "email", "companyId": "acme", "data": {"script": ["550 try again later", "ok"]}}),
    );
    let job = server.job_once(&id, "sent");
    assert_eq!(job["attempts"][0]["rule"], "config/email/1");
}

#[test]
fn what_others_wrote_reaches_no_terminal_unescaped() {
    let place = Place::with(FAST);
    let server = place.serve();
    let id = server.enqueue(json!({"route": "sandbox", "companyId": "acme", "correlationId": "a\u{1b}]0;x\u{7}", "data": {"script": ["550 \u{1b}[2Jgone\u{202e}"]}}));
    server.job_once(&id, "failed");
    for arguments in [
        &["jobs", "show", &id][..],
        &["jobs", "list"],
        &["jobs", "audit", &id],
        &["dlq", "list"],
        &["dlq", "show", &id],
        &["dlq", "stats"],
    ] {
        let said = server.run(&place, arguments).done();
        assert!(!said.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{arguments:?}: {said:?}");
    }
    assert!(server.run(&place, &["dlq", "list"]).done().contains("\\u{1b}[2Jgone"));
}
