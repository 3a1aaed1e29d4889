//! Every page, with something in it and with nothing.

use serde_json::{Value, json};

use super::driver::Look;
use super::given::Place;
use super::scene::{Scene, a_bit_of_everything, bury, refused_with};

/// A page, and words that only its own content has.
const PAGES: [(&str, &[&str]); 11] = [
    ("overview", &["Throughput", "Attempt 2", "The alert fires above 100.", "instagram", "now-7"]),
    ("jobs", &["reminder-1", "not before its time", "instagram"]),
    ("dlq", &["5.1.1 mailbox not found", "15 dead letters", "invoice-1042"]),
    ("providers", &["HALF OPEN", "overloaded", "Failures in the window"]),
    ("tenants", &["Share of what was processed", "clinica-norte", "weight 1"]),
    ("policies", &["When each route tries again.", "jitter ±25%", "routes are not configured yet"]),
    ("endpoints", &["https://crm.example.com/recado", "0 of 10"]),
    ("alerts", &["All rules", "One company has many dead letters"]),
    ("kpis", &["Success after retry", "target: at least 85%", "Attempt 2", "acme"]),
    ("audit", &["Every decision and action", "delivered", "now-7"]),
    // Which records are the newest hundred is up to the order in which jobs ended.
    ("audit?kind=BURIED", &["moved to the dead letters", "mailbox not found"]),
];

/// Those that the documents show.
const PICTURES: [&str; 2] = ["overview", "providers"];

#[test]
fn w3_every_page_shows_what_the_server_knows() {
    let scene = Scene::looking(Look::default(), a_bit_of_everything);
    let browser = &scene.browser;
    browser.sees("live");
    for at in 0..8 {
        let script = if at % 3 == 0 { json!(["421 try later", "ok"]) } else { json!(["ok"]) };
        let (id, data) = (format!("now-{at}"), json!({ "script": script }));
        scene.enqueue(json!({ "jobId": id, "route": "sandbox", "companyId": "acme", "data": data }));
    }
    for (name, words) in PAGES {
        browser.go(&format!("#/{name}"));
        for expected in words {
            browser.sees(expected);
        }
        browser.no_longer_sees("Loading …");
        if PICTURES.contains(&name) {
            browser.picture(name);
        }
    }
    browser.is_clean();
}

#[test]
fn w3_the_same_pages_in_the_dark_are_pages_too() {
    let scene = Scene::looking(Look { dark: true, ..Look::default() }, a_bit_of_everything);
    let browser = &scene.browser;
    browser.go("#/dlq/invoice-1042");
    browser.sees("5.1.1 mailbox not found");
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let dark = browser.run(ground, json!([]));
    browser.click("Theme: system");
    browser.sees("Theme: light");
    assert_ne!(browser.run(ground, json!([])), dark, "the theme can be chosen against the system's");
    browser.is_clean();
}

#[test]
fn pages_without_content_say_what_would_be_there() {
    let scene = Scene::new();
    let browser = &scene.browser;
    let rows = [
        ("overview", "No attempts yet"),
        ("jobs", "No jobs here"),
        ("dlq", "No dead letters"),
        ("tenants", "No companies yet"),
        ("endpoints", "No endpoints"),
        ("jobs/no-such-job", "There is no job no-such-job"),
        ("dlq/no-such-job", "There is no dead letter no-such-job"),
        ("audit?jobId=no-such-job", "Nothing is on record for this job yet"),
    ];
    for (page, words) in rows {
        browser.go(&format!("#/{page}"));
        browser.sees(words);
    }
    browser.is_clean();
}

#[test]
fn a_job_is_shown_with_every_attempt_its_wait_its_rule_and_its_trail() {
    let scene = Scene::looking(Look::default(), |server| {
        let data = json!({ "script": ["421 try later", "451 greylisted", "ok"] });
        let job = json!({ "jobId": "order-7", "route": "sandbox", "companyId": "acme", "correlationId": "c-7", "data": data });
        server.enqueue(job);
        server.job_once("order-7", "sent");
    });
    let browser = &scene.browser;
    // By the search on top of every page, as a person with an id in hand would.
    browser.run("document.getElementById('find').focus()", json!([]));
    browser.type_keys("order-7\u{E007}");
    for words in ["Attempt 1", "try later", "Attempt 3", "The provider took it after 3 attempts,"] {
        browser.sees(words);
    }
    for words in ["general/421", "transient", "waited", "retry scheduled", "Retry 2 of 4", "delivered"] {
        browser.sees(words);
    }
    browser.go("#/jobs?correlationId=c-7");
    browser.sees("order-7");
    browser.go("#/jobs?correlationId=c-8");
    browser.sees("Nothing fits this search.");
    browser.is_clean();
}

#[test]
fn w3_a_workers_stack_trace_is_shown_with_its_dead_letter() {
    let scene = Scene::looking(Look::default(), |server| {
        let job = json!({ "jobId": "claim-1", "route": "tiss-claims", "companyId": "acme", "data": { "claim": 1 } });
        server.enqueue(job);
        let asked = json!({ "routes": ["tiss-claims"], "max": 1, "waitMs": 5_000, "leaseMs": 30_000, "workerId": "w" });
        let leased = super::scene::post(server, "/v1/leases", &asked);
        let token = leased["leases"][0]["leaseToken"].as_str().expect("a lease").to_owned();
        let failure = json!({ "message": "DUPLICATE_CLAIM", "stackTrace": "at Claim.submit(Claim.java:42)" });
        super::scene::post(server, &format!("/v1/leases/{token}/fail"), &failure);
        server.job_once("claim-1", "failed");
    });
    scene.browser.go("#/dlq/claim-1");
    scene.browser.sees("at Claim.submit(Claim.java:42)");
    scene.browser.is_clean();
}

#[test]
fn what_happens_appears_without_a_reload() {
    let scene = Scene::new();
    let browser = &scene.browser;
    browser.sees("live");
    browser.sees("No events yet");
    bury(&scene, "acme", "late-1", &refused_with("550 gone"));
    browser.sees("late-1");
    browser.go("#/dlq");
    browser.sees("late-1");
    bury(&scene, "acme", "late-2", &refused_with("550 gone"));
    browser.sees("late-2");
    browser.is_clean();
}

#[test]
fn with_a_token_the_dashboard_asks_once_and_keeps_it_for_the_tab_only() {
    let place = Place::with("[server]\ntoken = \"a-token-of-24-characters\"\n");
    let server = place.serve();
    let browser = super::driver::Browser::at(&server.url(), Look::default());
    browser.sees("This server wants a token");
    browser.write("Token", "wrong");
    browser.click("Continue");
    browser.sees("The server does not take this token.");
    browser.write("Token", "a-token-of-24-characters");
    browser.click("Continue");
    browser.sees("No attempts yet");
    browser.sees("live");
    browser.reload();
    browser.sees("No attempts yet");
    let kept = browser.run("return JSON.stringify(localStorage)", Value::Array(Vec::new()));
    assert!(
        !kept.as_str().expect("a text").contains("a-token-of-24-characters"),
        "it outlives the tab: {kept}"
    );
    browser.is_clean();
}
