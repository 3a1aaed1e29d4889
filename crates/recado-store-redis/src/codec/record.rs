//! A job's head: everything about it but its data, in one compact value.
//!
//! The first fields are for the scripts (`jobs.lua`, `header`), the rest is read here alone. A new job's head is
//! about eighty bytes; what has not happened to it yet takes no room.

use recado_core::{
    Attempt, BodyHash, Checksum, CompanyId, Damage, Job, NewJob, Payload, Priority, Progress, RouteName,
    Status, Timestamp, TraceParent,
};
use recado_store::{JobView, StoreError};

use crate::codec::bytes::{Reader, Writer};
use crate::codec::keys::{self, IdKey};

/// A job's place in its life, as far as its head tells: leases are known elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Live,
    Dead,
    Ended(Ending),
}

/// Tells whether a lease on the job is current. Heads do not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldState {
    Held,
    Free,
}

impl HeldState {
    /// From the answer of a script, which is a truth value.
    pub fn of(is_held: bool) -> Self {
        if is_held { HeldState::Held } else { HeldState::Free }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Sent,
    Cancelled,
    Discarded,
}

/// The settlement that made a head what it is, so that a repetition after a lost answer is answered as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    pub fence: u64,
    pub digest: u64,
}

#[derive(Debug, Clone)]
pub struct Record {
    /// Without its data.
    pub job: Job,
    pub body_hash: BodyHash,
    pub phase: Phase,
    pub ended_at: Option<Timestamp>,
    pub answer: Option<Payload>,
    pub receipt: Option<Receipt>,
}

/// Marks what a head has.
mod has {
    pub const USER: u8 = 1;
    pub const CORRELATION: u8 = 2;
    pub const PROGRESS: u8 = 4;
    pub const ATTEMPTS: u8 = 8;
    pub const ENDED_AT: u8 = 16;
    pub const ANSWER: u8 = 32;
    pub const RECEIPT: u8 = 64;
    pub const TRACE: u8 = 128;
}

impl Record {
    pub fn new(new: &NewJob) -> Self {
        let job = Job {
            id: new.id.clone(),
            route: new.route.clone(),
            company: new.company.clone(),
            data: no_data(),
            user_id: new.user_id.clone(),
            correlation_id: new.correlation_id.clone(),
            traceparent: new.traceparent,
            priority: new.priority,
            enqueued_at: new.enqueued_at,
            due_at: new.due_at,
            expires_at: new.expires_at,
            progress: Progress::default(),
            attempts: Vec::new(),
            checksum: Some(Checksum::of_new(new)),
        };
        let (phase, body_hash) = (Phase::Live, new.body_hash);
        Record { job, body_hash, phase, ended_at: None, answer: None, receipt: None }
    }

    /// The job has ended.
    pub fn end(&mut self, ending: Ending, at: Timestamp, answer: Option<Payload>) {
        self.phase = Phase::Ended(ending);
        self.ended_at = Some(at);
        self.answer = answer;
        self.job.checksum = None;
    }

    /// The job waits for another time. When it was accepted stays as it was.
    pub fn reschedule(&mut self, due_at: Timestamp) {
        self.job.due_at = due_at;
    }

    pub fn status(&self, held: HeldState, now: Timestamp) -> Status {
        match self.phase {
            Phase::Live if held == HeldState::Held => Status::Delivering,
            Phase::Live => Status::waiting(&self.job.progress, self.job.due_at, now),
            Phase::Dead => Status::Failed,
            Phase::Ended(Ending::Sent) => Status::Sent,
            Phase::Ended(Ending::Cancelled) => Status::Cancelled,
            Phase::Ended(Ending::Discarded) => Status::Discarded,
        }
    }

    pub fn view(self, data: Payload, held_by: Option<(Box<str>, Timestamp)>, now: Timestamp) -> JobView {
        let status = self.status(HeldState::of(held_by.is_some()), now);
        let (ended_at, answer) = (self.ended_at, self.answer);
        JobView { job: Job { data, ..self.job }, status, ended_at, answer, held_by }
    }

