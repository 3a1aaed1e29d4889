//! Copies the trail from the store to its files, in the background.
//!
//! | if the process dies | then |
//! |---|---|
//! | before the files have a batch | it is read from the store again |
//! | after that, before the mark | the files themselves know how far they are, and take none twice |
//! | after the mark | there is nothing to do again |
//!
//! The records stay in the store while the files cannot be written; an error is logged, and the archiver tries again. No
//! delivery waits for it. While jobs are being delivered it rests between two batches, so that they go first; the later
//! the files are, the less it rests, so that they cannot fall behind for long.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use recado_audit::{Content, Entry, Month, Options, Query, Trail};
use recado_core::{AuditEvent, RetryDecision, Timestamp, reason};
use recado_store::{AuditSpan, AuditTrim, StoreError};
use tokio::time::Instant;

use super::lease::{ArchiverState, source};
use super::{AuditTrail, Files, Reach, TrailTerms, off_thread, on_files};
use crate::error::TrailError;

/// Records that are copied at a time, of all parts together: every batch is forced to disk, signed and marked.
const BATCH_RECORDS: usize = 8_000;

/// Time between two looks when there is nothing to copy.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Duty cycle while jobs are being delivered: the archiver works `lag / LATE_MAX` of the time.
const LATE_MAX: Duration = Duration::from_secs(60);

const REST_MAX: Duration = Duration::from_secs(1);

/// Wait before files that could not be written are tried again.
const RETRY_EVERY: Duration = Duration::from_secs(5);

/// A stop waits this long at most for what is left to be copied. What is not stays in the store.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Time between two rounds of trimming, and batches of a part in one round.
const TRIM_EVERY: Duration = Duration::from_secs(10);
const TRIM_BATCHES_MAX: usize = 20;

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
    /// The files have every record.
    UpToDate,
    /// Another node archives.
    NotOurs,
}

/// Archives until the engine has stopped.
pub(crate) async fn run(trail: Arc<AuditTrail>, terms: TrailTerms) {
    let mut duties = Duties::default();
    loop {
        let (began, now) = (Instant::now(), trail.env.now());
        let round = trail.archive_round(&mut *trail.archive.files.lock().await, &terms).await;
        let wait = match round {
            Ok(ArchiveRound::Copied { up_to }) => match trail.env.lifecycle.deliveries.is_empty() {
                true => Duration::ZERO,
                false => rest(began.elapsed(), now.since(up_to)),
            },
            Ok(ArchiveRound::UpToDate) => {
                duties.run(&trail, &terms).await;
                LOOK_EVERY
            }
            Ok(ArchiveRound::NotOurs) => LOOK_EVERY,
            Err(TrailError::Store(StoreError::Broken(error))) => {
                return trail.env.lifecycle.fail_store(&error);
            }
            Err(error) => {
                tracing::error!(%error, "Cannot write the audit trail; its records stay in the store, and it is tried again");
                RETRY_EVERY
            }
        };
        tokio::select! {
            biased;
            () = trail.env.lifecycle.stopped.cancelled() => break,
            () = tokio::time::sleep(wait) => {}
        }
    }
    if tokio::time::timeout(DRAIN_MAX, trail.drain(&terms)).await.is_err() {
        tracing::warn!(
            "Not all of the audit trail is in its files; the rest stays in the store for the next start"
        );
    }
}

impl AuditTrail {
    /// Copies what is left, and lets another node take over.
    async fn drain(&self, terms: &TrailTerms) {
        let mut writer = self.archive.files.lock().await;
        loop {
            match self.archive_round(&mut writer, terms).await {
                Ok(ArchiveRound::Copied { .. }) => {}
                Ok(ArchiveRound::UpToDate) => break,
                Ok(ArchiveRound::NotOurs) => return,
                Err(error) => {
                    tracing::warn!(%error, "Cannot write the audit trail; its records stay in the store for the next start");
                    break;
                }
            }
        }
        *writer = None;
        if let Ok(Some(mut lease)) = self.take_lease().await
            && let Err(error) = lease.release(self.env.now()).await
        {
            tracing::debug!(%error, "Cannot give up the right to archive; it ends by itself");
        }
    }

