//! Providers: breakers, pauses, limits, what waits for them, and the breaker for callers' own code.

use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::breaker::BreakerTerms;
use recado_core::limit::Rate;
use recado_engine::Route;
use recado_engine::admission::provider::ProviderTerms;
use recado_transport::{Sandbox, Transport};
use recado_wire::providers::{BreakerAction, BreakerRequest, FailureReport, PauseRequest, SuccessReport};
use serde_json::{Value, json};

use crate::ear::Ear;
use crate::given::{Kind, PATIENCE, Server, Setup, ms, on_each_store, sandbox_route};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

/// Five failures within a minute.
fn guarded(reset: Duration) -> ProviderTerms {
    let breaker = BreakerTerms::new(5, Duration::from_secs(60), reset);
    ProviderTerms { breaker: Some(breaker), ..ProviderTerms::plain(16) }
}

/// Routes `sandbox` and `patient` (which retries after an hour), each with its provider behind a breaker.
async fn server(kind: Kind, reset: Duration) -> Server {
    let providers = vec![("sandbox", guarded(reset)), ("patient", guarded(reset))];
    Server::start(Setup { kind, providers, ..Setup::default() }).await
}

async fn provider(server: &Server, name: &str) -> Value {
    let answer = server.get(&format!("/v1/providers/{name}")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

/// Waits until a provider's breaker is in this state, and shows it.
async fn until_state(server: &Server, name: &str, state: &str) -> Value {
    let started = Instant::now();
    loop {
        let shown = provider(server, name).await;
        if shown["state"] == state {
            return shown;
        }
        assert!(started.elapsed() < PATIENCE, "{name} is not {state}: {shown}");
        tokio::time::sleep(ms(5)).await;
    }
}

async fn enqueue(server: &Server, route: &str, script: &str) -> String {
    server.enqueue(json!({"route": route, "companyId": "acme", "data": {"script": [script]}})).await
}

async fn post(server: &Server, path: &str, body: Value) -> Value {
    let answer = server.post(path, body.to_string()).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

async fn job(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/jobs/{id}")).await.body
}

#[tokio::test]
async fn f1_five_failures_within_the_window_open_the_breaker_and_its_jobs_wait_without_spending_attempts() {
    let server = server(Kind::Memory, LONG).await;
    for number in 1..=4 {
        let failed = enqueue(&server, "patient", "503 down").await;
        server.until(&failed, "retrying").await;
        let shown = provider(&server, "patient").await;
        assert_eq!((&shown["state"], &shown["failuresInWindow"]), (&json!("CLOSED"), &json!(number)));
    }
    enqueue(&server, "patient", "503 down").await;
    until_state(&server, "patient", "OPEN").await;
    let waiting = [enqueue(&server, "patient", "ok").await, enqueue(&server, "patient", "ok").await];
    for id in &waiting {
        let shown = job(&server, id).await;
        assert_eq!(shown["status"], "parked", "{shown}");
        assert_eq!(shown["attempts"], json!([]));
        assert_eq!(shown["waitingFor"]["reason"], "breaker");
        assert!(shown["waitingFor"]["until"].is_string(), "{shown}");
        assert!(shown["waitingFor"]["why"].as_str().unwrap().contains("OPEN"), "{shown}");
    }
    let other = enqueue(&server, "sandbox", "ok").await;
    server.until(&other, "sent").await;

    let shown = provider(&server, "patient").await;
    assert_eq!(shown["parked"], 2, "those that wait for their retry are not due: {shown}");
    assert_eq!(shown["failuresInWindow"], 5);
    assert_eq!(shown["routes"], json!(["patient"]));
    assert!(shown["reason"].as_str().unwrap().contains("down"), "{shown}");
    assert_eq!(shown["waitingFor"]["until"], shown["nextProbeAt"]);
    let limits = json!({"breaker": {"failures": 5, "withinMs": 60_000, "resetMs": 600_000}, "concurrency": 16, "adaptive": false});
    assert_eq!(shown["limits"], limits);
    for id in &waiting {
        assert_eq!(job(&server, id).await["attempts"], json!([]));
    }
    let list = server.get("/v1/providers").await.body;
    let states: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|it| (&it["name"], &it["state"])).collect();
    assert!(states.contains(&(&json!("patient"), &json!("OPEN"))), "{states:?}");
    assert!(states.contains(&(&json!("sandbox"), &json!("CLOSED"))), "one provider's trouble is its own");
    server.stop().await;
}

#[tokio::test]
async fn f1_a_retry_that_comes_due_while_the_breaker_is_open_is_parked_and_keeps_its_attempts() {
    let breaker = Some(BreakerTerms::new(1, LONG, LONG));
    let providers = vec![("sandbox", ProviderTerms { breaker, ..ProviderTerms::plain(16) })];
    let server = Server::start(Setup { providers, ..Setup::default() }).await;
    let tried = json!({"route": "sandbox", "companyId": "acme", "data": {"script": ["503 down", "ok"]}});
    let tried = server.enqueue(tried).await;
    let shown = server.until(&tried, "parked").await;
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["waitingFor"]["reason"], "breaker");
    assert_eq!(server.get("/v1/jobs?status=retrying").await.body, json!({"items": []}));
    assert_eq!(provider(&server, "sandbox").await["parked"], 1);
    let closing = json!({"action": "close", "reason": "they are back"});
    post(&server, "/v1/providers/sandbox/breaker", closing).await;
    let shown = server.until(&tried, "sent").await;
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 2, "{shown}");
    server.stop().await;
}

