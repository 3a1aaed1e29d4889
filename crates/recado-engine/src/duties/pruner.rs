//! Forgets what retention no longer keeps, a little at a time.

use std::sync::Arc;
use std::time::Duration;

use recado_core::Timestamp;
use recado_observe::DeadLetterExit;
use recado_store::Retention;

use crate::environment::Environment;

/// Time between two rounds when there is nothing left to forget.
const ROUND_EVERY: Duration = Duration::from_secs(10);

/// Time between two batches of one round, so that deliveries go first.
const BATCH_EVERY: Duration = Duration::from_millis(20);

/// Prunes the store until the engine stops.
pub(crate) async fn run(env: Arc<Environment>, retention: Retention, dead_letter_ttl: Duration) {
    let mut goes_on = env.lifecycle.rest(ROUND_EVERY).await;
    while goes_on {
        let pruned = env.jobs.prune(retention.clone(), env.now()).await;
        let round = pruned.map(|pruned| {
            record_expired(&env, pruned.dead_letters, dead_letter_ttl);
            if pruned.more { BATCH_EVERY } else { ROUND_EVERY }
        });
        goes_on = env.lifecycle.rest_after(round, ROUND_EVERY, "Cannot prune; trying again later").await;
    }
}

fn record_expired(env: &Environment, dead_letters: u64, ttl: Duration) {
    if dead_letters == 0 {
        return;
    }
    let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
    let moved_at = Timestamp::from_millis(env.now().as_millis().saturating_sub(ttl_ms));
    (0..dead_letters).for_each(|_| env.metrics.record_dead_letter_left(DeadLetterExit::Expired, moved_at));
    tracing::warn!(count = dead_letters, "Dead letters expired and were removed; the audit trail names them");
}
