//! Webhooks to customers' endpoints.

use serde_json::{Value, json};

use super::far_ends::json as answer;
use super::far_ends::receiver::{self, verified};
use super::given::eventually;
use super::scene::{Scene, tries, waits};

const HASTY: &str =
    "[routes.webhook]\npolicy = { schedule = [\"0s\", \"20ms\", \"20ms\"], jitter = \"none\" }\n";
const ONCE: &str = "[routes.webhook]\npolicy = { schedule = [\"0s\"] }\n";

fn hook(endpoint: &str, n: u64) -> Value {
    json!({ "endpointId": endpoint, "event": "post.published", "payload": { "post": n, "title": "Ação" } })
}

#[test]
fn a_webhook_arrives_signed_for_its_endpoint_and_keeps_its_id_on_every_attempt() {
    let customer = receiver::start();
    let scene = Scene::with(&format!("{}{HASTY}", receiver::provider()));
    let (endpoint, secret) = scene.endpoint("acme", &format!("{}/hooks?v=1", customer.url()), &["JobFailed"]);
    customer.orders("", [receiver::error(500), receiver::error(503)]);
    scene.send("webhook", "acme", "hook-1", &hook(&endpoint, 7));
    let job = scene.sent("hook-1");
    assert_eq!(tries(&job), ["failed 500 TRANSIENT http/500", "failed 503 TRANSIENT http/503", "sent"]);
    assert_eq!(waits(&job), [20, 20]);
    let requests = customer.ledger();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!(verified(request, &secret), json!({ "post": 7, "title": "Ação" }));
        assert!(!request.is_signed_with(receiver::SECRET), "another secret would do as well");
        assert_eq!((request.header("webhook-id"), request.header("idempotency-key")), ("hook-1", "hook-1"));
        assert_eq!((request.header("webhook-event"), &*request.path), ("post.published", "/hooks?v=1"));
    }
}

#[test]
fn after_a_rotation_both_secrets_sign() {
    let customer = receiver::start();
    let scene = Scene::with(receiver::ALLOWED);
    let (endpoint, old) = scene.endpoint("acme", &customer.url(), &["JobFailed"]);
    let change = json!({ "secret": receiver::SECRET });
    let (status, changed) = scene.ask("PATCH", &format!("/v1/endpoints/{endpoint}"), &change);
    assert_eq!(status, 200, "{changed}");
    scene.send("webhook", "acme", "rotated", &hook(&endpoint, 1));
    scene.sent("rotated");
    verified(&customer.ledger()[0], &old);
    verified(&customer.ledger()[0], receiver::SECRET);

    // A second rotation within the day ends the oldest at once: two are valid, and never three.
    let newest = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    let (status, changed) =
        scene.ask("PATCH", &format!("/v1/endpoints/{endpoint}"), &json!({ "secret": newest }));
    assert_eq!(status, 200, "{changed}");
    scene.send("webhook", "acme", "again", &hook(&endpoint, 2));
    scene.sent("again");
    let request = &customer.ledger()[1];
    verified(request, newest);
    verified(request, receiver::SECRET);
    assert!(!request.is_signed_with(&old), "the secret before the last but one still signs");
}

#[test]
fn a_redirect_is_a_failure_and_is_not_followed() {
    let (customer, elsewhere) = (receiver::start(), receiver::start());
    let scene = Scene::with(&format!("{}{HASTY}", receiver::provider()));
    let (endpoint, _) = scene.endpoint("acme", &customer.url(), &["JobFailed"]);
    for status in [301, 302, 307, 308] {
        let id = format!("moved-{status}");
        customer.orders("", [answer(status, json!({})).with("location", elsewhere.url())]);
        scene.send("webhook", "acme", &id, &hook(&endpoint, 1));
        let entry = scene.buried(&id, "PERMANENT");
        assert_eq!(tries(&entry), [format!("failed {status} PERMANENT http/3xx")]);
        customer.was_asked(&id, 1);
    }
    assert_eq!(elsewhere.ledger().len(), 0);
}

#[test]
fn a_410_switches_the_endpoint_off_at_once() {
    let customer = receiver::start();
    let scene = Scene::with(&format!("{}{HASTY}", receiver::provider()));
    let (endpoint, _) = scene.endpoint("acme", &customer.url(), &["JobFailed"]);
    let listener = scene.listen();
    customer.always("", receiver::error(410));
    scene.send("webhook", "acme", "gone", &hook(&endpoint, 1));
    assert_eq!(tries(&scene.buried("gone", "PERMANENT")), ["failed 410 PERMANENT http/410"]);
    let event = listener.hears("EndpointDisabled", &endpoint);
    assert_eq!(event["data"]["reason"], "it answered 410 Gone");
    assert_eq!(scene.get(&format!("/v1/endpoints/{endpoint}"))["enabled"], false);
    customer.was_asked("gone", 1);
}

