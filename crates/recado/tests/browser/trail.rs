//! The audit trail in the dashboard.

use serde_json::json;

use super::driver::Look;
use super::scene::{Scene, bury, post, refused_with};

#[test]
fn w3_t14_a_jobs_trail_is_read_newest_first_with_its_nine_fields() {
    let scene = Scene::looking(Look::default(), |server| {
        let data = json!({ "script": ["421 try later", "550 mailbox not found"] });
        server.enqueue(json!({ "jobId": "order-1", "route": "sandbox", "companyId": "acme", "data": data }));
        server.job_once("order-1", "failed");
        post(server, "/v1/dlq/order-1/discard", &json!({ "reason": "the customer called" }));
    });
    let browser = &scene.browser;
    browser.go("#/audit?jobId=order-1");
    browser.sees("the customer called");
    // Waiting for it to fail may have shown its payload, and this page shows its records: both are on record.
    let order = "return [...document.querySelectorAll('main tbody tr')]\
        .map((row) => row.querySelector('.trail-said strong').innerText).filter((said) => !said.endsWith(' read'))";
    assert_eq!(
        browser.run(order, json!([])),
        json!(["discarded", "moved to the dead letters", "retry scheduled"])
    );
    browser.click_part("//tbody/tr[contains(., 'retry scheduled')]//summary");
    let fields =
        ["jobId", "errorMessage", "retryCount", "errorClassification", "backoffMinutes", "nextRetryTime"];
    for words in fields.into_iter().chain(["shouldRetry", "retryReason", "Retry 1 of 4"]) {
        browser.sees(words);
    }
    browser.is_clean();
}

#[test]
fn w3_g14_records_of_all_jobs_are_searched_by_company_person_and_kind() {
    let scene = Scene::looking(Look::default(), |server| {
        bury(server, "acme", "order-1", &refused_with("550 gone"));
        bury(server, "other", "order-2", &refused_with("550 gone"));
    });
    let browser = &scene.browser;
    scene.as_operator("Ana");
    browser.go("#/dlq/order-2");
    browser.click("Discard");
    browser.write("Why is it given up?", "the customer called");
    browser.click("Discard");
    scene.job_when("order-2", |job| job["status"] == "discarded");
    browser.go("#/audit");
    for words in ["order-1", "order-2", "the customer called"] {
        browser.sees(words);
    }
    let rows = [
        ("companyId=acme", "order-1", "order-2"),
        ("actor=Ana", "the customer called", "moved to the dead letters"),
        ("kind=DISCARDED", "the customer called", "order-1"),
        ("companyId=unknown", "Nothing fits this search.", "order-"),
    ];
    for (search, there, absent) in rows {
        browser.go(&format!("#/audit?{search}"));
        // What was there before stays until the answer comes.
        let found = || {
            browser
                .run("return document.querySelector('main .region')?.innerText ?? ''", json!([]))
                .to_string()
        };
        browser.until(search, || found().contains(there) && !found().contains(absent));
    }
    // Once it is archived, a record has its place in the chain.
    let oldest = || scene.get("/v1/audit?jobId=order-1&order=oldest")["items"][0].clone();
    super::given::eventually(|| !oldest()["hash"].is_null());
    browser.go("#/audit?jobId=order-1");
    browser.click_part("//tbody/tr[last()]//summary");
    let hash = oldest()["hash"].as_str().expect("a hash").to_owned();
    browser.sees(&hash);
    browser.is_clean();
}
