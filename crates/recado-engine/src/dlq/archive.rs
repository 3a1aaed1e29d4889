//! The bound of the dead letter queue. Entries over it go to an archive, oldest first, and never silently.
//!
//! An entry leaves the store only after its line is in the archive and forced to disk. If the process dies in
//! between, the entry is archived once more: two equal lines, and an import takes one of them. When the
//! archive cannot be written, the queue grows, and an alert says so.
//!
//! The way back is an import. It never pushes others out: an entry that finds no room is refused, and stays
//! in its file.
//!
//! Deliberately absent: files. An [`Archive`] is handed in.

mod erased;
mod import;
mod line;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{AuditEvent, AuditKind, DeadLetter, Event, EventData, EventKind, JobId, Timestamp};
use recado_observe::DeadLetterExit;
use recado_store::{Discard, Discarded, JobSnapshot, StoreError};

use crate::dlq::DeadLetters;
use crate::error::Result;
use crate::lifecycle::off_thread;
use crate::notify::notices::OURSELVES;

pub use import::{Imported, NAMESPACE};

/// The archive of surplus dead letters.
pub trait Archive: Send + Sync + std::fmt::Debug {
    /// Appends whole lines, each without its end, and forces them to disk. Says where they are now, in words.
    /// May block.
    fn append(&self, lines: &[String], now: Timestamp) -> io::Result<String>;
}

/// Entries at most before the oldest are archived, unless configured otherwise.
pub const SIZE_MAX_DEFAULT: u64 = 10_000;

/// Time between two looks at how many there are.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Entries archived in one batch. They are held in memory, payloads and all.
const BATCH_ENTRIES: usize = 50;

/// Begin of the record that names an entry's place in the archive.
const MOVED_TO: &str = "Moved to ";

/// Archives surplus entries until the engine stops.
pub(crate) async fn run(dlq: Arc<DeadLetters>, archive: Arc<dyn Archive>) {
    // The hour of the last notice that it cannot be written.
    let mut told = None;
    let complaint = "Cannot look after the dead letter queue; trying again";
    loop {
        let round = archive_batch(&dlq, &archive, &mut told).await;
        if !dlq.env.lifecycle.rest_after(round, LOOK_EVERY, complaint).await {
            return;
        }
    }
}

/// Moves a batch of what is too much; returns the time until the next look.
async fn archive_batch(
    dlq: &DeadLetters,
    archive: &Arc<dyn Archive>,
    told: &mut Option<i64>,
) -> Result<Duration, StoreError> {
    let (store, now) = (&dlq.store, dlq.env.now());
    let over = store.counts(now).await?.dead_letters.saturating_sub(dlq.terms.max_size);
    let wanted = usize::try_from(over).unwrap_or(usize::MAX).min(BATCH_ENTRIES);
    if wanted == 0 {
        return Ok(LOOK_EVERY);
    }
    let mut entries: Vec<JobSnapshot> = Vec::with_capacity(wanted);
    for entry in store.oldest_dead_letters(wanted).await? {
        entries.extend(store.snapshot(&entry.job_id).await?);
    }
    let (archived, lines): (Vec<_>, Vec<_>) =
        entries.into_iter().filter_map(|entry| line::write(&entry, None).map(|line| (entry, line))).unzip();
    if archived.is_empty() {
        // Every one of them is on its way: what cannot go now may be delivered.
        return Ok(LOOK_EVERY);
    }
    let to = archive.clone();
    let written = off_thread(move || to.append(&lines, now)).await;
    let cut_off = || Err(io::Error::other("the write panicked or was cut off"));
    let place = match written.unwrap_or_else(cut_off) {
        Ok(place) => place,
        Err(error) => {
            tell_of_failure(dlq, &error, told, now).await;
            return Ok(LOOK_EVERY);
        }
    };
    let mut moved = 0;
    for JobSnapshot { job, dead_letter, .. } in archived {
        let moved_at = dead_letter.map_or(now, |entry| entry.moved_at);
        let audit = AuditEvent::about(&job, AuditKind::DeadLetterArchived, now)
            .reason(format!("{MOVED_TO}{place}"))
            .by(Some(OURSELVES));
        // What its line does not say is not given up: an entry that died again meanwhile waits for the next round.
        let replays = Some(job.progress.replays);
        let discard = Discard { id: job.id, replays, audit, follow_ups: Vec::new() };
        if dlq.env.jobs.discard(discard).await? == Discarded::Done {
            dlq.env.metrics.record_dead_letter_left(DeadLetterExit::Archived, moved_at);
            moved += 1;
        }
    }
    // An alert is made by what is counted here.
    tracing::warn!(
        moved,
        place,
        maxSize = dlq.terms.max_size,
        "The dead letter queue is full; the oldest entries were moved to the archive, and `recado dlq import` brings them back"
    );
    Ok(if over > wanted as u64 { Duration::ZERO } else { LOOK_EVERY })
}

/// Reports, at most once an hour, that the archive cannot be written; nodes that share a store send the same event.
async fn tell_of_failure(dlq: &DeadLetters, error: &io::Error, told: &mut Option<i64>, now: Timestamp) {
    let (max, hour) = (dlq.terms.max_size, now.as_millis() / 3_600_000);
    if told.replace(hour) == Some(hour) {
        return;
    }
    tracing::error!(
        %error,
        maxSize = max,
        "Cannot write the archive of the dead letter queue; nothing is removed, and the queue grows"
    );
    let words = format!(
        "the dead letter queue holds more than {max} entries and its archive cannot be written ({error}); nothing is \
         removed: make room, or replay and discard"
    );
    let data = EventData { reason: Some(words.into()), ..EventData::default() };
    let about = ["dlq-archive-failed", &hour.to_string()];
    dlq.notifier.announce(Event::once(EventKind::AlertFired, None, &about, now, data), now).await;
}

/// The place of an archived dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    pub at: Timestamp,
    /// In the archive's own words: a file.
    pub place: Box<str>,
}

/// The last record of a trail that changed something: reads leave records, too.
fn last_change(trail: &[AuditEvent]) -> Option<&AuditEvent> {
    trail.iter().rfind(|event| !event.kind.is_read())
}

impl DeadLetters {
    /// Finds this job's dead letter in the archive, if it was archived and nothing happened to it since.
    pub async fn archived(&self, id: &JobId) -> Result<Option<Archived>> {
        let trail = self.store.audit(id).await?;
        let Some(last) = last_change(&trail).filter(|last| last.kind == AuditKind::DeadLetterArchived) else {
            return Ok(None);
        };
        let place = last.decision.retry_reason.as_deref().and_then(|words| words.strip_prefix(MOVED_TO));
        Ok(place.map(|place| Archived { at: last.timestamp, place: place.into() }))
    }

    /// A dead letter as a line that an import takes; `None` when it left the queue meanwhile.
    pub async fn exported(&self, entry: &DeadLetter) -> Result<Option<String>> {
        let transfer = self.store.snapshot(&entry.job_id).await?;
        Ok(transfer.and_then(|transfer| line::write(&transfer, Some(self.env.now()))))
    }
}
