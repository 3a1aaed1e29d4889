//! Events: sent to the live stream, to subscribed endpoints and to people.
//!
//! An event is derived from the same transition that the store executes, so that the two cannot disagree. Its
//! id is computed from its subject: sent twice, it is still the same event. It never holds a payload.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::audit::whole_minutes;
use crate::classify::{Blame, Class};
use crate::dead_letter::Cause;
use crate::job::{Job, Status};
use crate::transition::{Burial, Transition};
use crate::values::name::CompanyId;
use crate::values::named_enum::named_enum;
use crate::values::payload::digest_of;
use crate::values::sparse_struct::sparse_struct;
use crate::values::time::Timestamp;
use crate::words::{replay_advice, uncertain_attempts};

named_enum! {
    pub enum EventKind {
        JobSent = "JobSent",
        /// A retry was scheduled (`SubmissionRetryScheduledEvent` for claims), on any route.
        JobRetryScheduled = "JobRetryScheduled",
        /// All retries are spent (`SubmissionRetryExhaustedEvent` for claims).
        JobRetryExhausted = "JobRetryExhausted",
        /// It is in the dead letter queue, whatever brought it there.
        JobFailed = "JobFailed",
        JobExpired = "JobExpired",
        JobReplayed = "JobReplayed",
        JobDiscarded = "JobDiscarded",
        CircuitBreakerOpened = "CircuitBreakerOpened",
        CircuitBreakerHalfOpen = "CircuitBreakerHalfOpen",
        CircuitBreakerClosed = "CircuitBreakerClosed",
        EndpointDisabled = "EndpointDisabled",
        /// A provider no longer takes a company's credential.
        TokenExpired = "token_expired",
        AlertFired = "AlertFired",
        AlertResolved = "AlertResolved",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub id: Box<str>,
    #[serde(rename = "type")]
    pub kind: EventKind,
    pub timestamp: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_id: Option<CompanyId>,
    pub data: EventData,
}

/// The fields of an event; each kind fills those that it has.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventData {
    #[serde(flatten)]
    pub job: EventJob,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<str>>,
    #[serde(flatten)]
    pub outcome: EventOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_id: Option<Box<str>>,
    /// In a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// The person who acted, if a person did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    #[serde(flatten)]
    pub alert: EventAlert,
}

sparse_struct! {
    /// The job that an event is about.
    pub struct EventJob {
        pub job_id: Option<Box<str>>,
        /// The claim, or the job that stands for it.
        pub claim_id: Option<Box<str>>,
        pub route: Option<Box<str>>,
        pub user_id: Option<Box<str>>,
        pub correlation_id: Option<Box<str>>,
    }
}

sparse_struct! {
    /// The end of an attempt, and the next one.
    pub struct EventOutcome {
        pub attempt: Option<u32>,
        pub retry_count: Option<u32>,
        pub error_code: Option<Box<str>>,
        pub last_error: Option<Box<str>>,
        pub error_classification: Option<Class>,
        pub rule: Option<Box<str>>,
        pub blame: Option<Blame>,
        pub cause: Option<Cause>,
        /// Attempts that handed it over without an answer, where any did.
        pub may_have_arrived: Option<u32>,
        /// Advice before a replay, and the same in Portuguese.
        pub advice: Option<Box<str>>,
        pub advice_pt: Option<Box<str>>,
        pub next_retry_time: Option<Timestamp>,
        pub next_retry_delay_ms: Option<u64>,
        pub backoff_minutes: Option<u64>,
    }
}

sparse_struct! {
    /// The alert that fires or is resolved.
    pub struct EventAlert {
        /// The rule that fires, and its severity: `warning` or `critical`.
        #[serde(rename = "alert")]
        pub name: Option<Box<str>>,
        pub severity: Option<Box<str>>,
        /// Since when the figure has been above its threshold.
        pub since: Option<Timestamp>,
        /// The reason in Portuguese.
        pub reason_pt: Option<Box<str>>,
        /// The page that says what to do.
        pub runbook: Option<Box<str>>,
    }
}

/// Prefix of every event's id, and of the id of every job that carries an event.
pub const ID_PREFIX: &str = "evt_";

impl Event {
    /// An event whose id tells it from others of its kind by `what` it is about.
    pub fn new(
        kind: EventKind,
        company_id: Option<CompanyId>,
        what: &[&str],
        timestamp: Timestamp,
        data: EventData,
    ) -> Self {
        let at = timestamp.as_millis().to_string();
        let what: Vec<_> = what.iter().copied().chain([&*at]).collect();
        Event::once(kind, company_id, &what, timestamp, data)
    }

