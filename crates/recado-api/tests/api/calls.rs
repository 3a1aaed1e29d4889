//! Calls: the provider's answer, or the last good one, or when to come back.

use recado_testkit::far_end::FarEnd;
use recado_testkit::http::{Act, json_text};
use serde_json::{Value, json};

use crate::given::{Answer, Kind, PATIENCE, Server, Setup, http_route, ms, on_each_store};

async fn server(kind: Kind, provider: &FarEnd) -> Server {
    let routes = vec![http_route("figures", &provider.url_of::<String>("/"), "http")];
    Server::start(Setup { kind, routes, ..Setup::default() }).await
}

fn question(more: Value) -> String {
    let mut call =
        json!({"route": "figures", "companyId": "acme", "data": {"method": "GET", "path": "/insights"}});
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call.to_string()
}

/// Asks until the answer is of a kind: what is remembered is written down after it was given.
async fn ask_until(server: &Server, call: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
    let asking = async {
        loop {
            let answer = server.post("/v1/calls", call.to_owned()).await;
            if wanted(&answer) {
                return answer;
            }
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("the answer stays another")
}

#[tokio::test]
async fn a_provider_that_answers_is_heard_word_for_word_and_leaves_no_job() {
    let provider = FarEnd::agreeable();
    let server = server(Kind::Memory, &provider).await;
    provider.says(200, r#"{"followers": 12345678901234567890, "new": null}"#);
    let answer = server.post("/v1/calls", question(json!({}))).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.body["answer"], json!({"followers": 12345678901234567890_u64, "new": null}));
    assert_eq!(answer.body["fallback"], Value::Null);
    assert!(answer.body.as_object().unwrap().contains_key("fallback") && answer.body["tookMs"].is_u64());
    assert!(answer.body.get("ageMs").is_none() && answer.body.get("error").is_none(), "{}", answer.body);
    let got = &provider.arrived(1).await[0];
    assert_eq!(got.path, "/insights");
    assert!(got.header("idempotency-key").starts_with("call-"), "{got:?}");
    assert_eq!(server.get("/v1/jobs").await.body["items"], json!([]));
}

#[tokio::test]
async fn f12_a_provider_that_fails_is_stood_in_for_by_its_last_answer_until_a_retry_renews_it() {
    for kind in [Kind::Memory, Kind::Embedded] {
        let provider = FarEnd::agreeable();
        let server = server(kind, &provider).await;
        let call = question(json!({"cacheKey": "insights"}));
        provider.says(200, r#"{"followers": 1}"#);
        assert_eq!(server.post("/v1/calls", call.clone()).await.body["answer"]["followers"], 1);

        provider.says(503, "busy");
        let cached = ask_until(&server, &call, |answer| answer.status == 200).await.body;
        assert_eq!((&cached["answer"], &cached["fallback"]), (&json!({"followers": 1}), &json!("cached")));
        assert!(cached["ageMs"].is_u64() && cached.get("tookMs").is_none(), "{cached}");
        let error = &cached["error"];
        assert_eq!(
            (&error["errorCode"], &error["errorClassification"]),
            (&json!("503"), &json!("TRANSIENT"))
        );
        assert!(
            error["errorReason"].as_str().unwrap().contains("busy") && error["rule"].is_string(),
            "{error}"
        );

        provider.says(200, r#"{"followers": 2}"#);
        let retry = cached["retryJobId"].as_str().unwrap();
        server.until(retry, "sent").await;
        provider.says(503, "busy again");
        let renewed = |answer: &Answer| answer.body["answer"]["followers"] == 2;
        assert_eq!(ask_until(&server, &call, renewed).await.body["fallback"], "cached");

        let others = [
            question(json!({"cacheKey": "another"})),
            question(json!({"cacheKey": "insights", "companyId": "other"})),
            question(json!({})),
        ];
        for call in others {
            server.post("/v1/calls", call).await.is_problem(503, "provider_unavailable");
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn f12_without_an_earlier_answer_the_caller_hears_when_to_come_back_and_why() {
    let provider = FarEnd::agreeable();
    let server = server(Kind::Memory, &provider).await;
    provider.says(500, "");
    let answer = server.post("/v1/calls", question(json!({}))).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "the policy says 20 ms");
    provider.answers(json_text(429, "slow down").with("retry-after", "7"));
    let answer = server.post("/v1/calls", question(json!({}))).await;
    answer.is_problem(503, "provider_unavailable");
    assert_eq!(answer.header("retry-after"), "7");
    assert_eq!(
        (&answer.body["errorCode"], &answer.body["errorClassification"]),
        (&json!("429"), &json!("RATE_LIMIT"))
    );
    let (detail, rule) = (answer.body["detail"].as_str().unwrap(), answer.body["rule"].as_str().unwrap());
    for part in ["429", "slow down", "RATE_LIMIT", rule] {
        assert!(detail.contains(part), "no {part}: {detail}");
    }
    // It asked for quiet, and gets it.
    provider.says(200, "{}");
    let answer = server.post("/v1/calls", question(json!({}))).await;
    answer.is_problem(503, "provider_unavailable");
    assert_eq!(answer.body["errorCode"], "RATE_LIMITED", "{}", answer.body);
    assert!((1..=7).contains(&answer.header("retry-after").parse::<u32>().unwrap()), "{}", answer.body);
}

#[tokio::test]
async fn f12_what_is_refused_for_good_is_not_asked_again_on_the_quiet() {
    let provider = FarEnd::agreeable();
    let server = server(Kind::Memory, &provider).await;
    let call = question(json!({"cacheKey": "k"}));
    server.post("/v1/calls", call.clone()).await;
    provider.says(400, "no such field");
    let cached = ask_until(&server, &call, |answer| answer.status == 200).await.body;
    assert_eq!(cached["error"]["errorClassification"], "PERMANENT");
    assert!(cached.get("retryJobId").is_none(), "{cached}");
}

#[tokio::test]
async fn f12_a_refusal_for_good_is_no_outage_and_names_no_time_to_come_back() {
    let provider = FarEnd::agreeable();
    let server = server(Kind::Memory, &provider).await;
    for status in [400, 401] {
        provider.says(status, "no such field");
        let answer = server.post("/v1/calls", question(json!({}))).await;
        answer.is_problem(502, "provider_refused");
        assert_eq!(answer.header("retry-after"), "");
        assert_eq!(
            (&answer.body["errorCode"], &answer.body["errorClassification"]),
            (&json!(status.to_string()), &json!("PERMANENT"))
        );
    }
}

#[tokio::test]
async fn a_caller_waits_no_longer_than_it_said() {
    let provider = FarEnd::agreeable();
    let server = server(Kind::Memory, &provider).await;
    provider.answers(Act::silence());
    let answer = server.post("/v1/calls", question(json!({"timeoutMs": 50}))).await;
    answer.is_problem(503, "provider_unavailable");
    // What is left of the fifty when the provider is asked.
    assert!(answer.body["detail"].as_str().unwrap().contains("no answer within"), "{}", answer.body);
}

#[tokio::test]
async fn every_fault_of_a_call_is_named_at_once() {
    on_each_store(async |server: &Server| {
        let call = |call: Value| call.to_string();
        let wrong =
            json!({"route": "nowhere", "companyId": "a b", "data": {}, "timeoutMs": 300_001, "cacheKey": ""});
        let answer = server.post("/v1/calls", call(wrong)).await;
        assert_eq!(answer.status, 422);
        let mut places = answer.pointers();
        places.sort_unstable();
        assert_eq!(places, ["/cacheKey", "/companyId", "/route", "/timeoutMs"]);
        assert!(answer.fault("/route").contains("known routes: "), "{}", answer.body);

        let bad_data =
            json!({"route": "sandbox", "companyId": "a", "data": {"script": [""], "latencyMs": -1}});
        server
            .post("/v1/calls", call(bad_data.clone()))
            .await
            .faults_at(&["/data/script/0", "/data/latencyMs"]);
        let mut both = bad_data;
        both["cacheKey"] = json!("x".repeat(257));
        server.post("/v1/calls", call(both)).await.faults_at(&[
            "/cacheKey",
            "/data/script/0",
            "/data/latencyMs",
        ]);

        for (route, why) in
            [("work", "workers"), ("email", "give it a provider"), ("nowhere", "known routes")]
        {
            let answer =
                server.post("/v1/calls", call(json!({"route": route, "companyId": "a", "data": {}}))).await;
            answer.faults_at(&["/route"]);
            assert!(answer.fault("/route").contains(why), "{}", answer.body);
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_stops_takes_no_calls() {
    let provider = FarEnd::agreeable();
    let server = server(Kind::Memory, &provider).await;
    server.engine.stop().await.unwrap();
    server.post("/v1/calls", question(json!({}))).await.is_problem(503, "stopping");
    assert!(provider.ledger().is_empty());
}
