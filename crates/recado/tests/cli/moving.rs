//! Everything from one store into another, and back.

use serde_json::json;

use super::given::Place;
use super::given::redis_server::{DURABLE, Redis};

#[test]
fn everything_moves_to_redis_and_back_with_the_same_checksum() {
    let redis = Redis::with(&DURABLE);
    let place = Place::new();
    let server = place.serve_with(&["--data-dir", "old"], &[]);
    server.enqueue(json!({"jobId": "later", "route": "sandbox", "companyId": "acme",
        "data": {"script": ["ok"]}, "delayMs": 600_000}));
    server.enqueue(
        json!({"jobId": "done", "route": "sandbox", "companyId": "acme", "data": {"script": ["ok"]}}),
    );
    server.enqueue(json!({"jobId": "dead", "route": "sandbox", "companyId": "acme",
        "data": {"script": ["550 5.1.1 no such user", "ok"]}}));
    server.job_once("done", "sent");
    server.job_once("dead", "failed");
    server.run(&place, &["tenants", "set", "acme", "--weight", "3"]).done();

    let to_redis = ["store", "migrate", "--from", "old", "--to", &redis.url(), "--json"];
    let said = place.run(&to_redis).failed_with(1);
    assert!(said.contains("is in use"), "{said}");
    server.stop();
    let there = place.run(&to_redis).json();
    assert_eq!((&there["jobs"]["count"], &there["leasesEnded"]), (&json!(3), &json!(0)), "{there}");
    let said = place.run(&["serve", "--data-dir", "old", "--listen", "127.0.0.1:0"]).failed_with(1);
    assert!(said.contains("was moved to redis://"), "{said}");

    let server = place.serve_with(&["--store", &redis.url()], &[]);
    assert_eq!(server.get("/v1/jobs/later")["status"], "scheduled");
    assert_eq!(server.get("/v1/dlq/dead")["lastFailureCode"], "550");
    assert_eq!(server.get("/v1/tenants/acme")["weight"], 3);
    let back = ["store", "migrate", "--from", &redis.url(), "--to", "new", "--json"];
    let said = place.run(&back).failed_with(1);
    assert!(said.contains("is in use by"), "{said}");
    server.stop();
    let here = place.run(&back).json();
    assert_eq!((&here["jobs"], &here["notes"]), (&there["jobs"], &there["notes"]));

    let server = place.serve_with(&["--data-dir", "new"], &[]);
    server.run(&place, &["dlq", "replay", "dead"]).done();
    server.job_once("dead", "sent");
    server.stop();
}

#[test]
fn a_move_from_nowhere_or_into_a_store_in_use_says_what_to_do() {
    let place = Place::new();
    let said = place.run(&["store", "migrate", "--from", "nowhere", "--to", "new"]).failed_with(1);
    assert!(said.contains("there is no store in nowhere"), "{said}");
    for dir in ["one", "two"] {
        let server = place.serve_with(&["--data-dir", dir], &[]);
        server.enqueue(json!({"jobId": dir, "route": "sandbox", "companyId": "acme",
            "data": {"script": ["ok"]}, "delayMs": 600_000}));
        server.stop();
    }
    let said = place.run(&["store", "migrate", "--from", "one", "--to", "two"]).failed_with(1);
    assert!(said.contains("holds 1 jobs and "), "{said}");
    let said = place.run(&["store", "migrate", "--from", "one", "--to", "one"]).failed_with(2);
    assert!(said.contains("the same store"), "{said}");
}
