//! NamespaceCache the trail from the store to its files, in the background.
//!
//! | if the process dies | then |
//! |---|---|
//! | before the files have a bite | it is read from the store again |
//! | after that, before the mark | the files themselves know how far they are, and take none twice |
//! | after the mark | there is nothing to do again |
//!
//! When the files cannot be written the records stay in the store, it is told, and it is tried again: nothing waits
//! for it. While jobs are being delivered it rests between two bites, so that they go first; the later the files are,
//! the less it rests, so that they cannot fall behind for long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recado_audit::{Entry, Month, Options, Trail};
use recado_core::{AuditEvent, Timestamp, reason};
use recado_store::{AuditSpan, AuditTrim, StoreError};
use tokio::time::Instant;

use super::lease::{ArchiverLease, source};
use super::{ArchiveWriter, Files, Reach, TrailError, TrailTerms, off_thread};
use crate::engine::Inner;

/// Records that are copied at a time, of all parts together: every bite is forced to disk, signed and marked.
const BITE_RECORDS: usize = 8_000;

/// Between two looks when there is nothing to copy.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// While jobs are being delivered it works as large a part of the time as the files are late of this: little of it
/// when they are seconds behind, all of it when they are this far.
const LATE_MAX: Duration = Duration::from_secs(60);

const REST_MAX: Duration = Duration::from_secs(1);

/// Before the files are tried again that could not be written.
const RETRY_EVERY: Duration = Duration::from_secs(5);

/// A stop waits this long at most for what is left to be copied. What is not stays in the store.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Between two rounds of trimming, and bites of a part in one round.
const TRIM_EVERY: Duration = Duration::from_secs(10);
const TRIM_BITES_MAX: usize = 20;

/// Records that belong to no known job stay in the store this long all the same: a walk through the newest
/// records is not overtaken by the trimming.
const FORGOTTEN_KEPT: Duration = Duration::from_secs(10 * 60);

/// A text of a record that is longer is cut: no line of the trail may be too long to be one.
const TEXT_MAX_BYTES: usize = 64 << 10;

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArchiveRound {
    /// There may be more. The last one that was copied happened then.
    Copied { up_to: Timestamp },
    /// The files have all that there is.
    Even,
    /// Another node archives.
    NotOurs,
}

pub(crate) async fn run(engine: Arc<Inner>, terms: TrailTerms) {
    let mut duties = Duties::default();
    loop {
        let (began, now) = (Instant::now(), engine.clock.now());
        let round = engine.trail_round(&terms).await;
        let wait = match round {
            Ok(ArchiveRound::Copied { up_to }) => match engine.deliveries.is_empty() {
                true => Duration::ZERO,
                false => rest(began.elapsed(), now.since(up_to)),
            },
            Ok(ArchiveRound::Even) => {
                duties.see_to(&engine, &terms).await;
                LOOK_EVERY
            }
            Ok(ArchiveRound::NotOurs) => LOOK_EVERY,
            Err(TrailError::Store(StoreError::Broken(error))) => return engine.store_broke(&error),
            Err(error) => {
                tracing::error!(%error, "Cannot write the audit trail; its records stay in the store, and it is tried again");
                RETRY_EVERY
            }
        };
        tokio::select! {
            () = engine.stopped.cancelled() => break,
            () = tokio::time::sleep(wait) => {}
        }
    }
    if tokio::time::timeout(DRAIN_MAX, engine.drain_trail(&terms)).await.is_err() {
        tracing::warn!(
            "Not all of the audit trail is in its files; the rest stays in the store for the next start"
        );
    }
}

impl Inner {
    /// One bite, if this node archives.
    async fn trail_round(&self, terms: &TrailTerms) -> Result<ArchiveRound, TrailError> {
        let mut desk = self.keeper.desk().await;
        round(self, &mut desk, terms).await
    }

