//! One search box for every kind of id.

use serde_json::json;

use super::driver::{ENTER, Look};
use super::scene::{Scene, bury, refused_with};

#[test]
fn w3_one_box_finds_jobs_correlations_companies_providers_and_routes() {
    let scene = Scene::looking(Look::default(), |server| {
        for id in ["order-1", "order-2"] {
            server.enqueue(json!({ "jobId": id, "route": "sandbox", "companyId": "acme", "correlationId": "cart-7", "data": { "script": ["ok"] } }));
            server.job_once(id, "sent");
        }
        bury(server, "lonely", "order-3", &refused_with("550 gone"));
        // Goes by the same name as a company.
        server.enqueue(
            json!({ "jobId": "acme", "route": "sandbox", "companyId": "acme", "data": { "script": ["ok"] } }),
        );
        server.job_once("acme", "sent");
    });
    let browser = &scene.browser;
    let find = |words: &str| {
        browser.run("document.getElementById('find').focus()", json!([]));
        browser.type_keys(&format!("{words}{ENTER}"));
    };
    let rows = [
        ("order-1", "#/jobs/order-1"),
        ("cart-7", "#/jobs?correlationId=cart-7"),
        ("lonely", "#/tenants?companyId=lonely"),
        ("smtp", "#/providers?name=smtp"),
        ("tiss-claims", "#/policies?route=tiss-claims"),
    ];
    for (words, place) in rows {
        find(words);
        browser.until(place, || browser.place() == place);
    }
    // A company's page leads on to why its messages fail.
    find("lonely");
    browser.sees("1 of its jobs is a dead letter.");
    browser.click("See why they fail");
    browser.sees("order-3");

    find("acme");
    browser.sees("2 results with this name.");
    browser.sees("0 dead letters");
    find("no-such-id");
    browser.sees("Nothing found for no-such-id");
    find("not a name / at all?");
    browser.sees("Nothing found for not a name / at all?");
    browser.is_clean();
}
