//! Everything that can be wrong with a request, and that all of it is said at once.

use serde_json::{Value, json};

use crate::given::Server;

fn job() -> Value {
    json!({"route": "work", "companyId": "acme", "data": 1})
}

#[tokio::test]
async fn every_fault_is_reported_at_once_with_its_place() {
    let server = Server::plain().await;
    let body = json!({
        "jobId": "a b", "route": "nowhere", "companyId": "", "userId": 7, "correlationId": "", "runAt": "tomorrow",
        "delayMs": -1, "ttlMs": 1.5, "priority": 12, "dta": {}
    });
    let answer = server.post("/v1/jobs", body.to_string()).await;
    let mut found = answer.pointers();
    found.sort_unstable();
    let mut expected = [
        "/dta",
        "/data",
        "/userId",
        "/runAt",
        "/delayMs",
        "/ttlMs",
        "/jobId",
        "/companyId",
        "/correlationId",
        "/route",
        "/priority",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
    answer.is_problem(422, "validation_failed");
    assert_eq!(answer.fault("/dta"), "is not a field here; did you mean `data`?");
    assert_eq!(answer.fault("/data"), "is missing; write any JSON");
    assert_eq!(answer.fault("/userId"), "is a number; write a string");
    assert!(answer.fault("/runAt").starts_with("is not a time with its offset; write RFC 3339"));
    assert!(answer.fault("/delayMs").starts_with("is negative; "));
    assert!(answer.fault("/ttlMs").starts_with("is not a whole number; "));
    assert!(answer.fault("/priority").contains("1 (most urgent) to 9"));
}

#[tokio::test]
async fn faults_of_well_shaped_fields_are_reported_at_once_too() {
    let server = Server::plain().await;
    let body = json!({
        "jobId": "é", "route": "nowhere", "companyId": "a/b", "data": 1, "ttlMs": 10, "priority": 0, "delayMs": 1,
        "runAt": "2026-01-01T00:00:00Z"
    });
    let answer = server.post("/v1/jobs", body.to_string()).await;
    answer.faults_at(&["/jobId", "/companyId", "/route", "/priority", "/delayMs", "/ttlMs"]);
}

#[tokio::test]
async fn an_unknown_route_is_answered_with_the_known_ones() {
    let server = Server::plain().await;
    let answer =
        server.post("/v1/jobs", json!({"route": "emial", "companyId": "a", "data": 1}).to_string()).await;
    answer.faults_at(&["/route"]);
    for known in ["email", "patient", "sandbox", "tiss-claims", "work"] {
        assert!(answer.fault("/route").contains(known), "{known} is not named: {}", answer.fault("/route"));
    }
}

#[tokio::test]
async fn a_route_that_cannot_deliver_yet_says_what_it_needs() {
    let server = Server::plain().await;
    let answer =
        server.post("/v1/jobs", json!({"route": "email", "companyId": "a", "data": 1}).to_string()).await;
    answer.faults_at(&["/route"]);
    assert!(answer.fault("/route").contains("give it a provider"));
}

#[tokio::test]
async fn faults_inside_the_data_point_into_the_data() {
    let server = Server::plain().await;
    let data = json!({"script": ["ok", 5], "latencyMs": -1});
    let body = json!({"route": "sandbox", "companyId": "a", "data": data, "priority": "high"});
    let answer = server.post("/v1/jobs", body.to_string()).await;
    answer.faults_at(&["/priority", "/data/script/1", "/data/latencyMs"]);
}

#[tokio::test]
async fn what_is_not_json_is_a_bad_request() {
    let server = Server::plain().await;
    let deep = format!(r#"{{"route":"work","companyId":"a","data":{}{}}}"#, "[".repeat(100), "]".repeat(100));
    let very_deep = "[".repeat(1_000_000);
    let bad: [&[u8]; 10] = [
        b"hello",
        br#"{"route": "work", "#,
        br#"{"route": "work" "companyId": "a"}"#,
        br#"{"route": "work", "companyId": "a", "data": 1} x"#,
        br#"{"route": 5, "companyId": "a", "data": {"x": }}"#,
        br#"{"route": "wo"#,
        b"{\"route\": \"\xff\xfe\"}",
        b"[1, 2",
        deep.as_bytes(),
        very_deep.as_bytes(),
    ];
    for body in bad {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let answer = server.post("/v1/jobs", body.to_vec()).await;
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (400, &json!("invalid_json")),
            "{shown}: {}",
            answer.body
        );
        assert!(answer.body.get("errors").is_none(), "{shown}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_hundred_levels_of_nesting_are_taken() {
    let server = Server::plain().await;
    let deep = format!(r#"{{"route":"work","companyId":"a","data":{}{}}}"#, "[".repeat(99), "]".repeat(99));
    assert_eq!(server.post("/v1/jobs", deep).await.status, 202);
    let brackets_in_text = json!({"route": "work", "companyId": "a", "data": "[{\"".repeat(500)});
    assert_eq!(server.post("/v1/jobs", brackets_in_text.to_string()).await.status, 202);
}

#[tokio::test]
async fn json_that_is_no_object_is_told_what_it_is() {
    let server = Server::plain().await;
    for (body, what) in
        [("[]", "a list"), ("\"x\"", "a string"), ("7", "a number"), ("true", "a boolean"), ("null", "null")]
    {
        let answer = server.post("/v1/jobs", body).await;
        answer.faults_at(&[""]);
        assert_eq!(answer.fault(""), format!("is {what}; write an object"));
    }
    // Fields in their order would be a job if a list would do.
    let by_position = json!(["id", "work", "acme", 1, null, null, null, null, null, null]);
    server.post("/v1/jobs", by_position.to_string()).await.faults_at(&[""]);
}

#[tokio::test]
async fn a_field_given_twice_is_refused() {
    let server = Server::plain().await;
    let answer =
        server.post("/v1/jobs", r#"{"route":"work","companyId":"a","companyId":"b","data":1}"#).await;
    answer.faults_at(&["/companyId"]);
    assert!(answer.fault("/companyId").contains("more than once"));
}

#[tokio::test]
async fn a_body_that_is_no_object_hears_one_fault() {
    let server = Server::plain().await;
    for (path, body, said) in [
        ("/v1/jobs", " \n", "the body is empty; send a JSON object"),
        ("/v1/dlq/1/discard", "", "the body is empty; send a JSON object"),
        ("/v1/audit/erasures", "", "the body is empty; send a JSON object"),
        ("/v1/jobs/batch", "", "the body is empty; send a JSON list"),
        ("/v1/leases/settle", " ", "the body is empty; send a JSON list"),
        ("/v1/jobs", "\u{feff}{}", "the body begins with a byte order mark; send UTF-8 without one"),
        ("/v1/jobs/batch", "\u{feff}[]", "the body begins with a byte order mark; send UTF-8 without one"),
        ("/v1/jobs", "{} {}", "trailing characters at line 1 column 4"),
    ] {
        let answer = server.post(path, body).await;
        answer.is_problem(400, "invalid_json");
        assert_eq!(answer.body["detail"], said, "{path} {body:?}");
    }
    for (body, said) in [("null", "is null; write an object"), ("[{}]", "is a list; write an object")] {
        let answer = server.post("/v1/jobs", body).await;
        answer.faults_at(&[""]);
        assert_eq!(answer.fault(""), said);
    }
    server.post_as("/v1/jobs", "text/plain", "").await.is_problem(415, "unsupported_media_type");
    server.post("/v1/dlq/1/replay", "\n").await.is_problem(404, "not_found");
}

#[tokio::test]
async fn a_time_without_an_offset_is_refused_wherever_it_stands() {
    let server = Server::plain().await;
    let unclear = "2026-11-15T12:00:00";
    let mut body = job();
    body["runAt"] = json!(unclear);
    let refused = server.post("/v1/jobs", body.to_string()).await;
    refused.faults_at(&["/runAt"]);
    assert!(refused.fault("/runAt").contains("2026-01-31T05:30:00-03:00"), "{}", refused.body);
    for path in ["/v1/dlq?since", "/v1/dlq/stats?until", "/v1/dlq/export?since"] {
        let (_, name) = path.split_once('?').unwrap();
        server.get(&format!("{path}={unclear}")).await.faults_at(&[&format!("/{name}")]);
        assert_eq!(server.get(&format!("{path}={unclear}-03:00")).await.status, 200, "{path}");
    }
    let bulk = json!({"filter": {"since": unclear}, "dryRun": true});
    server.post("/v1/dlq/replay", bulk.to_string()).await.faults_at(&["/filter/since"]);
}

#[tokio::test]
async fn an_unknown_parameter_is_refused_where_there_is_none_at_all() {
    let server = Server::plain().await;
    let id = server
        .enqueue(json!({"jobId": "1", "route": "patient", "companyId": "a", "data": {"script": ["ok"]}}));
    id.await;
    for path in [
        "/v1/alerts",
        "/v1/jobs/1",
        "/v1/jobs/1/audit",
        "/v1/dlq/1",
        "/v1/nodes",
        "/v1/routes",
        "/v1/providers",
        "/v1/providers/patient",
        "/v1/replays",
        "/v1/tenants/a",
    ] {
        let answer = server.get(&format!("{path}?x=1")).await;
        answer.faults_at(&["/x"]);
        assert_eq!(answer.fault("/x"), "is not a parameter here; there is none", "{path}");
    }
}

#[tokio::test]
async fn the_end_of_time_is_a_time_that_is_too_far_away() {
    let server = Server::plain().await;
    let mut body = job();
    body["runAt"] = json!("9999-12-31T23:59:59Z");
    let answer = server.post("/v1/jobs", body.to_string()).await;
    answer.faults_at(&["/runAt"]);
    assert!(
        answer.fault("/runAt").starts_with("lies more than 366 days ahead"),
        "{}",
        answer.fault("/runAt")
    );
    assert_eq!(server.get("/v1/dlq?until=9999-12-31T23:59:59Z").await.status, 200);
}

#[tokio::test]
async fn text_and_numbers_that_cannot_be_read_are_faults_of_their_field() {
    let server = Server::plain().await;
    let half =
        server.post("/v1/jobs", r#"{"route":"work","companyId":"a","userId":"\ud800","data":1}"#).await;
    half.faults_at(&["/userId"]);
    for data in [r#""\ud800""#, "1e999"] {
        let body = format!(r#"{{"route":"work","companyId":"a","data":{data}}}"#);
        let answer = server.post("/v1/jobs", body).await;
        answer.faults_at(&["/data"]);
        assert!(answer.fault("/data").starts_with("cannot be read: "), "{}", answer.fault("/data"));
    }
}

#[tokio::test]
async fn wrong_types_are_named_with_what_to_write_instead() {
    let server = Server::plain().await;
    let rows = [
        ("jobId", json!(5), "is a number; write a string"),
        ("route", json!({"a": 1}), "is an object; write a string"),
        ("companyId", json!(["a"]), "is a list; write a string"),
        ("companyId", Value::Null, "is null; write a string"),
        ("correlationId", json!(false), "is a boolean; write a string"),
        ("runAt", json!(1_700_000_000), "is a number; write a string"),
        ("delayMs", json!("5"), "is a string; write whole milliseconds from 0 on"),
        ("ttlMs", json!(1e30), "is not a whole number; write whole milliseconds from 1000 on"),
        ("priority", json!(300), "is too large; write 1 (most urgent) to 9, or leave it out for 5"),
    ];
    for (field, value, message) in rows {
        let mut body = job();
        body[field] = value;
        let answer = server.post("/v1/jobs", body.to_string()).await;
        answer.faults_at(&[&format!("/{field}")]);
        assert_eq!(answer.fault(&format!("/{field}")), message, "{field}");
    }
}

#[tokio::test]
async fn a_whole_number_may_be_written_with_a_point_or_an_exponent() {
    let server = Server::plain().await;
    for written in ["1e3", "1000.0", "1.0E+3"] {
        let body = format!(r#"{{"jobId":"1","route":"work","companyId":"a","data":1,"delayMs":{written}}}"#);
        let answer = server.post("/v1/jobs", body).await;
        assert!(answer.status < 300, "{written}: {}", answer.body);
    }
    for written in ["1.5", "1e-3", "9007199254740993.0", "-1.0", "1e400"] {
        let body = format!(r#"{{"route":"work","companyId":"a","data":1,"delayMs":{written}}}"#);
        server.post("/v1/jobs", body).await.faults_at(&["/delayMs"]);
    }
}

#[tokio::test]
async fn a_thousand_faults_are_cut_to_a_hundred() {
    let server = Server::plain().await;
    let mut body = job();
    for n in 0..1_000 {
        body[format!("unknown{n}")] = json!(n);
    }
    let answer = server.post("/v1/jobs", body.to_string()).await;
    assert_eq!(answer.is_problem(422, "validation_failed").pointers().len(), 100);
    let script: Vec<Value> = (0..1_000).map(Value::from).collect();
    let body = json!({"route": "sandbox", "companyId": "a", "data": {"script": script}});
    assert_eq!(server.post("/v1/jobs", body.to_string()).await.pointers().len(), 100);
}

#[tokio::test]
async fn an_answer_never_repeats_what_was_in_the_data() {
    let server = Server::plain().await;
    let secret = "cpf-123.456.789-00";
    let bodies = [
        format!(
            r#"{{"route":"sandbox","companyId":"a","data":{{"script":"{secret}","latencyMs":"{secret}"}}}}"#
        ),
        format!(
            r#"{{"route":"work","companyId":5,"data":"{secret}","userId":["{secret}"],"runAt":"{secret}"}}"#
        ),
        format!(r#"{{"route":"work","companyId":"a","data":"{secret}" "#),
    ];
    for body in bodies {
        let answer = server.post("/v1/jobs", body).await;
        assert!(answer.status >= 400);
        assert!(!answer.body.to_string().contains(secret), "{}", answer.body);
    }
}

#[tokio::test]
async fn only_json_is_taken_for_json() {
    let server = Server::plain().await;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/x-ndjson",
        "json",
        "",
    ] {
        let answer = server.post_as("/v1/jobs", kind, job().to_string()).await;
        assert_eq!((answer.status, &answer.body["code"]), (415, &json!("unsupported_media_type")), "{kind}");
    }
    let unnamed = server.http.post(server.url("/v1/jobs")).body(job().to_string()).send().await.unwrap();
    assert_eq!(unnamed.status(), 415);
    assert_eq!(server.get("/v1/jobs").await.body["items"], json!([]), "nothing was taken in");
}
