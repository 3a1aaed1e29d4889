//! Keeps this process's copies of what all nodes share fresh, where other nodes write too.
//!
//! Nothing depends on it being fast: whatever must not be granted twice is asked of the store. It is what lets a
//! pause, a breaker or an endpoint of one node hold on the others before they find out by themselves. A namespace is read
//! when its version is another one than when it was last read, so nodes that change nothing cost the store next to
//! nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use recado_core::limit::Limit;
use recado_core::{CompanyId, Timestamp};
use recado_store::{KvEntry, Namespace, Store, StoreError, Waker};
use tokio::time::Instant;

use crate::admission::control::{LIMITS, PROVIDERS, RECEIVER_HOLDS, ROUTES, TENANT_LIMITS};
use crate::admission::provider::Provider;
use crate::admission::receivers::ReceiverId;
use crate::admission::tenant_limits;
use crate::engine::Inner;
use crate::notify::accounts;
use crate::notify::endpoints;
use crate::shared::value::{Replayable, SharedValue, SyncResult};

/// The shared namespaces, in the order to learn them: a company's limit means nothing without its terms.
pub(crate) const SHARED: [Namespace; 6] =
    [PROVIDERS, ROUTES, tenant_limits::NAMESPACE, LIMITS, RECEIVER_HOLDS, TENANT_LIMITS];

/// All that this process has copies of.
const COPIED: [Namespace; 8] = [
    PROVIDERS,
    ROUTES,
    tenant_limits::NAMESPACE,
    LIMITS,
    RECEIVER_HOLDS,
    TENANT_LIMITS,
    endpoints::NAMESPACE,
    accounts::NAMESPACE,
];

/// A bell may be missed, so no wait is longer than this.
const REFRESH_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// Least time between two reads, however often the bell rings.
const REFRESH_REST: Duration = Duration::from_millis(250);

/// Everything is read again after this, changed or not: a server that lost data while its clock was behind may give
/// a version twice.
const READ_ALL_EVERY: Duration = Duration::from_secs(30);

pub(crate) async fn run(engine: Arc<Inner>, mut bell: Waker) {
    let mut read = SyncState { versions: HashMap::new(), all_at: Instant::now() };
    loop {
        tokio::select! {
            () = engine.stopping.cancelled() => return,
            () = bell.rung() => {}
            () = tokio::time::sleep(REFRESH_AT_LEAST_EVERY) => {}
        }
        match read.again(&engine).await {
            Ok(()) => {}
            Err(StoreError::Broken(error)) => return engine.store_broke(&error),
            Err(error) => tracing::warn!(%error, "cannot read what other nodes wrote; trying again"),
        }
        tokio::select! {
            () = engine.stopping.cancelled() => return,
            () = tokio::time::sleep(REFRESH_REST) => {}
        }
    }
}

/// The store's values as read.
struct SyncState {
    /// Of each namespace, before it was read: what is written meanwhile is read again.
    versions: HashMap<Namespace, u64>,
    all_at: Instant,
}

impl SyncState {
    async fn again(&mut self, engine: &Arc<Inner>) -> Result<(), StoreError> {
        if self.all_at.elapsed() >= READ_ALL_EVERY {
            self.versions.clear();
            self.all_at = Instant::now();
        }
        let versions = engine.store.kv_versions(&COPIED).await?;
        for (namespace, version) in COPIED.into_iter().zip(versions) {
            if version.is_some() && version == self.versions.get(&namespace).copied() {
                continue;
            }
            let heard = engine.read_again(namespace).await?;
            match version.filter(|_| !heard.busy) {
                Some(version) => drop(self.versions.insert(namespace, version)),
                None => drop(self.versions.remove(&namespace)),
            }
            if namespace == tenant_limits::NAMESPACE && heard.news {
                self.versions.remove(&TENANT_LIMITS);
            }
        }
        Ok(())
    }
}

/// Every namespace of what is agreed on.
pub(crate) async fn read(
    store: &dyn Store,
    now: recado_core::Timestamp,
) -> Result<Vec<(Namespace, Vec<KvEntry>)>, StoreError> {
    let mut namespaces = Vec::with_capacity(SHARED.len());
    for namespace in SHARED {
        namespaces.push((namespace, store.kv_list(namespace, now).await?));
    }
    Ok(namespaces)
}

/// Whose word the store has kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Values known before this process started.
    Ourselves,
    AnotherNode,
}

/// A namespace as a read found it: a value without a note there has none in the store.
pub(crate) struct NamespaceSnapshot<'a> {
    notes: HashMap<&'a str, &'a KvEntry>,
    read_at: Instant,
}

impl<'a> NamespaceSnapshot<'a> {
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.notes.keys().copied()
    }

    /// Has a value learn what was found of it.
    pub fn teach<T: Replayable>(&self, key: &str, agreed: &SharedValue<T>) -> SyncResult {
        agreed.learn(self.notes.get(key).copied(), self.read_at)
    }
}

