//! Messages to several recipients: each has a result of its own.

use recado_core::job::{ATTEMPTS_KEPT_MAX, remember};
use recado_core::{
    AttemptResult, Cause, Class, Fault, Job, NetworkKind, Outcome, PartialDelivery, Progress,
    RefusedRecipient, Transition,
};

use crate::given::{after, attempts, buried, job, set, smtp};

fn refused(recipient: &str, fault: Fault) -> RefusedRecipient {
    RefusedRecipient { recipient: recipient.into(), fault }
}

fn partly(accepted: &[&str], refused: Vec<RefusedRecipient>) -> Outcome {
    Outcome::Partial(PartialDelivery {
        accepted: accepted.iter().map(|one| (*one).into()).collect(),
        refused,
    })
}

fn tried(job: Job, outcome: Outcome) -> Transition {
    after(job, set("smtp").verdict(outcome), &attempts(3)).0
}

/// The job as a store keeps it after this transition.
fn stepped(mut job: Job, transition: &Transition) -> Job {
    job.progress = transition.step(job.progress);
    remember(&mut job.attempts, transition.attempt().unwrap().clone());
    job
}

#[test]
fn as_long_as_one_recipient_is_worth_it_the_job_is_tried_again() {
    let outcome =
        partly(&["a@x"], vec![refused("c@x", smtp("550", "5.1.1 no")), refused("b@x", smtp("450", "busy"))]);
    let Transition::RetryAt { attempt, .. } = tried(job(), outcome) else { panic!("not tried again") };
    assert_eq!(attempt.result, AttemptResult::Partial);
    assert_eq!(attempt.error_code.as_deref(), Some("450"), "the one that decides");
    assert_eq!(attempt.error_reason.unwrap().as_str(), "2 of 3 recipients did not get it; b@x: busy");
    let results: Vec<_> = attempt.recipients.iter().map(|one| (&*one.recipient, one.result)).collect();
    assert_eq!(
        results,
        [("a@x", AttemptResult::Sent), ("c@x", AttemptResult::Failed), ("b@x", AttemptResult::Failed)]
    );
}

#[test]
fn a_reason_counts_all_recipients_of_the_job_and_not_those_of_one_attempt() {
    let first = partly(
        &["a@x", "b@x"],
        vec![refused("c@x", smtp("450", "busy")), refused("d@x", smtp("450", "busy"))],
    );
    let job = stepped(job(), &tried(job(), first));
    let second = tried(job.clone(), partly(&["c@x"], vec![refused("d@x", smtp("450", "busy"))]));
    let reason = second.attempt().unwrap().error_reason.as_ref().unwrap().as_str();
    assert_eq!(reason, "1 of 4 recipients did not get it; d@x: busy");
    let one = tried(crate::given::job(), partly(&[], vec![refused("d@x", smtp("450", "busy"))]));
    let reason = one.attempt().unwrap().error_reason.as_ref().unwrap().as_str();
    assert_eq!(reason, "1 of 1 recipient did not get it; d@x: busy");
}

#[test]
fn when_no_recipient_is_left_to_retry_the_job_is_buried() {
    let burial = buried(tried(job(), partly(&["a@x"], vec![refused("c@x", smtp("550", "5.1.1 no"))])));
    assert_eq!((burial.cause, burial.failure.class), (Cause::Permanent, Class::Permanent));
    assert_eq!(burial.attempt.unwrap().result, AttemptResult::Partial);
}

#[test]
fn who_was_reached_is_never_written_to_again_and_who_refused_for_good_not_either() {
    let outcome =
        partly(&["a@x"], vec![refused("c@x", smtp("550", "5.1.1 no")), refused("b@x", smtp("450", "busy"))]);
    let transition = tried(job(), outcome);
    let mut job = stepped(job(), &transition);
    assert!(job.has_reached("a@x") && !job.has_reached("b@x") && !job.has_reached("c@x"));
    assert_eq!(job.refused_for_good("c@x").unwrap().error_code.as_deref(), Some("550"));
    assert!(job.refused_for_good("b@x").is_none() && job.refused_for_good("a@x").is_none());

    // A replay gives every recipient a fresh chance, but for those who have it.
    job.progress.attempts_spent = 0;
    job.progress.replays = 1;
    assert!(job.refused_for_good("c@x").is_none());
    assert!(job.has_reached("a@x"));
}

#[test]
fn results_of_recipients_outlive_the_kept_history() {
    let outcome =
        partly(&["a@x"], vec![refused("c@x", smtp("550", "5.1.1 no")), refused("b@x", smtp("450", "busy"))]);
    let mut job = stepped(job(), &tried(job(), outcome));
    let again = || partly(&[], vec![refused("b@x", smtp("450", "busy"))]);
    for _ in 0..2 * ATTEMPTS_KEPT_MAX {
        let transition = after(job.clone(), set("smtp").verdict(again()), &attempts(u32::MAX)).0;
        job = stepped(job, &transition);
    }
    assert_eq!(job.attempts.len(), ATTEMPTS_KEPT_MAX);
    assert!(job.attempts[0].number > 2, "the first attempt is still kept: nothing was tested");
    assert!(job.has_reached("a@x") && !job.has_reached("b@x") && !job.has_reached("c@x"));
    assert_eq!(job.refused_for_good("c@x").unwrap().error_code.as_deref(), Some("550"));
    assert!(job.refused_for_good("b@x").is_none());

    // A replay gives every recipient a fresh chance, but for those who have it; also after as many attempts once more.
    job.progress = Progress { attempts_spent: 0, replays: 1, ..job.progress };
    assert!(job.has_reached("a@x") && job.refused_for_good("c@x").is_none());
    for _ in 0..2 * ATTEMPTS_KEPT_MAX {
        let transition = after(job.clone(), set("smtp").verdict(again()), &attempts(u32::MAX)).0;
        job = stepped(job, &transition);
    }
    assert!(job.has_reached("a@x") && job.refused_for_good("c@x").is_none());
}

#[test]
fn a_recipient_whose_answer_was_lost_makes_the_attempt_uncertain() {
    let lost = Fault::network(NetworkKind::Dropped, "after the final dot");
    let Transition::RetryAt { attempt, .. } = tried(job(), partly(&[], vec![refused("a@x", lost)])) else {
        panic!("not tried again")
    };
    assert_eq!(attempt.result, AttemptResult::Uncertain);
    assert_eq!(attempt.recipients[0].result, AttemptResult::Uncertain);
}

#[test]
fn without_a_refused_recipient_it_is_a_delivery() {
    assert!(matches!(tried(job(), partly(&["a@x"], Vec::new())), Transition::Deliver { .. }));
}

#[test]
fn a_history_without_recipients_is_read_as_one_where_all_fared_alike() {
    let old = r#"{"attempt":1,"startedAt":"2026-01-01T00:00:00.000Z","endedAt":"2026-01-01T00:00:01.000Z","result":"sent"}"#;
    let attempt: recado_core::Attempt = serde_json::from_str(old).unwrap();
    assert!(attempt.recipients.is_empty());
    assert!(!serde_json::to_string(&attempt).unwrap().contains("recipients"));
}
