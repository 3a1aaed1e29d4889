//! How full the server is: read every few seconds, and the last minutes kept.
//!
//! In a Cluster the fullest shard speaks for all: it is the first to refuse.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use redis::Value;
use tokio::time::Instant;

use super::shards::Shards;
use crate::check::Info;

const READ_EVERY: Duration = Duration::from_secs(5);

/// Five minutes.
const READINGS_KEPT: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub used_bytes: u64,
    /// Absent when the server has no limit but its machine's.
    pub max_bytes: Option<u64>,
}

impl Reading {
    /// How full it is; absent when it has no limit.
    pub fn fraction(&self) -> Option<f64> {
        self.max_bytes.map(|max| self.used_bytes as f64 / max.max(1) as f64)
    }

    pub(crate) fn of(info: &Info) -> Option<Self> {
        let max_bytes = info.number("maxmemory").filter(|max| *max > 0);
        Some(Reading { used_bytes: info.number("used_memory")?, max_bytes })
    }
}

/// Readings, oldest first, and how often a write was refused for want of memory.
#[derive(Debug, Default)]
pub struct Memory {
    readings: RwLock<VecDeque<Reading>>,
    refused: AtomicU64,
}

impl Memory {
    /// Absent until it could be read once.
    pub fn latest(&self) -> Option<Reading> {
        self.readings.read().back().copied()
    }

    pub fn readings(&self) -> Vec<Reading> {
        self.readings.read().iter().copied().collect()
    }

    /// Calls of this process that the server refused because it was full.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn count_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) async fn keep(self: Arc<Self>, shards: Arc<Shards>, timeout: Duration) {
        loop {
            tokio::time::sleep(READ_EVERY).await;
            self.read(&shards, timeout).await;
        }
    }

    pub(super) async fn read(&self, shards: &Shards, timeout: Duration) {
        let mut command = redis::cmd("INFO");
        let answers = shards.ask_all(command.arg("memory"), Instant::now() + timeout).await;
        let read = |answer: Result<Value, _>| Reading::of(&Info::read(&answer.ok()?)?);
        if let Some(fullest) = answers.into_iter().filter_map(read).reduce(fuller) {
            let mut readings = self.readings.write();
            if readings.len() == READINGS_KEPT {
                readings.pop_front();
            }
            readings.push_back(fullest);
        }
    }
}

fn fuller(one: Reading, other: Reading) -> Reading {
    let rank = |reading: &Reading| (reading.fraction().unwrap_or(0.0), reading.used_bytes);
    if rank(&other) > rank(&one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_shard_speaks_for_all() {
        let reading = |used_bytes, max_bytes| Reading { used_bytes, max_bytes };
        assert_eq!(fuller(reading(80, Some(100)), reading(90, Some(1_000))), reading(80, Some(100)));
        assert_eq!(fuller(reading(500, None), reading(90, Some(100))), reading(90, Some(100)));
        assert_eq!(fuller(reading(5, None), reading(9, None)), reading(9, None));
    }
}
