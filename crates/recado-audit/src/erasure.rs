//! Erasures: the request, the record that says one was done, and its execution, which keeps the chain.
//!
//! Before anything changes, `erasure.json` says, signed, what is to be done. Then the record of the erasure is
//! appended, then each segment is written anew without the personal parts, and last the note goes. A process
//! that dies in between is followed by one that finishes: each step can be done twice.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;

use recado_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::digest::{Hash, Hex};
use crate::error::{Error, io};
use crate::files::{self, Durability, ERASURE, INDEX, SEGMENT};
use crate::key::Purpose;
use crate::line::Line;
use crate::month::Month;
use crate::search::{Query, visit};
use crate::snapshot::{Segment, Snapshot};
use crate::statement;
use crate::tail::Head;
use crate::trail::{Trail, random_salts};

/// Records at most that one record of an erasure names, so that it stays a line. More take several.
const ERASED_RECORDS_MAX: usize = 10_000;

/// The person whose records are meant, by an id that callers know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub identity: Identity,
    /// Only what this company sent; the same number may be another person elsewhere.
    pub company: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    User(Box<str>),
    Correlation(Box<str>),
    Claim(Box<str>),
    Job(Box<str>),
}

impl Identity {
    fn parts(&self) -> (IdentityKind, &str) {
        match self {
            Identity::User(id) => (IdentityKind::UserId, id),
            Identity::Correlation(id) => (IdentityKind::CorrelationId, id),
            Identity::Claim(id) => (IdentityKind::ClaimId, id),
            Identity::Job(id) => (IdentityKind::JobId, id),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IdentityKind {
    UserId,
    CorrelationId,
    ClaimId,
    JobId,
}

/// A hash of the erased person's number: a reader who knows the number can check it; it cannot be read off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectHash {
    pub by: IdentityKind,
    pub salt: Box<str>,
    /// SHA-256 of salt and number.
    pub digest: Hash,
}

/// The record of an erasure: who, whose, how many, and which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Erasure {
    pub subject: SubjectHash,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_id: Option<Box<str>>,
    pub actor: Box<str>,
    /// The reason; it stays, so it must not name the person again.
    pub reason: Box<str>,
    pub records: u64,
    /// The sequences whose personal part is gone, by segment.
    pub segments: BTreeMap<Month, Vec<u64>>,
}

impl Erasure {
    /// Returns true if this subject's data was erased.
    pub fn concerns(&self, subject: &Subject) -> bool {
        let (by, id) = subject.identity.parts();
        self.company_id == subject.company
            && self.subject.by == by
            && self.subject.digest == digest(&self.subject.salt, id)
    }
}

impl SubjectHash {
    pub(crate) fn of(subject: &Subject, salt: &[u8; 16]) -> Self {
        let (by, id) = subject.identity.parts();
        let salt = Hex(*salt).to_string();
        SubjectHash { by, digest: digest(&salt, id), salt: salt.into() }
    }
}

fn digest(salt: &str, id: &str) -> Hash {
    Hash::of([salt.as_bytes(), id.as_bytes()].concat().as_slice())
}

/// A record of the erasure in progress, for the process that finishes it after a crash.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Intent {
    /// Of the record that says so.
    sequence: u64,
    archived_at: Timestamp,
    erasure: Erasure,
}

/// The result of an erasure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    pub records: u64,
    /// The records that say so: none if nothing was found.
    pub recorded_as: Vec<u64>,
}

