//! Access control.

use serde_json::json;

use crate::given::{Answer, Server, Setup};

async fn with_token() -> Server {
    Server::start(Setup { token: Some("s3cret"), ..Setup::default() }).await
}

async fn get_with(server: &Server, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = server.http.get(server.url(path));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::of(request.send().await.unwrap()).await
}

#[tokio::test]
async fn every_documented_path_under_v1_asks_for_the_token() {
    let server = with_token().await;
    let document = get_with(&server, "/openapi.json", &[("authorization", "Bearer s3cret")]).await.body;
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            if matches!(path.as_str(), "/" | "/healthz" | "/readyz" | "/dashboard/{folder}/{file}") {
                continue;
            }
            let method = reqwest::Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let url = server.url(&path.replace(['{', '}'], ""));
            let answer = Answer::of(server.http.request(method.clone(), url).send().await.unwrap()).await;
            assert_eq!(
                (answer.status, &answer.body["code"]),
                (401, &json!("unauthorized")),
                "{method} {path}"
            );
            assert_eq!(answer.header("www-authenticate"), "Bearer");
            asked += 1;
        }
    }
    assert!(asked >= 18, "only {asked} routes were asked");
    assert_eq!(server.get("/v1/no-such-path").await.status, 401, "not even what is missing is told");
}

#[tokio::test]
async fn only_the_whole_token_opens() {
    let server = with_token().await;
    for right in ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret "] {
        assert_eq!(get_with(&server, "/v1/jobs", &[("authorization", right)]).await.status, 200, "{right}");
    }
    for wrong in [
        "Bearer s3cre",
        "Bearer s3crett",
        "Bearer ",
        "Bearer S3CRET",
        "Basic s3cret",
        "s3cret",
        "Bearers3cret",
        "",
    ] {
        let answer = get_with(&server, "/v1/jobs", &[("authorization", wrong)]).await;
        assert_eq!(answer.status, 401, "{wrong:?}");
    }
}

#[tokio::test]
async fn many_wrong_tokens_are_throttled_and_the_right_one_is_not() {
    let server = with_token().await;
    let ask = async |token: &str| get_with(&server, "/v1/jobs", &[("authorization", token)]).await;
    for _ in 0..10 {
        ask("Bearer guess").await.is_problem(401, "unauthorized");
    }
    let refused = ask("Bearer guess").await;
    refused.is_problem(429, "too_many_wrong_tokens");
    assert_eq!(refused.header("retry-after"), "60");
    assert_eq!(ask("Bearer s3cret").await.status, 200, "from the same address");
    assert_eq!(server.get("/v1/jobs").await.status, 401, "no token is no guess");
    get_with(&server, "/metrics", &[("authorization", "Bearer guess")])
        .await
        .is_problem(429, "too_many_wrong_tokens");
}

#[tokio::test]
async fn no_answer_is_kept_or_guessed_at() {
    let server = Server::plain().await;
    server
        .enqueue(json!({"jobId": "j", "route": "patient", "companyId": "a", "data": {"script": ["ok"]}}))
        .await;
    for path in
        ["/v1/jobs/j", "/v1/jobs", "/v1/no-such-path", "/v1/jobs/x", "/healthz", "/metrics", "/openapi.json"]
    {
        let answer = server.get(path).await;
        let headers = (answer.header("cache-control"), answer.header("x-content-type-options"));
        assert_eq!(headers, ("no-store", "nosniff"), "{path}");
    }
    let refused = get_with(&server, "/v1/jobs", &[("host", "evil.example")]).await;
    assert_eq!(refused.header("cache-control"), "no-store");
    let page = get_with(&server, "/", &[("accept", "text/html")]).await;
    assert_eq!(
        (page.header("cache-control"), page.header("x-content-type-options")),
        ("no-cache", "nosniff")
    );
}

#[tokio::test]
async fn probes_stay_open_but_details_are_for_those_who_have_the_token() {
    let server = with_token().await;
    assert_eq!(server.get("/healthz").await.status, 200);
    let told = server.get("/readyz").await;
    assert_eq!((told.status, told.body), (200, json!({"status": "ready"})));
    let known = get_with(&server, "/readyz", &[("authorization", "Bearer s3cret")]).await.body;
    assert_eq!(known["counts"]["ready"], 0);
    assert_eq!(server.get("/").await.status, 200);
}

#[tokio::test]
async fn without_a_token_a_loopback_server_answers_only_to_its_own_names() {
    let server = Server::plain().await;
    for host in ["localhost", "localhost:7400", "127.0.0.1:1", "[::1]:7400", "recado.test", "RECADO.TEST:80"]
    {
        assert_eq!(get_with(&server, "/v1/jobs", &[("host", host)]).await.status, 200, "{host}");
    }
    for host in ["evil.example", "evil.example:7400", "127.0.0.1.evil.example", "localhost.evil.example"] {
        for path in ["/v1/jobs", "/readyz", "/openapi.json", "/"] {
            get_with(&server, path, &[("host", host)]).await.is_problem(403, "host_not_allowed");
        }
        assert_eq!(get_with(&server, "/healthz", &[("host", host)]).await.status, 200);
    }
    let nameless = server.raw(b"GET /v1/jobs HTTP/1.0\r\n\r\n").await;
    assert!(nameless.contains(" 403 "), "{nameless}");
}

#[tokio::test]
async fn with_a_token_any_name_will_do() {
    let server = with_token().await;
    let headers = [
        ("host", "recado.acme.example"),
        ("authorization", "Bearer s3cret"),
        ("origin", "https://acme.example"),
    ];
    assert_eq!(get_with(&server, "/v1/jobs", &headers).await.status, 200);
}

#[tokio::test]
async fn a_page_of_another_site_cannot_use_the_browsers_way_in() {
    let server = Server::plain().await;
    server
        .enqueue(json!({"jobId": "j", "route": "sandbox", "companyId": "a", "data": {"script": ["550 no"]}}))
        .await;
    server.until("j", "failed").await;
    // What a browser sends for `fetch(url, {method: "POST", mode: "no-cors"})`.
    for origin in ["https://evil.example", "null", "http://localhost:1", "http://evil.example:7400"] {
        let request = server.http.post(server.url("/v1/dlq/j/replay")).header("origin", origin);
        Answer::of(request.send().await.unwrap()).await.is_problem(403, "origin_not_allowed");
    }
    assert_eq!(server.get("/v1/dlq/j").await.body["state"], "dead");
    let own = format!("http://{}", server.address);
    let request = server.http.post(server.url("/v1/dlq/j/replay")).header("origin", own);
    assert_eq!(request.send().await.unwrap().status(), 202, "its own pages may");
}
