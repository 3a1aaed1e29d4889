//! Other acts: cancelling a job, endpoints.

use serde_json::json;

use super::driver::Look;
use super::scene::Scene;

#[test]
fn a_job_that_waits_is_cancelled_after_being_asked() {
    let scene = Scene::looking(Look::default(), |server| {
        let later = json!({ "jobId": "later-1", "route": "sandbox", "companyId": "acme", "delayMs": 3_600_000, "data": {} });
        server.enqueue(later);
    });
    let browser = &scene.browser;
    scene.as_operator("Ana");
    browser.go("#/jobs/later-1");
    browser.click("Cancel the job");
    browser.sees("This affects 1 job: it will not be sent.");
    browser.click("Cancel");
    assert_eq!(scene.get("/v1/jobs/later-1")["status"], "scheduled", "thought better of");
    browser.click("Cancel the job");
    browser.click("Cancel the job");
    browser.sees("A person cancelled it before it was sent,");
    scene.job_once("later-1", "cancelled");
    browser.is_clean();
}

#[test]
fn a_question_goes_with_the_page_that_asked_it() {
    let scene = Scene::new();
    let browser = &scene.browser;
    browser.go("#/overview");
    browser.click("Providers");
    browser.click_part("//section[@data-provider='sandbox']//button[normalize-space()='Pause']");
    browser.sees("Pause sandbox?");
    browser.run("history.back()", json!([]));
    browser.sees("Throughput");
    browser.no_longer_sees("Pause sandbox?");
    browser.is_clean();
}

#[test]
fn an_endpoint_is_added_its_secret_shown_once_and_it_is_switched_off_and_removed() {
    let scene = Scene::new();
    let browser = &scene.browser;
    browser.go("#/endpoints");
    browser.click("Add an endpoint");
    browser.write("Company", "acme");
    browser.write("Address", "https://crm.example.com/hook");
    browser.write("Events", "JobSent, NoSuchEvent");
    browser.click("Add an endpoint");
    browser.sees_part("dialog [aria-invalid]");
    browser.write("Events", "JobSent, JobFailed");
    browser.click("Add an endpoint");
    browser.sees("whsec_");
    browser.click("I have saved it");
    browser.no_longer_sees("whsec_");
    browser.sees("https://crm.example.com/hook");
    browser.click("Switch off");
    browser.sees("This affects 1 endpoint: it receives nothing until");
    browser.click("Switch off");
    browser.sees("Switch on");
    assert_eq!(scene.get("/v1/endpoints")["items"][0]["enabled"], false);
    browser.click("Remove");
    browser.sees("Remove this endpoint?");
    browser.click("Remove");
    browser.sees("No endpoints");
    browser.is_clean();
}
