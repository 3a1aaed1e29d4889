//! Accounts whose credential a provider no longer takes.

use recado_testkit::far_end::FarEnd;
use recado_testkit::http::json_text;
use serde_json::{Value, json};

use crate::ear::Ear;
use crate::given::{Kind, PATIENCE, Server, Setup, http_route, ms};

async fn server(kind: Kind, provider: &FarEnd) -> Server {
    let routes = vec![http_route("instagram", &provider.url_of::<String>("/"), "social")];
    Server::start(Setup { kind, routes, ..Setup::default() }).await
}

fn post_of(company: &str) -> Value {
    json!({"route": "instagram", "companyId": company, "data": {"path": "/media", "body": {"caption": "hello"}}})
}

/// Waits until this many accounts are marked.
async fn marked(server: &Server, count: usize) -> Value {
    let reached = async {
        loop {
            let items = server.get("/v1/accounts").await.body["items"].clone();
            if items.as_array().unwrap().len() == count {
                return items;
            }
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached)
        .await
        .unwrap_or_else(|_| panic!("not {count} accounts are marked"))
}

#[tokio::test]
async fn f12_a_refused_token_marks_the_account_once_and_the_next_success_takes_the_mark_away() {
    for kind in [Kind::Memory, Kind::Embedded] {
        let provider = FarEnd::agreeable();
        let server = server(kind, &provider).await;
        let mut ear = Ear::open(&server, "?event=token_expired").await;
        provider.says(401, r#"{"error": {"message": "the session has expired"}}"#);
        let job = server.enqueue(post_of("acme")).await;
        server.until(&job, "failed").await;
        let told = ear.next().await;
        let data = &told.data["data"];
        assert_eq!((&told.data["type"], &told.data["companyId"]), (&json!("token_expired"), &json!("acme")));
        assert_eq!((&data["provider"], &data["jobId"]), (&json!("instagram"), &json!(job)));
        assert_eq!((&data["blame"], &data["status"]), (&json!("credential"), &json!("token_expired")));

        let accounts = marked(&server, 1).await;
        let account = &accounts[0];
        assert_eq!(
            (&account["provider"], &account["companyId"], &account["status"]),
            (&json!("instagram"), &json!("acme"), &json!("token_expired"))
        );
        assert_eq!(
            (&account["errorCode"], &account["route"], &account["jobId"]),
            (&json!("401"), &json!("instagram"), &json!(job))
        );
        assert!(account["reason"].as_str().unwrap().contains("session has expired"), "{account}");
        assert!(account["since"].is_string());
        assert_eq!(provider.ledger().len(), 1, "f8: a refused token is not tried again");
        assert_eq!(server.get("/v1/accounts?companyId=other").await.body, json!({"items": []}));

        // Refused again, it stays the same mark; another company's is another.
        let again = server.enqueue(post_of("acme")).await;
        server.until(&again, "failed").await;
        let other = server.enqueue(post_of("other")).await;
        server.until(&other, "failed").await;
        assert_eq!(ear.next().await.data["companyId"], "other", "marked once, told once");
        assert_eq!(marked(&server, 2).await[0], *account);

        provider.says(200, "{}");
        let well = server.enqueue(post_of("acme")).await;
        server.until(&well, "sent").await;
        assert_eq!(marked(&server, 1).await[0]["companyId"], "other");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_person_takes_a_mark_away_and_a_restart_keeps_the_others() {
    let provider = FarEnd::agreeable();
    let server = server(Kind::Embedded, &provider).await;
    provider.says(401, "");
    for company in ["acme", "other"] {
        let job = server.enqueue(post_of(company)).await;
        server.until(&job, "failed").await;
    }
    marked(&server, 2).await;
    let path = "/v1/accounts/instagram/acme";
    assert_eq!(server.delete(path).await.status, 204);
    server.delete(path).await.is_problem(404, "not_found");
    server.delete("/v1/accounts/tiktok/other").await.is_problem(404, "not_found");
    let dir = server.stop_and_leave().await;
    let again = Server::start(Setup { kind: Kind::Embedded, dir: Some(dir), ..Setup::default() }).await;
    assert_eq!(marked(&again, 1).await[0]["companyId"], "other");
}

#[tokio::test]
async fn f8_only_a_refused_credential_marks_an_account_and_only_what_may_pass_is_tried_again() {
    let provider = FarEnd::agreeable();
    let server = server(Kind::Memory, &provider).await;
    // What the provider says, what becomes of the job, and how often it was tried.
    let rows = [
        (400, "failed", "PERMANENT", 1),
        (404, "failed", "PERMANENT", 1),
        (500, "failed", "TRANSIENT", 3),
        (503, "failed", "TRANSIENT", 3),
    ];
    for (status, becomes, class, tries) in rows {
        provider.says(status, "");
        let job = server.enqueue(post_of("acme")).await;
        let shown = server.until(&job, becomes).await;
        let attempts = shown["attempts"].as_array().unwrap();
        assert_eq!(attempts.len(), tries, "{status}: {shown}");
        assert_eq!(attempts[0]["errorClassification"], class, "{status}: {shown}");
    }
    // The mark of another company comes after all of these: by now theirs would be there.
    provider.says(401, "");
    let other = server.enqueue(post_of("other")).await;
    server.until(&other, "failed").await;
    assert_eq!(marked(&server, 1).await[0]["companyId"], "other");

    // Last, for the provider is left alone from then on. A mark would be settled with its attempt.
    provider.answers(json_text(429, "").with("retry-after", "3600"));
    let job = server.enqueue(post_of("acme")).await;
    let shown = server.until(&job, "retrying").await;
    assert_eq!(shown["attempts"][0]["errorClassification"], "RATE_LIMIT");
    assert!(shown["attempts"][0]["nextRetryDelayMs"].as_u64().unwrap() >= 3_600_000, "{shown}");
    assert_eq!(marked(&server, 1).await[0]["companyId"], "other");
}
