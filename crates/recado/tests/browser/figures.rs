//! Alerts and indicators, as the server tells them.

use serde_json::{Value, json};

use super::driver::Look;
use super::scene::{Scene, bury, post, refused_with};

/// Rings at three dead letters of a company, and is over as soon as they are gone.
const RINGS_SOON: &str = r#"
[alerts]
every = "1s"
dlq_company = { threshold = 2, clear = "6s" }
"#;

fn three(scene: &Scene) {
    for at in 0..3 {
        bury(scene, "acme", &format!("order-{at}"), &refused_with("550 gone"));
    }
}

#[test]
fn w3_g19_an_alert_appears_says_what_to_do_leads_there_and_goes_without_a_reload() {
    let scene = Scene::configured(RINGS_SOON, Look::default(), |_| {});
    let browser = &scene.browser;
    browser.go("#/alerts");
    browser.sees("Nothing is firing");
    browser.sees("18 rules active.");
    three(&scene);
    browser.sees("Company acme: 3 of its jobs are in the dead letter queue; the limit is 2");
    browser.sees("3, fires above 2");
    browser.picture("alerts");
    browser.go("#/overview");
    browser.sees("Company acme: 3 of its jobs are in the dead letter queue; the limit is 2");
    // The runbook of the documents, in the dashboard.
    browser.click("What to do");
    browser.sees("Most often its domain is not verified, its token has expired");
    browser.click("Details");
    browser.until("the company's dead letters", || browser.place() == "#/dlq?companyId=acme");
    browser.sees("order-2");

    browser.click("Alerts");
    browser.sees("3, fires above 2");
    post(&scene, "/v1/dlq/discard", &json!({ "filter": { "companyId": "acme" }, "reason": "tests" }));
    browser.sees("Went back under the limit");
    browser.sees("Nothing is firing");
    browser.sees("alert over");
    browser.is_clean();
}

#[test]
fn w3_alerts_speak_the_readers_language() {
    let scene = Scene::configured(RINGS_SOON, Look { language: "pt-BR", ..Look::default() }, |_| {});
    let browser = &scene.browser;
    browser.go("#/alerts");
    browser.sees("Nenhum alerta ativo");
    three(&scene);
    let told = &scene.get("/v1/alerts")["items"];
    browser.sees("Empresa acme: 3 de suas tarefas estão na fila de mensagens mortas");
    assert!(!browser.text().contains("of its jobs"), "{told}");
    browser.click("O que fazer");
    browser.sees("Uma empresa");
    browser.is_clean();
}

/// The figures of a card, as the page writes them.
fn shown(scene: &Scene, kpi: &str) -> String {
    let script = "return document.querySelector(`[data-kpi=${arguments[0]}] .kpi-value`)?.innerText ?? ''";
    scene.browser.run(script, json!([kpi])).as_str().expect("a text").to_owned()
}

