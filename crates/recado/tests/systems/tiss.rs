//! TISS claims, by a worker of the user's own and by HTTP.

use serde_json::{Value, json};

use super::far_ends::receiver::{self, verified};
use super::far_ends::{FarEnd, tiss};
use super::given::between_ms;
use super::scene::{Scene, tries, waits};

/// The six tries of a claim, with short waits.
const HASTY: &str = "policy = { base = \"20ms\", cap = \"40ms\", floor = \"0s\" }\n";
const NOTIFY: &str = "fallback = { on = [\"dead\"], do = \"mark_failed\", notify = \"billing\" }\n";

/// A server whose billing department hears of claims that are suspended.
fn scene(provider: &str, policy: &str, billing: &FarEnd) -> Scene {
    let (webhook, channel) = (receiver::provider(), receiver::channel("billing", billing));
    Scene::with(&format!("{provider}{webhook}{channel}[routes.tiss-claims]\n{policy}{NOTIFY}"))
}

fn claim() -> Value {
    json!({ "method": "POST", "path": "claims", "body": { "guia": "000123", "valor": 150.75 } })
}

/// A worker takes the next claim and says how it went.
#[track_caller]
fn work(scene: &Scene, report: &str, body: &Value) {
    let ask = json!({ "routes": ["tiss-claims"], "workerId": "submitter", "waitMs": 20_000 });
    let (status, leased) = scene.ask("POST", "/v1/leases", &ask);
    assert_eq!((status, leased["leases"].as_array().map(Vec::len)), (200, Some(1)), "{leased}");
    let token = leased["leases"][0]["leaseToken"].as_str().expect("a token");
    let (status, settled) = scene.ask("POST", &format!("/v1/leases/{token}/{report}"), body);
    assert!(status < 300, "{settled}");
}

fn fails(scene: &Scene, message: &str) {
    work(scene, "fail", &json!({ "message": message }));
}

/// The one notice that billing got, signed, after the claim was suspended.
#[track_caller]
fn notice(billing: &FarEnd, claim: &str) -> Value {
    let requests = billing.once(claim, 1);
    assert_eq!((requests.len(), &*requests[0].path), (1, "/notices"));
    verified(&requests[0], receiver::SECRET)
}

#[test]
fn t13_a_permanent_error_of_the_worker_suspends_the_claim_at_once_and_tells_billing() {
    let billing = receiver::start();
    let scene = scene("", HASTY, &billing);
    let listener = scene.listen();
    scene.send("tiss-claims", "hospital", "CLM-1", &json!({ "guia": "000123" }));
    fails(&scene, "TISS answered: INVALID_PROCEDURE_CODE 40304361");
    let entry = scene.buried("CLM-1", "PERMANENT");
    assert_eq!(tries(&entry), ["failed PERMANENT tiss/INVALID_PROCEDURE_CODE"]);
    assert_eq!(entry["lastFailureReason"], "TISS answered: INVALID_PROCEDURE_CODE 40304361");

    let event = listener.hears("JobFailed", "CLM-1");
    assert_eq!(listener.count("JobRetryExhausted"), 0);
    let told = notice(&billing, "CLM-1");
    assert_eq!(told, event);
    assert_eq!((&told["data"]["claimId"], &told["data"]["cause"]), (&json!("CLM-1"), &json!("PERMANENT")));
}

#[test]
fn t12_t20_a_claim_that_fails_after_five_retries_is_suspended_and_told_as_exhausted() {
    let billing = receiver::start();
    let scene = scene("", HASTY, &billing);
    let listener = scene.listen();
    scene.send("tiss-claims", "hospital", "CLM-2", &json!({ "guia": "000124" }));
    for _ in 0..6 {
        fails(&scene, "SERVICE_UNAVAILABLE");
    }
    let entry = scene.buried("CLM-2", "EXHAUSTED");
    assert_eq!(tries(&entry), ["failed TRANSIENT tiss/SERVICE_UNAVAILABLE"; 6]);

    let event = listener.hears("JobRetryExhausted", "CLM-2");
    let data = &event["data"];
    assert_eq!(
        (&data["claimId"], &data["retryCount"], &data["lastError"]),
        (&json!("CLM-2"), &json!(5), &json!("SERVICE_UNAVAILABLE"))
    );
    assert!(event["timestamp"].is_string());
    assert_eq!(listener.count("JobRetryScheduled"), 5);
    let told = notice(&billing, "CLM-2");
    assert_eq!((&told["type"], &told["data"]["cause"]), (&json!("JobFailed"), &json!("EXHAUSTED")));
}

#[test]
fn t12_a_notice_that_billing_cannot_take_right_now_is_sent_again_under_the_same_id() {
    let billing = receiver::start();
    let hasty = "[routes.webhook]\npolicy = { schedule = [\"0s\", \"20ms\", \"20ms\"] }\n";
    let scene = scene(hasty, HASTY, &billing);
    billing.orders("", [receiver::error(503), receiver::error(500)]);
    scene.send("tiss-claims", "hospital", "CLM-7", &json!({ "guia": "000127" }));
    fails(&scene, "DUPLICATE_CLAIM");
    let requests = billing.once("CLM-7", 3);
    let ids: Vec<_> = requests.iter().map(|request| request.header("webhook-id")).collect();
    assert_eq!(ids, [ids[0]; 3]);
    assert!(requests.iter().all(|request| verified(request, receiver::SECRET)["type"] == "JobFailed"));
    scene.sent(ids[0]);
}

