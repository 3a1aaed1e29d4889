//! Rate limits: exact over every window, whatever arrives when.

use std::time::Duration;

use proptest::prelude::*;
use recado_core::Timestamp;
use recado_core::fairness::round_robin_priority;
use recado_core::limit::{Limit, Rate};

use crate::given::{NOW, secs};

const HOUR: Duration = Duration::from_secs(3_600);
/// The limiter of e-mail by SES.
const SES: Rate = Rate { max: 100, per: Duration::from_secs(60) };

#[test]
fn g16_a_hundred_may_go_at_once_and_then_none_until_their_minute_is_over() {
    let mut limit = Limit::default();
    assert_eq!(limit.available(SES, 1_000, NOW), 100);
    assert_eq!(limit.take(SES, 1_000, NOW), 100);
    assert_eq!((limit.available(SES, 1, NOW), limit.take(SES, 1, NOW)), (0, 0));
    assert_eq!(limit.available(SES, 1, NOW.plus(secs(59))), 0);
    let at = limit.available_at(SES, NOW).unwrap();
    assert!(at.since(NOW) >= secs(60) && at.since(NOW) < secs(62), "{at}");
    assert_eq!(limit.available(SES, 1_000, at), 100);
}

#[test]
fn what_was_taken_and_not_used_can_be_given_back() {
    let mut limit = Limit::default();
    limit.take(SES, 60, NOW);
    limit.take(SES, 40, NOW.plus(secs(1)));
    limit.return_unused(SES, 50, NOW.plus(secs(1)));
    assert_eq!(limit.available(SES, 1_000, NOW.plus(secs(1))), 50);
}

#[test]
fn g16_what_is_given_back_does_not_make_what_others_took_later_any_older() {
    let mut limit = Limit::default();
    limit.take(SES, 60, NOW);
    limit.take(SES, 40, NOW.plus(secs(30)));
    limit.return_unused(SES, 60, NOW);
    assert_eq!(limit.available(SES, 100, NOW.plus(secs(80))), 60, "the forty are still in the window");
    assert_eq!(limit.available(SES, 100, NOW.plus(secs(93))), 100);
}

#[test]
fn a_provider_that_asks_for_quiet_gets_it_whatever_the_rate_allows() {
    let mut limit = Limit::default();
    limit.quiet_until(NOW.plus(secs(30)), "slow down", Some(HOUR), NOW);
    limit.quiet_until(NOW.plus(secs(10)), "a little", Some(HOUR), NOW.plus(secs(1)));
    assert_eq!(limit.quiet_at(NOW), Some((NOW.plus(secs(30)), "slow down")), "the longest wish holds");
    assert_eq!((limit.quiet_at(NOW.plus(secs(30))), limit.expires_at()), (None, NOW.plus(secs(30))));
}

#[test]
fn a_quiet_lasts_no_longer_than_a_route_waits_from_its_beginning_however_often_it_is_asked_for() {
    let mut limit = Limit::default();
    limit.quiet_until(NOW.plus(HOUR), "slow down", Some(HOUR), NOW);
    let later = NOW.plus(secs(10));
    limit.quiet_until(later.plus(HOUR), "slower", Some(HOUR), later);
    let quiet = limit.quiet(later).unwrap();
    assert_eq!((quiet.since, quiet.until), (Some(NOW), NOW.plus(HOUR)));
    let for_a_minute = quiet.clone().at_most(secs(60), later).unwrap();
    assert_eq!(for_a_minute.until, NOW.plus(secs(60)));
    assert_eq!(quiet.at_most(secs(60), NOW.plus(secs(60))), None);
    limit.quiet_until(later.plus(HOUR * 2), "a rule's word", None, later);
    let by_rule = limit.quiet(later).unwrap().at_most(secs(60), later).unwrap();
    assert_eq!(by_rule.until, later.plus(HOUR * 2), "is the operator's, and no route cuts it");
}

#[test]
fn a_quiet_that_begins_in_the_future_begins_now_and_is_as_long_as_it_was() {
    let mut limit = Limit::default();
    limit.quiet_until(NOW.plus(secs(600)), "slow down", Some(HOUR), NOW);
    let set_back = Timestamp::from_millis(NOW.as_millis() - 86_400_000);
    assert!(limit.quiet_exceeds(HOUR, set_back) && !limit.quiet_exceeds(HOUR, NOW));
    limit.bound_quiet(HOUR, set_back);
    let quiet = limit.quiet(set_back).unwrap();
    assert_eq!((quiet.since, quiet.until), (Some(set_back), set_back.plus(secs(600))));
}

