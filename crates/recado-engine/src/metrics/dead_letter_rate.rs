//! Counts the dead letters of each hour: the entry rate of the queue.
//!
//! Counted as they come, so that nothing is scanned and those that have left again count too. Counts are kept
//! in memory and added to a note an hour every few seconds; a crash costs those seconds, a stop nothing. Several
//! nodes add to the same notes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{Payload, Timestamp};
use recado_store::{KvWrite, KvWritten, Namespace, StoreError};

use crate::engine::{Engine, EngineError, Inner};

pub const NAMESPACE: Namespace = Namespace::new("dlq-hours");

/// Hours that are told of; notes are kept a little longer.
pub const HOURS: usize = 24;
const KEPT: Duration = Duration::from_secs(26 * 60 * 60);

const HOUR_MS: i64 = 3_600_000;

/// Between two notes.
const NOTED_EVERY: Duration = Duration::from_secs(5);

/// Tries at writing a note that another node changed meanwhile.
const NOTE_TRIES: usize = 8;

/// Entries that are not on a note yet, by the hour's number.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    unwritten: Mutex<BTreeMap<i64, u64>>,
}

impl Entries {
    pub fn count(&self, now: Timestamp) {
        *self.unwritten.lock().entry(now.as_millis().div_euclid(HOUR_MS)).or_default() += 1;
    }
}

pub(crate) async fn run(engine: Arc<Inner>) {
    loop {
        let stopping = tokio::select! {
            () = engine.stopping.cancelled() => true,
            () = tokio::time::sleep(NOTED_EVERY) => false,
        };
        if let Err(error) = write_down(&engine).await {
            tracing::warn!(%error, "cannot write down how many dead letters came in; trying again");
        }
        if stopping {
            return;
        }
    }
}

async fn write_down(engine: &Inner) -> Result<(), StoreError> {
    let counted = std::mem::take(&mut *engine.entries.unwritten.lock());
    for (hour, count) in counted {
        if let Err(error) = add(engine, hour, count).await {
            *engine.entries.unwritten.lock().entry(hour).or_default() += count;
            return Err(error);
        }
    }
    Ok(())
}

async fn add(engine: &Inner, hour: i64, count: u64) -> Result<(), StoreError> {
    let key: Box<str> = hour.to_string().into();
    let now = engine.clock.now();
    for _ in 0..NOTE_TRIES {
        let note = engine.store.kv_get(NAMESPACE, &key, now).await?;
        let known: u64 = note.as_ref().and_then(|note| note.value.parse().ok()).unwrap_or(0);
        let write = KvWrite {
            namespace: NAMESPACE,
            key: key.clone(),
            value: Some(Payload::trusted((known + count).to_string())),
            expect: Some(note.map_or(0, |note| note.version)),
            expires_at: Some(Timestamp::from_millis(hour * HOUR_MS).plus(KEPT)),
            audit: Vec::new(),
        };
        if let Some(KvWritten::Done { .. }) = engine.store.kv_write(vec![write], now).await?.first() {
            return Ok(());
        }
    }
    Err(StoreError::Unavailable("others count too fast".to_owned()))
}

impl Engine {
    /// Dead letters of each of the last 24 hours, this one included; oldest first, by the hour's beginning.
    pub async fn entries_per_hour(&self) -> Result<Vec<(Timestamp, u64)>, EngineError> {
        let now = self.now();
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        for note in self.store().kv_list(NAMESPACE, now).await? {
            if let (Ok(hour), Ok(count)) = (note.key.parse(), note.value.parse()) {
                counts.insert(hour, count);
            }
        }
        for (hour, count) in &*self.inner.entries.unwritten.lock() {
            *counts.entry(*hour).or_default() += count;
        }
        let this = now.as_millis().div_euclid(HOUR_MS);
        let hours = (this + 1 - HOURS as i64)..=this;
        let told = |hour| (Timestamp::from_millis(hour * HOUR_MS), counts.get(&hour).copied().unwrap_or(0));
        Ok(hours.map(told).collect())
    }
}
