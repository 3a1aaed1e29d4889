//! A job that a provider may have taken stays with that provider.

use recado_core::job::{ATTEMPTS_KEPT_MAX, remember};
use recado_core::{Cause, Fault, Job, LostLease, NetworkKind, Pin, Progress, Transition, decide};

use crate::given::{NOW, after, attempts, buried, job, judged, middle};

fn failed_at(job: Job, provider: &str, kind: NetworkKind) -> Job {
    let (mut transition, _) =
        after(job.clone(), judged("smtp", Fault::network(kind, "it failed")), &attempts(u32::MAX));
    transition.set_provider(provider);
    stepped(job, &transition)
}

fn lost_at(job: Job, provider: Option<&str>) -> Job {
    let provider = provider.map(Into::into);
    let attempt = job.progress.attempts_started + 1;
    let lost = LostLease { attempt, claimed_at: NOW, worker: "node-b".into(), provider };
    let (transition, _) = decide::decide_after_crash(&job, &lost, &attempts(u32::MAX), NOW, middle());
    stepped(job, &transition)
}

/// The job as a store keeps it after this transition.
fn stepped(mut job: Job, transition: &Transition) -> Job {
    job.progress = transition.step(job.progress);
    remember(&mut job.attempts, transition.attempt().unwrap().clone());
    job
}

fn pin(provider: &str) -> Option<Pin> {
    Some(Pin { provider: Some(provider.into()) })
}

#[test]
fn a_certain_failure_after_an_uncertain_one_leaves_the_job_pinned() {
    let tried = failed_at(job(), "main", NetworkKind::Connect);
    assert_eq!(tried.pin(), None, "nothing was handed over");
    let tried = failed_at(tried, "main", NetworkKind::Dropped);
    assert_eq!(tried.pin(), pin("main"));
    let tried = failed_at(tried, "main", NetworkKind::Connect);
    assert_eq!(tried.pin(), pin("main"));
}

#[test]
fn a_lost_attempt_pins_the_job_to_the_provider_that_was_asked() {
    let lost = lost_at(job(), Some("spare"));
    assert_eq!(lost.attempts[0].provider.as_deref(), Some("spare"));
    assert_eq!(lost.pin(), pin("spare"));
    assert_eq!(failed_at(lost, "spare", NetworkKind::Connect).pin(), pin("spare"));

    let unknown = lost_at(job(), None);
    assert_eq!(unknown.pin(), Some(Pin { provider: None }));
    assert_eq!(failed_at(unknown, "main", NetworkKind::Dropped).pin(), pin("main"), "a known one goes first");
}

#[test]
fn a_pin_outlives_the_kept_history_and_ends_with_a_replay() {
    let mut tried = failed_at(lost_at(job(), None), "main", NetworkKind::Dropped);
    for _ in 0..ATTEMPTS_KEPT_MAX {
        tried = failed_at(tried, "main", NetworkKind::Connect);
    }
    assert!(tried.attempts[0].number > 2, "the uncertain attempt is still kept: nothing was tested");
    assert_eq!(tried.pin(), pin("main"));

    tried.progress = Progress { attempts_spent: 0, crashes: 0, replays: 1, ..tried.progress };
    assert_eq!(tried.pin(), None);
    let tried = failed_at(tried, "spare", NetworkKind::Connect);
    assert_eq!(tried.pin(), None, "attempts before the replay count no more");
    assert_eq!(failed_at(tried, "spare", NetworkKind::Dropped).pin(), pin("spare"));
}

#[test]
fn a_job_whose_pinned_provider_left_the_route_is_buried_with_that_reason() {
    let burial = buried(decide::bury_without_pinned_provider(&job(), "main", &attempts(3), NOW).0);
    assert_eq!((burial.cause, burial.failure.code.as_deref()), (Cause::Permanent, Some("PROVIDER_GONE")));
    assert!(
        burial.failure.reason.as_str().contains("provider main may have taken it"),
        "{}",
        burial.failure.reason
    );
    assert!(burial.attempt.is_none(), "nothing was tried");
}
