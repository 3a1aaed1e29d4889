//! The audit trail in the dashboard.

use serde_json::json;

use super::driver::Look;
use super::scene::{Scene, bury, post, refused_with};

#[test]
fn w3_t14_a_jobs_trail_is_read_newest_first_with_the_seeds_nine_fields() {
    let scene = Scene::looking(Look::default(), |server| {
        let data = json!({ "script": ["421 try later", "550 mailbox not found"] });
        server.enqueue(json!({ "jobId": "order-1", "route": "sandbox", "companyId": "acme", "data": data }));
        server.job_once("order-1", "failed");
        post(server, "/v1/dlq/order-1/discard", &json!({ "reason": "the customer called" }));
    });
    let browser = &scene.browser;
    browser.go("#/audit?jobId=order-1");
    browser.sees("the customer called");
    let order = "return [...document.querySelectorAll('main tbody tr')].map((row) => row.querySelector('.trail-said strong').innerText)";
    assert_eq!(
        browser.run(order, json!([])),
        json!(["discarded", "moved to the dead letters", "retry scheduled"])
    );
    browser.click_part("//tbody/tr[3]//summary");
    let fields =
        ["claimId", "errorMessage", "retryCount", "errorClassification", "backoffMinutes", "nextRetryTime"];
    for words in fields.into_iter().chain(["shouldRetry", "retryReason", "Retry 1 of 4"]) {
        browser.sees(words);
    }
    browser.picture("audit");
    browser.is_clean();
}

#[test]
fn w3_without_a_job_the_page_shows_records_or_says_what_it_would_need() {
    let scene =
        Scene::looking(Look::default(), |server| bury(server, "acme", "order-1", &refused_with("550 gone")));
    let browser = &scene.browser;
    let can_search = !scene.get("/openapi.json")["paths"]["/v1/audit"].is_null();
    browser.go("#/audit?companyId=acme");
    browser.sees(if can_search { "moved to the dead letters" } else { "It has no GET /v1/audit." });
    browser.is_clean();
}
