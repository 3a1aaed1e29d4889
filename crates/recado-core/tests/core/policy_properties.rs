//! Promises of every policy, whatever its numbers.

use std::time::Duration;

use proptest::prelude::*;
use recado_core::decide::{RETRY_AFTER_MIN, next_delay};
use recado_core::policy::DELAY_MAX;
use recado_core::{Backoff, CapApplies, Draw, Jitter, Policy};

use crate::given::secs;

fn a_draw() -> impl Strategy<Value = Draw> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0_f64].prop_map(Draw::new)
}

fn a_wait(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn a_jitter() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        (0.0..=1.0).prop_map(Jitter::Symmetric),
        (0.0..=1.0).prop_map(Jitter::Positive),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
    ]
}

fn a_backoff() -> impl Strategy<Value = Backoff> {
    let exponential = (a_wait(1..3_600_000), 1.0..10.0, a_wait(0..86_400_000))
        .prop_map(|(base, factor, more)| Backoff::Exponential { base, factor, cap: base + more });
    let schedule = prop::collection::vec(a_wait(1..86_400_000), 1..8).prop_map(Backoff::Schedule);
    prop_oneof![exponential, schedule]
}

fn a_policy() -> impl Strategy<Value = Policy> {
    let cap_applies = prop_oneof![Just(CapApplies::BeforeJitter), Just(CapApplies::AfterJitter)];
    let bounds = (prop::option::of(a_wait(0..600_000)), prop::option::of(a_wait(600_000..90_000_000)));
    (a_backoff(), a_jitter(), cap_applies, bounds, 1..=100_u32).prop_map(
        |(backoff, jitter, cap_applies, (floor, ceiling), max_attempts)| Policy {
            backoff,
            jitter,
            cap_applies,
            floor,
            ceiling,
            max_attempts,
        },
    )
}

/// `base · 2ⁿ`, capped, by counting and not by floating point.
fn doubled_ms(base_ms: u64, retry: u32, cap_ms: u64) -> u64 {
    (0..retry).fold(base_ms, |delay, _| delay.saturating_mul(2).min(cap_ms)).min(cap_ms)
}

fn within(delay: Duration, low_ms: f64, high_ms: f64) -> bool {
    let delay = delay.as_secs_f64() * 1e3;
    (low_ms - 1.0..=high_ms + 1.0).contains(&delay) // to the millisecond
}

proptest! {
    #[test]
    fn a_strategy_for_policies_makes_only_valid_ones(policy in a_policy()) {
        prop_assert_eq!(policy.faults(), Vec::<String>::new());
    }

    #[test]
    fn every_delay_of_a_job_lies_in_the_range_that_is_shown(
        policy in a_policy(),
        draws in prop::collection::vec(a_draw(), 1..12),
    ) {
        let mut previous = None;
        for (retry, draw) in (0..).zip(draws) {
            let delay = policy.delay(retry, previous, draw);
            let (low, high) = policy.range(retry);
            prop_assert!(low <= delay && delay <= high, "retry {}: {:?} not in {:?}", retry, delay, (low, high));
            previous = Some(delay);
        }
    }

    #[test]
    fn each_jitter_stays_in_its_bounds_and_reaches_them(
        base_ms in 1..60_000_u64,
        cap_ms in 60_000..3_600_000_u64,
        share in 0.0..=1.0_f64,
        retry in 0..40_u32,
        draw in a_draw(),
    ) {
        let plain = Policy::exponential(Duration::from_millis(base_ms), Duration::from_millis(cap_ms), 5);
        let curve = doubled_ms(base_ms, retry, cap_ms) as f64;
        for (jitter, low, high) in [
            (Jitter::None, curve, curve),
            (Jitter::Symmetric(share), curve * (1.0 - share), curve * (1.0 + share)),
            (Jitter::Positive(share), curve, curve * (1.0 + share)),
            (Jitter::Full, 0.0, curve),
            (Jitter::Equal, curve / 2.0, curve),
        ] {
            let policy = Policy { jitter, ..plain.clone() };
            let delay = policy.delay(retry, None, draw);
            prop_assert!(within(delay, low, high), "{:?}: {:?} not in {}..{}", jitter, delay, low, high);
            let (shortest, longest) = (policy.delay(retry, None, Draw::new(0.0)), policy.delay(retry, None, Draw::new(1.0)));
            prop_assert!(within(shortest, low, low) && within(longest, high, high), "{:?} does not spread", jitter);
        }
    }

    #[test]
    fn decorrelated_jitter_lies_between_the_base_and_three_times_the_previous_wait(
        base_ms in 1..60_000_u64,
        cap_ms in 60_000..3_600_000_u64,
        previous_ms in 1..3_600_000_u64,
        draw in a_draw(),
    ) {
        let policy = Policy {
            jitter: Jitter::Decorrelated,
            ..Policy::exponential(Duration::from_millis(base_ms), Duration::from_millis(cap_ms), 5)
        };
        let delay = policy.delay(1, Some(Duration::from_millis(previous_ms)), draw);
        let high = (3 * previous_ms).clamp(base_ms, cap_ms);
        prop_assert!(within(delay, base_ms as f64, high as f64), "{:?} after {} ms", delay, previous_ms);
    }

    #[test]
    fn the_floor_and_the_ceiling_hold_whatever_the_jitter(
        policy in a_policy(), retry in 0..200_u32, previous in prop::option::of(a_wait(0..86_400_000)), draw in a_draw(),
    ) {
        let delay = policy.delay(retry, previous, draw);
        prop_assert!(policy.floor.is_none_or(|floor| delay >= floor));
        prop_assert!(policy.ceiling.is_none_or(|ceiling| delay <= ceiling));
    }

    #[test]
    fn a_cap_after_the_jitter_is_never_exceeded_and_one_before_it_is(
        base_ms in 1..60_000_u64, cap_ms in 60_000..3_600_000_u64, share in 0.1..=1.0_f64, draw in a_draw(),
    ) {
        let cap = Duration::from_millis(cap_ms);
        let before = Policy {
            jitter: Jitter::Symmetric(share),
            ..Policy::exponential(Duration::from_millis(base_ms), cap, 5)
        };
        let after = Policy { cap_applies: CapApplies::AfterJitter, ..before.clone() };
        for retry in 0..40 {
            prop_assert!(after.delay(retry, None, draw) <= cap, "retry {}", retry);
        }
        prop_assert!(before.delay(39, None, Draw::new(1.0)) > cap);
        prop_assert!(before.delay(39, None, Draw::new(0.0)) < cap);
    }

    #[test]
    fn a_later_retry_never_waits_less(policy in a_policy(), retry in 0..60_u32) {
        prop_assume!(matches!(policy.backoff, Backoff::Exponential { .. }));
        let (sooner, later) = (policy.range(retry), policy.range(retry + 1));
        prop_assert!(sooner.0 <= later.0 && sooner.1 <= later.1, "{:?} then {:?}", sooner, later);
    }

    #[test]
    fn no_retry_number_and_no_draw_overflows(
        policy in a_policy(), retry in any::<u32>(), unit in any::<f64>(), previous in prop::option::of(any::<u64>()),
    ) {
        let policy = Policy { ceiling: None, ..policy };
        let previous = previous.map(Duration::from_millis);
        let delay = policy.delay(retry, previous, Draw::new(unit));
        let (low, high) = policy.range(retry);
        prop_assert!(delay <= DELAY_MAX && low <= high && high <= DELAY_MAX);
    }

    #[test]
    fn f8_retry_after_is_obeyed_and_never_shortened(
        policy in a_policy(), retry in any::<u32>(), asked in a_wait(0..1_000_000_000), draw in a_draw(),
    ) {
        let delay = next_delay(&policy, retry, None, Some(asked), draw);
        prop_assert!(delay >= asked, "{:?} asked, {:?} given", asked, delay);
        let named = asked.max(RETRY_AFTER_MIN).max(policy.floor.unwrap_or_default());
        let expected = if asked.is_zero() { policy.delay(retry, None, draw) } else { named };
        prop_assert_eq!(delay, expected, "longer than asked only for the shortest wait or the policy's floor");
    }
}

