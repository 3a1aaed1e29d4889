//! `recado simulate`: what an outage would do, without a server.

use super::given::Place;

/// Small enough for a build without optimisation.
const SMALL: [&str; 9] =
    ["simulate", "email", "--rate", "2/s", "--for", "4m", "--outage", "30s..60s", "--companies=5"];

fn small(more: &[&'static str]) -> Vec<&'static str> {
    SMALL.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn a_simulation_needs_no_server_and_tells_what_to_conclude() {
    let place = Place::new();
    let shown = place.run(&small(&["--against", "{ max_attempts = 1 }"])).done();
    for words in ["provider down", "30s to 1m", "accepted", "480", "duplicates possible", "░", "waiting │"]
    {
        assert!(shown.contains(words), "{words} is not in\n{shown}");
    }
    let conclusion = shown.lines().last().unwrap();
    assert!(conclusion.starts_with("With `policy` "), "{conclusion}");
    assert!(conclusion.contains("With `against` ") && conclusion.contains("after the provider comes back"));
}

#[test]
fn the_same_seed_prints_the_same_bytes() {
    let place = Place::new();
    let of_seed = |seed: &'static str| place.run(&small(&["--json", "--seed", seed])).done();
    let first = of_seed("7");
    assert_eq!(first, of_seed("7"));
    assert_ne!(first, of_seed("8"));
    let json: serde_json::Value = serde_json::from_str(&first).unwrap();
    let policy = &json["policies"][0];
    for name in [
        "accepted",
        "sent",
        "dead",
        "attempts",
        "peakRetriesPerSecond",
        "recoveredAtMs",
        "duplicatesPossible",
    ] {
        assert!(policy[name].is_u64(), "{name} in {policy}");
    }
}

#[test]
fn wrong_arguments_say_what_to_write() {
    let place = Place::new();
    let said = |arguments: &[&str]| place.run(arguments).failed_with(2);
    assert!(said(&["simulate", "emial"]).contains("did you mean `email`?"));
    assert!(said(&["simulate", "email", "--rate", "fast"]).contains("such as 50/s"));
    assert!(said(&["simulate", "email", "--rate", "-5/s"]).contains("--rate is out of range"));
    assert!(said(&["simulate", "email", "--seed", "-1"]).contains("0 to 9007199254740991"));
    assert!(said(&["simulate", "email", "--latency", "-5s"]).contains("such as"));
    assert!(said(&["simulate", "email", "--outage", "10m"]).contains("such as 10m..40m"));
    let faults = said(&["simulate", "email", "--rate", "10000/s", "--companies", "0"]);
    assert!(
        faults.contains("--rate makes 72000000 jobs") && faults.contains("--companies is out of range"),
        "{faults}"
    );
    assert!(said(&["simulate", "email", "--latency", "2h"]).contains("give 1ms to 1h"));
    assert!(said(&["simulate", "email", "--outage", "10m..10m"]).contains("has no duration"));
    let both = said(&["simulate", "email", "--outage", "none", "--outage", "10m..20m"]);
    assert!(both.contains("none stands alone"), "{both}");
    let bare = said(&["simulate", "email", "--policy", "base = \"5s\""]);
    assert!(bare.contains("write it in braces") && !bare.contains("not a key"), "{bare}");
    assert!(said(&["simulate", "email", "--policy", "{ bse = 1 }"]).contains("did you mean `base`?"));
}
