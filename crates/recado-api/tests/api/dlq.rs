//! The dead letter queue: look, count, replay, discard.

use serde_json::{Value, json};

use crate::given::{Answer, Server, ms, on_each_store};

/// Enqueues a job that fails for good, and waits for it.
async fn bury(server: &Server, id: &str, company: &str, failure: &str) {
    let data = json!({"script": [failure]});
    server.enqueue(json!({"jobId": id, "route": "sandbox", "companyId": company, "data": data, "correlationId": "c-9"})).await;
    server.until(id, "failed").await;
}

async fn listed(server: &Server, query: &str) -> Vec<String> {
    let answer = server.get(&format!("/v1/dlq{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    let items = answer.body["items"].as_array().unwrap();
    items.iter().map(|item| item["jobId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn g4_f11_an_entry_has_every_field_of_the_contract() {
    on_each_store(async |server: &Server| {
        let data = json!({"script": ["503 busy"]});
        let job = json!({"jobId": "d", "route": "sandbox", "companyId": "acme", "data": data, "userId": "u", "correlationId": "c"});
        server.enqueue(job).await;
        server.until("d", "failed").await;
        let entry = server.get("/v1/dlq/d").await.body;
        let names: Vec<_> = entry.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = [
            "jobId", "outboxId", "companyId", "originalData", "failedAttempts", "lastFailureReason", "lastFailureCode",
            "lastFailureTimestamp", "enqueuedAt", "movedToDLQAt", "ttl", "route", "userId", "correlationId",
            "errorClassification", "attempts", "fingerprint", "cause", "state",
        ];
        expected.sort_unstable();
        assert_eq!(names, expected);
        assert_eq!((&entry["jobId"], &entry["outboxId"]), (&json!("d"), &json!("d")));
        assert_eq!((&entry["originalData"], &entry["ttl"]), (&data, &json!(604_800_000)));
        assert_eq!((&entry["failedAttempts"], &entry["cause"]), (&json!(3), &json!("EXHAUSTED")));
        assert_eq!((&entry["lastFailureReason"], &entry["lastFailureCode"]), (&json!("busy"), &json!("503")));
        assert_eq!((&entry["errorClassification"], &entry["state"]), (&json!("TRANSIENT"), &json!("dead")));
        assert_eq!(entry["attempts"].as_array().unwrap().len(), 3);
        assert_eq!(server.get("/v1/dlq").await.body["items"][0], entry, "a list shows the same");
    })
    .await;
}

#[tokio::test]
async fn f11_a_workers_stack_trace_is_kept() {
    on_each_store(async |server: &Server| {
        server.enqueue(json!({"jobId": "s", "route": "work", "companyId": "acme", "data": 1})).await;
        let lease =
            server.post("/v1/leases", json!({"routes": ["work"], "workerId": "w"}).to_string()).await.body;
        let token = lease["leases"][0]["leaseToken"].as_str().unwrap();
        let failure = json!({"code": "400", "message": "bad request", "stackTrace": "at send (job.js:7)"});
        assert_eq!(server.post(&format!("/v1/leases/{token}/fail"), failure.to_string()).await.status, 200);
        assert_eq!(server.get("/v1/dlq/s").await.body["stackTrace"], "at send (job.js:7)");
    })
    .await;
}

#[tokio::test]
async fn entries_are_filtered_by_what_is_asked() {
    on_each_store(async |server: &Server| {
        bury(server, "1", "acme", "550 no such user").await;
        tokio::time::sleep(ms(5)).await;
        let between = server.engine.now().to_string();
        tokio::time::sleep(ms(5)).await;
        bury(server, "2", "bolt", "550 no such user").await;
        bury(server, "3", "acme", "552 Mailbox FULL").await;
        assert_eq!(listed(server, "").await, ["3", "2", "1"], "newest first");
        assert_eq!(listed(server, "?companyId=acme").await, ["3", "1"]);
        assert_eq!(listed(server, "?route=work").await, Vec::<String>::new());
        assert_eq!(listed(server, "?lastFailureCode=552").await, ["3"]);
        assert_eq!(listed(server, "?reason=mailbox%20full").await, ["3"]);
        assert_eq!(listed(server, &format!("?since={between}")).await, ["3", "2"]);
        assert_eq!(listed(server, &format!("?until={between}")).await, ["1"]);
        let fingerprint = server.get("/v1/dlq/1").await.body["fingerprint"].as_str().unwrap().to_owned();
        assert_eq!(listed(server, &format!("?fingerprint={fingerprint}")).await, ["2", "1"]);
        server
            .get("/v1/dlq?since=yesterday&limit=0&state=x")
            .await
            .faults_at(&["/state", "/since", "/limit"]);
    })
    .await;
}

#[tokio::test]
async fn entries_are_paged() {
    on_each_store(async |server: &Server| {
        for n in 0..5 {
            bury(server, &format!("{n}"), "acme", "550 no").await;
        }
        let first = server.get("/v1/dlq?limit=2").await.body;
        let cursor = first["nextCursor"].as_str().unwrap();
        assert_eq!(listed(server, &format!("?limit=2&cursor={cursor}")).await, ["2", "1"]);
        assert_eq!(listed(server, "?limit=5").await.len(), 5);
        assert!(server.get("/v1/dlq?limit=5").await.body.get("nextCursor").is_none());
    })
    .await;
}

#[tokio::test]
async fn a_page_of_large_entries_ends_before_it_fills_the_memory() {
    let server = Server::plain().await;
    let padding = "x".repeat(900_000);
    for n in 0..12 {
        let data = json!({"script": ["550 no"], "padding": padding});
        server
            .enqueue(json!({"jobId": format!("{n}"), "route": "sandbox", "companyId": "acme", "data": data}))
            .await;
    }
    for n in 0..12 {
        server.until(&n.to_string(), "failed").await;
    }
    let page = server.get("/v1/dlq?limit=1000").await.body;
    assert_eq!(page["items"].as_array().unwrap().len(), 5, "4 MiB and one more");
    let cursor = page["nextCursor"].as_str().unwrap();
    let next = server.get(&format!("/v1/dlq?limit=1000&cursor={cursor}")).await.body;
    assert_eq!(next["items"].as_array().unwrap().len(), 5);
    let cursor = next["nextCursor"].as_str().unwrap();
    assert_eq!(listed(&server, &format!("?limit=1000&cursor={cursor}")).await.len(), 2);
}

#[tokio::test]
async fn g20_the_runbooks_questions_are_counted_over_all_entries() {
    on_each_store(async |server: &Server| {
        bury(server, "1", "acme", "550 no such user").await;
        bury(server, "2", "bolt", "550 no such user").await;
        bury(server, "3", "acme", "552 full").await;
        let stats = server.get("/v1/dlq/stats?by=lastFailureCode").await.body;
        assert_eq!((&stats["by"], &stats["total"]), (&json!("lastFailureCode"), &json!(3)));
        assert_eq!(stats["items"][0], json!({"key": "550", "count": 2, "exampleReason": "no such user"}));
        assert_eq!(stats["items"][1]["key"], "552");
        let by_company = server.get("/v1/dlq/stats?by=companyId").await.body;
        assert_eq!(
            (&by_company["items"][0]["key"], &by_company["items"][0]["count"]),
            (&json!("acme"), &json!(2))
        );
        assert_eq!(server.get("/v1/dlq/stats?by=route").await.body["items"][0]["key"], "sandbox");
        assert_eq!(
            server.get("/v1/dlq/stats?by=fingerprint").await.body["items"].as_array().unwrap().len(),
            2
        );
        assert_eq!(server.get("/v1/dlq/stats").await.body["by"], "lastFailureCode");
        assert_eq!(server.get("/v1/dlq/stats?companyId=bolt").await.body["total"], 1);
        server.get("/v1/dlq/stats?by=company").await.faults_at(&["/by"]);
    })
    .await;
}

#[tokio::test]
async fn g7_a_replay_with_corrected_data_is_delivered_and_the_entry_leaves_after_that() {
    on_each_store(async |server: &Server| {
        bury(server, "r", "acme", "550 no").await;
        let body = json!({"data": {"script": ["ok"]}, "note": "address corrected"}).to_string();
        let request = server.http.post(server.url("/v1/dlq/r/replay")).header("x-recado-actor", "ana");
        let request = request.header("content-type", "application/json").body(body);
        let answer = Answer::of(request.send().await.unwrap()).await;
        assert_eq!((answer.status, answer.body), (202, json!({"jobId": "r", "state": "replaying"})));
        let shown = server.until("r", "sent").await;
        assert_eq!((&shown["replays"], shown["attempts"].as_array().unwrap().len()), (&json!(1), 2));
        server.get("/v1/dlq/r").await.is_problem(404, "not_found");
        let trail = server.get("/v1/jobs/r/audit").await.body;
        let replayed =
            trail["items"].as_array().unwrap().iter().find(|item| item["event"] == "REPLAYED").unwrap();
        assert_eq!(
            (&replayed["actor"], &replayed["retryReason"]),
            (&json!("ana"), &json!("Replayed with corrected data: address corrected"))
        );
    })
    .await;
}

#[tokio::test]
async fn a_number_that_no_float_comes_near_is_refused_wherever_data_comes_in() {
    on_each_store(async |server: &Server| {
        bury(server, "r", "acme", "550 no").await;
        let far = r#"{"script":["550 no"],"amount":[1e999]}"#;
        let replay = server.post("/v1/dlq/r/replay", format!(r#"{{"data":{far}}}"#)).await;
        replay.faults_at(&["/data"]);
        let call = format!(r#"{{"route":"sandbox","companyId":"acme","data":{far}}}"#);
        server.post("/v1/calls", call).await.faults_at(&["/data"]);
        let token = "/v1/leases/00000000000000000000000000000000/succeed";
        server.post(token, r#"{"result":-1e400}"#).await.faults_at(&["/result"]);
        let exported = server.http.get(server.url("/v1/dlq/export")).send().await.unwrap();
        assert_eq!(exported.text().await.unwrap().lines().count(), 1);
    })
    .await;
}

#[tokio::test]
async fn g7_a_replay_without_a_body_takes_the_original_and_twice_is_once() {
    on_each_store(async |server: &Server| {
        // An hour passes before it is tried again, so the replay stays on its way.
        server.enqueue(json!({"jobId": "o", "route": "patient", "companyId": "acme", "data": {"script": ["550", "503"]}})).await;
        server.until("o", "failed").await;
        let replay = async || {
            let request = server.http.post(server.url("/v1/dlq/o/replay"));
            Answer::of(request.send().await.unwrap()).await
        };
        assert_eq!(replay().await.status, 202);
        server.until("o", "retrying").await;
        let again = replay().await;
        assert_eq!((again.status, again.body), (200, json!({"jobId": "o", "state": "replaying"})));
        assert_eq!(server.get("/v1/dlq/o").await.body["state"], "replaying", "it stays until it is delivered");
        assert_eq!(server.get("/v1/jobs/o").await.body["replays"], 1);

        let discard = server.post("/v1/dlq/o/discard", json!({"reason": "no longer wanted"}).to_string()).await;
        discard.is_problem(409, "conflict");
        let cancelled = server.delete("/v1/jobs/o").await;
        assert_eq!((cancelled.status, &cancelled.body["status"]), (200, &json!("failed")), "called off: dead again");
        assert_eq!(server.get("/v1/dlq/o").await.body["state"], "dead");
    })
    .await;
}

#[tokio::test]
async fn a_replay_with_data_that_cannot_be_delivered_changes_nothing() {
    on_each_store(async |server: &Server| {
        bury(server, "i", "acme", "550 no").await;
        let answer = server.post("/v1/dlq/i/replay", json!({"data": {"script": "ok"}}).to_string()).await;
        answer.faults_at(&["/data/script"]);
        assert_eq!(server.get("/v1/dlq/i").await.body["state"], "dead");
        server
            .post("/v1/dlq/i/replay", json!({"note": 5, "dta": 1}).to_string())
            .await
            .faults_at(&["/dta", "/note"]);
        server.post("/v1/dlq/none/replay", "{}").await.is_problem(404, "not_found");
        server.post("/v1/dlq/i/replay", "{").await.is_problem(400, "invalid_json");
        server
            .post_as("/v1/dlq/i/replay", "text/plain", "{}")
            .await
            .is_problem(415, "unsupported_media_type");
        let unnamed = server.http.post(server.url("/v1/dlq/i/replay")).body("{}").send().await.unwrap();
        assert_eq!(unnamed.status(), 415, "a body has to say what it is");
    })
    .await;
}

#[tokio::test]
async fn g5_a_discard_needs_a_reason_and_leaves_it_on_the_trail() {
    on_each_store(async |server: &Server| {
        bury(server, "x", "acme", "550 no").await;
        for reason in [json!(""), json!(" \n"), Value::Null, json!(5)] {
            server
                .post("/v1/dlq/x/discard", json!({"reason": reason}).to_string())
                .await
                .faults_at(&["/reason"]);
        }
        server.post("/v1/dlq/x/discard", "{}").await.faults_at(&["/reason"]);
        assert_eq!(server.get("/v1/dlq/x").await.status, 200, "it is still there");

        let answer = server.post("/v1/dlq/x/discard", json!({"reason": "customer left"}).to_string()).await;
        assert_eq!((answer.status, answer.body), (200, json!({"jobId": "x", "status": "discarded"})));
        server.get("/v1/dlq/x").await.is_problem(404, "not_found");
        let trail = server.get("/v1/jobs/x/audit").await.body;
        let last = trail["items"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&last["event"], &last["retryReason"]), (&json!("DISCARDED"), &json!("customer left")));
        let again = server.post("/v1/dlq/x/discard", json!({"reason": "again"}).to_string()).await;
        again.is_problem(404, "not_found");
    })
    .await;
}

#[tokio::test]
async fn g7_a_correction_stands_beside_the_original_and_goes_out_until_it_is_taken_back() {
    on_each_store(async |server: &Server| {
        bury(server, "1", "acme", "550 no such user").await;
        let original = server.get("/v1/dlq/1").await.body["originalData"].clone();
        let corrected = json!({"script": ["550 no", "550 still not"], "text": "corrected"});
        let replayed = async |body: Value, attempts: usize| {
            assert_eq!(server.post("/v1/dlq/1/replay", body.to_string()).await.status, 202);
            loop {
                let entry = server.get("/v1/dlq/1").await.body;
                if entry["state"] == "dead" && entry["attempts"].as_array().unwrap().len() == attempts {
                    assert_eq!(entry["originalData"], original);
                    return entry.get("correctedData").cloned();
                }
                tokio::time::sleep(ms(10)).await;
            }
        };
        assert_eq!(replayed(json!({"data": corrected}), 2).await, Some(corrected.clone()));
        assert_eq!(server.get("/v1/jobs/1").await.body["data"], corrected, "what failed last");
        assert_eq!(replayed(json!({}), 3).await, Some(corrected.clone()), "once is enough");
        server
            .post("/v1/dlq/1/replay", json!({"data": 1, "original": true}).to_string())
            .await
            .faults_at(&["/original"]);
        assert_eq!(replayed(json!({"original": true}), 4).await, None);
        let trail = server.get("/v1/jobs/1/audit").await.body;
        let said =
            trail["items"].as_array().unwrap().iter().rev().find(|item| item["event"] == "REPLAYED").unwrap();
        assert_eq!(said["retryReason"], "Replayed with its original data");
    })
    .await;
}
