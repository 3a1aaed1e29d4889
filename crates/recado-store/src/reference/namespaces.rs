//! The reference's notes: a list, scanned.

use std::collections::HashMap;

use recado_core::Timestamp;

use crate::key_value::{KvEntry, KvWrite, KvWritten, Namespace};

#[derive(Debug, Default)]
pub struct Namespaces {
    notes: Vec<(Namespace, KvEntry)>,
    last_version: u64,
    /// Changes of each namespace.
    changes: HashMap<Namespace, u64>,
}

impl Namespaces {
    pub fn write(&mut self, write: KvWrite, now: Timestamp) -> KvWritten {
        let KvWrite { namespace, key, value, expect, expires_at, audit: _ } = write;
        let current = self.get(namespace, &key, now).map_or(0, |note| note.version);
        if expect.is_some_and(|expected| expected != current) {
            return KvWritten::Conflict { version: current };
        }
        self.notes.retain(|(on, note)| !(*on == namespace && note.key == key));
        *self.changes.entry(namespace).or_default() += 1;
        let Some(value) = value else { return KvWritten::Done { version: 0 } };
        self.last_version += 1;
        let version = self.last_version;
        self.notes.push((namespace, KvEntry { key, value, version, expires_at }));
        KvWritten::Done { version }
    }

    pub fn get(&self, namespace: Namespace, key: &str, now: Timestamp) -> Option<&KvEntry> {
        self.on(namespace, now).find(|note| *note.key == *key)
    }

    pub fn list(&self, namespace: Namespace, now: Timestamp) -> Vec<KvEntry> {
        let mut notes: Vec<KvEntry> = self.on(namespace, now).cloned().collect();
        notes.sort_by(|a, b| a.key.cmp(&b.key));
        notes
    }

    pub fn prune(&mut self, now: Timestamp) -> u64 {
        let before = self.notes.len();
        for (namespace, _) in self.notes.iter().filter(|(_, note)| !note.is_there(now)) {
            *self.changes.entry(*namespace).or_default() += 1;
        }
        self.notes.retain(|(_, note)| note.is_there(now));
        (before - self.notes.len()) as u64
    }

    pub fn version(&self, namespace: Namespace) -> u64 {
        self.changes.get(&namespace).copied().unwrap_or_default()
    }

    fn on(&self, namespace: Namespace, now: Timestamp) -> impl Iterator<Item = &KvEntry> {
        self.notes
            .iter()
            .filter(move |(on, note)| *on == namespace && note.is_there(now))
            .map(|(_, note)| note)
    }
}
