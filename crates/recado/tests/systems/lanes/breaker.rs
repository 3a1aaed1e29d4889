//! The breaker of a provider, and the hand that opens, closes or pauses it.

use std::thread;
use std::time::Duration;

use recado_core::Timestamp;
use serde_json::{Value, json};

use super::super::given::eventually;
use super::super::scene::Scene;
use super::watched::Watched;
use super::{
    OPENS_AT_ONCE, answer, broken, data, enqueue, far_end, is_parked, jobs, killed, lane, provider, tell,
};

#[test]
fn f1_a_provider_that_is_down_costs_its_jobs_no_attempt_and_others_no_time() {
    const FAILURES: usize = 3;
    const RESET_MS: i64 = 1_500;
    let (down, up) = (broken(), far_end());
    let terms = "concurrency = 1\nbreaker = { failures = 3, reset = \"1500ms\", ramp = \"0s\" }\n";
    let scene = Scene::with(&(lane("down", &down, terms) + &lane("up", &up, "")));
    let listener = scene.listen();
    let ids = enqueue(&scene, "down", "acme", 200);

    // It opens, and two probes find it still broken.
    eventually(|| listener.count("CircuitBreakerOpened") >= 3);
    is_parked(&scene, &ids[199], "breaker");
    assert!(provider(&scene, "down")["parked"].as_u64().unwrap() > 150, "{}", provider(&scene, "down"));
    scene.send("up", "acme", "elsewhere", &data("elsewhere"));
    scene.sent("elsewhere");
    assert_ne!(provider(&scene, "down")["state"], "CLOSED");

    down.recovers();
    eventually(|| jobs(&scene, "down").iter().all(|job| job["status"] == "sent"));
    assert_eq!(provider(&scene, "down")["state"], "CLOSED");
    eventually(|| listener.count("CircuitBreakerClosed") == 1);

    let at = |time: &Value| time.as_str().unwrap().parse::<Timestamp>().unwrap().as_millis();
    let ended = jobs(&scene, "down");
    let attempts: Vec<_> = ended.iter().flat_map(|job| job["attempts"].as_array().unwrap()).collect();
    assert_eq!(attempts.len(), down.ledger().len(), "every attempt reached out");
    let mut failed: Vec<_> = attempts.iter().filter(|attempt| attempt["result"] == "failed").collect();
    failed.sort_by_key(|attempt| at(&attempt["startedAt"]));
    assert_eq!(
        failed.len(),
        FAILURES + listener.count("CircuitBreakerOpened") - 1,
        "what opened it, and probes"
    );
    for pair in failed[FAILURES - 1..].windows(2) {
        let quiet_ms = at(&pair[1]["startedAt"]) - at(&pair[0]["endedAt"]);
        assert!(quiet_ms >= RESET_MS, "a probe after {quiet_ms} ms");
    }
}

#[test]
fn f1_a_breaker_that_is_open_stays_open_over_kill_9() {
    let far_end = broken();
    let scene = Scene::with(&lane("down", &far_end, OPENS_AT_ONCE));
    let listener = scene.listen();
    enqueue(&scene, "down", "acme", 3);
    // The event is told once the state is durable.
    eventually(|| listener.count("CircuitBreakerOpened") == 1);
    eventually(|| jobs(&scene, "down").iter().all(|job| job["status"] != "delivering"));
    let (asked, since) = (far_end.ledger().len(), provider(&scene, "down")["since"].clone());

    let server = killed(&scene);
    let restored = provider(&server, "down");
    assert_eq!((&restored["state"], &restored["since"]), (&json!("OPEN"), &since), "{restored:#}");
    assert!(restored["reason"].as_str().is_some_and(|reason| reason.contains("503")), "{restored:#}");
    assert_eq!(server.logged("Circuit breaker state restored from the store", 1)[0]["state"], "OPEN");
    assert!(server.log().iter().all(|line| line["message"] != "Circuit breaker changed on another node"));
    let id = server.enqueue(json!({ "route": "down", "companyId": "acme", "data": data("late") }));
    is_parked(&server, &id, "breaker");
    assert_eq!(far_end.ledger().len(), asked, "it was not asked again");

    far_end.recovers();
    tell(&server, "down/breaker", json!({ "action": "close", "reason": "mended" }));
    server.job_once(&id, "sent");
}