    /// Takes the right to archive if it is free, copies a batch of each part, and knows how far the files are.
    pub(super) async fn archive_round(
        &self,
        writer: &mut Option<Files>,
        terms: &TrailTerms,
    ) -> Result<ArchiveRound, TrailError> {
        let began = self.env.now();
        let round = self.copy_batch(writer, terms, began).await?;
        let reach = match round {
            ArchiveRound::Copied { up_to } => Reach::Here { whole_until: up_to },
            ArchiveRound::UpToDate => Reach::Here { whole_until: began },
            ArchiveRound::NotOurs => {
                *writer = None;
                Reach::Elsewhere
            }
        };
        self.archive.progress.lock().reach = reach;
        Ok(round)
    }

    async fn copy_batch(
        &self,
        writer: &mut Option<Files>,
        terms: &TrailTerms,
        began: Timestamp,
    ) -> Result<ArchiveRound, TrailError> {
        let Some(mut lease) = self.take_lease().await? else { return Ok(ArchiveRound::NotOurs) };
        let files = match writer.take().filter(|files| files.store == lease.state.store) {
            Some(files) => files,
            None => {
                let files = open(terms, lease.state.store.clone()).await?;
                self.warn_of_gaps(&files, &lease.state.archived);
                self.refuse_newer_files(&files, &lease.state, terms).await?;
                files
            }
        };
        let (mut entries, mut more) = (Vec::new(), None::<Timestamp>);
        let marked = lease.state.archived.clone();
        let parts = self.store.audit_parts();
        let share = BATCH_RECORDS / usize::from(parts.max(1)) + 1;
        for part in 0..parts {
            let after = match self.store.is_shared() {
                true => lease.state.archived(part).max(files.archived(part)),
                // No other node can have the rest: files that are behind were put back, and records still in the
                // store are copied again.
                false => files.archived(part),
            };
            if after > 0 || lease.state.archived(part) > 0 {
                lease.state.archived.insert(part, after);
            }
            let span = AuditSpan { part, after, newest_first: false };
            let records = self.store.audit_records(span, share).await?;
            let source = source(&lease.state.store, part);
            if let Some(last) = records.last() {
                lease.state.archived.insert(part, last.number);
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
            *writer = Some(files);
            // A process before this one copied what it could not mark any more.
            let ours = lease.state.archived == marked || self.mark(&mut lease, began).await?;
            return Ok(if ours { ArchiveRound::UpToDate } else { ArchiveRound::NotOurs });
        }
        let now = self.env.now();
        let (files, appended) = on_files(files, move |trail| trail.append(&entries, now)).await?;
        // After a failure the files are opened anew, which finds out what is on disk.
        appended?;
        *writer = Some(files);
        if !self.mark(&mut lease, more.unwrap_or(began)).await? {
            return Ok(ArchiveRound::NotOurs);
        }
        Ok(more.map_or(ArchiveRound::UpToDate, |up_to| ArchiveRound::Copied { up_to }))
    }

    /// Warns of records that were archived and are not in these files: they were removed, or are in another node's.
    fn warn_of_gaps(&self, files: &Files, archived: &BTreeMap<u16, u64>) {
        let what = match self.store.is_shared() {
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

    /// Refuses files that go further than the store ever did: its new records would get numbers that the files have, and
    /// would be taken for archived. In a shared store numbers follow the time.
    async fn refuse_newer_files(
        &self,
        files: &Files,
        state: &ArchiverState,
        terms: &TrailTerms,
    ) -> Result<(), TrailError> {
        for part in (0..self.store.audit_parts()).filter(|_| !self.store.is_shared()) {
            let last = files.archived(part);
            // A process that died before its mark left files that are ahead. What is not marked is not trimmed either.
            if last <= state.archived(part) {
                continue;
            }
            let span = AuditSpan { part, after: last - 1, newest_first: false };
            let stored = self.store.audit_records(span, 1).await?.pop();
            let stored = stored.filter(|record| record.number == last).ok_or(TrailError::StoreIsOlder)?;
            let (dir, source) = (terms.dir.clone(), source(&state.store, part));
            let archived = off_thread(move || archived_event(&dir, &source, last)).await??;
            // What an erasure blanks is not compared.
            let facts = |event: &AuditEvent| (event.timestamp, event.kind);
            if archived.is_some_and(|event| facts(&event) != facts(&stored.event)) {
                return Err(TrailError::StoreIsOlder);
            }
        }
        Ok(())
    }

    /// Lets the store forget what is archived and no longer needed there: what is about no job that it knows, once it is
    /// of this age.
    pub(super) async fn trim(&self, forgotten_kept: Duration) -> Result<(), TrailError> {
        let (now, kept) = (self.env.now(), self.jobs_kept);
        let Some(state) = ArchiverState::read(&*self.store, now).await? else { return Ok(()) };
        let ago = |age: Duration| {
            let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            Timestamp::from_millis(now.as_millis().saturating_sub(age).max(0))
        };
        for (part, up_to) in state.archived {
            let trim =
                AuditTrim { part, up_to, before: ago(kept), forgotten_before: ago(kept.min(forgotten_kept)) };
            for _ in 0..TRIM_BATCHES_MAX {
                if self.store.trim_audit(trim).await? == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn drop_old_months(&self, months: u32, now: Timestamp) -> Result<(), TrailError> {
        let mut writer = self.archive.files.lock().await;
        let Some(files) = writer.take() else { return Ok(()) };
        let (files, dropped) = on_files(files, move |trail| trail.drop_older_than(months, now)).await?;
        *writer = Some(files);
        for summary in dropped? {
            tracing::warn!(
                segment = %summary.segment,
                records = summary.end.sequence + 1 - summary.first_sequence,
                "An expired month of the audit trail was deleted; a signed summary stays"
            );
        }
        Ok(())
    }
}

fn rest(worked: Duration, late: Duration) -> Duration {
    let rest_per_work = LATE_MAX.as_secs_f64() / late.as_secs_f64().max(0.001) - 1.0;
    worked.mul_f64(rest_per_work.max(0.0)).min(REST_MAX)
}

fn bounded(mut event: AuditEvent) -> AuditEvent {
    let RetryDecision { error_code, error_message, retry_reason, .. } = &mut event.decision;
    for text in [error_code, error_message, retry_reason].into_iter().flatten() {
        if text.len() > TEXT_MAX_BYTES {
            *text = reason::clip(text, TEXT_MAX_BYTES).into();
        }
    }
    event
}

/// Finds the event that the files have under this number of a store, unless its month was dropped.
fn archived_event(dir: &Path, source: &str, number: u64) -> Result<Option<AuditEvent>, recado_audit::Error> {
    let mut found = None;
    recado_audit::walk(dir, &Query::default(), |record| match record.content {
        Content::Event { source: its, source_sequence, event, .. }
            if *its == *source && source_sequence <= number =>
        {
            found = Some(event).filter(|_| source_sequence == number);
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    Ok(found)
}

async fn open(terms: &TrailTerms, store: Box<str>) -> Result<Files, TrailError> {
    let (dir, options) = (terms.dir.clone(), Options { key: terms.key.clone(), ..Options::default() });
    let trail = off_thread(move || Trail::open(&dir, &options)).await??;
    if let Some(recovered) = trail.recovered() {
        tracing::warn!(%recovered, "The audit trail was not closed cleanly, and was repaired");
    }
    Ok(Files { trail, store })
}

/// Periodic work while there is nothing to copy: trimming, expired months.
#[derive(Debug, Default)]
struct Duties {
    trimmed_at: Option<Instant>,
    /// The month in which expired months were last deleted.
    dropped_in: Option<Month>,
}

impl Duties {
    async fn run(&mut self, trail: &AuditTrail, terms: &TrailTerms) {
        if self.trimmed_at.is_none_or(|at| at.elapsed() >= TRIM_EVERY) {
            self.trimmed_at = Some(Instant::now());
            if let Err(error) = trail.trim(FORGOTTEN_KEPT).await {
                tracing::warn!(%error, "Cannot trim the audit trail in the store; trying again later");
            }
        }
        let now = trail.env.now();
        if self.dropped_in != Some(Month::of(now)) {
            self.dropped_in = Some(Month::of(now));
            if let Err(error) = trail.drop_old_months(terms.months_kept, now).await {
                tracing::error!(%error, "Cannot delete expired months of the audit trail");
            }
        }
    }
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
        assert_eq!(rests(4_000), [1_000, 1_000, 1_000, 0, 0], "however long a batch took");
    }
}
