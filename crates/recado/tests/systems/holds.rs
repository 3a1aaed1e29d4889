//! A receiver that a customer chose holds back its own webhooks and no others, for an hour at most, and an
//! operator can lift it.

use std::time::Duration;

use serde_json::{Value, json};

use super::far_ends::{Act, receiver};
use super::given::{between_ms, eventually};
use super::scene::{Scene, tries};

/// Asks for quiet until the year 2121.
fn quiet_for_a_century() -> Act {
    receiver::error(429).with("retry-after", "3000000000")
}

fn hook(endpoint: &str) -> Value {
    json!({ "endpointId": endpoint, "event": "order.paid", "payload": { "order": 1 } })
}

fn holds(scene: &Scene) -> Vec<Value> {
    scene.get("/v1/holds")["items"].as_array().expect("a list").clone()
}

#[test]
fn a_receivers_retry_after_holds_back_that_receiver_alone_for_an_hour_at_most_and_is_lifted() {
    let (loud, good, ops) = (receiver::start(), receiver::start(), receiver::start());
    let notify = receiver::channel("ops", &ops) + "[dlq]\nnotify = \"ops\"\n";
    let scene = Scene::with(&format!("{}{notify}", receiver::provider()));
    let (held, _) = scene.endpoint("acme", &loud.url(), &["JobFailed"]);
    let (sibling, _) = scene.endpoint("acme", &good.url(), &["JobFailed"]);
    let (other, _) = scene.endpoint("globex", &good.url(), &["JobFailed"]);
    loud.always("", quiet_for_a_century());
    scene.send("webhook", "acme", "held-1", &hook(&held));
    scene.job_when("held-1", |job| job["attempts"][0]["errorCode"] == "429");

    // Another company, another endpoint of the same company and our own notices go out at once.
    scene.send("webhook", "globex", "other-1", &hook(&other));
    scene.send("webhook", "acme", "sibling-1", &hook(&sibling));
    scene.send("webhook", "globex", "unknown", &hook("ep_none"));
    scene.sent("other-1");
    scene.sent("sibling-1");
    ops.once("ENDPOINT_UNKNOWN", 1);

    let listed = holds(&scene);
    assert_eq!(listed.len(), 1, "{listed:#?}");
    let hold = &listed[0];
    assert_eq!((&hold["scope"], &hold["provider"]), (&json!("endpoint"), &json!("webhook")));
    assert_eq!((&hold["companyId"], &hold["endpointId"]), (&json!("acme"), &json!(held)));
    let reason = hold["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("429, Retry-After 3000000000 s cut to 1h by hold_max: "), "{reason}");
    assert_eq!(between_ms(&hold["since"], &hold["until"]), 3_600_000, "{hold:#}");

    // It is the same after a restart, and a new job to that endpoint waits without an attempt.
    let scene = scene.restarted();
    assert_eq!(holds(&scene), listed);
    scene.send("webhook", "acme", "held-2", &hook(&held));
    let waiting = scene.job_when("held-2", |job| job["status"] == "parked");
    assert_eq!((&waiting["attempts"], &waiting["nextAttemptAt"]), (&json!([]), &hold["until"]));
    scene.send("webhook", "globex", "other-2", &hook(&other));
    scene.sent("other-2");
    loud.was_asked("held-1", 1);

    loud.recovers();
    let id = hold["id"].as_str().expect("an id");
    let lines = scene.recado(&["holds", "list"]).done();
    assert!(lines.contains(id) && lines.contains("acme"), "{lines}");
    let lifted = scene.recado(&["holds", "lift", id, "--reason", "mended", "--json"]).json();
    assert_eq!(lifted["id"], id);
    assert_eq!(holds(&scene), Vec::<Value>::new());
    assert_eq!(tries(&scene.sent("held-1")), ["failed 429 RATE_LIMIT http/429", "sent"]);
    scene.sent("held-2");
    let mut acts = Vec::new();
    eventually(|| {
        acts = scene.get("/v1/audit?kind=HOLD_LIFTED")["items"].as_array().cloned().unwrap_or_default();
        !acts.is_empty()
    });
    assert_eq!((acts[0]["actor"].as_str(), acts.len()), (Some("tester"), 1), "{acts:#?}");
}

#[test]
fn a_host_that_a_job_names_is_held_for_its_company_and_lifted_over_http() {
    let customer = receiver::start();
    let scene = Scene::with(&receiver::provider());
    let to = |path: &str| json!({ "url": format!("{}{path}", customer.url()), "event": "ping", "payload": [path] });
    customer.always("/acme", quiet_for_a_century());
    scene.send("webhook", "acme", "first", &to("/acme"));
    scene.job_when("first", |job| job["attempts"][0]["errorCode"] == "429");
    scene.send("webhook", "globex", "theirs", &to("/globex"));
    scene.sent("theirs");

    let listed = holds(&scene);
    let host = customer.url().trim_start_matches("http://").to_owned();
    assert_eq!((&listed[0]["scope"], &listed[0]["host"]), (&json!("host"), &json!(host)), "{listed:#?}");
    customer.recovers();
    let path = format!("/v1/holds/{}", listed[0]["id"].as_str().expect("an id"));
    let (status, lifted) = scene.ask("DELETE", &path, &Value::Null);
    assert_eq!((status, &lifted["id"]), (200, &listed[0]["id"]), "{lifted}");
    assert_eq!(scene.ask("DELETE", &path, &Value::Null).0, 404, "it is gone");
    scene.sent("first");
}

#[test]
fn a_hold_goes_with_the_address_or_the_endpoint_that_it_came_from() {
    let (loud, good) = (receiver::start(), receiver::start());
    let scene = Scene::with(&receiver::provider());
    loud.always("", quiet_for_a_century());
    let endpoints = ["moved", "gone"].map(|id| {
        let (endpoint, _) = scene.endpoint("acme", &loud.url(), &["JobFailed"]);
        scene.send("webhook", "acme", id, &hook(&endpoint));
        scene.job_when(id, |job| job["attempts"][0]["errorCode"] == "429");
        format!("/v1/endpoints/{endpoint}")
    });
    let all = holds(&scene);
    let first = scene.get("/v1/holds?limit=1");
    let next = first["nextCursor"].as_str().expect("there is one more");
    let second = scene.get(&format!("/v1/holds?limit=1&cursor={next}"));
    assert_eq!(json!([first["items"][0], second["items"][0]]), json!(all));
    assert_eq!((all.len(), second.get("nextCursor")), (2, None));
    // The route, the provider and the company say why their jobs wait.
    let why = |path: &str| scene.get(path)["waitingFor"]["why"].as_str().unwrap_or_default().to_owned();
    for path in ["/v1/tenants/acme", "/v1/providers/webhook"] {
        assert!(why(path).starts_with("only the jobs of 2 receivers wait"), "{path}: {}", why(path));
    }
    // Another word about it is no other address.
    let described = scene.ask("PATCH", &endpoints[0], &json!({ "description": "orders" }));
    assert_eq!((described.0, holds(&scene).len()), (200, 2), "{}", described.1);
    let moved = scene.ask("PATCH", &endpoints[0], &json!({ "url": good.url() }));
    assert_eq!((moved.0, holds(&scene).len()), (200, 1), "{}", moved.1);
    scene.sent("moved");
    assert_eq!(scene.ask("DELETE", &endpoints[1], &Value::Null).0, 204);
    assert_eq!(holds(&scene), Vec::<Value>::new());
    scene.buried("gone", "PERMANENT");
}

#[test]
fn a_late_answer_from_an_old_address_does_not_hold_the_new_one() {
    let (slow, good) = (receiver::start(), receiver::start());
    let scene = Scene::with(&receiver::provider());
    slow.always("", quiet_for_a_century().after(Duration::from_secs(3)));
    let (endpoint, _) = scene.endpoint("acme", &slow.url(), &["JobFailed"]);
    scene.send("webhook", "acme", "first", &hook(&endpoint));
    scene.job_when("first", |job| job["status"] == "delivering");
    let path = format!("/v1/endpoints/{endpoint}");
    let moved = scene.ask("PATCH", &path, &json!({ "url": good.url() }));
    assert_eq!(moved.0, 200, "{}", moved.1);
    let first = scene.job_when("first", |job| job["attempts"][0]["errorCode"] == "429");
    assert_eq!(holds(&scene), Vec::<Value>::new(), "{first:#}");
    scene.send("webhook", "acme", "second", &hook(&endpoint));
    scene.sent("second");
}

#[test]
fn a_black_hole_of_one_company_leaves_slots_for_others_and_for_its_own_endpoints() {
    let (hole, good) = (receiver::start(), receiver::start());
    hole.always("", Act::silence());
    // No attempt ends by itself while this test looks.
    let patient = "[routes.webhook]\ntimeout = \"10m\"\n";
    let scene = Scene::with(&format!("{}{patient}", receiver::provider()));
    let (silent, _) = scene.endpoint("acme", &hole.url(), &["JobFailed"]);
    let (sibling, _) = scene.endpoint("acme", &good.url(), &["JobFailed"]);
    let (other, _) = scene.endpoint("globex", &good.url(), &["JobFailed"]);
    let jobs: Vec<_> = (0..500)
        .map(|n| json!({ "jobId": format!("silent-{n}"), "route": "webhook", "companyId": "acme", "data": hook(&silent) }))
        .collect();
    let (status, taken) = scene.ask("POST", "/v1/jobs/batch", &json!(jobs));
    assert_eq!(status, 200, "{taken}");
    // As many as there are slots for it.
    eventually(|| hole.ledger().len() >= 16);

    scene.send("webhook", "globex", "other", &hook(&other));
    scene.sent("other");
    scene.send("webhook", "acme", "sibling", &hook(&sibling));
    scene.sent("sibling");
    // None of the black hole's attempts has ended meanwhile, so none of them gave a slot back.
    let ended = scene.get("/v1/jobs?companyId=acme&status=retrying&limit=1000");
    assert_eq!(ended["items"], json!([]));
    assert_eq!(hole.ledger().len(), 16, "a quarter of the slots");
}
