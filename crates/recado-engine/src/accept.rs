//! Jobs on their way in: checked whole, completed with defaults, made durable, then answered.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{BodyHash, JobId, NewJob, Payload, Priority, Status, Timestamp, TraceParent};
use recado_observe::Fact;
use recado_store::{Enqueued, StoreError};

use crate::environment::Environment;
use crate::error::{EngineError, Result};
use crate::notify::notices::caller_company;
use crate::traces::{Attribute, OpenSpan};

/// Jobs that go to the store in one request.
const ENQUEUE_JOBS_MAX: usize = 1_000;

/// Ids under which a job could not be reached: what stands in their place in the API's paths.
const RESERVED_IDS: [&str; 8] = [".", "..", "batch", "stats", "export", "import", "replay", "discard"];

/// Prefixes of the ids of jobs that Recado makes itself. Callers may not use them: a callback whose id is
/// taken would not be sent.
const RESERVED_PREFIXES: [&str; 2] = [recado_core::event::ID_PREFIX, crate::attempt::calls::REFRESH];

/// Length of the ids of users and correlations.
pub const ID_CHARACTERS: RangeInclusive<usize> = 1..=256;

pub(crate) fn is_reserved(id: &str) -> bool {
    RESERVED_IDS.contains(&id)
}

/// Says what is wrong with the length of a user's or a correlation's id.
pub(crate) fn wrong_length(id: &str) -> Option<String> {
    let length = id.chars().count();
    (!ID_CHARACTERS.contains(&length)).then(|| {
        let (least, most) = (ID_CHARACTERS.start(), ID_CHARACTERS.end());
        format!("has {length} characters; give {least} to {most}, or leave it out")
    })
}

/// Furthest ahead that a job may be scheduled.
pub const AHEAD_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Longest and shortest time to live.
pub const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
pub const TTL_MIN: Duration = Duration::from_secs(1);

/// A request to deliver something, as the caller put it.
#[derive(Clone, Debug)]
pub struct Submission {
    pub job_id: Option<String>,
    pub route: String,
    pub company_id: String,
    pub data: Payload,
    pub user_id: Option<String>,
    pub correlation_id: Option<String>,
    /// The caller's span. Not part of what is asked for: the same job in another trace is the same job.
    pub traceparent: Option<TraceParent>,
    pub run_at: Option<Timestamp>,
    pub delay: Option<Duration>,
    pub ttl: Option<Duration>,
    pub priority: Option<u8>,
}

