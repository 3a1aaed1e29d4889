//! The trace of a job: the header, the field, and where both can be read again.

use recado_testkit::far_end::FarEnd;
use serde_json::{Value, json};

use crate::given::{Answer, Server, Setup, http_route, on_each_store};

const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const FIELD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn job(id: &str, more: Value) -> Value {
    let mut job = json!({ "jobId": id, "route": "work", "companyId": "acme", "data": {} });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job
}

async fn post_in(server: &Server, path: &str, headers: &[&str], body: Value) -> Answer {
    let mut request = server.http.post(server.url(path)).header("content-type", "application/json");
    for header in headers {
        request = request.header("traceparent", *header);
    }
    Answer::of(request.body(body.to_string()).send().await.unwrap()).await
}

async fn shown(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/jobs/{id}")).await.body["traceparent"].clone()
}

#[tokio::test]
async fn the_field_comes_before_the_header_and_the_job_and_its_lease_show_it() {
    on_each_store(async |server: &Server| {
        for (id, headers, more, expected) in [
            ("by-header", &[HEADER][..], json!({}), json!(HEADER)),
            ("by-field", &[HEADER], json!({ "traceparent": FIELD }), json!(FIELD)),
            ("null-field", &[HEADER], json!({ "traceparent": null }), json!(HEADER)),
            ("neither", &[], json!({}), Value::Null),
        ] {
            assert_eq!(post_in(server, "/v1/jobs", headers, job(id, more)).await.status, 202, "{id}");
            assert_eq!(shown(server, id).await, expected, "{id}");
            let leased = json!({ "routes": ["work"], "workerId": "w" });
            let leases = server.post("/v1/leases", leased.to_string()).await.body;
            let held = &leases["leases"][0]["job"];
            assert_eq!((&held["jobId"], &held["traceparent"]), (&json!(id), &expected));
        }
    })
    .await;
}

#[tokio::test]
async fn a_header_that_is_none_counts_as_absent_and_a_field_that_is_none_is_a_fault() {
    let server = Server::plain().await;
    for (id, headers) in [("wrong", &["00-zz-1"][..]), ("two", &[HEADER, FIELD]), ("zero", &["00-0-0-00"])] {
        assert_eq!(post_in(&server, "/v1/jobs", headers, job(id, json!({}))).await.status, 202);
        assert_eq!(shown(&server, id).await, Value::Null, "{id}");
    }
    let refused =
        post_in(&server, "/v1/jobs", &[HEADER], job("faulty", json!({ "traceparent": "secret-7" }))).await;
    refused.faults_at(&["/traceparent"]);
    assert!(refused.fault("/traceparent").contains("write 00-"), "{}", refused.body);
    assert!(!refused.body.to_string().contains("secret-7"));
    post_in(&server, "/v1/jobs", &[], job("number", json!({ "traceparent": 7 })))
        .await
        .faults_at(&["/traceparent"]);
}

#[tokio::test]
async fn the_same_job_in_another_trace_is_the_same_job_and_keeps_the_first() {
    on_each_store(async |server: &Server| {
        assert_eq!(post_in(server, "/v1/jobs", &[HEADER], job("a", json!({}))).await.status, 202);
        for body in [job("a", json!({})), job("a", json!({ "traceparent": FIELD }))] {
            let again = post_in(server, "/v1/jobs", &[], body).await;
            assert_eq!((again.status, &again.body["duplicate"]), (200, &json!(true)), "{}", again.body);
        }
        assert_eq!(shown(server, "a").await, json!(HEADER));
    })
    .await;
}

#[tokio::test]
async fn the_header_of_a_batch_is_for_all_items_that_name_none() {
    let server = Server::plain().await;
    let items = json!([
        job("first", json!({})),
        job("second", json!({ "traceparent": FIELD })),
        job("third", json!({ "traceparent": "no" })),
    ]);
    let answer = post_in(&server, "/v1/jobs/batch", &[HEADER], items).await;
    assert_eq!(
        (answer.status, &answer.body["accepted"], &answer.body["refused"]),
        (200, &json!(2), &json!(1))
    );
    assert_eq!(answer.body["items"][2]["error"]["errors"][0]["pointer"], "/traceparent");
    assert_eq!(
        (shown(&server, "first").await, shown(&server, "second").await),
        (json!(HEADER), json!(FIELD))
    );
}

#[tokio::test]
async fn a_provider_gets_a_span_of_the_callers_trace_unless_the_job_brings_its_own() {
    let provider = FarEnd::agreeable();
    let routes = vec![http_route("figures", &provider.url_of::<String>("/"), "http")];
    let server = Server::start(Setup { routes, ..Setup::default() }).await;
    let call =
        json!({ "route": "figures", "companyId": "acme", "data": { "method": "GET" }, "traceparent": FIELD });
    assert_eq!(post_in(&server, "/v1/calls", &[HEADER], call).await.status, 200);
    let asked = provider.arrived(1).await[0].header("traceparent").to_owned();
    assert!(asked.starts_with(&FIELD[..36]) && asked.ends_with("-00") && asked != FIELD, "{asked}");

    let data = json!({ "headers": { "traceparent": HEADER } });
    let own = json!({ "jobId": "own", "route": "figures", "companyId": "acme", "data": data, "traceparent": FIELD });
    assert_eq!(post_in(&server, "/v1/jobs", &[], own).await.status, 202);
    assert_eq!(provider.arrived(2).await[1].header("traceparent"), HEADER);

    let faulty = json!({ "route": "figures", "companyId": "acme", "data": {}, "traceparent": "no" });
    post_in(&server, "/v1/calls", &[], faulty).await.faults_at(&["/traceparent"]);
}
