//! The dead letter queue of a move: its order, and where bulk acts stand in it.
//!
//! A store numbers its dead letters by itself. What moves is their order; a bulk act that goes on from a number of the
//! source goes on from the number that stands in the same place of the target.

use std::collections::HashMap;

use recado_core::{JobId, Payload};
use recado_engine::dlq::bulk::{self, QueuePlace};
use recado_store::{DeadLetterFilter, PageRequest, Store, StoreError};

use super::{MoveError, Side};

/// Dead letters that are read at a time.
const PAGE_ENTRIES: usize = 200;

/// The ids of all dead letters, newest first.
#[derive(PartialEq, Eq)]
pub struct Queue(Vec<JobId>);

impl Queue {
    pub async fn of(side: Side<'_>) -> Result<Self, MoveError> {
        side.at(ids_below(side.store, None).await).map(Queue)
    }

    /// The place of each, counted from 1 for the oldest.
    pub fn places(&self) -> HashMap<JobId, u64> {
        self.0.iter().rev().cloned().zip(1..).collect()
    }

    /// A bulk act's entry as it goes on in the target.
    pub async fn moved_bulk(
        &self,
        from: &dyn Store,
        to: &dyn Store,
        act: Payload,
    ) -> Result<Payload, StoreError> {
        let Some(number) = bulk::queue_number(&act) else { return Ok(act) };
        let ahead = ids_below(from, Some(number)).await?.len();
        let place = match (self.0.len().saturating_sub(ahead), ahead) {
            (_, 0) => QueuePlace::End,
            (0, _) => QueuePlace::Top,
            (passed, _) => number_behind(to, passed).await?.map_or(QueuePlace::End, QueuePlace::Below),
        };
        Ok(bulk::at_queue_place(act, place))
    }
}

/// The dead letters that come after this number in a walk; without one, all.
async fn ids_below(store: &dyn Store, mut before: Option<u64>) -> Result<Vec<JobId>, StoreError> {
    let mut ids = Vec::new();
    loop {
        let page = PageRequest { before, limit: PAGE_ENTRIES };
        let page = store.dead_letters(DeadLetterFilter::default(), page).await?;
        ids.extend(page.items.into_iter().map(|entry| entry.job_id));
        before = page.next;
        if before.is_none() {
            return Ok(ids);
        }
    }
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
