//! `POST /v1/simulations`: the engine in virtual time.

use std::time::Instant;

use serde_json::{Value, json};

use crate::given::{Answer, PATIENCE, Server, ms};

async fn simulate(server: &Server, body: &Value) -> Answer {
    server.post("/v1/simulations", body.to_string()).await
}

/// Two jobs a second for two minutes, and an outage of half a minute.
fn small() -> Value {
    json!({
        "route": "sandbox", "ratePerSecond": 2, "companies": 3, "forMs": 120_000, "seed": 7,
        "outages": [{"fromMs": 30_000, "toMs": 60_000}],
    })
}

/// Works until its caller hangs up, or the server's patience ends.
fn large() -> Value {
    json!({"route": "sandbox", "ratePerSecond": 10_000, "forMs": 100_000})
}

#[tokio::test]
async fn a_simulation_tells_what_becomes_of_the_jobs_and_touches_none() {
    let server = Server::plain().await;
    let answer = simulate(&server, &small()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let policy = &answer.body["policies"][0];
    assert_eq!((&policy["name"], &policy["accepted"]), (&json!("policy"), &json!(240)));
    let figure = |name: &str| policy[name].as_u64().unwrap_or_else(|| panic!("{name} in {policy}"));
    assert_eq!(figure("accepted"), figure("sent") + figure("dead") + figure("waiting"));
    assert!(figure("attempts") > figure("accepted") && figure("peakRetriesPerSecond") > 0);
    assert!(figure("recoveredAtMs") >= 60_000);
    assert!(figure("duplicatesPossible") > 0);
    assert_eq!(policy["series"].as_array().map(Vec::len), Some(120));
    assert_eq!(simulate(&server, &small()).await.body, answer.body, "the same seed gives the same answer");
    let other = json!({"route": "sandbox", "ratePerSecond": 2, "companies": 3, "forMs": 120_000, "seed": 8});
    assert_ne!(simulate(&server, &other).await.body["policies"], answer.body["policies"]);

    assert_eq!(server.get("/v1/jobs").await.body["items"], json!([]));
    assert_eq!(server.records().await, [], "nothing of it is on record");
}

#[tokio::test]
async fn two_policies_stand_side_by_side() {
    let server = Server::plain().await;
    let mut asked = small();
    asked["against"] = json!("1");
    let answer = simulate(&server, &asked).await.body;
    let [own, other] = [0, 1].map(|at| answer["policies"][at].clone());
    assert_eq!((&own["name"], &other["name"]), (&json!("policy"), &json!("against")));
    assert_eq!((&own["policy"]["maxAttempts"], &other["policy"]["maxAttempts"]), (&json!(3), &json!(1)));
    assert!(other["dead"].as_u64() > own["dead"].as_u64(), "{} and {}", own["dead"], other["dead"]);
    assert_eq!(other["duplicatesPossible"], 0, "one attempt repeats nothing");
}

#[tokio::test]
async fn every_fault_of_a_request_is_named() {
    let server = Server::plain().await;
    let faulty = json!({
        "route": "sandbox", "companies": 0, "forMs": 60_000, "policy": "many", "seed": -1,
        "outages": [{"fromMs": 5_000, "toMs": 1_000}, {"fromMs": 5_000, "toMs": 61_000}],
    });
    let answer = simulate(&server, &faulty).await;
    answer.is_problem(422, "validation_failed");
    let mut pointers: Vec<_> = answer.body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| fault["pointer"].as_str().unwrap())
        .collect();
    pointers.sort_unstable();
    assert_eq!(pointers, ["/companies", "/outages/0", "/outages/1", "/policy", "/seed"]);
    let answer = simulate(&server, &json!({"route": "sandbx"})).await;
    answer.is_problem(422, "validation_failed");
    assert_eq!(answer.body["errors"][0]["pointer"], "/route");
    let answer =
        simulate(&server, &json!({"route": "sandbox", "ratePerSecond": 10_000, "forMs": 101_000})).await;
    answer.is_problem(422, "validation_failed");
    let said = answer.body["errors"][0]["message"].as_str().unwrap();
    assert!(said.contains("makes 1010000 jobs") && said.contains("lower it"), "{said}");
}

#[tokio::test]
async fn a_wrong_type_says_what_came_and_what_to_write() {
    let server = Server::plain().await;
    for (field, given, said) in [
        ("route", json!(7), "is a number; write the name of a route"),
        ("ratePerSecond", json!("fast"), "is a string; write a number of jobs a second"),
        ("ratePerSecond", json!([1]), "is a list; write a number of jobs a second"),
        ("companies", json!("many"), "is a string; write a whole number of companies"),
        ("companies", json!(1.5), "is not a whole number; write a whole number of companies"),
        ("latencyMs", json!(true), "write whole milliseconds"),
        ("forMs", json!("2h"), "is a string; write whole milliseconds, such as 7200000"),
        ("seed", json!("x"), "is a string; write a whole number from 0 on"),
        ("outages", json!("10m..40m"), "is a string; write a list such as [{"),
        ("outages", json!([5]), "is a number; write an object"),
        (
            "outages",
            json!([{"fromMs": "10m", "toMs": 5}]),
            "is a string; write whole milliseconds from the start",
        ),
        ("policy", json!(3), "is a number; write a string with TOML"),
    ] {
        let mut body = json!({"route": "sandbox"});
        body[field] = given;
        let answer = simulate(&server, &body).await;
        answer.is_problem(422, "validation_failed");
        let faults = answer.body["errors"].as_array().unwrap();
        let [fault] = &faults[..] else { panic!("{body}: {faults:?}") };
        assert!(fault["pointer"].as_str().unwrap().starts_with(&format!("/{field}")), "{fault}");
        assert!(fault["message"].as_str().unwrap().contains(said), "{body}: {fault}");
    }
    let right_beside_wrong = json!({"route": "sandbox", "ratePerSecond": 2, "seed": "x"});
    let answer = simulate(&server, &right_beside_wrong).await;
    answer.is_problem(422, "validation_failed").faults_at(&["/seed"]);
}

#[tokio::test]
async fn one_runs_at_a_time_and_is_gone_with_its_caller() {
    let server = Server::plain().await;
    let request = server.http.post(server.url("/v1/simulations")).header("content-type", "application/json");
    let running = tokio::spawn(request.body(large().to_string()).send());
    let started = Instant::now();
    let refused = loop {
        let answer = simulate(&server, &small()).await;
        if answer.status == 503 {
            break answer;
        }
        assert!(started.elapsed() < PATIENCE, "the first has not begun: {}", answer.body);
    };
    refused.is_problem(503, "overloaded");
    assert_eq!(refused.header("retry-after"), "1");
    running.abort();
    let started = Instant::now();
    while simulate(&server, &small()).await.status == 503 {
        assert!(started.elapsed() < PATIENCE, "it works on although its caller is gone");
        tokio::time::sleep(ms(20)).await;
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_simulation() {
    let server = Server::plain().await;
    let request = server.http.post(server.url("/v1/simulations")).header("content-type", "application/json");
    let running = tokio::spawn(request.body(large().to_string()).send());
    let started = Instant::now();
    while simulate(&server, &small()).await.status != 503 {
        assert!(started.elapsed() < PATIENCE, "the first has not begun");
    }
    server.stop().await;
    let answer = Answer::of(running.await.unwrap().unwrap()).await;
    answer.is_problem(503, "stopping");
}
