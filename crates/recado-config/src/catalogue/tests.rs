//! The required numbers, row by row.

use recado_core::limit::Rate;
use recado_core::{Backoff, CapApplies, Class, Draw, Fault, NetworkKind};

use super::*;
use crate::{Config, Delivery, Flags, Inputs};

fn config(environment: Environment) -> Config {
    let flags = Flags { environment: Some(environment), ..Flags::default() };
    Config::load(&Inputs { flags, ..Inputs::default() }).unwrap()
}

fn row(name: &str) -> &'static BuiltIn {
    BuiltIn::named(name).unwrap()
}

fn policy(name: &str) -> Policy {
    row(name).policy(Environment::Production)
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn minutes(count: u64) -> Duration {
    seconds(60 * count)
}

/// Shortest and longest wait before each retry, in milliseconds.
fn ranges_ms(policy: &Policy) -> Vec<(u128, u128)> {
    let range = |retry| policy.range(retry);
    (0..policy.max_attempts - 1).map(range).map(|(low, high)| (low.as_millis(), high.as_millis())).collect()
}

fn class(route: &str, fault: Fault) -> Class {
    let config = config(Environment::Production);
    config.route(route).unwrap().classifier.classify(fault).class
}

fn answer(code: &str) -> Fault {
    Fault { status: code.parse().ok(), ..Fault::answer(code, "") }
}

#[test]
fn every_row_of_the_contract_is_there_with_its_rules_timeout_and_concurrency() {
    let rows: Vec<_> = ROUTES
        .iter()
        .map(|row| {
            (row.name.as_str(), row.kind.as_str(), row.classifier, row.timeout.as_secs(), row.concurrency)
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("email", "smtp", "smtp", 30, 64),
            ("email-ses", "ses", "ses", 30, 5),
            ("whatsapp", "whatsapp", "evolution", 30, 64),
            ("tiss-claims", "worker", "tiss", 30, 64),
            ("instagram", "http", "social", 30, 64),
            ("tiktok", "http", "social", 30, 64),
            ("youtube", "http", "social", 60, 64),
            ("openai", "http", "openai", 30, 64),
            ("webhook", "webhook", "http", 10, 64),
            ("sandbox", "sandbox", "general", 30, 1024),
        ]
    );
}

#[test]
fn every_row_is_sound() {
    assert_eq!(read_built_in().1, [], "faults of the file");
    for row in ROUTES.iter() {
        for environment in Environment::ALL {
            assert_eq!(row.policy(environment).faults(), Vec::<String>::new(), "{}", row.name);
        }
        assert!(recado_core::rules::named(row.classifier).is_some(), "{}", row.name);
        assert!(!row.purpose.is_empty(), "{}", row.name);
        let configurable = row.kind.needs_provider() || row.kind == Kind::Webhook;
        assert_eq!(configurable, !row.provider_lines.is_empty(), "{}", row.name);
    }
}

#[test]
fn e1_e2_email_in_production_waits_from_one_second_to_three_hundred_over_five_attempts() {
    let policy = row("email").policy(Environment::Production);
    assert_eq!(policy.backoff, Backoff::Exponential { base: seconds(1), factor: 2.0, cap: seconds(300) });
    assert_eq!((policy.max_attempts, policy.cap_applies), (5, CapApplies::AfterJitter));
    assert_eq!(ranges_ms(&policy), [(750, 1_250), (1_500, 2_500), (3_000, 5_000), (6_000, 10_000)]);
    assert_eq!(policy.delay(20, None, Draw::new(1.0)), seconds(300), "nothing exceeds the cap");
}

#[test]
fn e3_email_in_development_waits_from_half_a_second_to_thirty_over_three_attempts() {
    let policy = row("email").policy(Environment::Development);
    assert_eq!(
        policy.backoff,
        Backoff::Exponential { base: Duration::from_millis(500), factor: 2.0, cap: seconds(30) }
    );
    assert_eq!(policy.max_attempts, 3);
    assert_eq!(ranges_ms(&policy), [(375, 625), (750, 1_250)]);
}

#[test]
fn e2_e3_the_environment_chooses_the_policy_of_email() {
    let attempts = |environment| config(environment).route("email").unwrap().terms.policy.max_attempts;
    assert_eq!((attempts(Environment::Production), attempts(Environment::Development)), (5, 3));
}

#[test]
fn e4_e5_e6_email_retries_what_its_requirement_retries_and_nothing_else() {
    for code in ["421", "450", "451", "452"] {
        assert_eq!(class("email", Fault::answer(code, "")), Class::Transient, "{code}");
    }
    for code in ["500", "501", "502", "503", "550", "551", "552", "553", "554"] {
        assert_eq!(class("email", Fault::answer(code, "")), Class::Permanent, "{code}");
    }
    let temporary = Fault { enhanced: Some("4.2.1".into()), ..Fault::answer("550", "4.2.1 mailbox busy") };
    assert_eq!(class("email", temporary), Class::Transient);
}

#[test]
fn g1_g2_email_ses_has_the_required_constants_and_ranges() {
    let policy = policy("email-ses");
    assert_eq!(policy.max_attempts, 5);
    assert_eq!(ranges_ms(&policy), [(750, 1_250), (1_500, 2_500), (3_000, 5_000), (6_000, 10_000)]);
    let beyond = |retry| policy.range(retry);
    assert_eq!(beyond(4), (seconds(12), seconds(20)));
    assert_eq!(beyond(5), (seconds(24), seconds(40)), "by the formula, not by the table");
    assert_eq!(beyond(6), (seconds(45), seconds(75)), "at the cap, jitter still spreads to both sides");
    let config = config(Environment::Production);
    assert_eq!(config.route("email-ses").unwrap().terms.dead_letter_ttl, seconds(604_800));
}

#[test]
fn g9_g16_email_ses_judges_by_name_and_sends_five_at_a_time() {
    for code in ["421", "450", "451", "452", "Throttling", "ServiceUnavailable"] {
        assert!(class("email-ses", Fault::answer(code, "")).is_retryable(), "{code}");
    }
    for code in ["500", "550", "554", "MessageRejected", "MailFromDomainNotVerified"] {
        assert_eq!(class("email-ses", Fault::answer(code, "")), Class::Permanent, "{code}");
    }
    assert_eq!(row("email-ses").concurrency, 5);
}

#[test]
fn w1_w2_whatsapp_waits_0_5_30_and_300_seconds_without_jitter() {
    let policy = policy("whatsapp");
    assert_eq!((policy.max_attempts, policy.first_delay()), (4, Duration::ZERO));
    assert_eq!(ranges_ms(&policy), [(5_000, 5_000), (30_000, 30_000), (300_000, 300_000)]);
    for code in ["400", "404"] {
        assert_eq!(class("whatsapp", answer(code)), Class::Permanent, "{code}");
    }
    for code in ["429", "500", "502", "503", "504"] {
        assert!(class("whatsapp", answer(code)).is_retryable(), "{code}");
    }
    assert_eq!(class("whatsapp", Fault::network(NetworkKind::Timeout, "")), Class::Transient);
}

#[test]
fn t3_tiss_claims_waits_5_to_240_minutes_over_five_retries() {
    let policy = policy("tiss-claims");
    assert_eq!(policy.max_attempts, 6, "the first try and five retries");
    let minutes_of = |(low, high): (u128, u128)| (low / 60_000, high / 60_000);
    let ranges: Vec<_> = ranges_ms(&policy).into_iter().map(minutes_of).collect();
    assert_eq!(ranges, [(5, 6), (8, 12), (16, 24), (32, 48), (64, 96)]);
    assert_eq!(policy.range(9), (minutes(192), minutes(240)), "held at the ceiling");
    assert_eq!(policy.delay(0, None, Draw::new(0.0)), minutes(5), "held at the floor");
}

#[test]
fn t4_tiss_claims_is_carried_by_workers_and_retries_what_it_does_not_know() {
    let config = config(Environment::Production);
    let route = &config.route("tiss-claims").unwrap();
    assert!(matches!(route.delivery, Delivery::Workers));
    let said = |text: &str| Fault { text: text.into(), ..Fault::default() };
    assert_eq!(route.classifier.classify(said("SERVICE_UNAVAILABLE")).class, Class::Transient);
    assert_eq!(route.classifier.classify(said("INVALID_PROCEDURE_CODE 1")).class, Class::Permanent);
    assert_eq!(route.classifier.classify(said("flux")).class, Class::Unknown);
}

#[test]
fn f6_social_media_and_webhooks_wait_0_60_and_300_seconds_plus_up_to_a_fifth() {
    for name in ["instagram", "tiktok", "youtube", "openai", "webhook"] {
        let policy = policy(name);
        assert_eq!((policy.max_attempts, policy.first_delay()), (3, Duration::ZERO), "{name}");
        assert_eq!(ranges_ms(&policy), [(60_000, 72_000), (300_000, 360_000)], "{name}");
    }
}

#[test]
fn f7_f8_social_media_retries_what_its_requirement_retries() {
    for route in ["instagram", "tiktok", "youtube", "openai"] {
        for code in ["500", "502", "503"] {
            assert_eq!(class(route, answer(code)), Class::Transient, "{route} {code}");
        }
        assert_eq!(class(route, answer("429")), Class::RateLimit, "{route}");
        for code in ["400", "401", "403", "404"] {
            assert_eq!(class(route, answer(code)), Class::Permanent, "{route} {code}");
        }
        assert_eq!(class(route, Fault::network(NetworkKind::Timeout, "")), Class::Transient, "{route}");
    }
}

#[test]
fn f13_timeouts_are_the_required_ones() {
    let seconds_of = |name: &str| row(name).timeout.as_secs();
    assert_eq!(["instagram", "tiktok", "youtube", "openai", "webhook"].map(seconds_of), [30, 30, 60, 30, 10]);
}

#[test]
fn f2_breakers_are_the_required_ones() {
    let config = config(Environment::Production);
    let breaker = |name: &str| {
        let terms = config.protection[name].breaker?;
        Some((terms.failures, terms.within.as_secs(), terms.reset.as_secs()))
    };
    for name in ["instagram", "tiktok", "youtube"] {
        assert_eq!(breaker(name), Some((5, 60, 120)), "{name}");
    }
    assert_eq!(breaker("openai"), Some((3, 60, 180)));
    for name in ["smtp", "ses", "evolution", "tiss", "webhook", "sandbox"] {
        assert_eq!(breaker(name), None, "{name}");
    }
}

#[test]
fn f2_a_probe_may_take_as_long_as_its_route_allows() {
    let config = config(Environment::Production);
    for (name, timeout) in [("instagram", 30), ("youtube", 60)] {
        let probe = config.protection[name].breaker.unwrap().probe;
        assert!(probe > seconds(timeout), "{name}: {probe:?}");
    }
}

#[test]
fn g16_email_ses_sends_100_a_minute_five_at_a_time() {
    let config = config(Environment::Production);
    let terms = config.protection["ses"];
    assert_eq!((terms.rate, terms.concurrency), (Some(Rate { max: 100, per: minutes(1) }), 5));
    let others = config.protection.iter().filter(|(name, _)| &***name != "ses");
    for (name, terms) in others {
        assert_eq!(terms.rate, None, "{name}");
    }
    assert_eq!(config.settings.fairness.batch, 3, "and three of a company in a row");
}

#[test]
fn sandbox_opens_no_connection_and_is_off_in_production() {
    let development = config(Environment::Development);
    assert_eq!(development.usable_route_names(), ["sandbox", "tiss-claims", "webhook"]);
    let production = config(Environment::Production);
    assert_eq!(production.usable_route_names(), ["tiss-claims", "webhook"]);
    let Delivery::Missing(what) = &production.route("sandbox").unwrap().delivery else {
        panic!("sandbox is on")
    };
    assert!(what.contains("[sandbox]\nenabled = true"), "{what}");
    assert_eq!(
        ranges_ms(&policy("sandbox")),
        [(750, 1_250), (1_500, 2_500), (3_000, 5_000), (6_000, 10_000)]
    );
}

#[test]
fn routes_without_a_carrier_say_which_lines_to_write() {
    let config = config(Environment::Production);
    let what = |name: &str| match &config.route(name).unwrap().delivery {
        Delivery::Missing(what) => what.clone(),
        carrier => panic!("{name} is carried by {carrier:?}"),
    };
    assert!(what("whatsapp").contains("[providers.evolution]\nurl = "), "{}", what("whatsapp"));
    assert!(what("openai").contains("[providers.openai]\nurl = "), "{}", what("openai"));
    assert!(what("email").contains("[providers.smtp]\nurl = \"smtp://"), "{}", what("email"));
    assert!(what("email-ses").contains("[providers.ses]\nregion = "), "{}", what("email-ses"));
}
