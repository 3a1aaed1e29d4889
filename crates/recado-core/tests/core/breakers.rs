//! The breaker: every arrow of its state diagram, and what must hold whatever happens.

use std::time::Duration;

use proptest::prelude::*;
use recado_core::Timestamp;
use recado_core::breaker::{Admission, Breaker, BreakerChange, BreakerState, BreakerTerms};

use crate::given::{NOW, secs};

const TERMS: BreakerTerms = BreakerTerms::new(5, Duration::from_secs(60), Duration::from_secs(120));

fn at(seconds: u64) -> Timestamp {
    NOW.plus(secs(seconds))
}

fn opened() -> Breaker {
    let mut breaker = Breaker::default();
    let swings: Vec<_> = (0..5).map(|second| breaker.record_failure(&TERMS, "503", at(second))).collect();
    assert_eq!(swings, [None, None, None, None, Some(BreakerChange::Opened)]);
    breaker
}

#[test]
fn f1_f2_the_fifth_failure_within_a_minute_opens_it() {
    let breaker = opened();
    assert_eq!((breaker.state, breaker.reason.as_deref()), (BreakerState::Open, Some("503")));
    assert_eq!(breaker.next_probe_at, Some(at(4 + 120)));
}

#[test]
fn f1_failures_that_are_further_apart_do_not_open_it() {
    let mut breaker = Breaker::default();
    for failure in 0..100 {
        assert_eq!(breaker.record_failure(&TERMS, "503", at(failure * 15)), None, "{failure}");
    }
    assert_eq!(breaker.failures_in_window(&TERMS, at(99 * 15)), 4);
}

#[test]
fn f1_while_open_nothing_passes_and_after_the_reset_time_exactly_one_probe_does() {
    let mut breaker = opened();
    assert_eq!(breaker.admit(&TERMS, at(123)), (Admission::Refused { until: Some(at(124)) }, None));
    assert_eq!(breaker.admit(&TERMS, at(124)), (Admission::Probe, Some(BreakerChange::HalfOpened)));
    for _ in 0..10 {
        assert!(matches!(breaker.admit(&TERMS, at(125)).0, Admission::Refused { .. }), "one probe is enough");
    }
}

#[test]
fn f1_a_probe_that_succeeds_closes_it_and_one_that_fails_opens_it_again() {
    let mut well = opened();
    well.admit(&TERMS, at(124));
    assert_eq!(well.record_success(&TERMS, secs(1), at(125)), Some(BreakerChange::Closed));
    assert_eq!(well.failures_in_window(&TERMS, at(125)), 0, "it starts afresh");
    assert_eq!(well.next_probe_at, None, "nothing is probed while it is closed");
    let mut ill = opened();
    ill.admit(&TERMS, at(124));
    assert_eq!(ill.record_failure(&TERMS, "still down", at(125)), Some(BreakerChange::Opened));
    assert_eq!(ill.next_probe_at, Some(at(125 + 120)));
}

#[test]
fn a_probe_whose_maker_vanished_is_followed_by_another() {
    let mut breaker = opened();
    breaker.admit(&TERMS, at(124));
    assert!(matches!(breaker.admit(&TERMS, at(124 + 89)).0, Admission::Refused { .. }));
    assert_eq!(breaker.admit(&TERMS, at(124 + 90)), (Admission::Probe, None));
}

#[test]
fn a_probe_that_says_nothing_about_the_provider_is_followed_by_another() {
    let mut breaker = opened();
    breaker.admit(&TERMS, at(124));
    breaker.record_inconclusive_probe(at(125));
    assert_eq!(breaker.admit(&TERMS, at(125)), (Admission::Probe, None));
}

#[test]
fn after_it_closes_work_comes_back_on_a_ramp() {
    let mut breaker = opened();
    breaker.admit(&TERMS, at(124));
    breaker.record_success(&TERMS, secs(1), at(125));
    let strengths: Vec<_> = [0, 15, 30, 31].map(|later| breaker.ramp_share(&TERMS, at(125 + later))).into();
    assert!((strengths[0] - 0.05).abs() < 1e-9 && (strengths[1] - 0.525).abs() < 1e-9, "{strengths:?}");
    assert_eq!(&strengths[2..], [1.0, 1.0]);
    assert_eq!(Breaker::default().ramp_share(&TERMS, NOW), 1.0, "a young one has nothing to recover from");
}

#[test]
fn a_call_that_is_too_slow_counts_as_a_failure_where_that_is_asked_for() {
    let slow = BreakerTerms { failures: 1, slow: Some(secs(2)), ..TERMS };
    let mut breaker = Breaker::default();
    assert_eq!(breaker.record_success(&slow, Duration::from_millis(1_999), NOW), None);
    assert_eq!(breaker.record_success(&slow, secs(2), NOW), Some(BreakerChange::Opened));
}

