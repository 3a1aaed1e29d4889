//! `POST /v1/jobs/batch`.

use serde_json::{Value, json};

use crate::given::{Server, Setup, on_each_store};
use recado_api::ApiLimits;

fn job(id: &str) -> Value {
    json!({"jobId": id, "route": "work", "companyId": "acme", "data": 1})
}

fn lines(jobs: &[Value]) -> String {
    jobs.iter().map(|job| format!("{job}\n")).collect()
}

#[track_caller]
fn assert_counts(body: &Value, accepted: u64, duplicates: u64, refused: u64) {
    let counts = [&body["accepted"], &body["duplicates"], &body["refused"]];
    assert_eq!(counts, [&json!(accepted), &json!(duplicates), &json!(refused)], "{body}");
}

#[tokio::test]
async fn a_list_is_answered_item_by_item_in_order() {
    on_each_store(async |server: &Server| {
        server.enqueue(job("old")).await;
        let mut clash = job("old");
        clash["data"] = json!("other");
        let batch = json!([job("a"), job("old"), {"route": "work"}, clash, job("b"), job("a"), 7]);
        let answer = server.post("/v1/jobs/batch", batch.to_string()).await;
        assert_eq!(answer.status, 200);
        assert_counts(&answer.body, 2, 2, 3);
        let items = answer.body["items"].as_array().unwrap();
        assert_eq!(items[0], json!({"index": 0, "jobId": "a", "status": "queued", "duplicate": false}));
        assert_eq!(items[1], json!({"index": 1, "jobId": "old", "status": "queued", "duplicate": true}));
        assert_eq!(items[2]["error"]["code"], "validation_failed");
        assert_eq!(
            items[2]["error"]["errors"].as_array().unwrap().len(),
            2,
            "companyId and data: {}",
            items[2]
        );
        assert_eq!(items[3]["error"]["code"], "conflict");
        assert_eq!(items[4]["jobId"], "b");
        assert_eq!((&items[5]["jobId"], &items[5]["duplicate"]), (&json!("a"), &json!(true)));
        assert_eq!(items[6]["error"]["errors"][0]["message"], "is a number; write an object");
        let indexes: Vec<_> = items.iter().map(|item| item["index"].as_u64().unwrap()).collect();
        assert_eq!(indexes, [0, 1, 2, 3, 4, 5, 6]);
    })
    .await;
}

