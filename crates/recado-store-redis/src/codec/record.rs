//! A job's head: everything about it but its data, in one compact value.
//!
//! The first fields are for the scripts (`jobs.lua`, `header`), the rest is read here alone. A new job's head is
//! about sixty bytes; what has not happened to it yet takes no room. Each byte counts: a node of a stream has 4,096, and
//! one job more in it is a tenth less memory for all. Heads that format 2 wrote are read, see [`format_2`].

use std::borrow::Cow;

mod first_byte;
mod format_2;

use recado_core::{
    BodyHash, Checksum, CompanyId, Damage, Job, JobId, NewJob, Payload, Priority, Progress, RouteName,
    Status, Timestamp, TraceParent,
};
use recado_store::{JobView, StoreError, StoreResult};

use crate::codec::bytes::{Reader, Writer};
use crate::codec::keys::{self, IdKey};
use first_byte::FirstByte;

/// A job's place in its life, as far as its head tells: leases are known elsewhere. Heads have its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Live,
    Dead,
    Sent,
    Cancelled,
    Discarded,
}

impl Phase {
    const ALL: [Phase; 5] = [Phase::Live, Phase::Dead, Phase::Sent, Phase::Cancelled, Phase::Discarded];

    fn has_ended(self) -> bool {
        matches!(self, Phase::Sent | Phase::Cancelled | Phase::Discarded)
    }
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
        let job = Job { data: no_data(), ..Job::from(new.clone()) };
        Record::of(job, new.body_hash, Phase::Live)
    }

    pub fn of(job: Job, body_hash: BodyHash, phase: Phase) -> Self {
        Record { job, body_hash, phase, ended_at: None, answer: None, receipt: None }
    }

    /// The job has ended.
    pub fn end(&mut self, phase: Phase, at: Timestamp, answer: Option<Payload>) {
        self.phase = phase;
        self.ended_at = Some(at);
        self.answer = answer;
        self.job.checksum = None;
    }

    pub fn status(&self, held: HeldState, now: Timestamp) -> Status {
        match self.phase {
            Phase::Live if held == HeldState::Held => Status::Delivering,
            Phase::Live => Status::waiting(&self.job.progress, self.job.due_at, now),
            Phase::Dead => Status::Failed,
            Phase::Sent => Status::Sent,
            Phase::Cancelled => Status::Cancelled,
            Phase::Discarded => Status::Discarded,
        }
    }

    pub fn view(self, data: Payload, held_by: Option<(Box<str>, Timestamp)>, now: Timestamp) -> JobView {
        let status = self.status(HeldState::of(held_by.is_some()), now);
        let (ended_at, answer) = (self.ended_at, self.answer);
        JobView { job: Job { data, ..self.job }, status, ended_at, answer, held_by }
    }

    pub fn encode(&self) -> StoreResult<Vec<u8>> {
        let Record { job, body_hash, .. } = self;
        let id = IdKey::of(&job.id);
        let life_ms = u32::try_from(job.expires_at.as_millis() - job.due_at.as_millis().max(0)).ok();
        let first = FirstByte {
            priority: job.priority,
            phase: self.phase,
            has_long_life: life_ms.is_none(),
            was_due: job.enqueued_at == job.due_at,
        };
        let mut head = Writer(Vec::with_capacity(128));
        head.byte(first.to_byte());
        head.time(job.due_at);
        match life_ms {
            Some(life_ms) => head.fixed(&life_ms.to_be_bytes()),
            None => head.time(job.expires_at),
        }
        head.name(job.route.as_str().as_bytes());
        head.name(job.company.as_str().as_bytes());
        head.name(&id.bytes);
        // For the script that forgets an ended job, and its id with it.
        if self.phase.has_ended() {
            head.short(id.bucket);
        }
        if !first.was_due {
            head.difference(job.due_at.as_millis() - job.enqueued_at.as_millis());
        }
        head.fixed(&body_hash.kept());
        let (marks_at, mut marks) = (head.0.len(), 0);
        head.byte(marks);
        if let Some(user) = &job.user_id {
            marks |= has::USER;
            head.long(user.as_bytes());
        }
        if let Some(correlation) = &job.correlation_id {
            marks |= has::CORRELATION;
            head.long(correlation.as_bytes());
        }
        if job.progress != Progress::default() {
            marks |= has::PROGRESS;
            progress_out(&mut head, job.progress);
        }
        if !job.attempts.is_empty() {
            marks |= has::ATTEMPTS;
            head.long(&json(&job.attempts)?);
        }
        if let Some(at) = self.ended_at {
            marks |= has::ENDED_AT;
            head.time(at);
        }
        if let Some(answer) = &self.answer {
            marks |= has::ANSWER;
            head.long(answer.as_str().as_bytes());
        }
        if let Some(Receipt { fence, digest }) = self.receipt {
            marks |= has::RECEIPT;
            head.fixed(&fence.to_be_bytes());
            head.fixed(&digest.to_be_bytes());
        }
        if let Some(parent) = job.traceparent {
            marks |= has::TRACE;
            head.fixed(&parent.to_bytes());
        }
        head.0[marks_at] = marks;
        // No mark is left for it, and none is needed: it is last, and absent of heads that older versions wrote.
        if let Some(checksum) = job.checksum {
            checksum_out(&mut head, checksum);
        }
        Ok(head.0)
    }

    pub fn decode(head: &[u8]) -> StoreResult<Record> {
        read(Reader(head)).ok_or_else(damaged)
    }
}

