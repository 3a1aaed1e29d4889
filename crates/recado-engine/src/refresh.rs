//! Keeps this process's copies of what all nodes share fresh, where other nodes write too.
//!
//! Nothing depends on it being fast: whatever must not be granted twice is asked of the store. It is what lets a
//! pause, a breaker or an endpoint of one node hold on the others before they find out by themselves.

use std::sync::Arc;
use std::time::Duration;

use recado_core::CompanyId;
use recado_store::{Note, Shelf, Store, StoreError, Waker};

use crate::engine::Inner;
use crate::guard::{LIMITS, PROVIDERS, ROUTES, TENANT_LIMITS};
use crate::tenants;

/// What is agreed on, in the order to learn it: a company's limit means nothing without its terms.
pub(crate) const SHELVES: [Shelf; 5] = [PROVIDERS, ROUTES, tenants::SHELF, LIMITS, TENANT_LIMITS];

/// A bell may be missed, so nobody sleeps longer than this.
const REFRESH_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// Nobody reads more often than this, however often the bell rings.
const REFRESH_REST: Duration = Duration::from_millis(250);

pub(crate) async fn run(engine: Arc<Inner>, mut bell: Waker) {
    loop {
        tokio::select! {
            () = engine.stopping.cancelled() => return,
            () = bell.rung() => {}
            () = tokio::time::sleep(REFRESH_AT_LEAST_EVERY) => {}
        }
        match refresh(&engine).await {
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

async fn refresh(engine: &Inner) -> Result<(), StoreError> {
    let now = engine.clock.now();
    for (shelf, notes) in read(&*engine.store, now).await? {
        engine.learn(shelf, &notes, Teller::AnotherNode);
    }
    engine.endpoints.read_again(&*engine.store, now).await?;
    engine.accounts.read_again(&*engine.store, now).await
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
    /// Takes in what the store was found to have, and wakes whoever waits for such news.
    pub fn learn(&self, shelf: Shelf, notes: &[Note], teller: Teller) {
        match shelf {
            PROVIDERS => notes.iter().for_each(|note| self.learn_guard(note, teller)),
            LIMITS => notes.iter().for_each(|note| self.learn_limit(note)),
            ROUTES => {
                let door = |note: &Note| self.doors.get(&*note.key).is_some_and(|door| door.learn(note));
                self.say(notes.iter().filter(|note| door(note)).count() > 0);
            }
            tenants::SHELF => self.say(self.tenants.learn(notes)),
            TENANT_LIMITS => self.say(self.tenants.learn_limits(notes)),
            _ => {}
        }
    }

    fn learn_guard(&self, note: &Note, teller: Teller) {
        let Some(provider) = self.providers.get(&note.key) else { return };
        let before = provider.guard.read(|guard| guard.breaker.state);
        if !provider.guard.learn(note) {
            return;
        }
        // Whoever made it swing tells of it.
        let state = provider.guard.read(|guard| guard.breaker.state);
        if state != before {
            let message = match teller {
                Teller::Ourselves => "Circuit breaker as it was before the start",
                Teller::AnotherNode => "Circuit breaker, says another node",
            };
            tracing::info!(provider = %provider.name, state = state.as_str(), "{message}");
        }
        provider.changed.notify_waiters();
        self.say(true);
    }

    fn learn_limit(&self, note: &Note) {
        let Some((name, company)) = note.key.rsplit_once('/') else { return };
        let Some(provider) = self.providers.get(name) else { return };
        let limit = match CompanyId::new(company) {
            Ok(company) => provider.company_limit(&company, self.clock.now()),
            Err(_) => provider.limit.clone(),
        };
        if limit.learn(note) {
            provider.changed.notify_waiters();
        }
    }

    /// Rings for those who wait for what operators say.
    fn say(&self, news: bool) {
        if news {
            self.said.notify_waiters();
        }
    }
}
