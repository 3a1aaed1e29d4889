//! Keeps this process's copies of what all nodes share fresh, where other nodes write too.
//!
//! Nothing depends on it being fast: whatever must not be granted twice is asked of the store. It is what lets a
//! pause, a breaker or an endpoint of one node hold on the others before they find out by themselves. A shelf is read
//! when its version is another one than when it was last read, so nodes that change nothing cost the store next to
//! nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use recado_core::CompanyId;
use recado_store::{Note, Shelf, Store, StoreError, Waker};
use tokio::time::Instant;

use crate::agreed::Heard;
use crate::engine::Inner;
use crate::receivers::ReceiverId;
use crate::values::{LIMITS, PROVIDERS, RECEIVER_HOLDS, ROUTES, TENANT_LIMITS};
use crate::{accounts, endpoints, tenants};

/// What is agreed on, in the order to learn it: a company's limit means nothing without its terms.
pub(crate) const SHELVES: [Shelf; 6] =
    [PROVIDERS, ROUTES, tenants::SHELF, LIMITS, RECEIVER_HOLDS, TENANT_LIMITS];

/// All that this process has copies of.
const COPIED: [Shelf; 8] = [
    PROVIDERS,
    ROUTES,
    tenants::SHELF,
    LIMITS,
    RECEIVER_HOLDS,
    TENANT_LIMITS,
    endpoints::SHELF,
    accounts::SHELF,
];

/// A bell may be missed, so nobody sleeps longer than this.
const REFRESH_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// Nobody reads more often than this, however often the bell rings.
const REFRESH_REST: Duration = Duration::from_millis(250);

/// Everything is read again after this, changed or not: a server that lost its last second in a crash may give a
/// version twice.
const READ_ALL_EVERY: Duration = Duration::from_secs(30);

pub(crate) async fn run(engine: Arc<Inner>, mut bell: Waker) {
    let mut read = Read { versions: HashMap::new(), all_at: Instant::now() };
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

/// What has been read of the store.
struct Read {
    /// Of each shelf, before it was read: what is written meanwhile is read again.
    versions: HashMap<Shelf, u64>,
    all_at: Instant,
}

impl Read {
    async fn again(&mut self, engine: &Arc<Inner>) -> Result<(), StoreError> {
        if self.all_at.elapsed() >= READ_ALL_EVERY {
            self.versions.clear();
            self.all_at = Instant::now();
        }
        let versions = engine.store.shelf_versions(&COPIED).await?;
        for (shelf, version) in COPIED.into_iter().zip(versions) {
            if version.is_some() && version == self.versions.get(&shelf).copied() {
                continue;
            }
            let heard = engine.read_again(shelf).await?;
            match version.filter(|_| !heard.busy) {
                Some(version) => drop(self.versions.insert(shelf, version)),
                None => drop(self.versions.remove(&shelf)),
            }
            if shelf == tenants::SHELF && heard.news {
                self.versions.remove(&TENANT_LIMITS);
            }
        }
        Ok(())
    }
}

/// Every shelf of what is agreed on.
pub(crate) async fn read(
    store: &dyn Store,
    now: recado_core::Timestamp,
) -> Result<Vec<(Shelf, Vec<Note>)>, StoreError> {
    let mut shelves = Vec::with_capacity(SHELVES.len());
    for shelf in SHELVES {
        shelves.push((shelf, store.notes(shelf, now).await?));
    }
    Ok(shelves)
}

/// Whose word the store has kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Teller {
    /// What was known before this process started.
    Ourselves,
    AnotherNode,
}

impl Inner {
    async fn read_again(self: &Arc<Self>, shelf: Shelf) -> Result<Heard, StoreError> {
        let now = self.clock.now();
        match shelf {
            endpoints::SHELF => self.endpoints.read_again(&*self.store, now).await?,
            accounts::SHELF => self.accounts.read_again(&*self.store, now).await?,
            _ => return Ok(self.learn(shelf, &self.store.notes(shelf, now).await?, Teller::AnotherNode)),
        }
        Ok(Heard::default())
    }

    /// Takes in what the store was found to have, and wakes whoever waits for such news.
    pub fn learn(self: &Arc<Self>, shelf: Shelf, notes: &[Note], teller: Teller) -> Heard {
        let heard: Heard = match shelf {
            PROVIDERS => return notes.iter().map(|note| self.learn_valve(note, teller)).collect(),
            LIMITS => return notes.iter().map(|note| self.learn_limit(note)).collect(),
            RECEIVER_HOLDS => return notes.iter().map(|note| self.learn_receiver_hold(note)).collect(),
            ROUTES => notes.iter().filter_map(|note| Some(self.doors.get(&*note.key)?.learn(note))).collect(),
            tenants::SHELF => self.tenants.learn(notes),
            TENANT_LIMITS => self.tenants.learn_limits(notes),
            _ => Heard::default(),
        };
        self.say(heard.news);
        heard
    }

    fn learn_valve(&self, note: &Note, teller: Teller) -> Heard {
        let Some(provider) = self.providers.get(&note.key) else { return Heard::default() };
        let before = provider.valve.read(|valve| valve.breaker.state);
        let heard = provider.valve.learn(note);
        if !heard.news {
            return heard;
        }
        // Whoever made it swing tells of it.
        let state = provider.valve.read(|valve| valve.breaker.state);
        if state != before {
            let message = match teller {
                Teller::Ourselves => "Circuit breaker as it was before the start",
                Teller::AnotherNode => "Circuit breaker, says another node",
            };
            tracing::info!(provider = %provider.name, state = state.as_str(), "{message}");
        }
        provider.changed.notify_waiters();
        self.say(true);
        heard
    }

    fn learn_limit(self: &Arc<Self>, note: &Note) -> Heard {
        let Some((name, company)) = note.key.rsplit_once('/') else { return Heard::default() };
        let Some(provider) = self.providers.get(name) else { return Heard::default() };
        let now = self.clock.now();
        let limit = match CompanyId::new(company) {
            Ok(company) => provider.company_limit(&company, now),
            Err(_) => provider.limit.clone(),
        };
        let was_quiet = limit.read(|limit| limit.quiet_at(now).is_some());
        let heard = limit.learn(note);
        if heard.news {
            self.bound_quiet(&limit, provider.longest_wait, now);
            provider.changed.notify_waiters();
            // Another node lifted it, and claimers may sleep until its end.
            self.say(was_quiet && limit.read(|limit| limit.quiet_at(now).is_none()));
        }
        heard
    }

    fn learn_receiver_hold(self: &Arc<Self>, note: &Note) -> Heard {
        let Some((name, id)) = ReceiverId::read(&note.key) else { return Heard::default() };
        let Some(provider) = self.providers.get(name) else { return Heard::default() };
        let now = self.clock.now();
        let Some(hold) = provider.receivers.hold_of(&id, now) else { return Heard::default() };
        let heard = hold.learn(note);
        if heard.news {
            self.bound_quiet(&hold, provider.longest_wait, now);
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