#[tokio::test]
async fn g24_a_route_with_a_second_provider_is_parked_only_when_both_are_held() {
    let second = Arc::new(Sandbox) as Arc<dyn Transport>;
    let two = Route { others: vec![("second".into(), second)], ..sandbox_route("two") };
    let providers = vec![("two", guarded(LONG)), ("second", guarded(LONG))];
    let server = Server::start(Setup { providers, routes: vec![two], ..Setup::default() }).await;
    let opening = json!({"action": "open", "reason": "drill"});
    let shown = post(&server, "/v1/providers/two/breaker", opening.clone()).await;
    assert_eq!(shown["routes"], json!(["two"]));
    let sent = enqueue(&server, "two", "ok").await;
    server.until(&sent, "sent").await;
    post(&server, "/v1/providers/second/breaker", opening).await;
    let waiting = enqueue(&server, "two", "ok").await;
    server.until(&waiting, "parked").await;
    for name in ["two", "second"] {
        assert_eq!(provider(&server, name).await["parked"], 1, "{name}");
    }
    post(&server, "/v1/providers/second/breaker", json!({"action": "close", "reason": "over"})).await;
    server.until(&waiting, "sent").await;
    server.stop().await;
}

#[tokio::test]
async fn f5_the_stream_tells_when_a_breaker_opens_probes_and_closes() {
    let server = server(Kind::Memory, ms(200)).await;
    let mut ear = Ear::open(&server, "").await;
    for _ in 0..5 {
        enqueue(&server, "patient", "503 down").await;
    }
    let opened = ear.until("CircuitBreakerOpened").await;
    assert_eq!(opened.data["data"]["provider"], "patient");
    assert_eq!(
        (&opened.data["data"]["status"], &opened.data["data"]["failures"]),
        (&json!("OPEN"), &json!(5))
    );
    assert!(opened.data["data"]["nextRetryTime"].is_string(), "{:?}", opened.data);

    let probe = json!({"route": "patient", "companyId": "acme", "data": {"script": ["ok"], "latencyMs": 20}});
    let probe = server.enqueue(probe).await;
    let mut told = Vec::new();
    while told.len() < 2 {
        let said = ear.next().await;
        if said.event.starts_with("CircuitBreaker") {
            told.push((said.data["timestamp"].as_str().unwrap().to_owned(), said.event));
        }
    }
    // They are written down before they are told, each on its own; when it was is in the event.
    told.sort();
    let kinds: Vec<&str> = told.iter().map(|(_, kind)| kind.as_str()).collect();
    assert_eq!(kinds, ["CircuitBreakerHalfOpen", "CircuitBreakerClosed"]);
    let sent = server.until(&probe, "sent").await;
    assert_eq!(sent["attempts"].as_array().unwrap().len(), 1, "{sent}");
    assert_eq!(provider(&server, "patient").await["state"], "CLOSED");
    server.stop().await;
}

