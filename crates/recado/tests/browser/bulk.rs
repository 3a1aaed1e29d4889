//! Many dead letters at once: counted, asked, a canary first, in the open.

use serde_json::json;

use super::driver::Look;
use super::given::Server;
use super::scene::{Scene, bury, refused_with};

fn five(server: &Server) {
    for at in 0..5 {
        bury(server, "acme", &format!("order-{at}"), &refused_with("550 gone"));
    }
    bury(server, "other", "other-1", &refused_with("550 gone"));
}

#[test]
fn w3_g7_all_that_fit_are_counted_first_and_then_replayed_with_a_canary_and_progress() {
    let scene = Scene::looking(Look::default(), five);
    let browser = &scene.browser;
    scene.as_operator("Ana");
    scene.post("/v1/providers/sandbox/pause", &json!({ "reason": "the test looks" }));
    browser.go("#/dlq?companyId=acme");
    browser.sees("order-4");
    browser.click("Replay all found …");
    browser.sees("Replay 5 dead letters?");
    browser.sees("This affects 5 jobs, counted just now.");
    browser.sees("and 2 more");
    browser.picture("bulk-replay");
    browser.write("Note", "the provider is back");
    browser.click("Replay 5");
    browser.sees("on its way, the rest waits for it");
    let states = scene.get("/v1/dlq?companyId=acme")["items"].as_array().expect("entries").clone();
    let replaying = states.iter().filter(|entry| entry["state"] == "replaying").count();
    assert_eq!(replaying, 1, "the canary alone");

    // It meets the same answer as before, so the rest is spared.
    scene.post("/v1/providers/sandbox/resume", &json!(null));
    browser.sees("A canary failed for good again, so the rest stays where it is.");
    browser.sees("stopped");
    assert_eq!(scene.get("/v1/dlq/stats")["total"], 6);
    browser.is_clean();
}

#[test]
fn w3_chosen_dead_letters_are_discarded_together_and_no_other() {
    let scene = Scene::looking(Look::default(), five);
    let browser = &scene.browser;
    scene.as_operator("Ana");
    browser.go("#/dlq");
    for at in 0..2 {
        browser.click_part(&format!("//input[@aria-label='Choose order-{at}']"));
    }
    browser.click("Discard the 2 chosen");
    browser.sees("This affects 2 jobs, counted just now: they will never be delivered.");
    browser.click("Discard 2");
    browser.sees("Please fill this in.");
    browser.write("Why is it given up?", "tests");
    browser.click("Discard 2");
    browser.sees("2 of 2");
    browser.no_longer_sees("order-0");
    let left: Vec<_> = scene.get("/v1/dlq")["items"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| entry["jobId"].clone())
        .collect();
    assert_eq!(left.len(), 4);
    assert!(!left.contains(&json!("order-0")) && !left.contains(&json!("order-1")), "{left:?}");
    browser.is_clean();
}

#[test]
fn a_bulk_act_that_goes_too_far_is_stopped() {
    let scene = Scene::looking(Look::default(), five);
    let browser = &scene.browser;
    scene.as_operator("Ana");
    scene.post("/v1/providers/sandbox/pause", &json!({ "reason": "the test looks" }));
    browser.go("#/dlq?companyId=acme");
    browser.click("Replay all found …");
    browser.click("Replay 5");
    browser.click("Stop it");
    browser.sees("What was done stays done.");
    browser.click("Stop it");
    browser.sees("stopped");
    assert_eq!(scene.get("/v1/replays")["items"][0]["state"], "stopped");
    browser.is_clean();
}

#[test]
fn w3_acts_that_are_over_make_way_for_the_dead_letters() {
    let scene = Scene::looking(Look::default(), |server| {
        five(server);
        for id in ["order-0", "order-1"] {
            let asked = json!({ "filter": { "jobIds": [id] }, "reason": "tests" });
            super::scene::post(server, "/v1/dlq/discard", &asked);
        }
        super::given::eventually(|| server.get("/v1/dlq/stats")["total"] == 4);
    });
    let browser = &scene.browser;
    browser.go("#/dlq");
    browser.sees("2 finished actions");
    browser.sees("order-4");
    assert!(!browser.text().contains("Bulk discard"), "{}", browser.text());
    browser.click_part("//summary[contains(., '2 finished actions')]");
    browser.sees("Bulk discard");
    // What happens meanwhile draws the page anew, and it stays as it was left.
    bury(&scene, "acme", "order-9", &refused_with("550 gone"));
    browser.sees("order-9");
    browser.sees("Bulk discard");
    browser.is_clean();
}
