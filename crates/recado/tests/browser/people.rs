//! The dashboard for its readers: their language, their phone, their keyboard.

use serde_json::json;

use super::driver::{ENTER, ESCAPE, Look, TAB};
use super::hostile::{PLACES, hostile};
use super::scene::{Scene, a_bit_of_everything, bury, refused_with};

#[test]
fn w3_the_language_is_the_browsers_and_can_be_switched() {
    let scene = Scene::looking(Look { language: "pt-BR", ..Look::default() }, a_bit_of_everything);
    let browser = &scene.browser;
    browser.sees("Visão geral");
    assert_eq!(browser.run("return document.documentElement.lang", json!([])), "pt-BR");
    browser.go("#/dlq/invoice-1042");
    browser.sees("Tentar de novo não resolve este erro.");
    browser.picture("dead-letter-pt");
    browser.click("English");
    browser.sees("A retry cannot fix this error.");
    assert_eq!(browser.run("return document.documentElement.lang", json!([])), "en");
    browser.reload();
    browser.sees("A retry cannot fix this error.");
    browser.click("Português");
    for (page, words) in [("jobs", "Detalhes"), ("providers", "MEIO ABERTO"), ("tenants", "rodada de espera")]
    {
        browser.go(&format!("#/{page}"));
        browser.sees(words);
    }
    browser.is_clean();
}

#[test]
fn w3_on_a_phone_nothing_scrolls_sideways_whatever_is_in_it() {
    let look = Look { language: "pt-BR", width: 375, height: 740, dark: true };
    let scene = Scene::looking(look, a_bit_of_everything);
    let browser = &scene.browser;
    browser.go("#/dlq");
    browser.sees("invoice-1042");
    hostile(&scene);
    let pages = [
        "overview",
        "jobs",
        "dlq",
        "providers",
        "tenants",
        "policies",
        "endpoints",
        "alerts",
        "kpis",
        "audit",
    ];
    let pages = pages.map(|name| format!("#/{name}"));
    let places = PLACES.iter().map(|(place, _)| (*place).to_owned());
    for place in pages.into_iter().chain(places).chain(["#/jobs/evil-2".to_owned()]) {
        browser.go(&place);
        browser.sees_part("main h1");
        browser.no_longer_sees("Carregando");
        let widths = "return [document.documentElement.scrollWidth, innerWidth]";
        let widths = browser.run(widths, json!([]));
        assert!(widths[0].as_u64() <= widths[1].as_u64(), "{place}: {widths}");
    }
    let header = "return getComputedStyle(document.querySelector('thead')).display";
    browser.go("#/jobs");
    browser.sees_part("tbody tr");
    assert_eq!(browser.run(header, json!([])), "none", "rows are cards");
    browser.click("Menu");
    browser.click("Provedores");
    browser.sees("MEIO ABERTO");
    browser.is_clean();
}

#[test]
fn w3_everything_can_be_done_without_a_mouse() {
    let scene =
        Scene::looking(Look::default(), |server| bury(server, "acme", "order-1", &refused_with("550 gone")));
    let browser = &scene.browser;
    let focused = || browser.run("return document.activeElement.textContent", json!([]));
    browser.type_keys(TAB);
    assert_eq!(focused(), "Skip to the content");
    browser.type_keys(ENTER);
    assert_eq!(focused(), "Overview");
    browser.type_keys("gd");
    browser.until("the dead letters", || browser.place() == "#/dlq");
    browser.type_keys("?");
    browser.sees("Keyboard");
    browser.type_keys(ESCAPE);
    browser.no_longer_sees("Keyboard");
    browser.type_keys("/");
    browser.until("the search", || browser.run("return document.activeElement.id", json!([])) == "find");
    browser.type_keys(&format!("order-1{ENTER}"));
    browser.sees("It was given up and is a dead letter.");

    browser.go("#/dlq/order-1");
    browser.sees("gone");
    browser.until("the way to the button", || {
        browser.type_keys(TAB);
        focused() == "Discard"
    });
    browser.type_keys(ENTER);
    browser.sees("Why is it given up?");
    browser.type_keys("by hand");
    browser.type_keys(&format!("{TAB}Ana{ENTER}"));
    scene.job_when("order-1", |job| job["status"] == "discarded");
    browser.is_clean();
}

#[test]
fn w3_the_keyboard_stays_where_it_is_while_the_page_keeps_itself_fresh() {
    let scene =
        Scene::looking(Look::default(), |server| bury(server, "acme", "order-1", &refused_with("550 gone")));
    let browser = &scene.browser;
    browser.go("#/dlq");
    browser.sees("order-1");
    browser.run("document.querySelector('main tbody a[href=\"#/dlq/order-1\"]').focus()", json!([]));
    bury(&scene, "acme", "order-2", &refused_with("550 gone"));
    browser.sees("order-2");
    let focused = || browser.run("return document.activeElement.getAttribute('href')", json!([]));
    assert_eq!(focused(), "#/dlq/order-1", "the row was drawn anew, and the focus went with it");

    // What had the focus goes away altogether: the keyboard goes on in the list, not at the top of the page.
    scene.post("/v1/dlq/order-1/discard", &json!({ "reason": "tests" }));
    browser.no_longer_sees("order-1");
    let inside = "return document.activeElement.closest('main .region') !== null";
    assert_eq!(browser.run(inside, json!([])), true);

    // A filter that is changed keeps the focus on the page that it leads to.
    browser.run("document.getElementById('filter-within').focus()", json!([]));
    browser.run("const select = document.getElementById('filter-within'); select.value = '24'; select.dispatchEvent(new Event('change'))", json!([]));
    browser.until("the filter", || browser.place().contains("within=24"));
    browser
        .until("the focus", || browser.run("return document.activeElement.id", json!([])) == "filter-within");
    browser.is_clean();
}

#[test]
fn w3_recados_own_words_are_in_the_readers_language_and_those_of_others_stay() {
    let scene = Scene::looking(Look { language: "pt-BR", ..Look::default() }, |server| {
        let (status, _) = server.ask(
            "PUT",
            "/v1/tenants/stopped",
            &json!({ "paused": true, "reason": "fatura em aberto" }),
        );
        assert_eq!(status, 200);
        let held = json!({ "jobId": "held", "route": "sandbox", "companyId": "stopped", "data": { "script": ["ok"] } });
        server.enqueue(held);
        bury(server, "acme", "order-1", &refused_with("550 mailbox not found"));
    });
    let browser = &scene.browser;
    browser.go("#/jobs/held");
    browser.sees("Retida: alguém pôs a empresa em pausa. Não gasta tentativa.");
    browser.sees("fatura em aberto");
    assert!(!browser.text().contains("tenant paused"), "{}", browser.text());
    browser.go("#/jobs/order-1");
    browser.sees("sem nova tentativa: o erro é permanente");
    browser.sees("mailbox not found");
    assert!(!browser.text().contains("Permanent error"), "{}", browser.text());
    browser.go("#/dlq/no-such-job");
    browser.sees("Não existe a mensagem morta no-such-job");
    browser.is_clean();
}
