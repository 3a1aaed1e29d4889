//! Small durable values, the same on every node: webhook endpoints, marks on accounts, cached answers.
//!
//! There are no locks and no transactions over several entries. A writer reads an entry, and writes it
//! back only if it still has the version that was read.

use async_trait::async_trait;
use recado_core::{AuditEvent, Payload, Timestamp};

use crate::error::StoreResult;
use crate::wake::Waker;

/// Small durable values that all nodes share, by namespace and key, written by compare-and-set.
#[async_trait]
pub trait KeyValue: Send + Sync + std::fmt::Debug + 'static {
    /// Writes entries, each atomically together with its audit records, in order. A store that runs short of
    /// room takes them like settlements: an operator who eases its load must be able to say so.
    async fn kv_write(&self, writes: Vec<KvWrite>, now: Timestamp) -> StoreResult<Vec<KvWritten>>;

    /// Wakes when another node may have written entries: caches of them are to be read again. A hint, like
    /// [`JobStore::waker`](crate::JobStore::waker). `None`: no other node writes, and this process has all there is.
    fn kv_changes(&self) -> Option<Waker> {
        None
    }

    /// Returns true if other nodes may be on this store.
    fn is_shared(&self) -> bool {
        self.kv_changes().is_some()
    }

    async fn kv_get(&self, namespace: Namespace, key: &str, now: Timestamp) -> StoreResult<Option<KvEntry>>;

    /// Returns all entries of a namespace, by key.
    async fn kv_list(&self, namespace: Namespace, now: Timestamp) -> StoreResult<Vec<KvEntry>>;

    /// Returns a number for each of these namespaces that changes when an entry there is written, removed or pruned,
    /// so that a cache reads only what has changed. `None`: the store does not tell.
    async fn kv_versions(&self, namespaces: &[Namespace]) -> StoreResult<Vec<Option<u64>>> {
        Ok(vec![None; namespaces.len()])
    }
}

/// Bytes at most in a namespace's name.
const NAME_LEN_MAX: usize = 32;

/// The kind of a key-value entry. Each use has a namespace of its own, small enough to be read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(&'static str);

impl Namespace {
    /// Made as a constant, so that a bad name does not compile:
    ///
    /// ```
    /// # use recado_store::Namespace;
    /// const ENDPOINTS: Namespace = Namespace::new("webhook-endpoints");
    /// ```
    ///
    /// # Panics
    ///
    /// If the name is not 1 to 32 lower-case letters and hyphens.
    pub const fn new(name: &'static str) -> Self {
        let bytes = name.as_bytes();
        assert!(
            !bytes.is_empty() && bytes.len() <= NAME_LEN_MAX,
            "a namespace's name has 1 to 32 characters"
        );
        let mut at = 0;
        while at < bytes.len() {
            assert!(
                bytes[at].is_ascii_lowercase() || bytes[at] == b'-',
                "a namespace's name holds only lower-case letters and hyphens"
            );
            at += 1;
        }
        Namespace(name)
    }

    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// A small durable value, by namespace and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    pub key: Box<str>,
    pub value: Payload,
    /// Grows with every write, and is never given twice in a store's life: an entry that was removed and
    /// written again never looks like the old one.
    pub version: u64,
    /// From then on it is not there any more.
    pub expires_at: Option<Timestamp>,
}

impl KvEntry {
    pub fn is_there(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }
}

#[derive(Debug, Clone)]
pub struct KvWrite {
    pub namespace: Namespace,
    pub key: Box<str>,
    /// Absent to remove the entry.
    pub value: Option<Payload>,
    /// The version that it must have for the write to happen; 0: it must not be there; absent: whatever is
    /// there.
    pub expect: Option<u64>,
    pub expires_at: Option<Timestamp>,
    /// Records that the write puts on the audit trail, in the same atomic step: all of them when it is done, and none
    /// when it is refused. They name no job: an entry may be kept where no job's trail can be reached.
    pub audit: Vec<AuditEvent>,
}

/// Answer to one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvWritten {
    /// It has this version now; 0 when it was removed.
    Done { version: u64 },
    /// It is not what was expected and nothing changed; 0 when it is not there.
    Conflict { version: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_a_short_plain_name() {
        assert_eq!(Namespace::new("webhook-endpoints").as_str(), "webhook-endpoints");
        assert_eq!(Namespace::new("abcdefghijklmnopqrstuvwxyzabcdef").as_str().len(), NAME_LEN_MAX);
        for bad in ["", "Accounts", "a_b", "conta-é", "a b", "abcdefghijklmnopqrstuvwxyzabcdefg"] {
            assert!(std::panic::catch_unwind(|| Namespace::new(bad)).is_err(), "{bad:?} was taken");
        }
    }
}
