//! Counts over time: the last hour by ten seconds, the last day by five minutes, the last week by the hour.
//!
//! Only slots in which something happened are kept, so that a quiet route costs nothing and one that never
//! rests about half a megabyte.
//!
//! A window ends with the slot that `now` is in and is so many slots long: it never reaches further back than
//! it says.

use std::collections::VecDeque;
use std::time::Duration;

use recado_core::Timestamp;

use crate::tally::Sum;

pub const HOUR: Duration = Duration::from_secs(60 * 60);
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Width of a slot in milliseconds, and slots kept; finest first.
const TIERS: [(i64, usize); 3] = [(SLOT_MS, 360), (300_000, 288), (3_600_000, 168)];

/// The finest slot.
pub const SLOT_MS: i64 = 10_000;

/// The longest window that can be asked for.
pub const WINDOW_MAX: Duration = WEEK;

#[derive(Clone, Debug, Default)]
pub struct History<C> {
    pub total: C,
    /// Slot and counts, by tier; oldest first.
    tiers: [VecDeque<(i64, C)>; TIERS.len()],
}

impl<C: Sum> History<C> {
    pub fn enter(&mut self, at: Timestamp, counts: &C) {
        self.total.add(counts);
        for (slots, (width_ms, kept)) in self.tiers.iter_mut().zip(TIERS) {
            add(slots, at.as_millis().div_euclid(width_ms), counts, kept);
        }
    }

    /// Takes another history over, as if both had been one.
    pub fn absorb(&mut self, other: History<C>) {
        self.total.add(&other.total);
        for ((mine, theirs), (_, kept)) in self.tiers.iter_mut().zip(other.tiers).zip(TIERS) {
            theirs.iter().for_each(|(slot, counts)| add(mine, *slot, counts, kept));
        }
    }

    /// What was counted in the window that ends at `now`.
    pub fn over(&self, window: Duration, now: Timestamp) -> C {
        let window_ms = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
        let reaches = |(width_ms, kept): &(i64, usize)| window_ms <= width_ms * *kept as i64;
        let tier = TIERS.iter().position(reaches).unwrap_or(TIERS.len() - 1);
        let (width_ms, kept) = TIERS[tier];
        let last = now.as_millis().div_euclid(width_ms);
        let span = window_ms.div_euclid(width_ms).clamp(1, kept as i64);
        let mut sum = C::default();
        let newest_first = self.tiers[tier].iter().rev();
        newest_first
            .skip_while(|(slot, _)| *slot > last)
            .take_while(|(slot, _)| *slot > last - span)
            .for_each(|(_, counts)| sum.add(counts));
        sum
    }
}

fn add<C: Sum>(slots: &mut VecDeque<(i64, C)>, slot: i64, counts: &C, kept: usize) {
    // Nearly always the newest slot; clocks that differ by a little land next to it.
    let at = slots.iter().rposition(|(known, _)| *known <= slot);
    match at.map(|at| (at, &mut slots[at])) {
        Some((_, (known, sum))) if *known == slot => sum.add(counts),
        at => {
            let after = at.map_or(0, |(at, _)| at + 1);
            if after == 0 && slots.len() >= kept {
                return; // older than all that is kept
            }
            slots.insert(after, (slot, counts.clone()));
            if slots.len() > kept {
                slots.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1_000)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_window_begins_and_ends_at_the_border_of_a_slot() {
        let mut history = History::<u64>::default();
        history.enter(at(0), &1);
        history.enter(Timestamp::from_millis(9_999), &10);
        history.enter(at(10), &100);
        assert_eq!(history.over(seconds(10), Timestamp::from_millis(9_999)), 11);
        assert_eq!(history.over(seconds(10), at(10)), 100);
        assert_eq!(history.over(seconds(20), at(19)), 111);
        assert_eq!(history.over(seconds(20), at(20)), 100);
        assert_eq!(history.over(seconds(20), at(30)), 0);
        assert_eq!(history.total, 111);
    }

    #[test]
    fn a_window_sees_nothing_of_the_future() {
        let mut history = History::<u64>::default();
        history.enter(at(100), &1);
        history.enter(at(50), &10);
        assert_eq!(history.over(HOUR, at(60)), 10);
        assert_eq!(history.over(HOUR, at(100)), 11);
    }

    #[test]
    fn the_hour_the_day_and_the_week_each_have_their_own_slots() {
        let mut history = History::<u64>::default();
        for minute in 0..(8 * 24 * 60) {
            history.enter(at(minute * 60), &1);
        }
        let now = at(8 * 24 * 3_600 - 1);
        assert_eq!(history.over(HOUR, now), 60);
        assert_eq!(history.over(DAY, now), 24 * 60);
        assert_eq!(history.over(WEEK, now), 7 * 24 * 60);
        assert_eq!(history.over(WEEK * 10, now), 7 * 24 * 60, "there is no more than a week");
        assert_eq!(history.total, 8 * 24 * 60);
        assert!(history.tiers.iter().zip(TIERS).all(|(slots, (_, kept))| slots.len() <= kept));
    }

    #[test]
    fn what_is_older_than_all_that_is_kept_counts_in_the_total_only() {
        let mut history = History::<u64>::default();
        for slot in 0..360 {
            history.enter(at(1_000_000 + slot * 10), &1);
        }
        history.enter(at(0), &1);
        assert_eq!(history.total, 361);
        assert_eq!(history.tiers[0].len(), 360);
        assert_eq!(history.over(HOUR, at(1_000_000 + 3_599)), 360);
    }

    #[test]
    fn one_history_takes_another_over() {
        let (mut one, mut other) = (History::<u64>::default(), History::<u64>::default());
        one.enter(at(10), &1);
        other.enter(at(10), &2);
        other.enter(at(0), &4);
        one.absorb(other);
        assert_eq!((one.total, one.over(seconds(10), at(10)), one.over(seconds(20), at(10))), (7, 3, 7));
    }
}
