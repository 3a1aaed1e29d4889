//! Rate limits by the generic cell rate algorithm: one timestamp a limit, exact over every window.
//!
//! A limit of `max` per `per` lets a burst of `max` through and then one every `per / max`. Its whole state
//! is the theoretical arrival time of the next request, so it is a number in memory, in a store or in Redis
//! alike, and never has to be swept.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    pub max: u32,
    pub per: Duration,
}

impl Rate {
    fn interval_us(self) -> i64 {
        let per = i64::try_from(self.per.as_micros()).unwrap_or(i64::MAX);
        (per / i64::from(self.max.max(1))).max(1)
    }

    fn span_us(self) -> i64 {
        self.interval_us().saturating_mul(i64::from(self.max.max(1)))
    }
}

/// How much of a rate is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Gcra {
    /// When everything let through so far would have arrived at the even rate, in microseconds since 1970.
    next_us: i64,
    /// The provider asked for quiet until then.
    #[serde(default)]
    quiet_until_us: i64,
}

impl Gcra {
    /// How many may go at `now`, up to `wanted`.
    pub fn free(&self, rate: Rate, wanted: u32, now: Timestamp) -> u32 {
        let now = us(now);
        if self.quiet_until_us > now {
            return 0;
        }
        let room = rate.span_us() - (self.next_us.max(now) - now);
        u32::try_from((room / rate.interval_us()).max(0)).unwrap_or(u32::MAX).min(wanted).min(rate.max)
    }

    /// Lets `count` through, whether or not they were free.
    pub fn take(&mut self, rate: Rate, count: u32, now: Timestamp) {
        let start = self.next_us.max(us(now));
        self.next_us = start.saturating_add(rate.interval_us().saturating_mul(i64::from(count)));
    }

    /// Gives back what was taken and not used.
    pub fn give_back(&mut self, rate: Rate, count: u32) {
        self.next_us = self.next_us.saturating_sub(rate.interval_us().saturating_mul(i64::from(count)));
    }

    /// When the next one may go, if not now.
    pub fn free_at(&self, rate: Rate, now: Timestamp) -> Option<Timestamp> {
        let now_us = us(now);
        let by_rate = self.next_us - rate.span_us() + rate.interval_us();
        let at = by_rate.max(self.quiet_until_us);
        // Rounded up to the millisecond, so that whoever waits does not come too early.
        (at > now_us)
            .then(|| Timestamp::from_millis(at.div_euclid(1_000) + i64::from(at.rem_euclid(1_000) > 0)))
    }

    /// The provider said when it wants to hear from us again.
    pub fn quiet_until(&mut self, until: Timestamp) {
        self.quiet_until_us = self.quiet_until_us.max(us(until));
    }

    pub fn quiet_at(&self, now: Timestamp) -> Option<Timestamp> {
        (self.quiet_until_us > us(now)).then(|| Timestamp::from_millis(self.quiet_until_us / 1_000))
    }
}

fn us(at: Timestamp) -> i64 {
    at.as_millis().saturating_mul(1_000)
}
