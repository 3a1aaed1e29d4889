//! Tests of trace settings.

use super::*;

#[test]
fn without_a_word_nothing_is_recorded() {
    let Traces { endpoint, headers, sample } = load("").settings.traces;
    assert_eq!((endpoint, headers, sample), (None, None, 1.0));
}

#[test]
fn a_collector_is_named_by_its_address_and_spans_go_to_its_usual_path() {
    for (written, meant) in [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://otlp.example.com/team/", "https://otlp.example.com/team/v1/traces"),
        ("https://otlp.example.com/v1/traces", "https://otlp.example.com/v1/traces"),
    ] {
        let config = load(&format!("[traces]\nendpoint = \"{written}\"\nsample = 0.25\n"));
        assert_eq!(config.settings.traces.endpoint.as_ref().map(|url| url.as_str()), Some(meant));
        assert_eq!(config.settings.traces.sample, 0.25);
    }
}

#[test]
fn what_is_wrong_with_a_collector_is_told_at_its_line_without_its_secrets() {
    for (wrong, words) in [
        ("endpoint = \"127.0.0.1:4318\"", "write one such as"),
        ("endpoint = \"grpc://127.0.0.1:4317\"", "OTLP is spoken over HTTP"),
        ("endpoint = \"http://user:hunter2hunter2@127.0.0.1:4318\"", "write credentials as headers"),
        ("endpoint = \"http://127.0.0.1:4318?key=hunter2hunter2\"", "has a query"),
        ("headers = { \"a b\" = \"hunter2hunter2\" }", "is not a header's name"),
        ("headers = { key = \"hunter2\\nhunter2\" }", "control characters"),
        ("sample = 1.5", "from 0 to 1"),
        ("sampel = 0.5", "did you mean `sample`"),
    ] {
        let said = faults_of(&format!("[traces]\n{wrong}\n"));
        assert!(said.contains(words) && said.contains("recado.toml:2"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn headers_are_used_and_never_shown() {
    let config = load(
        "[traces]\nendpoint = \"http://127.0.0.1:4318\"\nheaders = { Authorization = \"Bearer hunter2hunter2\" }\n",
    );
    assert_eq!(
        config.settings.traces.headers.as_ref().unwrap()["Authorization"].reveal(),
        "Bearer hunter2hunter2"
    );
    let shown = show::page(&config, show::Style::Effective) + &format!("{:?}", config.settings.traces);
    assert!(shown.contains("headers = { Authorization = \"***\" }") && !shown.contains("hunter2"), "{shown}");
}
