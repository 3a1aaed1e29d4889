//! Endpoints: made, looked at, changed, tried out, removed.

use recado_core::Policy;
use recado_testkit::far_end::FarEnd;
use serde_json::{Value, json};

use crate::given::{Kind, Server, Setup, ms};

/// A server that delivers webhooks, and tries each once.
pub async fn server(kind: Kind) -> Server {
    let webhooks = Some(Policy::exponential(ms(1), ms(1), 1));
    Server::start(Setup { kind, webhooks, ..Setup::default() }).await
}

/// Adds an endpoint that has to be taken.
pub async fn add(server: &Server, endpoint: Value) -> Value {
    let answer = server.post("/v1/endpoints", endpoint.to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.body
}

pub fn id_of(endpoint: &Value) -> &str {
    endpoint["id"].as_str().unwrap()
}

pub fn secret_of(endpoint: &Value) -> &str {
    endpoint["secret"].as_str().unwrap()
}

#[tokio::test]
async fn an_endpoint_shows_its_secret_once_and_outlives_the_server() {
    let server = server(Kind::Embedded).await;
    let made =
        add(&server, json!({"companyId": "acme", "url": "http://127.0.0.1:9/hooks", "events": ["JobSent"]}))
            .await;
    assert!(secret_of(&made).starts_with("whsec_"), "{made}");
    assert_eq!((&made["enabled"], &made["consecutiveFailures"]), (&json!(true), &json!(0)));
    add(&server, json!({"companyId": "other", "url": "http://127.0.0.1:9/"})).await;

    let mut shown = made.clone();
    shown.as_object_mut().unwrap().remove("secret");
    let path = format!("/v1/endpoints/{}", id_of(&made));
    assert_eq!(server.get(&path).await.body, shown);
    let all = server.get("/v1/endpoints").await.body;
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    assert_eq!(server.get("/v1/endpoints?companyId=acme").await.body, json!({"items": [shown]}));
    assert_eq!(server.get("/v1/endpoints?companyId=unknown").await.body, json!({"items": []}));

    let dir = server.stop_and_leave().await;
    let webhooks = Some(Policy::exponential(ms(1), ms(1), 3));
    let again =
        Server::start(Setup { kind: Kind::Embedded, webhooks, dir: Some(dir), ..Setup::default() }).await;
    assert_eq!(again.get(&path).await.body, shown);
    assert_eq!(again.delete(&path).await.status, 204);
    again.get(&path).await.is_problem(404, "not_found");
}

#[tokio::test]
async fn a_change_touches_what_it_names_and_nothing_else() {
    let server = server(Kind::Memory).await;
    let made = add(
        &server,
        json!({"companyId": "acme", "url": "http://127.0.0.1:9/", "events": ["JobSent", "JobSent"], "description": "old"}),
    )
    .await;
    assert_eq!(made["events"], json!(["JobSent"]), "named twice is heard once");
    let path = format!("/v1/endpoints/{}", id_of(&made));
    let changed = server.patch(&path, json!({"events": [], "description": ""})).await.body;
    assert_eq!((&changed["events"], &changed["url"]), (&json!([]), &made["url"]));
    assert!(changed.get("description").is_none() && changed.get("secret").is_none(), "{changed}");
    let off = server.patch(&path, json!({"enabled": false})).await.body;
    assert_eq!((&off["enabled"], &off["disabledReason"]), (&json!(false), &json!("switched off by hand")));
    let on = server.post(&format!("{path}/enable"), "").await;
    assert_eq!((on.status, &on.body["enabled"]), (200, &json!(true)));
    assert!(on.body.get("disabledAt").is_none(), "{}", on.body);
}

#[tokio::test]
async fn every_fault_of_an_endpoint_is_named_at_once() {
    let server = server(Kind::Memory).await;
    let wrong = json!({
        "companyId": "a b", "url": "http://10.0.0.1/", "events": ["JobSent", "JobDone"], "secret": "hunter2",
        "description": "x".repeat(257),
    });
    let answer = server.post("/v1/endpoints", wrong.to_string()).await;
    answer.faults_at(&["/companyId", "/url", "/secret", "/description", "/events/1"]);
    assert!(!answer.body.to_string().contains("hunter2"), "{}", answer.body);
    server.post("/v1/endpoints", "{}").await.faults_at(&["/companyId", "/url"]);
    let shape =
        server.post("/v1/endpoints", json!({"url": 5, "event": [], "enabled": true}).to_string()).await;
    shape.faults_at(&["/enabled", "/event", "/url"]);
    let path = format!(
        "/v1/endpoints/{}",
        id_of(&add(&server, json!({"companyId": "acme", "url": "http://127.0.0.1:9/"})).await)
    );
    server.patch(&path, json!({"url": "ftp://x", "events": ["x"]})).await.faults_at(&["/url", "/events/0"]);
    server.patch(&path, json!({"companyId": "b"})).await.faults_at(&["/companyId"]);
}

#[tokio::test]
async fn what_is_not_there_is_a_404_whatever_is_asked_of_it() {
    let server = server(Kind::Memory).await;
    let path = "/v1/endpoints/ep_nothing";
    server.get(path).await.is_problem(404, "not_found");
    server.delete(path).await.is_problem(404, "not_found");
    server.patch(path, json!({"enabled": true})).await.is_problem(404, "not_found");
    server.post(&format!("{path}/enable"), "").await.is_problem(404, "not_found");
    server.post(&format!("{path}/test"), "").await.is_problem(404, "not_found");
}

#[tokio::test]
async fn a_company_has_a_hundred_endpoints_at_most() {
    let server = server(Kind::Memory).await;
    let endpoint = json!({"companyId": "acme", "url": "http://127.0.0.1:9/"});
    for _ in 0..100 {
        add(&server, endpoint.clone()).await;
    }
    server.post("/v1/endpoints", endpoint.to_string()).await.is_problem(409, "conflict");
    add(&server, json!({"companyId": "other", "url": "http://127.0.0.1:9/"})).await;
}

#[tokio::test]
async fn without_a_route_for_webhooks_an_endpoint_is_of_no_use() {
    let server = Server::plain().await;
    let endpoint = json!({"companyId": "acme", "url": "https://example.com/"});
    let answer = server.post("/v1/endpoints", endpoint.to_string()).await;
    answer.faults_at(&[""]);
    assert!(answer.fault("").contains("transport \"webhook\""), "{}", answer.body);
}

#[tokio::test]
async fn a_test_says_how_the_receiver_took_it_and_counts_for_nothing() {
    let server = server(Kind::Memory).await;
    let receiver = FarEnd::agreeable();
    let made = add(&server, json!({"companyId": "acme", "url": receiver.url_of::<String>("/hooks")})).await;
    let path = format!("/v1/endpoints/{}", id_of(&made));
    let test = format!("{path}/test");

    let well = server.post(&test, "").await;
    assert_eq!((well.status, &well.body["ok"], &well.body["status"]), (200, &json!(true), &json!(200)));
    assert!(well.body["tookMs"].is_u64(), "{}", well.body);
    let got = &receiver.arrived(1).await[0];
    assert!(got.is_signed_with(secret_of(&made)), "{got:?}");
    assert_eq!(
        (got.path.as_str(), got.json()["type"].as_str(), got.header("webhook-event")),
        ("/hooks", Some("endpoint.test"), "endpoint.test")
    );

    receiver.says(500, "out of order");
    let badly = server.post(&test, "").await;
    assert_eq!((badly.status, &badly.body["ok"], &badly.body["status"]), (200, &json!(false), &json!(500)));
    assert!(badly.body["errorReason"].as_str().unwrap().contains("out of order"), "{}", badly.body);

    server.patch(&path, json!({"url": "http://127.0.0.1:9/"})).await;
    let missing = server.post(&test, "").await;
    assert_eq!((missing.status, &missing.body["ok"]), (200, &json!(false)));
    assert!(
        missing.body.get("status").is_none() && missing.body["errorReason"].is_string(),
        "{}",
        missing.body
    );
    assert_eq!(server.get(&path).await.body["consecutiveFailures"], 0, "a test is not a delivery");
}

#[tokio::test]
async fn endpoints_are_listed_page_by_page_oldest_first() {
    let server = server(Kind::Memory).await;
    let mut made = Vec::new();
    for (n, company) in ["acme", "globex", "acme", "acme", "globex"].into_iter().enumerate() {
        let endpoint = json!({"companyId": company, "url": format!("https://{company}.example/{n}")});
        made.push(id_of(&add(&server, endpoint).await).to_owned());
    }
    for (filter, wanted) in [("", vec![0, 1, 2, 3, 4]), ("&companyId=acme", vec![0, 2, 3])] {
        let (mut listed, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("/v1/endpoints?limit=2{filter}{cursor}")).await.body;
            let items = page["items"].as_array().unwrap();
            assert!((1..=2).contains(&items.len()), "{page}");
            listed.extend(items.iter().map(|one| one["id"].as_str().unwrap().to_owned()));
            let Some(next) = page["nextCursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(listed, wanted.into_iter().map(|n| made[n].clone()).collect::<Vec<_>>(), "{filter}");
    }
}
