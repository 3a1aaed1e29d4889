//! Whatever a payload, a provider, a worker or a name says, it is text.

use serde_json::{Value, json};

use super::driver::Look;
use super::given::Server;
use super::scene::{Scene, post};

/// Would run, load or break something wherever it were taken for markup, an address or a style.
const MARKUP: &str = r#"</textarea></pre><script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)><style>*{display:none}</style>"'`${alert(4)}{{7*7}}"#;

/// Long, and without a place to break it.
fn endless() -> String {
    "A".repeat(400)
}

/// Markup in every place that takes free text.
pub fn hostile(server: &Server) {
    let data = json!({ MARKUP: MARKUP, "endless": endless(), "script": [format!("550 {MARKUP}")] });
    let job = |id: &str, data: &Value| {
        json!({
            "jobId": id, "route": "sandbox", "companyId": "evil-company", "userId": "<b>user</b>",
            "correlationId": "<script>alert(5)</script>", "data": data,
        })
    };
    server.enqueue(job("evil-1", &data));
    server.job_once("evil-1", "failed");
    server.enqueue(job(
        "evil-2",
        &json!({ "script": [format!("421 {}", endless()), "ok"], MARKUP: endless() }),
    ));
    server.job_once("evil-2", "sent");
    server.enqueue(
        json!({ "jobId": "evil-3", "route": "tiss-claims", "companyId": "evil-company", "data": {} }),
    );
    let asked =
        json!({ "routes": ["tiss-claims"], "max": 1, "waitMs": 5_000, "leaseMs": 30_000, "workerId": "w" });
    let leased = post(server, "/v1/leases", &asked);
    let token = leased["leases"][0]["leaseToken"].as_str().expect("a lease").to_owned();
    let failure = json!({ "message": format!("DUPLICATE_CLAIM {MARKUP}"), "code": "javascript:alert(6)", "stackTrace": MARKUP });
    post(server, &format!("/v1/leases/{token}/fail"), &failure);
    server.job_once("evil-3", "failed");
    let reason = json!({ "action": "open", "reason": MARKUP });
    post(server, "/v1/providers/instagram/breaker", &reason);
    post(server, "/v1/providers/sandbox/pause", &json!({ "reason": MARKUP }));
    post(server, "/v1/providers/sandbox/resume", &Value::Null);
    post(server, "/v1/routes/instagram/pause", &json!({ "reason": MARKUP }));
    let (status, _) =
        server.ask("PUT", "/v1/tenants/evil-other", &json!({ "paused": true, "reason": MARKUP }));
    assert_eq!(status, 200);
    let endpoint = json!({ "companyId": "evil-company", "url": "https://example.com/?q=%3Cscript%3E", "description": MARKUP, "events": ["JobExpired"] });
    post(server, "/v1/endpoints", &endpoint);
    post(server, "/v1/dlq/evil-1/replay", &json!({ "note": MARKUP }));
    server.job_once("evil-1", "failed");
}

/// Places that show what is hostile.
pub const PLACES: [(&str, &str); 15] = [
    ("#/overview", "Circuit breakers"),
    ("#/jobs", "evil-1"),
    ("#/jobs/evil-1", "<script>alert(1)</script>"),
    ("#/dlq", "<script>alert(1)</script>"),
    ("#/dlq/evil-1", "<script>alert(1)</script>"),
    ("#/dlq/evil-3", "onerror=alert(2)"),
    ("#/providers", "<script>alert(1)</script>"),
    ("#/endpoints", "<script>alert(1)</script>"),
    ("#/audit?jobId=evil-1", "<script>alert(1)</script>"),
    ("#/audit", "<script>alert(1)</script>"),
    ("#/policies", "<script>alert(1)</script>"),
    ("#/tenants", "<script>alert(1)</script>"),
    ("#/kpis", "javascript:alert(6)"),
    ("#/find/%3Cscript%3Ealert(5)%3C%2Fscript%3E", "evil-1"),
    ("#/find/%3Cscript%3Ealert(8)%3C%2Fscript%3E", "<script>alert(8)</script>"),
];

#[test]
fn w3_markup_in_payloads_reasons_and_names_is_text_and_runs_nothing() {
    let scene = Scene::looking(Look::default(), hostile);
    let browser = &scene.browser;
    for (place, words) in PLACES {
        browser.go(place);
        browser.sees(words);
        let made = "return document.querySelectorAll('main script, main style, main img, main [onerror], main [onload]').length";
        assert_eq!(browser.run(made, json!([])), 0, "{place}: text has become markup");
    }
    // Places that a foreign link may lead to.
    for place in
        ["#/jobs/%3Cimg%20src=x%20onerror=alert(7)%3E", "#/jobs/%", "#/dlq?by=__proto__", "#/constructor/x"]
    {
        browser.go(place);
        browser.sees_part("main h1");
    }
    browser.is_clean();
}

#[test]
fn w3_an_address_from_outside_is_a_link_only_if_it_is_one_of_the_web() {
    let scene = Scene::looking(Look::default(), hostile);
    let browser = &scene.browser;
    browser.go("#/endpoints");
    browser.sees("example.com");
    let script = "const { outside } = await import('/dashboard/frame/dom.js'); \
                  return ['https://a.example/x', 'javascript:alert(1)', 'data:text/html,x', 'nonsense'].map((one) => outside(one).tagName)";
    let asynchronous = format!("return (async () => {{ {script} }})()");
    assert_eq!(browser.run(&asynchronous, json!([])), json!(["A", "CODE", "CODE", "CODE"]));
    let rel = browser.run("return document.querySelector('a.outside').rel", json!([]));
    assert!(rel.as_str().is_some_and(|rel| rel.contains("noopener") && rel.contains("noreferrer")), "{rel}");
    browser.is_clean();
}

#[test]
fn the_browser_refuses_markup_made_from_text_and_the_tests_would_see_it() {
    let scene = Scene::new();
    let browser = &scene.browser;
    browser.is_clean();
    let tries = [
        (
            "try { document.body.innerHTML = '<img src=x onerror=alert(1)>'; } catch (error) { return error.name; }",
            "TypeError",
        ),
        (
            "try { document.createElement('script').text = 'alert(1)'; } catch (error) { return error.name; }",
            "TypeError",
        ),
    ];
    for (script, expected) in tries {
        let said = browser.run(script, json!([]));
        assert_eq!(said, expected, "{script}");
    }
    let inline = "const style = document.createElement('style'); style.textContent = 'body { display: none }'; document.body.append(style);";
    browser.run(inline, json!([]));
    browser.until("the refusals", || {
        browser.refused().iter().filter(|line| line.starts_with("policy: ")).count() >= 3
    });
}
