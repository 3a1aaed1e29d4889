//! From one attempt's verdict to what becomes of the job.

use proptest::prelude::*;
use recado_core::decide::{self, RETRY_AFTER_MIN, Terms};
use recado_core::outcome::NetworkKind;
use recado_core::{
    Attempt, AttemptResult, Blame, Cause, Class, Draw, Fault, Jitter, Job, Outcome, Payload, Policy,
    Timestamp, Transition, Verdict, retry_after,
};

use crate::delays::tiss_policy;
use crate::given::{
    DAY, NOW, TOOK, after, attempts, buried, http, job, judged, minutes, secs, set, smtp, terms,
};

const ENDED: Timestamp = Timestamp::from_millis(NOW.as_millis() + 40);

fn spent(attempts: u32) -> Job {
    let mut job = job();
    job.progress.attempts_spent = attempts;
    job.progress.attempts_started = attempts;
    job
}

fn retried(transition: Transition) -> (Timestamp, Attempt) {
    match transition {
        Transition::RetryAt { at, attempt } => (at, attempt),
        other => panic!("not retried: {other:?}"),
    }
}

#[test]
fn e7_what_the_provider_took_is_delivered() {
    assert_eq!(ENDED, NOW.plus(TOOK));
    let answer = Payload::new(r#"{"id":1}"#).unwrap();
    let verdict = set("smtp").verdict(Outcome::Accepted { answer: Some(answer.clone()) });
    let (transition, _) = after(spent(2), verdict, &attempts(5));
    let Transition::Deliver { attempt, answer: kept } = transition else { panic!("{transition:?}") };
    assert_eq!(kept, Some(answer));
    assert_eq!((attempt.number, attempt.result), (3, AttemptResult::Sent));
    assert_eq!((attempt.started_at, attempt.ended_at), (NOW, ENDED));
    assert_eq!(
        (attempt.error_code, attempt.error_reason, attempt.rule, attempt.blame),
        (None, None, None, None)
    );
}

#[test]
fn e7_a_permanent_error_is_buried_after_one_attempt() {
    let (transition, _) = after(job(), judged("smtp", smtp("550", "no such user")), &attempts(5));
    let burial = buried(transition);
    assert_eq!(burial.cause, Cause::Permanent);
    assert_eq!((burial.at, burial.ttl), (ENDED, 7 * DAY));
    assert_eq!(burial.failure.reason.as_str(), "no such user");
    let attempt = burial.attempt.unwrap();
    assert_eq!(
        (attempt.number, attempt.result, attempt.next_retry_delay_ms),
        (1, AttemptResult::Failed, None)
    );
}

#[test]
fn f8_listed_permanent_errors_are_never_retried() {
    for status in [400, 401, 403, 404] {
        let (transition, _) = after(job(), judged("http", http(status, "")), &attempts(3));
        assert_eq!(buried(transition).cause, Cause::Permanent, "{status}");
    }
}

#[test]
fn f8_listed_timeouts_5xx_and_network_errors_are_retried() {
    let faults = [500, 502, 503, 504].map(|status| http(status, "")).into_iter();
    for fault in faults.chain(NetworkKind::ALL.map(|kind| Fault::network(kind, ""))) {
        let (transition, _) = after(job(), judged("http", fault.clone()), &attempts(3));
        assert!(matches!(transition, Transition::RetryAt { .. }), "{fault:?}");
    }
}

#[test]
fn g3_the_last_attempt_that_fails_is_buried_as_exhausted_and_not_one_before() {
    let verdict = || judged("ses", smtp("421", "Service not available"));
    for made in 0..4 {
        let (transition, _) = after(spent(made), verdict(), &attempts(5));
        assert_eq!(retried(transition).1.number, made + 1);
    }
    let burial = buried(after(spent(4), verdict(), &attempts(5)).0);
    assert_eq!(burial.cause, Cause::Exhausted);
    assert_eq!(burial.failure.class, Class::Transient, "what it was stays on the entry");
    assert_eq!(burial.attempt.unwrap().number, 5);
}

#[test]
fn a_replayed_job_has_its_attempts_again() {
    let mut replayed = spent(0);
    replayed.progress.attempts_started = 5;
    replayed.progress.replays = 1;
    let (at, attempt) = retried(after(replayed, judged("ses", smtp("421", "")), &attempts(5)).0);
    assert_eq!(attempt.number, 6, "numbers go on over the job's whole life");
    assert_eq!(at, ENDED.plus(secs(1)), "and the backoff starts anew");
}

#[test]
fn f9_a_payload_that_cannot_be_read_is_buried_as_such() {
    let (transition, _) =
        after(job(), judged("http", Fault::invalid_payload("`to` is missing")), &attempts(5));
    let burial = buried(transition);
    assert_eq!(burial.cause, Cause::InvalidPayload);
    assert_eq!(burial.failure.code.as_deref(), Some("INVALID_PAYLOAD"));
}

#[test]
fn a_panic_costs_one_attempt() {
    let (_, attempt) =
        retried(after(job(), judged("http", Fault::panic("index out of bounds")), &attempts(5)).0);
    assert_eq!(attempt.error_classification, Some(Class::Unknown));
    assert_eq!(attempt.error_reason.unwrap().as_str(), "index out of bounds");
}

#[test]
fn the_attempt_keeps_the_matched_rule_and_everything_else_that_was_judged() {
    let (at, attempt) =
        retried(after(job(), judged("smtp", smtp("451", "4.3.0 local error")), &attempts(5)).0);
    assert_eq!(at, ENDED.plus(secs(1)));
    assert_eq!(attempt.rule.as_deref(), Some("smtp/451"));
    assert_eq!(attempt.error_code.as_deref(), Some("451"));
    assert_eq!(attempt.error_reason.unwrap().as_str(), "4.3.0 local error");
    assert_eq!(attempt.error_classification, Some(Class::Transient));
    assert_eq!(attempt.blame, Some(Blame::Provider));
    assert_eq!(attempt.next_retry_delay_ms, Some(1_000));
    assert_eq!((attempt.started_at, attempt.ended_at), (NOW, ENDED));
}

#[test]
fn an_answer_lost_after_sending_is_recorded_as_uncertain_whether_retried_or_buried() {
    let lost = || judged("smtp", Fault::network(NetworkKind::Dropped, "lost after the final dot"));
    let (_, attempt) = retried(after(job(), lost(), &attempts(2)).0);
    assert_eq!(attempt.result, AttemptResult::Uncertain);
    let last = buried(after(spent(1), lost(), &attempts(2)).0).attempt.unwrap();
    assert_eq!(last.result, AttemptResult::Uncertain);
}

fn told_to_wait(asked: Option<std::time::Duration>) -> Verdict {
    judged("http", Fault { retry_after: asked, ..http(429, "slow down") })
}

#[test]
fn f8_a_429_obeys_retry_after_even_beyond_the_policys_cap_and_ceiling() {
    let policy = Policy { ceiling: Some(secs(90)), ..Policy::exponential(secs(1), secs(60), 5) };
    let (at, attempt) = retried(after(job(), told_to_wait(Some(secs(2_700))), &terms(policy)).0);
    assert_eq!(at, ENDED.plus(secs(2_700)));
    assert_eq!(attempt.error_classification, Some(Class::RateLimit));
    assert_eq!(attempt.next_retry_delay_ms, Some(2_700_000));
}

#[test]
fn f8_a_retry_after_is_read_as_seconds_or_as_a_date_and_garbage_leaves_the_policy_in_charge() {
    for (header, wait) in
        [("120", secs(120)), ("Sun, 12 Jan 2025 10:35:00 GMT", secs(300)), ("soon", secs(1)), ("-5", secs(1))]
    {
        let asked = retry_after::parse(header, NOW);
        let (at, _) = retried(after(job(), told_to_wait(asked), &attempts(5)).0);
        assert_eq!(at, ENDED.plus(wait), "{header}");
    }
}

#[test]
fn a_retry_after_of_zero_or_in_the_past_does_not_undercut_the_policy() {
    let policy = Policy::schedule(vec![secs(0), secs(60), secs(300)]);
    let wait = |header: &str| {
        let asked = retry_after::parse(header, NOW);
        assert!(asked.is_some(), "{header}");
        retried(after(job(), told_to_wait(asked), &terms(policy.clone())).0).0
    };
    for header in ["0", "Sun, 12 Jan 2020 10:35:00 GMT"] {
        assert_eq!(wait(header), ENDED.plus(secs(60)), "{header}");
    }
    assert_eq!(wait("59"), ENDED.plus(secs(59)), "a wait that is named is obeyed");
    assert_eq!(wait("0.01"), ENDED.plus(RETRY_AFTER_MIN));
}

#[test]
fn t7_a_short_retry_after_does_not_undercut_the_five_minutes_of_claims() {
    let fault = Fault { retry_after: Some(secs(2)), ..http(503, "") };
    let (at, _) = retried(after(job(), judged("tiss", fault), &terms(tiss_policy())).0);
    assert_eq!(at, ENDED.plus(minutes(5)));
}

fn expiring(at: Timestamp) -> Job {
    Job { expires_at: at, ..job() }
}

#[test]
fn a_retry_that_would_come_too_late_goes_to_a_person_instead() {
    let verdict = || judged("smtp", smtp("421", "busy"));
    let next = ENDED.plus(secs(1));
    let in_time = expiring(Timestamp::from_millis(next.as_millis() + 1));
    assert_eq!(retried(after(in_time, verdict(), &attempts(5)).0).0, next);
    let burial = buried(after(expiring(next), verdict(), &attempts(5)).0);
    assert_eq!(burial.cause, Cause::Expired);
    let reason = burial.failure.reason.as_str();
    assert!(
        reason.starts_with("busy; the next try would start at "),
        "the provider's words, then ours: {reason}"
    );
    assert!(burial.attempt.is_some());
}

#[test]
fn a_retry_after_beyond_the_jobs_time_goes_to_a_person_at_once() {
    let burial = buried(after(expiring(NOW.plus(minutes(30))), told_to_wait(Some(2 * DAY)), &attempts(5)).0);
    assert_eq!(burial.cause, Cause::Expired);
}

#[test]
fn permanent_and_exhausted_are_told_apart_from_expired() {
    let gone = || expiring(NOW);
    let permanent = buried(after(gone(), judged("smtp", smtp("550", "")), &attempts(5)).0);
    assert_eq!(permanent.cause, Cause::Permanent);
    let exhausted = buried(after(gone(), judged("smtp", smtp("421", "")), &attempts(1)).0);
    assert_eq!(exhausted.cause, Cause::Exhausted);
}

#[test]
fn a_job_whose_time_ran_out_while_it_waited_says_so_and_what_failed_last() {
    let untried = buried(decide::bury_expired(&job(), None, &attempts(5), NOW).0);
    assert_eq!((untried.cause, untried.attempt), (Cause::Expired, None));
    assert!(untried.failure.reason.as_str().contains("before it was tried"));

    let mut tried = spent(1);
    tried.attempts.push(retried(after(job(), judged("smtp", smtp("421", "mailbox busy")), &attempts(5)).0).1);
    let burial = buried(decide::bury_expired(&tried, None, &attempts(5), NOW).0);
    assert!(burial.failure.reason.as_str().contains("mailbox busy"), "{}", burial.failure.reason);

    let (transition, audit) =
        decide::bury_expired(&tried, Some("circuit breaker OPEN: 5 failures"), &attempts(5), NOW);
    let reason = buried(transition).failure.reason;
    let words = "it was held back: circuit breaker OPEN: 5 failures; last failure: ";
    assert!(reason.as_str().contains(words), "{reason}");
    assert!(
        audit.decision.retry_reason.unwrap().contains("it was held back: circuit breaker OPEN"),
        "on record, too"
    );
}

#[test]
fn decorrelated_jitter_builds_on_the_wait_before() {
    let terms: Terms =
        terms(Policy { jitter: Jitter::Decorrelated, ..Policy::exponential(secs(1), secs(600), 9) });
    let most = |job: Job| {
        let lease = crate::given::lease(job);
        decide::decide_after_attempt(
            &lease,
            judged("smtp", smtp("421", "")),
            &terms,
            NOW,
            NOW,
            Draw::new(1.0),
        )
        .0
    };
    let (at, first) = retried(most(job()));
    assert_eq!(at, NOW.plus(secs(3)));
    let mut again = spent(1);
    again.attempts.push(first);
    assert_eq!(retried(most(again)).0, NOW.plus(secs(9)));
}

proptest! {
    /// No path leads past the maximum, and none ends without an end.
    #[test]
    fn an_attempt_ends_in_success_in_a_later_retry_or_before_a_person(
        made in 0..8_u32, max in 1..6_u32, code in prop_oneof![Just("421"), Just("550"), Just("WAT")], unit in 0.0..1.0_f64,
    ) {
        let lease = crate::given::lease(spent(made));
        let verdict = judged("smtp", smtp(code, ""));
        match decide::decide_after_attempt(&lease, verdict, &attempts(max), NOW, ENDED, Draw::new(unit)).0 {
            Transition::RetryAt { at, .. } => prop_assert!(at > ENDED && made + 1 < max && code != "550"),
            Transition::Bury(burial) => prop_assert_eq!(
                burial.cause,
                if code == "550" { Cause::Permanent } else { Cause::Exhausted }
            ),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}

#[test]
fn f12_a_job_that_a_fallback_gives_up_names_the_breaker_and_spends_no_attempt() {
    let (transition, audit) =
        decide::bury_by_fallback(&spent(2), "circuit breaker OPEN: 503", &attempts(5), NOW);
    assert_eq!(transition.step(spent(2).progress), spent(2).progress);
    assert_eq!((audit.decision.should_retry, audit.decision.retry_count), (Some(false), Some(1)));
    let burial = buried(transition);
    assert_eq!((burial.cause, burial.failure.class), (Cause::Fallback, Class::Transient));
    assert_eq!(burial.failure.reason.as_str(), "not sent: circuit breaker OPEN: 503");
    assert_eq!(
        (burial.failure.code.as_deref(), burial.failure.blame),
        (Some("CIRCUIT_OPEN"), Blame::Provider)
    );
}

#[test]
fn f12_a_job_that_a_fallback_puts_off_spends_no_attempt_and_never_comes_too_late() {
    let put_off =
        |after| decide::postpone_by_fallback(&job(), after, "circuit breaker OPEN: 503", &attempts(5), NOW);
    let (transition, audit) = put_off(minutes(15));
    assert!(matches!(transition, Transition::Postpone { until } if until == NOW.plus(minutes(15))));
    assert_eq!((audit.decision.should_retry, audit.decision.backoff_minutes), (Some(true), Some(15)));
    let (transition, audit) = put_off(DAY);
    assert_eq!(buried(transition).cause, Cause::Expired);
    assert_eq!(audit.decision.should_retry, Some(false));
}