#[test]
fn an_endpoint_that_was_switched_off_is_told_of_left_alone_tested_and_switched_on_again() {
    let (customer, ops) = (receiver::start(), receiver::start());
    let notify = receiver::channel("ops", &ops) + "[dlq]\nnotify = \"ops\"\n";
    let scene = Scene::with(&format!("{}{notify}{ONCE}", receiver::provider()));
    let (endpoint, secret) = scene.endpoint("acme", &customer.url(), &["JobFailed"]);
    let path = format!("/v1/endpoints/{endpoint}");
    let listener = scene.listen();
    customer.always("", receiver::error(500));
    for n in 0..10 {
        scene.send("webhook", "acme", &format!("hook-{n}"), &hook(&endpoint, n));
        scene.buried(&format!("hook-{n}"), "EXHAUSTED");
    }

    let event = listener.hears("EndpointDisabled", &endpoint);
    assert_eq!((&event["companyId"], &event["data"]["failures"]), (&json!("acme"), &json!(10)));
    let notice = verified(&ops.once("EndpointDisabled", 1)[0], receiver::SECRET);
    assert_eq!(notice["data"], event["data"]);

    scene.send("webhook", "acme", "too-late", &hook(&endpoint, 11));
    let entry = scene.buried("too-late", "PERMANENT");
    assert_eq!(tries(&entry), ["failed ENDPOINT_DISABLED PERMANENT http/ENDPOINT_DISABLED"]);
    assert_eq!(customer.ledger().len(), 10, "an endpoint that is off gets no request");

    let test = || scene.ask("POST", &format!("{path}/test"), &Value::Null);
    let (status, tested) = test();
    assert_eq!((status, &tested["ok"], &tested["status"]), (200, &json!(false), &json!(500)), "{tested}");
    customer.recovers();
    let (_, tested) = test();
    assert_eq!((&tested["ok"], &tested["status"]), (&json!(true), &json!(200)));
    assert_eq!(verified(customer.ledger().last().unwrap(), &secret)["type"], "endpoint.test");

    assert_eq!(scene.ask("POST", &format!("{path}/enable"), &Value::Null).0, 200);
    let shown = scene.get(&path);
    assert_eq!((&shown["enabled"], &shown["consecutiveFailures"]), (&json!(true), &json!(0)));
    scene.recado(&["dlq", "replay", "too-late"]).done();
    scene.sent("too-late");
    customer.was_asked("too-late", 1);
}

#[test]
fn a_success_forgets_the_failures_before_it() {
    let customer = receiver::start();
    let scene = Scene::with(&format!("{}{ONCE}", receiver::provider()));
    let (endpoint, _) = scene.endpoint("acme", &customer.url(), &["JobFailed"]);
    let failures =
        |count: u64| scene.get(&format!("/v1/endpoints/{endpoint}"))["consecutiveFailures"] == count;
    customer.orders("", [receiver::error(500), receiver::error(400)]);
    for (n, end) in ["failed", "failed", "sent"].iter().enumerate() {
        scene.send("webhook", "acme", &format!("hook-{n}"), &hook(&endpoint, 1));
        scene.job_once(&format!("hook-{n}"), end);
        eventually(|| failures([1, 2, 0][n]));
    }
}

#[test]
fn failures_in_a_row_are_counted_across_a_restart() {
    let customer = receiver::start();
    let scene = Scene::with(&format!("{}{ONCE}", receiver::provider()));
    let (endpoint, secret) = scene.endpoint("acme", &customer.url(), &["JobFailed"]);
    let path = format!("/v1/endpoints/{endpoint}");
    customer.always("", receiver::error(500));
    for n in 1..=9 {
        scene.send("webhook", "acme", &format!("hook-{n}"), &hook(&endpoint, n));
        eventually(|| scene.get(&path)["consecutiveFailures"] == n);
    }
    let scene = scene.restarted();
    assert_eq!((&scene.get(&path)["enabled"], customer.ledger().len()), (&json!(true), 9));
    scene.send("webhook", "acme", "hook-10", &hook(&endpoint, 10));
    eventually(|| scene.get(&path)["enabled"] == false);
    verified(customer.ledger().last().unwrap(), &secret);
}

#[test]
fn another_companys_endpoint_is_as_good_as_none() {
    let customer = receiver::start();
    let scene = Scene::with(receiver::ALLOWED);
    let (endpoint, _) = scene.endpoint("acme", &customer.url(), &["JobFailed"]);
    scene.send("webhook", "intruder", "theirs", &hook(&endpoint, 1));
    let entry = scene.buried("theirs", "PERMANENT");
    assert_eq!(tries(&entry), ["failed ENDPOINT_UNKNOWN PERMANENT http/ENDPOINT_UNKNOWN"]);
    assert_eq!(customer.ledger().len(), 0);
}

#[test]
fn a_receiver_that_answers_401_says_nothing_about_an_account() {
    let customer = receiver::start();
    let scene = Scene::with(&format!("{}{ONCE}", receiver::provider()));
    let (endpoint, _) = scene.endpoint("acme", &customer.url(), &["JobFailed"]);
    customer.always("", receiver::error(401));
    scene.send("webhook", "acme", "refused", &hook(&endpoint, 1));
    scene.buried("refused", "PERMANENT");
    // Counted after the settlement, where a mark would have been made.
    eventually(|| scene.get(&format!("/v1/endpoints/{endpoint}"))["consecutiveFailures"] == 1);
    assert_eq!(scene.get("/v1/accounts")["items"], json!([]));
}

#[test]
fn an_address_in_the_job_is_signed_with_the_operators_secret() {
    let customer = receiver::start();
    let scene = Scene::with(&receiver::provider());
    let data = json!({ "url": format!("{}/direct", customer.url()), "event": "ping", "payload": [1] });
    scene.send("webhook", "acme", "direct", &data);
    scene.sent("direct");
    assert_eq!(verified(&customer.only("/direct"), receiver::SECRET), json!([1]));
}
