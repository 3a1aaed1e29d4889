//! Jobs: the message to deliver and its attempts so far.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::checksum::Checksum;
use crate::classify::{Blame, Class};
use crate::engine_code::EngineCode;
use crate::values::name::{CompanyId, JobId, RouteName};
use crate::values::named_enum::named_enum;
use crate::values::payload::{BodyHash, Payload};
use crate::values::reason::Reason;
use crate::values::time::Timestamp;
use crate::values::trace::TraceParent;

/// A job expires this long after it was accepted, unless the caller says otherwise.
pub const JOB_TTL_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);

/// Attempts kept on a job; the oldest are forgotten first (they stay on the audit trail).
pub const ATTEMPTS_KEPT_MAX: usize = 200;

/// Urgency within one tenant: 1 goes first, 9 last. It never lets one tenant overtake another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct Priority(u8);

impl Priority {
    pub fn new(level: u8) -> Option<Self> {
        (1..=9).contains(&level).then_some(Priority(level))
    }

    pub fn level(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Priority(5)
    }
}

/// A job on its way in, every field checked and every default filled.
#[derive(Clone, Debug)]
pub struct NewJob {
    pub id: JobId,
    pub route: RouteName,
    pub company: CompanyId,
    pub data: Payload,
    pub user_id: Option<Box<str>>,
    pub correlation_id: Option<Box<str>>,
    /// The span that all its attempts are children of.
    pub traceparent: Option<TraceParent>,
    pub priority: Priority,
    pub enqueued_at: Timestamp,
    /// Earliest start of the next attempt.
    pub due_at: Timestamp,
    /// Latest start of an attempt.
    pub expires_at: Timestamp,
    pub body_hash: BodyHash,
}

/// Progress of a job's delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Number of the latest attempt that started, over the job's whole life.
    pub attempts_started: u32,
    /// Attempts that count against the policy's maximum, since the job was accepted or last replayed.
    pub attempts_spent: u32,
    /// Deliveries in a row whose process vanished.
    pub crashes: u32,
    /// Times it was held back without spending an attempt.
    pub deferrals: u32,
    /// Times a person brought it back from the dead letter queue.
    pub replays: u32,
}

/// A job as the store keeps it.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: JobId,
    pub route: RouteName,
    pub company: CompanyId,
    pub data: Payload,
    pub user_id: Option<Box<str>>,
    pub correlation_id: Option<Box<str>>,
    /// The span that all its attempts are children of.
    pub traceparent: Option<TraceParent>,
    pub priority: Priority,
    pub enqueued_at: Timestamp,
    pub due_at: Timestamp,
    pub expires_at: Timestamp,
    pub progress: Progress,
    pub attempts: Vec<Attempt>,
    /// Checksum that the store keeps. Absent of jobs that older versions took in.
    pub checksum: Option<Checksum>,
}

impl From<NewJob> for Job {
    fn from(new: NewJob) -> Self {
        Job {
            checksum: Some(Checksum::of_new(&new)),
            id: new.id,
            route: new.route,
            company: new.company,
            data: new.data,
            user_id: new.user_id,
            correlation_id: new.correlation_id,
            traceparent: new.traceparent,
            priority: new.priority,
            enqueued_at: new.enqueued_at,
            due_at: new.due_at,
            expires_at: new.expires_at,
            progress: Progress::default(),
            attempts: Vec::new(),
        }
    }
}

/// One try that reached out to the provider.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    #[serde(rename = "attempt")]
    pub number: u32,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub result: AttemptResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_classification: Option<Class>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blame: Option<Blame>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_delay_ms: Option<u64>,
    /// The provider that served it; absent from attempts that older versions made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Box<str>>,
    /// The job had waited for a breaker, a limit or a pause although it was due.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held_up: bool,
    /// The result for each recipient, when they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<RecipientResult>,
    /// The job's number of replays at the time of the attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replays: u32,
    /// Facts of attempts that the history no longer has; only the oldest attempt that is kept carries them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Box<ForgottenFacts>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Facts of forgotten attempts that later ones depend on. [`remember`] keeps it up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForgottenFacts {
    /// The latest result of each recipient; `sent` once it was sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<RecipientResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
}

/// Binds a job to the provider that may have taken it: no other one may be asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// Absent where the attempt does not say which provider it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Box<str>>,
}

/// One recipient's answer to one attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecipientResult {
    pub recipient: Box<str>,
    /// `sent`, `failed` or `uncertain`.
    pub result: AttemptResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_classification: Option<Class>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Box<str>>,
}

impl Attempt {
    /// Makes an attempt of which only its result is known.
    pub fn ended(number: u32, started_at: Timestamp, ended_at: Timestamp, result: AttemptResult) -> Self {
        Attempt {
            number,
            started_at,
            ended_at,
            result,
            error_code: None,
            error_reason: None,
            error_classification: None,
            rule: None,
            blame: None,
            next_retry_delay_ms: None,
            provider: None,
            held_up: false,
            recipients: Vec::new(),
            replays: 0,
            earlier: None,
        }
    }

    /// Returns its error code where Recado itself gave it.
    pub fn engine_code(&self) -> Option<EngineCode> {
        EngineCode::parse(self.error_code.as_deref()?)
    }