#[tokio::test]
async fn f1_a_breaker_is_opened_and_closed_by_hand_with_a_reason_and_a_name() {
    let server = server(Kind::Memory, ms(1)).await;
    let request = server.http.post(server.url("/v1/providers/sandbox/breaker"));
    let request = request.header("content-type", "application/json").header("x-recado-actor", "ana");
    let body = json!({"action": "open", "reason": "their maintenance"}).to_string();
    let answer = crate::given::Answer::of(request.body(body).send().await.unwrap()).await;
    assert_eq!((answer.status, &answer.body["state"]), (200, &json!("OPEN")), "{}", answer.body);
    assert_eq!(answer.body["heldOpen"], true);
    let reason = answer.body["reason"].as_str().unwrap();
    assert!(reason.contains("their maintenance") && reason.contains("ana"), "{reason}");
    assert!(answer.body.get("nextProbeAt").is_none(), "it waits for a person: {}", answer.body);

    let waiting = enqueue(&server, "sandbox", "ok").await;
    let shown = server.until(&waiting, "parked").await;
    assert_eq!(shown["waitingFor"]["reason"], "breaker");
    assert!(shown["waitingFor"].get("until").is_none(), "{shown}");

    let closed = json!({"action": "close", "reason": "they are back"});
    let shown = post(&server, "/v1/providers/sandbox/breaker", closed).await;
    assert_eq!((&shown["state"], shown.get("heldOpen")), (&json!("CLOSED"), None));
    server.until(&waiting, "sent").await;
    server.stop().await;
}

#[tokio::test]
async fn a_paused_provider_parks_its_jobs_until_it_is_resumed() {
    on_each_store(async |server: &Server| {
        let shown = post(server, "/v1/providers/sandbox/pause", json!({"reason": "invoice open"})).await;
        assert_eq!(
            (&shown["paused"]["reason"], &shown["paused"]["actor"]),
            (&json!("invoice open"), &json!("api"))
        );
        assert!(shown["paused"]["since"].is_string());
        let waiting = enqueue(server, "sandbox", "ok").await;
        server
            .enqueue(json!({"route": "sandbox", "companyId": "acme", "delayMs": 600_000, "data": {}}))
            .await;
        let shown = server.until(&waiting, "parked").await;
        let waiting_for = &shown["waitingFor"];
        assert_eq!((&waiting_for["reason"], &waiting_for["actor"]), (&json!("pause"), &json!("api")));
        assert_eq!(
            (&waiting_for["code"], &waiting_for["said"]),
            (&json!("provider"), &json!("invoice open"))
        );
        assert_eq!(waiting_for["why"], "paused: invoice open");
        assert_eq!(shown["deferrals"], 1, "the wait that it is in");
        assert_eq!(provider(server, "sandbox").await["parked"], 1, "what is not due is not parked");
        let answer = server.http.post(server.url("/v1/providers/sandbox/resume")).send().await.unwrap();
        let shown: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!((shown.get("paused"), shown.get("waitingFor")), (None, None), "{shown}");
        let shown = server.until(&waiting, "sent").await;
        assert_eq!((&shown["deferrals"], &shown["attempts"][0]["provider"]), (&json!(1), &json!("sandbox")));
        assert_eq!(provider(server, "sandbox").await["parked"], 0);
    })
    .await;
}