    pub fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let Record { job, body_hash, .. } = self;
        let id = IdKey::of(&job.id);
        let mut head = Writer(Vec::with_capacity(128));
        head.time(job.due_at);
        head.time(job.expires_at);
        head.byte(job.priority.level());
        head.byte(self.phase.code());
        head.name(job.route.as_str().as_bytes());
        head.name(job.company.as_str().as_bytes());
        head.short(id.bucket);
        head.name(&id.bytes);
        head.difference(job.due_at.as_millis() - job.enqueued_at.as_millis());
        head.fixed(&body_hash.0.to_be_bytes());
        head.byte(self.marks());
        if let Some(user) = &job.user_id {
            head.long(user.as_bytes());
        }
        if let Some(correlation) = &job.correlation_id {
            head.long(correlation.as_bytes());
        }
        if job.progress != Progress::default() {
            progress_out(&mut head, job.progress);
        }
        if !job.attempts.is_empty() {
            head.long(&json(&job.attempts)?);
        }
        if let Some(at) = self.ended_at {
            head.time(at);
        }
        if let Some(answer) = &self.answer {
            head.long(answer.as_str().as_bytes());
        }
        if let Some(Receipt { fence, digest }) = self.receipt {
            head.fixed(&fence.to_be_bytes());
            head.fixed(&digest.to_be_bytes());
        }
        if let Some(parent) = job.traceparent {
            head.fixed(&parent.to_bytes());
        }
        // No mark is left for it, and none is needed: it is last, and absent of heads that older versions wrote.
        if let Some(checksum) = job.checksum {
            head.fixed(&checksum.to_bytes());
        }
        Ok(head.0)
    }

    fn marks(&self) -> u8 {
        let job = &self.job;
        let mark = |there: bool, mark: u8| if there { mark } else { 0 };
        mark(job.user_id.is_some(), has::USER)
            | mark(job.correlation_id.is_some(), has::CORRELATION)
            | mark(job.progress != Progress::default(), has::PROGRESS)
            | mark(!job.attempts.is_empty(), has::ATTEMPTS)
            | mark(self.ended_at.is_some(), has::ENDED_AT)
            | mark(self.answer.is_some(), has::ANSWER)
            | mark(self.receipt.is_some(), has::RECEIPT)
            | mark(job.traceparent.is_some(), has::TRACE)
    }

    pub fn decode(head: &[u8]) -> Result<Record, StoreError> {
        read(Reader(head)).ok_or_else(damaged)
    }
}

/// One damaged job is no reason to stop: all others are served.
pub fn damaged() -> StoreError {
    StoreError::Unavailable("a job's record cannot be read; it is damaged".to_owned())
}

/// Reads a head for people to see. One that is damaged is shown as such, with what can be read of it; one without an id
/// cannot be shown.
pub fn decode_or_mark(head: &[u8], partition: u16, seq: u64) -> Option<Record> {
    decode_or_report(head, partition, seq).or_else(|| salvage(Reader(head)))
}

/// Reads what the scripts read of a head, and no more.
fn salvage(mut head: Reader<'_>) -> Option<Record> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let (due_at, expires_at) = (head.time()?, head.time()?);
    let priority = Priority::new(head.byte()?).unwrap_or_default();
    let phase = Phase::of(head.byte()?).unwrap_or(Phase::Live);
    let (route, company) = (RouteName::trusted(text(head.name()?)), CompanyId::trusted(text(head.name()?)));
    head.short()?;
    let mut job = Job {
        id: keys::unpack(head.name()?)?,
        route,
        company,
        data: no_data(),
        user_id: None,
        correlation_id: None,
        traceparent: None,
        priority,
        enqueued_at: due_at,
        due_at,
        expires_at,
        progress: Progress::default(),
        attempts: Vec::new(),
        checksum: None,
    };
    job.checksum = Some(Checksum::of_job(&job).inverted(Damage::Identity));
    Some(Record { job, body_hash: BodyHash(0), phase, ended_at: None, answer: None, receipt: None })
}

/// Reads a head. One that is damaged is named in the log and left alone, so that the others are served.
pub fn decode_or_report(head: &[u8], partition: u16, seq: u64) -> Option<Record> {
    Record::decode(head)
        .inspect_err(
            |error| tracing::error!(partition, seq, %error, "A stored job is damaged; it is left alone"),
        )
        .ok()
}

