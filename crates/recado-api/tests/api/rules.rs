//! Classification rules that the history suggests.

use recado_core::{Class, RouteName};
use recado_wire::rules::SuggestionQuery;
use serde_json::json;

use crate::given::{Server, Setup};

#[tokio::test]
async fn g24_an_error_that_no_retry_mends_is_suggested_with_the_line_to_paste() {
    let server = Server::start(Setup { trail: true, ..Setup::default() }).await;
    let client = server.client();
    assert_eq!(client.rule_suggestions(&SuggestionQuery::default()).await.unwrap().items, []);
    for number in 0..6 {
        let data = json!({"script": [format!("E_PLAN the plan of client {number} was closed")]});
        let company = format!("company-{number}");
        let id = server.enqueue(json!({"route": "sandbox", "companyId": company, "data": data})).await;
        server.until(&id, "failed").await;
    }
    let query = SuggestionQuery { route: Some(RouteName::new("sandbox").unwrap()), since: None };
    let list = client.rule_suggestions(&query).await.unwrap();
    let [only] = &list.items[..] else { panic!("{list:?}") };
    assert_eq!((only.today, only.suggested), (Class::Unknown, Class::Permanent));
    assert_eq!((only.count, only.retried_in_vain, only.retried_to_success), (18, 6, 0));
    assert_eq!((only.would_have_changed, only.would_have_lost), (12, 0));
    assert_eq!(
        only.toml,
        r#"classify = [{ code = "E_PLAN", text = "the plan of client", as = "permanent" }]"#
    );
    assert_eq!(only.example.as_deref(), Some("the plan of client … was closed"));
    assert_eq!(list.toml, format!("[routes.sandbox]\n{}\n", only.toml));
    assert!((only.confidence - 0.610).abs() < 0.001, "six of six: {}", only.confidence);
    let other = SuggestionQuery { route: Some(RouteName::new("patient").unwrap()), since: None };
    assert_eq!(client.rule_suggestions(&other).await.unwrap().items, []);
}

#[tokio::test]
async fn a_route_that_does_not_exist_and_a_server_without_a_trail_say_so() {
    let server = Server::start(Setup { trail: true, ..Setup::default() }).await;
    let answer = server.get("/v1/rules/suggestions?route=emial").await;
    answer.is_problem(404, "not_found");
    assert!(answer.body["detail"].as_str().unwrap().contains("known routes: "), "{}", answer.body);
    server
        .get("/v1/rules/suggestions?since=yesterday")
        .await
        .is_problem(422, "validation_failed")
        .faults_at(&["/since"]);
    Server::plain().await.get("/v1/rules/suggestions").await.is_problem(404, "not_found");
}
