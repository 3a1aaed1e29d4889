//! The dead letter queue has a bound. What is over it goes to an archive, oldest first, and never silently.
//!
//! An entry leaves the store only after its line is in the archive and forced to disk. If the process dies in
//! between, the entry is archived once more: two equal lines, and an import takes one of them. When the
//! archive cannot be written, the queue grows, and somebody hears of it.
//!
//! Deliberately absent: files. An [`Archive`] is handed in.

mod line;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{AuditEvent, AuditKind, Event, EventData, EventKind, JobId, Payload, Status, Timestamp};
use recado_observe::Left;
use recado_store::{Adopted, Discard, Discarded, NoteWrite, Shelf, StoreError, Transfer};

use crate::aftermath;
use crate::engine::{Engine, EngineError, Inner};

/// Where dead letters go that are too many.
pub trait Archive: Send + Sync + std::fmt::Debug {
    /// Appends whole lines, each without its end, and forces them to disk. Says where they are now, in words.
    /// May block.
    fn append(&self, lines: &[String], now: Timestamp) -> io::Result<String>;
}

/// Entries at most before the oldest are archived, unless configured otherwise.
pub const SIZE_MAX_DEFAULT: u64 = 10_000;

/// Between two looks at how many there are.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Moved at a time. They are held in memory, payloads and all.
const BITE_ENTRIES: usize = 50;

/// Lines that one import takes to the store at a time.
const IMPORT_ENTRIES: usize = 100;

/// Lines that were imported, by their digest. Each archiving of an entry writes a line of its own, so a line that
/// came back once has had its chance: what became of it since is for people to know and not for a file.
pub const SHELF: Shelf = Shelf::new("imports");

/// As long as an audit trail is kept.
const IMPORTS_KEPT: Duration = Duration::from_secs(5 * 366 * 24 * 60 * 60);

/// Who acts when nobody does.
pub(crate) const OURSELVES: &str = "recado";

