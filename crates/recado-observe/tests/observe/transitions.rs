//! The facts of a settled transition, taken from the rules of the core themselves.

use std::time::Duration;

use recado_core::policy::{Draw, Jitter, Policy};
use recado_core::{Attempt, Timestamp};
use recado_core::{
    AttemptResult, BodyHash, Burial, Cause, Class, CompanyId, Failure, Job, JobId, NewJob, Payload, Priority,
    RouteName, Transition,
};
use recado_observe::{Backoff, DelaySource, Ending, Fact, facts_of_transition};
use recado_testkit::jobs::permanent_failure;

use crate::{at, ledger, seconds_of};

const MINUTE: Duration = Duration::from_secs(60);

/// The policy of insurance claims.
fn claims() -> Policy {
    Policy {
        jitter: Jitter::Symmetric(0.2),
        floor: Some(5 * MINUTE),
        ceiling: Some(240 * MINUTE),
        ..Policy::exponential(5 * MINUTE, 240 * MINUTE, 6)
    }
}

/// The policy of e-mail by SES.
fn gateway() -> Policy {
    Policy { jitter: Jitter::Symmetric(0.25), ..Policy::exponential(seconds_of(1), seconds_of(60), 20) }
}

fn job(attempts: Vec<Attempt>) -> Job {
    let data = Payload::trusted("{}");
    let mut job = Job::from(NewJob {
        id: JobId::new("job-1").unwrap(),
        route: RouteName::new("tiss-claims").unwrap(),
        company: CompanyId::new("acme").unwrap(),
        body_hash: BodyHash(0),
        data,
        user_id: None,
        correlation_id: None,
        traceparent: None,
        priority: Priority::default(),
        enqueued_at: at(0),
        due_at: at(100),
        expires_at: Timestamp::MAX,
    });
    job.progress.attempts_spent = u32::try_from(attempts.len()).unwrap();
    job.progress.attempts_started = job.progress.attempts_spent;
    job.attempts = attempts;
    job
}

fn attempt(number: u32, started: u64, result: AttemptResult, delay: Option<Duration>) -> Attempt {
    let mut attempt = Attempt::ended(number, at(started), at(started + 3), result);
    if result != AttemptResult::Sent {
        attempt.error_code = Some("503".into());
        attempt.error_classification = Some(Class::Transient);
    }
    attempt.next_retry_delay_ms = delay.map(|delay| u64::try_from(delay.as_millis()).unwrap());
    attempt
}

#[test]
fn a_delivery_after_a_retry_is_an_attempt_and_an_end() {
    let job = job(vec![attempt(1, 40, AttemptResult::Failed, Some(seconds_of(57)))]);
    let transition =
        Transition::Deliver { attempt: attempt(2, 110, AttemptResult::Sent, None), answer: None };
    let facts: Vec<_> =
        facts_of_transition(&job, &transition, &claims(), DelaySource::Policy, at(113)).collect();
    let [
        Fact::AttemptEnded(tried),
        Fact::JobEnded { ending: Ending::Sent, attempts: 2, since_first_try, .. },
    ] = facts[..]
    else {
        panic!("{facts:?}");
    };
    assert_eq!((tried.number, tried.result, tried.failure.is_none()), (2, AttemptResult::Sent, true));
    assert_eq!((tried.lag, tried.took), (seconds_of(10), seconds_of(3)));
    assert_eq!(since_first_try, Some(seconds_of(73)));
}

#[test]
fn a_retry_is_an_attempt_with_its_wait() {
    let job = job(vec![attempt(1, 40, AttemptResult::Failed, Some(6 * MINUTE))]);
    let failed = attempt(2, 110, AttemptResult::Uncertain, Some(11 * MINUTE));
    let transition = Transition::RetryAt { at: at(1_000), attempt: failed };
    let facts: Vec<_> =
        facts_of_transition(&job, &transition, &claims(), DelaySource::Policy, at(113)).collect();
    let [Fact::AttemptEnded(tried)] = facts[..] else { panic!("{facts:?}") };
    let judged = tried.failure.unwrap();
    assert_eq!((judged.code, judged.class), (Some("503"), Class::Transient));
    assert_eq!(tried.retry, Some(Backoff { delay: 11 * MINUTE, at_cap: false, position: Some(0.75) }));
    let asked: Vec<_> =
        facts_of_transition(&job, &transition, &claims(), DelaySource::Imposed, at(113)).collect();
    let [Fact::AttemptEnded(tried)] = asked[..] else { panic!("{asked:?}") };
    assert_eq!(tried.retry.unwrap().position, None, "the provider said how long");
}

