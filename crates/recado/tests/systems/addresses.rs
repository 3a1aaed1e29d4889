//! Addresses that users supply lead to public places only, whatever they are written as.

use serde_json::json;

use super::far_ends::receiver;
use super::scene::{Scene, tries};

/// This machine and the cloud's own service, in the notations that get past careless checks.
fn inside(port: u16) -> Vec<String> {
    let hosts = [
        "127.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "10.0.0.1",
        "localhost",
        "metadata.google.internal",
    ];
    let schemes = ["http", "https"];
    hosts.iter().flat_map(|host| schemes.map(|scheme| format!("{scheme}://{host}:{port}/hooks"))).collect()
}

#[test]
fn an_endpoint_inside_is_refused_with_advice_and_never_asked() {
    let trap = receiver::start();
    let scene = Scene::with(&format!("[providers.webhook]\nsecret = \"{}\"\n", receiver::SECRET));
    for url in inside(trap.port()) {
        let (status, problem) =
            scene.ask("POST", "/v1/endpoints", &json!({ "companyId": "acme", "url": url }));
        assert_eq!((status, &problem["code"]), (422, &json!("validation_failed")), "{url}: {problem}");
        assert_eq!(problem["errors"][0]["pointer"], "/url", "{url}: {problem}");
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains("webhooks.allow"), "{problem}");

        let job = json!({
            "route": "webhook", "companyId": "acme", "data": { "url": url, "event": "ping", "payload": {} },
        });
        let (status, problem) = scene.ask("POST", "/v1/jobs", &job);
        assert_eq!(
            (status, &problem["errors"][0]["pointer"]),
            (422, &json!("/data/url")),
            "{url}: {problem}"
        );
    }
    assert_eq!(scene.get("/v1/endpoints")["items"], json!([]));
    assert_eq!(trap.ledger().len(), 0);
}

#[test]
fn an_endpoint_may_not_be_moved_inside_either() {
    let trap = receiver::start();
    let scene = Scene::with("");
    let (endpoint, _) = scene.endpoint("acme", "https://hooks.example.com/acme", &["JobFailed"]);
    let path = format!("/v1/endpoints/{endpoint}");
    let (status, problem) = scene.ask("PATCH", &path, &json!({ "url": trap.url() }));
    assert_eq!(status, 422, "{problem}");
    assert_eq!(scene.get(&path)["url"], "https://hooks.example.com/acme");
}

/// A name is judged by what it leads to, at the moment of the connection: here the operator allows a range
/// of the inside, so names pass the first door, and this one leads elsewhere.
#[test]
fn a_name_that_leads_to_this_machine_is_refused_when_it_is_sent() {
    let trap = receiver::start();
    let scene = Scene::with("[webhooks]\nallow = [\"10.0.0.0/8\"]\n");
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://localhost:{}/hooks", trap.port());
        let (endpoint, _) = scene.endpoint("acme", &url, &["JobFailed"]);
        let data = json!({ "endpointId": endpoint, "event": "ping", "payload": {} });
        scene.send("webhook", "acme", scheme, &data);
        let entry = scene.buried(scheme, "PERMANENT");
        assert_eq!(tries(&entry), ["failed ADDRESS_REFUSED PERMANENT http/ADDRESS_REFUSED"]);
        let reason = entry["lastFailureReason"].as_str().unwrap();
        assert!(!reason.contains("127.0.0.1"), "it tells what a name leads to: {reason}");
    }
    assert_eq!(trap.ledger().len(), 0);
}

#[test]
fn what_the_operator_lists_is_reached_and_the_rest_is_not() {
    let customer = receiver::start();
    let scene = Scene::with("[webhooks]\nallow = [\"127.0.0.1\"]\n");
    let (endpoint, _) = scene.endpoint("acme", &customer.url(), &["JobFailed"]);
    let data = json!({ "endpointId": endpoint, "event": "ping", "payload": {} });
    scene.send("webhook", "acme", "allowed", &data);
    scene.sent("allowed");
    let (status, problem) =
        scene.ask("POST", "/v1/endpoints", &json!({ "companyId": "acme", "url": "http://127.0.0.2/x" }));
    assert_eq!(status, 422, "{problem}");
}
