//! Keeps the leases of running deliveries alive, so that a slow provider is not taken for a dead worker.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use recado_core::LeaseToken;

use crate::engine::Inner;

/// Extensions that one request carries at most.
const BEAT_TOKENS_MAX: usize = 1_000;

/// The leases of deliveries that run right now.
#[derive(Debug, Default)]
pub(crate) struct Beats(Mutex<HashSet<LeaseToken>>);

impl Beats {
    pub fn started(&self, token: LeaseToken) {
        self.0.lock().insert(token);
    }

    pub fn ended(&self, token: LeaseToken) {
        self.0.lock().remove(&token);
    }

    fn running(&self) -> Vec<LeaseToken> {
        self.0.lock().iter().copied().collect()
    }
}

/// Beats three times a lease: two may fail before anybody notices. Goes on during a graceful stop.
pub(crate) async fn run(engine: Arc<Inner>) {
    loop {
        tokio::select! {
            () = engine.stopped.cancelled() => return,
            () = tokio::time::sleep(engine.settings.lease / 3) => {}
        }
        let until = engine.clock.now().plus(engine.settings.lease);
        for tokens in engine.beats.running().chunks(BEAT_TOKENS_MAX) {
            if let Err(error) = engine.store.extend(tokens.to_vec(), until).await {
                tracing::warn!(%error, "cannot extend the leases of running deliveries");
            }
        }
    }
}
