//! The part of a move that is the audit trail.
//!
//! Archived records are in the trail's files, and stay there. Others must arrive, so that the next server
//! archives them: records about jobs travel with them, all others here. Records that have arrived are known
//! by their content, so a move that was cut off goes on behind them.

use std::collections::HashMap;

use recado_core::AuditEvent;
use recado_core::payload::digest_of;
use recado_engine::audit::archived_in;
use recado_store::{AuditRecord, AuditSpan, Fence, FencedWrite};

use super::{MoveError, Side, Tally};

/// Records that are carried at a time.
const LOAD_RECORDS: usize = 1_000;

/// Unarchived records in a store, by content, with their counts.
#[derive(Debug, Default)]
pub struct Unarchived(HashMap<u128, u64>);

impl Unarchived {
    pub async fn of(side: Side<'_>) -> Result<Self, MoveError> {
        let (mut all, mut walk) = (Unarchived::default(), Walk::of(side).await?);
        while let Some(records) = walk.next().await? {
            records.iter().for_each(|record| *all.0.entry(digest(&record.event)).or_default() += 1);
        }
        Ok(all)
    }

    /// Takes out the newest records of a job's trail that are here; how many they are.
    pub fn take_from(&mut self, trail: &[AuditEvent]) -> usize {
        trail.iter().rev().take_while(|event| self.take(event)).count()
    }

    fn take(&mut self, event: &AuditEvent) -> bool {
        match self.0.get_mut(&digest(event)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }

    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for (digest, count) in &self.0 {
            (0..*count).for_each(|_| tally.add(*digest));
        }
        tally
    }
}

/// Copies what is left once jobs have taken theirs.
pub async fn copy(from: Side<'_>, to: Side<'_>, fence: Fence, mut left: Unarchived) -> Result<(), MoveError> {
    // Records that belong to none of the target's jobs.
    let mut arrived = Unarchived::of(to).await?;
    let read = to.each_load(async |jobs| {
        for job in &jobs {
            arrived.take_from(&job.audit);
        }
        Ok(())
    });
    read.await?;
    let mut walk = Walk::of(from).await?;
    while let Some(records) = walk.next().await? {
        let missing = records.into_iter().map(|record| record.event);
        let missing: Vec<AuditEvent> =
            missing.filter(|event| left.take(event) && !arrived.take(event)).collect();
        if !missing.is_empty() {
            to.write(fence, FencedWrite::Record(missing)).await?;
        }
    }
    Ok(())
}

/// Goes through all that is not archived, part by part.
struct Walk<'a> {
    side: Side<'a>,
    /// The place to go on, of each part that has more.
    spans: Vec<AuditSpan>,
}

impl<'a> Walk<'a> {
    async fn of(side: Side<'a>) -> Result<Self, MoveError> {
        let archived = side.at(archived_in(side.store, side.now).await)?;
        let span = |part| {
            let after = archived.get(&part).copied().unwrap_or(0);
            AuditSpan { part, after, newest_first: false }
        };
        Ok(Walk { side, spans: (0..side.store.audit_parts()).rev().map(span).collect() })
    }

    async fn next(&mut self) -> Result<Option<Vec<AuditRecord>>, MoveError> {
        while let Some(span) = self.spans.last_mut() {
            let records = self.side.at(self.side.store.audit_records(*span, LOAD_RECORDS).await)?;
            if let Some(last) = records.last() {
                span.after = last.number;
                return Ok(Some(records));
            }
            self.spans.pop();
        }
        Ok(None)
    }
}

fn digest(event: &AuditEvent) -> u128 {
    digest_of(&[&format!("{event:?}")])
}