/// Head and data of a new job as one value, as an entry of the stream has them: the head's length in a byte comes first.
/// A head that is longer cannot be packed.
pub fn pack_entry(head: &[u8], data: &str) -> Option<Vec<u8>> {
    let length = u8::try_from(head.len()).ok()?;
    Some([&[length], head, data.as_bytes()].concat())
}

/// Head and data of a value that [`pack_entry`] made.
pub fn unpack_entry(packed: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = packed.split_first()?;
    rest.split_at_checked(usize::from(*length))
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

/// The first fields of a head, which the scripts read, too.
struct Header<'a> {
    due_at: Timestamp,
    expires_at: Timestamp,
    /// Absent where the stored byte is none.
    priority: Option<Priority>,
    phase: Option<Phase>,
    /// Owned where the stored bytes are no text.
    route: Cow<'a, str>,
    company: Cow<'a, str>,
    id: JobId,
    /// Absent of heads of format 2.
    first: Option<FirstByte>,
}

impl<'a> Header<'a> {
    fn read(head: &mut Reader<'a>) -> Option<Self> {
        let byte = *head.0.first()?;
        if byte < FirstByte::LEAST {
            return format_2::read_header(head);
        }
        head.byte()?;
        let first = FirstByte::of(byte);
        let due_at = head.time()?;
        let expires_at = match first.is_some_and(|first| first.has_long_life) {
            true => head.time()?,
            false => {
                let life_ms = u32::from_be_bytes(head.fixed(4)?.try_into().ok()?);
                Timestamp::from_millis(due_at.as_millis() + i64::from(life_ms))
            }
        };
        let (route, company) = (String::from_utf8_lossy(head.name()?), String::from_utf8_lossy(head.name()?));
        let id = keys::unpack(head.name()?)?;
        let (priority, phase) = (first.map(|first| first.priority), first.map(|first| first.phase));
        Some(Header { due_at, expires_at, priority, phase, route, company, id, first })
    }

    fn is_damaged(&self) -> bool {
        let are_texts = matches!((&self.route, &self.company), (Cow::Borrowed(_), Cow::Borrowed(_)));
        self.priority.is_none() || self.phase.is_none() || !are_texts
    }

