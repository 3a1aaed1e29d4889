//! The required delays, number by number.

use std::time::Duration;

use recado_core::{Backoff, CapApplies, Cause, Draw, Fault, Jitter, NetworkKind, Policy};

use crate::given::{fail_until_buried, http, middle, minutes, secs, smtp, terms};

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

/// `rows`: a retry (0 is the first) with its shortest and longest wait in milliseconds.
fn assert_waits_ms(policy: &Policy, rows: &[(u32, u64, u64)]) {
    for &(retry, low, high) in rows {
        let at = |unit| millis(policy.delay(retry, None, Draw::new(unit)));
        assert_eq!((at(0.0), at(1.0)), (low, high), "shortest and longest wait before retry {retry}");
        let (from, to) = policy.range(retry);
        assert_eq!((millis(from), millis(to)), (low, high), "range of retry {retry}");
    }
}

/// E-mail by SMTP: the cap applies after the jitter.
fn smtp_policy(base: Duration, cap: Duration, max_attempts: u32) -> Policy {
    Policy {
        jitter: Jitter::Symmetric(0.25),
        cap_applies: CapApplies::AfterJitter,
        ..Policy::exponential(base, cap, max_attempts)
    }
}

fn ses_policy() -> Policy {
    Policy { jitter: Jitter::Symmetric(0.25), ..Policy::exponential(secs(1), secs(60), 5) }
}

pub fn tiss_policy() -> Policy {
    Policy {
        jitter: Jitter::Symmetric(0.20),
        floor: Some(minutes(5)),
        ceiling: Some(minutes(240)),
        ..Policy::exponential(minutes(5), minutes(240), 6)
    }
}

fn social_policy() -> Policy {
    Policy { jitter: Jitter::Positive(0.20), ..Policy::schedule(vec![secs(0), secs(60), secs(300)]) }
}

#[test]
fn e1_the_delay_is_the_minimum_of_the_cap_and_the_jittered_power_of_two() {
    let policy = smtp_policy(secs(1), secs(300), 5);
    assert_waits_ms(
        &policy,
        &[
            (0, 750, 1_250),
            (1, 1_500, 2_500),
            (2, 3_000, 5_000),
            (3, 6_000, 10_000),
            (7, 96_000, 160_000),
            (8, 192_000, 300_000), // 256 s: the jitter reaches over the cap and is cut
            (9, 300_000, 300_000), // 512 s: even the shortest is over it
            (40, 300_000, 300_000),
        ],
    );
}

#[test]
fn e1_the_first_retry_waits_about_the_base() {
    let policy = smtp_policy(secs(1), secs(300), 5);
    assert_eq!(policy.first_delay(), secs(0));
    assert_eq!(policy.delay(0, None, middle()), secs(1));
    assert_eq!(policy.nominal(0), secs(1));
}

#[test]
fn e2_production_makes_five_attempts_from_one_second_under_three_hundred() {
    let terms = terms(smtp_policy(secs(1), secs(300), 5));
    let (waits, burial) = fail_until_buried(&smtp("421", "busy"), "smtp", &terms, middle());
    assert_eq!(waits, [secs(1), secs(2), secs(4), secs(8)]);
    assert_eq!(burial.cause, Cause::Exhausted);
}

#[test]
fn e3_development_makes_three_attempts_from_half_a_second_under_thirty() {
    let policy = smtp_policy(Duration::from_millis(500), secs(30), 3);
    assert_waits_ms(&policy, &[(0, 375, 625), (1, 750, 1_250), (5, 12_000, 20_000), (6, 24_000, 30_000)]);
    let (waits, burial) = fail_until_buried(&smtp("421", "busy"), "smtp", &terms(policy), middle());
    assert_eq!(waits, [Duration::from_millis(500), secs(1)]);
    assert_eq!(burial.cause, Cause::Exhausted);
}

#[test]
fn g2_the_delay_table_of_ses_email() {
    assert_waits_ms(
        &ses_policy(),
        &[(0, 750, 1_250), (1, 1_500, 2_500), (2, 3_000, 5_000), (3, 6_000, 10_000), (4, 12_000, 20_000)],
    );
}

#[test]
fn g2_the_sixth_delay_is_thirty_two_seconds_and_the_cap_starts_at_the_seventh() {
    assert_waits_ms(
        &ses_policy(),
        &[(5, 24_000, 40_000), (6, 45_000, 75_000), (7, 45_000, 75_000), (60, 45_000, 75_000)],
    );
    assert_eq!(ses_policy().nominal(5), secs(32));
    assert_eq!(ses_policy().nominal(6), secs(60));
}

#[test]
fn g1_five_attempts_then_the_dead_letter_queue() {
    let (waits, burial) = fail_until_buried(&smtp("421", "busy"), "ses", &terms(ses_policy()), middle());
    assert_eq!(waits, [secs(1), secs(2), secs(4), secs(8)]);
    assert_eq!(burial.cause, Cause::Exhausted);
}

