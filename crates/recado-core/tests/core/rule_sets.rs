//! What holds for every built-in rule set.

use std::collections::BTreeSet;

use recado_core::classify::Condition;
use recado_core::outcome::NetworkKind;
use recado_core::{Blame, Class, Classifier, Fault, FaultKind, Rule, rules};

use crate::given::{classify, http, smtp};

fn sets() -> impl Iterator<Item = Classifier> {
    rules::NAMES.into_iter().map(|name| rules::named(name).unwrap())
}

#[test]
fn every_built_in_set_is_found_by_its_name_and_no_other() {
    for name in rules::NAMES {
        let set = rules::named(name).unwrap();
        assert_eq!(set.name, name);
        assert!(!set.rules.is_empty(), "{name}");
    }
    for stranger in ["", "SMTP", "smtp ", "email"] {
        assert!(rules::named(stranger).is_none(), "{stranger:?}");
    }
}

#[test]
fn rule_names_are_unique_and_begin_with_their_set() {
    let mut seen = BTreeSet::new();
    for set in sets() {
        for rule in &set.rules {
            assert!(rule.name.starts_with(&format!("{}/", set.name)), "{} in {}", rule.name, set.name);
            assert!(seen.insert(rule.name.to_string()), "{} stands twice", rule.name);
        }
    }
}

/// Attempts keep the name of their rule for years, and people write alerts on them: a name in this file
/// may move, but not change.
#[test]
fn rule_names_are_stable() {
    let now: Vec<String> = sets().flat_map(|set| set.rules).map(|rule| rule.name.into_owned()).collect();
    let pinned: Vec<&str> = include_str!("rule_names.txt").lines().collect();
    let gone: Vec<_> = pinned.iter().filter(|name| !now.iter().any(|n| n == *name)).collect();
    let new: Vec<_> = now.iter().filter(|name| !pinned.contains(&name.as_str())).collect();
    assert!(gone.is_empty() && new.is_empty(), "gone: {gone:?}; not yet in rule_names.txt: {new:?}");
}

#[test]
fn no_rule_hides_behind_the_ones_before_it() {
    for set in sets() {
        for rule in set.rules.iter().filter(|rule| rule.when.regex.is_none()) {
            let wins = |fault: &Fault| *set.classify(fault.clone()).rule == *rule.name;
            assert!(witnesses(&rule.when).iter().any(wins), "{} never comes to a say", rule.name);
        }
    }
}

/// Faults that say what the condition asks for and nothing more, with every number it may mean.
fn witnesses(when: &Condition) -> Vec<Fault> {
    let codes: Vec<Option<Box<str>>> = match when.code.as_deref() {
        None => vec![None],
        Some(code) => (300..600).map(|n| n.to_string().into()).chain([code.into()]).map(Some).collect(),
    };
    let statuses: Vec<Option<u16>> = match when.status {
        None => vec![None],
        Some((low, high)) => (low..=high).map(Some).collect(),
    };
    let plain = Fault {
        kind: if when.any_network { FaultKind::Network(NetworkKind::Tls) } else { FaultKind::Answer },
        enhanced: when.enhanced.as_ref().map(|code| code.replace('x', "1").into()),
        text: when.text.as_deref().unwrap_or_default().into(),
        ..Fault::default()
    };
    let mut faults = Vec::new();
    for code in codes {
        faults.extend(statuses.iter().map(|&status| Fault { code: code.clone(), status, ..plain.clone() }));
    }
    faults
}

#[test]
fn f8_a_network_failure_of_any_kind_is_transient_and_the_providers_in_every_set() {
    for set in rules::NAMES {
        for kind in NetworkKind::ALL {
            // What a broken connection says about itself is not the provider's word.
            for text in ["", "550 insufficient_quota MessageRejected INVALID_PATIENT_DATA"] {
                let failure = classify(set, Fault::network(kind, text));
                assert_eq!(
                    (failure.class, failure.blame),
                    (Class::Transient, Blame::Provider),
                    "{set} {kind:?}"
                );
                assert_eq!(*failure.rule, format!("{set}/network"), "{kind:?}");
            }
        }
    }
}

#[test]
fn w4_an_error_that_no_rule_knows_is_retried_in_every_set() {
    for set in rules::NAMES {
        for fault in
            [smtp("WAT", "something odd"), Fault::default(), Fault { status: Some(299), ..Fault::default() }]
        {
            let failure = classify(set, fault);
            assert_eq!((failure.class, &*failure.rule), (Class::Unknown, "recado/unknown"), "{set}");
            assert!(failure.class.is_retryable(), "{set}");
        }
    }
}

#[test]
fn a_pattern_of_digits_fits_digits_only() {
    for code in ["4ab", "5O0", "42", "4210", " 421"] {
        assert_eq!(&*classify("smtp", smtp(code, "")).rule, "recado/unknown", "{code:?}");
    }
}

#[test]
fn only_permanent_is_never_retried() {
    let retried: Vec<_> = [Class::Transient, Class::Permanent, Class::RateLimit, Class::Unknown]
        .into_iter()
        .filter(|class| class.is_retryable())
        .collect();
    assert_eq!(retried, [Class::Transient, Class::RateLimit, Class::Unknown]);
}

#[test]
fn e6_an_operators_own_rule_comes_before_the_built_in_ones() {
    let own = Rule {
        name: "own/1".into(),
        when: Condition {
            code: Some("550".into()),
            text: Some("come back tomorrow".into()),
            ..Condition::default()
        },
        class: Class::Transient,
        blame: Blame::Message,
    };
    let set = rules::named("smtp").unwrap().preceded_by(vec![own]);
    let told = set.classify(smtp("550", "5.7.1 Come back tomorrow"));
    assert_eq!((told.class, &*told.rule), (Class::Transient, "own/1"));
    let other = set.classify(smtp("550", "5.1.1 unknown"));
    assert_eq!((other.class, &*other.rule), (Class::Permanent, "smtp/550"), "both conditions must hold");
}

#[test]
fn a_panic_and_an_unreadable_payload_are_judged_before_any_rule() {
    for set in rules::NAMES {
        let panic = classify(set, Fault::panic("550 MessageRejected DUPLICATE_CLAIM"));
        assert_eq!(
            (panic.class, &*panic.rule, panic.blame),
            (Class::Unknown, "recado/panic", Blame::Message)
        );
        let unreadable = classify(set, Fault::invalid_payload("421 TIMEOUT"));
        assert_eq!(
            (unreadable.class, &*unreadable.rule),
            (Class::Permanent, "recado/invalid-payload"),
            "{set}"
        );
        assert!(unreadable.invalid_payload);
    }
}

#[test]
fn the_code_of_a_failure_is_what_the_provider_called_it_or_what_the_network_did() {
    for (fault, code) in [
        (http(503, ""), "503"),
        (Fault { status: Some(502), ..Fault::default() }, "502"),
        (smtp("MessageRejected", ""), "MessageRejected"),
        (Fault::network(NetworkKind::Timeout, ""), "TIMEOUT"),
        (Fault::network(NetworkKind::Dropped, ""), "CONNECTION_LOST"),
        (Fault::network(NetworkKind::Dns, ""), "DNS_ERROR"),
        (Fault::panic(""), "PANIC"),
        (Fault::invalid_payload(""), "INVALID_PAYLOAD"),
    ] {
        assert_eq!(classify("general", fault).code.as_deref(), Some(code));
    }
    assert_eq!(classify("general", Fault::default()).code, None);
}
