//! Endpoints that a job names and that cannot be used: each goes before a person at once.

use recado_core::{Blame, Class, Fault, Outcome, rules};
use recado_transport_webhook::Target;
use serde_json::{Value, json};

use super::trap::Trap;
use super::{NOW, attempt, job_of, order, payload, target, webhook_to};

/// Sends to an endpoint whose receiver must not be touched; `target` has the last word on it.
async fn stopped(company: &str, data: &Value, change: impl FnOnce(Target) -> Target) -> Fault {
    let trap = Trap::at("127.0.0.1:0");
    let webhook = webhook_to(change(target(&format!("http://127.0.0.1:{}/SECRET", trap.port()))));
    let outcome = attempt(&webhook, &job_of(company, payload(data)), NOW).await;
    trap.assert_untouched();
    let Outcome::Failed(fault) = outcome else { panic!("{outcome:?}, where a failure was due") };
    assert!(fault.text.contains("; "), "no advice in {}", fault.text);
    assert!(!format!("{fault:?}").contains("SECRET"), "{fault:?}");
    assert!(!fault.uncertain);
    fault
}

/// By the rules that webhook routes come with.
fn is_buried_at_once_as(fault: &Fault, code: &str) {
    let failure = rules::named("http").expect("a set").classify(fault.clone());
    assert_eq!((failure.class, failure.code.as_deref()), (Class::Permanent, Some(code)));
    assert_eq!(failure.blame, Blame::Message, "no breaker may count it");
}

#[tokio::test]
async fn an_unknown_endpoint_is_buried_at_once() {
    let data = json!({ "endpointId": "SECRET-id", "event": "a", "payload": 1 });
    is_buried_at_once_as(&stopped("acme", &data, |target| target).await, "ENDPOINT_UNKNOWN");
}

#[tokio::test]
async fn another_companys_endpoint_cannot_be_told_from_an_unknown_one() {
    let foreign = stopped("evil", &order(), |target| target).await;
    is_buried_at_once_as(&foreign, "ENDPOINT_UNKNOWN");
    let data = json!({ "endpointId": "nobody's", "event": "a", "payload": 1 });
    assert_eq!(foreign, stopped("evil", &data, |target| target).await);
}

#[tokio::test]
async fn an_endpoint_that_is_switched_off_is_buried_at_once() {
    let fault = stopped("acme", &order(), |target| Target { enabled: false, ..target }).await;
    is_buried_at_once_as(&fault, "ENDPOINT_DISABLED");
}

#[tokio::test]
async fn an_endpoint_at_a_refused_address_is_buried_at_once() {
    let trap = Trap::at("127.0.0.2:0");
    let url = format!("http://127.0.0.2:{}/SECRET", trap.port());
    let fault = stopped("acme", &order(), |target| Target { url: url.parse().unwrap(), ..target }).await;
    is_buried_at_once_as(&fault, "ADDRESS_REFUSED");
    assert!(fault.text.contains("`webhooks.allow`"), "{}", fault.text);
    assert!(!fault.text.contains("127.0.0.2"), "{}", fault.text);
    trap.assert_untouched();
}

#[tokio::test]
async fn nothing_ever_goes_out_unsigned() {
    let fault = stopped("acme", &order(), |target| Target { secrets: Vec::new(), ..target }).await;
    is_buried_at_once_as(&fault, "INVALID_PAYLOAD");
}

#[test]
fn secrets_are_not_shown() {
    let webhook = webhook_to(target("https://hooks.example.com/"));
    let shown = format!("{webhook:?}");
    assert!(shown.contains("Secret(…)") && !shown.contains("whsec_"), "{shown}");
}
