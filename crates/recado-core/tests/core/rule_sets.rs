//! Promises of every built-in rule set.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use recado_core::classify::Condition;
use recado_core::outcome::NetworkKind;
use recado_core::{Blame, Class, Classifier, Fault, FaultKind, Rule, rules};

use crate::given::{classify, http, set, smtp};

fn sets() -> impl Iterator<Item = Classifier> {
    rules::NAMES.into_iter().map(|name| rules::named(name).unwrap())
}

#[test]
fn every_built_in_set_is_found_by_its_name_and_no_other() {
    for name in rules::NAMES {
        let set = rules::named(name).unwrap();
        assert_eq!(set.set.map(rules::RuleSet::as_str), Some(name));
        assert!(!set.rules.is_empty(), "{name}");
    }
    for stranger in ["", "SMTP", "smtp ", "email"] {
        assert!(rules::named(stranger).is_none(), "{stranger:?}");
    }
}

#[test]
fn a_built_in_set_is_compiled_once_and_shared() {
    for name in rules::NAMES {
        let (one, other) = (rules::named(name).unwrap(), rules::named(name).unwrap());
        assert!(Arc::ptr_eq(&one.rules, &other.rules), "{name}");
    }
}

#[test]
fn rule_names_begin_with_their_set_and_mean_one_thing() {
    for set in sets() {
        let set_name = set.set.unwrap().as_str();
        let mut seen = BTreeSet::new();
        for pair in set.rules.chunk_by(|one, next| one.name == next.name) {
            let name = &*pair[0].name;
            assert!(name.starts_with(&format!("{set_name}/")), "{name} in {set_name}");
            // What a provider calls by name is looked for in two places, by two rules side by side.
            assert!(
                pair.iter().all(|rule| (rule.class, rule.blame) == (pair[0].class, pair[0].blame)),
                "{name}"
            );
            assert!(seen.insert(name), "{name} stands in two places");
        }
    }
}

/// Attempts keep the name of their rule for years, and people write alerts on them: a name in this file
/// may move, but not change.
#[test]
fn rule_names_are_stable() {
    let mut now: Vec<String> =
        sets().flat_map(|set| set.rules.to_vec()).map(|rule| rule.name.into_owned()).collect();
    now.dedup();
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
        wait: None,
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

/// Pieces of real answers, which reach further into the rules than noise does.
const PIECES: [&str; 18] = [
    r#"{"error":{"#,
    r#""code":190"#,
    r#""code": "internal_error""#,
    r#""reason":"quotaExceeded""#,
    r#""is_transient":true"#,
    r#""exists":false"#,
    "Connection Closed",
    "5.1.1 ",
    "4.7.28 ",
    "at AUTH: ",
    "temporarily",
    "greylisted",
    "try again later",
    "too many recipients",
    "Throttling",
    "TIMEOUT",
    "503",
    "é🦀",
];

fn a_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![prop::sample::select(PIECES.to_vec()).prop_map(str::to_owned), ".{0,12}"];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn a_fault() -> impl Strategy<Value = Fault> {
    let kind = prop_oneof![
        6 => Just(FaultKind::Answer),
        1 => prop::sample::select(NetworkKind::ALL.to_vec()).prop_map(FaultKind::Network),
        1 => Just(FaultKind::Panic),
        1 => Just(FaultKind::InvalidPayload),
    ];
    let code = prop_oneof![(100..700_u16).prop_map(|code| code.to_string()), a_text()];
    let status = prop::option::of(prop_oneof![200..600_u16, any::<u16>()]);
    (
        kind,
        prop::option::of(code),
        prop::option::of("[245]\\.[0-9]{1,3}\\.[0-9]{1,3}|.{0,8}"),
        status,
        a_text(),
    )
        .prop_map(|(kind, code, enhanced, status, text)| Fault {
            kind,
            code: code.map(Into::into),
            enhanced: enhanced.map(Into::into),
            status,
            text: text.into(),
            ..Fault::default()
        })
}

proptest! {
    #[test]
    fn w4_whatever_comes_back_is_judged_by_a_rule_that_has_a_name(fault in a_fault()) {
        for name in rules::NAMES {
            let failure = classify(name, fault.clone());
            let judged = (failure.class, failure.blame);
            let expected = match (&*failure.rule, fault.kind) {
                ("recado/invalid-payload", FaultKind::InvalidPayload) => (Class::Permanent, Blame::Message),
                ("recado/panic", FaultKind::Panic) => (Class::Unknown, Blame::Message),
                ("recado/unknown", FaultKind::Answer) => (Class::Unknown, Blame::Provider),
                (rule, FaultKind::Network(_)) => {
                    prop_assert_eq!(rule, format!("{name}/network"));
                    (Class::Transient, Blame::Provider)
                }
                (rule, _) => {
                    let holds = |known: &&Rule| known.name == rule && known.when.holds(&fault);
                    let known = set(name).rules.iter().find(holds);
                    prop_assert!(known.is_some(), "{name}: {rule} does not hold");
                    known.map(|known| (known.class, known.blame)).unwrap()
                }
            };
            prop_assert_eq!(judged, expected, "{} {}", name, failure.rule);
            prop_assert!(!failure.reason.as_str().trim().is_empty());
        }
    }
}
