//! The leader lease: which process does a duty that only one may do at a time. Alerts, bulk acts and the archiver use it.
//!
//! A duty keeps its state in an entry that names the holder and is written by compare-and-set; every renewal gives the
//! entry a new version. Another process takes over when it has seen the same version for the length of the lease by its
//! own monotonic clock, so that no wall clock decides, whatever is done to it. A holder that was replaced finds out at
//! its next write. Where no other process can share the store, the entry is the last process's, and is taken over at
//! once.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{AuditEvent, Timestamp};
use recado_store::{KeyValue, KvWrite, Namespace, StoreResult};
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
    pub version: u64,
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

impl LeaderTerms {
    /// Gives the lease that an entry of this version holds to this process, if it may have it. Nothing is written yet: the
    /// first [`LeaderLease::save`] tells the others.
    pub fn take<T: LeaderState>(
        &self,
        key: &str,
        version: u64,
        state: T,
        watch: &mut LeaseWatch,
    ) -> Option<LeaderLease<T>> {
        let (terms, key, saved_at) = (self.clone(), key.into(), Instant::now());
        let may_take = watch.may_take(self, state.holder(), version);
        may_take.then_some(LeaderLease { terms, key, state, version, saved_at })
    }
}

impl<T: LeaderState> LeaderLease<T> {
    /// Returns the time since this process last wrote the state.
    pub fn unsaved_for(&self) -> Duration {
        self.saved_at.elapsed()
    }

    /// Writes the state and renews the lease; returns false when another process has written it since.
    pub async fn save(&mut self, now: Timestamp) -> StoreResult<bool> {
        self.save_with_audit(Vec::new(), now).await
    }

    /// Writes the state, renews the lease and writes these audit records in one step; returns false when
    /// another process has written the state since.
    pub async fn save_with_audit(&mut self, audit: Vec<AuditEvent>, now: Timestamp) -> StoreResult<bool> {
        self.state.set_holder(Some(&self.terms.node), now.plus(self.terms.length));
        self.write(audit, now).await
    }

    /// Writes the state and lets another process take over at once.
    pub async fn release(&mut self, now: Timestamp) -> StoreResult<()> {
        self.state.set_holder(None, now);
        self.write(Vec::new(), now).await.map(drop)
    }

    async fn write(&mut self, audit: Vec<AuditEvent>, now: Timestamp) -> StoreResult<bool> {
        let key = EntryKey { namespace: self.terms.namespace, key: &self.key };
        let write = write_of(key, Some(&self.state), Some(self.version))?;
        let write = KvWrite { expires_at: self.state.expires_at(), audit, ..write };
        let written = write_entry(&*self.terms.kv, write, now).await?;
        if let Some(version) = written {
            (self.version, self.saved_at) = (version, Instant::now());
        }
        Ok(written.is_some())
    }
}
