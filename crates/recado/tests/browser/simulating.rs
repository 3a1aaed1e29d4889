//! A simulation on the page of policies.

use serde_json::json;

use super::driver::Look;
use super::scene::Scene;

/// Small enough for a build without optimisation.
fn simulate(scene: &Scene, (ask, run): (&str, &str), labels: [&str; 6]) {
    let browser = &scene.browser;
    browser.go("#/policies?route=email");
    browser.click(ask);
    let values = ["1", "2", "5", "2", "5", "{ max_attempts = 1 }"];
    for (label, value) in labels.into_iter().zip(values) {
        browser.write(label, value);
    }
    browser.click_within("dialog", run);
}

const ENGLISH: [&str; 6] = [
    "The provider is down from (minutes)",
    "until (minutes)",
    "Time to simulate (minutes)",
    "Jobs per second",
    "Companies",
    "Second policy to compare",
];

const PORTUGUESE: [&str; 6] = [
    "O provedor cai em (minutos)",
    "e volta em (minutos)",
    "Tempo simulado (minutos)",
    "Tarefas por segundo",
    "Empresas",
    "Segunda política, para comparar",
];

#[test]
fn a_route_is_simulated_with_two_policies() {
    let scene = Scene::new();
    simulate(&scene, ("Simulate an outage …", "Simulate"), ENGLISH);
    let browser = &scene.browser;
    for words in
        ["Simulation", "600", "duplicates possible", "Second policy", "after the provider comes back."]
    {
        browser.sees(words);
    }
    let lines = browser.run("return document.querySelectorAll('.simulation svg polyline').length", json!([]));
    assert_eq!(lines, 8, "four lines for each policy");
    browser.is_clean();
}

#[test]
fn a_simulation_fits_a_phone_in_the_dark_in_portuguese() {
    let look = Look { language: "pt-BR", width: 360, height: 800, dark: true };
    let scene = Scene::looking(look, |_| {});
    simulate(&scene, ("Simular uma queda …", "Simular"), PORTUGUESE);
    let browser = &scene.browser;
    for words in ["Simulação", "possíveis duplicatas", "depois que o provedor volta."] {
        browser.sees(words);
    }
    let overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.run(overflow, json!([])), 0, "nothing is wider than the screen");
    browser.is_clean();
}

#[test]
fn a_fault_of_the_second_policy_stands_at_its_field() {
    let scene = Scene::new();
    let browser = &scene.browser;
    browser.go("#/policies?route=email");
    browser.click("Simulate an outage …");
    browser.write("Second policy to compare", "{ bse = 1 }");
    browser.click_within("dialog", "Simulate");
    browser.sees("did you mean `base`?");
    browser.is_clean();
}
