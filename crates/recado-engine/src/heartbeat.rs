//! Keeps the leases of running deliveries alive, so that a slow provider is not taken for a dead worker.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::LeaseToken;

use crate::engine::Inner;

/// Extensions that one request carries at most.
const BEAT_TOKENS_MAX: usize = 1_000;

/// How soon it is tried again after the store could not be told.
const BEAT_RETRY: Duration = Duration::from_millis(500);

/// The leases of deliveries that run right now, and how many have ended.
#[derive(Debug, Default)]
pub(crate) struct Beats {
    running: Mutex<HashSet<LeaseToken>>,
    ended: AtomicU64,
}

impl Beats {
    pub fn started(&self, token: LeaseToken) {
        self.running.lock().insert(token);
    }

    pub fn ended(&self, token: LeaseToken) {
        self.running.lock().remove(&token);
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub fn running_count(&self) -> u64 {
        self.running.lock().len() as u64
    }

    /// Since the start.
    pub fn ended_count(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    fn running(&self) -> Vec<LeaseToken> {
        self.running.lock().iter().copied().collect()
    }
}

/// Beats three times a lease: two may fail before anybody notices. Goes on during a graceful stop.
pub(crate) async fn run(engine: Arc<Inner>) {
    let beat = engine.settings.lease / 3;
    let mut wait = beat;
    loop {
        tokio::select! {
            () = engine.stopped.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = if extend_all(&engine).await { beat } else { beat.min(BEAT_RETRY) };
    }
}

/// Whether the store took it.
async fn extend_all(engine: &Inner) -> bool {
    let mut is_told = true;
    let until = engine.clock.now().plus(engine.settings.lease);
    for tokens in engine.beats.running().chunks(BEAT_TOKENS_MAX) {
        if let Err(error) = engine.store.extend(tokens.to_vec(), until).await {
            tracing::warn!(%error, "cannot extend the leases of running deliveries; trying again");
            is_told = false;
        }
    }
    is_told
}
