//! Time and chance come from here and nowhere else.

use std::fmt;
use std::time::Duration;

use recado_core::{Draw, Timestamp};

/// What time it is. Waiting is tokio's, so that paused time drives both.
pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;
}

/// How long from `now` until `at`, for tokio's timers.
pub fn until(at: Timestamp, now: Timestamp) -> Duration {
    at.since(now)
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

/// Random draws, seeded where a run must be repeatable.
#[derive(Debug)]
pub struct Chance(parking_lot::Mutex<fastrand::Rng>);

impl Chance {
    pub fn seeded(seed: u64) -> Self {
        Chance(parking_lot::Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    pub fn from_entropy() -> Self {
        Chance(parking_lot::Mutex::new(fastrand::Rng::new()))
    }

    pub fn draw(&self) -> Draw {
        Draw::new(self.0.lock().f64())
    }

    /// For names that have to differ, not for secrets.
    pub fn bits(&self) -> u64 {
        self.0.lock().u64(..)
    }
}
