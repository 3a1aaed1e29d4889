//! Providers and companies: what holds them back, and the switches.

use serde_json::{Value, json};

use super::driver::Look;
use super::scene::Scene;

fn provider(name: &str) -> String {
    format!("//section[@data-provider='{name}']")
}

#[test]
fn w3_a_breaker_is_opened_and_closed_from_the_dashboard_with_a_reason() {
    let scene = Scene::new();
    let browser = &scene.browser;
    browser.go("#/providers");
    browser.click_within(&provider("instagram"), "Open the breaker");
    browser.sees("Open the breaker of instagram?");
    browser.write("Reason", "maintenance at the provider");
    browser.write("Your name", "Ana");
    browser.click("Open the breaker");
    browser.sees("The breaker of instagram is open.");
    browser.sees("opened by hand; close it by hand");
    let open = scene.get("/v1/providers/instagram");
    assert_eq!((&open["state"], &open["heldOpen"]), (&json!("OPEN"), &json!(true)), "{open}");

    // What is enqueued now waits, and says why.
    let job = json!({ "jobId": "photo-1", "route": "instagram", "companyId": "acme", "data": { "script": ["ok"] } });
    scene.enqueue(job);
    browser.go("#/jobs/photo-1");
    browser.sees("Parked: the circuit breaker of its provider is open. It spends no attempt.");
    browser.sees("maintenance at the provider");

    browser.go("#/providers?name=instagram");
    browser.click("Close the breaker");
    browser.sees("1 parked job is released");
    browser.write("Reason", "it is over");
    browser.click("Close the breaker");
    browser.sees("The breaker of instagram is closed.");
    scene.job_once("photo-1", "sent");
    browser.sees("breaker opened");
    browser.sees("breaker closed");
    browser.is_clean();
}

#[test]
fn a_provider_is_paused_and_resumed() {
    let scene = Scene::new();
    let browser = &scene.browser;
    scene.as_operator("Ana");
    browser.go("#/providers?name=sandbox");
    browser.click("Pause");
    browser.write("Reason", "audit");
    browser.click("Pause");
    browser.sees("Paused by Ana");
    assert_eq!(scene.get("/v1/providers/sandbox")["paused"]["reason"], "audit");
    browser.click("Resume");
    browser.sees("Resume sandbox?");
    browser.click("Resume");
    browser.no_longer_sees("Paused by Ana");
    assert_eq!(scene.get("/v1/providers/sandbox")["paused"], Value::Null);
    browser.is_clean();
}

#[test]
fn a_hold_is_seen_with_its_end_and_lifted_with_a_reason() {
    let scene = Scene::new();
    let browser = &scene.browser;
    scene.as_operator("Ana");
    browser.go("#/providers?name=instagram");
    browser.sees("When a provider or a webhook’s receiver asks to wait");
    let job = |id: &str, script: &str| json!({ "jobId": id, "route": "instagram", "companyId": "acme", "data": { "script": [script] } });
    scene.enqueue(job("loud", "429 retry-after=3000000000"));
    scene.job_when("loud", |job| job["attempts"][0]["errorCode"] == "429");
    scene.enqueue(job("kept", "ok"));
    browser.sees("the whole provider");
    browser.click("Lift");
    browser.sees("Lift the hold on instagram?");
    browser.write("Reason", "their mistake");
    browser.click("Lift");
    browser.sees("The hold on instagram is lifted.");
    browser.sees("When a provider or a webhook’s receiver asks to wait");
    scene.job_once("kept", "sent");
    browser.is_clean();
}

