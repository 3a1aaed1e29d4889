//! The data of a webhook job, and data that is refused.

use recado_core::FaultKind;
use recado_transport::Transport;
use recado_transport_webhook::{Webhook, WebhookConfig};
use serde_json::{Value, json};

use super::{fault, payload, secret, target, webhook_with};

/// Reaches public addresses only, and signs for jobs that name a URL.
fn webhook() -> Webhook {
    let config = WebhookConfig { secret: Some(secret(1)), ..WebhookConfig::default() };
    webhook_with(config, target("https://hooks.example.com/"))
}

/// Pointers and messages of all faults, each checked to come with advice and without a value.
fn faults(webhook: &Webhook, data: &Value) -> Vec<(String, String)> {
    let faults = webhook.check(&payload(data)).err().unwrap_or_default();
    for fault in &faults {
        assert!(fault.message.contains("; "), "no advice in {fault:?}");
        assert!(!fault.message.contains("SECRET"), "{fault:?}");
    }
    faults.into_iter().map(|fault| (fault.pointer, fault.message)).collect()
}

fn pointers(data: &Value) -> Vec<String> {
    faults(&webhook(), data).into_iter().map(|(pointer, _)| pointer).collect()
}

#[test]
fn an_endpoint_or_a_url_with_an_event_and_a_payload_is_enough() {
    for to in [("endpointId", "ep-1"), ("url", "https://hooks.example.com:8443/a?b=c")] {
        for sent in [json!({}), json!([]), json!(0), json!(false), json!("")] {
            let mut data = json!({ "event": "Order.paid:v1/a-b_c", "payload": sent });
            data[to.0] = to.1.into();
            assert_eq!(faults(&webhook(), &data), [], "{data}");
        }
    }
}

#[test]
fn every_fault_is_told_at_once() {
    let data = json!({ "endpointId": 7, "event": "", "paylod": {} });
    assert_eq!(pointers(&data), ["/paylod", "/endpointId", "/event", "/payload"]);
    assert_eq!(pointers(&json!({})), ["", "/event", "/payload"]);
    assert_eq!(
        pointers(&json!({ "endpointId": null, "url": null, "event": null, "payload": null })),
        ["", "/event", "/payload"]
    );
}

#[test]
fn an_endpoint_and_a_url_are_one_too_many() {
    let data = json!({
        "endpointId": "ep-1", "url": "https://hooks.example.com/", "event": "a", "payload": 1,
    });
    assert_eq!(pointers(&data), ["/url"]);
}

#[test]
fn an_endpoints_id_is_a_short_string() {
    let with = |id: Value| pointers(&json!({ "endpointId": id, "event": "a", "payload": 1 }));
    for id in [json!(""), json!("  "), json!("SECRET".repeat(22)), json!(7), json!({})] {
        assert_eq!(with(id.clone()), ["/endpointId"], "{id}");
    }
    assert!(with(json!("x".repeat(128))).is_empty());
}

#[test]
fn an_event_is_a_short_plain_word() {
    let with = |event: Value| pointers(&json!({ "endpointId": "ep-1", "event": event, "payload": 1 }));
    for event in ["", " ", "SECRET paid", "SECRET\r\nX-Evil: 1", "SECRETé", "SECRET,", &"x".repeat(129)] {
        assert_eq!(with(json!(event)), ["/event"], "{event:?}");
    }
    assert_eq!(with(json!(7)), ["/event"]);
    assert!(with(json!("x".repeat(128))).is_empty());
}

#[test]
fn a_url_without_a_configured_secret_is_refused_with_what_to_write() {
    let webhook = webhook_with(WebhookConfig::default(), target("https://hooks.example.com/"));
    let data = json!({ "url": "https://hooks.example.com/SECRET", "event": "a", "payload": 1 });
    let faults = faults(&webhook, &data);
    let [(pointer, message)] = &*faults else { panic!("one fault was due, not {faults:?}") };
    assert_eq!(pointer, "/url");
    for words in ["`endpointId`", "`secret = \"whsec_…\"`", "`[providers.webhook]`"] {
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_refused_at_the_door_and_again_at_sending() {
    for url in [
        "SECRET",
        "//hooks.example.com/SECRET",
        "https://",
        "https://[::1/SECRET",
        "https://a b/SECRET",
        "ftp://hooks.example.com/SECRET",
        "http://hooks.example.com/SECRET",
        "https://localhost/SECRET",
        "https://10.0.0.1/SECRET",
        "https://user:SECRET@hooks.example.com/",
    ] {
        let data = json!({ "url": url, "event": "a", "payload": 1 });
        assert_eq!(pointers(&data), ["/url"], "{url}");
        let fault = fault(&webhook(), &data).await;
        assert_eq!(fault.kind, FaultKind::InvalidPayload, "{url}");
        assert!(fault.text.starts_with("data/url ") && !fault.text.contains("SECRET"), "{}", fault.text);
    }
}
