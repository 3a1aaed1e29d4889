//! Test deliveries: one signed post at once, outside of any job.

use std::time::Duration;

use recado_core::{FaultKind, NetworkKind, Timestamp};
use recado_testkit::far_end::FarEnd;
use recado_testkit::http::{Act, raw};
use recado_transport_webhook::Target;
use serde_json::{Value, json};

use super::signatures::{real_now, verifies};
use super::trap::Trap;
use super::{NOW, PATIENCE, hook_of, secret, target, webhook_to};

#[tokio::test]
async fn a_test_is_signed_and_says_what_it_is() {
    let receiver = FarEnd::scripted([raw("202 Accepted", "", "")]);
    let target = target(&hook_of(&receiver));
    let now = real_now();
    let result = webhook_to(target.clone()).test(&target, "test-1", now, PATIENCE).await.unwrap();
    assert_eq!(result.status, 202);
    assert!(result.took > Duration::ZERO && result.took < PATIENCE);
    let seen = receiver.only("");
    assert!(verifies(&seen, &secret(1)));
    assert_eq!(seen.header_values("webhook-id").as_deref(), Some("test-1"));
    assert_eq!(seen.header_values("webhook-event").as_deref(), Some("endpoint.test"));
    let body: Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(body, json!({ "type": "endpoint.test", "timestamp": now.to_string(), "data": {} }));
    assert_eq!(body["timestamp"].as_str().unwrap().parse::<Timestamp>().unwrap(), now);
}

#[tokio::test]
async fn an_endpoint_that_is_switched_off_can_be_tested_before_it_is_switched_on() {
    let receiver = FarEnd::scripted([raw("200 OK", "", "")]);
    let target = Target { enabled: false, ..target(&hook_of(&receiver)) };
    assert!(webhook_to(target.clone()).test(&target, "test-1", NOW, PATIENCE).await.is_ok());
    receiver.only("");
}

#[tokio::test]
async fn a_test_that_fails_says_how() {
    let receiver = FarEnd::scripted([raw("401 Who", "", "signature?")]);
    let target = target(&hook_of(&receiver));
    let fault = webhook_to(target.clone()).test(&target, "test-1", NOW, PATIENCE).await.unwrap_err();
    assert_eq!((fault.status, &*fault.text), (Some(401), "signature?"));
}

#[tokio::test]
async fn a_test_that_gets_no_answer_is_given_up() {
    let receiver = FarEnd::scripted([Act::Hang(String::new())]);
    let target = target(&hook_of(&receiver));
    let timeout = Duration::from_secs(1);
    let fault = webhook_to(target.clone()).test(&target, "test-1", NOW, timeout).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Network(NetworkKind::Timeout));
    assert!(fault.text.contains("within 1s"), "{}", fault.text);
    receiver.left().await;
}

#[tokio::test]
async fn a_test_passes_the_same_guard() {
    let trap = Trap::at("127.0.0.2:0");
    let target = target(&format!("http://127.0.0.2:{}/", trap.port()));
    let fault = webhook_to(target.clone()).test(&target, "test-1", NOW, PATIENCE).await.unwrap_err();
    assert_eq!(fault.code.as_deref(), Some("ADDRESS_REFUSED"));
    trap.assert_untouched();
}