    /// Returns its error code where it is a number: an HTTP status or an SMTP reply code.
    pub fn answer_code(&self) -> Option<u16> {
        self.error_code.as_deref()?.parse().ok()
    }

    /// Results of recipients that it knows of, its own first.
    fn recipient_results(&self) -> impl Iterator<Item = &RecipientResult> {
        let earlier = self.earlier.iter().flat_map(|earlier| &earlier.recipients);
        self.recipients.iter().chain(earlier)
    }

    /// The pin that it or an attempt forgotten before it set.
    fn pin(&self) -> Option<Pin> {
        let earlier = self.earlier.as_ref().and_then(|earlier| earlier.pin.clone());
        let own = matches!(self.result, AttemptResult::Uncertain | AttemptResult::Lost)
            .then(|| Pin { provider: self.provider.clone() });
        earlier.filter(|pin| pin.provider.is_some() || own.is_none()).or(own)
    }

    /// Keeps the facts of a forgotten attempt that later ones depend on.
    fn take_over(&mut self, forgotten: Attempt) {
        let is_of_same_replay = forgotten.replays == self.replays;
        let pin = forgotten.pin().filter(|_| is_of_same_replay);
        let mut recipients: Vec<RecipientResult> = Vec::new();
        for one in forgotten.recipient_results() {
            match recipients.iter_mut().find(|known| known.recipient == one.recipient) {
                Some(known) if one.result == AttemptResult::Sent => *known = one.clone(),
                Some(_) => {}
                None => recipients.push(one.clone()),
            }
        }
        // A replay tries every recipient again, except those that have it.
        recipients.retain(|one| is_of_same_replay || one.result == AttemptResult::Sent);
        let earlier = ForgottenFacts { recipients, pin };
        self.earlier = (earlier != ForgottenFacts::default()).then(|| Box::new(earlier));
    }
}

impl Job {
    /// The recipients that its attempts name, some of them more than once.
    pub fn recipients(&self) -> impl Iterator<Item = &str> {
        self.attempts.iter().flat_map(Attempt::recipient_results).map(|one| &*one.recipient)
    }

    /// Returns true if an earlier attempt already reached this recipient; no later one may send to it again.
    pub fn has_reached(&self, recipient: &str) -> bool {
        let mut results = self.attempts.iter().flat_map(Attempt::recipient_results);
        results.any(|one| &*one.recipient == recipient && one.result == AttemptResult::Sent)
    }

    /// Returns the permanent refusal of this recipient by an earlier attempt, if there is one. A replay tries
    /// every recipient again.
    pub fn refused_for_good(&self, recipient: &str) -> Option<&RecipientResult> {
        self.attempts_since_replay()
            .flat_map(Attempt::recipient_results)
            .find(|one| &*one.recipient == recipient && one.error_classification == Some(Class::Permanent))
    }

    /// The provider that may have taken the job since it was last replayed: of the earliest such attempt that names
    /// one.
    pub fn pin(&self) -> Option<Pin> {
        let later_first = self.attempts_since_replay().filter_map(Attempt::pin);
        later_first.reduce(|later, earlier| if earlier.provider.is_some() { earlier } else { later })
    }

    /// Attempts since the job was accepted or last replayed, the latest first.
    fn attempts_since_replay(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().rev().take_while(|attempt| attempt.replays == self.progress.replays)
    }
}

named_enum! {
    pub enum AttemptResult {
        /// The provider took it.
        Sent = "sent",
        /// Some recipients have it, others do not.
        Partial = "partial",
        /// The provider did not take it.
        Failed = "failed",
        /// It was handed over and the answer was lost: the provider may have taken it.
        Uncertain = "uncertain",
        /// The delivering process vanished; the provider may have taken the job.
        Lost = "lost",
    }
}

named_enum! {
    /// The state of a job, as users see it.
    pub enum Status {
        /// Waits for the time the caller asked for.
        Scheduled = "scheduled",
        /// Waits for its turn.
        Queued = "queued",
        /// A lease on it is live.
        Delivering = "delivering",
        /// Failed at least once and waits for the next try.
        Retrying = "retrying",
        /// Held back without spending an attempt: breaker, limit or pause.
        Parked = "parked",
        Sent = "sent",
        /// In the dead letter queue.
        Failed = "failed",
        Cancelled = "cancelled",
        Discarded = "discarded",
    }
}

impl Status {
    /// Returns the state at `now` of a job that is not leased and has not ended.
    pub fn waiting(progress: &Progress, due_at: Timestamp, now: Timestamp) -> Status {
        match (progress.attempts_spent > 0, due_at > now) {
            (true, _) => Status::Retrying,
            (false, true) => Status::Scheduled,
            (false, false) => Status::Queued,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Appends to a history that never outgrows [`ATTEMPTS_KEPT_MAX`]. Facts of those that it forgets go to the oldest
/// that stays.
pub fn remember(history: &mut Vec<Attempt>, attempt: Attempt) {
    history.push(attempt);
    while history.len() > ATTEMPTS_KEPT_MAX {
        let forgotten = history.remove(0);
        history[0].take_over(forgotten);
    }
}
