//! The dead letter queue of a move: its order, and where bulk acts stand in it.
//!
//! A store numbers its dead letters by itself. What moves is their order; a bulk act that goes on from a number of the
//! source goes on from the number that stands in the same place of the target.

use std::collections::HashMap;

use recado_core::{JobId, Payload};
use recado_engine::dlq::bulk::{self, QueuePlace};
use recado_store::{DeadLetterFilter, PageRequest, Store, StoreError};

/// Dead letters that are read at a time.
const PAGE_ENTRIES: usize = 200;

/// The ids of all dead letters, newest first.
pub struct Queue(Vec<JobId>);

impl Queue {
    pub async fn of(store: &dyn Store) -> Result<Self, StoreError> {
        let (mut ids, mut before) = (Vec::new(), None);
        loop {
            let page = PageRequest { before, limit: PAGE_ENTRIES };
            let page = store.dead_letters(DeadLetterFilter::default(), page).await?;
            ids.extend(page.items.into_iter().map(|entry| entry.job_id));
            before = page.next;
            if before.is_none() {
                return Ok(Queue(ids));
            }
        }
    }

    /// The place of each, counted from 1 for the oldest.
    pub fn places(&self) -> HashMap<JobId, u64> {
        self.0.iter().rev().cloned().zip(1..).collect()
    }

    pub fn is_same_as(&self, other: &Queue) -> bool {
        self.0 == other.0
    }

    /// A bulk act's note as it goes on in the target.
    pub async fn moved_bulk(
        &self,
        from: &dyn Store,
        to: &dyn Store,
        note: Payload,
    ) -> Result<Payload, StoreError> {
        let Some(number) = bulk::queue_number(&note) else { return Ok(note) };
        let ahead = count_below(from, number).await?;
        let place = match (self.0.len().saturating_sub(ahead), ahead) {
            (_, 0) => QueuePlace::End,
            (0, _) => QueuePlace::Top,
            (passed, _) => number_behind(to, passed).await?.map_or(QueuePlace::End, QueuePlace::Below),
        };
        Ok(bulk::at_queue_place(note, place))
    }
}

/// Counts the dead letters that come after this number in a walk.
async fn count_below(store: &dyn Store, number: u64) -> Result<usize, StoreError> {
    let (mut count, mut before) = (0, Some(number));
    while before.is_some() {
        let page = PageRequest { before, limit: PAGE_ENTRIES };
        let page = store.dead_letters(DeadLetterFilter::default(), page).await?;
        count += page.items.len();
        before = page.next;
    }
    Ok(count)
}

/// The number that a walk goes on below after the newest so many.
async fn number_behind(store: &dyn Store, mut passed: usize) -> Result<Option<u64>, StoreError> {
    let mut before = None;
    while passed > 0 {
        let page = PageRequest { before, limit: passed.min(PAGE_ENTRIES) };
        let page = store.dead_letters(DeadLetterFilter::default(), page).await?;
        passed -= page.items.len();
        before = page.next;
        if before.is_none() {
            return Ok(None);
        }
    }
    Ok(before)
}