#[tokio::test]
async fn a_bad_line_of_ndjson_does_not_refuse_the_others() {
    on_each_store(async |server: &Server| {
        for kind in ["application/x-ndjson", "application/ndjson", "application/x-ndjson; charset=utf-8"] {
            let id = |n: u32| format!("{n}-{}", kind.len());
            let body =
                format!("{}\r\n\n  \n{{\"route\": \n{}\n\"text\"\n{}", job(&id(1)), job(&id(2)), job(&id(3)));
            let answer = server.post_as("/v1/jobs/batch", kind, body).await;
            assert_eq!(answer.status, 200, "{kind}: {}", answer.body);
            assert_counts(&answer.body, 3, 0, 2);
            let items = answer.body["items"].as_array().unwrap();
            assert_eq!(items.len(), 5, "blank lines do not count");
            assert_eq!(
                (&items[1]["error"]["code"], &items[1]["error"]["status"]),
                (&json!("invalid_json"), &json!(400))
            );
            assert_eq!(items[3]["error"]["code"], "validation_failed");
            assert_eq!((&items[4]["jobId"], &items[4]["index"]), (&json!(id(3)), &json!(4)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_line_that_is_not_utf_8_or_too_deep_is_refused_alone() {
    let server = Server::plain().await;
    let mut body = b"{\"route\": \"\xff\"}\n".to_vec();
    body.extend(format!("{}{}\n", "[".repeat(500), "]".repeat(500)).into_bytes());
    body.extend(lines(&[job("fine")]).into_bytes());
    let answer = server.post_as("/v1/jobs/batch", "application/x-ndjson", body).await;
    assert_counts(&answer.body, 1, 0, 2);
    for refused in [0, 1] {
        assert_eq!(answer.body["items"][refused]["error"]["code"], "invalid_json");
    }
}

#[tokio::test]
async fn ten_thousand_jobs_fit_into_one_batch_and_one_more_does_not() {
    on_each_store(async |server: &Server| {
        // The reference store looks through a list for every id, so it gets only the count that is refused.
        let is_embedded = server.engine.inspect().report().await.unwrap().kind == "embedded";
        let mut jobs: Vec<Value> = (0..10_000).map(|n| job(&format!("n{n}"))).collect();
        if is_embedded {
            let answer = server.post_as("/v1/jobs/batch", "application/x-ndjson", lines(&jobs)).await;
            assert_counts(&answer.body, 10_000, 0, 0);
            assert_eq!(answer.body["items"][9_999]["jobId"], "n9999");
            let answer = server.post("/v1/jobs/batch", Value::from(jobs.clone()).to_string()).await;
            assert_counts(&answer.body, 0, 10_000, 0);
        }
        jobs.push(job("more"));
        let by_line = server.post_as("/v1/jobs/batch", "application/x-ndjson", lines(&jobs)).await;
        by_line.is_problem(413, "payload_too_large");
        let as_list = server.post("/v1/jobs/batch", Value::from(jobs).to_string()).await;
        as_list.is_problem(413, "payload_too_large");
        server.get("/v1/jobs/more").await.is_problem(404, "not_found");
    })
    .await;
}

#[tokio::test]
async fn what_is_no_list_is_refused_whole() {
    let server = Server::plain().await;
    server.post("/v1/jobs/batch", job("x").to_string()).await.faults_at(&[""]);
    server.post("/v1/jobs/batch", "[1, 2").await.is_problem(400, "invalid_json");
    server.post("/v1/jobs/batch", "[] []").await.is_problem(400, "invalid_json");
    server.post("/v1/jobs/batch", "").await.is_problem(400, "invalid_json");
    let kind = server.post_as("/v1/jobs/batch", "text/csv", "a,b").await;
    kind.is_problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn an_empty_batch_is_no_fault() {
    let server = Server::plain().await;
    let answer = server.post("/v1/jobs/batch", "[]").await;
    assert_eq!(answer.status, 200);
    assert_counts(&answer.body, 0, 0, 0);
    assert_counts(&server.post_as("/v1/jobs/batch", "application/x-ndjson", "\n\n").await.body, 0, 0, 0);
}

#[tokio::test]
async fn a_job_that_is_too_large_for_itself_is_too_large_in_a_batch() {
    let limits = ApiLimits { body_max_bytes: 1_000, ..ApiLimits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() }).await;
    let mut large = job("large");
    large["data"] = json!("x".repeat(1_000));
    for (kind, body) in [
        ("application/json", json!([job("s1"), large]).to_string()),
        ("application/x-ndjson", lines(&[job("s2"), large.clone()])),
    ] {
        let answer = server.post_as("/v1/jobs/batch", kind, body).await;
        assert_counts(&answer.body, 1, 0, 1);
        assert_eq!(answer.body["items"][1]["error"]["code"], "payload_too_large");
    }
}

#[tokio::test]
async fn a_batch_keeps_the_order_of_its_jobs_in_the_queue() {
    let server = Server::plain().await;
    let jobs: Vec<Value> = (0..500).map(|n| job(&format!("o{n}"))).collect();
    assert_counts(
        &server.post_as("/v1/jobs/batch", "application/x-ndjson", lines(&jobs)).await.body,
        500,
        0,
        0,
    );
    let leased =
        server.post("/v1/leases", json!({"routes": ["work"], "max": 500, "workerId": "w"}).to_string()).await;
    let leases = leased.body["leases"].as_array().unwrap();
    let order: Vec<_> =
        leases.iter().map(|lease| lease["job"]["jobId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(order, (0..500).map(|n| format!("o{n}")).collect::<Vec<_>>());
}
