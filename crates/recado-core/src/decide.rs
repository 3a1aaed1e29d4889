//! Decides the transition of a job after an attempt, a crash or a wait.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::audit::{AuditEvent, AuditKind};
use crate::checksum::Damage;
use crate::classify::{Blame, Class, Failure, Verdict};
use crate::dead_letter::Cause;
use crate::engine_code::EngineCode;
use crate::job::{Attempt, AttemptResult, Job, RecipientResult};
use crate::lease::{Lease, LostLease};
use crate::policy::{Draw, Policy};
use crate::transition::{Burial, Transition};
use crate::values::reason::Reason;
use crate::values::time::Timestamp;
use crate::words::counted;

/// Shortest wait that a `Retry-After` can bring about.
pub const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);

/// A route's terms for failures: its policy, its rules and the life of its dead letters.
#[derive(Clone, Debug)]
pub struct Terms {
    pub policy: Policy,
    /// Time that its dead letters are kept.
    pub dead_letter_ttl: Duration,
    /// A job whose holder vanished this many times in a row is poison.
    pub crashes_max: u32,
    /// A job that has spent its attempts is tried again after this, until it expires, instead of going
    /// to the dead letter queue. Permanent failures go there all the same.
    pub start_over_after: Option<Duration>,
}

/// Decides what becomes of a leased job after one attempt.
pub fn decide_after_attempt(
    lease: &Lease,
    verdict: Verdict,
    terms: &Terms,
    started_at: Timestamp,
    now: Timestamp,
    draw: Draw,
) -> (Transition, AuditEvent) {
    let mut attempt = Attempt::ended(lease.attempt, started_at, now, AttemptResult::Sent);
    attempt.replays = lease.job.progress.replays;
    match verdict {
        Verdict::Delivered { answer } => {
            let audit = AuditEvent::about(&lease.job, AuditKind::Delivered, now).attempt(attempt.number);
            (Transition::Deliver { attempt, answer }, audit)
        }
        Verdict::Partial { accepted, refused } => {
            let failure = combine_refusals(&lease.job, &accepted, &refused);
            attempt.recipients = recipient_results(accepted, refused);
            decide_after_failure(&lease.job, failure, attempt, terms, now, draw)
        }
        Verdict::Failed(failure) => decide_after_failure(&lease.job, failure, attempt, terms, now, draw),
    }
}

fn describe_exhaustion(policy: &Policy) -> String {
    match policy.max_attempts {
        1 => "The only attempt failed".to_owned(),
        many => format!("All {many} attempts failed"),
    }
}

/// Combines the refusals of single recipients into one failure: transient as long as one of them is worth
/// another try.
fn combine_refusals(job: &Job, accepted: &[Box<str>], refused: &[(Box<str>, Failure)]) -> Failure {
    let (recipient, telling) = refused
        .iter()
        .find(|(_, failure)| failure.class.is_retryable())
        .or_else(|| refused.first())
        .expect("a recipient refused, or it would have been delivered");
    let longest_wait = refused.iter().filter_map(|(_, failure)| failure.retry_after).max();
    // Those of earlier attempts are recipients, too.
    let named = accepted.iter().chain(refused.iter().map(|(recipient, _)| recipient)).map(|one| &**one);
    let all: BTreeSet<&str> = job.recipients().chain(named).collect();
    let has_it = |one: &&&str| job.has_reached(one) || accepted.iter().any(|accepted| **accepted == ***one);
    let words = format!(
        "{} of {} did not get it; {recipient}: {}",
        all.len() - all.iter().filter(has_it).count(),
        counted(all.len() as u64, "recipient", "recipients"),
        telling.reason
    );
    Failure {
        reason: Reason::of(&words),
        retry_after: longest_wait,
        uncertain: refused.iter().any(|(_, failure)| failure.uncertain),
        ..telling.clone()
    }
}

fn recipient_results(accepted: Vec<Box<str>>, refused: Vec<(Box<str>, Failure)>) -> Vec<RecipientResult> {
    let took = accepted.into_iter().map(|recipient| RecipientResult {
        recipient,
        result: AttemptResult::Sent,
        error_code: None,
        error_reason: None,
        error_classification: None,
        rule: None,
    });
    let refused = refused.into_iter().map(|(recipient, failure)| RecipientResult {
        recipient,
        result: if failure.uncertain { AttemptResult::Uncertain } else { AttemptResult::Failed },
        error_code: failure.code,
        error_reason: Some(failure.reason),
        error_classification: Some(failure.class),
        rule: Some(failure.rule),
    });
    took.chain(refused).collect()
}

