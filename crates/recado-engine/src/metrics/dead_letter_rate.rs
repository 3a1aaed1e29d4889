//! Counts the dead letters of each hour: the entry rate of the queue.
//!
//! Counted as they come, so that nothing is scanned and those that have left again count too. Counts are kept in memory
//! and added to one entry an hour in the store every few seconds; a crash costs those seconds, a stop nothing. Several
//! nodes add to the same entries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::Timestamp;
use recado_store::{KeyValue, Namespace, StoreError};

use crate::clock::Clock;
use crate::lifecycle::Lifecycle;
use crate::shared::entry::{Edit, EntryKey, update_entry};

pub(crate) const NAMESPACE: Namespace = Namespace::new("dlq-hours");

/// Hours that are shown; entries are kept a little longer.
const HOURS: usize = 24;
const KEPT: Duration = Duration::from_secs(26 * 60 * 60);

const HOUR_MS: i64 = 3_600_000;

/// Time between two writes of the counts.
const WRITE_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct DeadLetterRate {
    kv: Arc<dyn KeyValue>,
    clock: Arc<dyn Clock>,
    /// Counts that are not in the store yet, by the hour's number.
    unwritten: Mutex<BTreeMap<i64, u64>>,
}

impl DeadLetterRate {
    pub(crate) fn new(kv: Arc<dyn KeyValue>, clock: Arc<dyn Clock>) -> Self {
        DeadLetterRate { kv, clock, unwritten: Mutex::default() }
    }

    /// Counts a dead letter that came in.
    pub(crate) fn count(&self, now: Timestamp) {
        *self.unwritten.lock().entry(now.as_millis().div_euclid(HOUR_MS)).or_default() += 1;
    }

    pub(crate) async fn run(self: Arc<Self>, lifecycle: Arc<Lifecycle>) {
        loop {
            let goes_on = lifecycle.rest(WRITE_EVERY).await;
            if let Err(error) = self.write_counts().await {
                tracing::warn!(%error, "Cannot write down how many dead letters came in; trying again");
            }
            if !goes_on {
                return;
            }
        }
    }

    async fn write_counts(&self) -> Result<(), StoreError> {
        let counted = std::mem::take(&mut *self.unwritten.lock());
        for (hour, count) in counted {
            if let Err(error) = self.add(hour, count).await {
                *self.unwritten.lock().entry(hour).or_default() += count;
                return Err(error);
            }
        }
        Ok(())
    }

    async fn add(&self, hour: i64, count: u64) -> Result<(), StoreError> {
        let key = EntryKey { namespace: NAMESPACE, key: &hour.to_string() };
        let expires_at = Some(Timestamp::from_millis(hour * HOUR_MS).plus(KEPT));
        let adding = update_entry(&*self.kv, key, self.clock.now(), |known: Option<&u64>| {
            let value = Some(known.copied().unwrap_or(0) + count);
            Some(Edit { value, expires_at, audit: Vec::new() })
        });
        adding.await.map(drop)
    }

    /// Returns the dead letters of each of the last 24 hours, this one included; oldest first, by the hour's beginning.
    pub async fn entries_per_hour(&self) -> Result<Vec<(Timestamp, u64)>, StoreError> {
        let now = self.clock.now();
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        for entry in self.kv.kv_list(NAMESPACE, now).await? {
            if let (Ok(hour), Ok(count)) = (entry.key.parse(), entry.value.parse()) {
                counts.insert(hour, count);
            }
        }
        for (hour, count) in &*self.unwritten.lock() {
            *counts.entry(*hour).or_default() += count;
        }
        let this = now.as_millis().div_euclid(HOUR_MS);
        let hours = (this + 1 - HOURS as i64)..=this;
        let count_of =
            |hour| (Timestamp::from_millis(hour * HOUR_MS), counts.get(&hour).copied().unwrap_or(0));
        Ok(hours.map(count_of).collect())
    }
}