    /// NamespaceCache what is left, and lets another node take over.
    async fn drain_trail(&self, terms: &TrailTerms) {
        let mut desk = self.keeper.desk().await;
        loop {
            match round(self, &mut desk, terms).await {
                Ok(ArchiveRound::Copied { .. }) => {}
                Ok(ArchiveRound::Even) => break,
                Ok(ArchiveRound::NotOurs) => return,
                Err(error) => {
                    tracing::warn!(%error, "Cannot write the audit trail; its records stay in the store for the next start");
                    break;
                }
            }
        }
        desk.files = None;
        if let Ok(Ok(hold)) = ArchiverLease::take(self).await
            && let Err(error) = hold.give_up(self).await
        {
            tracing::debug!(%error, "cannot give up the right to archive; it ends by itself");
        }
    }
}

/// Takes the right to archive if it is free, copies a bite of each part, and knows how far the files are.
pub(super) async fn round(
    engine: &Inner,
    desk: &mut ArchiveWriter,
    terms: &TrailTerms,
) -> Result<ArchiveRound, TrailError> {
    let began = engine.clock.now();
    let round = bite(engine, desk, terms, began).await?;
    engine.keeper.reaches(match round {
        ArchiveRound::Copied { up_to } => Reach::Here { whole_until: up_to },
        ArchiveRound::Even => Reach::Here { whole_until: began },
        ArchiveRound::NotOurs => {
            desk.files = None;
            Reach::Elsewhere
        }
    });
    Ok(round)
}

async fn bite(
    engine: &Inner,
    desk: &mut ArchiveWriter,
    terms: &TrailTerms,
    began: Timestamp,
) -> Result<ArchiveRound, TrailError> {
    let Ok(mut hold) = ArchiverLease::take(engine).await? else { return Ok(ArchiveRound::NotOurs) };
    let files = match desk.files.take().filter(|files| files.store == hold.store) {
        Some(files) => files,
        None => {
            let files = open(terms, hold.store.clone()).await?;
            tell_of_gaps(engine, &files, &hold.archived);
            files
        }
    };
    let (mut entries, mut more) = (Vec::new(), None::<Timestamp>);
    let marked = hold.archived.clone();
    let parts = engine.store.audit_parts();
    let share = BITE_RECORDS / usize::from(parts.max(1)) + 1;
    for part in 0..parts {
        let after = match engine.store.is_shared() {
            true => hold.archived(part).max(files.archived(part)),
            // No other node can have the rest: files that are behind were put back, and records still in the
            // store are copied again.
            false => files.archived(part),
        };
        if after > 0 || hold.archived(part) > 0 {
            hold.archived.insert(part, after);
        }
        let span = AuditSpan { part, after, newest_first: false };
        let records = engine.store.audit_in(span, share).await?;
        let source = source(&hold.store, part);
        if let Some(last) = records.last() {
            hold.archived.insert(part, last.number);
            if records.len() == share {
                let at = last.event.timestamp.min(began);
                more = Some(more.map_or(at, |oldest| oldest.min(at)));
            }
        }
        entries.extend(records.into_iter().map(|record| Entry {
            source: source.clone(),
            sequence: record.number,
            event: bounded(record.event),
        }));
    }
    if entries.is_empty() {
        desk.files = Some(files);
        // A process before this one copied what it could not mark any more.
        let ours = hold.archived == marked || hold.mark(engine, began).await?;
        return Ok(if ours { ArchiveRound::Even } else { ArchiveRound::NotOurs });
    }
    let now = engine.clock.now();
    let (files, appended) = off_thread(move || {
        let mut files = files;
        let appended = files.trail.append(&entries, now);
        (files, appended)
    })
    .await?;
    // After a failure the files are opened anew, which finds out what is on disk.
    appended?;
    desk.files = Some(files);
    if !hold.mark(engine, more.unwrap_or(began)).await? {
        return Ok(ArchiveRound::NotOurs);
    }
    Ok(more.map_or(ArchiveRound::Even, |up_to| ArchiveRound::Copied { up_to }))
}

fn rest(worked: Duration, late: Duration) -> Duration {
    let rest_per_work = LATE_MAX.as_secs_f64() / late.as_secs_f64().max(0.001) - 1.0;
    worked.mul_f64(rest_per_work.max(0.0)).min(REST_MAX)
}

