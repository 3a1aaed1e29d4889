//! Several partitions as one store.
//!
//! An id is unique over all of them. Where a job's partition is not the home of its id, the id is reserved in its home
//! first: the home keeps a mark that names the job's partition. A crash between the two leaves a mark without a
//! job, and the same request again goes on from there. A request for that id by a company of another
//! partition is a conflict.
//!
//! Order numbers of all partitions make one order. Numbers grow with time, so it is about the order of
//! arrival.

use std::collections::{BTreeMap, HashSet};

use recado_core::{CompanyId, JobId, Timestamp};
use recado_store::StoreResult;
use redis::{FromRedisValue, Value};

use crate::codec::keys::{self, IdKey};
use crate::link::Script;
use crate::store::RedisStore;

/// 2025-01-01: numbers count from there, so that they stay short.
const NUMBERS_BEGIN_MS: i64 = 1_735_689_600_000;

/// Numbers of a partition in a millisecond. A partition that needs more runs ahead of the time for a while.
const NUMBERS_PER_MS: i64 = 16;

/// Larger than every order number, and still exact in a script.
pub const BEYOND_ALL: u64 = 1 << 52;

/// Begins a mark; a number does not.
const MARK: char = '@';

pub fn mark(partition: u16) -> String {
    format!("{MARK}{partition}")
}

/// The partition that a mark names.
pub fn marked(text: &[u8]) -> Option<u16> {
    std::str::from_utf8(text).ok()?.strip_prefix(MARK)?.parse().ok()
}

/// Values that belong to each partition, in order.
pub fn by_partition<T>(values: impl Iterator<Item = (u16, T)>) -> BTreeMap<u16, Vec<T>> {
    let mut sorted: BTreeMap<u16, Vec<T>> = BTreeMap::new();
    for (partition, value) in values {
        sorted.entry(partition).or_default().push(value);
    }
    sorted
}

impl RedisStore {
    pub(crate) fn has_one_partition(&self) -> bool {
        self.partition_count() == 1
    }

    pub(crate) fn partition_of(&self, company: &CompanyId) -> u16 {
        keys::partition_of(company, self.partition_count() as u16)
    }

    pub(crate) fn home_of(&self, key: &IdKey) -> u16 {
        key.home(self.partition_count() as u16)
    }

    /// The least number that a job of this moment may have: the `nth` of those that came together. One partition
    /// counts from one.
    pub(crate) fn floor(&self, now: Timestamp, nth: usize) -> i64 {
        let since = now.as_millis().saturating_sub(NUMBERS_BEGIN_MS).max(0);
        if self.has_one_partition() { 0 } else { since * NUMBERS_PER_MS + nth as i64 }
    }

    /// A number of a partition among those of all.
    pub(crate) fn order_of(&self, partition: u16, number: u64) -> u64 {
        number * self.partition_count() + u64::from(partition)
    }

    /// The least number of a partition that is not below this place in the order of all.
    pub(crate) fn number_at(&self, partition: u16, order: u64) -> u64 {
        order.saturating_sub(u64::from(partition)).div_ceil(self.partition_count())
    }

    /// Reserves the ids that have another home than the partition. Returns those that cannot be taken in here, because
    /// another partition has them.
    pub(crate) async fn reserve<'a>(
        &self,
        partition: u16,
        ids: impl Iterator<Item = &'a JobId> + Send,
    ) -> StoreResult<HashSet<JobId>> {
        let mut taken = HashSet::new();
        if self.has_one_partition() {
            return Ok(taken);
        }
        let own = mark(partition);
        for (home, ids) in self.away(partition, ids) {
            let holders: Vec<Vec<u8>> = self.run_marked(&self.scripts.reserve, home, &own, &ids).await?;
            let others = ids.into_iter().zip(holders).filter(|(_, holder)| *holder != own.as_bytes());
            taken.extend(others.map(|((id, _), _)| id.clone()));
        }
        Ok(taken)
    }

    /// Lets go of ids that a partition has forgotten.
    pub(crate) async fn release(&self, partition: u16, ids: &[JobId]) -> StoreResult<()> {
        for (home, ids) in self.away(partition, ids.iter()) {
            self.run_marked::<()>(&self.scripts.release, home, &mark(partition), &ids).await?;
        }
        Ok(())
    }

    /// Ids whose home is not this partition, by their home.
    fn away<'a>(
        &self,
        partition: u16,
        ids: impl Iterator<Item = &'a JobId>,
    ) -> BTreeMap<u16, Vec<(&'a JobId, IdKey)>> {
        let at_home = ids.map(|id| (id, IdKey::of(id))).map(|(id, key)| (self.home_of(&key), (id, key)));
        by_partition(at_home.filter(|(home, _)| *home != partition))
    }

    async fn run_marked<T: FromRedisValue>(
        &self,
        script: &Script,
        home: u16,
        mark: &str,
        ids: &[(&JobId, IdKey)],
    ) -> StoreResult<T> {
        let mut call = self.call(script, home);
        call.arg(mark);
        for (_, key) in ids {
            call.arg(key);
        }
        self.run(&call).await
    }

    /// Runs a script about a job at its id's home, or at the partition that the home names.
    pub(crate) async fn run_where_job_is(&self, id: &JobId, script: &Script) -> StoreResult<(u16, Value)> {
        let key = IdKey::of(id);
        let home = self.home_of(&key);
        let answer = self.run(self.call(script, home).arg(&key)).await?;
        let named = if let Value::BulkString(text) = &answer { marked(text) } else { None };
        match named {
            Some(partition) => Ok((partition, self.run(self.call(script, partition).arg(&key)).await?)),
            None => Ok((home, answer)),
        }
    }
}
