//! Many dead letters at once: counted, replayed, discarded, seen and stopped.

use std::time::Instant;

use recado_core::{AuditEvent, AuditKind};
use serde_json::{Value, json};

use crate::given::{Answer, Kind, PATIENCE, Server, Setup, ms, on_each_store};

/// Enqueues jobs that fail once for good and would go through after that, and waits for them.
async fn bury(server: &Server, company: &str, names: &[&str]) {
    for name in names {
        let data = json!({"script": ["550 no such user", "ok"]});
        server.enqueue(json!({"jobId": name, "route": "sandbox", "companyId": company, "data": data})).await;
    }
    for name in names {
        server.until(name, "failed").await;
    }
    // What moved to the queue at the very moment of a start would not count as before it.
    tokio::time::sleep(ms(2)).await;
}

async fn act(server: &Server, path: &str, body: Value) -> Answer {
    let request = server.http.post(server.url(path)).header("x-recado-actor", "ana");
    let request = request.header("content-type", "application/json").body(body.to_string());
    Answer::of(request.send().await.unwrap()).await
}

/// The bulk act once it has ended.
async fn ended(server: &Server, id: &str) -> Value {
    let started = Instant::now();
    loop {
        let bulk = server.get(&format!("/v1/replays/{id}")).await.body;
        if bulk["state"] != "running" {
            return bulk;
        }
        assert!(started.elapsed() < PATIENCE, "it does not end: {bulk}");
        tokio::time::sleep(ms(10)).await;
    }
}

