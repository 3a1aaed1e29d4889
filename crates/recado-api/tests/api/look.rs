//! Jobs: look at, list, cancel, audit.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::given::{Answer, Server, on_each_store};

async fn waiting(server: &Server, id: &str) {
    server.enqueue(json!({"jobId": id, "route": "work", "companyId": "acme", "data": {"n": id}})).await;
}

/// Lists, and returns the ids on the page.
async fn ids(server: &Server, query: &str) -> Vec<String> {
    let answer = server.get(&format!("/v1/jobs{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    let items = answer.body["items"].as_array().unwrap();
    items.iter().map(|item| item["jobId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_job_says_what_it_waits_for() {
    on_each_store(async |server: &Server| {
        waiting(server, "turn").await;
        let shown = server.get("/v1/jobs/turn").await.body;
        assert_eq!((&shown["status"], &shown["waitingFor"]), (&json!("queued"), &json!({"reason": "turn"})));

        let data = json!({"script": ["503"]});
        server
            .enqueue(json!({"jobId": "retry", "route": "patient", "companyId": "acme", "data": data}))
            .await;
        let shown = server.until("retry", "retrying").await;
        assert_eq!(shown["waitingFor"], json!({"reason": "retry", "until": shown["nextAttemptAt"]}));
        assert_eq!(shown["attempts"][0]["nextRetryDelayMs"], 3_600_000);

        let lease = json!({"routes": ["work"], "workerId": "worker-1", "leaseMs": 5_000}).to_string();
        assert_eq!(server.post("/v1/leases", lease).await.body["leases"][0]["job"]["jobId"], "turn");
        let shown = server.get("/v1/jobs/turn").await.body;
        assert_eq!((&shown["status"], &shown["waitingFor"]), (&json!("delivering"), &Value::Null));
        assert_eq!(
            (&shown["nextAttemptAt"], &shown["heldBy"]["workerId"]),
            (&Value::Null, &json!("worker-1"))
        );
    })
    .await;
}

#[tokio::test]
async fn the_payload_is_shown_while_it_exists_and_never_in_lists() {
    on_each_store(async |server: &Server| {
        waiting(server, "w").await;
        assert_eq!(server.get("/v1/jobs/w").await.body["data"], json!({"n": "w"}));
        assert!(server.get("/v1/jobs").await.body["items"][0].get("data").is_none());
        for (id, script, status) in [("s", "ok", "sent"), ("f", "550 no", "failed")] {
            let data = json!({"script": [script]});
            server.enqueue(json!({"jobId": id, "route": "sandbox", "companyId": "acme", "data": data})).await;
            let shown = server.until(id, status).await;
            let expected = (status == "failed").then_some(&data);
            assert_eq!(shown.get("data"), expected, "{status}: a dead letter's payload waits for its replay");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let server = Server::plain().await;
    for path in ["/v1/jobs/none", "/v1/jobs/a%20b", "/v1/jobs/%ff", "/v1/jobs/none/audit", "/v1/dlq/none"] {
        server.get(path).await.is_problem(404, "not_found");
    }
    server.delete("/v1/jobs/none").await.is_problem(404, "not_found");
    server.get("/v2/jobs").await.is_problem(404, "not_found");
    server.get("/v1/jobs/").await.is_problem(404, "not_found");
}

#[tokio::test]
async fn a_method_that_does_not_fit_is_refused_with_those_that_do() {
    let server = Server::plain().await;
    let answer = server.delete("/v1/jobs").await;
    answer.is_problem(405, "method_not_allowed");
    let mut allowed: Vec<&str> = answer.header("allow").split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
    server.get("/v1/jobs/batch/x").await.is_problem(404, "not_found");
    server.get("/v1/leases").await.is_problem(405, "method_not_allowed");
}

#[tokio::test]
async fn lists_are_filtered_by_what_is_asked() {
    on_each_store(async |server: &Server| {
        let rows = [("1", "work", "acme", "red"), ("2", "work", "bolt", "red"), ("3", "tiss-claims", "acme", "blue")];
        for (id, route, company, correlation) in rows {
            let body = json!({"jobId": id, "route": route, "companyId": company, "data": 1, "correlationId": correlation});
            server.enqueue(body).await;
        }
        server.enqueue(json!({"jobId": "4", "route": "sandbox", "companyId": "acme", "data": {"script": ["ok"]}})).await;
        server.until("4", "sent").await;
        assert_eq!(ids(server, "").await, ["4", "3", "2", "1"], "newest first");
        assert_eq!(ids(server, "?companyId=acme").await, ["4", "3", "1"]);
        assert_eq!(ids(server, "?route=work").await, ["2", "1"]);
        assert_eq!(ids(server, "?correlationId=red").await, ["2", "1"]);
        assert_eq!(ids(server, "?status=sent").await, ["4"]);
        assert_eq!(ids(server, "?status=queued&companyId=acme&route=work").await, ["1"]);
        assert_eq!(ids(server, "?status=parked").await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn pages_lead_through_the_whole_list_without_gap_or_repetition() {
    on_each_store(async |server: &Server| {
        let jobs: Vec<Value> = (0..257)
            .map(|n| json!({"jobId": format!("p{n}"), "route": "work", "companyId": "acme", "data": 1}))
            .collect();
        server.post("/v1/jobs/batch", Value::from(jobs).to_string()).await;
        for limit in [1, 7, 100, 128, 257, 1_000] {
            let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
            loop {
                let page = server.get(&format!("/v1/jobs?limit={limit}{cursor}")).await.body;
                let items = page["items"].as_array().unwrap();
                assert!(items.len() <= limit);
                seen.extend(items.iter().map(|item| item["jobId"].as_str().unwrap().to_owned()));
                pages += 1;
                match page.get("nextCursor") {
                    Some(next) => cursor = format!("&cursor={}", next.as_str().unwrap()),
                    None => break,
                }
            }
            assert_eq!(pages, 257_usize.div_ceil(limit), "limit {limit}");
            assert_eq!(seen.len(), 257, "limit {limit}");
            assert_eq!(
                seen.iter().collect::<BTreeSet<_>>().len(),
                257,
                "limit {limit}: something came twice"
            );
        }
        assert_eq!(server.get("/v1/jobs").await.body["items"].as_array().unwrap().len(), 100, "the default");
    })
    .await;
}

#[tokio::test]
async fn every_fault_of_a_query_is_reported_at_once() {
    let server = Server::plain().await;
    let answer = server.get("/v1/jobs?statsu=sent&status=send&companyId=a%20b&limit=0&route=").await;
    answer.faults_at(&["/statsu", "/route", "/status", "/companyId", "/limit"]);
    assert!(answer.fault("/statsu").contains("did you mean `status`?"));
    assert!(answer.fault("/status").contains("did you mean `sent`?"));
    for limit in ["0", "1001", "-1", "ten", "1.5"] {
        server.get(&format!("/v1/jobs?limit={limit}")).await.faults_at(&["/limit"]);
    }
    server.get("/v1/jobs?limit=5&limit=6").await.faults_at(&["/limit"]);
}

#[tokio::test]
async fn a_cursor_that_is_none_is_refused() {
    on_each_store(async |server: &Server| {
        for id in ["1", "2"] {
            waiting(server, id).await;
        }
        let of_jobs = server.get("/v1/jobs?limit=1").await.body["nextCursor"].as_str().unwrap().to_owned();
        for cursor in ["x", "1", "AQEAAAAAAAAA", "%00", of_jobs.to_lowercase().as_str()] {
            server.get(&format!("/v1/jobs?cursor={cursor}")).await.faults_at(&["/cursor"]);
        }
        server.get(&format!("/v1/dlq?cursor={of_jobs}")).await.faults_at(&["/cursor"]);
    })
    .await;
}

#[tokio::test]
async fn a_job_that_waits_can_be_cancelled_and_again() {
    on_each_store(async |server: &Server| {
        waiting(server, "c").await;
        for _ in 0..2 {
            let answer = server.delete("/v1/jobs/c").await;
            assert_eq!((answer.status, answer.body), (200, json!({"jobId": "c", "status": "cancelled"})));
        }
        let lease = json!({"routes": ["work"], "workerId": "w"}).to_string();
        assert_eq!(server.post("/v1/leases", lease).await.body["leases"], json!([]), "no worker gets it");
    })
    .await;
}

#[tokio::test]
async fn what_is_being_delivered_or_has_ended_cannot_be_cancelled() {
    on_each_store(async |server: &Server| {
        waiting(server, "held").await;
        server.post("/v1/leases", json!({"routes": ["work"], "workerId": "w"}).to_string()).await;
        server
            .enqueue(
                json!({"jobId": "sent", "route": "sandbox", "companyId": "acme", "data": {"script": ["ok"]}}),
            )
            .await;
        server.until("sent", "sent").await;
        for (id, stands) in [("held", "delivering"), ("sent", "sent")] {
            let answer = server.delete(&format!("/v1/jobs/{id}")).await;
            answer.is_problem(409, "conflict");
            assert!(answer.body["detail"].as_str().unwrap().contains(stands), "{}", answer.body);
        }
    })
    .await;
}

/// The steps on a trail, without the reads that waiting for the job left there.
fn audit_items(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    let items = answer.body["items"].as_array().unwrap().iter();
    items.filter(|item| !item["event"].as_str().unwrap().ends_with("_READ")).cloned().collect()
}

#[tokio::test]
async fn t14_a_failed_attempt_leaves_analysis_backoff_schedule_and_decision_each_with_nine_fields() {
    on_each_store(async |server: &Server| {
        let data = json!({"script": ["503 busy", "550 no such user"]});
        server.enqueue(json!({"jobId": "a", "route": "sandbox", "companyId": "acme", "data": data})).await;
        server.until("a", "failed").await;
        let answer = server.get("/v1/jobs/a/audit").await;
        let items = audit_items(&answer);
        let events: Vec<_> = items.iter().map(|item| item["event"].as_str().unwrap()).collect();
        assert_eq!(
            events,
            [
                "ERROR_ANALYSED",
                "BACKOFF_CALCULATED",
                "RETRY_SCHEDULED",
                "RETRY_DECIDED",
                "ERROR_ANALYSED",
                "RETRY_DECIDED",
                "BURIED"
            ]
        );
        let nine = [
            "timestamp",
            "claimId",
            "errorMessage",
            "retryCount",
            "errorClassification",
            "backoffMinutes",
            "nextRetryTime",
            "shouldRetry",
            "retryReason",
        ];
        for item in &items {
            for field in nine {
                assert!(item.get(field).is_some(), "{field} is missing: {item}");
            }
        }
        assert_eq!((&items[0]["claimId"], &items[0]["errorMessage"]), (&json!("a"), &json!("busy")));
        assert_eq!(
            (&items[0]["shouldRetry"], &items[0]["retryReason"]),
            (&json!(true), &json!("Retry 1 of 2"))
        );
        assert_eq!((&items[4]["shouldRetry"], &items[4]["nextRetryTime"]), (&json!(false), &Value::Null));
    })
    .await;
}

#[tokio::test]
async fn who_acted_is_on_the_trail() {
    on_each_store(async |server: &Server| {
        for (id, actor) in [("named", Some("ana@acme, ops")), ("unnamed", None)] {
            waiting(server, id).await;
            let mut request = server.http.delete(server.url(&format!("/v1/jobs/{id}")));
            if let Some(actor) = actor {
                request = request.header("X-Recado-Actor", actor);
            }
            assert_eq!(request.send().await.unwrap().status(), 200);
            let answer = server.get(&format!("/v1/jobs/{id}/audit")).await;
            let items = audit_items(&answer);
            let last = items.last().unwrap();
            assert_eq!(
                (&last["event"], &last["actor"]),
                (&json!("CANCELLED"), &json!(actor.unwrap_or("api")))
            );
        }
        waiting(server, "long").await;
        let request =
            server.http.delete(server.url("/v1/jobs/long")).header("X-Recado-Actor", "x".repeat(129));
        Answer::of(request.send().await.unwrap()).await.faults_at(&["X-Recado-Actor"]);
        assert_eq!(server.get("/v1/jobs/long").await.body["status"], "queued");
    })
    .await;
}

#[tokio::test]
async fn a_job_nothing_happened_to_has_an_empty_trail() {
    let server = Server::plain().await;
    waiting(&server, "fresh").await;
    assert_eq!(server.get("/v1/jobs/fresh/audit").await.body, json!({"items": []}));
}
