//! Facts: events in the few words that figures need. Borrowed: a fact is counted and forgotten.
//!
//! No fact holds a payload, a recipient or a reason in words.

use std::time::Duration;

use recado_core::breaker::BreakerChange;
use recado_core::policy::{self, Jitter, Policy};
use recado_core::{Attempt, AttemptResult, Cause, Class, Job, Timestamp, Transition, named_enum};

/// A range of waits narrower than this is too coarse, in milliseconds, to measure how evenly it is used.
const JITTER_RANGE_MIN: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub enum Fact<'a> {
    /// Jobs of one route were taken in.
    Accepted {
        route: &'a str,
        jobs: u64,
    },
    AttemptEnded(AttemptEnded<'a>),
    JobEnded {
        route: &'a str,
        company: &'a str,
        ending: Ending<'a>,
        /// Attempts over the job's whole life, replays included.
        attempts: u32,
        /// Tried more than once since it was accepted or last replayed: by itself, and not by a person.
        retried: bool,
        /// From the first try to now. Absent for a replayed job, whose first try may be days ago.
        since_first_try: Option<Duration>,
    },
    DeadLetterLeft {
        how: DeadLetterExit,
        moved_at: Timestamp,
    },
    /// The claims retry rule was asked.
    Decided {
        route: &'a str,
        class: Class,
        decided: Decided,
    },
    BreakerChanged {
        provider: &'a str,
        change: BreakerChange,
    },
    /// A lane could not take work for that long.
    HeldBack {
        route: &'a str,
        why: HoldKind,
        lasted: Duration,
    },
    StoreWorked {
        work: StoreWork,
        took: Duration,
    },
    /// One commit, which this many requests shared.
    Committed {
        requests: u64,
    },
    /// The store was full.
    WritesRejected {
        writes: u64,
    },
    Served {
        method: &'a str,
        /// The pattern that matched (`/v1/jobs/{jobId}`), never the path that was asked for.
        path: &'a str,
        status: u16,
        took: Duration,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct AttemptEnded<'a> {
    pub route: &'a str,
    pub company: &'a str,
    pub number: u32,
    pub result: AttemptResult,
    pub failure: Option<Judged<'a>>,
    /// The wait before the next try, if there will be one.
    pub retry: Option<Backoff>,
    /// Time that the job had been due when the attempt began.
    pub lag: Duration,
    pub took: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    pub code: Option<&'a str>,
    pub class: Class,
}

/// One wait, compared with the policy that it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    pub delay: Duration,
    /// The policy's curve would go on rising, and its cap does not let it.
    pub at_cap: bool,
    /// Position of the wait between the shortest and the longest possible one, from 0 to 1. Absent when there
    /// is no range, or when a floor or ceiling folds a part of it onto one value.
    pub position: Option<f64>,
}

/// The origin of the delay before a retry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DelaySource {
    #[default]
    Policy,
    /// A `Retry-After` or a fallback.
    Imposed,
}

impl Backoff {
    /// Describes a delay that something else than the policy set: it says nothing about the policy.
    fn imposed(delay: Duration) -> Self {
        Backoff { delay, at_cap: false, position: None }
    }

    /// Describes a delay that the policy computed. `retry` counts from 0.
    pub fn by_policy(policy: &Policy, retry: u32, delay: Duration) -> Self {
        let at_cap = match &policy.backoff {
            policy::Backoff::Exponential { cap, .. } => {
                let top = policy.ceiling.map_or(*cap, |ceiling| ceiling.min(*cap));
                policy.nominal(retry) >= top
            }
            policy::Backoff::Schedule(_) => false,
        };
        Backoff { delay, at_cap, position: position_in_range(policy, retry, delay) }
    }
}

fn position_in_range(policy: &Policy, retry: u32, delay: Duration) -> Option<f64> {
    if matches!(policy.jitter, Jitter::None | Jitter::Decorrelated) {
        return None;
    }
    let (low, high) = Policy { floor: None, ceiling: None, ..policy.clone() }.range(retry);
    if policy.range(retry) != (low, high) || high.saturating_sub(low) < JITTER_RANGE_MIN {
        return None;
    }
    let into = delay.checked_sub(low)?.as_secs_f64() / (high - low).as_secs_f64();
    (into <= 1.0).then_some(into)
}

#[derive(Clone, Copy, Debug)]
pub enum Ending<'a> {
    Sent,
    /// A dead letter was made.
    Buried {
        cause: Cause,
        code: Option<&'a str>,
    },
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decided {
    Retry(Backoff),
    MaxRetriesExceeded,
    PermanentError,
}

named_enum! {
    /// The way in which a dead letter left the queue.
    pub enum DeadLetterExit {
        /// It was replayed, and that succeeded.
        Replayed = "replayed",
        Discarded = "discarded",
        Expired = "expired",
        /// The queue was over its size, and the oldest went to a file.
        Archived = "archived",
    }
}

named_enum! {
    /// The reason why a lane waits.
    pub enum HoldKind {
        Breaker = "breaker",
        Rate = "rate",
        /// All slots of the provider are taken.
        Concurrency = "concurrency",
        Pause = "pause",
    }
}

named_enum! {
    pub enum StoreWork {
        Enqueue = "enqueue",
        Claim = "claim",
        Settle = "settle",
        Commit = "commit",
        Fsync = "fsync",
    }
}

/// Derives the fact of a settled transition. `job` is as it was when it was leased.
pub fn facts_of_transition<'a>(
    job: &'a Job,
    transition: &'a Transition,
    policy: &Policy,
    delay_source: DelaySource,
    now: Timestamp,
) -> impl Iterator<Item = Fact<'a>> {
    let tried = transition.attempt().map(|attempt| attempt_ended(job, attempt, policy, delay_source));
    let ending = match transition {
        Transition::Deliver { .. } => Some(Ending::Sent),
        Transition::Bury(burial) => {
            Some(Ending::Buried { cause: burial.cause, code: burial.failure.code.as_deref() })
        }
        Transition::RetryAt { .. } | Transition::Postpone { .. } | Transition::Release { .. } => None,
    };
    let ended = ending.map(|ending| {
        let first = job.attempts.first().filter(|_| job.progress.replays == 0);
        let progress = transition.step(job.progress);
        Fact::JobEnded {
            route: job.route.as_str(),
            company: job.company.as_str(),
            ending,
            attempts: progress.attempts_started,
            retried: progress.attempts_spent > 1,
            since_first_try: first.map(|first| now.since(first.started_at)),
        }
    });
    [tried.map(Fact::AttemptEnded), ended].into_iter().flatten()
}

fn attempt_ended<'a>(
    job: &'a Job,
    attempt: &'a Attempt,
    policy: &Policy,
    delay_source: DelaySource,
) -> AttemptEnded<'a> {
    let spent = job.progress.attempts_spent;
    let retry = attempt.next_retry_delay_ms.map(|delay_ms| {
        let delay = Duration::from_millis(delay_ms);
        match delay_source {
            DelaySource::Policy if spent + 1 < policy.max_attempts => {
                Backoff::by_policy(policy, spent, delay)
            }
            DelaySource::Policy | DelaySource::Imposed => Backoff::imposed(delay),
        }
    });
    let judged = |class| Judged { code: attempt.error_code.as_deref(), class };
    AttemptEnded {
        route: job.route.as_str(),
        company: job.company.as_str(),
        number: attempt.number,
        result: attempt.result,
        failure: attempt.error_classification.map(judged),
        retry,
        lag: attempt.started_at.since(job.due_at),
        took: attempt.ended_at.since(attempt.started_at),
    }
}
