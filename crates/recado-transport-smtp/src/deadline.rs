//! Time limits of each step, and of all of them together.

use std::time::Duration;

use tokio::time::Instant;

/// We give up this long before the caller's deadline at most. At the deadline the caller drops the future;
/// here we can say at which step it ended, and whether the message may have been taken.
const MARGIN_MAX: Duration = Duration::from_millis(250);

/// Longest time limit; beyond that, sums of times would overflow.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn within(timeout: Duration) -> Self {
        let margin = MARGIN_MAX.min(timeout / 10);
        Deadline(Instant::now() + timeout.saturating_sub(margin).min(TIMEOUT_MAX))
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
