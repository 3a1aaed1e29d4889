//! The key-value entries of the reference: a list, scanned.

use std::collections::HashMap;

use async_trait::async_trait;
use recado_core::Timestamp;

use super::ReferenceStore;
use crate::{KeyValue, KvEntry, KvWrite, KvWritten, Namespace, StoreResult};

#[derive(Debug, Default, Clone)]
pub struct KeyValueTable {
    entries: Vec<(Namespace, KvEntry)>,
    pub last_version: u64,
    /// The version of each namespace's last change.
    changes: HashMap<Namespace, u64>,
}

impl KeyValueTable {
    pub fn write(&mut self, write: KvWrite, now: Timestamp) -> KvWritten {
        let KvWrite { namespace, key, value, expect, expires_at, audit: _ } = write;
        let current = self.get(namespace, &key, now).map_or(0, |entry| entry.version);
        if expect.is_some_and(|expected| expected != current) {
            return KvWritten::Conflict { version: current };
        }
        self.entries.retain(|(within, entry)| !(*within == namespace && entry.key == key));
        self.last_version += 1;
        let version = self.last_version;
        self.changes.insert(namespace, version);
        let Some(value) = value else { return KvWritten::Done { version: 0 } };
        self.entries.push((namespace, KvEntry { key, value, version, expires_at }));
        KvWritten::Done { version }
    }

    pub fn get(&self, namespace: Namespace, key: &str, now: Timestamp) -> Option<&KvEntry> {
        self.entries_in(namespace, now).find(|entry| *entry.key == *key)
    }

    pub fn prune(&mut self, now: Timestamp) -> u64 {
        let before = self.entries.len();
        for (namespace, _) in self.entries.iter().filter(|(_, entry)| !entry.is_there(now)) {
            self.last_version += 1;
            self.changes.insert(*namespace, self.last_version);
        }
        self.entries.retain(|(_, entry)| entry.is_there(now));
        (before - self.entries.len()) as u64
    }

    fn entries_in(&self, namespace: Namespace, now: Timestamp) -> impl Iterator<Item = &KvEntry> {
        self.entries
            .iter()
            .filter(move |(within, entry)| *within == namespace && entry.is_there(now))
            .map(|(_, entry)| entry)
    }
}

#[async_trait]
impl KeyValue for ReferenceStore {
    async fn kv_write(&self, writes: Vec<KvWrite>, now: Timestamp) -> StoreResult<Vec<KvWritten>> {
        let mut state = self.state.lock();
        let write = |mut write: KvWrite| {
            let audit = std::mem::take(&mut write.audit);
            let written = state.namespaces.write(write, now);
            if matches!(written, KvWritten::Done { .. }) {
                audit.into_iter().for_each(|event| state.record(event));
            }
            written
        };
        Ok(writes.into_iter().map(write).collect())
    }

    async fn kv_get(&self, namespace: Namespace, key: &str, now: Timestamp) -> StoreResult<Option<KvEntry>> {
        Ok(self.state.lock().namespaces.get(namespace, key, now).cloned())
    }

    async fn kv_list(&self, namespace: Namespace, now: Timestamp) -> StoreResult<Vec<KvEntry>> {
        let state = self.state.lock();
        let mut entries: Vec<KvEntry> = state.namespaces.entries_in(namespace, now).cloned().collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    async fn kv_versions(&self, namespaces: &[Namespace]) -> StoreResult<Vec<Option<u64>>> {
        let changes = &self.state.lock().namespaces.changes;
        Ok(namespaces.iter().map(|namespace| Some(changes.get(namespace).copied().unwrap_or(0))).collect())
    }
}
