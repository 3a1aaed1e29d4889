//! A newcomer: a clinic's claims fail. Why? One is corrected and sent again, and then the rest, a canary
//! first; all from the dashboard, on the ways that it offers itself.

use serde_json::{Value, json};

use super::driver::Look;
use super::given::Server;
use super::scene::{Scene, post};

/// The user's own worker, asked until `done`: the insurer refuses a claim whose patient it does not know.
fn work(server: &Server, knows_everybody: bool, done: impl Fn() -> bool) {
    while !done() {
        let asked = json!({ "routes": ["tiss-claims"], "max": 10, "waitMs": 200, "leaseMs": 30_000, "workerId": "insurer" });
        let leased = post(server, "/v1/leases", &asked);
        for lease in leased["leases"].as_array().expect("a list") {
            let token = lease["leaseToken"].as_str().expect("a token");
            let is_known = knows_everybody || lease["job"]["data"]["patient"] == "4711";
            let (way, body) = match is_known {
                true => ("succeed", json!({})),
                false => ("fail", json!({ "message": "INVALID_PATIENT_DATA: patient is not on file" })),
            };
            post(server, &format!("/v1/leases/{token}/{way}"), &body);
        }
    }
}

fn dead(server: &Server) -> Value {
    server.get("/v1/dlq/stats?companyId=clinica-norte")["total"].clone()
}

#[test]
fn w3_g7_g20_a_newcomer_finds_why_corrects_one_and_replays_the_rest_with_a_canary() {
    let scene = Scene::looking(Look::default(), |server| {
        for at in 0..6 {
            let data = json!({ "patient": format!("x-{at}"), "amount": 120 });
            server.enqueue(json!({ "jobId": format!("claim-{at}"), "route": "tiss-claims", "companyId": "clinica-norte", "data": data }));
        }
        work(server, false, || dead(server) == 6);
    });
    let browser = &scene.browser;

    // Why: the front page names the company, the list the failure, an entry the rest.
    browser.click_within("//section[h2[normalize-space()='Dead letters by company']]", "clinica-norte");
    browser.sees("6 dead letters · groups: 1");
    browser.sees("patient is not on file");
    browser.click("claim-3");
    browser.sees("A retry cannot fix this error. Correct what is wrong, then replay.");
    browser.sees("tiss/INVALID_PATIENT_DATA");

    // One is corrected; its page says where the others are, before and after.
    browser.write_code("{ \"patient\": \"4711\", \"amount\": 120 }");
    browser.click("Replay");
    browser.sees("Replay with the corrected data?");
    browser.write("Your name", "Ana");
    browser.write("Note", "typing error");
    browser.click("Replay");
    work(&scene, false, || scene.get("/v1/jobs/claim-3")["status"] == "sent");
    browser.sees("It was delivered, so it is no longer a dead letter.");
    browser.click("5 others");
    browser.sees("Only one kind of failure is listed:");

    // The insurer has mended its list meanwhile: the rest goes as it is, one ahead of the others.
    browser.click("Replay all found …");
    browser.sees("This affects 5 jobs, counted just now.");
    browser.write("Note", "the insurer knows them now");
    browser.click("Replay 5");
    browser.sees("on its way, the rest waits for it");
    let replaying = || {
        let entries = scene.get("/v1/dlq")["items"].as_array().expect("entries").clone();
        entries.iter().filter(|entry| entry["state"] == "replaying").count()
    };
    assert_eq!(replaying(), 1, "the canary alone");
    work(&scene, true, || dead(&scene) == 0);
    browser.sees("5 of 5");
    browser.sees("No dead letters");
    browser.click("Overview");
    browser.until("no dead letters", || {
        browser
            .run("return document.querySelector('a.tile[href=\"#/dlq\"] .tile-value')?.innerText", json!([]))
            == "0"
    });

    // And what was done is on record.
    browser.go("#/audit?jobId=claim-3");
    browser.sees("typing error");
    browser.is_clean();
}
