//! Promises about the data of every transport.

use recado_core::Payload;
use recado_transport::{Evolution, EvolutionConfig, Http, HttpConfig, Sandbox, Transport, Url};

fn transports() -> Vec<Box<dyn Transport>> {
    let url: Url = "http://127.0.0.1:9".parse().expect("a URL");
    let http = Http::new(HttpConfig::new(url.clone())).expect("an Http");
    let evolution = Evolution::new(EvolutionConfig::new(url, "key")).expect("an Evolution");
    vec![Box::new(Sandbox), Box::new(http), Box::new(evolution)]
}

#[test]
fn data_that_is_not_an_object_is_a_fault_at_the_root() {
    for transport in transports() {
        for json in ["[]", "null", "1", "\"x\"", "true", r#"[["ok"], 5]"#] {
            let faults = transport.check(&Payload::new(json).unwrap()).unwrap_err();
            assert_eq!(faults.len(), 1, "{}: {json}", transport.kind().as_str());
            assert_eq!(faults[0].pointer, "", "{}: {json}", transport.kind().as_str());
        }
    }
}

#[test]
fn a_field_given_twice_is_a_fault_because_it_is_unclear_which_one_counts() {
    let given =
        r#"{"script": ["ok"], "path": "a", "text": "a", "script": ["503"], "path": "b", "text": "b"}"#;
    for transport in transports() {
        let faults = transport.check(&Payload::new(given).unwrap()).unwrap_err();
        let repeated: Vec<_> =
            faults.iter().filter(|fault| fault.message.contains("more than once")).collect();
        assert_eq!(repeated.len(), 3, "{}: {faults:?}", transport.kind().as_str());
    }
}

#[test]
fn nesting_without_end_is_judged_without_overflowing() {
    let deep = format!(r#"{{"body": {}{}}}"#, "[".repeat(200_000), "]".repeat(200_000));
    let judged = |transport: &dyn Transport| transport.check(&Payload::trusted(deep.as_str())).is_ok();
    let verdicts: Vec<_> =
        transports().iter().map(|transport| (transport.kind().as_str(), judged(&**transport))).collect();
    assert_eq!(verdicts, [("sandbox", true), ("http", true), ("whatsapp", false)]);
}

#[test]
fn half_a_surrogate_pair_is_named_as_what_it_is() {
    for json in [r#"{"\ud800": 1}"#, r#"{"script": ["\ud800"], "path": "\ud800", "text": "\ud800"}"#] {
        for transport in transports() {
            let faults = transport.check(&Payload::new(json).unwrap()).unwrap_err();
            let named = faults.iter().filter(|fault| fault.message.contains("broken \\u escape")).count();
            assert_eq!(named, 1, "{}: {faults:?}", transport.kind().as_str());
        }
    }
}

#[test]
fn no_more_faults_are_told_than_a_person_reads() {
    let many: Vec<_> = (0..10_000).map(|n| format!(r#""unknown-{n}": 1"#)).collect();
    let faults =
        transports()[1].check(&Payload::new(&format!("{{{}}}", many.join(","))).unwrap()).unwrap_err();
    assert_eq!(faults.len(), 100);
}
