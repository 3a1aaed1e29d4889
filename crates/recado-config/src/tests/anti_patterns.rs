//! Each anti-pattern is refused where it can never be right, and warned of where it may be meant.

use super::super::fault::Warnings;
use super::super::resolve::anti_patterns::ANTI_PATTERNS;
use super::*;

/// Everything that is warned of.
fn warnings(text: &str) -> String {
    Warnings(&load(text).warnings).to_string()
}

/// Files that have one of the eight, with the words and the place of the warning.
const EACH: [(&str, &str, &str, &str); 20] = [
    (
        "endless_retry",
        "[routes.email]\npolicy = { max_attempts = 100 }\n",
        "100 attempts hardly ever end",
        "2:27  routes.email.policy.max_attempts",
    ),
    (
        "no_backoff",
        "[routes.email]\npolicy = { base = \"1ms\", factor = 1, max_attempts = 10 }\n",
        "every retry waits about 1ms and none much longer than the first",
        "2:1  routes.email.policy",
    ),
    (
        "no_backoff",
        "[routes.email]\npolicy = { schedule = [\"0s\", \"1ms\", \"1ms\", \"1ms\"] }\n",
        "every retry waits about 1ms",
        "2:1  routes.email.policy",
    ),
    (
        "no_backoff",
        "[routes.email]\npolicy = { base = \"5ms\", cap = \"80ms\", max_attempts = 9 }\n",
        "no retry waits longer than 80ms",
        "2:1  routes.email.policy",
    ),
    (
        "permanent_retried",
        "[routes.instagram]\nclassify = [{ status = \"4xx\", as = \"transient\" }]\n",
        "has 400, 401, 403, 404 retried",
        "2:13  routes.instagram.classify[0]",
    ),
    (
        "permanent_retried",
        "[routes.instagram]\nclassify = [{ text = \"locked\", as = \"transient\" }, { code = \"404\", as = \"unknown\" }]\n",
        "has 404 retried",
        "2:52  routes.instagram.classify[1]",
    ),
    (
        "no_backoff",
        "[routes.email]\npolicy = { schedule = [\"0s\", \"1h\", \"1ms\", \"1ms\"] }\n",
        "a retry waits 1ms after a longer wait",
        "2:1  routes.email.policy",
    ),
    (
        "no_backoff",
        "[routes.email]\npolicy = { base = \"1s\", factor = 1.0001, max_attempts = 9 }\n",
        "every retry waits about 1001ms",
        "2:1  routes.email.policy",
    ),
    (
        "permanent_retried",
        "[routes.email]\nclassify = [{ enhanced = \"5.x.x\", as = \"transient\" }]\n",
        "has 5.0.0 retried",
        "2:13  routes.email.classify[0]",
    ),
    (
        "permanent_retried",
        "[routes.email]\nclassify = [{ code = \"550\", as = \"transient\" }]\n",
        "has 550 retried",
        "2:13  routes.email.classify[0]",
    ),
    (
        "permanent_retried",
        "[routes.sandbox]\nclassify = [{ code = \"550\", as = \"transient\" }]\n",
        "has 550 retried",
        "2:13  routes.sandbox.classify[0]",
    ),
    (
        "permanent_retried",
        "[providers.shop]\nurl = \"https://shop.example.com\"\n[routes.shop]\nprovider = \"shop\"\nclassifier = \"tiss\"\n",
        "these rules have",
        "5:14  routes.shop.classifier",
    ),
    (
        "permanent_retried",
        "[routes.email]\nauto_replay = { after = \"1h\", only = [\"PERMANENT\"] }\n",
        "replays what no retry can fix",
        "2:39  routes.email.auto_replay.only[0]",
    ),
    (
        "shared_breaker",
        "[routes.instagram]\nprovider = \"all\"\n[routes.tiktok]\nprovider = \"all\"\n[providers.all]\nurl = \"https://all.example.com\"\n",
        "one breaker for several services (instagram, tiktok)",
        "5:12  providers.all",
    ),
    (
        "shared_breaker",
        "[providers.webhook]\nbreaker = { failures = 5 }\n",
        "one breaker for all receivers of webhooks",
        "2:1  providers.webhook.breaker",
    ),
    (
        "silent_failure",
        "[alerts]\nfailure_rate = false\ndlq_rate = { threshold = 1 }\ndlq_size = { threshold = 10000 }\n",
        "jobs may fail and no alert ever fires",
        "1:2  alerts",
    ),
    (
        "hiding_fallback",
        "[routes.email]\nfallback = { do = \"reschedule\", after = \"1m\" }\n",
        "starts over up to 1440 times before it becomes a dead letter",
        "2:41  routes.email.fallback.after",
    ),
    (
        "unattended_dlq",
        "[dlq]\nttl = \"1h\"\n",
        "entries are gone before a person can look at them",
        "2:7  dlq.ttl",
    ),
    (
        "retry_after_ignored",
        "[routes.email]\nhold_max = \"2s\"\n",
        "a longer Retry-After is cut to 2s",
        "2:12  routes.email.hold_max",
    ),
    (
        "retry_after_ignored",
        "[routes.instagram]\nclassify = [{ status = 429, as = \"permanent\" }]\n",
        "has 429 given up on, whatever its Retry-After says",
        "2:13  routes.instagram.classify[0]",
    ),
];

