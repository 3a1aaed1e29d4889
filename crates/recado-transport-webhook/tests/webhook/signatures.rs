//! Requests as a receiver sees them, and the check of their signature.

use recado_core::{Payload, Timestamp};
use recado_testkit::far_end::FarEnd;
use recado_testkit::http::{Request, raw};
use recado_transport_webhook::{Secret, Target, WebhookConfig};
use serde_json::json;
use standardwebhooks::Webhook as Verifier;

use super::{
    ENDPOINT, NOW, accepted, attempt, config, hook_of, job_of, order, payload, secret, target, webhook_to,
    webhook_with,
};

#[expect(clippy::disallowed_methods, reason = "the verifier compares with the real time, and takes no other")]
pub fn real_now() -> Timestamp {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    Timestamp::from_millis(elapsed.as_millis() as i64)
}

/// Asks an implementation that is not ours.
pub fn verifies(seen: &Request, secret: &Secret) -> bool {
    Verifier::new(&secret.reveal()).expect("a secret").verify(&seen.body, &seen.header_map()).is_ok()
}

/// The request that the receiver saw for one job, sent right now.
async fn arrived(target: impl FnOnce(&str) -> Target, data: Payload) -> Request {
    let receiver = FarEnd::scripted([raw("200 OK", "", "")]);
    let webhook = webhook_to(target(&hook_of(&receiver)));
    attempt(&webhook, &job_of("acme", data), real_now()).await;
    receiver.only("")
}

#[tokio::test]
async fn a_receiver_verifies_the_signature_with_an_independent_library() {
    let seen = arrived(target, payload(&order())).await;
    assert!(verifies(&seen, &secret(1)));
    assert!(!verifies(&seen, &secret(2)), "with a secret that did not sign");
    let mut forged = seen.clone();
    forged.body.push(b' ');
    assert!(!verifies(&forged, &secret(1)), "with another body");
    let mut forged = seen;
    let id = forged.headers.iter_mut().find(|(name, _)| name == "webhook-id").unwrap();
    id.1 = "job-7f3b".to_owned();
    assert!(!verifies(&forged, &secret(1)), "with another id");
}

#[tokio::test]
async fn while_a_secret_is_replaced_the_old_and_the_new_one_both_verify() {
    let rotating = |url: &str| Target { secrets: vec![secret(2), secret(1)], ..target(url) };
    let seen = arrived(rotating, payload(&order())).await;
    assert!(verifies(&seen, &secret(1)) && verifies(&seen, &secret(2)));
    assert!(!verifies(&seen, &secret(3)));
    let signatures = seen.header_values("webhook-signature").unwrap();
    let signatures: Vec<_> = signatures.split(' ').collect();
    assert!(signatures.len() == 2 && signatures.iter().all(|one| one.starts_with("v1,")), "{signatures:?}");
}

#[tokio::test]
async fn a_job_that_names_a_url_is_signed_with_the_configured_secret() {
    let receiver = FarEnd::scripted([raw("200 OK", "", "")]);
    let config = WebhookConfig { secret: Some(secret(9)), ..config() };
    let webhook = webhook_with(config, target("https://unused.example.com/"));
    let data = json!({ "url": hook_of(&receiver), "event": "order.paid", "payload": {} });
    attempt(&webhook, &job_of("acme", payload(&data)), real_now()).await;
    assert!(verifies(&receiver.only(""), &secret(9)));
}

#[tokio::test]
async fn the_payload_arrives_byte_for_byte() {
    for body in [
        "{ \"b\" : 1.10,\t\"a\":[12345678901234567890123, \"\\u00e7ç\\/\" ],\"b\":2 }",
        "\"only words\"",
        "[ ]",
        "0.10",
        "false",
    ] {
        let data = format!("{{\"endpointId\":\"{ENDPOINT}\",\"event\":\"a\",\"payload\": {body} }}");
        let seen = arrived(target, Payload::new(&data).unwrap()).await;
        assert_eq!(String::from_utf8(seen.body.clone()).unwrap(), body);
        assert!(verifies(&seen, &secret(1)), "{body}");
    }
}

#[tokio::test]
async fn a_post_carries_the_event_the_key_and_who_we_are() {
    let seen = arrived(target, payload(&order())).await;
    assert_eq!(seen.line, "POST /hook?from=recado HTTP/1.1");
    for (name, value) in [
        ("content-type", "application/json"),
        ("webhook-id", "job-7f3a"),
        ("webhook-event", "order.paid"),
        ("idempotency-key", "job-7f3a"),
        ("user-agent", concat!("recado/", env!("CARGO_PKG_VERSION"))),
    ] {
        assert_eq!(seen.header_values(name).as_deref(), Some(value), "{name}");
    }
}

#[tokio::test]
async fn every_attempt_has_the_same_id_its_own_time_and_no_cookies_of_an_earlier_one() {
    let receiver = FarEnd::scripted([raw("503 Busy", "Set-Cookie: a=b\r\n", ""), raw("200 OK", "", "")]);
    let webhook = webhook_to(target(&hook_of(&receiver)));
    let job = job_of("acme", payload(&order()));
    attempt(&webhook, &job, NOW).await;
    attempt(&webhook, &job, Timestamp::from_millis(NOW.as_millis() + 61_999)).await;
    let seen = receiver.ledger();
    let headers = |name| [0, 1].map(|at: usize| seen[at].header_values(name));
    assert_eq!(headers("webhook-id"), ["job-7f3a"; 2].map(|id| Some(id.to_owned())));
    assert_eq!(headers("webhook-timestamp"), ["1767225600", "1767225661"].map(|at| Some(at.to_owned())));
    assert_ne!(seen[0].header_values("webhook-signature"), seen[1].header_values("webhook-signature"));
    assert_eq!(headers("cookie"), [None, None]);
}

#[tokio::test]
async fn a_receiver_on_ipv6_is_reached_by_its_literal() {
    let receiver = FarEnd::scripted_at("[::1]:0", [raw("200 OK", "", "")]);
    accepted(&webhook_to(target(&hook_of(&receiver))), &order()).await;
    assert_eq!(receiver.only("").header_values("host"), Some(format!("[::1]:{}", receiver.port())));
}
