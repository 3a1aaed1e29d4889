//! The fallback table, one test per row, for operations that fail for good. What happens while a
//! breaker is open belongs to the breaker.

use serde_json::{Value, json};

use super::far_ends::receiver::{self, verified};
use super::far_ends::{Act, FarEnd, graph, openai, page};
use super::given::eventually;
use super::scene::{Scene, tries, waits};

/// Two tries in haste.
const HASTY: &str = "policy = { schedule = [\"0s\", \"20ms\"], jitter = \"none\" }\n";

fn post(id: &str) -> Value {
    json!({ "path": "v1/media", "body": { "caption": id } })
}

/// Instagram behind a route of one's own, with a fallback.
fn scene(instagram: &FarEnd, route: &str, fallback: &str, more: &str) -> Scene {
    let provider = graph::provider(instagram);
    let route = format!("[routes.{route}]\nprovider = \"instagram\"\nclassifier = \"social\"\n");
    Scene::with(&format!("{provider}{more}{route}{HASTY}fallback = {fallback}\n"))
}

#[test]
fn f12_publication_is_marked_failed_and_the_user_is_notified() {
    let (instagram, ops) = (graph::start(), receiver::start());
    let more = receiver::provider() + &receiver::channel("users", &ops);
    let scene = scene(&instagram, "publish", "{ do = \"mark_failed\", notify = \"users\" }", &more);
    instagram.always("post-1", page(503));
    let job = json!({
        "jobId": "post-1", "route": "publish", "companyId": "acme", "userId": "ana", "data": post("post-1"),
    });
    scene.enqueue(job);
    scene.buried("post-1", "EXHAUSTED");
    assert_eq!(scene.job("post-1")["status"], "failed");
    instagram.was_asked("post-1", 2);
    let told = verified(&ops.once("post-1", 1)[0], receiver::SECRET);
    assert_eq!((&told["type"], &told["companyId"]), (&json!("JobFailed"), &json!("acme")));
    assert_eq!((&told["data"]["userId"], &told["data"]["status"]), (&json!("ana"), &json!("failed")));
    assert_eq!(ops.ledger().len(), 1);
}

#[test]
fn f12_sync_analytics_answers_with_the_last_metric_and_schedules_a_retry_that_renews_it() {
    let instagram = graph::start();
    let scene = scene(&instagram, "analytics", "{ do = \"cached\" }", "");
    let call = json!({
        "route": "analytics", "companyId": "acme", "cacheKey": "insights:42",
        "data": { "method": "GET", "path": "v1/insights" },
    });
    let ask = || {
        let (status, body) = scene.ask("POST", "/v1/calls", &call);
        assert_eq!(status, 200, "{body:#}");
        body
    };
    let metric = |body: &Value| body["answer"]["data"][0]["values"][0]["value"].clone();
    let measure = |value: u64| {
        super::far_ends::json(
            200,
            json!({ "data": [{ "name": "impressions", "values": [{ "value": value }] }] }),
        )
    };

    let fresh = ask();
    assert_eq!((metric(&fresh), &fresh["fallback"]), (json!(7), &Value::Null));
    // An answer is written down a moment after it was given.
    let mut cached = Value::Null;
    eventually(|| {
        instagram.recovers();
        instagram.orders("insights", [page(503), measure(8)]);
        let (status, body) = scene.ask("POST", "/v1/calls", &call);
        cached = body;
        status == 200
    });
    assert_eq!((metric(&cached), &cached["fallback"]), (json!(7), &json!("cached")));
    assert!(cached["ageMs"].is_u64() && cached["tookMs"].is_null(), "{cached:#}");
    assert_eq!(cached["error"]["errorCode"], "503");
    assert_eq!(cached["error"]["rule"], "social/503");

    let retry = cached["retryJobId"].as_str().expect("a retry is scheduled");
    assert_eq!(tries(&scene.sent(retry)), ["sent"]);
    instagram.recovers();
    instagram.always("insights", page(503));
    eventually(|| metric(&ask()) == json!(8));
}

#[test]
fn a_job_of_a_callers_own_cannot_put_words_into_a_remembered_answer() {
    let instagram = graph::start();
    let scene = scene(&instagram, "analytics", "{ do = \"cached\" }", "");
    let call = json!({
        "route": "analytics", "companyId": "acme", "cacheKey": "insights:42",
        "data": { "method": "GET", "path": "v1/insights" },
    });
    scene.ask("POST", "/v1/calls", &call);
    instagram.always("insights", page(503));
    let mut cached = Value::Null;
    eventually(|| {
        cached = scene.ask("POST", "/v1/calls", &call).1;
        cached["fallback"] == "cached"
    });
    let (refresh, _) = cached["retryJobId"].as_str().unwrap().rsplit_once(':').unwrap();
    let id = format!("{refresh}:0");
    let forged =
        json!({ "jobId": id, "route": "analytics", "companyId": "intruder", "data": post("forged") });
    assert_eq!(scene.ask("POST", "/v1/jobs", &forged).0, 422, "the id is Recado's own");
    // A call of another key is written down after the forged answer would have been.
    let other = json!({
        "route": "analytics", "companyId": "acme", "cacheKey": "other", "data": { "method": "GET", "path": "v1/other" },
    });
    scene.ask("POST", "/v1/calls", &other);
    instagram.always("other", page(503));
    eventually(|| scene.ask("POST", "/v1/calls", &other).1["fallback"] == "cached");
    let (_, answer) = scene.ask("POST", "/v1/calls", &call);
    assert_eq!(answer["answer"], cached["answer"], "the intruder's answer");
}