#[tokio::test]
async fn an_id_that_is_named_twice_counts_once() {
    on_each_store(async |server: &Server| {
        bury(server, "acme", &["1", "2"]).await;
        let twice = json!({"jobIds": ["1", "2", "1", "1"]});
        let counted = act(server, "/v1/dlq/replay", json!({"filter": twice, "dryRun": true})).await;
        assert_eq!(
            (&counted.body["total"], counted.body["sample"].as_array().unwrap().len()),
            (&json!(2), 2)
        );
        let begun = act(server, "/v1/dlq/replay", json!({"filter": twice})).await;
        let bulk = ended(server, begun.body["id"].as_str().unwrap()).await;
        assert_eq!(
            (&bulk["total"], &bulk["done"], &bulk["skipped"]),
            (&json!(2), &json!(2), &json!(0)),
            "{bulk}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twelve_that_begin_at_once_are_no_more_than_the_limit() {
    on_each_store(async |server: &Server| {
        let names: Vec<String> = (0..20).map(|n| format!("slow-{n}")).collect();
        bury(server, "acme", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        // One a second: none of them ends while the others begin.
        let slow = json!({"filter": {}, "ratePerSecond": 1});
        let begun = (0..12).map(|_| act(server, "/v1/dlq/replay", slow.clone()));
        let begun = futures_util::future::join_all(begun).await;
        let taken = begun.iter().filter(|answer| answer.status == 202).count();
        let refused = begun.iter().filter(|answer| answer.status == 409).count();
        assert_eq!((taken, refused), (4, 8));
        let listed = server.get("/v1/replays").await.body;
        assert_eq!(listed["items"].as_array().unwrap().len(), 4, "{listed}");
        for bulk in listed["items"].as_array().unwrap() {
            server.delete(&format!("/v1/replays/{}", bulk["id"].as_str().unwrap())).await;
        }
        assert_eq!(act(server, "/v1/dlq/replay", slow).await.status, 202, "one that ended leaves its place");
    })
    .await;
}

#[tokio::test]
async fn w3_a_dry_run_counts_and_touches_nothing() {
    on_each_store(async |server: &Server| {
        bury(server, "acme", &["1", "2"]).await;
        bury(server, "bolt", &["3"]).await;
        for path in ["/v1/dlq/replay", "/v1/dlq/discard"] {
            let all = act(server, path, json!({"filter": {}, "dryRun": true})).await;
            assert_eq!((all.status, &all.body["total"]), (200, &json!(3)), "{}", all.body);
            let some = act(server, path, json!({"filter": {"companyId": "acme"}, "dryRun": true})).await;
            assert_eq!((&some.body["total"], &some.body["dryRun"]), (&json!(2), &json!(true)));
            let sample = &some.body["sample"][0];
            assert_eq!((&sample["jobId"], &sample["lastFailureCode"]), (&json!("2"), &json!("550")));
            assert!(sample.get("originalData").is_none(), "payloads are not for a glance");
        }
        assert_eq!(server.get("/v1/dlq/stats").await.body["total"], 3);
        assert_eq!(server.get("/v1/replays").await.body, json!({"items": []}));
    })
    .await;
}

#[tokio::test]
async fn w3_chosen_entries_are_replayed_and_the_others_stay() {
    on_each_store(async |server: &Server| {
        bury(server, "acme", &["1", "2"]).await;
        bury(server, "bolt", &["3"]).await;
        let body = json!({"filter": {"companyId": "acme", "reason": "NO SUCH"}, "canary": 1, "ratePerSecond": 1000, "note": "address book repaired"});
        let begun = act(server, "/v1/dlq/replay", body).await;
        assert_eq!((begun.status, &begun.body["total"], &begun.body["act"]), (202, &json!(2), &json!("replay")));
        let bulk = ended(server, begun.body["id"].as_str().unwrap()).await;
        assert_eq!((&bulk["state"], &bulk["done"], &bulk["failed"]), (&json!("done"), &json!(2), &json!(0)), "{bulk}");
        assert_eq!((&bulk["actor"], &bulk["canary"]["state"]), (&json!("ana"), &json!("delivered")));
        assert_eq!((&bulk["reason"], &bulk["left"]), (&json!("address book repaired"), &json!(0)));
        assert!(bulk["endedAt"].is_string() && bulk["startedAt"].is_string());
        server.until("1", "sent").await;
        server.until("2", "sent").await;
        assert_eq!(server.get("/v1/dlq/3").await.body["state"], "dead");
        assert_eq!(server.get("/v1/replays").await.body["items"], json!([bulk]));
        let trail = server.get("/v1/jobs/1/audit").await.body;
        let replayed = trail["items"].as_array().unwrap().iter().find(|item| item["event"] == "REPLAYED").unwrap();
        let words = format!("Replayed: address book repaired (bulk act {})", bulk["id"].as_str().unwrap());
        assert_eq!((&replayed["actor"], &replayed["retryReason"]), (&json!("ana"), &json!(words)));
    })
    .await;
}

#[tokio::test]
async fn w3_chosen_entries_are_discarded_for_a_reason_and_the_act_itself_is_on_the_trail() {
    let server = Server::start(Setup { kind: Kind::Embedded, ..Setup::default() }).await;
    bury(&server, "acme", &["1", "2", "3"]).await;
    let begun =
        act(&server, "/v1/dlq/discard", json!({"filter": {"jobIds": ["1", "3"]}, "reason": "customer left"}))
            .await;
    assert_eq!(begun.status, 202, "{}", begun.body);
    let id = begun.body["id"].as_str().unwrap().to_owned();
    let bulk = ended(&server, &id).await;
    assert_eq!((&bulk["state"], &bulk["done"], &bulk["act"]), (&json!("done"), &json!(2), &json!("discard")));
    assert_eq!(server.get("/v1/jobs/1").await.body["status"], "discarded");
    assert_eq!(server.get("/v1/dlq/2").await.status, 200);
    let mut records = server.records().await;
    records.retain(|record| *record.claim_id == *id);
    let [started, ended] = records.as_slice() else { panic!("{records:?}") };
    let reason = |record: &AuditEvent| record.decision.retry_reason.clone().unwrap_or_default();
    assert_eq!((started.kind, ended.kind), (AuditKind::BulkStarted, AuditKind::BulkEnded));
    assert!(reason(started).contains("of 2 dead letters begins: customer left"), "{started:?}");
    assert!(reason(ended).contains("2 done"), "{ended:?}");
    assert_eq!(ended.actor.as_deref(), Some("ana"));
}

#[tokio::test]
async fn what_a_bulk_act_is_about_has_to_be_said() {
    let server = Server::plain().await;
    bury(&server, "acme", &["1"]).await;
    act(&server, "/v1/dlq/replay", json!({})).await.faults_at(&["/filter"]);
    act(&server, "/v1/dlq/replay", json!({"filter": {"company": "acme"}, "canary": 101, "ratePerSecond": 0}))
        .await
        .faults_at(&["/filter/company", "/ratePerSecond", "/canary"]);
    act(&server, "/v1/dlq/discard", json!({"filter": {}})).await.faults_at(&["/reason"]);
    act(&server, "/v1/dlq/discard", json!({"filter": {}, "reason": " "})).await.faults_at(&["/reason"]);
    act(&server, "/v1/dlq/discard", json!({"filter": {}, "reason": "r", "canary": 1}))
        .await
        .faults_at(&["/canary"]);
    assert_eq!(server.get("/v1/dlq/1").await.body["state"], "dead");
    server.get("/v1/replays/rpl_none").await.is_problem(404, "not_found");
    server.delete("/v1/replays/rpl_none").await.is_problem(404, "not_found");
}

#[tokio::test]
async fn a_bulk_act_is_stopped_and_only_a_few_run_at_once() {
    let server = Server::plain().await;
    let names: Vec<String> = (0..50).map(|n| format!("{n}")).collect();
    bury(&server, "acme", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let slow = json!({"filter": {}, "ratePerSecond": 1});
    let mut running = Vec::new();
    for _ in 0..4 {
        let begun = act(&server, "/v1/dlq/replay", slow.clone()).await;
        assert_eq!(begun.status, 202);
        running.push(begun.body["id"].as_str().unwrap().to_owned());
    }
    act(&server, "/v1/dlq/replay", slow).await.is_problem(409, "conflict");
    for id in running {
        let request =
            server.http.delete(server.url(&format!("/v1/replays/{id}"))).header("x-recado-actor", "rui");
        let stopped = Answer::of(request.send().await.unwrap()).await;
        assert_eq!((stopped.status, &stopped.body["state"]), (200, &json!("stopped")));
        assert_eq!(stopped.body["stoppedBecause"], "stopped by rui");
    }
    let left = server.get("/v1/dlq/stats").await.body["total"].as_u64().unwrap();
    assert!(left > 0, "it was stopped on its way");
}

#[tokio::test]
async fn paths_of_bulk_acts_are_no_ids_of_jobs() {
    let server = Server::plain().await;
    for id in ["import", "export", "replay", "discard", "stats"] {
        let job = json!({"jobId": id, "route": "sandbox", "companyId": "acme", "data": {}});
        server.post("/v1/jobs", job.to_string()).await.faults_at(&["/jobId"]);
    }
}
