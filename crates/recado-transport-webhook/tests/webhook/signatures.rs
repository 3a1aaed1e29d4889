//! Requests as a receiver sees them, and the check of their signature.

use recado_core::{Payload, Timestamp};
use recado_transport_webhook::{Secret, Target, WebhookConfig};
use serde_json::json;
use standardwebhooks::Webhook as Verifier;

use super::receiver::{Receiver, Seen, answer, ok};
use super::{
    ENDPOINT, NOW, accepted, attempt, config, job_of, order, payload, secret, target, webhook_to,
    webhook_with,
};

#[expect(clippy::disallowed_methods, reason = "the verifier compares with the real time, and takes no other")]
pub fn real_now() -> Timestamp {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    Timestamp::from_millis(elapsed.as_millis() as i64)
}

/// Asks an implementation that is not ours.
pub fn verifies(seen: &Seen, secret: &Secret) -> bool {
    Verifier::new(&secret.reveal()).expect("a secret").verify(&seen.body, &seen.headers).is_ok()
}

/// The request that the receiver saw for one job, sent right now.
async fn arrived(target: impl FnOnce(&str) -> Target, data: Payload) -> Seen {
    let receiver = Receiver::start([ok()]).await;
    let webhook = webhook_to(target(&receiver.url()));
    attempt(&webhook, &job_of("acme", data), real_now()).await;
    receiver.only()
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
    forged.headers.insert("webhook-id", "job-7f3b".parse().unwrap());
    assert!(!verifies(&forged, &secret(1)), "with another id");
}

#[tokio::test]
async fn while_a_secret_is_replaced_the_old_and_the_new_one_both_verify() {
    let rotating = |url: &str| Target { secrets: vec![secret(2), secret(1)], ..target(url) };
    let seen = arrived(rotating, payload(&order())).await;
    assert!(verifies(&seen, &secret(1)) && verifies(&seen, &secret(2)));
    assert!(!verifies(&seen, &secret(3)));
    let signatures: Vec<_> = seen.header("webhook-signature").unwrap().split(' ').collect();
    assert!(signatures.len() == 2 && signatures.iter().all(|one| one.starts_with("v1,")), "{signatures:?}");
}

#[tokio::test]
async fn a_job_that_names_a_url_is_signed_with_the_configured_secret() {
    let receiver = Receiver::start([ok()]).await;
    let config = WebhookConfig { secret: Some(secret(9)), ..config() };
    let webhook = webhook_with(config, target("https://unused.example.com/"));
    let data = json!({ "url": receiver.url(), "event": "order.paid", "payload": {} });
    attempt(&webhook, &job_of("acme", payload(&data)), real_now()).await;
    assert!(verifies(&receiver.only(), &secret(9)));
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
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn every_attempt_has_the_same_id_its_own_time_and_no_cookies_of_an_earlier_one() {
    let receiver = Receiver::start([answer("503 Busy", "Set-Cookie: a=b\r\n", ""), ok()]).await;
    let webhook = webhook_to(target(&receiver.url()));
    let job = job_of("acme", payload(&order()));
    attempt(&webhook, &job, NOW).await;
    attempt(&webhook, &job, Timestamp::from_millis(NOW.as_millis() + 61_999)).await;
    let seen = receiver.seen();
    let headers = |name| [seen[0].header(name), seen[1].header(name)];
    assert_eq!(headers("webhook-id"), [Some("job-7f3a"); 2]);
    assert_eq!(headers("webhook-timestamp"), [Some("1767225600"), Some("1767225661")]);
    assert_ne!(seen[0].header("webhook-signature"), seen[1].header("webhook-signature"));
    assert_eq!(headers("cookie"), [None; 2]);
}

#[tokio::test]
async fn a_receiver_on_ipv6_is_reached_by_its_literal() {
    let receiver = Receiver::at("[::1]:0", [ok()]).await;
    accepted(&webhook_to(target(&receiver.url())), &order()).await;
    assert_eq!(receiver.only().header("host"), Some(&*format!("[::1]:{}", receiver.port())));
}