#[test]
fn w3_a_route_shows_its_delays_and_is_paused_and_resumed_with_who_and_why() {
    let scene = Scene::looking(Look::default(), |server| {
        let later = json!({ "jobId": "later-1", "route": "sandbox", "companyId": "acme", "delayMs": 3_600_000, "data": {} });
        server.enqueue(later);
    });
    let browser = &scene.browser;
    scene.as_operator("Ana");
    let card = |name: &str| format!("//section[@data-route='{name}']");
    browser.go("#/policies");
    // The policy of claims, in words, as a drawing and as a table.
    browser.sees("6 attempts · first after 5 min, ×2 each time, at most 4 h · jitter ±20%");
    let drawn = "return document.querySelector('[data-route=tiss-claims] .chart').getAttribute('aria-label')";
    let drawn = browser.run(drawn, json!([]));
    assert!(drawn.as_str().is_some_and(|words| words.contains("Attempt 3: 8 min to 12 min")), "{drawn}");
    browser.click_part(&format!("{}//summary", card("tiss-claims")));
    browser.sees("1 h 4 min to 1 h 36 min");

    browser.click_within(&card("sandbox"), "Pause");
    browser.sees("This affects 1 waiting job, and all that arrive");
    browser.write("Reason", "wrong template");
    browser.click("Pause");
    browser.sees("sandbox is paused.");
    browser.sees("Paused by Ana");
    assert_eq!(
        scene.get("/v1/routes")["items"].as_array().map(|routes| {
            routes
                .iter()
                .find(|route| route["name"] == "sandbox")
                .map(|route| route["paused"]["reason"].clone())
        }),
        Some(Some(json!("wrong template")))
    );
    scene.enqueue(
        json!({ "jobId": "held-1", "route": "sandbox", "companyId": "acme", "data": { "script": ["ok"] } }),
    );
    browser.go("#/jobs/held-1");
    browser.sees("Parked: a person paused its route. It spends no attempt.");
    browser.sees("wrong template");

    browser.go("#/policies?route=sandbox");
    browser.click("Resume");
    browser.sees("Resume the route sandbox?");
    browser.click("Resume");
    scene.job_once("held-1", "sent");
    browser.no_longer_sees("Paused by Ana");
    browser.is_clean();
}

#[test]
fn w3_g22_a_company_is_paused_bounded_and_weighed_from_the_dashboard() {
    let scene = Scene::looking(Look::default(), |server| {
        let later = json!({ "jobId": "later-1", "route": "sandbox", "companyId": "acme", "delayMs": 3_600_000, "data": {} });
        server.enqueue(later);
    });
    let browser = &scene.browser;
    scene.as_operator("Ana");
    browser.go("#/tenants?companyId=acme");
    browser.click("Pause");
    browser.sees("Its jobs wait and spend no attempt: 1 right now");
    browser.write("Reason", "invoice open");
    browser.click("Pause");
    browser.sees("acme is paused.");
    browser.sees("invoice open");
    scene.enqueue(
        json!({ "jobId": "held-1", "route": "sandbox", "companyId": "acme", "data": { "script": ["ok"] } }),
    );
    scene.job_when("held-1", |job| job["status"] == "parked");

    browser.click("Weight and limit …");
    browser.write("Weight", "0");
    browser.click("Save");
    browser.sees_part("dialog [aria-invalid]");
    browser.write("Weight", "3");
    browser.write("Maximum per minute", "60");
    browser.click("Save");
    browser.sees("weight 3, at most 60 per minute");
    let terms = scene.get("/v1/tenants/acme");
    assert_eq!(
        (&terms["weight"], &terms["maxPerMinute"], &terms["paused"]),
        (&json!(3), &json!(60), &json!(true))
    );

    browser.click("Resume");
    browser.sees("Resume acme?");
    browser.click("Resume");
    scene.job_once("held-1", "sent");
    browser.is_clean();
}

#[test]
fn why_a_job_waits_is_always_answered() {
    let scene = Scene::looking(Look::default(), |server| {
        let job = |id: &str, company: &str, more: Value| {
            let mut job = json!({ "jobId": id, "route": "sandbox", "companyId": company, "data": { "script": ["421 later"] } });
            job.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            server.enqueue(job);
        };
        job("delayed", "acme", json!({ "delayMs": 3_600_000 }));
        job("retrying", "acme", json!({ "data": { "script": ["429 retry-after=3600"] } }));
        let (status, _) = server.ask("PUT", "/v1/tenants/stopped", &json!({ "paused": true }));
        assert_eq!(status, 200);
        job("held", "stopped", json!({}));
        job("buried", "other", refused());
        server.job_when("held", |job| job["status"] == "parked");
    });
    fn refused() -> Value {
        json!({ "route": "email", "data": super::scene::refused_with("550 no") })
    }
    let browser = &scene.browser;
    let rows = [
        ("delayed", "Waits for the time its caller asked for. It can proceed"),
        ("held", "Parked: a person paused its company. It spends no attempt."),
        ("buried", "It was given up and is a dead letter."),
    ];
    for (id, words) in rows {
        browser.go(&format!("#/jobs/{id}"));
        browser.sees(words);
    }
    let waiting = scene.job_when("retrying", |job| !job["waitingFor"].is_null());
    let reason = waiting["waitingFor"]["reason"].as_str().expect("a reason").to_owned();
    browser.go("#/jobs/retrying");
    let words = if reason == "retry" {
        "Waits for its next attempt."
    } else {
        "Parked: the provider, or the webhook’s receiver, asked to wait."
    };
    browser.sees(words);
    browser.is_clean();
}