#[tokio::test]
async fn parked_jobs_are_listed_page_by_page_and_are_no_longer_listed_as_queued_or_retrying() {
    on_each_store(async |server: &Server| {
        let tried = enqueue(server, "patient", "ok").await;
        server.until(&tried, "sent").await;
        post(server, "/v1/providers/sandbox/pause", json!({})).await;
        let mut parked = Vec::new();
        for number in 0..7 {
            parked.push(enqueue(server, "sandbox", "ok").await);
            let other =
                json!({"jobId": format!("other-{number}"), "route": "work", "companyId": "acme", "data": 1});
            server.enqueue(other).await;
        }
        parked.reverse();
        for limit in [1, 2, 7, 100] {
            let (mut seen, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = server.get(&format!("/v1/jobs?status=parked&limit={limit}{cursor}")).await.body;
                let items = page["items"].as_array().unwrap();
                assert!(items.len() <= limit && items.iter().all(|it| it["status"] == "parked"), "{page}");
                seen.extend(items.iter().map(|item| item["jobId"].as_str().unwrap().to_owned()));
                match page.get("nextCursor") {
                    Some(next) => cursor = format!("&cursor={}", next.as_str().unwrap()),
                    None => break,
                }
            }
            assert_eq!(seen, parked, "limit {limit}");
        }
        let queued = server.get("/v1/jobs?status=queued").await.body;
        let queued: Vec<_> = queued["items"].as_array().unwrap().iter().map(|it| &it["route"]).collect();
        assert_eq!(queued, [&json!("work"); 7]);
        let waiting = job(server, "other-0").await;
        assert_eq!(
            (&waiting["status"], &waiting["waitingFor"]),
            (&json!("queued"), &json!({"reason": "turn"}))
        );
    })
    .await;
}

#[tokio::test]
async fn a_rate_that_is_used_up_parks_a_job_with_the_time_it_is_free_again() {
    let rate = Some(Rate { max: 2, per: LONG });
    let providers = vec![("sandbox", ProviderTerms { rate, ..ProviderTerms::plain(4) })];
    let server = Server::start(Setup { providers, ..Setup::default() }).await;
    for _ in 0..2 {
        let sent = enqueue(&server, "sandbox", "ok").await;
        server.until(&sent, "sent").await;
    }
    let waiting = enqueue(&server, "sandbox", "ok").await;
    let shown = server.until(&waiting, "parked").await;
    assert_eq!((&shown["waitingFor"]["reason"], &shown["attempts"]), (&json!("limit"), &json!([])));
    assert!(shown["waitingFor"]["until"].is_string(), "{shown}");
    let shown = provider(&server, "sandbox").await;
    assert_eq!(shown["limits"]["rate"], json!({"max": 2, "perMs": 600_000}));
    assert_eq!((&shown["waitingFor"]["reason"], &shown["parked"]), (&json!("limit"), &json!(1)));
    server.stop().await;
}

