//! E-mail by AWS SES.

use serde_json::{Value, json};

use super::far_ends::{Act, FarEnd, page, ses};
use super::scene::{Scene, tries};

const HASTY: &str = "[routes.email-ses]\npolicy = { base = \"20ms\" }\n";

fn scene(far_end: &FarEnd) -> Scene {
    Scene::with(&format!("{}{HASTY}", ses::provider(far_end)))
}

/// The address tells the far end which job it is about.
fn mail(to: &str) -> Value {
    json!({ "from": "acme@acme.example", "to": [to], "subject": "Confirmação", "text": "Olá" })
}

#[test]
fn g9_a_message_is_handed_to_ses_once_and_tells_whose_it_is() {
    let far_end = ses::start();
    let scene = scene(&far_end);
    scene.send("email-ses", "acme", "outbox-1", &mail("ana@example.com"));
    let job = scene.sent("outbox-1");
    assert_eq!(tries(&job), ["sent"]);
    assert_eq!(job["answer"]["messageId"], "0100018f-ses-000000");
    let request = far_end.only("ana@example.com");
    assert_eq!((&*request.method, &*request.path), ("POST", "/v2/email/outbound-emails"));
    let asked = request.json();
    assert_eq!(asked["Content"]["Simple"]["Subject"]["Data"], "Confirmação", "{asked:#}");
    let tags = asked["EmailTags"].as_array().unwrap();
    for (name, value) in [("companyId", "acme"), ("jobId", "outbox-1")] {
        assert!(tags.contains(&json!({ "Name": name, "Value": value })), "{asked:#}");
    }
}

#[test]
fn g9_throttling_and_an_unavailable_service_are_tried_again_with_the_same_message() {
    let far_end = ses::start();
    let scene = scene(&far_end);
    for (id, act, told) in [
        (
            "throttled",
            ses::error(400, "Throttling", "Rate exceeded"),
            "failed Throttling RATE_LIMIT ses/Throttling",
        ),
        (
            "too-many",
            ses::error(429, "TooManyRequestsException", "Too many requests"),
            "failed TooManyRequestsException RATE_LIMIT ses/TooManyRequestsException",
        ),
        (
            "unavailable",
            ses::error(503, "ServiceUnavailable", "Service is unavailable"),
            "failed ServiceUnavailable TRANSIENT ses/ServiceUnavailable",
        ),
        ("gateway", page(502), "failed 502 TRANSIENT ses/5xx"),
        ("dropped", Act::hang_up(), "uncertain CONNECTION_LOST TRANSIENT ses/network"),
    ] {
        let address = format!("{id}@example.com");
        far_end.orders(&address, [act]);
        scene.send("email-ses", "acme", id, &mail(&address));
        assert_eq!(tries(&scene.sent(id)), [told, "sent"]);
        let requests = far_end.about(&address);
        assert_eq!(requests.len(), 2, "one for each attempt and none by the SDK itself");
        assert_eq!(requests[0].json(), requests[1].json());
    }
}

#[test]
fn g9_what_ses_rejects_is_buried_after_one_request() {
    let far_end = ses::start();
    let scene = scene(&far_end);
    for (id, name) in [
        ("rejected", "MessageRejected"),
        ("unverified", "MailFromDomainNotVerifiedException"),
        ("suspended", "AccountSuspendedException"),
    ] {
        let address = format!("{id}@example.com");
        far_end.always(&address, ses::error(400, name, "Email address is not verified."));
        scene.send("email-ses", "acme", id, &mail(&address));
        let entry = scene.buried(id, "PERMANENT");
        assert_eq!(tries(&entry), [format!("failed {name} PERMANENT ses/{name}")]);
        assert_eq!(entry["lastFailureReason"], "Email address is not verified.");
        far_end.only(&address);
    }
}

#[test]
fn g3_five_failures_in_a_row_end_in_the_dead_letter_queue() {
    let far_end = ses::start();
    let scene = scene(&far_end);
    far_end.always("ana@example.com", ses::error(503, "ServiceUnavailable", "Service is unavailable"));
    scene.send("email-ses", "acme", "five", &mail("ana@example.com"));
    let entry = scene.buried("five", "EXHAUSTED");
    assert_eq!((entry["failedAttempts"].as_u64(), far_end.ledger().len()), (Some(5), 5));
    assert_eq!((&entry["jobId"], &entry["outboxId"]), (&json!("five"), &json!("five")));
}
