//! The leader lease: which process does a duty that only one may do at a time. Alerts, bulk acts and the archiver use it.
//!
//! A duty keeps its state in an entry that names the holder and is written by compare-and-set; every renewal gives the
//! entry a new version. Another process takes over when it has seen the same version for the length of the lease by its
//! own monotonic clock, so that no wall clock decides, whatever is done to it. A holder that was replaced finds out at
//! its next write. Where no other process can share the store, the entry is the last process's, and is taken over at
//! once.

use std::sync::Arc;
use std::time::Duration;

use recado_core::Timestamp;
use recado_store::{KeyValue, KvEntry, KvWrite, Namespace, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::shared::entry::{EntryKey, write_entry, write_of};

/// The state of a duty, which names the process that does it.
pub(crate) trait LeaderState: Clone + Serialize + DeserializeOwned + Send + Sync {
    /// Returns the holder's node; empty or absent when there is none.
    fn holder(&self) -> Option<&str>;

    /// Names the holder. `until` is read by earlier versions alone, which do not take over before it.
    fn set_holder(&mut self, node: Option<&str>, until: Timestamp);

    /// Returns the time from which on the store may forget the state.
    fn expires_at(&self) -> Option<Timestamp> {
        None
    }
}

/// The terms of a lease, and the process that asks for it.
#[derive(Clone, Debug)]
pub(crate) struct LeaderTerms {
    pub kv: Arc<dyn KeyValue>,
    pub node: Box<str>,
    pub namespace: Namespace,
    /// A holder that is silent for this long is replaced.
    pub length: Duration,
}

/// A lease that this process holds, with the duty's state. It is lost when another process writes the entry.
#[derive(Debug)]
pub(crate) struct LeaderLease<T> {
    terms: LeaderTerms,
    key: Box<str>,
    pub state: T,
    version: u64,
    saved_at: Instant,
}

/// Watches a lease that another process may hold.
#[derive(Debug, Default)]
pub(crate) struct LeaseWatch {
    /// The version of the entry, and since when it has been that one.
    seen: Option<(u64, Instant)>,
}

impl LeaseWatch {
    /// Returns true when this process may hold the lease: it is free, its own, or its holder has been silent for
    /// the length of a lease.
    fn may_take(&mut self, terms: &LeaderTerms, holder: Option<&str>, version: u64) -> bool {
        let is_free = holder.is_none_or(|holder| holder.is_empty() || *holder == *terms.node);
        if is_free || !terms.kv.is_shared() {
            self.seen = None;
            return true;
        }
        match self.seen {
            Some((seen, since)) if seen == version => since.elapsed() >= terms.length,
            _ => {
                self.seen = Some((version, Instant::now()));
                false
            }
        }
    }
}

/// The entry of a duty as the store has it.
#[derive(Debug)]
pub(crate) struct FoundLease<T> {
    key: Box<str>,
    pub state: T,
    version: u64,
}

impl<T: LeaderState> FoundLease<T> {
    /// Takes the state that the caller read of an entry, or made because there is none.
    pub fn new(key: &str, entry: Option<&KvEntry>, state: T) -> Self {
        FoundLease { key: key.into(), state, version: entry.map_or(0, |entry| entry.version) }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Gives the lease to this process if it may hold it, or the state back. Nothing is written yet: the first
    /// [`LeaderLease::save`] tells the others.
    pub fn take(self, terms: &LeaderTerms, watch: &mut LeaseWatch) -> Result<LeaderLease<T>, T> {
        let FoundLease { key, state, version } = self;
        match watch.may_take(terms, state.holder(), version) {
            true => Ok(LeaderLease { terms: terms.clone(), key, state, version, saved_at: Instant::now() }),
            false => Err(state),
        }
    }
}

impl<T: LeaderState> LeaderLease<T> {
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the time since this process last wrote the state.
    pub fn unsaved_for(&self) -> Duration {
        self.saved_at.elapsed()
    }

    /// Writes the state and renews the lease; returns false when another process has written it since.
    pub async fn save(&mut self, now: Timestamp) -> Result<bool, StoreError> {
        self.save_with(now, |write| write).await
    }

    /// Does the same, with more in the write.
    pub async fn save_with(
        &mut self,
        now: Timestamp,
        more: impl FnOnce(KvWrite) -> KvWrite,
    ) -> Result<bool, StoreError> {
        self.state.set_holder(Some(&self.terms.node), now.plus(self.terms.length));
        self.write(now, more).await
    }

    /// Writes the state and lets another process take over at once.
    pub async fn release(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.state.set_holder(None, now);
        self.write(now, |write| write).await.map(drop)
    }

    async fn write(
        &mut self,
        now: Timestamp,
        more: impl FnOnce(KvWrite) -> KvWrite,
    ) -> Result<bool, StoreError> {
        let place = EntryKey { namespace: self.terms.namespace, key: &self.key };
        let write = write_of(place, Some(&self.state), Some(self.version))?;
        let write = more(KvWrite { expires_at: self.state.expires_at(), ..write });
        match write_entry(&*self.terms.kv, write, now).await? {
            Some(version) => {
                (self.version, self.saved_at) = (version, Instant::now());
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
