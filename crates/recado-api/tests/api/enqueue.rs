//! `POST /v1/jobs`, when all is well.

use std::time::Duration;

use serde_json::{Value, json};

use crate::given::{Kind, Server, Setup, on_each_store};

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn g15_a_job_is_taken_in_under_the_callers_id_and_answered_with_where_it_stands() {
    on_each_store(async |server: &Server| {
        let job = json!({"jobId": "outbox-1", "route": "work", "companyId": "acme", "data": {"n": 1}});
        let answer = server.post("/v1/jobs", job.to_string()).await;
        assert_eq!(answer.status, 202);
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(keys(&answer.body), ["duplicate", "durability", "jobId", "status"]);
        assert_eq!((&answer.body["jobId"], &answer.body["status"]), (&json!("outbox-1"), &json!("queued")));
        assert_eq!(answer.body["duplicate"], false);
    })
    .await;
}

#[tokio::test]
async fn every_answer_says_what_a_crash_can_take() {
    for (kind, durability) in [(Kind::Memory, "memory"), (Kind::Embedded, "fsync")] {
        let server = Server::start(Setup { kind, ..Setup::default() }).await;
        let job = json!({"jobId": "one", "route": "work", "companyId": "acme", "data": 1});
        for _ in ["new", "duplicate"] {
            let answer = server.post("/v1/jobs", job.to_string()).await;
            assert_eq!(answer.body["durability"], durability, "{}", answer.body);
        }
        let answer = server.post("/v1/jobs/batch", json!([job]).to_string()).await;
        assert_eq!(answer.body["durability"], durability, "{}", answer.body);
    }
}