#[test]
fn a_quiet_that_is_lifted_is_over_and_kept_until_every_node_has_learned_of_it() {
    let mut limit = Limit::default();
    limit.quiet_until(NOW.plus(secs(30)), "slow down", Some(HOUR), NOW);
    let quiet = limit.quiet(NOW).unwrap();
    assert_eq!((quiet.since, quiet.until, &*quiet.reason), (Some(NOW), NOW.plus(secs(30)), "slow down"));
    limit.lift_quiet();
    assert_eq!((limit.quiet(NOW), limit.expires_at()), (None, NOW.plus(secs(30))));
    limit.quiet_until(NOW.plus(secs(10)), "again", Some(HOUR), NOW.plus(secs(2)));
    let again = limit.quiet(NOW.plus(secs(2))).unwrap();
    assert_eq!(
        (again.since, again.until),
        (Some(NOW.plus(secs(2))), NOW.plus(secs(10))),
        "shorter than before"
    );
}

#[test]
fn a_quiet_that_ends_later_than_any_answer_can_ask_for_is_bounded() {
    let mut limit: Limit = serde_json::from_str(r#"{"quietUntilUs":9000000000000000}"#).unwrap();
    assert!(limit.quiet_exceeds(HOUR, NOW));
    limit.bound_quiet(HOUR, NOW);
    assert_eq!(limit.quiet_at(NOW).unwrap().0, NOW.plus(HOUR));
    let bounded = limit.clone();
    limit.bound_quiet(HOUR, NOW.plus(secs(5)));
    assert_eq!(limit, bounded, "once");
}

#[test]
fn what_goes_out_later_than_it_was_taken_counts_from_then_on() {
    let mut limit = Limit::default();
    limit.take(SES, 100, NOW);
    assert!(
        !Limit::needs_postdating(SES, NOW, NOW.plus(Duration::from_millis(900))),
        "that much is allowed for"
    );
    let late = NOW.plus(secs(5));
    assert!(Limit::needs_postdating(SES, NOW, late));
    limit.postdate(SES, 100, NOW, late);
    assert_eq!(limit.available(SES, 1, NOW.plus(secs(64))), 0);
    assert_eq!(limit.available(SES, 1_000, NOW.plus(secs(67))), 100);
}

#[test]
fn after_the_clock_was_set_back_no_delivery_waits_longer_than_a_window() {
    let mut limit = Limit::default();
    let ahead = NOW.plus(secs(3_600));
    limit.take(SES, 40, NOW.plus(secs(3_555)));
    limit.take(SES, 60, ahead);
    assert!(limit.has_future_times(SES, NOW.plus(secs(2))) && !limit.has_future_times(SES, ahead));
    limit.clamp_future_times(SES, NOW.plus(secs(2)));
    assert_eq!(limit.available(SES, 1, NOW.plus(secs(3))), 0, "what went out still counts");
    assert_eq!(limit.available(SES, 1_000, NOW.plus(secs(65))), 100);
    assert!(limit.expires_at() < NOW.plus(secs(65)));
}

#[test]
fn g16_a_limit_survives_being_written_down() {
    let mut limit = Limit::default();
    limit.take(SES, 7, NOW);
    limit.quiet_until(NOW.plus(secs(9)), "Daily message quota exceeded", Some(HOUR), NOW);
    let json = serde_json::to_string(&limit).unwrap();
    assert_eq!(serde_json::from_str::<Limit>(&json).unwrap(), limit);
    assert_eq!(serde_json::to_string(&Limit::default()).unwrap(), "{}");
}

#[test]
fn g11_priority_rises_with_the_rounds_waited_and_never_above_the_best() {
    assert_eq!([0, 1, 2, 3, 4, 5, u64::MAX].map(round_robin_priority), [5, 4, 3, 2, 1, 1, 1]);
}

proptest! {
    /// In no window of the rate's length do more than the maximum pass, and a caller told to wait is let
    /// through when the wait is over.
    #[test]
    fn g16_no_window_lets_more_through_than_the_limit(
        max in 1_u32..50,
        per_ms in 100_u64..10_000,
        asks in prop::collection::vec((0_u64..2_000, 1_u32..80), 1..200),
    ) {
        let rate = Rate { max, per: Duration::from_millis(per_ms) };
        let mut limit = Limit::default();
        let mut now = NOW;
        let mut passed: Vec<(Timestamp, u32)> = Vec::new();
        for (wait, wanted) in asks {
            now = now.plus(Duration::from_millis(wait));
            let free = limit.available(rate, wanted, now);
            prop_assert!(free <= wanted);
            if free == 0 {
                let at = limit.available_at(rate, now).expect("a time to come back");
                prop_assert!(at > now && limit.available(rate, 1, at) == 1);
            }
            prop_assert_eq!(limit.take(rate, wanted, now), free);
            passed.push((now, free));
        }
        for (start, _) in &passed {
            let window = passed.iter().filter(|(at, _)| at >= start && at.since(*start) < rate.per);
            let total: u32 = window.map(|(_, count)| count).sum();
            prop_assert!(total <= max, "{total} of {max}");
        }
    }
}
