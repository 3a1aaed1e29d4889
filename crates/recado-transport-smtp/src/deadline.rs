//! Time limits of each step, and of all of them together.

use std::time::Duration;

use tokio::time::Instant;

/// The caller drops the future when its time is up. We give up a little earlier, because we can say at
/// which step, and whether the message may have been taken.
const HEAD_START_MAX: Duration = Duration::from_millis(250);
/// Longest time limit; beyond that, sums of times would overflow.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn within(timeout: Duration) -> Self {
        let head_start = HEAD_START_MAX.min(timeout / 10);
        Deadline(Instant::now() + timeout.saturating_sub(head_start).min(TIMEOUT_MAX))
    }

    /// The end of a step that may take this long from now on.
    pub(crate) fn step(self, limit: Duration) -> Instant {
        self.0.min(Instant::now() + limit.min(TIMEOUT_MAX))
    }

    pub(crate) fn end(self) -> Instant {
        self.0
    }

    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}
