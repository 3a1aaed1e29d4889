//! Forgets what retention no longer keeps, a little at a time.

use std::sync::Arc;
use std::time::Duration;

use recado_core::Timestamp;
use recado_observe::Left;
use recado_store::{JobStore, Retention};

use crate::clock::Clock;
use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;

/// Between two rounds when there is nothing left to forget.
const ROUND_EVERY: Duration = Duration::from_secs(10);

/// Between two bites of one round, so that deliveries go first.
const BITE_EVERY: Duration = Duration::from_millis(20);

/// Prunes the store.
pub(crate) struct Pruner {
    pub jobs: Arc<dyn JobStore>,
    pub metrics: Arc<Metrics>,
    pub clock: Arc<dyn Clock>,
    pub lifecycle: Arc<Lifecycle>,
    pub retention: Retention,
    pub dead_letter_ttl: Duration,
}

impl Pruner {
    /// Prunes until the engine stops.
    pub async fn run(self) {
        let mut wait = ROUND_EVERY;
        loop {
            tokio::select! {
                () = self.lifecycle.stopping.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            match self.jobs.prune(self.retention.clone(), self.clock.now()).await {
                Ok(pruned) => {
                    self.record_expired(pruned.dead_letters);
                    wait = if pruned.more { BITE_EVERY } else { ROUND_EVERY };
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot prune; trying again later");
                    wait = ROUND_EVERY;
                }
            }
        }
    }

    fn record_expired(&self, dead_letters: u64) {
        if dead_letters == 0 {
            return;
        }
        let ttl_ms = i64::try_from(self.dead_letter_ttl.as_millis()).unwrap_or(i64::MAX);
        let moved_at = Timestamp::from_millis(self.clock.now().as_millis().saturating_sub(ttl_ms));
        (0..dead_letters).for_each(|_| self.metrics.record_dead_letter_left(Left::Expired, moved_at));
        tracing::warn!(
            count = dead_letters,
            "Dead letters reached the end of their time and were removed; the audit trail names them"
        );
    }
}