#[test]
fn t20_a_scheduled_retry_is_told_with_the_required_fields_and_wait() {
    let scene = Scene::with("");
    let listener = scene.listen();
    scene.send("tiss-claims", "hospital", "CLM-3", &json!({ "guia": "000125" }));
    fails(&scene, "Read timed out: TIMEOUT");
    let job = scene.retrying("CLM-3", 1);
    let event = listener.hears("JobRetryScheduled", "CLM-3");
    let data = &event["data"];
    assert_eq!(
        (&data["claimId"], &data["retryCount"], &data["errorClassification"]),
        (&json!("CLM-3"), &json!(1), &json!("TRANSIENT"))
    );
    assert_eq!(data["nextRetryTime"], job["nextAttemptAt"]);
    let wait_ms = between_ms(&event["timestamp"], &data["nextRetryTime"]);
    assert!((300_000..=360_000).contains(&wait_ms), "5 minutes and up to 20 % more, not {wait_ms} ms");
    let minutes = data["backoffMinutes"].as_u64().unwrap();
    assert!((5..=6).contains(&minutes), "{minutes}");
}

#[test]
fn t4_a_worker_with_an_unknown_error_gets_the_claim_again_and_succeeds() {
    let billing = receiver::start();
    let scene = scene("", HASTY, &billing);
    scene.send("tiss-claims", "hospital", "CLM-4", &json!({ "guia": "000126" }));
    fails(&scene, "the portal shows a clown");
    work(&scene, "succeed", &json!({ "result": { "protocol": "TISS-2026-7" } }));
    let job = scene.sent("CLM-4");
    assert_eq!(tries(&job), ["failed UNKNOWN recado/unknown", "sent"]);
    assert_eq!(job["answer"]["protocol"], "TISS-2026-7");
    assert_eq!(billing.ledger().len(), 0);
}

#[test]
fn t13_over_http_a_permanent_error_in_the_body_suspends_the_claim_whatever_the_status() {
    let (far_end, billing) = (tiss::start(), receiver::start());
    let scene = scene(&tiss::provider(&far_end), HASTY, &billing);
    for code in [
        "INVALID_PATIENT_DATA",
        "INSURANCE_EXPIRED",
        "AUTHORIZATION_DENIED",
        "DUPLICATE_CLAIM",
        "INVALID_PROCEDURE_CODE",
    ] {
        far_end.orders("claims", [tiss::error(code)]);
        scene.send("tiss-claims", "hospital", code, &claim());
        let entry = scene.buried(code, "PERMANENT");
        assert_eq!(tries(&entry), [format!("failed 500 PERMANENT tiss/{code}")]);
        far_end.was_asked(code, 1);
        assert_eq!(notice(&billing, &format!("\"claimId\":\"{code}\""))["data"]["status"], "failed");
    }
}

#[test]
fn t12_over_http_five_retries_in_vain_suspend_the_claim_under_one_key() {
    let (far_end, billing) = (tiss::start(), receiver::start());
    let scene = scene(&tiss::provider(&far_end), HASTY, &billing);
    far_end.always("claims", tiss::error("TEMPORARY_ERROR"));
    scene.send("tiss-claims", "hospital", "CLM-5", &claim());
    let entry = scene.buried("CLM-5", "EXHAUSTED");
    assert_eq!(tries(&entry), ["failed 500 TRANSIENT tiss/TEMPORARY_ERROR"; 6]);
    assert_eq!(waits(&entry).len(), 5);
    far_end.was_asked("CLM-5", 6);
    assert_eq!(notice(&billing, "CLM-5")["data"]["retryCount"], 5);
}

#[test]
fn t17_over_http_a_claim_that_recovers_gets_its_protocol() {
    let (far_end, billing) = (tiss::start(), receiver::start());
    let scene = scene(&tiss::provider(&far_end), HASTY, &billing);
    far_end.orders("claims", [tiss::error("SERVICE_UNAVAILABLE"), tiss::error("RATE_LIMIT")]);
    scene.send("tiss-claims", "hospital", "CLM-6", &claim());
    let job = scene.sent("CLM-6");
    assert_eq!(
        tries(&job),
        ["failed 500 TRANSIENT tiss/SERVICE_UNAVAILABLE", "failed 500 TRANSIENT tiss/RATE_LIMIT", "sent"]
    );
    assert_eq!(job["answer"]["protocol"], "TISS-2026-000001");
    far_end.was_asked("CLM-6", 3);
    assert_eq!(far_end.ledger()[0].json()["valor"], 150.75);
    assert_eq!(billing.ledger().len(), 0);
}