#[test]
fn w2_four_attempts_at_once_after_5_s_30_s_and_5_min_and_then_the_dead_letter_queue() {
    let policy = Policy::schedule(vec![secs(0), secs(5), secs(30), secs(300)]);
    assert_eq!(policy.first_delay(), secs(0));
    assert_eq!(policy.max_attempts, 4);
    for draw in [Draw::new(0.0), middle(), Draw::new(1.0)] {
        let fault = http(503, "restarting");
        let (waits, burial) = fail_until_buried(&fault, "evolution", &terms(policy.clone()), draw);
        assert_eq!(waits, [secs(5), secs(30), secs(300)]);
        assert_eq!(burial.cause, Cause::Exhausted);
    }
}

#[test]
fn w2_a_permanent_error_goes_to_the_dead_letter_queue_at_once() {
    let policy = Policy::schedule(vec![secs(0), secs(5), secs(30), secs(300)]);
    let (waits, burial) = fail_until_buried(&http(404, ""), "evolution", &terms(policy), middle());
    assert_eq!(waits, []);
    assert_eq!(burial.cause, Cause::Permanent);
}

#[test]
fn f6_three_attempts_at_once_after_60_s_and_after_300_s_with_up_to_a_fifth_more() {
    let policy = social_policy();
    assert_eq!(policy.first_delay(), secs(0));
    assert_waits_ms(&policy, &[(0, 60_000, 72_000), (1, 300_000, 360_000)]);
    let fault = Fault::network(NetworkKind::Timeout, "no answer in 30 s");
    let (waits, burial) = fail_until_buried(&fault, "social", &terms(policy), Draw::new(0.0));
    assert_eq!(waits, [secs(60), secs(300)]);
    assert_eq!(burial.cause, Cause::Exhausted);
}

#[test]
fn f6_the_written_formula_is_the_exponential_policy_and_gives_60_and_120_s() {
    let policy = Policy { jitter: Jitter::Positive(0.20), ..Policy::exponential(secs(60), secs(3_600), 3) };
    assert_waits_ms(&policy, &[(0, 60_000, 72_000), (1, 120_000, 144_000)]);
}

#[test]
fn t3_the_claims_backoff_doubles_from_five_minutes_with_a_fifth_of_jitter() {
    let minute = 60_000;
    assert_waits_ms(
        &tiss_policy(),
        &[
            (0, 5 * minute, 6 * minute), // the floor cuts the jitter below five minutes
            (1, 8 * minute, 12 * minute),
            (2, 16 * minute, 24 * minute), // the example of requirement T3
            (3, 32 * minute, 48 * minute),
            (4, 64 * minute, 96 * minute),
            (5, 128 * minute, 192 * minute),
            (6, 192 * minute, 240 * minute), // the ceiling cuts the jitter above four hours
            (30, 192 * minute, 240 * minute),
        ],
    );
    for (retry, base) in [5, 10, 20, 40, 80].into_iter().enumerate() {
        assert_eq!(tiss_policy().nominal(u32::try_from(retry).unwrap()), minutes(base), "retryCount {retry}");
    }
}

#[test]
fn every_required_policy_is_free_of_faults() {
    let formula = Policy::exponential(secs(60), secs(3_600), 3);
    for policy in [smtp_policy(secs(1), secs(300), 5), ses_policy(), tiss_policy(), social_policy(), formula]
    {
        assert_eq!(policy.faults(), Vec::<String>::new(), "{policy:?}");
    }
}

#[test]
fn f14_endless_and_unpaced_retries_are_refused_by_the_check() {
    let good = Policy::exponential(secs(1), secs(60), 5);
    let refused = [
        ("endless", Policy { max_attempts: u32::MAX, ..good.clone() }, "max_attempts"),
        ("no attempt at all", Policy { max_attempts: 0, ..good.clone() }, "max_attempts"),
        ("no backoff", Policy::exponential(secs(0), secs(60), 5), "base is zero"),
        ("cap below base", Policy::exponential(secs(9), secs(3), 5), "cap is below base"),
        ("shrinking", with_factor(0.5), "factor"),
        ("not a number", with_factor(f64::NAN), "factor"),
        ("empty schedule", Policy::schedule(vec![]), "schedule is empty"),
        ("retries at once", Policy::schedule(vec![secs(0), secs(0)]), "retries at once"),
        ("jitter over the delay", Policy { jitter: Jitter::Symmetric(1.5), ..good.clone() }, "jitter"),
        (
            "floor over ceiling",
            Policy { floor: Some(secs(9)), ceiling: Some(secs(3)), ..good.clone() },
            "floor is above ceiling",
        ),
    ];
    for (what, policy, words) in refused {
        assert!(policy.faults().iter().any(|fault| fault.contains(words)), "{what}: {:?}", policy.faults());
    }
    assert_eq!(good.faults(), Vec::<String>::new());
}

fn with_factor(factor: f64) -> Policy {
    let backoff = Backoff::Exponential { base: secs(1), factor, cap: secs(60) };
    Policy { backoff, ..Policy::exponential(secs(1), secs(60), 5) }
}
