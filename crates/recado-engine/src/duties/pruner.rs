//! Forgets what retention no longer keeps, a little at a time.

use std::sync::Arc;
use std::time::Duration;

use recado_core::Timestamp;
use recado_observe::DeadLetterExit;

use crate::engine::Inner;

/// Between two rounds when there is nothing left to forget.
const ROUND_EVERY: Duration = Duration::from_secs(10);

/// Between two bites of one round, so that deliveries go first.
const BITE_EVERY: Duration = Duration::from_millis(20);

pub(crate) async fn run(engine: Arc<Inner>) {
    let mut wait = ROUND_EVERY;
    loop {
        tokio::select! {
            () = engine.stopping.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        match engine.store.prune(engine.settings.retention.clone(), engine.clock.now()).await {
            Ok(pruned) => {
                if pruned.dead_letters > 0 {
                    let now = engine.clock.now().as_millis();
                    let ttl_ms =
                        i64::try_from(engine.settings.dead_letter_ttl.as_millis()).unwrap_or(i64::MAX);
                    let moved_at = Timestamp::from_millis(now.saturating_sub(ttl_ms));
                    (0..pruned.dead_letters)
                        .for_each(|_| engine.left_queue(DeadLetterExit::Expired, moved_at));
                    tracing::warn!(
                        count = pruned.dead_letters,
                        "Dead letters reached the end of their time and were removed; the audit trail names them"
                    );
                }
                wait = if pruned.more { BITE_EVERY } else { ROUND_EVERY };
            }
            Err(error) => {
                tracing::warn!(%error, "cannot prune; trying again later");
                wait = ROUND_EVERY;
            }
        }
    }
}
