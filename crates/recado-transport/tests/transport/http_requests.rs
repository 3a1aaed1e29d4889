//! Requests over HTTP: what a job may ask for, what arrives, and what is refused.

use recado_core::{FaultKind, Outcome, Payload};
use recado_testkit::far_end::FarEnd;
use recado_testkit::http::{Request, raw as answering};
use recado_transport::{ConfigError, Http, HttpConfig, Transport, Url};
use serde_json::{Value, json};

use super::{answer, attempt, fault, message, payload, pointers};

fn http_at(base_url: &str) -> Http {
    let config =
        HttpConfig::new(base_url.parse().expect("a URL")).with_header("Authorization", "Bearer SECRET");
    Http::new(config).expect("an Http")
}

fn http() -> Http {
    http_at("https://api.example.com/v2/")
}

async fn arrived(base_path: &str, data: &Value) -> Request {
    let far_end = FarEnd::scripted([answering("200 OK", "", "")]);
    answer(&http_at(&far_end.url_of::<String>(base_path)), data).await;
    far_end.only("")
}

#[tokio::test]
async fn a_request_arrives_as_the_job_says() {
    let data = json!({
        "method": "put", "path": "messages/a b:send", "query": { "q": "a&b=ç", "n": 1.50, "on": true },
        "headers": { "X-Trace": "t-1" }, "body": { "to": "x" },
    });
    let seen = arrived("/v2", &data).await;
    assert_eq!(seen.line, "PUT /v2/messages/a%20b:send?n=1.5&on=true&q=a%26b%3D%C3%A7 HTTP/1.1");
    assert_eq!(seen.header_values("x-trace").as_deref(), Some("t-1"));
    assert_eq!(seen.header_values("authorization").as_deref(), Some("Bearer SECRET"));
    assert_eq!(seen.header_values("content-type").as_deref(), Some("application/json"));
    assert_eq!(
        seen.header_values("user-agent").as_deref(),
        Some(concat!("recado/", env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(seen.text(), r#"{"to":"x"}"#);
}

#[tokio::test]
async fn without_a_word_about_it_a_post_goes_to_the_base_url_itself() {
    for data in
        [json!({}), json!({ "method": null, "path": null, "query": null, "headers": null, "body": null })]
    {
        let seen = arrived("/v2/hook", &data).await;
        assert_eq!((&*seen.line, &*seen.text()), ("POST /v2/hook HTTP/1.1", ""));
        assert_eq!(seen.header_values("content-type"), None);
    }
}

#[tokio::test]
async fn slashes_between_base_and_path_are_neither_lost_nor_doubled() {
    for (base, path) in [("/v2", "x/y/"), ("/v2/", "x/y/"), ("/v2", "/x/y/"), ("/v2/", "/x/y/")] {
        let seen = arrived(base, &json!({ "path": path })).await;
        assert_eq!(seen.line, "POST /v2/x/y/ HTTP/1.1", "{base} + {path}");
    }
}

#[tokio::test]
async fn a_json_body_is_sent_as_it_was_written() {
    let far_end = FarEnd::scripted([answering("200 OK", "", "")]);
    let body = r#"{"z": 123456789012345678901234567890, "a":1.10}"#;
    let job = super::job(Payload::new(&format!(r#"{{"body":{body}}}"#)).unwrap());
    let delivery = recado_transport::Delivery {
        job: &job,
        attempt: 1,
        now: super::NOW,
        timeout: std::time::Duration::from_secs(30),
        answer: recado_transport::Wanted::Receipt,
    };
    let outcome = http_at(&far_end.url_of::<String>("/")).send(delivery).await;
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
    assert_eq!(far_end.only("").text(), body);
}

#[tokio::test]
async fn bytes_are_sent_as_bytes_with_the_type_that_the_job_gives_them() {
    let seen = arrived("/", &json!({ "bodyBase64": "PHhtbC8+" })).await;
    assert_eq!(
        (&*seen.text(), seen.header_values("content-type").as_deref()),
        ("<xml/>", Some("application/octet-stream"))
    );
    let seen =
        arrived("/", &json!({ "bodyBase64": "PHhtbC8+", "headers": { "content-type": "text/xml" } })).await;
    assert_eq!((&*seen.text(), seen.header_values("content-type").as_deref()), ("<xml/>", Some("text/xml")));
}

#[tokio::test]
async fn a_content_type_that_the_provider_configures_goes_for_every_body() {
    let far_end = FarEnd::scripted([answering("200 OK", "", "")]);
    let config = HttpConfig::new(far_end.url_of("/")).with_header("Content-Type", "application/vnd.api+json");
    let http = Http::new(config).unwrap();
    answer(&http, &json!({ "body": {} })).await;
    assert_eq!(far_end.only("").header_values("content-type").as_deref(), Some("application/vnd.api+json"));
    assert_eq!(pointers(&http, &json!({ "headers": { "content-type": "x" } })), ["/headers/content-type"]);
}

#[test]
fn a_proxy_in_the_environment_is_not_used() {
    // No server listens on port 1, so a request through it fails.
    let test = "transport::http_requests::without_a_word_about_it_a_post_goes_to_the_base_url_itself";
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let run = again
        .args(["--exact", test])
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("http_proxy", "http://127.0.0.1:1");
    let output = run.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test]
async fn every_attempt_carries_the_same_idempotency_key() {
    let far_end = FarEnd::scripted((0..3).map(|_| answering("503 Busy", "", "")));
    let http = http_at(&far_end.url_of::<String>("/"));
    for number in 1..=3 {
        let outcome = attempt(&http, &json!({}), number).await;
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    }
    let keys: Vec<_> = far_end.ledger().iter().map(|seen| seen.header_values("idempotency-key")).collect();
    assert_eq!(keys, vec![Some("job-7f3a".to_owned()); 3]);
}

#[tokio::test]
async fn a_path_that_leaves_the_base_url_is_refused_and_nothing_is_sent() {
    let far_end = FarEnd::scripted([]);
    let http = http_at(&far_end.url_of::<String>("/v2/"));
    for path in [
        "..",
        "../admin",
        "a/../../admin",
        "a/..",
        "/..",
        "./a",
        "a/.",
        "%2e%2e/admin",
        ".%2E/admin",
        "..%2fadmin",
        "%252e%252e%252fadmin",
        "..%5cadmin",
        "..\\admin",
        "a\\b",
        "%5Ca",
        "..;/admin",
        ".\t./admin",
        ".\r\n./admin",
        "%2e%0d%2e",
        "a%00b",
        "//evil.example",
        "///evil.example",
        "http://evil.example/",
        "/https://evil.example",
        "//user@evil.example",
        "https://user:pw@evil.example",
        "a?b=c",
        "a#b",
        "a b\u{7f}",
    ] {
        let data = json!({ "path": path });
        assert!(pointers(&http, &data).iter().all(|pointer| pointer == "/path"), "{path}");
        assert!(http.check(&payload(&data)).is_err(), "{path} passed");
        assert_eq!(fault(&http, &data).await.kind, FaultKind::InvalidPayload, "{path}");
    }
    assert_eq!(far_end.connections(), 0);
}

#[tokio::test]
async fn an_odd_path_that_stays_below_the_base_url_is_fine() {
    for (path, line) in [
        ("@evil.example", "/v2/@evil.example"),
        (":80/x", "/v2/:80/x"),
        ("messages:send", "/v2/messages:send"),
        ("group%2Fproject", "/v2/group%2Fproject"),
        ("a//b", "/v2/a//b"),
        ("..a/b..", "/v2/..a/b.."),
        (".well-known/x", "/v2/.well-known/x"),
        ("100%/ç", "/v2/100%/%C3%A7"),
    ] {
        assert_eq!(arrived("/v2", &json!({ "path": path })).await.line, format!("POST {line} HTTP/1.1"));
    }
}

#[tokio::test]
async fn headers_that_are_not_the_jobs_to_set_are_refused_in_any_case() {
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "keep-alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "Proxy-Authorization",
        "proxy-connection",
        "Idempotency-Key",
        "idempotency-key",
        "AUTHORIZATION",
    ] {
        assert_eq!(
            pointers(&http(), &json!({ "headers": { name: "x" } })),
            [format!("/headers/{name}")],
            "{name}"
        );
    }
    assert_eq!(pointers(&http(), &json!({ "headers": { "X-Fine": "x", "User-Agent": "y" } })), [""; 0]);
}

#[tokio::test]
async fn headers_cannot_be_smuggled_in_through_names_or_values() {
    let far_end = FarEnd::scripted([]);
    let http = http_at(&far_end.url_of::<String>("/"));
    for (name, value) in [
        ("X-A", "x\r\nHost: evil"),
        ("X-A", "x\nY: z"),
        ("X-A", "x\rY"),
        ("X-A", "x\0"),
        ("X-A\r\nHost", "evil"),
        ("X A", "x"),
        ("X-A:", "x"),
        ("", "x"),
        ("Ação", "x"),
    ] {
        let data = json!({ "headers": { name: value } });
        assert_eq!(pointers(&http, &data).len(), 1, "{name:?}: {value:?}");
        assert_eq!(fault(&http, &data).await.kind, FaultKind::InvalidPayload);
    }
    assert_eq!(far_end.connections(), 0);
}

#[test]
fn every_fault_is_named_at_once() {
    let data = json!({
        "metod": "GET", "method": "TRACE", "path": "../x?y", "query": { "list": [1], "fine": 1, "a/b~": {} },
        "headers": { "Host": "x", "X-A": 7, "x-b": "1", "X-B": "2" }, "body": {}, "bodyBase64": "***",
    });
    let expected = [
        "/bodyBase64",
        "/bodyBase64",
        "/headers/Host",
        "/headers/X-A",
        "/headers/x-b",
        "/method",
        "/metod",
        "/path",
        "/path",
        "/query/a~1b~0",
        "/query/list",
    ];
    assert_eq!(pointers(&http(), &data), expected);
    for data in [json!([]), json!("x"), json!(null), json!(3), json!([null, "x"])] {
        assert_eq!(pointers(&http(), &data), [""], "{data}");
    }
}

#[test]
fn a_fault_says_what_to_write_instead() {
    assert!(message(&http(), &json!({ "bodybase64": "" })).contains("did you mean `bodyBase64`?"));
    assert!(message(&http(), &json!({ "header": {} })).contains("did you mean `headers`?"));
    assert!(message(&http(), &json!({ "whatever": 1 })).contains("there is method, path, query"));
    assert!(message(&http(), &json!({ "method": "PACH" })).contains("did you mean `PATCH`?"));
    assert!(message(&http(), &json!({ "query": "a=b" })).contains("is a string; write an object"));
    assert!(
        message(&http(), &json!({ "headers": { "Idempotency-Key": "x" } })).contains("choose the `jobId`")
    );
}

#[test]
fn an_address_too_long_and_headers_or_parameters_too_many_are_refused_before_they_reach_a_server() {
    assert_eq!(pointers(&http(), &json!({ "path": "x".repeat(9_000) })), [""]);
    assert_eq!(pointers(&http(), &json!({ "query": { "q": "x".repeat(9_000) } })), [""]);
    let many =
        |count: usize| (0..count).map(|n| (format!("x-{n}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    assert_eq!(pointers(&http(), &json!({ "headers": many(40_000) })), ["/headers"]);
    assert_eq!(pointers(&http(), &json!({ "query": many(100_000) })), ["/query"]);
    assert_eq!(pointers(&http(), &json!({ "headers": many(64), "query": many(256) })), [""; 0]);
}

#[tokio::test]
async fn what_an_unusable_payload_held_is_not_repeated() {
    let data = json!({ "method": "SECRET", "path": "../SECRET", "headers": { "X": "SECRET\n" }, "bodyBase64": "SECRET!" });
    let fault = fault(&http(), &data).await;
    assert_eq!(fault.kind, FaultKind::InvalidPayload);
    assert!(fault.text.contains("data/path") && fault.text.contains("data/method"), "{}", fault.text);
    assert!(!fault.text.contains("SECRET"), "{}", fault.text);
}

#[test]
fn a_configuration_that_cannot_work_is_refused_in_words_that_repeat_no_secret() {
    let refused = |url: &str, headers: &[(&str, &str)]| -> ConfigError {
        let config = HttpConfig::new(url.parse::<Url>().unwrap());
        Http::new(headers.iter().fold(config, |config, (name, value)| config.with_header(name, value)))
            .unwrap_err()
    };
    let fine = "https://api.example.com";
    for (error, word) in [
        (refused("ftp://example.com", &[]), "scheme"),
        (refused("https://user:SECRET@example.com", &[]), "Authorization"),
        (refused("https://example.com?key=SECRET", &[]), "query"),
        (refused(fine, &[("bad name", "SECRET")]), "bad name"),
        (refused(fine, &[("apikey", "SECRET\r\nx: y")]), "apikey"),
        (refused(fine, &[("Host", "SECRET")]), "Host"),
        (refused(fine, &[("apikey", "SECRET"), ("APIKEY", "SECRET")]), "twice"),
    ] {
        let text = error.to_string();
        assert!(text.contains(word) && !text.contains("SECRET"), "{text}");
    }
    assert!(!format!("{:?}", http()).contains("SECRET"));
    assert!(
        !format!("{:?}", HttpConfig::new(fine.parse().unwrap()).with_header("apikey", "SECRET"))
            .contains("SECRET")
    );
}
