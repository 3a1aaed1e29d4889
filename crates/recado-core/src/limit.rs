//! Rate limits that hold over every window, not only on average.
//!
//! A limit of 100 a minute means that in no minute more than 100 go out, wherever that minute begins. So
//! what went out is remembered for as long as the window lasts, in 64 steps. What falls into one
//! step counts as if it had gone out at the end of the step after it: that costs up to a thirty-second of the
//! window, and leaves room for what lies between taking and arriving, a write and a network. (Algorithms that
//! keep one number let a burst and the even flow after it through, up to twice the limit in one window.)
//!
//! A limit is a small value that all nodes share. A caller that takes from it learns how many it got.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::values::named_enum::named_enum;
use crate::values::time::Timestamp;

named_enum! {
    /// The bound that was reached.
    pub enum LimitKind {
        /// The provider's rate.
        Rate = "rate",
        CompanyRate = "companyRate",
        /// The provider asked for quiet.
        Quiet = "quiet",
        /// Deliveries to the provider at the same time.
        Slots = "slots",
        CompanySlots = "companySlots",
        /// The store did not say.
        Store = "store",
    }
}

named_enum! {
    /// The subject of a person's pause.
    pub enum PauseScope {
        Company = "company",
        Route = "route",
        Provider = "provider",
    }
}

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

    /// Returns the time at which something taken at `now` counts as sent.
    fn counted_at_us(self, now_us: i64) -> i64 {
        let width = (self.per_us() / STEPS).max(1);
        (now_us.div_euclid(width) + 2) * width
    }
}

/// A rate limit: its use so far, and the quiet time that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limit {
    /// Sends by the time they count for, oldest first.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    spent: VecDeque<(i64, u32)>,
    /// From then on nothing that was spent matters.
    #[serde(skip_serializing_if = "is_zero")]
    spent_until_us: i64,
    /// End of the quiet time that was asked for.
    #[serde(skip_serializing_if = "is_zero")]
    quiet_until_us: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    quiet_reason: Option<Box<str>>,
    /// Start of the quiet; 0 in values that older versions wrote.
    #[serde(skip_serializing_if = "is_zero")]
    quiet_since_us: i64,
    /// A rule of an operator imposes the quiet, and not an answer: no route cuts it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    quiet_by_rule: bool,
    /// The value is kept until then, so that every node learns that its hold was lifted or shortened.
    #[serde(skip_serializing_if = "is_zero")]
    kept_until_us: i64,
}

/// A wait that an answer from outside imposes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quiet {
    /// Absent where an older version wrote it.
    pub since: Option<Timestamp>,
    pub until: Timestamp,
    pub reason: Box<str>,
    /// A rule of an operator imposes it.
    pub by_rule: bool,
}

