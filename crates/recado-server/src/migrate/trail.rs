//! The part of a move that is the audit trail.
//!
//! Archived records are in the trail's files, and stay there. Others must arrive, so that the next server
//! archives them: records about jobs travel with them, all others here. Records that have arrived are known
//! by their content, so a move that was cut off goes on behind them.

use std::collections::HashMap;

use recado_core::payload::digest_of;
use recado_core::{AuditEvent, Timestamp};
use recado_engine::audit::archived_in;
use recado_store::{AuditRecord, AuditSpan, Fence, FencedWrite, Store, StoreError};

use super::{LOAD_JOBS, MoveError, Named, Tally};

/// Records that are carried at a time.
const LOAD_RECORDS: usize = 1_000;

/// Unarchived records in a store, by content, with their counts.
#[derive(Debug, Default)]
pub struct Unarchived(HashMap<u128, u64>);

impl Unarchived {
    pub async fn of(store: &dyn Store, now: Timestamp) -> Result<Self, StoreError> {
        let (mut all, mut walk) = (Unarchived::default(), Walk::of(store, now).await?);
        while let Some(records) = walk.next(store).await? {
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
pub async fn copy(
    from: &Named,
    to: &Named,
    fence: Fence,
    mut left: Unarchived,
    now: Timestamp,
) -> Result<(), MoveError> {
    let mut arrived = of_nobody(&*to.store, now).await.map_err(MoveError::target)?;
    let source = &*from.store;
    let mut walk = Walk::of(source, now).await.map_err(MoveError::source)?;
    while let Some(records) = walk.next(source).await.map_err(MoveError::source)? {
        let missing = records.into_iter().map(|record| record.event);
        let missing: Vec<AuditEvent> =
            missing.filter(|event| left.take(event) && !arrived.take(event)).collect();
        if !missing.is_empty() {
            to.store.write_fenced(fence, FencedWrite::Record(missing)).await.map_err(MoveError::target)?;
        }
    }
    Ok(())
}

/// Records in a store that belong to none of its jobs.
async fn of_nobody(store: &dyn Store, now: Timestamp) -> Result<Unarchived, StoreError> {
    let mut all = Unarchived::of(store, now).await?;
    let mut after = None;
    loop {
        let page = store.transfers(after, LOAD_JOBS).await?;
        for transfer in &page.items {
            all.take_from(&transfer.audit);
        }
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// Goes through all that is not archived, part by part.
struct Walk {
    /// The place to go on, of each part that has more.
    spans: Vec<AuditSpan>,
}

impl Walk {
    async fn of(store: &dyn Store, now: Timestamp) -> Result<Self, StoreError> {
        let archived = archived_in(store, now).await?;
        let span = |part| {
            let after = archived.get(&part).copied().unwrap_or(0);
            AuditSpan { part, after, newest_first: false }
        };
        Ok(Walk { spans: (0..store.audit_parts()).rev().map(span).collect() })
    }

    async fn next(&mut self, store: &dyn Store) -> Result<Option<Vec<AuditRecord>>, StoreError> {
        while let Some(span) = self.spans.last_mut() {
            let records = store.audit_in(*span, LOAD_RECORDS).await?;
            match records.last() {
                Some(last) => {
                    span.after = last.number;
                    return Ok(Some(records));
                }
                None => {
                    self.spans.pop();
                }
            }
        }
        Ok(None)
    }
}

fn digest(event: &AuditEvent) -> u128 {
    digest_of(&[&format!("{event:?}")])
}