#[tokio::test]
async fn g15_the_same_job_again_is_a_duplicate_however_its_json_is_laid_out() {
    on_each_store(async |server: &Server| {
        let job = json!({"jobId": "twice", "route": "work", "companyId": "acme", "data": {"a": 1, "b": [2]}});
        server.enqueue(job).await;
        let laid_out = r#" { "data" : { "b":[ 2 ] , "a":1 },
            "companyId":"\u0061cme", "route":"work", "jobId":"twice", "priority": null } "#;
        let answer = server.post("/v1/jobs", laid_out).await;
        assert_eq!(answer.status, 200);
        assert_eq!((&answer.body["jobId"], &answer.body["status"]), (&json!("twice"), &json!("queued")));
        assert_eq!(answer.body["duplicate"], true);
        assert_eq!(server.get("/v1/jobs").await.body["items"].as_array().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn g15_a_duplicate_of_a_job_that_has_ended_tells_its_status_and_sends_nothing() {
    on_each_store(async |server: &Server| {
        let job =
            json!({"jobId": "done", "route": "sandbox", "companyId": "acme", "data": {"script": ["ok"]}});
        server.enqueue(job.clone()).await;
        server.until("done", "sent").await;
        let again = server.post("/v1/jobs", job.to_string()).await;
        assert_eq!((again.status, &again.body["status"]), (200, &json!("sent")));
        assert_eq!(server.get("/v1/jobs/done").await.body["attempts"].as_array().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn g15_the_same_id_with_another_body_is_a_conflict() {
    on_each_store(async |server: &Server| {
        let job = json!({"jobId": "taken", "route": "work", "companyId": "acme", "data": 1});
        server.enqueue(job.clone()).await;
        let others = [
            ("data", json!(2)),
            ("companyId", json!("rival")),
            ("priority", json!(1)),
            ("ttlMs", json!(5_000)),
        ];
        for (field, value) in others {
            let mut other = job.clone();
            other[field] = value;
            server.post("/v1/jobs", other.to_string()).await.is_problem(409, "conflict");
        }
        let kept = server.get("/v1/jobs/taken").await.body;
        assert_eq!((&kept["data"], &kept["companyId"]), (&json!(1), &json!("acme")));
    })
    .await;
}

#[tokio::test]
async fn a_job_without_an_id_gets_a_uuid_that_finds_it() {
    let server = Server::plain().await;
    let id = server.enqueue(json!({"route": "work", "companyId": "acme", "data": null})).await;
    assert_eq!((id.len(), id.as_bytes()[14]), (36, b'7'), "{id} is a UUID v7");
    assert_eq!(server.get(&format!("/v1/jobs/{id}")).await.body["jobId"], id);
}

#[tokio::test]
async fn every_field_that_can_be_asked_for_is_kept() {
    on_each_store(async |server: &Server| {
        let run_at = server.engine.now().plus(Duration::from_secs(30 * 24 * 60 * 60)).to_string();
        let job = json!({
            "jobId": "full", "route": "work", "companyId": "acme", "data": {"deep": [{"x": "é"}]}, "userId": "u-1",
            "correlationId": "c-1", "runAt": run_at, "ttlMs": 60_000, "priority": 2
        });
        let answer = server.post("/v1/jobs", job.to_string()).await;
        assert_eq!((answer.status, &answer.body["status"]), (202, &json!("scheduled")), "{}", answer.body);
        let shown = server.get("/v1/jobs/full").await.body;
        for field in ["jobId", "route", "companyId", "data", "userId", "correlationId", "runAt", "priority"] {
            assert_eq!(shown[field], job[field], "{field}");
        }
        let at = |field: &str| shown[field].as_str().unwrap().parse::<recado_core::Timestamp>().unwrap();
        assert_eq!(at("expiresAt").as_millis() - at("runAt").as_millis(), 60_000, "the TTL runs from runAt");
    })
    .await;
}

#[tokio::test]
async fn a_delay_counts_from_now_and_the_answer_says_scheduled() {
    let server = Server::plain().await;
    let job =
        json!({"jobId": "later", "route": "sandbox", "companyId": "acme", "data": {}, "delayMs": 3_600_000});
    assert_eq!(server.post("/v1/jobs", job.to_string()).await.body["status"], "scheduled");
    let shown = server.get("/v1/jobs/later").await.body;
    assert_eq!(shown["waitingFor"]["reason"], "delay");
    assert_eq!(shown["waitingFor"]["until"], shown["nextAttemptAt"]);
}

#[tokio::test]
async fn any_json_content_type_will_do() {
    let server = Server::plain().await;
    let job = json!({"route": "work", "companyId": "acme", "data": 1}).to_string();
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/vnd.acme+json",
    ] {
        assert_eq!(server.post_as("/v1/jobs", kind, job.clone()).await.status, 202, "{kind}");
    }
}

#[tokio::test]
async fn a_job_that_ended_shows_the_fields_of_the_contract() {
    on_each_store(async |server: &Server| {
        let data = json!({"script": ["503 busy", "ok"]});
        server.enqueue(json!({"jobId": "j", "route": "sandbox", "companyId": "acme", "data": data})).await;
        let shown = server.until("j", "sent").await;
        let mut expected = [
            "jobId",
            "route",
            "companyId",
            "status",
            "priority",
            "enqueuedAt",
            "runAt",
            "expiresAt",
            "attempts",
            "nextAttemptAt",
            "deferrals",
            "waitingFor",
            "replays",
            "endedAt",
        ];
        expected.sort_unstable();
        assert_eq!(keys(&shown), expected);
        assert_eq!((&shown["nextAttemptAt"], &shown["waitingFor"]), (&Value::Null, &Value::Null));
        let attempts = shown["attempts"].as_array().unwrap();
        let mut expected = [
            "attempt",
            "startedAt",
            "endedAt",
            "result",
            "errorCode",
            "errorReason",
            "errorClassification",
            "rule",
            "nextRetryDelayMs",
            "blame",
            "provider",
        ];
        expected.sort_unstable();
        assert_eq!(keys(&attempts[0]), expected);
        let first = &attempts[0];
        assert_eq!(
            (&first["attempt"], &first["result"], &first["errorCode"]),
            (&json!(1), &json!("failed"), &json!("503"))
        );
        assert_eq!(
            (&first["errorReason"], &first["errorClassification"]),
            (&json!("busy"), &json!("TRANSIENT"))
        );
        assert_eq!((&first["nextRetryDelayMs"], &first["blame"]), (&json!(20), &json!("provider")));
        assert_eq!((&attempts[1]["attempt"], &attempts[1]["result"]), (&json!(2), &json!("sent")));
        assert_eq!(attempts[1]["errorCode"], Value::Null);
    })
    .await;
}
