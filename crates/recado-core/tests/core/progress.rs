//! The effect of each transition on the job.

use recado_core::job::{ATTEMPTS_KEPT_MAX, remember};
use recado_core::outcome::NetworkKind;
use recado_core::{Fault, LostLease, Outcome, Progress, Transition, decide};

use crate::given::{NOW, after, attempts, buried, job, judged, middle, set, smtp};

const BEFORE: Progress =
    Progress { attempts_started: 7, attempts_spent: 2, crashes: 1, deferrals: 3, replays: 1 };

fn tried(fault: Option<Fault>) -> Transition {
    let mut job = job();
    job.progress = BEFORE;
    let outcome = fault.map_or(Outcome::Accepted { answer: None }, Outcome::Failed);
    after(job, set("smtp").verdict(outcome), &attempts(5)).0
}

#[test]
fn an_attempt_is_spent_by_success_by_failure_and_by_uncertainty_alike() {
    let spent = Progress { attempts_started: 8, attempts_spent: 3, crashes: 0, ..BEFORE };
    for (what, fault) in [
        ("sent", None),
        ("retried", Some(smtp("421", ""))),
        ("buried", Some(smtp("550", ""))),
        ("uncertain", Some(Fault::network(NetworkKind::Dropped, ""))),
    ] {
        assert_eq!(tried(fault).step(BEFORE), spent, "{what}");
    }
}

#[test]
fn a_deferral_spends_no_attempt() {
    let after = Transition::Postpone { until: NOW }.step(BEFORE);
    assert_eq!(after, Progress { deferrals: 4, ..BEFORE });
}

#[test]
fn a_crash_is_counted_but_spends_no_attempt() {
    let mut crashed = job();
    crashed.progress = BEFORE;
    let lost = LostLease { attempt: 8, claimed_at: NOW, worker: "node-b".into(), provider: None };
    let (transition, _) = decide::decide_after_crash(&crashed, &lost, &attempts(5), NOW, middle());
    assert_eq!(transition.step(BEFORE), Progress { attempts_started: 8, crashes: 2, ..BEFORE });
}

#[test]
fn what_was_given_back_untouched_is_as_it_was() {
    assert_eq!(Transition::Release { at: NOW, lost: None }.step(BEFORE), BEFORE);
}

#[test]
fn a_job_that_expired_in_line_spends_nothing() {
    assert_eq!(decide::bury_expired(&job(), None, &attempts(5), NOW).0.step(BEFORE), BEFORE);
    let held = decide::bury_expired(&job(), Some("route paused"), &attempts(5), NOW).0;
    assert_eq!(held.step(BEFORE), Progress { deferrals: BEFORE.deferrals + 1, ..BEFORE });
}

#[test]
fn a_history_forgets_its_oldest_attempts_and_never_its_newest() {
    let mut attempt = buried(after(job(), judged("smtp", smtp("550", "")), &attempts(5)).0).attempt.unwrap();
    let mut history = Vec::new();
    for number in 1..=(ATTEMPTS_KEPT_MAX as u32 + 50) {
        attempt.number = number;
        remember(&mut history, attempt.clone());
    }
    assert_eq!(history.len(), ATTEMPTS_KEPT_MAX);
    assert_eq!(
        (history[0].number, history[ATTEMPTS_KEPT_MAX - 1].number),
        (51, ATTEMPTS_KEPT_MAX as u32 + 50)
    );
}
