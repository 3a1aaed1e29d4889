//! The engine's life: running, stopping, stopped, or failed together with its store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use recado_store::StoreError;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Signals of a stop, and the tasks that a stop waits for.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    /// Cancelled when a stop begins: nothing new is claimed.
    pub stopping: CancellationToken,
    /// Cancelled when the grace of a stop is over: every task ends.
    pub stopped: CancellationToken,
    /// Deliveries, and writes on behalf of deliveries.
    pub deliveries: TaskTracker,
    /// Background tasks that end when a stop begins.
    pub duties: TaskTracker,
    /// Background tasks that go on until the last delivery has ended.
    pub heartbeat: TaskTracker,
    store_failed: CancellationToken,
    store_failure: Mutex<Option<String>>,
    /// Outcomes that the store has not taken yet.
    pub unwritten_outcomes: AtomicU64,
    pub abandoned_deliveries: AtomicU64,
}

impl Lifecycle {
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Waits for this time; returns false when a stop begins meanwhile.
    pub async fn rest(&self, time: Duration) -> bool {
        self.stopping.run_until_cancelled(tokio::time::sleep(time)).await.is_some()
    }

    /// Rests after a round of a duty, as long as the round says; returns false when a stop begins meanwhile or the store has
    /// failed for good. After a round that failed it logs `complaint` and rests for `retry`.
    pub async fn rest_after(
        &self,
        round: Result<Duration, StoreError>,
        retry: Duration,
        complaint: &str,
    ) -> bool {
        let wait = match round.map_err(|error| self.check(error)) {
            Ok(wait) => wait,
            Err(StoreError::Broken(_)) => return false,
            Err(error) => {
                tracing::warn!(%error, "{complaint}");
                retry
            }
        };
        self.rest(wait).await
    }

    /// Runs work that a stop waits for until its grace is over.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.deliveries.spawn(self.stopped.clone().run_until_cancelled_owned(Box::pin(work)));
    }

    /// Runs a delivery like [`Lifecycle::spawn`], and counts it as abandoned when the grace ends first.
    pub fn spawn_delivery(self: &std::sync::Arc<Self>, delivery: impl Future<Output = ()> + Send + 'static) {
        let lifecycle = self.clone();
        // On the heap once: the task and `select!` would each move the whole future.
        let delivery = Box::pin(delivery);
        self.deliveries.spawn(async move {
            tokio::select! {
                biased;
                () = delivery => {}
                () = lifecycle.stopped.cancelled() => {
                    lifecycle.abandoned_deliveries.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }

    /// Ends the engine: the store can write nothing any more, and only a restart can recover it.
    pub fn fail_store(&self, error: &str) {
        let mut why = self.store_failure.lock();
        if why.is_none() {
            tracing::error!(error, "The store has failed; stopping so that a restart can recover it");
            *why = Some(error.to_owned());
        }
        self.store_failed.cancel();
    }

    /// Ends the engine if this error says that the store has failed for good.
    pub fn check(&self, error: StoreError) -> StoreError {
        if let StoreError::Broken(why) = &error {
            self.fail_store(why);
        }
        error
    }

    /// Resolves when the store has failed for good, with the reason.
    pub async fn store_failure(&self) -> String {
        self.store_failed.cancelled().await;
        self.store_failure.lock().clone().unwrap_or_default()
    }
}

/// Runs what blocks on files where that is allowed; `None` if it panicked or the runtime ended first.
///
/// A runtime with one thread runs it in place: there another thread would finish at a moment that nothing repeats, and
/// runs in virtual time, which are the ones on one thread, have to be repeatable.
pub(crate) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => Some(work()),
        _ => tokio::task::spawn_blocking(work).await.ok(),
    }
}