#[test]
fn opened_by_hand_it_stays_open_until_a_person_closes_it() {
    let mut breaker = Breaker::default();
    assert_eq!(breaker.hold_open("maintenance", NOW), Some(BreakerChange::Opened));
    assert_eq!(breaker.admit(&TERMS, at(1_000_000)), (Admission::Refused { until: None }, None));
    assert_eq!(breaker.close("done", at(1_000_001)), Some(BreakerChange::Closed));
    assert!(matches!(breaker.admit(&TERMS, at(1_000_002)).0, Admission::Allowed(_)));
}

#[test]
fn while_it_is_half_open_only_what_was_sent_since_says_anything() {
    let mut breaker = opened();
    assert!(breaker.counts_result_sent_at(at(3)), "until then every result does");
    breaker.admit(&TERMS, at(124));
    assert!(!breaker.counts_result_sent_at(at(3)) && breaker.counts_result_sent_at(at(124)));
}

#[test]
fn f1_when_the_clock_goes_forward_the_time_that_seems_to_have_passed_is_over() {
    let mut closed = Breaker::default();
    closed.record_failure(&TERMS, "503", at(0));
    assert_eq!(closed.failures_in_window(&TERMS, at(3_600)), 0);
    assert_eq!(opened().admit(&TERMS, at(3_600)), (Admission::Probe, Some(BreakerChange::HalfOpened)));
    let mut half_open = opened();
    half_open.admit(&TERMS, at(124));
    assert_eq!(half_open.admit(&TERMS, at(3_600)), (Admission::Probe, None), "its probe seems lost");
}

#[test]
fn f1_when_the_clock_is_set_back_nothing_is_waited_for_longer_than_the_terms_say() {
    let late = |seconds: u64| at(3_600 + seconds);
    let mut closed = Breaker::default();
    for second in 0..4 {
        closed.record_failure(&TERMS, "503", late(second));
    }
    let mut open = closed.clone();
    open.record_failure(&TERMS, "503", late(4));
    let mut half_open = open.clone();
    half_open.admit(&TERMS, late(124));
    let mut back = half_open.clone();
    back.record_success(&TERMS, secs(0), late(125));
    for (breaker, wrote_at) in
        [(&closed, late(4)), (&open, late(4)), (&half_open, late(124)), (&back, late(125))]
    {
        assert!(
            breaker.has_future_times(&TERMS, at(0)) && !breaker.has_future_times(&TERMS, wrote_at),
            "{breaker:?}"
        );
    }
    closed.clamp_future_times(&TERMS, at(0));
    assert_eq!(closed.failures_in_window(&TERMS, at(59)), 4, "they still count");
    assert_eq!(closed.failures_in_window(&TERMS, at(60)), 0, "and no longer than they should");
    open.clamp_future_times(&TERMS, at(0));
    assert_eq!(open.admit(&TERMS, at(119)).0, Admission::Refused { until: Some(at(120)) });
    assert_eq!(open.admit(&TERMS, at(120)).0, Admission::Probe);
    half_open.clamp_future_times(&TERMS, at(0));
    assert_eq!(half_open.admit(&TERMS, at(89)).0, Admission::Refused { until: Some(at(90)) });
    assert_eq!(half_open.admit(&TERMS, at(90)).0, Admission::Probe);
    back.clamp_future_times(&TERMS, at(0));
    assert_eq!(back.ramp_share(&TERMS, at(30)), 1.0, "the ramp goes on from here");
}

#[test]
fn its_whole_state_survives_being_written_down() {
    let breaker = opened();
    let json = serde_json::to_string(&breaker).unwrap();
    assert_eq!(serde_json::from_str::<Breaker>(&json).unwrap(), breaker);
}

#[derive(Clone, Debug)]
enum Step {
    Admit,
    Succeed,
    Fail,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Admit),
        1 => Just(Step::Succeed),
        2 => Just(Step::Fail),
        2 => (0_u64..200).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Between two probes lies a reset time or a probe's whole time; a stampede never gets through.
    #[test]
    fn f1_no_two_probes_go_out_closer_together_than_they_may(steps in steps()) {
        let mut breaker = Breaker::default();
        let (mut now, mut last_probe) = (NOW, None::<Timestamp>);
        for step in steps {
            match step {
                Step::Wait(seconds) => now = now.plus(secs(seconds)),
                Step::Fail => drop(breaker.record_failure(&TERMS, "x", now)),
                Step::Succeed => {
                    if breaker.record_success(&TERMS, secs(0), now) == Some(BreakerChange::Closed) {
                        last_probe = None;
                    }
                }
                Step::Admit => {
                    if breaker.admit(&TERMS, now).0 == Admission::Probe {
                        if let Some(last) = last_probe {
                            prop_assert!(now.since(last) >= TERMS.probe.min(TERMS.reset));
                        }
                        last_probe = Some(now);
                    }
                }
            }
            prop_assert!(breaker.failures.len() <= 5);
        }
    }
}
