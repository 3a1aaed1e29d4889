//! Routes: what carries them, what waits on them, and pausing one by hand.

use recado_wire::providers::PauseRequest;
use serde_json::{Value, json};

use crate::given::{Server, on_each_store};

async fn route(server: &Server, name: &str) -> Value {
    let list = server.get("/v1/routes").await.body;
    let found = list["items"].as_array().unwrap().iter().find(|route| route["name"] == name);
    found.cloned().unwrap_or_else(|| panic!("{name} is not among {list}"))
}

async fn enqueue(server: &Server, route: &str) -> String {
    server.enqueue(json!({"route": route, "companyId": "acme", "data": {"script": ["ok"]}})).await
}

#[tokio::test]
async fn a_route_shows_who_carries_it_and_why_it_cannot() {
    let server = Server::plain().await;
    let sandbox = route(&server, "sandbox").await;
    let known =
        ["name", "transport", "providers", "waiting", "waitingFor"].map(|field| sandbox[field].clone());
    assert_eq!(json!(known), json!(["sandbox", "sandbox", ["sandbox"], 0, null]));
    assert_eq!(route(&server, "work").await["transport"], "worker");
    let email = route(&server, "email").await;
    assert_eq!((&email["transport"], &email["waitingFor"]["reason"]), (&json!("none"), &json!("route")));
    server.stop().await;
}

#[tokio::test]
async fn w3_a_route_tells_its_policy_and_every_attempt_with_its_jitter() {
    let server = Server::plain().await;
    let claims = route(&server, "tiss-claims").await["policy"].clone();
    let told = ["baseMs", "capMs", "jitter", "floorMs", "maxAttempts", "scheduleMs"]
        .map(|field| claims[field].clone());
    assert_eq!(json!(told), json!([300_000, 14_400_000, "±20%", 300_000, 6, null]));
    let attempts = claims["attempts"].as_array().unwrap();
    assert_eq!((attempts.len(), &attempts[0]["delayMs"]), (6, &json!(0)));
    let third = ["delayMs", "delayMinMs", "delayMaxMs", "atMs"].map(|field| attempts[2][field].clone());
    assert_eq!(json!(third), json!([600_000, 480_000, 720_000, 900_000]));
    server.stop().await;
}

#[tokio::test]
async fn a_paused_route_parks_its_jobs_until_it_is_resumed_and_others_go_on() {
    on_each_store(async |server: &Server| {
        let client = server.client().with_actor("ana").unwrap();
        let why = |reason: &str| PauseRequest { reason: Some(reason.to_owned()) };
        let shown = client.pause_route("sandbox", &why("wrong template")).await.unwrap();
        let paused = shown.paused.unwrap();
        assert_eq!(
            (paused.reason.as_deref(), paused.actor.as_deref()),
            (Some("wrong template"), Some("ana"))
        );
        let waiting = enqueue(server, "sandbox").await;
        let other = enqueue(server, "patient").await;
        server.until(&other, "sent").await;
        let job = server.until(&waiting, "parked").await;
        let since = serde_json::to_value(paused.since).unwrap();
        let pause = json!({
            "reason": "pause", "code": "route", "why": "route paused: wrong template", "said": "wrong template",
            "since": since, "actor": "ana",
        });
        assert_eq!((&job["waitingFor"], &job["attempts"]), (&pause, &json!([])));
        let shown = route(server, "sandbox").await;
        assert_eq!((&shown["waiting"], &shown["waitingFor"]), (&json!(1), &pause));
        assert_eq!(server.get("/v1/providers/sandbox").await.body["parked"], 1);
        let shown = client.resume_route("sandbox", &PauseRequest::default()).await.unwrap();
        assert_eq!((shown.paused, shown.waiting_for), (None, None));
        server.until(&waiting, "sent").await;
    })
    .await;
}

#[tokio::test]
async fn what_is_wrong_with_a_request_about_a_route_is_named() {
    let server = Server::plain().await;
    server.post("/v1/routes/unknown/pause", "{}").await.is_problem(404, "not_found");
    server.post("/v1/routes/sandbox/pause", r#"{"why": "x"}"#).await.faults_at(&["/why"]);
    let long = json!({"reason": "x".repeat(2_000)});
    server.post("/v1/routes/sandbox/resume", long.to_string()).await.faults_at(&["/reason"]);
    assert!(route(&server, "sandbox").await.get("paused").is_none());
    server.stop().await;
}
