//! Reads again what other nodes wrote, where the store is shared.
//!
//! Nothing depends on it being fast: whatever must not be granted twice is asked of the store. It lets a pause, a breaker
//! or an endpoint of one node hold on the others before they find out by themselves. A namespace is read when its
//! version is another one than when it was last read, so nodes that change nothing cost the store next to nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_store::{KeyValue, KvEntry, Namespace, StoreError, Waker};
use tokio::time::Instant;

use crate::lifecycle::Lifecycle;
use crate::shared::value::{Replayable, SharedValue, SyncResult};

/// Longest wait for a hint, which may be missed. Reads are at most this, [`SYNC_REST`] and one read apart.
const SYNC_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// Least time between two reads, however many hints come.
const SYNC_REST: Duration = Duration::from_millis(250);

/// A process that has not read what the others wrote for this long does not know what is paused or held: less than the
/// wait after which a job of a held receiver is looked at again, so that no node sends it without knowing of the hold.
const STALE_AFTER: Duration = Duration::from_secs(4);

/// Everything is read again after this, changed or not: a server that lost data while its clock was behind may give
/// a version twice.
const READ_ALL_EVERY: Duration = Duration::from_secs(30);

/// The beginning of the last read that found out all that other nodes wrote; absent where no other node writes.
#[derive(Debug)]
pub(crate) struct Freshness(Mutex<Option<Instant>>);

impl Freshness {
    /// Everything was read by a read that began then: it may have taken long, and others have written meanwhile.
    pub fn new(kv: &dyn KeyValue, read_at: Instant) -> Self {
        Freshness(Mutex::new(kv.is_shared().then_some(read_at)))
    }

    /// Returns true while this process, because it stood still or was cut off, may have missed what others wrote.
    pub fn is_stale(&self) -> bool {
        self.0.lock().is_some_and(|read_at| read_at.elapsed() > STALE_AFTER)
    }
}

/// A room that keeps copies of namespaces.
#[async_trait]
pub(crate) trait Synced: Send + Sync + std::fmt::Debug {
    /// Lists its namespaces, in the order to read them.
    fn namespaces(&self) -> &'static [Namespace];

    /// Reads one of them again.
    async fn sync(&self, namespace: Namespace) -> Result<SyncResult, StoreError>;
}

/// Keeps the copies of all rooms fresh until the engine stops.
pub(crate) async fn run(
    kv: Arc<dyn KeyValue>,
    rooms: Vec<Arc<dyn Synced>>,
    lifecycle: Arc<Lifecycle>,
    freshness: Arc<Freshness>,
    mut changes: Waker,
) {
    let mut sync = NamespaceSync { kv, rooms, versions: HashMap::new(), all_at: Instant::now() };
    loop {
        tokio::select! {
            biased;
            () = lifecycle.stopping.cancelled() => return,
            () = changes.wait() => {}
            () = tokio::time::sleep(SYNC_AT_LEAST_EVERY) => {}
        }
        let began = Instant::now();
        let round = sync.read_changed().await.map(|()| {
            *freshness.0.lock() = Some(began);
            SYNC_REST
        });
        let complaint = "Cannot read what other nodes wrote; trying again";
        if !lifecycle.rest_after(round, SYNC_REST, complaint).await {
            return;
        }
    }
}

struct NamespaceSync {
    kv: Arc<dyn KeyValue>,
    rooms: Vec<Arc<dyn Synced>>,
    /// The version of each namespace before it was read: what is written meanwhile is read again.
    versions: HashMap<Namespace, u64>,
    all_at: Instant,
}

impl NamespaceSync {
    async fn read_changed(&mut self) -> Result<(), StoreError> {
        if self.all_at.elapsed() >= READ_ALL_EVERY {
            self.versions.clear();
            self.all_at = Instant::now();
        }
        let namespaces: Vec<_> = self.rooms.iter().flat_map(|room| room.namespaces()).copied().collect();
        let mut versions = self.kv.kv_versions(&namespaces).await?.into_iter();
        for room in &self.rooms {
            for (namespace, version) in room.namespaces().iter().zip(&mut versions) {
                if version.is_some() && version == self.versions.get(namespace).copied() {
                    continue;
                }
                let synced = room.sync(*namespace).await?;
                match version.filter(|_| !synced.busy) {
                    Some(version) => drop(self.versions.insert(*namespace, version)),
                    None => drop(self.versions.remove(namespace)),
                }
            }
        }
        Ok(())
    }
}

/// A namespace as a read found it: a value without an entry there has none in the store.
pub(crate) struct NamespaceSnapshot<'a> {
    entries: BTreeMap<&'a str, &'a KvEntry>,
    read_at: Instant,
}

impl<'a> NamespaceSnapshot<'a> {
    /// Takes the entries of a read that began at `read_at`.
    pub fn new(entries: &'a [KvEntry], read_at: Instant) -> Self {
        NamespaceSnapshot { entries: entries.iter().map(|entry| (&*entry.key, entry)).collect(), read_at }
    }

    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.entries.keys().copied()
    }

    /// Has a value take in what was found under its key.
    pub fn sync<T: Replayable>(&self, value: &SharedValue<T>) -> SyncResult {
        value.sync(self.entries.get(&*value.key).copied(), self.read_at)
    }
}
