//! The way back: lines of an archive or of an export become dead letters again.
//!
//! An archive's line comes back only while its entry stands where the archiving left it. An export is a person's
//! own backup: its lines also bring back what was discarded since. Neither brings back what was erased,
//! nor a past of its own: a job's trail is what happened here.

use std::time::Duration;

use recado_core::{AuditEvent, AuditKind, JobId, Payload, Status, Timestamp};
use recado_store::{Adopted, JobSnapshot, KvWrite, Namespace};

use super::last_change;
use super::line::{self, Read};
use crate::dlq::DeadLetters;
use crate::error::EngineError;

/// Lines that one import takes to the store at a time.
const IMPORT_ENTRIES: usize = 100;

/// Lines that were imported, by their digest. Each archiving or export of an entry writes a line of its own, so a
/// line that came back once has had its chance: what became of it since is for people to know and not for a file.
pub const NAMESPACE: Namespace = Namespace::new("imports");

/// As long as an audit trail is kept.
const IMPORTS_KEPT: Duration = Duration::from_secs(5 * 366 * 24 * 60 * 60);

/// The result of one line of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    Done(JobId),
    /// Its job is here already, or the line came back before: nothing was written.
    Known(JobId),
    /// It is about a person whose data was erased since, as this record of the trail says: nothing was written.
    Erased {
        id: JobId,
        recorded_as: u64,
    },
    /// The queue is full: nothing was written, and the line can come back once there is room.
    NoRoom {
        id: JobId,
        max_size: u64,
    },
    /// The fault of the line.
    Unreadable(String),
}

/// A line that could be read.
struct ImportLine<'a> {
    read: Read,
    /// Its digest.
    key: String,
    /// Its place among the answers.
    at: usize,
    actor: Option<&'a str>,
}

/// Entries that are on their way to the store together.
#[derive(Default)]
struct Taken {
    /// The place of each among the answers, and its line's digest.
    places: Vec<(usize, String)>,
    transfers: Vec<JobSnapshot>,
}

impl DeadLetters {
    /// Brings dead letters back, each for as long again as it was kept. Answers in order, once all that is taken is
    /// durable. Twice is harmless: a line is taken once.
    pub async fn import_dead_letters(
        &self,
        lines: &[&str],
        actor: Option<&str>,
    ) -> Result<Vec<Imported>, EngineError> {
        let forgotten = self.forgotten().await?;
        let mut answers = Vec::with_capacity(lines.len());
        for lines in lines.chunks(IMPORT_ENTRIES) {
            let mut room = self.room().await?;
            let mut taken = Taken::default();
            for line in lines {
                let answer = match line::read(line) {
                    Err(what) => Imported::Unreadable(what),
                    Ok(read) => match forgotten.recorded_as(&read.transfer.job) {
                        Some(recorded_as) => Imported::Erased { id: read.transfer.job.id, recorded_as },
                        None => {
                            let taking = ImportLine { read, key: digest(line), at: answers.len(), actor };
                            self.consider(taking, &mut room, &mut taken).await?
                        }
                    },
                };
                answers.push(answer);
            }
            self.take_back(taken, &mut answers).await?;
        }
        let imported = answers.iter().filter(|answer| matches!(answer, Imported::Done(_))).count();
        if imported > 0 {
            tracing::warn!(imported, actor, "Dead letters came back from a file");
        }
        Ok(answers)
    }

    /// Entries that fit before the oldest would be archived.
    async fn room(&self) -> Result<u64, EngineError> {
        let terms = &self.terms;
        if terms.archive.is_none() {
            return Ok(u64::MAX);
        }
        Ok(terms.max_size.saturating_sub(self.store.counts(self.clock.now()).await?.dead_letters))
    }

    /// Looks at one line. What is to be taken is known until the store has it.
    async fn consider(
        &self,
        line: ImportLine<'_>,
        room: &mut u64,
        taken: &mut Taken,
    ) -> Result<Imported, EngineError> {
        let ImportLine { read, key, at, actor } = line;
        let id = read.transfer.job.id.clone();
        let from = if read.is_export { "an export" } else { "an archive" };
        let is_known = taken.transfers.iter().any(|other| other.job.id == id)
            || self.store.kv_get(NAMESPACE, &key, self.clock.now()).await?.is_some();
        let returning = if is_known { None } else { self.may_return(read).await? };
        let Some(transfer) = returning else { return Ok(Imported::Known(id)) };
        if *room == 0 {
            return Ok(Imported::NoRoom { id, max_size: self.terms.max_size });
        }
        *room -= 1;
        taken.places.push((at, key));
        taken.transfers.push(self.renewed(transfer, from, actor));
        Ok(Imported::Known(id))
    }

    async fn take_back(&self, taken: Taken, answers: &mut [Imported]) -> Result<(), EngineError> {
        if taken.transfers.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let mut notes = Vec::new();
        for ((at, key), adopted) in taken.places.into_iter().zip(self.store.adopt(taken.transfers).await?) {
            if adopted == Adopted::Done
                && let Imported::Known(id) = answers[at].clone()
            {
                answers[at] = Imported::Done(id);
                notes.push(imported(key, now));
            }
        }
        self.store.kv_write(notes, now).await?;
        Ok(())
    }

    /// The entry, if its job is forgotten here or was given up in a way that this line may undo. With its whole trail.
    async fn may_return(&self, read: Read) -> Result<Option<JobSnapshot>, EngineError> {
        let Read { mut transfer, is_export } = read;
        let Some(view) = self.store.job(&transfer.job.id, self.clock.now()).await? else {
            return Ok(Some(transfer));
        };
        let trail = self.store.audit(&view.job.id).await?;
        let archived = last_change(&trail).is_some_and(|last| last.kind == AuditKind::DeadLetterArchived);
        transfer.archived = trail.len();
        transfer.audit = trail;
        Ok((view.status == Status::Discarded && (archived || is_export)).then_some(transfer))
    }

    /// Its time begins anew, or the next round of the janitor would end it; when it came to the queue stays.
    fn renewed(&self, mut transfer: JobSnapshot, from: &str, actor: Option<&str>) -> JobSnapshot {
        let now = self.clock.now();
        if let Some(entry) = &mut transfer.dead_letter {
            // Who wrote the line had a clock of their own.
            entry.moved_at = entry.moved_at.min(now);
            entry.ttl = now.since(entry.moved_at) + self.routes.terms_of(&entry.route).dead_letter_ttl;
        }
        // The record says how far it vouches for the entry.
        let words = match transfer.audit.is_empty() {
            true => format!("Brought back from {from}, which alone tells of what was before"),
            false => format!("Brought back from {from}"),
        };
        let audit =
            AuditEvent::about(&transfer.job, AuditKind::DeadLetterImported, now).reason(words).by(actor);
        transfer.audit.push(audit);
        transfer
    }
}

fn digest(line: &str) -> String {
    format!("{:032x}", recado_core::payload::digest_of(&[line]))
}

fn imported(key: String, now: Timestamp) -> KvWrite {
    let value = Some(Payload::trusted("{}"));
    KvWrite {
        namespace: NAMESPACE,
        key: key.into(),
        value,
        expect: None,
        expires_at: Some(now.plus(IMPORTS_KEPT)),
        audit: Vec::new(),
    }
}