#[test]
fn f12_comments_are_collected_at_the_next_time_instead_of_never() {
    let instagram = graph::start();
    let scene = scene(&instagram, "comments", "{ do = \"reschedule\", after = \"1s\" }", "");
    instagram.orders("comments", [page(503), page(503)]);
    let data = json!({ "method": "GET", "path": "v1/media/1/comments" });
    scene.send("comments", "acme", "collect-1", &data);
    let job = scene.sent("collect-1");
    let failed = "failed 503 TRANSIENT social/503";
    assert_eq!(
        (tries(&job), waits(&job)),
        (vec![failed.into(), failed.into(), "sent".into()], vec![20, 1_000])
    );
    instagram.was_asked("collect-1", 3);
    scene.is_not_buried("collect-1");

    instagram.always("comments", page(404));
    scene.send("comments", "acme", "collect-2", &data);
    scene.buried("collect-2", "PERMANENT");
}

#[test]
fn f12_token_refresh_that_fails_marks_the_account_as_token_expired() {
    let instagram = graph::start();
    let scene = scene(&instagram, "token-refresh", "{ do = \"mark_account\" }", "");
    let listener = scene.listen();
    // Not even a refused credential: whatever it was, the account has no token that works.
    instagram.always("refresh-1", page(503));
    scene.send("token-refresh", "acme", "refresh-1", &post("refresh-1"));
    scene.buried("refresh-1", "EXHAUSTED");
    let event = listener.hears("token_expired", "refresh-1");
    assert_eq!(event["data"]["status"], "token_expired");
    let accounts = scene.get("/v1/accounts?companyId=acme");
    assert_eq!(accounts["items"][0]["status"], "token_expired", "{accounts:#}");
    assert_eq!(accounts["items"][0]["route"], "token-refresh");
}

#[test]
fn f12_webhook_failures_are_on_record_and_ten_in_a_row_switch_the_endpoint_off() {
    let customer = receiver::start();
    let once = "[routes.webhook]\npolicy = { schedule = [\"0s\"] }\n";
    let scene = Scene::with(&format!("{}{once}", receiver::provider()));
    let (endpoint, _) = scene.endpoint("acme", &customer.url(), &["JobFailed"]);
    customer.always("", receiver::error(500));
    let shown = || scene.get(&format!("/v1/endpoints/{endpoint}"));
    for count in 1..=10 {
        let id = format!("hook-{count}");
        let data = json!({ "endpointId": endpoint, "event": "post.published", "payload": { "n": count } });
        scene.send("webhook", "acme", &id, &data);
        assert_eq!(tries(&scene.buried(&id, "EXHAUSTED")), ["failed 500 TRANSIENT http/500"]);
        eventually(|| shown()["consecutiveFailures"] == count);
        assert_eq!(shown()["enabled"], count < 10, "after {count} failures");
    }
    assert_eq!(shown()["disabledReason"], "10 deliveries in a row failed");
    assert_eq!(customer.ledger().len(), 10);
}

#[test]
fn f12_ai_generation_returns_503_and_says_when_to_come_back() {
    let openai = openai::start();
    let scene = Scene::with(&(openai::provider(&openai) + "breaker = false\n"));
    let call = json!({
        "route": "openai", "companyId": "acme",
        "data": { "path": "v1/chat/completions", "body": { "messages": [{ "role": "user", "content": "Oi" }] } },
    });
    let (status, _, body) = scene.exchange("POST", "/v1/calls", &call);
    assert_eq!(
        (status, &body["answer"]["choices"][0]["message"]["content"]),
        (200, &json!("Olá!")),
        "{body:#}"
    );

    for (act, seconds) in
        [(openai::overloaded().with("retry-after", 20), 20..=20), (openai::overloaded(), 60..=72)]
    {
        openai.orders("completions", [act]);
        let (status, head, problem) = scene.exchange("POST", "/v1/calls", &call);
        assert_eq!((status, &problem["code"]), (503, &json!("provider_unavailable")), "{problem:#}");
        let after = head.lines().find_map(|line| line.strip_prefix("retry-after: ")).expect("Retry-After");
        assert!(seconds.contains(&after.trim().parse::<u64>().unwrap()), "{after} instead of {seconds:?}");
    }
    let mut hasty = call.clone();
    (hasty["timeoutMs"], hasty["cacheKey"]) = (json!(200), json!("caption"));
    openai.orders("completions", [Act::silence()]);
    let (status, _, problem) = scene.exchange("POST", "/v1/calls", &hasty);
    assert_eq!((status, &problem["errorCode"]), (503, &json!("TIMEOUT")), "{problem:#}");
    assert_eq!(openai.ledger().len(), 4, "a call is never retried behind the caller's back");

    // A provider that asks for quiet gets it: the next call is answered without asking.
    openai.orders("completions", [openai::rate_limit().with("retry-after-ms", 30_000)]);
    for code in ["429", "RATE_LIMITED"] {
        let (status, head, problem) = scene.exchange("POST", "/v1/calls", &call);
        assert_eq!((status, &problem["errorCode"]), (503, &json!(code)), "{problem:#}");
        let after = head.lines().find_map(|line| line.strip_prefix("retry-after: ")).expect("Retry-After");
        assert!((1..=30).contains(&after.trim().parse::<u64>().unwrap()), "{after}");
    }
    assert_eq!(openai.ledger().len(), 5);
    assert_eq!(scene.get("/v1/dlq")["items"], json!([]));
}
