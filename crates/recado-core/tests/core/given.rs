//! The situations that the tests start from.

use std::sync::LazyLock;
use std::time::Duration;

use recado_core::decide::{self, Terms};
use recado_core::job::remember;
use recado_core::outcome::enhanced_code;
use recado_core::{
    AuditEvent, Blame, Burial, Class, Classifier, CompanyId, Draw, Failure, Fault, Job, JobId, Lease,
    LeaseToken, Payload, Policy, Priority, Progress, RouteName, Timestamp, Transition, Verdict, rules,
};

/// The instant of the example log line (T22).
pub const NOW: Timestamp = Timestamp::from_millis(1_736_677_800_000);
pub const TOOK: Duration = Duration::from_millis(40);

pub const DAY: Duration = Duration::from_secs(24 * 3_600);

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

pub fn middle() -> Draw {
    Draw::new(0.5)
}

pub fn job() -> Job {
    Job {
        id: JobId::new("123e4567-e89b-12d3-a456-426614174000").unwrap(),
        route: RouteName::new("email").unwrap(),
        company: CompanyId::new("789e4567-e89b-12d3-a456-426614174999").unwrap(),
        data: Payload::new(r#"{"to":["ana@example.com"]}"#).unwrap(),
        user_id: Some("user-7".into()),
        correlation_id: Some("corr-9".into()),
        traceparent: None,
        priority: Priority::default(),
        enqueued_at: NOW,
        due_at: NOW,
        expires_at: NOW.plus(DAY),
        progress: Progress::default(),
        attempts: Vec::new(),
        checksum: None,
    }
}

/// The lease under which a job makes its next attempt, as a store hands it out.
pub fn lease(job: Job) -> Lease {
    Lease {
        token: LeaseToken(7),
        attempt: job.progress.attempts_started + 1,
        claimed_at: NOW,
        expires_at: NOW.plus(secs(30)),
        job,
        lost: None,
    }
}

pub fn terms(policy: Policy) -> Terms {
    Terms { policy, dead_letter_ttl: 7 * DAY, crashes_max: 3, start_over_after: None }
}

/// A plain policy for tests that are not about delays.
pub fn attempts(max: u32) -> Terms {
    terms(Policy::exponential(secs(1), secs(60), max))
}

/// An SMTP server's answer: a code and, in its words, perhaps an enhanced code.
pub fn smtp(code: &str, text: &str) -> Fault {
    Fault { enhanced: enhanced_code(text).map(Into::into), ..Fault::answer(code, text) }
}

/// An HTTP API's answer: the code is the status, the text the body.
pub fn http(status: u16, body: &str) -> Fault {
    Fault { status: Some(status), ..Fault::answer(&status.to_string(), body) }
}

/// The sandbox's reading of `"<code> <text>"`: every three-digit code is a status too.
pub fn sandbox(code: &str, text: &str) -> Fault {
    let status = if code.len() == 3 { code.parse().ok() } else { None };
    Fault { status, ..smtp(code, text) }
}

/// The built-in rule set of that name, compiled once for all tests.
pub fn set(name: &str) -> &'static Classifier {
    static SETS: LazyLock<Vec<Classifier>> =
        LazyLock::new(|| rules::NAMES.map(|name| rules::named(name).unwrap()).into());
    SETS.iter().find(|set| set.set.is_some_and(|set| set.as_str() == name)).unwrap()
}

pub fn classify(name: &str, fault: Fault) -> Failure {
    set(name).classify(fault)
}

pub fn judged(set: &str, fault: Fault) -> Verdict {
    Verdict::Failed(classify(set, fault))
}

/// One line of an error table: the answer, its class, its blame, the rule.
pub type Case = (Fault, Class, Blame, &'static str);

/// Every line of `cases` is judged as it says; the message names the first that is not.
pub fn assert_judged(set: &str, cases: impl IntoIterator<Item = Case>) {
    for (fault, class, blame, rule) in cases {
        let failure = classify(set, fault.clone());
        assert_eq!(
            (failure.class, failure.blame, &*failure.rule),
            (class, blame, rule),
            "{set}: {:?} {:?} {:?}",
            fault.kind,
            fault.code,
            fault.text
        );
    }
}

pub fn after(job: Job, verdict: Verdict, terms: &Terms) -> (Transition, AuditEvent) {
    decide::decide_after_attempt(&lease(job), verdict, terms, NOW, NOW.plus(TOOK), middle())
}

pub fn buried(transition: Transition) -> Burial {
    match transition {
        Transition::Bury(burial) => burial,
        other => panic!("not buried: {other:?}"),
    }
}

/// The job once `transition` has happened, as every store steps it.
pub fn stepped(mut job: Job, transition: &Transition) -> Job {
    job.progress = transition.step(job.progress);
    if let Transition::RetryAt { attempt, .. } = transition {
        remember(&mut job.attempts, attempt.clone());
    }
    job
}

/// A job that fails the same way until it is buried: the waits in between, and its end.
pub fn fail_until_buried(fault: &Fault, set: &str, terms: &Terms, draw: Draw) -> (Vec<Duration>, Burial) {
    let (mut job, mut now, mut waits) = (job(), NOW, Vec::new());
    loop {
        let lease = lease(job);
        let (transition, _) =
            decide::decide_after_attempt(&lease, judged(set, fault.clone()), terms, now, now, draw);
        let Transition::RetryAt { at, .. } = transition else { return (waits, buried(transition)) };
        waits.push(at.since(now));
        assert!(waits.len() < 100, "it is never buried");
        job = stepped(lease.job, &transition);
        now = at;
    }
}
