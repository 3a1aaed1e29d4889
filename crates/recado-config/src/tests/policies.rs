//! Policies that stand alone.

use std::time::Duration;

use recado_core::Backoff;

use super::*;
use crate::catalogue::BuiltIn;

fn usual() -> Policy {
    BuiltIn::named("email").unwrap().policy(Environment::Production)
}

#[test]
fn a_policy_is_written_as_in_a_route_or_as_its_value() {
    let value = r#"{ base = "5s", max_attempts = 8 }"#;
    let policy = read_policy("--policy", value, &usual()).unwrap();
    assert_eq!(policy, read_policy("--policy", &format!("policy = {value}"), &usual()).unwrap());
    let Backoff::Exponential { base, cap, .. } = policy.backoff else { panic!("{policy:?}") };
    assert_eq!((base, policy.max_attempts), (Duration::from_secs(5), 8));
    assert_eq!((cap, policy.jitter), (Duration::from_secs(300), usual().jitter), "the rest stays");
}

#[test]
fn its_faults_are_named_like_those_of_a_file() {
    let said = |text: &str| read_policy("--policy", text, &usual()).unwrap_err().to_string();
    let faults = said(r#"{ base = 5, max_atempts = 3 }"#);
    for words in ["--policy:1:", "policy.base", "a duration needs a unit", "did you mean `max_attempts`?"] {
        assert!(faults.contains(words), "{words} is not in\n{faults}");
    }
    assert!(said(r#"{ base = "1s", schedule = ["0s"] }"#).contains("not both"));
    assert!(said("{ base = ").contains("this is not TOML"));
    for none in ["", "[1]", "max_attempts = 3"] {
        let faults = said(none);
        assert!(faults.contains("this is not a policy") && faults.contains(" --> --policy:1:1"), "{faults}");
    }
    assert!(said("policy = { base = \"1s\" }\ntimeout = \"5s\"").contains("there is no key `timeout`"));
}