impl Inner {
    async fn read_again(self: &Arc<Self>, namespace: Namespace) -> Result<SyncResult, StoreError> {
        let now = self.clock.now();
        match namespace {
            endpoints::NAMESPACE => self.endpoints.read_again(&*self.store, now).await?,
            accounts::NAMESPACE => self.accounts.read_again(&*self.store, now).await?,
            _ => {
                let read_at = Instant::now();
                let notes = self.store.kv_list(namespace, now).await?;
                return Ok(self.learn(namespace, &notes, read_at, Source::AnotherNode));
            }
        }
        Ok(SyncResult::default())
    }

    /// Takes in what a read that began at `read_at` found on a namespace, and wakes the tasks that wait for such news.
    pub fn learn(
        self: &Arc<Self>,
        namespace: Namespace,
        notes: &[KvEntry],
        read_at: Instant,
        teller: Source,
    ) -> SyncResult {
        let found =
            NamespaceSnapshot { notes: notes.iter().map(|note| (&*note.key, note)).collect(), read_at };
        let heard: SyncResult = match namespace {
            PROVIDERS => {
                return self.providers.values().map(|one| self.learn_valve(one, &found, teller)).collect();
            }
            LIMITS => return self.learn_limits(&found),
            RECEIVER_HOLDS => return self.learn_receiver_holds(&found),
            ROUTES => self.doors.iter().map(|(route, door)| found.teach(route.as_str(), door)).collect(),
            tenant_limits::NAMESPACE => self.tenants.learn(&found),
            TENANT_LIMITS => self.tenants.learn_limits(&found),
            _ => SyncResult::default(),
        };
        self.say(heard.news);
        heard
    }

    fn learn_valve(&self, provider: &Provider, found: &NamespaceSnapshot<'_>, teller: Source) -> SyncResult {
        let before = provider.valve.read(|valve| valve.breaker.state);
        let heard = found.teach(&provider.name, &provider.valve);
        if !heard.news {
            return heard;
        }
        // The node that caused the change tells of it.
        let state = provider.valve.read(|valve| valve.breaker.state);
        if state != before {
            let message = match teller {
                Source::Ourselves => "Circuit breaker as it was before the start",
                Source::AnotherNode => "Circuit breaker, says another node",
            };
            tracing::info!(provider = %provider.name, state = state.as_str(), "{message}");
        }
        provider.changed.notify_waiters();
        self.say(true);
        heard
    }

    fn learn_limits(self: &Arc<Self>, found: &NamespaceSnapshot<'_>) -> SyncResult {
        let now = self.clock.now();
        // A company that only the store knows is made known first.
        for key in found.keys() {
            if let Some((name, company)) = key.rsplit_once('/')
                && let (Some(provider), Ok(company)) = (self.providers.get(name), CompanyId::new(company))
            {
                provider.company_limit(&company, now);
            }
        }
        let learn = |provider: &Arc<Provider>| {
            let limits = provider.limits().into_iter();
            let heard: SyncResult =
                limits.map(|limit| self.learn_limit(found, &limit, provider, now)).collect();
            if heard.news {
                provider.changed.notify_waiters();
            }
            heard
        };
        self.providers.values().map(learn).collect()
    }

    fn learn_receiver_holds(self: &Arc<Self>, found: &NamespaceSnapshot<'_>) -> SyncResult {
        let now = self.clock.now();
        // A receiver that only the store knows is made known first.
        for key in found.keys() {
            if let Some((name, id)) = ReceiverId::read(key)
                && let Some(provider) = self.providers.get(name)
            {
                provider.receivers.hold_of(&id, now);
            }
        }
        let learn = |provider: &Arc<Provider>| -> SyncResult {
            let holds = provider.receivers.holds().into_iter();
            holds.map(|hold| self.learn_limit(found, &hold, provider, now)).collect()
        };
        self.providers.values().map(learn).collect()
    }

    /// Has a limit learn what was found of it, and bounds the hold that comes with it.
    fn learn_limit(
        self: &Arc<Self>,
        found: &NamespaceSnapshot<'_>,
        limit: &Arc<SharedValue<Limit>>,
        provider: &Provider,
        now: Timestamp,
    ) -> SyncResult {
        let is_held = |limit: &Limit| limit.quiet_at(now).is_some();
        let was_held = limit.read(is_held);
        let heard = found.teach(limit.key(), limit);
        if heard.news {
            self.bound_quiet(limit, provider.longest_wait, now);
            // Claimers may sleep until the end of a hold that another node lifted.
            self.say(was_held && !limit.read(is_held));
        }
        heard
    }

    /// Rings for those who wait for what operators say.
    fn say(&self, news: bool) {
        if news {
            self.said.notify_waiters();
        }
    }
}