fn decide_after_failure(
    job: &Job,
    failure: Failure,
    attempt: Attempt,
    terms: &Terms,
    now: Timestamp,
    draw: Draw,
) -> (Transition, AuditEvent) {
    let policy = &terms.policy;
    let spent = job.progress.attempts_spent + 1;
    let mut attempt = with_failure(attempt, &failure);
    let audit = |kind| {
        AuditEvent::about(job, kind, now).failure(&failure).attempt(attempt.number).retry_count(spent - 1)
    };

    if !failure.class.is_retryable() {
        let cause = if failure.invalid_payload { Cause::InvalidPayload } else { Cause::Permanent };
        let audit = audit(AuditKind::Buried).reason(format!("Permanent error: {}", failure.reason));
        return (Transition::Bury(burial(cause, failure, Some(attempt), terms, now)), audit);
    }
    if spent >= policy.max_attempts && terms.start_over_after.is_none() {
        let audit = audit(AuditKind::Buried).reason(describe_exhaustion(policy));
        return (Transition::Bury(burial(Cause::Exhausted, failure, Some(attempt), terms, now)), audit);
    }

    let previous = job.attempts.last().and_then(|last| last.next_retry_delay_ms).map(Duration::from_millis);
    let delay = match terms.start_over_after.filter(|_| spent >= policy.max_attempts) {
        Some(after) => after.max(failure.retry_after.unwrap_or_default()),
        None => next_delay(policy, spent - 1, previous, failure.retry_after, draw),
    };
    let at = now.plus(delay);
    if at >= job.expires_at {
        let too_late = format!("next try would start at {at}, after the job expires at {}", job.expires_at);
        let audit = audit(AuditKind::Buried).reason(format!("The {too_late}"));
        let reason = Reason::of(&format!("{}; the {too_late}", failure.reason));
        let failure = Failure { reason, ..failure };
        return (Transition::Bury(burial(Cause::Expired, failure, Some(attempt), terms, now)), audit);
    }
    let audit = audit(AuditKind::RetryScheduled).retry_count(spent).backoff(delay, at).reason(
        match spent < policy.max_attempts {
            true => format!("Retry {spent} of {}", policy.max_attempts - 1),
            false => format!("{}; the route's fallback tries again", describe_exhaustion(policy)),
        },
    );
    attempt.next_retry_delay_ms = Some(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
    (Transition::RetryAt { at, attempt }, audit)
}

/// Returns the wait that the provider asks for, or the policy's. A `Retry-After` of zero or a date in the past names
/// no wait, so the policy decides; a shorter one than the policy's floor is lengthened to that.
pub fn next_delay(
    policy: &Policy,
    retry: u32,
    previous: Option<Duration>,
    retry_after: Option<Duration>,
    draw: Draw,
) -> Duration {
    match retry_after.filter(|asked| !asked.is_zero()) {
        Some(asked) => asked.max(RETRY_AFTER_MIN).max(policy.floor.unwrap_or_default()),
        None => policy.delay(retry, previous, draw),
    }
}

/// Moves a job to the dead letter queue that expired while it waited; `held_back` says what held it back at the end.
pub fn bury_expired(
    job: &Job,
    held_back: Option<&str>,
    terms: &Terms,
    now: Timestamp,
) -> (Transition, AuditEvent) {
    let at = job.expires_at;
    let held = held_back.map(|why| format!("; it was held back: {why}")).unwrap_or_default();
    let last = job.attempts.iter().rev().find_map(|attempt| attempt.error_reason.as_ref());
    let words = match last {
        Some(last) => format!("expired at {at} before it could be retried{held}; last failure: {last}"),
        None => format!("expired at {at} before it was tried{held}"),
    };
    let failure = Failure::of_engine(Class::Permanent, EngineCode::Expired, &words, "recado/expired");
    let why = format!("The job's time ran out{held}");
    let (burial, audit) = give_up_untried(job, Cause::Expired, failure, why, terms, now);
    (Transition::Bury(Burial { held_up: held_back.is_some(), ..burial }), audit)
}

/// Moves a job to the dead letter queue whose stored content is damaged. It is never sent.
pub fn bury_damaged(job: &Job, damage: Damage, terms: &Terms, now: Timestamp) -> (Transition, AuditEvent) {
    let way_out = match damage {
        Damage::Identity => "submit it again as a new job",
        Damage::Data | Damage::OriginalData => "replay it with corrected data",
    };
    let words =
        format!("nothing was sent: {damage} in the store changed after the job was accepted; {way_out}");
    let code = EngineCode::PayloadCorrupt;
    let failure = Failure::of_engine(Class::Permanent, code, &words, "recado/payload-corrupt");
    let why = format!("{damage} no longer matches its checksum");
    let (burial, audit) = give_up_untried(job, Cause::InvalidPayload, failure, why, terms, now);
    (Transition::Bury(burial), audit)
}

/// Moves a job to the dead letter queue because its provider's breaker is open and the route's fallback says so.
pub fn bury_by_fallback(job: &Job, why: &str, terms: &Terms, now: Timestamp) -> (Transition, AuditEvent) {
    let failure = provider_closed(why);
    let why = "The route's fallback gave it up without asking the provider".to_owned();
    let (burial, audit) = give_up_untried(job, Cause::Fallback, failure, why, terms, now);
    (Transition::Bury(burial), audit)
}

/// Postpones a job because its provider's breaker is open and the route's fallback says so, or moves it to the dead
/// letter queue if it expires before that.
pub fn postpone_by_fallback(
    job: &Job,
    after: Duration,
    why: &str,
    terms: &Terms,
    now: Timestamp,
) -> (Transition, AuditEvent) {
    let failure = provider_closed(why);
    let until = now.plus(after);
    if until >= job.expires_at {
        let why = format!("The next try would start at {until}, after the job expires at {}", job.expires_at);
        let (burial, audit) = give_up_untried(job, Cause::Expired, failure, why, terms, now);
        return (Transition::Bury(burial), audit);
    }
    let audit = audit_untried(job, AuditKind::RetryScheduled, &failure, now)
        .backoff(after, until)
        .reason("The route's fallback puts it off without spending an attempt".to_owned());
    (Transition::Postpone { until }, audit)
}

/// Moves a job to the dead letter queue whose pinned provider, which may have taken it, is no longer on its route.
pub fn bury_without_pinned_provider(
    job: &Job,
    provider: &str,
    terms: &Terms,
    now: Timestamp,
) -> (Transition, AuditEvent) {
    let words = format!(
        "provider {provider} may have taken it, and is no longer on route {}; find out there whether it has it, \
         then replay or discard it",
        job.route
    );
    let code = EngineCode::ProviderGone;
    let failure = Failure::of_engine(Class::Permanent, code, &words, "recado/provider-gone");
    let why = format!("Provider {provider}, which may have taken it, is no longer on its route");
    let (burial, audit) = give_up_untried(job, Cause::Permanent, failure, why, terms, now);
    (Transition::Bury(burial), audit)
}

/// Shortest and longest wait after a shortage of our own; each wait is multiplied by a random factor from 1 to 2.
const SHORTAGE_WAIT_MIN: Duration = Duration::from_secs(1);
const SHORTAGE_WAIT_MAX: Duration = Duration::from_secs(30);

/// Postpones a job that was not sent because this process lacked a resource. Spends no attempt.
pub fn decide_after_shortage(
    job: &Job,
    why: &str,
    terms: &Terms,
    now: Timestamp,
    draw: Draw,
) -> (Transition, Option<AuditEvent>) {
    let doublings = job.progress.deferrals.min(16);
    let wait = SHORTAGE_WAIT_MIN.saturating_mul(1 << doublings).min(SHORTAGE_WAIT_MAX);
    let until = now.plus(wait.mul_f64(draw.between(1.0, 2.0)));
    if until < job.expires_at {
        return (Transition::Postpone { until }, None);
    }
    let words = format!(
        "not sent, for this process lacked a resource: {why}; the next try would start at {until}, \
         after the job expires at {}",
        job.expires_at
    );
    let failure = Failure::of_engine(Class::Transient, EngineCode::LocalShortage, &words, "recado/shortage");
    let why = "The job's time ran out while this process lacked a resource".to_owned();
    let (burial, audit) = give_up_untried(job, Cause::Expired, failure, why, terms, now);
    (Transition::Bury(Burial { held_up: true, ..burial }), Some(audit))
}

/// Gives a job up without another attempt; `why` goes on record.
fn give_up_untried(
    job: &Job,
    cause: Cause,
    failure: Failure,
    why: String,
    terms: &Terms,
    now: Timestamp,
) -> (Burial, AuditEvent) {
    let audit = audit_untried(job, AuditKind::Buried, &failure, now).reason(why);
    (burial(cause, failure, None, terms, now), audit)
}

fn audit_untried(job: &Job, kind: AuditKind, failure: &Failure, now: Timestamp) -> AuditEvent {
    AuditEvent::about(job, kind, now)
        .failure(failure)
        .retry_count(job.progress.attempts_spent.saturating_sub(1))
}

fn provider_closed(why: &str) -> Failure {
    let (code, words) = (EngineCode::CircuitOpen, format!("not sent: {why}"));
    let failure = Failure::of_engine(Class::Transient, code, &words, "recado/held-back");
    Failure { blame: Blame::Provider, ..failure }
}

/// Returns a job to its lane after its holder vanished, or moves it to the dead letter queue if that keeps happening.
///
/// The first time it may be claimed again at once. From the second loss on it waits at random, so that jobs lost in the
/// same crash are not claimed together again, and those that a poisonous one took down can finish without it.
pub fn decide_after_crash(
    job: &Job,
    lost: &LostLease,
    terms: &Terms,
    now: Timestamp,
    draw: Draw,
) -> (Transition, AuditEvent) {
    let crashes = job.progress.crashes + 1;
    let words = format!(
        "{} let its lease on attempt {} run out; the provider may have taken the job",
        lost.worker, lost.attempt
    );
    let (attempt, failure) = lost_attempt(job, lost, &words, now);
    if crashes >= terms.crashes_max {
        let in_a_row = if crashes == 1 { "once".to_owned() } else { format!("{crashes} times in a row") };
        let words = format!("poison: the process that delivered it vanished {in_a_row}; {words}");
        let failure = Failure::of_engine(Class::Permanent, EngineCode::Poison, &words, "recado/poison");
        let audit = audit_untried(job, AuditKind::Buried, &failure, now)
            .attempt(lost.attempt)
            .reason(format!("Its worker vanished {in_a_row}"));
        return (Transition::Bury(burial(Cause::Exhausted, failure, Some(attempt), terms, now)), audit);
    }
    let pause = match crashes {
        1 => Duration::ZERO,
        more => Policy {
            jitter: crate::policy::Jitter::Full,
            ..Policy::exponential(Duration::from_secs(1), Duration::from_secs(60), 2)
        }
        .delay(more, None, draw),
    };
    let at = now.plus(pause);
    let audit = AuditEvent::about(job, AuditKind::LeaseLost, now)
        .failure(&failure)
        .attempt(lost.attempt)
        .backoff(pause, at)
        .reason("Given back without spending an attempt".to_owned());
    (Transition::Release { at, lost: Some(attempt) }, audit)
}

/// Makes the attempt of a lease whose holder vanished or was stopped; `words` say which.
pub fn lost_attempt(job: &Job, lost: &LostLease, words: &str, now: Timestamp) -> (Attempt, Failure) {
    let failure = Failure::of_engine(Class::Unknown, EngineCode::LeaseLost, words, "recado/lease-lost");
    let attempt = Attempt::ended(lost.attempt, lost.claimed_at, now, AttemptResult::Lost);
    let attempt = Attempt {
        result: AttemptResult::Lost,
        replays: job.progress.replays,
        // A job that is pinned goes to no other provider, whichever one its lane was claimed for.
        provider: job.pin().and_then(|pin| pin.provider).or_else(|| lost.provider.clone()),
        ..with_failure(attempt, &failure)
    };
    (attempt, failure)
}

fn with_failure(attempt: Attempt, failure: &Failure) -> Attempt {
    let reached_some = attempt.recipients.iter().any(|one| one.result == AttemptResult::Sent);
    Attempt {
        result: match failure.uncertain {
            true => AttemptResult::Uncertain,
            false if reached_some => AttemptResult::Partial,
            false => AttemptResult::Failed,
        },
        error_code: failure.code.clone(),
        error_reason: Some(failure.reason.clone()),
        error_classification: Some(failure.class),
        rule: Some(failure.rule.clone()),
        blame: Some(failure.blame),
        ..attempt
    }
}

fn burial(cause: Cause, failure: Failure, attempt: Option<Attempt>, terms: &Terms, now: Timestamp) -> Burial {
    Burial { cause, failure, attempt, held_up: false, at: now, ttl: terms.dead_letter_ttl }
}
