//! A job whose holder vanished: back in line without spending an attempt, or, as poison, before a person.

use recado_core::decide::{self, Terms};
use recado_core::{
    Attempt, AttemptResult, Blame, Burial, Cause, Class, Draw, Job, LostLease, Timestamp, Transition,
};

use crate::given::{NOW, attempts, buried, job, secs};

fn lost() -> LostLease {
    LostLease { attempt: 2, claimed_at: NOW, worker: "node-b".into(), provider: None }
}

fn crashed(times_before: u32, crashes_max: u32, draw: f64) -> Transition {
    let mut job: Job = job();
    job.progress.crashes = times_before;
    let terms = Terms { crashes_max, ..attempts(5) };
    decide::decide_after_crash(&job, &lost(), &terms, now(), Draw::new(draw)).0
}

fn now() -> Timestamp {
    NOW.plus(secs(30))
}

fn released(transition: Transition) -> (Timestamp, Attempt) {
    match transition {
        Transition::Release { at, lost: Some(attempt) } => (at, attempt),
        other => panic!("not released: {other:?}"),
    }
}

#[test]
fn the_first_crash_gives_the_job_back_at_once() {
    for draw in [0.0, 0.5, 1.0] {
        assert_eq!(released(crashed(0, 3, draw)).0, now());
    }
}

#[test]
fn a_crash_is_recorded_as_a_lost_attempt_that_may_have_been_sent() {
    let (_, attempt) = released(crashed(0, 3, 0.5));
    assert_eq!((attempt.number, attempt.result), (2, AttemptResult::Lost));
    assert_eq!((attempt.started_at, attempt.ended_at), (NOW, now()));
    assert_eq!(attempt.error_code.as_deref(), Some("LEASE_LOST"));
    assert_eq!(attempt.error_classification, Some(Class::Unknown));
    assert_eq!(attempt.rule.as_deref(), Some("recado/lease-lost"));
    assert_eq!(attempt.blame, Some(Blame::Message), "it must not count towards the provider's breaker");
    assert!(attempt.error_reason.unwrap().as_str().contains("node-b"));
}

#[test]
fn later_crashes_keep_the_job_apart_from_what_crashed_with_it_for_a_growing_while() {
    for (before, longest) in [(1, 4), (2, 8), (3, 16), (9, 60)] {
        assert_eq!(released(crashed(before, 20, 1.0)).0, now().plus(secs(longest)), "crash {}", before + 1);
        assert_eq!(released(crashed(before, 20, 0.0)).0, now(), "crash {}", before + 1);
    }
}

fn poison() -> Burial {
    buried(crashed(2, 3, 0.5))
}

#[test]
fn a_job_that_keeps_taking_its_worker_down_goes_before_a_person_as_poison() {
    assert!(matches!(crashed(1, 3, 0.5), Transition::Release { .. }), "not before the limit");
    let burial = poison();
    assert_eq!(burial.cause, Cause::Exhausted);
    assert_eq!(burial.failure.code.as_deref(), Some("POISON"));
    assert_eq!(&*burial.failure.rule, "recado/poison");
    assert!(burial.failure.reason.as_str().contains("3 times in a row"), "{}", burial.failure.reason);
    assert_eq!(burial.attempt.unwrap().result, AttemptResult::Lost);
}