#[test]
fn the_farthest_retries_do_not_overflow_in_any_jitter() {
    for jitter in [
        Jitter::None,
        Jitter::Symmetric(1.0),
        Jitter::Positive(1.0),
        Jitter::Full,
        Jitter::Equal,
        Jitter::Decorrelated,
    ] {
        for cap_applies in [CapApplies::BeforeJitter, CapApplies::AfterJitter] {
            let policy = Policy { jitter, cap_applies, ..Policy::exponential(secs(1), DELAY_MAX, 5) };
            for retry in [1_000, 1_000_000, u32::MAX] {
                let delay = policy.delay(retry, Some(Duration::MAX), Draw::new(1.0));
                assert_eq!(delay, DELAY_MAX, "{jitter:?} {cap_applies:?} retry {retry}");
                assert_eq!(policy.range(retry).1, DELAY_MAX, "{jitter:?} {cap_applies:?} retry {retry}");
            }
        }
    }
}

#[test]
fn a_jitter_reads_back_what_it_shows() {
    for percent in 0..=1_000 {
        for sign in ["±", "+"] {
            let text = format!("{sign}{}%", f64::from(percent) / 10.0);
            let jitter: Jitter = text.parse().unwrap();
            assert_eq!(jitter.to_string(), text);
        }
    }
}

#[test]
fn a_draw_that_is_no_number_is_the_middle_one() {
    let policy = Policy { jitter: Jitter::Full, ..Policy::exponential(secs(10), secs(60), 5) };
    for unit in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(policy.delay(0, None, Draw::new(unit)), secs(5), "{unit}");
    }
}

#[test]
fn a_schedule_goes_on_with_its_last_wait() {
    let policy = Policy { max_attempts: 9, ..Policy::schedule(vec![secs(0), secs(5), secs(30)]) };
    for retry in [1, 2, 7, u32::MAX] {
        assert_eq!(policy.delay(retry, None, Draw::new(0.3)), secs(30), "retry {retry}");
    }
}

#[test]
fn g17_jitter_of_equal_draws_is_spread_evenly() {
    let policy =
        Policy { jitter: Jitter::Symmetric(0.25), ..Policy::exponential(secs(1_000), secs(1_000), 5) };
    let share = |part: u32| policy.delay(0, None, Draw::new(f64::from(part) / 10.0)).as_secs();
    let spread: Vec<u64> = (0..=10).map(share).collect();
    assert_eq!(spread, [750, 800, 850, 900, 950, 1_000, 1_050, 1_100, 1_150, 1_200, 1_250]);
}