    fn into_record(self) -> Record {
        let job = Job {
            id: self.id,
            route: RouteName::trusted(self.route),
            company: CompanyId::trusted(self.company),
            data: no_data(),
            user_id: None,
            correlation_id: None,
            traceparent: None,
            priority: self.priority.unwrap_or_default(),
            enqueued_at: self.due_at,
            due_at: self.due_at,
            expires_at: self.expires_at,
            progress: Progress::default(),
            attempts: Vec::new(),
            checksum: None,
        };
        Record::of(job, BodyHash(0), self.phase.unwrap_or(Phase::Live))
    }
}

/// Reads what the scripts read of a head, and no more.
fn salvage(mut head: Reader<'_>) -> Option<Record> {
    let mut record = Header::read(&mut head)?.into_record();
    record.job.checksum = Some(Checksum::of_job(&record.job).inverted(Damage::Identity));
    Some(record)
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
    let header = Header::read(&mut head).filter(|header| !header.is_damaged())?;
    let first = header.first;
    let mut record = header.into_record();
    if record.phase.has_ended() && first.is_some() {
        head.short()?;
    }
    let job = &mut record.job;
    if !first.is_some_and(|first| first.was_due) {
        job.enqueued_at = Timestamp::from_millis(job.due_at.as_millis().checked_sub(head.difference()?)?);
    }
    record.body_hash = match first {
        Some(_) => BodyHash::of_kept(head.fixed(BodyHash::KEPT_BYTES)?.try_into().ok()?),
        None => format_2::read_body_hash(&mut head)?,
    };
    let marks = head.byte()?;
    if marks & has::USER != 0 {
        job.user_id = Some(head.long_text()?.into());
    }
    if marks & has::CORRELATION != 0 {
        job.correlation_id = Some(head.long_text()?.into());
    }
    if marks & has::PROGRESS != 0 {
        job.progress = progress_in(&mut head)?;
    }
    if marks & has::ATTEMPTS != 0 {
        job.attempts = serde_json::from_slice(head.long()?).ok()?;
    }
    if marks & has::ENDED_AT != 0 {
        record.ended_at = Some(head.time()?);
    }
    if marks & has::ANSWER != 0 {
        record.answer = Some(Payload::trusted(head.long_text()?));
    }
    if marks & has::RECEIPT != 0 {
        let mut eight = || head.fixed(8)?.try_into().ok().map(u64::from_be_bytes);
        record.receipt = Some(Receipt { fence: eight()?, digest: eight()? });
    }
    if marks & has::TRACE != 0 {
        job.traceparent = Some(TraceParent::from_bytes(head.fixed(25)?)?);
    }
    if !head.0.is_empty() {
        job.checksum = Some(checksum_in(head.0)?);
    }
    Some(record)
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

/// Bytes of the checksum of the data that is sent, the last part of a checksum. The part before it is of the data that was
/// accepted; while the two are the same, it is written once.
const DATA_SUM_BYTES: usize = 4;

fn checksum_out(head: &mut Writer, checksum: Checksum) {
    let bytes = checksum.to_bytes();
    let (once, data) = bytes.split_at(Checksum::LEN_BYTES - DATA_SUM_BYTES);
    head.fixed(once);
    if !once.ends_with(data) {
        head.fixed(data);
    }
}

fn checksum_in(bytes: &[u8]) -> Option<Checksum> {
    if bytes.len() != Checksum::LEN_BYTES - DATA_SUM_BYTES {
        return Checksum::from_bytes(bytes);
    }
    let data = &bytes[bytes.len() - DATA_SUM_BYTES..];
    Checksum::from_bytes(&[bytes, data].concat())
}

/// Stands where a job's data is not at hand, and in the place of data that is not kept.
pub fn no_data() -> Payload {
    Payload::trusted("null")
}

pub fn json<T: serde::Serialize>(value: &T) -> StoreResult<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| StoreError::Broken(format!("a record cannot be written as JSON: {error}")))
}
