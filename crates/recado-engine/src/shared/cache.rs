//! A namespace of entries as this process knows it.
//!
//! A writer of an entry puts its copy here; where other nodes write too, the namespace is read again now and then.
//! A value written here while it was being read is newer than the one read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::RwLock;
use recado_core::{AuditEvent, CompanyId, Timestamp};
use recado_store::{KeyValue, KvWrite, Namespace, StoreResult};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::Clock;
use crate::shared::entry::{Edit, EntryKey, read_entry, update_entry, write_entry, write_of};

/// A value that belongs to a company.
pub(crate) trait BelongsToCompany {
    fn company(&self) -> &CompanyId;
}

#[derive(Debug)]
pub(crate) struct NamespaceCache<T> {
    namespace: Namespace,
    kv: Arc<dyn KeyValue>,
    clock: Arc<dyn Clock>,
    entries: RwLock<CachedEntries<T>>,
}

#[derive(Debug)]
struct CachedEntries<T> {
    by_key: BTreeMap<Box<str>, CachedEntry<T>>,
    /// Keys of each company's values, so that a look at one company's passes no others.
    by_company: HashMap<CompanyId, BTreeSet<Box<str>>>,
}

#[derive(Debug)]
struct CachedEntry<T> {
    version: u64,
    value: Arc<T>,
}

impl<T: BelongsToCompany> CachedEntries<T> {
    fn insert(&mut self, key: Box<str>, version: u64, value: Arc<T>) {
        self.remove(&key);
        self.by_company.entry(value.company().clone()).or_default().insert(key.clone());
        self.by_key.insert(key, CachedEntry { version, value });
    }

    fn remove(&mut self, key: &str) {
        let Some(copy) = self.by_key.remove(key) else { return };
        let company = copy.value.company();
        if let Some(keys) = self.by_company.get_mut(company) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_company.remove(company);
            }
        }
    }
}

