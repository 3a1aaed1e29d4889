//! Operators at three in the morning: find out why, correct, replay, discard.

use serde_json::json;

use super::driver::Look;
use super::given::eventually;
use super::scene::{Scene, a_bit_of_everything, bury, post, refused_with};

#[test]
fn w3_g20_why_a_companys_messages_fail_is_found_from_the_front_page() {
    let scene = Scene::looking(Look::default(), a_bit_of_everything);
    let browser = &scene.browser;
    // Which codes, which companies: the two questions of the runbook.
    let card = |title: &str| format!("//section[h2[normalize-space()='{title}']]");
    browser.sees_part(".bar-list");
    browser.click_within(&card("Dead letters by error code"), "550");
    browser.sees("Dead letters");
    browser.until("the code's entries", || browser.place().contains("lastFailureCode=550"));
    browser.go("#/overview");
    browser.click_within(&card("Dead letters by company"), "acme");
    browser.sees("12 dead letters · groups: 1");
    browser.no_longer_sees("upstream is down");
    browser.click("invoice-1042");
    for words in
        ["5.1.1 mailbox not found", "A retry cannot fix this error.", "smtp/550", "the message is to blame"]
    {
        browser.sees(words);
    }
    browser.sees("11 others");
    browser.picture("dead-letter");
    browser.click("11 others");
    browser.sees("Only one kind of failure is listed:");
    browser.is_clean();
}

#[test]
fn w3_g7_a_dead_letter_is_corrected_replayed_and_leaves_once_it_is_delivered() {
    let scene = Scene::looking(Look::default(), |server| {
        bury(server, "acme", "order-1", &refused_with("550 no such user"))
    });
    let browser = &scene.browser;
    // Held back, so that what was sent in can be looked at before it goes out.
    scene.post("/v1/providers/sandbox/pause", &json!({ "reason": "the test looks" }));
    browser.go("#/dlq/order-1");
    browser.sees("no such user");

    browser.write_code("{\"script\": [\"ok\"],}");
    browser.sees("here should be a name in quotes");

    // Two faults that only the server can find, each at its line.
    browser.write_code("{\n\"script\": [\"ok\",\n7],\n\"latencyMs\": -1\n}");
    browser.click("Replay");
    browser.sees("Replay with the corrected data?");
    browser.write("Your name", "João");
    browser.click("Replay");
    browser.sees("Not sent: the server found 2 faults in the data.");
    browser.sees("Line 3 /script/1 is a number; write a string");
    browser.sees("Line 4 /latencyMs is out of bounds");
    browser.picture("correct");
    browser.click_part("//button[contains(@class, 'fault')][contains(., 'latencyMs')]");
    let chosen = "const area = document.querySelector('textarea.code'); \
                  return area.value.slice(area.selectionStart, area.selectionEnd)";
    assert_eq!(browser.run(chosen, json!([])), "-1");

    // A number that JavaScript cannot hold arrives as it was written.
    browser.write_code("{\"script\": [\"ok\"], \"amount\": 9007199254740993}");
    browser.click("Replay");
    browser.sees("On record as João.");
    browser.write("Note", "the address was wrong");
    browser.click("Replay");
    browser.sees("It is on its way again.");
    browser.sees("a person paused it");
    let waiting = scene.get("/v1/jobs/order-1");
    assert_eq!(waiting["data"], json!({ "script": ["ok"], "amount": 9_007_199_254_740_993_u64 }));
    assert_eq!(scene.get("/v1/dlq/order-1")["state"], "replaying");

    scene.post("/v1/providers/sandbox/resume", &json!(null));
    browser.sees("It was delivered, so it is no longer a dead letter.");
    scene.job_once("order-1", "sent");
    let trail = scene.get("/v1/jobs/order-1/audit").to_string();
    assert!(trail.contains("João") && trail.contains("the address was wrong"), "{trail}");
    browser.is_clean();
}

#[test]
fn w3_text_in_the_editor_stays_while_the_page_is_kept_fresh() {
    let scene =
        Scene::looking(Look::default(), |server| bury(server, "acme", "order-1", &refused_with("550 gone")));
    let browser = &scene.browser;
    browser.go("#/dlq/order-1");
    browser.sees("no other");
    browser.write_code("{\"half\": ");
    // Another of the same kind changes what the page says about its kind.
    bury(&scene, "acme", "order-2", &refused_with("550 gone"));
    browser.sees("1 other");
    assert_eq!(browser.code(), "{\"half\": ");
    browser.is_clean();
}

#[test]
fn w3_a_dead_letter_is_discarded_only_with_a_reason_and_under_a_name() {
    let scene =
        Scene::looking(Look::default(), |server| bury(server, "acme", "order-1", &refused_with("550 gone")));
    let browser = &scene.browser;
    browser.go("#/dlq/order-1");
    browser.click("Discard");
    browser.sees("This affects 1 job: it will never be delivered");
    browser.click("Discard");
    browser.sees("Please fill this in.");
    assert_eq!(scene.get("/v1/jobs/order-1")["status"], "failed", "nothing happens without a reason");
    browser.write("Why is it given up?", "the customer called");
    browser.write("Your name", "Ana");
    browser.click("Discard");
    browser.sees("It is no longer a dead letter.");
    scene.job_when("order-1", |job| job["status"] == "discarded");
    let trail = scene.get("/v1/jobs/order-1/audit").to_string();
    assert!(trail.contains("Ana") && trail.contains("the customer called"), "{trail}");
    browser.is_clean();
}

#[test]
fn w3_g7_a_corrected_dead_letter_that_failed_again_shows_the_correction_and_the_original_under_it() {
    let scene = Scene::looking(Look::default(), |server| {
        bury(server, "acme", "order-1", &refused_with("550 no such user"));
        let corrected = json!({ "to": "rui@example.com", "script": ["ok", "550 mailbox full"] });
        post(
            server,
            "/v1/dlq/order-1/replay",
            &json!({ "data": corrected, "note": "the address was wrong" }),
        );
        server.job_when("order-1", |job| job["replays"] == 1 && job["status"] == "failed");
    });
    let browser = &scene.browser;
    browser.go("#/dlq/order-1");
    browser.sees("mailbox full");
    let edited = browser.code();
    assert!(
        edited.contains("rui@example.com") && !edited.contains("ana@"),
        "a replay sends what is shown: {edited}"
    );
    let page = browser.text();
    assert!(!page.contains("ana@example.com"), "the original is there when it is asked for: {page}");
    browser.click_part("//summary[normalize-space()='What was accepted at first']");
    browser.sees("ana@example.com");
    browser.sees("the address was wrong");
    browser.is_clean();
}

#[test]
fn w3_g1_an_archived_dead_letter_says_where_it_is_and_what_brings_it_back() {
    let scene = Scene::configured("[dlq]\nmax_size = 1\n", Look::default(), |server| {
        bury(server, "acme", "order-1", &refused_with("550 no such user"));
        bury(server, "acme", "order-2", &refused_with("550 no such user"));
        eventually(|| !server.get("/v1/jobs/order-1")["archived"].is_null());
    });
    let browser = &scene.browser;
    let back = scene.get("/v1/jobs/order-1")["archived"]["bringBack"].as_str().expect("a command").to_owned();
    assert!(back.starts_with("recado dlq import "), "{back}");
    for place in ["#/dlq/order-1", "#/jobs/order-1"] {
        browser.go(place);
        browser.sees("It is in the archive, because there were too many dead letters,");
        browser.sees(&back);
    }
    browser.go("#/dlq/order-1");
    browser.sees(&back);
    browser.no_longer_sees("The same failure");
    browser.is_clean();
}
