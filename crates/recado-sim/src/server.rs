//! The shared server: one in-memory store behind a network that fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_store::Wakes;
use recado_store::reference::ReferenceStore;
use tokio::time::Instant;

/// The server that all nodes share, and what is wrong with it.
#[derive(Debug)]
pub struct Server {
    store: Mutex<Arc<ReferenceStore>>,
    /// Hints between nodes; absent where one process has the store to itself.
    pub kv_wakes: Option<Arc<Wakes>>,
    troubles: Mutex<Troubles>,
    /// The job under each lease token.
    leased: Mutex<BTreeMap<u128, String>>,
}

/// The end of each trouble.
#[derive(Clone, Copy, Debug)]
pub struct Troubles {
    pub away_until: Instant,
    pub stalled_until: Instant,
    pub full_until: Instant,
    pub bad_until: Instant,
    /// Calls out of a thousand that the network loses, and as many whose answer it loses, repeats or delays.
    pub bad_per_mille: u64,
}

impl Server {
    pub fn new(is_shared: bool) -> Self {
        let now = Instant::now();
        let troubles = Troubles {
            away_until: now,
            stalled_until: now,
            full_until: now,
            bad_until: now,
            bad_per_mille: 0,
        };
        Server {
            store: Mutex::default(),
            kv_wakes: is_shared.then(Arc::default),
            troubles: Mutex::new(troubles),
            leased: Mutex::default(),
        }
    }

    pub fn store(&self) -> Arc<ReferenceStore> {
        self.store.lock().clone()
    }

    /// Serves another store from now on.
    pub fn serve(&self, store: Arc<ReferenceStore>) {
        *self.store.lock() = store;
    }

    pub fn troubles(&self) -> Troubles {
        *self.troubles.lock()
    }

    pub fn trouble(&self, change: impl FnOnce(&mut Troubles)) {
        change(&mut self.troubles.lock());
    }

    pub fn is_away(&self) -> bool {
        Instant::now() < self.troubles().away_until
    }

    pub fn is_full(&self) -> bool {
        Instant::now() < self.troubles().full_until
    }

    /// Returns how many calls out of a thousand go wrong now.
    pub fn bad_per_mille(&self) -> u64 {
        let troubles = self.troubles();
        if Instant::now() < troubles.bad_until { troubles.bad_per_mille } else { 0 }
    }

    /// Waits until the server no longer stalls.
    pub async fn wait_for_stall_to_end(&self) {
        loop {
            let until = self.troubles().stalled_until;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    pub fn remember_lease(&self, token: u128, job: &str) {
        self.leased.lock().insert(token, job.to_owned());
    }

    pub fn job_of(&self, token: u128) -> String {
        self.leased.lock().get(&token).cloned().unwrap_or_default()
    }
}

/// A wait of so many milliseconds.
pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