#[test]
fn w3_g18_indicators_are_the_servers_own_by_route_and_window() {
    let scene = Scene::looking(Look::default(), |server| {
        let send = |id: String, script: &[&str]| {
            let data = json!({ "script": script });
            server.enqueue(json!({ "jobId": id, "route": "sandbox", "companyId": "acme", "data": data }))
        };
        let late: Vec<_> = (0..16).map(|at| send(format!("late-{at}"), &["421 later", "ok"])).collect();
        let lost: Vec<_> = (0..4).map(|at| send(format!("lost-{at}"), &["503 down"])).collect();
        late.iter().for_each(|id| drop(server.job_once(id, "sent")));
        lost.iter().for_each(|id| drop(server.job_once(id, "failed")));
        bury(server, "other", "gone-1", &refused_with("550 gone"));
        super::given::eventually(|| server.get("/v1/kpis")["successAfterRetry"]["volume"] == 20);
    });
    let browser = &scene.browser;
    browser.go("#/kpis");
    // 16 of the 20 jobs that were retried arrived: 80 %, below the 85 % of the target.
    browser.until("the figure", || shown(&scene, "successAfterRetry").starts_with("80%"));
    assert!(shown(&scene, "successAfterRetry").contains("missed"));
    let told = scene.get("/v1/kpis");
    assert_eq!(told["successAfterRetry"]["value"], 0.8);
    assert_eq!(
        told["course"].as_array().map(|parts| parts.iter().filter_map(|part| part["sent"].as_u64()).sum()),
        Some(16)
    );
    let drawn = "return document.querySelector('.chart').getAttribute('aria-label')";
    assert_eq!(browser.run(drawn, json!([])), "sent: 16, failed, retry planned: 32, dead letter: 5");
    for words in ["1 h", "7 days"] {
        browser.click(words);
        browser.until("the figure", || shown(&scene, "successAfterRetry").starts_with("80%"));
    }
    assert!(browser.place().contains("window=7d"), "{}", browser.place());

    // Of another route there is nothing to say, and no figure is made up.
    browser.go("#/kpis?route=email");
    browser.until("no figure", || shown(&scene, "successAfterRetry").starts_with('–'));
    browser.sees("Nothing to measure in this time.");
    browser.is_clean();
}

#[test]
fn figures_of_too_few_are_not_judged_and_no_card_is_overrun_in_portuguese() {
    let routes = "[routes.avisos-transacionais]\ntransport = \"sandbox\"\n";
    for (width, height) in [(1280, 900), (360, 740)] {
        let look = Look { language: "pt-BR", width, height, ..Look::default() };
        let scene = Scene::configured(routes, look, |server| {
            let data = json!({ "script": ["421 later", "ok"] });
            let job =
                json!({ "jobId": "a", "route": "avisos-transacionais", "companyId": "acme", "data": data });
            server.job_once(&server.enqueue(job), "sent");
            bury(server, "other", "gone-1", &refused_with("550 gone"));
            super::given::eventually(|| server.get("/v1/kpis")["lostShare"]["volume"] == 1);
        });
        let browser = &scene.browser;
        browser.go("#/kpis");
        browser.until("the figure", || shown(&scene, "successAfterRetry").contains("poucos dados"));
        browser.sees("São precisos pelo menos 20 para avaliar.");
        // Every room that a window may leave the page.
        let overrun = "const main = document.querySelector('main'), found = [];
            for (let width = main.clientWidth; width >= 300; width -= 20) {
              main.style.width = `${width}px`;
              for (const card of document.querySelectorAll('.card')) {
                const edge = card.getBoundingClientRect().right;
                if ([...card.querySelectorAll('*')].some((part) => part.getBoundingClientRect().right > edge)) found.push([width, card.innerText.slice(0, 20)]);
              }
            }
            return found";
        assert_eq!(browser.run(overrun, json!([])), json!([]), "at {width} pixels");
        browser.is_clean();
    }
}

#[test]
fn w3_the_overview_is_drawn_from_what_the_server_counts_and_survives_a_reload() {
    let scene = Scene::looking(Look::default(), |server| {
        let ok = json!({ "jobId": "ok-1", "route": "sandbox", "companyId": "acme", "data": { "script": ["421 later", "ok"] } });
        server.enqueue(ok);
        server.job_once("ok-1", "sent");
        super::given::eventually(|| server.get("/v1/kpis")["successAfterRetry"]["volume"] == 1);
    });
    let browser = &scene.browser;
    let drawn = || -> Value {
        let charts =
            "return [...document.querySelectorAll('.chart')].map((one) => one.getAttribute('aria-label'))";
        browser.run(charts, json!([]))
    };
    for _ in 0..2 {
        browser.until("the throughput", || drawn()[0] == "sent: 1, failed, retry planned: 1, dead letter: 0");
        browser.sees("100% · 1 of 1");
        // The sandbox's policy, and the one wait there was.
        browser.sees("Circles: 1 wait of the newest jobs.");
        browser.reload();
    }
    browser.is_clean();
}