fn read(mut head: Reader<'_>) -> Option<Record> {
    let due_at = head.time()?;
    let expires_at = head.time()?;
    let priority = Priority::new(head.byte()?)?;
    let phase = Phase::of(head.byte()?)?;
    let route = RouteName::trusted(std::str::from_utf8(head.name()?).ok()?);
    let company = CompanyId::trusted(std::str::from_utf8(head.name()?).ok()?);
    head.short()?;
    let id = keys::unpack(head.name()?)?;
    let enqueued_at = Timestamp::from_millis(due_at.as_millis().checked_sub(head.difference()?)?);
    let body_hash = BodyHash(u128::from_be_bytes(head.fixed(16)?.try_into().ok()?));
    let marks = head.byte()?;
    let mut text = |mark| -> Option<Option<&str>> {
        match marks & mark {
            0 => Some(None),
            _ => std::str::from_utf8(head.long()?).ok().map(Some),
        }
    };
    let user_id = text(has::USER)?.map(Into::into);
    let correlation_id = text(has::CORRELATION)?.map(Into::into);
    let progress = match marks & has::PROGRESS {
        0 => Progress::default(),
        _ => progress_in(&mut head)?,
    };
    let attempts: Vec<Attempt> = match marks & has::ATTEMPTS {
        0 => Vec::new(),
        _ => serde_json::from_slice(head.long()?).ok()?,
    };
    let ended_at = match marks & has::ENDED_AT {
        0 => None,
        _ => Some(head.time()?),
    };
    let answer = match marks & has::ANSWER {
        0 => None,
        _ => Some(Payload::trusted(std::str::from_utf8(head.long()?).ok()?)),
    };
    let mut eight = || head.fixed(8)?.try_into().ok().map(u64::from_be_bytes);
    let receipt = match marks & has::RECEIPT {
        0 => None,
        _ => Some(Receipt { fence: eight()?, digest: eight()? }),
    };
    let traceparent = match marks & has::TRACE {
        0 => None,
        _ => Some(TraceParent::from_bytes(head.fixed(25)?)?),
    };
    let checksum = match head.0 {
        [] => None,
        bytes => Some(Checksum::from_bytes(bytes)?),
    };
    let data = no_data();
    let job = Job {
        id,
        route,
        company,
        data,
        user_id,
        correlation_id,
        traceparent,
        priority,
        enqueued_at,
        due_at,
        expires_at,
        progress,
        attempts,
        checksum,
    };
    Some(Record { job, body_hash, phase, ended_at, answer, receipt })
}

impl Phase {
    fn code(self) -> u8 {
        match self {
            Phase::Live => 0,
            Phase::Dead => 1,
            Phase::Ended(Ending::Sent) => 2,
            Phase::Ended(Ending::Cancelled) => 3,
            Phase::Ended(Ending::Discarded) => 4,
        }
    }

    fn of(code: u8) -> Option<Phase> {
        let all = [Phase::Live, Phase::Dead];
        let ended = [Ending::Sent, Ending::Cancelled, Ending::Discarded].map(Phase::Ended);
        all.into_iter().chain(ended).find(|phase| phase.code() == code)
    }
}

fn progress_out(head: &mut Writer, progress: Progress) {
    let Progress { attempts_started, attempts_spent, crashes, deferrals, replays } = progress;
    for count in [attempts_started, attempts_spent, crashes, deferrals, replays] {
        head.number(u64::from(count));
    }
}

fn progress_in(head: &mut Reader<'_>) -> Option<Progress> {
    let mut count = || u32::try_from(head.number()?).ok();
    Some(Progress {
        attempts_started: count()?,
        attempts_spent: count()?,
        crashes: count()?,
        deferrals: count()?,
        replays: count()?,
    })
}

/// Stands where a job's data is not at hand, and in the place of data that is not kept.
pub fn no_data() -> Payload {
    Payload::trusted("null")
}

pub fn json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value)
        .map_err(|error| StoreError::Broken(format!("a record cannot be written as JSON: {error}")))
}