#[test]
fn f14_each_anti_pattern_that_may_be_meant_is_warned_of_at_its_line() {
    for (name, file, words, place) in EACH {
        let said = warnings(file);
        assert_eq!(said.matches("warning: ").count(), 1, "{name}: {said}");
        assert!(said.contains(words), "{name}: {words:?} is missing from {said}");
        assert!(
            said.contains(&format!(" --> recado.toml:{place}\n")),
            "{name}: {place} is missing from {said}"
        );
        assert!(said.contains(&format!("write allow = {{ {name} = \"why\" }} in [")), "{name}: {said}");
    }
    for word in ANTI_PATTERNS {
        assert!(EACH.iter().any(|(name, ..)| *name == word), "{word} has no file");
    }
}

#[test]
fn a_section_silences_one_warning_with_its_reason_and_no_other() {
    for (name, file, ..) in EACH {
        let said = warnings(file);
        let section = said.split(" in [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
        let allowing = format!("{file}[{section}.allow]\n{name} = \"it is meant\"\n");
        assert_eq!(warnings(&allowing), "", "{allowing}");
        let other = if name == "no_backoff" { "endless_retry" } else { "no_backoff" };
        let beside = warnings(&format!("{file}[{section}.allow]\n{other} = \"it is meant\"\n"));
        assert!(beside.contains(&format!("allows `{other}`, and [{section}] has nothing of it")), "{beside}");
        assert_eq!(beside.matches("warning: ").count(), 2, "{beside}");
        let page = show::page(&load(&allowing), show::Style::Effective);
        assert!(page.contains(&format!("allow = {{ {name} = \"it is meant\" }}\n")), "{page}");
    }
}

#[test]
fn an_allowance_has_a_known_name_and_a_reason() {
    let said = faults_of("[dlq]\nallow = { no_backof = \"x\", unattended_dlq = \" \" }\n");
    assert!(said.contains("there is no anti-pattern `no_backof`; did you mean `no_backoff`?"), "{said}");
    assert!(said.contains("does not say why; write the reason"), "{said}");
}

#[test]
fn settings_that_are_sound_are_not_warned_of() {
    for environment in Environment::ALL {
        let flags = Flags { environment: Some(environment), ..Flags::default() };
        let config = Config::load(&Inputs { flags, ..Inputs::default() }).unwrap();
        assert_eq!(config.warnings.list, [], "{environment}");
    }
    for file in [
        "[routes.email]\nclassify = [{ code = \"550\", text = \"try again later\", as = \"transient\" }]\n",
        "[routes.instagram]\nclassify = [{ status = 404, text = \"not yet\", as = \"transient\" }]\n",
        "[routes.instagram]\nclassify = [{ status = \"5xx\", as = \"permanent\" }]\n",
        "[routes.email]\npolicy = { schedule = [\"0s\", \"5s\"] }\n",
        "[routes.email]\npolicy = { base = \"1m\", factor = 1, cap = \"1m\" }\n",
        "[routes.email]\npolicy = { max_attempts = 1 }\n",
        "[routes.email]\nfallback = { do = \"reschedule\", after = \"15m\" }\n",
        "[alerts]\nfailure_rate = false\ndlq_rate = false\n",
        "[routes.email]\nhold_max = \"5m\"\n",
        "[dlq]\nttl = \"1d\"\n",
    ] {
        assert_eq!(warnings(file), "", "{file}");
    }
}

#[test]
fn the_page_on_anti_patterns_has_a_row_for_each() {
    for page in [
        include_str!("../../../../docs/operating/anti-patterns.md"),
        include_str!("../../../../docs/operating/anti-patterns.pt-BR.md"),
    ] {
        for word in ANTI_PATTERNS {
            assert!(page.contains(&format!("`{word}`")), "{word}");
        }
    }
}

#[test]
fn routes_share_their_built_in_rules() {
    let config = load("[routes.a]\ntransport = \"worker\"\nclassifier = \"smtp\"\n");
    let rules = |route: &str| config.route(route).unwrap().classifier.rules.clone();
    assert!(std::sync::Arc::ptr_eq(&rules("a"), &rules("email")));
}
