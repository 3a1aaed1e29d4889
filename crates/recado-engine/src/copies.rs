//! A shelf of notes as this process knows it.
//!
//! Whoever writes a note puts its copy here; where other nodes write too, the shelf is read again now and then.
//! What was written here while it was being read is newer than what was read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;
use recado_core::Timestamp;
use recado_store::{Shelf, Store, StoreError};
use serde::de::DeserializeOwned;

#[derive(Debug)]
pub(crate) struct Copies<T> {
    shelf: Shelf,
    /// By key.
    notes: RwLock<BTreeMap<Box<str>, Copied<T>>>,
}

#[derive(Debug)]
struct Copied<T> {
    version: u64,
    value: Arc<T>,
}

impl<T: DeserializeOwned> Copies<T> {
    pub fn of(shelf: Shelf) -> Self {
        Copies { shelf, notes: RwLock::default() }
    }

    pub async fn read_again(&self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let before: HashMap<Box<str>, u64> =
            self.notes.read().iter().map(|(key, copy)| (key.clone(), copy.version)).collect();
        let found = store.notes(self.shelf, now).await?;
        let there: HashSet<&str> = found.iter().map(|note| &*note.key).collect();
        let mut notes = self.notes.write();
        notes.retain(|key, copy| there.contains(&**key) || before.get(key) != Some(&copy.version));
        for note in found {
            let known = notes.get(&note.key).map(|copy| copy.version);
            let touched_here = before.get(&note.key).copied() != known;
            if touched_here || known == Some(note.version) {
                continue;
            }
            if let Ok(value) = note.value.parse() {
                notes.insert(note.key, Copied { version: note.version, value: Arc::new(value) });
            }
        }
        Ok(())
    }

    pub fn keep(&self, key: Box<str>, version: u64, value: T) -> Arc<T> {
        let value = Arc::new(value);
        self.notes.write().insert(key, Copied { version, value: value.clone() });
        value
    }

    pub fn remove(&self, key: &str) {
        self.notes.write().remove(key);
    }

    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        self.notes.read().get(key).map(|copy| copy.value.clone())
    }

    pub fn is_empty(&self) -> bool {
        self.notes.read().is_empty()
    }

    /// By key.
    pub fn list(&self, wanted: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let notes = self.notes.read();
        notes.values().filter(|copy| wanted(&copy.value)).map(|copy| copy.value.clone()).collect()
    }
}
