//! The dead letter entry: nothing missing, and never without a reason.

use std::time::Duration;

use proptest::prelude::*;
use recado_core::dead_letter::DEAD_LETTER_TTL_DEFAULT;
use recado_core::outcome::{FaultKind, NetworkKind};
use recado_core::{
    AttemptResult, Blame, Cause, Class, DeadLetter, DeadLetterState, Fault, Job, Reason, Transition, decide,
    rules,
};

use crate::given::{
    DAY, NOW, TOOK, after, attempts, buried, classify, job, judged, lease, middle, smtp, stepped,
};

/// The entry of a job that ends here, written as every store writes it.
fn entry_of(job: Job, transition: Transition) -> DeadLetter {
    DeadLetter::new(stepped(job, &transition), None, buried(transition))
}

/// A job that failed with 421 and then for good.
fn entry() -> DeadLetter {
    let terms = attempts(5);
    let (transition, _) = after(job(), judged("smtp", smtp("421", "busy")), &terms);
    let second = lease(stepped(job(), &transition));
    let Transition::RetryAt { at, .. } = transition else { panic!("{transition:?}") };
    let stack_trace = Some("at send (mail.js:7)".into());
    let verdict = judged("smtp", Fault { stack_trace, ..smtp("550", "SMTP 550: Mailbox not found") });
    let (transition, _) = decide::decide_after_attempt(&second, verdict, &terms, at, at.plus(TOOK), middle());
    entry_of(second.job, transition)
}

#[test]
fn g4_a_dead_letter_has_every_required_field() {
    let entry = entry();
    let moved = NOW.plus(TOOK).plus(Duration::from_secs(1)).plus(TOOK);
    assert_eq!(entry.job_id.as_str(), "123e4567-e89b-12d3-a456-426614174000");
    assert_eq!(entry.company.as_str(), "789e4567-e89b-12d3-a456-426614174999");
    assert_eq!(entry.original_data, job().data);
    assert_eq!(entry.failed_attempts, 2);
    assert_eq!(entry.failure.reason.as_str(), "SMTP 550: Mailbox not found");
    assert_eq!(entry.failure.code.as_deref(), Some("550"));
    assert_eq!(entry.failure.at, moved);
    assert_eq!(entry.enqueued_at, NOW);
    assert_eq!(entry.moved_at, moved);
    assert_eq!(entry.ttl, 7 * DAY);
    assert_eq!(entry.expires_at(), moved.plus(7 * DAY));
    assert_eq!(entry.state, DeadLetterState::Dead);
}

#[test]
fn f11_a_dead_letter_has_every_required_field() {
    let entry = entry();
    assert_eq!(entry.route.as_str(), "email", "the job's class");
    assert_eq!(entry.original_data, job().data, "its payload");
    assert_eq!(entry.failed_attempts, 2, "the number of attempts");
    assert_eq!(entry.failure.reason.as_str(), "SMTP 550: Mailbox not found", "the last error");
    assert_eq!(entry.failure.stack_trace.as_deref(), Some("at send (mail.js:7)"));
    assert_eq!(entry.user_id.as_deref(), Some("user-7"));
    assert_eq!(entry.correlation_id.as_deref(), Some("corr-9"));
    assert_eq!((entry.failure.class, entry.cause), (Class::Permanent, Cause::Permanent));
    let second = NOW.plus(TOOK).plus(Duration::from_secs(1));
    let times: Vec<_> = entry.attempts.iter().map(|a| (a.number, a.started_at, a.ended_at)).collect();
    assert_eq!(
        times,
        [(1, NOW, NOW.plus(TOOK)), (2, second, second.plus(TOOK))],
        "timestamps of every attempt"
    );
    let rules: Vec<_> = entry.attempts.iter().map(|a| a.rule.as_deref()).collect();
    assert_eq!(rules, [Some("smtp/421"), Some("smtp/550")]);
}