    /// Makes an event that happens only once: every node that notices it emits the same one.
    pub fn once(
        kind: EventKind,
        company_id: Option<CompanyId>,
        what: &[&str],
        timestamp: Timestamp,
        data: EventData,
    ) -> Self {
        let parts: Vec<_> = what.iter().copied().chain([kind.as_str()]).collect();
        let id = format!("{ID_PREFIX}{:032x}", digest_of(&parts)).into();
        Event { id, kind, timestamp, company_id, data }
    }

    pub fn about(job: &Job, kind: EventKind, timestamp: Timestamp, data: EventData) -> Self {
        let data = EventData {
            job: EventJob {
                job_id: Some(job.id.as_str().into()),
                claim_id: Some(job.id.as_str().into()),
                route: Some(job.route.as_str().into()),
                user_id: job.user_id.clone(),
                correlation_id: job.correlation_id.clone(),
            },
            ..data
        };
        let attempt = data.outcome.attempt.unwrap_or_default().to_string();
        Event::new(kind, Some(job.company.clone()), &[job.id.as_str(), &attempt], timestamp, data)
    }
}

/// Derives the events of a transition, in the order to emit them.
pub fn of_transition(job: &Job, transition: &Transition, now: Timestamp) -> Vec<Event> {
    match transition {
        Transition::Deliver { attempt, .. } => {
            let outcome = EventOutcome {
                attempt: Some(attempt.number),
                retry_count: Some(job.progress.attempts_spent),
                ..EventOutcome::default()
            };
            vec![of_outcome(job, EventKind::JobSent, Status::Sent, outcome, now)]
        }
        Transition::RetryAt { at, attempt } => {
            let delay_ms = attempt.next_retry_delay_ms.unwrap_or_default();
            let outcome = EventOutcome {
                attempt: Some(attempt.number),
                retry_count: Some(job.progress.attempts_spent + 1),
                error_code: attempt.error_code.clone(),
                last_error: attempt.error_reason.as_ref().map(|reason| reason.as_str().into()),
                error_classification: attempt.error_classification,
                rule: attempt.rule.clone(),
                blame: attempt.blame,
                next_retry_time: Some(*at),
                next_retry_delay_ms: Some(delay_ms),
                backoff_minutes: Some(whole_minutes(Duration::from_millis(delay_ms))),
                ..EventOutcome::default()
            };
            vec![of_outcome(job, EventKind::JobRetryScheduled, Status::Retrying, outcome, now)]
        }
        Transition::Bury(burial) => of_burial(job, burial, now),
        Transition::Postpone { .. } | Transition::Release { .. } => Vec::new(),
    }
}

fn of_burial(job: &Job, burial: &Burial, now: Timestamp) -> Vec<Event> {
    let failure = &burial.failure;
    let uncertain = uncertain_attempts(&job.attempts) + uncertain_attempts(burial.attempt.as_slice());
    let (advice, advice_pt) = replay_advice(uncertain).unzip();
    let outcome = EventOutcome {
        may_have_arrived: Some(uncertain).filter(|count| *count > 0),
        advice: advice.map(Into::into),
        advice_pt: advice_pt.map(Into::into),
        attempt: burial.attempt.as_ref().map(|attempt| attempt.number),
        retry_count: Some(match burial.attempt {
            Some(_) => job.progress.attempts_spent,
            None => job.progress.attempts_spent.saturating_sub(1),
        }),
        error_code: failure.code.clone(),
        last_error: Some(failure.reason.as_str().into()),
        error_classification: Some(failure.class),
        rule: Some(failure.rule.clone()),
        blame: Some(failure.blame),
        cause: Some(burial.cause),
        ..EventOutcome::default()
    };
    let first = match burial.cause {
        Cause::Exhausted => Some(EventKind::JobRetryExhausted),
        Cause::Expired => Some(EventKind::JobExpired),
        Cause::Permanent | Cause::InvalidPayload | Cause::Fallback => None,
    };
    let kinds = first.into_iter().chain([EventKind::JobFailed]);
    kinds.map(|kind| of_outcome(job, kind, Status::Failed, outcome.clone(), now)).collect()
}

fn of_outcome(job: &Job, kind: EventKind, status: Status, outcome: EventOutcome, now: Timestamp) -> Event {
    let data = EventData { status: Some(status.as_str().into()), outcome, ..EventData::default() };
    Event::about(job, kind, now, data)
}