#[test]
fn a_job_that_expired_in_the_queue_ends_without_an_attempt() {
    let failure = Failure { rule: "recado/expired".into(), ..permanent_failure(Some("EXPIRED"), "too late") };
    let burial =
        Burial { cause: Cause::Expired, failure, attempt: None, held_up: false, at: at(9), ttl: MINUTE };
    let (job, transition) = (job(Vec::new()), Transition::Bury(burial));
    let facts: Vec<_> =
        facts_of_transition(&job, &transition, &claims(), DelaySource::Policy, at(9)).collect();
    let [
        Fact::JobEnded {
            ending: Ending::Buried { cause: Cause::Expired, code: Some("EXPIRED") },
            attempts: 0,
            ..
        },
    ] = facts[..]
    else {
        panic!("{facts:?}");
    };
}

#[test]
fn a_replayed_job_does_not_count_the_days_it_lay_there() {
    let mut job = job(vec![attempt(1, 40, AttemptResult::Failed, None)]);
    job.progress.replays = 1;
    let transition =
        Transition::Deliver { attempt: attempt(2, 110, AttemptResult::Sent, None), answer: None };
    let ended =
        facts_of_transition(&job, &transition, &claims(), DelaySource::Policy, at(9_999_999)).last().unwrap();
    assert!(matches!(ended, Fact::JobEnded { since_first_try: None, .. }), "{ended:?}");
}

#[test]
fn t15_a_replayed_jobs_attempts_are_those_of_its_whole_life_and_it_is_retried_only_by_itself() {
    let tried = (1..=3).map(|number| attempt(number, 40, AttemptResult::Failed, None)).collect();
    let mut job = job(tried);
    (job.progress.replays, job.progress.attempts_spent) = (1, 0);
    let transition =
        Transition::Deliver { attempt: attempt(4, 110, AttemptResult::Sent, None), answer: None };
    let ended =
        facts_of_transition(&job, &transition, &claims(), DelaySource::Policy, at(113)).last().unwrap();
    assert!(matches!(ended, Fact::JobEnded { attempts: 4, retried: false, .. }), "{ended:?}");
}

#[test]
fn what_is_put_off_or_given_back_is_no_fact() {
    let job = job(Vec::new());
    for transition in [Transition::Postpone { until: at(1) }, Transition::Release { at: at(1), lost: None }] {
        assert_eq!(facts_of_transition(&job, &transition, &claims(), DelaySource::Policy, at(0)).count(), 0);
    }
}

#[test]
fn t16_a_wait_is_at_the_cap_when_the_curve_is() {
    let at_cap = |policy: &Policy, retry| Backoff::by_policy(policy, retry, policy.nominal(retry)).at_cap;
    let gateway = gateway();
    assert!(!at_cap(&gateway, 5), "32 s");
    assert!(at_cap(&gateway, 6), "60 s");
    assert!(!(0..5).any(|retry| at_cap(&claims(), retry)), "claims stay below 240 minutes");
    assert!(at_cap(&claims(), 6));
    let schedule = Policy::schedule(vec![Duration::ZERO, seconds_of(5), seconds_of(300)]);
    assert!(!at_cap(&schedule, 1), "a schedule has no cap");
}

#[test]
fn t16_an_even_jitter_deviates_little_and_a_broken_one_a_lot() {
    let deviation = |policy: &Policy, retry, draw: &dyn Fn(u32) -> f64| {
        let ledger = ledger();
        for one in 0..1_000 {
            let delay = policy.delay(retry, None, Draw::new(draw(one)));
            let backoff = Backoff::by_policy(policy, retry, delay);
            let decided = recado_observe::Decided::Retry(backoff);
            ledger.record(&Fact::Decided { route: "tiss-claims", class: Class::Transient, decided }, at(0));
        }
        let kpis = ledger.kpis(Some("tiss-claims"), MINUTE, at(0)).unwrap();
        kpis.jitter_deviation.value
    };
    let even = |one: u32| f64::from(one) / 1_000.0;
    for retry in 1..5 {
        assert!(deviation(&claims(), retry, &even).unwrap() < 0.05, "retry {retry}");
        assert!(deviation(&gateway(), retry, &even).unwrap() < 0.05, "retry {retry}");
    }
    assert!(deviation(&claims(), 1, &|_| 0.5).unwrap() > 1.0, "always the same");
    assert!(deviation(&claims(), 1, &|one| even(one) / 2.0).unwrap() > 0.9, "never the upper half");
    assert_eq!(deviation(&claims(), 0, &even), None, "the floor folds half of the range onto five minutes");
}