#[test]
fn g4_failed_attempts_counts_every_try_and_is_at_least_one_for_a_permanent_error() {
    // The last one was replayed: its attempts are its own again, but the entry counts its whole life.
    for (started, spent, counted) in [(0, 0, 1), (4, 4, 5), (5, 0, 6)] {
        let mut tried = job();
        tried.progress.attempts_started = started;
        tried.progress.attempts_spent = spent;
        let (transition, _) = after(tried.clone(), judged("smtp", smtp("550", "no")), &attempts(5));
        assert_eq!(entry_of(tried, transition).failed_attempts, counted);
    }
}

#[test]
fn a_job_that_expired_untried_is_a_dead_letter_of_no_attempts() {
    let entry = entry_of(job(), decide::bury_expired(&job(), None, &attempts(5), NOW).0);
    assert_eq!((entry.failed_attempts, entry.attempts.len(), entry.cause), (0, 0, Cause::Expired));
}

#[test]
fn g1_an_entry_is_kept_seven_days_by_default() {
    assert_eq!(DEAD_LETTER_TTL_DEFAULT, Duration::from_millis(604_800_000));
}

#[test]
fn g5_a_blank_reason_cannot_be_made_nor_read() {
    for blank in ["", " ", "\n\t\r", "\u{a0}", "\u{3000}"] {
        assert!(Reason::new(blank).is_err(), "{blank:?}");
        assert!(serde_json::from_value::<Reason>(blank.into()).is_err(), "{blank:?}");
    }
    assert!(serde_json::from_str::<Reason>("null").is_err());
    assert_eq!(Reason::new(" SMTP 550: Mailbox not found ").unwrap().as_str(), "SMTP 550: Mailbox not found");
}

fn some_text() -> impl Strategy<Value = Box<str>> {
    let blank = prop_oneof![Just(String::new()), Just(" \t\r\n\u{a0}".to_owned())];
    prop_oneof![blank, any::<String>()].prop_map(String::into_boxed_str)
}

fn a_fault() -> impl Strategy<Value = Fault> {
    let kinds: Vec<FaultKind> = [FaultKind::Answer, FaultKind::Panic, FaultKind::InvalidPayload]
        .into_iter()
        .chain(NetworkKind::ALL.map(FaultKind::Network))
        .collect();
    let words = (some_text(), prop::option::of(some_text()), prop::option::of(some_text()));
    let numbers = (prop::option::of(any::<u16>()), prop::option::of(any::<u32>()), any::<bool>());
    (prop::sample::select(kinds), words, numbers).prop_map(
        |(kind, (text, code, enhanced), (status, retry_after, uncertain))| Fault {
            kind,
            code,
            enhanced,
            status,
            text,
            retry_after: retry_after.map(|seconds| Duration::from_secs(seconds.into())),
            uncertain,
            stack_trace: None,
        },
    )
}

proptest! {
    #[test]
    fn g5_last_failure_reason_is_never_blank_whatever_went_wrong(
        fault in a_fault(),
        set in prop::sample::select(rules::NAMES.to_vec()),
    ) {
        let uncertain = fault.uncertain;
        let lease = lease(job());
        let (transition, audit) =
            decide::decide_after_attempt(&lease, judged(set, fault), &attempts(1), NOW, NOW, middle());
        let entry = entry_of(lease.job, transition);
        prop_assert!(!entry.failure.reason.as_str().trim().is_empty());
        prop_assert!(!audit.decision.error_message.unwrap().trim().is_empty());
        prop_assert!(!audit.decision.retry_reason.unwrap().trim().is_empty());
        prop_assert_eq!(entry.failed_attempts, 1);
        let expected = if uncertain { AttemptResult::Uncertain } else { AttemptResult::Failed };
        prop_assert_eq!(entry.attempts[0].result, expected);
    }

    #[test]
    fn no_fault_of_our_own_making_blames_the_provider(
        text in some_text(),
        set in prop::sample::select(rules::NAMES.to_vec()),
    ) {
        prop_assert_eq!(classify(set, Fault::panic(&text)).blame, Blame::Message);
        prop_assert_eq!(classify(set, Fault::invalid_payload(&text)).blame, Blame::Message);
    }
}