#[test]
fn f3_code_of_ones_own_asks_under_the_same_breaker() {
    let far_end = far_end();
    let scene = Scene::with(&lane("shared", &far_end, "breaker = { failures = 2, reset = \"1h\" }\n"));
    for failures in 1..=2 {
        let permit = tell(&scene, "shared/permit", Value::Null);
        assert_eq!((&permit["permitted"], &permit["state"]), (&json!(true), &json!("CLOSED")), "{permit}");
        let told = tell(&scene, "shared/failure", json!({ "reason": "504 from the gateway" }));
        assert_eq!(told["failuresInWindow"], failures, "{told:#}");
    }
    let refused = tell(&scene, "shared/permit", Value::Null);
    assert_eq!((&refused["permitted"], &refused["state"]), (&json!(false), &json!("OPEN")), "{refused}");
    assert!(refused["reason"].as_str().unwrap().contains("504 from the gateway"), "{refused}");
    assert!((1..=3_600_000).contains(&refused["retryAfterMs"].as_u64().unwrap()), "{refused}");

    // Recado's own jobs wait as well, and a person may know better.
    let ids = enqueue(&scene, "shared", "acme", 1);
    is_parked(&scene, &ids[0], "breaker");
    tell(&scene, "shared/breaker", json!({ "action": "close", "reason": "the gateway is back" }));
    scene.sent(&ids[0]);
    assert_eq!(tell(&scene, "shared/permit", Value::Null)["permitted"], true);
    far_end.was_asked(&ids[0], 1);
}

#[test]
fn f1_a_breaker_opened_by_hand_waits_for_a_hand() {
    let far_end = far_end();
    let scene = Scene::with(&lane("held", &far_end, "breaker = { reset = \"1ms\" }\n"));
    let told = tell(&scene, "held/breaker", json!({ "action": "open", "reason": "maintenance" }));
    assert_eq!((&told["state"], &told["heldOpen"]), (&json!("OPEN"), &json!(true)), "{told:#}");
    let ids = enqueue(&scene, "held", "acme", 1);
    let job = is_parked(&scene, &ids[0], "breaker");
    assert!(job["waitingFor"]["why"].as_str().unwrap().contains("maintenance"), "{job:#}");
    assert_eq!(job["waitingFor"].get("until"), None, "no probe is due: {job:#}");
    tell(&scene, "held/breaker", json!({ "action": "close", "reason": "done" }));
    scene.sent(&ids[0]);
}

#[test]
fn a_provider_that_is_paused_gets_nothing_until_it_is_resumed_even_after_a_restart() {
    let (far_end, other) = (far_end(), far_end());
    let scene = Scene::with(&(lane("quiet", &far_end, "") + &lane("other", &other, "")));
    tell(&scene, "quiet/pause", json!({ "reason": "invoice day" }));
    let ids = enqueue(&scene, "quiet", "acme", 5);
    let scene = scene.restarted();
    for id in &ids {
        is_parked(&scene, id, "pause");
    }
    scene.send("other", "acme", "elsewhere", &data("elsewhere"));
    scene.sent("elsewhere");
    assert_eq!(far_end.ledger().len(), 0);
    tell(&scene, "quiet/resume", Value::Null);
    for id in &ids {
        scene.sent(id);
    }
}

#[test]
fn f1_successes_that_take_too_long_open_a_breaker_that_says_what_is_slow() {
    const SLOW: Duration = Duration::from_secs(1);
    let far_end = Watched::start();
    let scene =
        Scene::with(&lane("tired", &far_end, "breaker = { failures = 2, slow = \"1s\", reset = \"1h\" }\n"));
    for id in enqueue(&scene, "tired", "brisk", 3) {
        scene.sent(&id);
    }
    let before = provider(&scene, "tired");
    assert_eq!((&before["state"], &before["failuresInWindow"]), (&json!("CLOSED"), &json!(0)), "{before:#}");

    far_end.answers(|_| {
        thread::sleep(SLOW);
        answer(200, json!({}))
    });
    for id in enqueue(&scene, "tired", "slow", 2) {
        let job = scene.sent(&id);
        assert_eq!(job["attempts"].as_array().map(Vec::len), Some(1), "slow is not failed: {job:#}");
    }
    assert_eq!(provider(&scene, "tired")["state"], "OPEN");
    let late = enqueue(&scene, "tired", "late", 1);
    let job = is_parked(&scene, &late[0], "breaker");
    assert!(job["waitingFor"]["why"].as_str().unwrap().contains("too slow"), "{job:#}");
    assert_eq!(far_end.arrivals().len(), 5);
}
