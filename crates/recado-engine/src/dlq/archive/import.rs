//! The way back: lines of an archive or of an export become dead letters again.
//!
//! An archive's line comes back only while its entry stands where the archiving left it. An export is a person's
//! own backup: its lines also bring back what was discarded since. Neither brings back what was erased,
//! nor a past of its own: a job's trail is what happened here.

use std::time::Duration;

use recado_core::{AuditEvent, AuditKind, JobId, Status, Timestamp};
use recado_store::{Adopted, JobSnapshot, KvWrite, Namespace};
use serde_json::json;

use super::last_change;
use super::line::{self, Read};
use crate::dlq::DeadLetters;
use crate::error::Result;
use crate::shared::entry::{EntryKey, write_of};

/// Lines that one import takes to the store at a time.
const IMPORT_ENTRIES: usize = 100;

/// Lines that were imported, by their digest. Each archiving or export of an entry writes a line of its own, so each
/// line is imported at most once.
pub const NAMESPACE: Namespace = Namespace::new("imports");

/// Time that imports are remembered: as long as an audit trail is kept.
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

impl DeadLetters {
    /// Brings dead letters back, each for as long again as it was kept. Answers in order, once all that is taken is
    /// durable. Importing a file twice is harmless: a line is taken once.
    pub async fn import_dead_letters(&self, lines: &[&str], actor: Option<&str>) -> Result<Vec<Imported>> {
        let forgotten = self.forgotten().await?;
        let mut answers = Vec::with_capacity(lines.len());
        for lines in lines.chunks(IMPORT_ENTRIES) {
            let mut room = self.room().await?;
            // Entries on their way to the store, and the place of each among the answers with its line's digest.
            let (mut places, mut taken) = (Vec::new(), Vec::new());
            for line in lines {
                let key = digest(line);
                let answer = match line::read(line) {
                    Err(what) => Imported::Unreadable(what),
                    Ok(read) => {
                        let id = read.transfer.job.id.clone();
                        if let Some(recorded_as) = forgotten.recorded_as(&read.transfer.job) {
                            Imported::Erased { id, recorded_as }
                        } else {
                            match self.returning(read, &key, &taken, actor).await? {
                                Some(_) if room == 0 => {
                                    Imported::NoRoom { id, max_size: self.terms.max_size }
                                }
                                Some(transfer) => {
                                    room -= 1;
                                    places.push((answers.len(), key));
                                    taken.push(transfer);
                                    // Until the store has it.
                                    Imported::Known(id)
                                }
                                None => Imported::Known(id),
                            }
                        }
                    }
                };
                answers.push(answer);
            }
            self.take_back(places, taken, &mut answers).await?;
        }
        let imported = answers.iter().filter(|answer| matches!(answer, Imported::Done(_))).count();
        if imported > 0 {
            tracing::warn!(imported, actor, "Dead letters came back from a file");
        }
        Ok(answers)
    }

    /// Entries that fit before the oldest would be archived.
    async fn room(&self) -> Result<u64> {
        let terms = &self.terms;
        if terms.archive.is_none() {
            return Ok(u64::MAX);
        }
        Ok(terms.max_size.saturating_sub(self.store.counts(self.env.now()).await?.dead_letters))
    }

    async fn take_back(
        &self,
        places: Vec<(usize, String)>,
        taken: Vec<JobSnapshot>,
        answers: &mut [Imported],
    ) -> Result<()> {
        if taken.is_empty() {
            return Ok(());
        }
        let now = self.env.now();
        let mut marks = Vec::new();
        for ((at, key), adopted) in places.into_iter().zip(self.store.adopt(taken).await?) {
            if adopted == Adopted::Done
                && let Imported::Known(id) = answers[at].clone()
            {
                answers[at] = Imported::Done(id);
                marks.push(imported(&key, now)?);
            }
        }
        self.store.kv_write(marks, now).await?;
        Ok(())
    }

    /// Returns the entry with its whole trail, if it may come back: its line did not before, and its job is forgotten here
    /// or was given up in a way that this line may undo.
    async fn returning(
        &self,
        Read { mut transfer, is_export }: Read,
        key: &str,
        taken: &[JobSnapshot],
        actor: Option<&str>,
    ) -> Result<Option<JobSnapshot>> {
        let (id, now) = (&transfer.job.id, self.env.now());
        if taken.iter().any(|other| other.job.id == *id)
            || self.store.kv_get(NAMESPACE, key, now).await?.is_some()
        {
            return Ok(None);
        }
        if let Some(view) = self.store.job(id, now).await? {
            transfer.audit = self.store.audit(id).await?;
            transfer.archived = transfer.audit.len();
            let last = last_change(&transfer.audit);
            let archived = last.is_some_and(|last| last.kind == AuditKind::DeadLetterArchived);
            if view.status != Status::Discarded || !(archived || is_export) {
                return Ok(None);
            }
        }
        let from = if is_export { "an export" } else { "an archive" };
        Ok(Some(self.renewed(transfer, from, actor)))
    }

    /// Restarts the TTL, or the next prune would remove the entry; the time when it came to the queue stays.
    fn renewed(&self, mut transfer: JobSnapshot, from: &str, actor: Option<&str>) -> JobSnapshot {
        let now = self.env.now();
        if let Some(entry) = &mut transfer.dead_letter {
            // The line was written by another clock.
            entry.moved_at = entry.moved_at.min(now);
            entry.ttl = now.since(entry.moved_at) + self.env.routes.terms_of(&entry.route).dead_letter_ttl;
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

fn imported(key: &str, now: Timestamp) -> Result<KvWrite> {
    let write = write_of(EntryKey { namespace: NAMESPACE, key }, Some(&json!({})), None)?;
    Ok(KvWrite { expires_at: Some(now.plus(IMPORTS_KEPT)), ..write })
}
