//! Memory of the server, read every few seconds.
//!
//! In a Cluster the fullest shard counts for all: it is the first to refuse.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use redis::{InfoDict, Value};
use tokio::time::Instant;

use super::shards::Shards;

const READ_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub used_bytes: u64,
    /// Absent when the server has no limit but its machine's.
    pub max_bytes: Option<u64>,
}

impl Reading {
    /// Fraction in use; absent when it has no limit.
    pub fn fraction(&self) -> Option<f64> {
        self.max_bytes.map(|max| self.used_bytes as f64 / max.max(1) as f64)
    }

    fn is_full(&self) -> bool {
        self.max_bytes.is_some_and(|max| self.used_bytes >= max)
    }

    /// Reason why new jobs are refused, and what makes room; absent while there is room.
    pub fn refusal(&self) -> Option<String> {
        let max = self.max_bytes.filter(|_| self.is_full())?;
        Some(format!(
            "Redis uses {} of {max} bytes (maxmemory); raise it, discard dead letters, or wait until [retention] forgets \
             ended jobs: what is in goes on to be delivered, and its records need room as well",
            self.used_bytes
        ))
    }

    pub(crate) fn of(info: &InfoDict) -> Option<Self> {
        let max_bytes = info.get("maxmemory").filter(|max| *max > 0);
        Some(Reading { used_bytes: info.get("used_memory")?, max_bytes })
    }
}

/// The latest reading; absent until there was one.
#[derive(Debug, Default)]
pub struct Memory(RwLock<Option<Reading>>);

impl Memory {
    pub fn latest(&self) -> Option<Reading> {
        *self.0.read()
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
        let read = |answer: Result<Value, _>| Reading::of(&redis::from_redis_value(answer.ok()?).ok()?);
        if let Some(fullest) = answers.into_iter().filter_map(read).reduce(fuller) {
            let before = self.0.write().replace(fullest);
            let was_full = before.as_ref().is_some_and(Reading::is_full);
            match (was_full, fullest.refusal()) {
                (false, Some(why)) => tracing::error!(why, "Redis is full: new jobs are refused"),
                (true, None) => tracing::warn!(
                    usedBytes = fullest.used_bytes,
                    maxBytes = fullest.max_bytes,
                    "Redis has room again: new jobs are taken"
                ),
                _ => {}
            }
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
    fn a_full_server_says_how_full_and_what_makes_room() {
        let reading = |used_bytes, max_bytes| Reading { used_bytes, max_bytes };
        assert_eq!(reading(99, Some(100)).refusal(), None);
        assert_eq!(reading(99, None).refusal(), None);
        let words = reading(101, Some(100)).refusal().unwrap_or_default();
        assert!(words.contains("101 of 100 bytes") && words.contains("[retention]"), "{words}");
    }

    #[test]
    fn the_fullest_shard_speaks_for_all() {
        let reading = |used_bytes, max_bytes| Reading { used_bytes, max_bytes };
        assert_eq!(fuller(reading(80, Some(100)), reading(90, Some(1_000))), reading(80, Some(100)));
        assert_eq!(fuller(reading(500, None), reading(90, Some(100))), reading(90, Some(100)));
        assert_eq!(fuller(reading(5, None), reading(9, None)), reading(9, None));
    }
}
