//! Executes an erasure, and keeps the chain.
//!
//! Before anything changes, `erasure.json` says, signed, what is to be done. Then the record of the erasure is
//! appended, then each segment is written anew without the personal parts, and last the note goes. A process
//! that dies in between is followed by one that finishes: each step can be done twice.

use std::collections::BTreeMap;

use crate::erasure::{Erasure, Subject, SubjectHash};
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
use recado_core::Timestamp;
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;

/// Records at most that one record of an erasure names, so that it stays a line. More take several.
const ERASED_RECORDS_MAX: usize = 10_000;

/// A record of the erasure in progress, for the process that finishes it after a crash.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Intent {
    /// Sequence number of the erasure's own record.
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
