//! The server's clock, read once a second and carried on in between.
//!
//! Nodes whose clocks differ would disagree about which lease has run out. So they all use the time of the
//! server that holds the first partition: measured every second by `TIME`, carried on in between by this
//! machine's monotonic clock. A measurement is off by at most half its round trip; a better one replaces a worse
//! one, and every one gets worse with age.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use recado_core::Timestamp;
use tokio::time::Instant;

use super::RedisOptions;
use super::fault::{Fault, OpenError};
use super::shards::Shards;

const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// Measurements at the start, of which the best counts.
const FIRST_MEASUREMENTS: usize = 3;

/// Largest error of a monotonic clock: 200 µs a second, several times that of crystals.
const DRIFT_PER_MILLION: u32 = 200;

/// A server whose clock goes back further than this has been changed or replaced.
const STEP_LOGGED_MICROS: i64 = 1_000_000;

/// The server's clock. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerClock(Arc<ClockState>);

#[derive(Debug)]
struct ClockState {
    /// A key of the first partition.
    key: Box<[u8]>,
    timeout: Duration,
    best: RwLock<Measurement>,
    /// The latest time that was returned, in milliseconds.
    returned: AtomicI64,
}

#[derive(Debug, Clone, Copy)]
struct Measurement {
    server_micros: i64,
    at: Instant,
    /// Half the round trip.
    error: Duration,
}

impl Measurement {
    fn micros_at(&self, now: Instant) -> i64 {
        let since = now.saturating_duration_since(self.at).as_micros();
        self.server_micros.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }

    fn error_at(&self, now: Instant) -> Duration {
        let age = now.saturating_duration_since(self.at);
        self.error + age * DRIFT_PER_MILLION / 1_000_000
    }

    /// Returns true if both can be right.
    fn agrees_with(&self, other: &Measurement, now: Instant) -> bool {
        let apart = self.micros_at(now).abs_diff(other.micros_at(now));
        u128::from(apart) <= (self.error_at(now) + other.error_at(now)).as_micros()
    }
}

impl ServerClock {
    pub(super) async fn read(shards: &Shards, options: &RedisOptions) -> Result<Self, OpenError> {
        let RedisOptions { prefix, timeout, .. } = options;
        let key = format!("{prefix}:{{0}}").into_bytes().into_boxed_slice();
        let of = |fault| OpenError::of(fault, *timeout);
        let best = RwLock::new(measure(shards, &key, *timeout).await.map_err(of)?);
        let clock = ServerClock(Arc::new(ClockState {
            key,
            timeout: *timeout,
            best,
            returned: AtomicI64::new(i64::MIN),
        }));
        for _ in 1..FIRST_MEASUREMENTS {
            clock.measure(shards).await.map_err(of)?;
        }
        Ok(clock)
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.0.key
    }

    /// The server's time: never earlier than what was returned before, whatever happens to the server's clock.
    pub fn now(&self) -> Timestamp {
        let millis = self.0.best.read().micros_at(Instant::now()) / 1_000;
        let returned = self.0.returned.fetch_max(millis, Ordering::Relaxed);
        Timestamp::from_millis(returned.max(millis))
    }

    /// Measures the time once a second. This also finds out that an idle connection is dead.
    pub(super) async fn keep(self, shards: Arc<Shards>) {
        loop {
            tokio::time::sleep(MEASURE_EVERY).await;
            // Callers that need the server learn of its failure; the clock goes on.
            let _ = self.measure(&shards).await;
        }
    }

    async fn measure(&self, shards: &Shards) -> Result<(), Fault> {
        self.learn(measure(shards, &self.0.key, self.0.timeout).await?);
        Ok(())
    }

    fn learn(&self, new: Measurement) {
        let now = Instant::now();
        let mut best = self.0.best.write();
        let agrees = new.agrees_with(&best, now);
        let step_micros = new.micros_at(now).saturating_sub(best.micros_at(now));
        if !agrees && step_micros < -STEP_LOGGED_MICROS {
            tracing::warn!(
                stepMs = step_micros / 1_000,
                "The clock of Redis went back; ours stands still until it is there again. Keep the clocks of its machines in step (NTP)"
            );
        }
        if !agrees || new.error_at(now) < best.error_at(now) {
            *best = new;
        }
    }
}

async fn measure(shards: &Shards, key: &[u8], timeout: Duration) -> Result<Measurement, Fault> {
    let sent_at = Instant::now();
    let value = shards.send(key, &redis::cmd("TIME"), sent_at + timeout).await?;
    let error = sent_at.elapsed() / 2;
    let unreadable = || Fault::Unreachable { at: "the clock".into(), why: "its TIME cannot be read".into() };
    let (seconds, micros): (i64, i64) = redis::from_redis_value(value).map_err(|_| unreadable())?;
    Ok(Measurement { server_micros: seconds * 1_000_000 + micros, at: sent_at + error, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(server_millis: i64, error: Duration) -> Measurement {
        Measurement { server_micros: server_millis * 1_000, at: Instant::now(), error }
    }

    fn clock(first: Measurement) -> ServerClock {
        let (best, returned) = (RwLock::new(first), AtomicI64::new(i64::MIN));
        ServerClock(Arc::new(ClockState { key: Box::default(), timeout: Duration::ZERO, best, returned }))
    }

    const EXACT: Duration = Duration::from_micros(100);
    const ROUGH: Duration = Duration::from_millis(40);

    #[tokio::test(start_paused = true)]
    async fn time_goes_on_between_measurements() {
        let clock = clock(at(1_000_000, EXACT));
        tokio::time::advance(Duration::from_millis(750)).await;
        assert_eq!(clock.now().as_millis(), 1_000_750);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rough_measurement_does_not_replace_an_exact_one_that_it_agrees_with() {
        let clock = clock(at(1_000_000, EXACT));
        clock.learn(at(1_000_030, ROUGH));
        assert_eq!(clock.now().as_millis(), 1_000_000);
        // Until the exact one is so old that it may have drifted further.
        tokio::time::advance(Duration::from_secs(400)).await;
        clock.learn(at(1_400_030, ROUGH));
        assert_eq!(clock.now().as_millis(), 1_400_030);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_with_another_time_is_followed_forwards_at_once() {
        let clock = clock(at(1_000_000, EXACT));
        clock.learn(at(1_005_000, ROUGH));
        assert_eq!(clock.now().as_millis(), 1_005_000);
    }

    #[tokio::test(start_paused = true)]
    async fn time_never_runs_backwards() {
        let clock = clock(at(1_000_000, EXACT));
        let before = clock.now();
        clock.learn(at(997_000, EXACT));
        assert_eq!(clock.now(), before, "it stands still");
        tokio::time::advance(Duration::from_millis(3_001)).await;
        assert_eq!(clock.now().as_millis(), 1_000_001, "and goes on when the server has caught up");
    }
}
