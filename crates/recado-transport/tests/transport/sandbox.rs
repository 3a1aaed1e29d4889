//! The sandbox does what its script says, and nothing else.

use std::time::Duration;

use recado_core::{Fault, FaultKind, NetworkKind, Outcome};
use recado_transport::{Delivery, Sandbox, Transport};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{NOW, answer, attempt, fault, job, message, payload, pointers};

async fn scripted(entry: &str) -> Fault {
    fault(&Sandbox, &json!({ "script": [entry] })).await
}

fn refusal(code: &str, status: Option<u16>, text: &str) -> Fault {
    Fault { status, ..Fault::answer(code, text) }
}

#[tokio::test]
async fn each_form_of_an_entry_becomes_the_fault_that_it_names() {
    assert_eq!(scripted("421 try later").await, refusal("421", Some(421), "try later"));
    assert_eq!(scripted("503").await, refusal("503", Some(503), ""));
    assert_eq!(scripted("  503  busy ").await, refusal("503", Some(503), "busy"));
    assert_eq!(scripted("Throttling slow down").await, refusal("Throttling", None, "slow down"));
    assert_eq!(scripted("1234 x").await, refusal("1234", None, "x"));
    let enhanced =
        Fault { enhanced: Some("5.1.1".into()), ..refusal("550", Some(550), "5.1.1 no such user") };
    assert_eq!(scripted("550 5.1.1 no such user").await, enhanced);
}

#[tokio::test]
async fn f8_any_code_may_carry_a_wish_for_later() {
    for (entry, code, text, millis) in [
        ("429 retry-after=2", "429", "", 2_000),
        ("429 slow down retry-after=1.5", "429", "slow down", 1_500),
        ("503 retry-after=0 busy  now", "503", "busy now", 0),
        ("Throttling easy retry-after=3 please", "Throttling", "easy please", 3_000),
    ] {
        let status = code.parse().ok();
        let wish = Some(Duration::from_millis(millis));
        assert_eq!(
            scripted(entry).await,
            Fault { retry_after: wish, ..refusal(code, status, text) },
            "{entry}"
        );
    }
    assert_eq!(scripted("429 retry-after=soon").await, refusal("429", Some(429), "retry-after=soon"));
}

#[tokio::test]
async fn a_timeout_is_certain_not_to_have_arrived_and_a_drop_is_not() {
    let timeout = scripted("timeout").await;
    assert_eq!((timeout.kind, timeout.uncertain), (FaultKind::Network(NetworkKind::Timeout), false));
    let dropped = scripted("drop").await;
    assert_eq!((dropped.kind, dropped.uncertain), (FaultKind::Network(NetworkKind::Dropped), true));
}

#[tokio::test]
async fn a_panic_is_a_real_one() {
    let panicked = tokio::spawn(async { scripted("panic").await }).await.unwrap_err();
    let text = panicked.into_panic();
    assert_eq!(text.downcast_ref::<&str>(), Some(&"the sandbox script says panic"));
}

#[tokio::test]
async fn each_attempt_plays_its_own_entry_and_the_last_one_repeats() {
    let data = json!({ "script": ["503 first", "esc\u{e9}\"aped second", "ok"], "to": "whoever" });
    let codes = async |number| match attempt(&Sandbox, &data, number).await {
        Outcome::Failed(fault) => fault.code.map(String::from),
        Outcome::Accepted { answer } => answer.map(|_| "an answer".to_owned()),
        Outcome::Partial(_) => None,
    };
    assert_eq!(codes(1).await.as_deref(), Some("503"));
    assert_eq!(codes(2).await.as_deref(), Some("esc\u{e9}\"aped"));
    assert_eq!(codes(3).await, None);
    assert_eq!(codes(4_000_000_000).await, None);
}

#[tokio::test]
async fn no_script_or_an_empty_one_means_ok() {
    for data in [
        json!({}),
        json!({ "script": [] }),
        json!({ "script": null, "latencyMs": null }),
        json!({ "to": ["x"] }),
    ] {
        assert_eq!(answer(&Sandbox, &data).await, None);
        assert_eq!(pointers(&Sandbox, &data), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn latency_delays_each_attempt_and_a_timeout_waits_no_longer_than_that() {
    for (data, waited_ms) in [
        (json!({}), 0),
        (json!({ "latencyMs": 0, "script": ["timeout"] }), 0),
        (json!({ "latencyMs": 250, "script": ["timeout"] }), 250),
        (json!({ "latencyMs": 250, "script": ["ok"] }), 250),
    ] {
        let start = Instant::now();
        attempt(&Sandbox, &data, 1).await;
        // The timer rounds up to its next millisecond.
        let waited = start.elapsed().as_millis();
        assert!((waited_ms..=waited_ms + 1).contains(&waited), "{data} took {waited} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn no_latency_holds_an_attempt_up_for_more_than_ten_minutes() {
    let job = job(payload(&json!({ "latencyMs": u64::MAX })));
    let start = Instant::now();
    Sandbox
        .send(Delivery {
            job: &job,
            attempt: 1,
            now: NOW,
            timeout: std::time::Duration::from_secs(30),
            answer: recado_transport::Wanted::Receipt,
        })
        .await;
    assert!((600_000..=600_001).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
}

#[test]
fn every_fault_of_a_script_is_named_with_its_place() {
    let data = json!({ "script": ["ok", 503, "", "  ", ["ok"], "any text at all"], "latencyMs": -1 });
    assert_eq!(pointers(&Sandbox, &data), ["/latencyMs", "/script/1", "/script/2", "/script/3", "/script/4"]);
    assert!(message(&Sandbox, &json!({ "script": "ok" })).contains("is a string; write a list"));
}

#[test]
fn a_latency_has_to_be_whole_milliseconds_up_to_ten_minutes() {
    let faulty = |latency: Value| !pointers(&Sandbox, &json!({ "latencyMs": latency })).is_empty();
    for wrong in [json!(-1), json!(600_001), json!(1.5), json!("5"), json!(1e300), json!([5]), json!(true)] {
        assert!(faulty(wrong.clone()), "{wrong} passed");
    }
    for right in [json!(0), json!(1), json!(600_000)] {
        assert!(!faulty(right.clone()), "{right} was refused");
    }
}

#[tokio::test]
async fn f9_data_that_cannot_be_played_is_an_invalid_payload_that_repeats_no_value() {
    for data in
        [json!({ "script": ["SECRET", 7] }), json!({ "latencyMs": "SECRET" }), json!({ "script": "SECRET" })]
    {
        assert!(Sandbox.check(&payload(&data)).is_err());
        let fault = fault(&Sandbox, &data).await;
        assert_eq!(fault.kind, FaultKind::InvalidPayload);
        assert!(fault.text.contains("; write ") && !fault.text.contains("SECRET"), "{}", fault.text);
    }
}