#[tokio::test]
async fn f3_the_callers_own_code_asks_the_same_breaker_and_tells_it_how_it_went() {
    let providers = vec![("sandbox", guarded(LONG)), ("patient", guarded(ms(1)))];
    let server = Server::start(Setup { providers, ..Setup::default() }).await;
    let client = server.client();
    let failed = FailureReport { reason: Some("connection refused".to_owned()), took_ms: Some(30) };
    for name in ["sandbox", "patient"] {
        for number in 1..=5 {
            let permit = client.permit(name).await.unwrap();
            assert!(
                permit.permitted && permit.reason.is_none() && permit.retry_after_ms.is_none(),
                "{permit:?}"
            );
            let told = client.report_failure(name, &failed).await.unwrap();
            assert_eq!(told.failures_in_window, number);
        }
        let open = client.provider(name).await.unwrap();
        assert_eq!((open.state.as_str(), open.reason.as_deref()), ("OPEN", Some("connection refused")));
    }
    let refused = client.permit("sandbox").await.unwrap();
    assert_eq!((refused.permitted, refused.state.as_str()), (false, "OPEN"));
    assert!(refused.reason.unwrap().contains("connection refused"));
    assert!((1..=600_000).contains(&refused.retry_after_ms.unwrap()));

    // When the reset time is over one probe may go, and no other delivery beside it.
    let started = Instant::now();
    let probe = loop {
        let permit = client.permit("patient").await.unwrap();
        if permit.permitted {
            break permit;
        }
        assert!(started.elapsed() < PATIENCE, "the probe is never let go");
    };
    assert_eq!(probe.state.as_str(), "HALF_OPEN");
    let beside = client.permit("patient").await.unwrap();
    assert!(!beside.permitted && beside.retry_after_ms.is_some(), "{beside:?}");

    let told = client.report_success("patient", &SuccessReport { took_ms: Some(12) }).await.unwrap();
    assert_eq!((told.state.as_str(), told.failures_in_window), ("CLOSED", 0));
    assert!(client.permit("patient").await.unwrap().permitted);
    assert_eq!(client.provider("sandbox").await.unwrap().state.as_str(), "OPEN", "each has its own");
    server.stop().await;
}

#[tokio::test]
async fn f3_a_permit_needs_no_body_and_an_open_breaker_is_an_answer() {
    let server = server(Kind::Memory, LONG).await;
    let client = server.client();
    let asked = BreakerRequest { action: BreakerAction::Open, reason: "drill".to_owned() };
    client.turn_breaker("patient", &asked).await.unwrap();
    let answer = server.http.post(server.url("/v1/providers/patient/permit")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let permit: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
    assert_eq!((&permit["permitted"], &permit["state"]), (&json!(false), &json!("OPEN")));
    assert!(permit.get("retryAfterMs").is_none(), "only a person knows: {permit}");
    let paused = client.pause_provider("sandbox", &PauseRequest::default()).await.unwrap();
    assert!(paused.paused.is_some());
    let refused = client.permit("sandbox").await.unwrap();
    assert!(!refused.permitted && refused.reason.unwrap().starts_with("paused"));
    assert!(client.resume_provider("sandbox", &PauseRequest::default()).await.unwrap().paused.is_none());
    assert!(client.permit("sandbox").await.unwrap().permitted);
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_request_about_a_provider_is_named() {
    let server = server(Kind::Memory, LONG).await;
    server.get("/v1/providers/unknown").await.is_problem(404, "not_found");
    let opening = json!({"action": "open", "reason": "x"}).to_string();
    for act in ["breaker", "pause", "resume", "permit", "success", "failure"] {
        let body = if act == "breaker" { opening.clone() } else { "{}".to_owned() };
        server.post(&format!("/v1/providers/unknown/{act}"), body).await.is_problem(404, "not_found");
    }
    let breaker = "/v1/providers/sandbox/breaker";
    server.post(breaker, "{}").await.faults_at(&["/action", "/reason"]);
    let answer = server.post(breaker, r#"{"action": "opened", "reason": " ", "because": 1}"#).await;
    answer.faults_at(&["/because", "/action", "/reason"]);
    assert!(answer.fault("/action").contains("open"), "{}", answer.body);
    let long = json!({"reason": "x".repeat(1_001)}).to_string();
    server.post("/v1/providers/sandbox/pause", long.clone()).await.faults_at(&["/reason"]);
    server.post("/v1/providers/sandbox/failure", long).await.faults_at(&["/reason"]);
    let negative = r#"{"tookMs": -1}"#;
    server.post("/v1/providers/sandbox/success", negative).await.faults_at(&["/tookMs"]);
    assert_eq!(provider(&server, "sandbox").await["state"], "CLOSED", "nothing was changed");
    let answer = server.post("/v1/providers/work/breaker", opening).await;
    answer.is_problem(409, "conflict");
    assert!(answer.body["detail"].as_str().unwrap().contains("pause it"), "{}", answer.body);
    server.stop().await;
}
