//! Answers of receivers, and misbehaviour in their place.

use std::time::Duration;

use recado_core::{Fault, FaultKind, NetworkKind};
use recado_testkit::far_end::FarEnd;
use recado_testkit::free_port;
use recado_testkit::http::{Act, raw};
use recado_transport::{Delivery, Transport, Wanted};
use recado_transport_webhook::WebhookConfig;

use super::trap::Trap;
use super::{
    NOW, PATIENCE, accepted, config, fault, hook_of, job_of, order, payload, target, webhook_to, webhook_with,
};

async fn failing(act: Act) -> Fault {
    let receiver = FarEnd::scripted([act]);
    let fault = fault(&webhook_to(target(&hook_of(&receiver))), &order()).await;
    assert_eq!(receiver.only("").body, br#"{"order":7}"#, "the request has to have arrived");
    fault
}

fn is(fault: &Fault, kind: NetworkKind, uncertain: bool) {
    assert_eq!((fault.kind, fault.uncertain), (FaultKind::Network(kind), uncertain), "{}", fault.text);
}

#[tokio::test]
async fn any_2xx_is_a_yes() {
    for status in ["200 OK", "201 Created", "202 Accepted", "299 Whatever"] {
        let receiver = FarEnd::scripted([raw(status, "", r#"{"id":1}"#)]);
        let kept = accepted(&webhook_to(target(&hook_of(&receiver))), &order()).await;
        assert_eq!(kept.unwrap().as_str(), r#"{"id":1}"#, "{status}");
    }
}

#[tokio::test]
async fn f8_a_redirect_is_a_failure_and_is_not_followed() {
    for status in ["301", "302", "303", "307", "308"] {
        let trap = Trap::at("127.0.0.1:0");
        let location = format!("Location: http://127.0.0.1:{}/\r\n", trap.port());
        let fault = failing(raw(&format!("{status} Elsewhere"), &location, "")).await;
        assert_eq!((fault.kind, fault.code.as_deref()), (FaultKind::Answer, Some(status)));
        assert!(fault.text.contains("redirects are not followed"), "{}", fault.text);
        trap.assert_untouched();
    }
}

#[tokio::test]
async fn a_receiver_that_is_gone_for_good_comes_back_as_410() {
    let fault = failing(raw("410 Gone", "", "unsubscribed")).await;
    assert_eq!((fault.code.as_deref(), fault.status), (Some("410"), Some(410)));
    assert_eq!((&*fault.text, fault.uncertain), ("unsubscribed", false));
}

#[tokio::test]
async fn f8_a_429_brings_its_retry_after_along() {
    let fault = failing(raw("429 Slow Down", "Retry-After: 7\r\n", "")).await;
    assert_eq!((fault.status, fault.retry_after), (Some(429), Some(Duration::from_secs(7))));
}

#[tokio::test]
async fn a_connection_lost_after_the_request_is_uncertain() {
    is(&failing(Act::Cut(String::new())).await, NetworkKind::Dropped, true);
    is(&failing(Act::Reset).await, NetworkKind::Dropped, true);
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_a_protocol_failure_and_uncertain() {
    is(&failing(Act::Hang("220 smtp.example.com ESMTP\r\n\r\n".into())).await, NetworkKind::Protocol, true);
}

#[tokio::test]
async fn a_refused_port_is_a_connect_failure_and_certainly_unsent() {
    let url = format!("http://127.0.0.1:{}/", free_port());
    let fault = fault(&webhook_to(target(&url)), &order()).await;
    is(&fault, NetworkKind::Connect, false);
    assert!(!fault.text.contains("127.0.0.1"), "{}", fault.text);
}

#[tokio::test]
async fn a_body_that_never_ends_arriving_changes_neither_a_yes_nor_a_no() {
    let hang = |status: &str| Act::Hang(format!("HTTP/1.1 {status}\r\nContent-Length: 100\r\n\r\nwait"));
    let receiver = FarEnd::scripted([hang("200 OK"), hang("503 Busy")]);
    let config = WebhookConfig { answer_wait: Duration::from_millis(50), ..config() };
    let webhook = webhook_with(config, target(&hook_of(&receiver)));
    assert!(accepted(&webhook, &order()).await.is_none());
    let fault = fault(&webhook, &order()).await;
    assert_eq!((fault.status, &*fault.text), (Some(503), "wait"));
    assert_eq!(receiver.ledger().len(), 2);
}

#[tokio::test]
async fn a_body_without_end_is_not_drunk() {
    let receiver = FarEnd::scripted([Act::Flood("HTTP/1.1 503 Busy\r\n\r\n".into())]);
    let fault = fault(&webhook_to(target(&hook_of(&receiver))), &order()).await;
    assert_eq!((fault.status, fault.text.len()), (Some(503), 2 * 1_024));
    receiver.left().await;
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_let_go_when_the_caller_gives_up() {
    let receiver = FarEnd::scripted([Act::Hang(String::new())]);
    let webhook = webhook_to(target(&hook_of(&receiver)));
    let job = job_of("acme", payload(&order()));
    let delivery = Delivery { job: &job, attempt: 1, now: NOW, timeout: PATIENCE, answer: Wanted::Receipt };
    tokio::select! {
        outcome = webhook.send(delivery) => panic!("{outcome:?}, where no receiver answered"),
        _ = receiver.arrived(1) => {}
    }
    receiver.left().await;
}