/// Records that were archived and are not in these files were removed, or are in another node's.
fn tell_of_gaps(engine: &Inner, files: &Files, archived: &BTreeMap<u16, u64>) {
    let what = match engine.store.is_shared() {
        true => "they were removed, or another node has them",
        false => "were they put back from a backup? What the store still has is copied again",
    };
    for (part, marked) in archived.iter().filter(|(part, marked)| files.archived(**part) < **marked) {
        let found = files.archived(*part);
        tracing::error!(
            part,
            archived = marked,
            found,
            "The audit trail's files lack records that were archived: {what}"
        );
    }
}

fn bounded(mut event: AuditEvent) -> AuditEvent {
    for text in [&mut event.error_message, &mut event.retry_reason].into_iter().flatten() {
        if text.len() > TEXT_MAX_BYTES {
            *text = reason::clip(text, TEXT_MAX_BYTES).into();
        }
    }
    event
}

async fn open(terms: &TrailTerms, store: Box<str>) -> Result<Files, TrailError> {
    let (dir, options) = (terms.dir.clone(), Options { key: terms.key.clone(), ..Options::default() });
    let trail = off_thread(move || Trail::open(&dir, &options)).await??;
    if let Some(recovered) = trail.recovered() {
        tracing::warn!(%recovered, "The audit trail was not left in good order, and was put right");
    }
    Ok(Files { trail, store })
}

/// Duties of now and then, while there is nothing to copy.
#[derive(Debug, Default)]
struct Duties {
    trimmed_at: Option<Instant>,
    /// The month whose old ones were let go of.
    dropped_in: Option<Month>,
}

impl Duties {
    async fn see_to(&mut self, engine: &Inner, terms: &TrailTerms) {
        if self.trimmed_at.is_none_or(|at| at.elapsed() >= TRIM_EVERY) {
            self.trimmed_at = Some(Instant::now());
            if let Err(error) = trim(engine, FORGOTTEN_KEPT).await {
                tracing::warn!(%error, "cannot trim the audit trail in the store; trying again later");
            }
        }
        let now = engine.clock.now();
        if self.dropped_in != Some(Month::of(now)) {
            self.dropped_in = Some(Month::of(now));
            if let Err(error) = drop_old_months(engine, terms.months_kept, now).await {
                tracing::error!(%error, "Cannot let go of months of the audit trail that are old enough");
            }
        }
    }
}

/// Lets the store forget what is archived and no longer needed there: what is about no job that it knows, once it is
/// of this age.
pub(super) async fn trim(engine: &Inner, forgotten_kept: Duration) -> Result<(), TrailError> {
    let (now, kept) = (engine.clock.now(), engine.settings.retention.ended_max_age);
    let Some(hold) = ArchiverLease::read(&*engine.store, now).await? else { return Ok(()) };
    let ago = |age: Duration| {
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(now.as_millis().saturating_sub(age).max(0))
    };
    for (part, up_to) in hold.archived {
        let trim =
            AuditTrim { part, up_to, before: ago(kept), forgotten_before: ago(kept.min(forgotten_kept)) };
        for _ in 0..TRIM_BITES_MAX {
            if engine.store.trim_audit(trim).await? == 0 {
                break;
            }
        }
    }
    Ok(())
}

async fn drop_old_months(engine: &Inner, months: u32, now: Timestamp) -> Result<(), TrailError> {
    let mut desk = engine.keeper.desk().await;
    let Some(files) = desk.files.take() else { return Ok(()) };
    let (files, dropped) = off_thread(move || {
        let mut files = files;
        let dropped = files.trail.drop_older_than(months, now);
        (files, dropped)
    })
    .await?;
    desk.files = Some(files);
    for summary in dropped? {
        tracing::warn!(
            segment = %summary.segment,
            records = summary.end.sequence + 1 - summary.first_sequence,
            "A month of the audit trail was old enough and is gone; a signed summary stays"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_the_files_are_the_less_it_rests() {
        let rests = |worked_ms| {
            [0, 6, 30, 60, 3_600]
                .map(|late_s| rest(Duration::from_millis(worked_ms), Duration::from_secs(late_s)).as_millis())
        };
        assert_eq!(rests(40), [1_000, 360, 40, 0, 0]);
        assert_eq!(rests(4_000), [1_000, 1_000, 1_000, 0, 0], "however long a bite took");
    }
}