pub(crate) async fn run(engine: Engine, archive: Arc<dyn Archive>) {
    // The hour in which somebody was last told that it cannot be written.
    let mut told = None;
    loop {
        let wait = match bite(&engine, &archive, &mut told).await {
            Ok(true) => Duration::ZERO,
            Ok(false) => LOOK_EVERY,
            Err(StoreError::Broken(error)) => return engine.inner.store_broke(&error),
            Err(error) => {
                tracing::warn!(%error, "cannot look after the dead letter queue; trying again");
                LOOK_EVERY
            }
        };
        tokio::select! {
            () = engine.inner.stopping.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Moves some of what is too much; whether there is more.
async fn bite(
    engine: &Engine,
    archive: &Arc<dyn Archive>,
    told: &mut Option<i64>,
) -> Result<bool, StoreError> {
    let (store, now) = (engine.store(), engine.now());
    let over = store.counts(now).await?.dead_letters.saturating_sub(engine.inner.dead_letters.max_size);
    let wanted = usize::try_from(over).unwrap_or(usize::MAX).min(BITE_ENTRIES);
    if wanted == 0 {
        return Ok(false);
    }
    let mut entries: Vec<Transfer> = Vec::with_capacity(wanted);
    for entry in store.oldest_dead_letters(wanted).await? {
        entries.extend(store.transfer(&entry.job_id).await?);
    }
    let (archived, lines): (Vec<_>, Vec<_>) =
        entries.into_iter().filter_map(|entry| line::write(&entry).map(|line| (entry, line))).unzip();
    if archived.is_empty() {
        // Every one of them is on its way: what cannot go now may be delivered.
        return Ok(false);
    }
    let to = archive.clone();
    let written = tokio::task::spawn_blocking(move || to.append(&lines, now)).await;
    let place = match written.map_err(io::Error::other).and_then(|written| written) {
        Ok(place) => place,
        Err(error) => {
            tell_of_failure(&engine.inner, &error, told, now).await;
            return Ok(false);
        }
    };
    let mut moved = 0;
    for Transfer { job, dead_letter, .. } in archived {
        let moved_at = dead_letter.map_or(now, |entry| entry.moved_at);
        let audit = AuditEvent::about(&job, AuditKind::DeadLetterArchived, now)
            .reason(format!("Moved to {place}"))
            .by(Some(OURSELVES));
        let discard = Discard { id: job.id, audit, follow_ups: Vec::new() };
        if store.discard(discard).await? == Discarded::Done {
            engine.inner.left_queue(Left::Archived, moved_at);
            moved += 1;
        }
    }
    // That it rings is the business of an alert, by what is counted here.
    tracing::warn!(
        moved,
        place,
        maxSize = engine.inner.dead_letters.max_size,
        "The dead letter queue is full; the oldest entries were moved to the archive, and `recado dlq import` brings them back"
    );
    Ok(over > wanted as u64)
}

/// Once an hour is enough; nodes that share a store tell of the same event.
async fn tell_of_failure(engine: &Inner, error: &io::Error, told: &mut Option<i64>, now: Timestamp) {
    let (max, hour) = (engine.dead_letters.max_size, now.as_millis() / 3_600_000);
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
    aftermath::tell_all(engine, Event::once(EventKind::AlertFired, None, &about, now, data), now).await;
}

/// What became of one line of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    Done(JobId),
    /// Its job is here already: nothing was written.
    Known(JobId),
    /// What is wrong with the line.
    Unreadable(String),
}

impl Engine {
    /// Brings archived dead letters back, each for as long again as it was kept. Answers in order, once all
    /// that is taken is durable. Twice is harmless: a line is taken once, and not over the word of a person who
    /// discarded its job since.
    pub async fn import_dead_letters(
        &self,
        lines: &[&str],
        actor: Option<&str>,
    ) -> Result<Vec<Imported>, EngineError> {
        let mut answers = Vec::with_capacity(lines.len());
        for lines in lines.chunks(IMPORT_ENTRIES) {
            let now = self.now();
            let (mut wanted, mut taken) = (Vec::new(), Vec::new());
            for line in lines {
                match line::read(line) {
                    Err(what) => answers.push(Imported::Unreadable(what)),
                    Ok(transfer) => {
                        let key = digest(line);
                        answers.push(Imported::Known(transfer.job.id.clone()));
                        if self.store().note(SHELF, &key, now).await?.is_none()
                            && let Some(transfer) = self.still_archived(transfer).await?
                        {
                            wanted.push((answers.len() - 1, key));
                            taken.push(self.renewed(transfer, actor));
                        }
                    }
                }
            }
            if taken.is_empty() {
                continue;
            }
            let mut notes = Vec::new();
            for ((at, key), adopted) in wanted.into_iter().zip(self.store().adopt(taken).await?) {
                if adopted == Adopted::Done
                    && let Imported::Known(id) = answers[at].clone()
                {
                    answers[at] = Imported::Done(id);
                    notes.push(imported(key, now));
                }
            }
            self.store().write_notes(notes, now).await?;
        }
        let imported = answers.iter().filter(|answer| matches!(answer, Imported::Done(_))).count();
        if imported > 0 {
            tracing::warn!(imported, actor, "Dead letters came back from an archive");
        }
        Ok(answers)
    }

    /// The entry, if its job is forgotten here or stands where the archiving left it. With its whole trail.
    async fn still_archived(&self, mut transfer: Transfer) -> Result<Option<Transfer>, EngineError> {
        let Some(view) = self.store().job(&transfer.job.id, self.now()).await? else {
            return Ok(Some(transfer));
        };
        let trail = self.store().audit(&view.job.id).await?;
        let archived = trail.last().is_some_and(|last| last.kind == AuditKind::DeadLetterArchived);
        transfer.archived = trail.len();
        transfer.audit = trail;
        Ok((view.status == Status::Discarded && archived).then_some(transfer))
    }

    /// Its time begins anew, or the next round of the janitor would end it; when it came to the queue stays.
    fn renewed(&self, mut transfer: Transfer, actor: Option<&str>) -> Transfer {
        let now = self.now();
        if let Some(entry) = &mut transfer.dead_letter {
            entry.ttl = now.since(entry.moved_at) + self.inner.terms_of(&entry.route).dead_letter_ttl;
        }
        let audit = AuditEvent::about(&transfer.job, AuditKind::DeadLetterImported, now)
            .reason("Brought back from an archive".to_owned())
            .by(actor);
        transfer.audit.push(audit);
        transfer
    }
}

fn digest(line: &str) -> String {
    format!("{:032x}", recado_core::payload::digest_of(&[line]))
}

fn imported(key: String, now: Timestamp) -> NoteWrite {
    let value = Some(Payload::trusted("{}"));
    NoteWrite { shelf: SHELF, key: key.into(), value, expect: None, expires_at: Some(now.plus(IMPORTS_KEPT)) }
}