impl Submission {
    /// Asks for no more than has to be said.
    pub fn new(route: impl Into<String>, company_id: impl Into<String>, data: Payload) -> Self {
        Submission {
            job_id: None,
            route: route.into(),
            company_id: company_id.into(),
            data,
            user_id: None,
            correlation_id: None,
            traceparent: None,
            run_at: None,
            delay: None,
            ttl: None,
            priority: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub job_id: JobId,
    pub status: Status,
    pub duplicate: bool,
}

/// The reason why a submission was refused.
#[derive(Clone, Debug)]
pub enum SubmitRefusal {
    /// Everything wrong with it: JSON pointer and what to write instead.
    Invalid(Vec<(String, String)>),
    /// The id belongs to a job with another body.
    Conflict { job_id: JobId },
    /// The store took others of the same batch and then no more.
    NotStored(StoreError),
}

/// Takes jobs in.
#[derive(Debug)]
pub struct Intake {
    pub(crate) env: Arc<Environment>,
    /// A job's time to live when its caller names none.
    pub(crate) job_ttl: Duration,
}

impl Intake {
    /// Takes in submissions, each on its own merits. Answers in order, once all that is taken is durable.
    pub async fn submit(&self, submissions: Vec<Submission>) -> Result<Vec<Result<Accepted, SubmitRefusal>>> {
        if self.env.lifecycle.is_stopping() {
            return Err(EngineError::Stopping);
        }
        let now = self.env.now();
        let mut answers = Vec::with_capacity(submissions.len());
        let mut jobs = Vec::with_capacity(submissions.len());
        for submission in submissions {
            match self.prepare(submission, now) {
                Ok(mut job) => {
                    let about = (&job.id, &job.route, &job.company);
                    let span = self.env.traces.open("enqueue", &mut job.traceparent, about, now);
                    answers.push(Ok((job.id.clone(), span)));
                    jobs.push(job);
                }
                Err(faults) => answers.push(Err(SubmitRefusal::Invalid(faults))),
            }
        }
        let mut stored = self.enqueue(jobs).await?.into_iter();
        let answer = |answer: Result<(JobId, Option<Box<OpenSpan>>), SubmitRefusal>| {
            let (job_id, span) = answer?;
            let (status, duplicate) = match stored.next() {
                Some(Ok(Enqueued::Accepted { status })) => (status, false),
                Some(Ok(Enqueued::Duplicate { status })) => (status, true),
                Some(Ok(Enqueued::Conflict)) => return Err(SubmitRefusal::Conflict { job_id }),
                Some(Err(error)) => return Err(SubmitRefusal::NotStored(error)),
                None => {
                    let error = StoreError::Unavailable("it did not say".to_owned());
                    return Err(SubmitRefusal::NotStored(error));
                }
            };
            self.env.traces.close(span, ("duplicate", Attribute::Flag(duplicate)));
            Ok(Accepted { job_id, status, duplicate })
        };
        Ok(answers.into_iter().map(answer).collect())
    }

    /// Hands a large batch over in pieces, so that claims and settles get their turn in between. When the
    /// store stops half-way, what it took is answered as taken and the rest as not.
    async fn enqueue(&self, mut jobs: Vec<NewJob>) -> Result<Vec<Result<Enqueued, StoreError>>> {
        let asked = jobs.len();
        let mut answers = Vec::with_capacity(asked);
        while !jobs.is_empty() {
            let rest = jobs.split_off(jobs.len().min(ENQUEUE_JOBS_MAX));
            match self.env.jobs.enqueue(jobs).await {
                Ok(stored) => answers.extend(stored.into_iter().map(Ok)),
                Err(error) => {
                    if matches!(error, StoreError::Full(_)) {
                        // Only what callers hear: a notice of ours that did not fit would cause an alert by itself.
                        self.env
                            .metrics
                            .record(&Fact::WritesRejected { writes: (asked - answers.len()) as u64 });
                    }
                    if answers.is_empty() {
                        return Err(error.into());
                    }
                    answers.resize(asked, Err(error));
                    return Ok(answers);
                }
            }
            jobs = rest;
        }
        Ok(answers)
    }

    /// Everything wrong with a submission, without taking it in. For callers that have faults of their own
    /// to report beside these.
    pub fn faults_of(&self, submission: Submission) -> Vec<(String, String)> {
        self.prepare(submission, self.env.now()).err().unwrap_or_default()
    }

    /// Checks everything and reports every fault at once.
    fn prepare(&self, submission: Submission, now: Timestamp) -> Result<NewJob, Vec<(String, String)>> {
        let mut faults = Vec::new();
        let mut fault = |pointer: &str, message: String| faults.push((pointer.to_owned(), message));

        let id = match submission.job_id.as_deref() {
            None => Some(JobId::trusted(self.env.random.uuid_v7(now).to_string())),
            Some(id) if is_reserved(id) => {
                fault("/jobId", format!("`{id}` is a word of the API's own paths; choose another id"));
                None
            }
            Some(id) if RESERVED_PREFIXES.iter().any(|prefix| id.starts_with(prefix)) => {
                let prefixes = RESERVED_PREFIXES.join("` or `");
                fault(
                    "/jobId",
                    format!("begins with `{prefixes}`, which are Recado's own; choose another id"),
                );
                None
            }
            Some(id) => JobId::new(id).map_err(|error| fault("/jobId", error.to_string())).ok(),
        };
        let company = caller_company(&submission.company_id).map_err(|why| fault("/companyId", why)).ok();
        for (pointer, value) in
            [("/userId", &submission.user_id), ("/correlationId", &submission.correlation_id)]
        {
            if let Some(wrong) = value.as_deref().and_then(wrong_length) {
                fault(pointer, wrong);
            }
        }
        let route = self.env.routes.get(&submission.route);
        if let Some(why) = self.env.routes.why_undeliverable(&submission.route) {
            fault("/route", why);
        }
        let priority = match submission.priority {
            None => Some(Priority::default()),
            Some(level) => Priority::new(level).or_else(|| {
                fault("/priority", format!("is {level}; give 1 (most urgent) to 9, or leave it out for 5"));
                None
            }),
        };
        if submission.run_at.is_some() && submission.delay.is_some() {
            fault("/delayMs", "cannot be combined with runAt; give one of the two".to_owned());
        }
        let first_delay = route.map(|route| route.terms.policy.first_delay()).unwrap_or_default();
        let due_at = match (submission.run_at, submission.delay) {
            (Some(at), _) => at.max(now),
            (None, Some(delay)) => now.plus(delay),
            (None, None) => now.plus(first_delay),
        };
        if due_at.since(now) > AHEAD_MAX {
            let pointer = if submission.run_at.is_some() { "/runAt" } else { "/delayMs" };
            fault(pointer, "lies more than 366 days ahead; give a time within a year".to_owned());
        }
        let ttl = submission.ttl.unwrap_or(self.job_ttl);
        if !(TTL_MIN..=TTL_MAX).contains(&ttl) {
            fault("/ttlMs", "is out of range; give 1000 (a second) to 31622400000 (366 days)".to_owned());
        }
        if let Some(route) = route
            && let Err(found) = route.check(&submission.data)
        {
            for data_fault in found {
                fault(&format!("/data{}", data_fault.pointer), data_fault.message);
            }
        }
        let run_at = submission.run_at.map(|at| at.to_string());
        let number = |millis: Option<Duration>| millis.map(|millis| millis.as_millis().to_string());
        let (delay, ttl_asked) = (number(submission.delay), number(submission.ttl));
        let level = submission.priority.map(|level| level.to_string());
        let parts = [
            Some(submission.route.as_str()),
            Some(submission.company_id.as_str()),
            submission.user_id.as_deref(),
            submission.correlation_id.as_deref(),
            run_at.as_deref(),
            delay.as_deref(),
            ttl_asked.as_deref(),
            level.as_deref(),
        ];
        let body_hash = BodyHash::of(&submission.data, &parts)
            // Well-formed JSON that still cannot be read: too deep, half a surrogate pair, a number beyond all bounds.
            .map_err(|error| fault("/data", format!("cannot be read: {error}")))
            .ok();
        let (Some(id), Some(company), Some(route), Some(priority), Some(body_hash), true) =
            (id, company, route, priority, body_hash, faults.is_empty())
        else {
            return Err(faults);
        };
        Ok(NewJob {
            id,
            route: route.name.clone(),
            company,
            data: submission.data,
            user_id: submission.user_id.map(Into::into),
            correlation_id: submission.correlation_id.map(Into::into),
            traceparent: submission.traceparent,
            priority,
            enqueued_at: now,
            due_at,
            // The time to live runs from when the job may first be tried.
            expires_at: due_at.plus(ttl),
            body_hash,
        })
    }
}
