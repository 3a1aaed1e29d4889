//! Rate limits that hold over every window, not only on average.
//!
//! A limit of 100 a minute means that in no minute more than 100 go out, wherever that minute begins. So
//! what went out is remembered for as long as the window lasts, in a few dozen steps; what falls into one
//! step counts as if it had gone out at the step's end, which errs on the safe side by a sixty-fourth of the
//! window. (Algorithms that keep one number let a burst and the even flow after it through, up to twice the
//! limit in one window.)

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    pub max: u32,
    pub per: Duration,
}

/// Steps that a window is remembered in.
const STEPS: i64 = 64;

impl Rate {
    fn per_us(self) -> i64 {
        i64::try_from(self.per.as_micros()).unwrap_or(i64::MAX / 4).clamp(1, i64::MAX / 4)
    }

    /// The end of the step that `now` falls into.
    fn step_end_us(self, now_us: i64) -> i64 {
        let width = (self.per_us() / STEPS).max(1);
        (now_us.div_euclid(width) + 1) * width
    }
}

/// How much of a rate is used up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// What went out, by the end of its step, oldest first.
    spent: VecDeque<(i64, u32)>,
    /// The provider asked for quiet until then.
    quiet_until_us: i64,
}

impl Limit {
    fn in_window(&self, rate: Rate, now_us: i64) -> impl Iterator<Item = &(i64, u32)> {
        self.spent.iter().filter(move |(end, _)| end.saturating_add(rate.per_us()) > now_us)
    }

    /// How many may go at `now`, up to `wanted`.
    pub fn free(&self, rate: Rate, wanted: u32, now: Timestamp) -> u32 {
        let now_us = us(now);
        if self.quiet_until_us > now_us {
            return 0;
        }
        let spent: u64 = self.in_window(rate, now_us).map(|(_, count)| u64::from(*count)).sum();
        let free = u64::from(rate.max).saturating_sub(spent);
        u32::try_from(free).unwrap_or(u32::MAX).min(wanted)
    }

    /// Lets `count` through, whether or not they were free.
    pub fn take(&mut self, rate: Rate, count: u32, now: Timestamp) {
        let now_us = us(now);
        while self.spent.front().is_some_and(|(end, _)| end.saturating_add(rate.per_us()) <= now_us) {
            self.spent.pop_front();
        }
        let end = rate.step_end_us(now_us);
        match self.spent.back_mut() {
            Some((last, spent)) if *last >= end => *spent = spent.saturating_add(count),
            _ => self.spent.push_back((end, count)),
        }
    }

    /// Gives back what was taken and not used.
    pub fn give_back(&mut self, mut count: u32) {
        while let Some((_, spent)) = self.spent.back_mut().filter(|_| count > 0) {
            let back = count.min(*spent);
            *spent -= back;
            count -= back;
            if *spent == 0 {
                self.spent.pop_back();
            }
        }
    }

    /// When the next one may go, if not now.
    pub fn free_at(&self, rate: Rate, now: Timestamp) -> Option<Timestamp> {
        let now_us = us(now);
        let mut over = self.in_window(rate, now_us).map(|(_, count)| i64::from(*count)).sum::<i64>()
            - i64::from(rate.max)
            + 1;
        let mut by_rate = now_us;
        for (end, count) in self.in_window(rate, now_us) {
            if over <= 0 {
                break;
            }
            over -= i64::from(*count);
            by_rate = end.saturating_add(rate.per_us());
        }
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