impl Quiet {
    /// Returns the quiet as it holds for a route that waits `max` at most, if it is not over at `now` for that one.
    pub fn at_most(self, max: Duration, now: Timestamp) -> Option<Quiet> {
        let since = self.since.filter(|_| !self.by_rule);
        let until = since.map_or(self.until, |since| self.until.min(since.plus(max)));
        (until > now).then_some(Quiet { until, ..self })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

impl Limit {
    fn in_window(&self, rate: Rate, now_us: i64) -> impl Iterator<Item = &(i64, u32)> {
        self.spent.iter().filter(move |(at, _)| at.saturating_add(rate.per_us()) > now_us)
    }

    /// Returns how many the rate lets go at `now`, up to `wanted`. A quiet is a matter of its own.
    pub fn available(&self, rate: Rate, wanted: u32, now: Timestamp) -> u32 {
        let spent: u64 = self.in_window(rate, us(now)).map(|(_, count)| u64::from(*count)).sum();
        let free = u64::from(rate.max).saturating_sub(spent);
        u32::try_from(free).unwrap_or(u32::MAX).min(wanted)
    }

    /// Takes up to `wanted`, and returns the number taken.
    pub fn take(&mut self, rate: Rate, wanted: u32, now: Timestamp) -> u32 {
        let count = self.available(rate, wanted, now);
        self.spend(rate, count, now);
        count
    }

    fn spend(&mut self, rate: Rate, count: u32, now: Timestamp) {
        if count == 0 {
            return;
        }
        let now_us = us(now);
        while self.spent.front().is_some_and(|(at, _)| at.saturating_add(rate.per_us()) <= now_us) {
            self.spent.pop_front();
        }
        let at = rate.counted_at_us(now_us);
        match self.spent.back_mut() {
            Some((last, spent)) if *last >= at => *spent = spent.saturating_add(count),
            _ => self.spent.push_back((at, count)),
        }
        self.spent_until_us = self.spent_until_us.max(at.saturating_add(rate.per_us()));
    }

    /// Gives back what was taken at `taken_at` and not used. What others took later stays as late as it was.
    pub fn return_unused(&mut self, rate: Rate, mut count: u32, taken_at: Timestamp) {
        let latest = rate.counted_at_us(us(taken_at));
        for (_, spent) in self.spent.iter_mut().rev().skip_while(|(at, _)| *at > latest) {
            let back = count.min(*spent);
            *spent -= back;
            count -= back;
        }
        self.spent.retain(|(_, spent)| *spent > 0);
    }

    /// Moves sends that were taken at `taken_at` and go out only now: they count from now on.
    pub fn postdate(&mut self, rate: Rate, count: u32, taken_at: Timestamp, now: Timestamp) {
        let before = self.total();
        self.return_unused(rate, count, taken_at);
        self.spend(rate, before - self.total(), now);
    }

    fn total(&self) -> u32 {
        self.spent.iter().map(|(_, count)| *count).fold(0, u32::saturating_add)
    }

    /// Returns true if something taken at `taken_at` that goes out at `now` must be postdated.
    pub fn needs_postdating(rate: Rate, taken_at: Timestamp, now: Timestamp) -> bool {
        us(now) > rate.counted_at_us(us(taken_at))
    }

    /// Returns the time when the next one may go, or `None` for now.
    pub fn available_at(&self, rate: Rate, now: Timestamp) -> Option<Timestamp> {
        let now_us = us(now);
        let mut over = self.in_window(rate, now_us).map(|(_, count)| i64::from(*count)).sum::<i64>()
            - i64::from(rate.max)
            + 1;
        let mut by_rate = now_us;
        for (at, count) in self.in_window(rate, now_us) {
            if over <= 0 {
                break;
            }
            over -= i64::from(*count);
            by_rate = at.saturating_add(rate.per_us());
        }
        (by_rate > now_us).then(|| rounded_up(by_rate))
    }

    /// Sets the hold that an answer asked for, with its reason. The longest one asked for applies, until `max` after the
    /// beginning of the quiet at most; an operator's rule has no `max`.
    pub fn quiet_until(&mut self, until: Timestamp, why: &str, max: Option<Duration>, now: Timestamp) {
        let since_us = if self.quiet_until_us > us(now) { self.quiet_since_us } else { us(now) };
        // 0: an older version wrote it, and its beginning is not known.
        let since = Timestamp::from_millis(if since_us > 0 { since_us } else { us(now) } / 1_000);
        let until_us = us(max.map_or(until, |max| until.min(since.plus(max))));
        if until_us > self.quiet_until_us {
            (self.quiet_since_us, self.quiet_until_us) = (since_us, until_us);
            (self.quiet_reason, self.quiet_by_rule) = (Some(why.into()), max.is_none());
        }
    }

    /// Ends the quiet now, by an operator's act.
    pub fn lift_quiet(&mut self) {
        self.kept_until_us = self.kept_until_us.max(self.quiet_until_us);
        (self.quiet_until_us, self.quiet_since_us) = (0, 0);
        (self.quiet_reason, self.quiet_by_rule) = (None, false);
    }

    /// Returns true when the quiet begins after `now`, for the clock was set back, or ends later than any answer could
    /// ask for, for an older version wrote it without a bound.
    pub fn quiet_exceeds(&self, max: Duration, now: Timestamp) -> bool {
        let latest = now.plus(crate::breaker::CLOCKS_DIFFER_MAX);
        self.quiet_until_us > us(now)
            && (self.quiet_since_us > us(latest) || self.quiet_until_us > us(latest.plus(max)))
    }

    /// Has a quiet that begins after `now` begin now, as long as it was, and end at most `max` after `now`.
    pub fn bound_quiet(&mut self, max: Duration, now: Timestamp) {
        if self.quiet_exceeds(max, now) {
            let ahead_us = self.quiet_since_us.saturating_sub(us(now)).max(0);
            self.quiet_since_us -= ahead_us;
            self.quiet_until_us = self.quiet_until_us.saturating_sub(ahead_us).min(us(now.plus(max)));
        }
    }

    /// Returns the quiet that is on at `now`.
    pub fn quiet(&self, now: Timestamp) -> Option<Quiet> {
        let (until, reason) = self.quiet_at(now)?;
        let since = (self.quiet_since_us > 0).then(|| Timestamp::from_millis(self.quiet_since_us / 1_000));
        Some(Quiet { since, until, reason: reason.into(), by_rule: self.quiet_by_rule })
    }

    /// Returns the end of the quiet and its reason, if it is not over.
    pub fn quiet_at(&self, now: Timestamp) -> Option<(Timestamp, &str)> {
        let why = self.quiet_reason.as_deref().unwrap_or_default();
        (self.quiet_until_us > us(now)).then(|| (Timestamp::from_millis(self.quiet_until_us / 1_000), why))
    }

    /// Returns the time from which on the value holds nothing that matters.
    pub fn expires_at(&self) -> Timestamp {
        rounded_up(self.spent_until_us.max(self.quiet_until_us).max(self.kept_until_us))
    }

    /// Returns true if it holds times that lie in the future: the clock was set back.
    pub fn has_future_times(&self, rate: Rate, now: Timestamp) -> bool {
        let latest = rate.counted_at_us(us(now.plus(crate::breaker::CLOCKS_DIFFER_MAX)));
        self.spent.back().is_some_and(|(at, _)| *at > latest)
    }

    /// Treats times that lie in the future as now.
    pub fn clamp_future_times(&mut self, rate: Rate, now: Timestamp) {
        let latest = rate.counted_at_us(us(now));
        let ahead: u32 = self.spent.iter().filter(|(at, _)| *at > latest).map(|(_, count)| count).sum();
        self.spent.retain(|(at, _)| *at <= latest);
        self.spent_until_us = self.spent.back().map_or(0, |(at, _)| at.saturating_add(rate.per_us()));
        self.spend(rate, ahead, now);
    }
}

fn us(at: Timestamp) -> i64 {
    at.as_millis().saturating_mul(1_000)
}

/// Rounds up to the millisecond, so that a waiting caller does not come too early.
fn rounded_up(at_us: i64) -> Timestamp {
    Timestamp::from_millis(at_us.div_euclid(1_000) + i64::from(at_us.rem_euclid(1_000) > 0))
}
