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
use recado_store::StoreError;

use crate::codec::answer::Answer;
use crate::codec::keys::{self, IdKey};
use crate::link::Arg;
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

    /// Reserves the ids that have another home than the partition. Answers those that are taken elsewhere, and by
    /// which partition.
    pub(crate) async fn reserve(
        &self,
        partition: u16,
        ids: impl Iterator<Item = &JobId> + Send,
    ) -> Result<BTreeMap<JobId, u16>, StoreError> {
        let mut taken = BTreeMap::new();
        let own = mark(partition);
        for (home, ids) in self.away(partition, ids) {
            let args = marked_args(&own, ids.iter().map(|(_, key)| key));
            let answers = self.run(&self.scripts.reserve, home, &args).await?.list()?;
            for ((id, _), answer) in ids.into_iter().zip(answers) {
                let answer = answer.bytes()?;
                if answer != own.as_bytes() {
                    taken.insert(id.clone(), marked(&answer).unwrap_or(home));
                }
            }
        }
        Ok(taken)
    }

    /// Lets go of ids that a partition has forgotten.
    pub(crate) async fn release(&self, partition: u16, ids: Vec<JobId>) -> Result<(), StoreError> {
        for (home, ids) in self.away(partition, ids.iter()) {
            let own = mark(partition);
            let args = marked_args(&own, ids.iter().map(|(_, key)| key));
            self.run(&self.scripts.release, home, &args).await?;
        }
        Ok(())
    }

    /// Those of these ids that cannot be taken in here, because another partition has them.
    pub(crate) async fn refused<'a>(
        &self,
        partition: u16,
        ids: impl Iterator<Item = &'a JobId> + Send,
    ) -> Result<HashSet<JobId>, StoreError> {
        if self.has_one_partition() {
            return Ok(HashSet::new());
        }
        let taken = self.reserve(partition, ids).await?;
        Ok(taken.into_keys().collect())
    }

    /// Ids whose home is not this partition, by their home.
    fn away<'a>(
        &self,
        partition: u16,
        ids: impl Iterator<Item = &'a JobId>,
    ) -> BTreeMap<u16, Vec<(&'a JobId, IdKey)>> {
        let mut away: BTreeMap<u16, Vec<(&JobId, IdKey)>> = BTreeMap::new();
        for id in ids {
            let key = IdKey::of(id);
            let home = self.home_of(&key);
            if home != partition {
                away.entry(home).or_default().push((id, key));
            }
        }
        away
    }

    /// Runs a script about a job at its id's home, or at the partition that the home names.
    pub(crate) async fn run_where_job_is(
        &self,
        id: &JobId,
        script: &crate::link::Script,
    ) -> Result<(u16, Answer), StoreError> {
        let key = IdKey::of(id);
        let args = [Arg::Int(i64::from(key.bucket)), Arg::from(&*key.bytes)];
        let home = self.home_of(&key);
        let answer = self.run(script, home, &args).await?;
        match &answer.0 {
            redis::Value::BulkString(text) => match marked(text) {
                Some(partition) => Ok((partition, self.run(script, partition, &args).await?)),
                None => Ok((home, answer)),
            },
            _ => Ok((home, answer)),
        }
    }
}

fn marked_args<'a>(own: &'a str, keys: impl Iterator<Item = &'a IdKey>) -> Vec<Arg<'a>> {
    let mut args = vec![Arg::from(own)];
    for key in keys {
        args.push(Arg::Int(i64::from(key.bucket)));
        args.push(Arg::from(&*key.bytes));
    }
    args
}