impl Trail {
    /// Removes the personal part of everything about a subject, and puts on record who did so and how much it
    /// was. `reason` stays for good: give a reference, not a name.
    pub fn erase(
        &mut self,
        subject: &Subject,
        actor: &str,
        reason: &str,
        now: Timestamp,
    ) -> Result<Erased, Error> {
        let mut erased = Erased::default();
        loop {
            if self.broken {
                return Err(Error::Broken);
            }
            let (records, segments) = self.find_records(subject)?;
            if records == 0 {
                return Ok(erased);
            }
            let salt = random_salts(1).map_err(io(&self.folder.0))?[0];
            let (sequence, archived_at) = (self.link().sequence + 1, self.writer(now).0);
            let erasure = Erasure {
                subject: SubjectHash::of(subject, &salt),
                company_id: subject.company.clone(),
                actor: actor.into(),
                reason: reason.into(),
                records,
                segments,
            };
            let intent = Intent { sequence, archived_at, erasure };
            let _no_reader_opens_files = self.folder.lock_readers_out()?;
            // From here until all is done, only opening the trail again may go on.
            self.broken = true;
            self.write_statement(&self.folder.file(ERASURE), Purpose::ERASURE, &intent, Durability::OnDisk)?;
            self.execute_erasure(&intent)?;
            erased.records += records;
            erased.recorded_as.push(sequence);
        }
    }

    /// Finishes what a process before this one began.
    pub(crate) fn finish_erasure(&mut self) -> Result<Option<u64>, Error> {
        let path = self.folder.file(ERASURE);
        let Some(bytes) = files::read(&path)? else { return Ok(None) };
        let intent: Option<Intent> = statement::read(&bytes, Purpose::ERASURE, &self.public_key());
        let intent = intent.ok_or(Error::NotOurs { path })?;
        let _no_reader_opens_files = self.folder.lock_readers_out()?;
        self.execute_erasure(&intent)?;
        Ok(Some(intent.sequence))
    }

    fn find_records(&self, subject: &Subject) -> Result<(u64, BTreeMap<Month, Vec<u64>>), Error> {
        let mut records = 0;
        let mut segments = BTreeMap::<Month, Vec<u64>>::new();
        visit(&Snapshot::open(&self.folder.0)?, &Query::about(subject), |month, record| {
            segments.entry(month).or_default().push(record.sequence);
            records += 1;
            let full = records == ERASED_RECORDS_MAX as u64;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok((records, segments))
    }

    fn execute_erasure(&mut self, intent: &Intent) -> Result<(), Error> {
        if self.link().sequence < intent.sequence {
            self.record(intent)?;
        }
        for (month, sequences) in &intent.erasure.segments {
            self.rewrite_without_personal(*month, sequences, intent.sequence)?;
        }
        files::remove(&self.folder.file(ERASURE))?;
        self.folder.sync_directory()?;
        self.reopen_segment()?;
        self.broken = false;
        Ok(())
    }

    fn record(&mut self, intent: &Intent) -> Result<(), Error> {
        let (archived_at, mut writer) = self.writer(intent.archived_at);
        let checkpoint = writer.erasure(&intent.erasure);
        let bytes = writer.bytes;
        let segment = Month::of(archived_at);
        self.write(segment, &bytes)?;
        let sources = self.head.as_ref().map(|head| head.sources.clone()).unwrap_or_default();
        self.advance_to(Head { segment, archived_at, checkpoint, sources });
        Ok(())
    }

    /// Writes a segment anew, without the personal part of these records.
    fn rewrite_without_personal(&self, month: Month, sequences: &[u64], by: u64) -> Result<(), Error> {
        let segment = Segment::open(&self.folder, month)?;
        let path = self.folder.month_file(month, SEGMENT);
        // It would point at the wrong places, and it still knows the person's keys.
        files::remove(&self.folder.month_file(month, INDEX))?;
        files::replace(&path, Durability::OnDisk, |file| {
            let mut file = BufWriter::with_capacity(256 << 10, file);
            let mut lines = segment.lines(0, segment.bytes);
            while let Some(raw) = lines.next().map_err(std::io::Error::other)? {
                let wanted = |line: &Line<'_>| sequences.binary_search(&line.sequence).is_ok();
                match Line::read(raw.bytes).filter(wanted).and_then(|line| line.erased(by)) {
                    Some(line) => file.write_all(&line)?,
                    None => {
                        file.write_all(raw.bytes)?;
                        file.write_all(if raw.ended { b"\n" } else { b"" })?;
                    }
                }
            }
            file.flush()
        })?;
        self.catch_up_index(month).map(drop)
    }
}