impl<T: Clone + Serialize + DeserializeOwned + BelongsToCompany> NamespaceCache<T> {
    pub fn new(namespace: Namespace, kv: Arc<dyn KeyValue>, clock: Arc<dyn Clock>) -> Self {
        let entries = CachedEntries { by_key: BTreeMap::new(), by_company: HashMap::new() };
        NamespaceCache { namespace, kv, clock, entries: RwLock::new(entries) }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn entry_key<'a>(&self, key: &'a str) -> EntryKey<'a> {
        EntryKey { namespace: self.namespace, key }
    }

    pub async fn reload(&self) -> StoreResult<()> {
        let before: HashMap<Box<str>, u64> =
            self.entries.read().by_key.iter().map(|(key, copy)| (key.clone(), copy.version)).collect();
        let found = self.kv.kv_list(self.namespace, self.now()).await?;
        let there: HashSet<&str> = found.iter().map(|entry| &*entry.key).collect();
        let mut entries = self.entries.write();
        let before_of = |key: &str| before.get(key).copied();
        let gone = entries
            .by_key
            .iter()
            .filter(|(key, copy)| !there.contains(&***key) && before_of(key) == Some(copy.version));
        let gone: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| entries.remove(key));
        for entry in found {
            let known = entries.by_key.get(&entry.key).map(|copy| copy.version);
            let touched_here = before_of(&entry.key) != known;
            if touched_here || known == Some(entry.version) {
                continue;
            }
            if let Ok(value) = entry.value.parse() {
                entries.insert(entry.key, entry.version, Arc::new(value));
            }
        }
        Ok(())
    }

    fn keep(&self, key: &str, version: u64, value: T) -> Arc<T> {
        let value = Arc::new(value);
        self.entries.write().insert(key.into(), version, value.clone());
        value
    }

    /// Writes a new entry together with its record; `None` when another writer was faster.
    pub async fn add(&self, key: &str, value: T, audit: Vec<AuditEvent>) -> StoreResult<Option<Arc<T>>> {
        let write = write_of(self.entry_key(key), Some(&value), Some(0))?;
        let written = write_entry(&*self.kv, KvWrite { audit, ..write }, self.now()).await?;
        Ok(written.map(|version| self.keep(key, version, value)))
    }

    /// Changes an entry together with what `change` puts on record; `None` when there is no such entry.
    pub async fn update(
        &self,
        key: &str,
        mut change: impl FnMut(&mut T, Timestamp) -> Vec<AuditEvent>,
    ) -> StoreResult<Option<Arc<T>>> {
        let now = self.now();
        let updated = update_entry(&*self.kv, self.entry_key(key), now, |found: Option<&T>| {
            let mut value = found?.clone();
            let audit = change(&mut value, now);
            Some(Edit { value: Some(value), expires_at: None, audit })
        });
        Ok(updated.await?.written.map(|(value, version)| self.keep(key, version, value)))
    }

    /// Removes an entry together with the record of that, and returns what it was.
    pub async fn remove(
        &self,
        key: &str,
        record: impl Fn(&T, Timestamp) -> AuditEvent,
    ) -> StoreResult<Option<T>> {
        let now = self.now();
        let updated = update_entry(&*self.kv, self.entry_key(key), now, |found: Option<&T>| {
            Some(Edit { value: None, expires_at: None, audit: vec![record(found?, now)] })
        });
        let found = updated.await?.found;
        self.entries.write().remove(key);
        Ok(found)
    }

    /// Reads an entry as the store has it this moment, where other nodes write to it.
    pub async fn read_shared(&self, key: &str) -> StoreResult<Option<T>> {
        if !self.kv.is_shared() {
            return Ok(None);
        }
        let entry = self.kv.kv_get(self.namespace, key, self.now()).await?;
        Ok(entry.as_ref().and_then(read_entry))
    }

    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        self.entries.read().by_key.get(key).map(|copy| copy.value.clone())
    }

    pub fn is_empty(&self) -> bool {
        self.entries.read().by_key.is_empty()
    }

    /// Lists values by key, all or one company's, from the first one after a key on.
    pub fn list(&self, company: Option<&str>, after: Option<&str>, max: usize) -> Vec<Arc<T>> {
        let entries = self.entries.read();
        let later = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let Some(company) = company else {
            return entries
                .by_key
                .range::<str, _>(later)
                .take(max)
                .map(|(_, copy)| copy.value.clone())
                .collect();
        };
        let Some(keys) = entries.by_company.get(company) else { return Vec::new() };
        let copies = keys.range::<str, _>(later).filter_map(|key| entries.by_key.get(key));
        copies.take(max).map(|copy| copy.value.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use recado_store::reference::ReferenceStore;
    use serde::Deserialize;

    use super::*;
    use crate::clock::SystemClock;

    /// Looks at values so far.
    static LOOKS: AtomicUsize = AtomicUsize::new(0);

    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Owned(CompanyId);

    impl BelongsToCompany for Owned {
        fn company(&self) -> &CompanyId {
            LOOKS.fetch_add(1, Ordering::Relaxed);
            &self.0
        }
    }

    #[test]
    fn a_look_at_one_companys_values_looks_at_no_others() {
        let (kv, clock) = (Arc::new(ReferenceStore::default()), Arc::new(SystemClock));
        let copies = NamespaceCache::new(Namespace::new("owned"), kv, clock);
        let keep = |company: &str, key: &str| {
            copies.keep(key, 1, Owned(CompanyId::trusted(company)));
        };
        (0..1_000).for_each(|n| keep(&format!("other-{n}"), &format!("key-{n}")));
        ["b", "c", "a"].into_iter().for_each(|key| keep("acme", key));
        LOOKS.store(0, Ordering::Relaxed);
        let acme = copies.list(Some("acme"), None, usize::MAX);
        assert_eq!((acme.len(), LOOKS.load(Ordering::Relaxed)), (3, 0), "they are found by an index");
        assert_eq!(copies.list(Some("acme"), Some("a"), 1)[0].0.as_str(), "acme");
        assert_eq!(copies.list(None, None, 2).len(), 2);
        ["b", "c", "a"].into_iter().for_each(|key| copies.entries.write().remove(key));
        assert_eq!(
            (copies.list(Some("acme"), None, 9).len(), copies.list(None, None, 2_000).len()),
            (0, 1_000)
        );
        keep("globex", "key-1");
        assert_eq!(copies.list(Some("other-1"), None, 9).len(), 0, "it changed hands");
    }
}
