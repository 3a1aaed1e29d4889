//! Time comes from here and nowhere else.

use std::fmt;
use std::time::Duration;

use recado_core::Timestamp;
use tokio::time::Instant;

/// The wall clock. Waiting is tokio's, so that paused time drives both.
pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;

    /// The time that leases are measured by. It runs like `now` and never steps, so that setting the wall clock neither
    /// shortens nor lengthens a lease. Nodes that share a store must agree on it.
    fn steady_now(&self) -> Timestamp {
        self.now()
    }
}

/// A sleep to a moment of the wall clock looks at that clock this often: the clock may be set, and the machine may have
/// been suspended, meanwhile.
const CLOCK_LOOK_EVERY: Duration = Duration::from_millis(500);

/// Sleeps until the wall clock shows `at`, or would have shown it had it not been set back: the caller looks again at
/// what it waits for. Without a time it sleeps for ever.
pub(crate) async fn sleep_until(clock: &dyn Clock, at: Option<Timestamp>) {
    let Some(at) = at else { return std::future::pending().await };
    let mut left = at.since(clock.now());
    loop {
        let step = left.min(CLOCK_LOOK_EVERY);
        tokio::time::sleep(step).await;
        left -= step;
        if left.is_zero() || clock.now() >= at {
            return;
        }
    }
}

#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the time")]
    fn now(&self) -> Timestamp {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The system's wall clock, and a steady time that began with it when this was made.
#[derive(Debug, Clone, Copy)]
pub struct SteadyClock {
    started_at: Timestamp,
    started: Instant,
}

impl SteadyClock {
    pub fn start() -> Self {
        SteadyClock { started_at: SystemClock.now(), started: Instant::now() }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn steady_now(&self) -> Timestamp {
        self.started_at.plus(self.started.elapsed())
    }
}
