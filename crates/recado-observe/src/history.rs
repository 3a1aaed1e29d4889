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

use crate::counters::Sum;

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

    /// Returns the counts of the window that ends at `now`.
    pub fn over(&self, window: Duration, now: Timestamp) -> C {
        let window_ms = millis(window);
        let (tier, width_ms, kept) = tier_of(window_ms);
        let last = now.as_millis().div_euclid(width_ms);
        let span = window_ms.div_euclid(width_ms).clamp(1, kept as i64);
        let mut sum = C::default();
        self.newest_first(tier, last, span).for_each(|(_, counts)| sum.add(counts));
        sum
    }

    /// The same window, told part by part: `tell` hears for every slot that holds something in which of the
    /// window's `parts` it lies.
    pub fn each_over(&self, parts: &Parts, mut tell: impl FnMut(usize, &C)) {
        let (tier, width_ms, _) = tier_of(parts.width_ms * parts.count as i64);
        let (last, span) =
            (parts.end_ms().div_euclid(width_ms) - 1, parts.width_ms / width_ms * parts.count as i64);
        for (slot, counts) in self.newest_first(tier, last, span) {
            let part = (slot * width_ms - parts.begin_ms).div_euclid(parts.width_ms);
            tell(part as usize, counts);
        }
    }

    fn newest_first(&self, tier: usize, last: i64, span: i64) -> impl Iterator<Item = &(i64, C)> {
        let slots = self.tiers[tier].iter().rev();
        slots.skip_while(move |(slot, _)| *slot > last).take_while(move |(slot, _)| *slot > last - span)
    }
}

/// A window cut into equal parts, few enough to draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    pub begin_ms: i64,
    pub width_ms: i64,
    pub count: usize,
}

/// Widths of a part: each a multiple of the one before and of the slots that it is made of.
const PARTS_MS: [i64; 5] = [SLOT_MS, 60_000, 300_000, 1_800_000, 10_800_000];

const PARTS_MAX: i64 = 60;

impl Parts {
    /// Those of the window that ends with the part that `now` is in.
    pub fn of(window: Duration, now: Timestamp) -> Self {
        let window_ms = millis(window).min(millis(WINDOW_MAX));
        let (_, slot_ms, _) = tier_of(window_ms);
        let fits = |width_ms: &&i64| **width_ms >= slot_ms && window_ms <= **width_ms * PARTS_MAX;
        let width_ms = PARTS_MS.iter().find(fits).copied().unwrap_or(PARTS_MS[PARTS_MS.len() - 1]);
        let count = window_ms.div_euclid(width_ms).max(1);
        let last = now.as_millis().div_euclid(width_ms);
        Parts { begin_ms: (last + 1 - count) * width_ms, width_ms, count: count as usize }
    }

    fn end_ms(&self) -> i64 {
        self.begin_ms + self.width_ms * self.count as i64
    }
}

fn millis(window: Duration) -> i64 {
    i64::try_from(window.as_millis()).unwrap_or(i64::MAX)
}

/// The finest tier that reaches back so far: its place, the width of its slots, and how many are kept.
fn tier_of(window_ms: i64) -> (usize, i64, usize) {
    let reaches = |(width_ms, kept): &(i64, usize)| window_ms <= width_ms * *kept as i64;
    let tier = TIERS.iter().position(reaches).unwrap_or(TIERS.len() - 1);
    let (width_ms, kept) = TIERS[tier];
    (tier, width_ms, kept)
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
    fn a_window_in_parts_adds_up_to_the_whole_and_is_never_cut_too_fine() {
        let mut history = History::<u64>::default();
        for second in (0..8 * 24 * 3_600).step_by(10) {
            history.enter(at(second), &1);
        }
        let now = at(8 * 24 * 3_600 - 1);
        let rows = [
            (60, 10),
            (600, 10),
            (601, 60),
            (3_600, 60),
            (3_601, 300),
            (86_400, 1_800),
            (86_401, 10_800),
            (604_800, 10_800),
        ];
        for (window, width) in rows {
            let parts = Parts::of(seconds(window), now);
            assert_eq!(parts.width_ms, width * 1_000, "{window}");
            assert!(
                parts.count as i64 <= PARTS_MAX
                    && parts.width_ms * parts.count as i64 <= window as i64 * 1_000
            );
            let mut told = vec![0; parts.count];
            history.each_over(&parts, |part, counts| told[part] += counts);
            let whole = width as u64 / 10;
            assert!(told.iter().all(|count| *count == whole), "{window}: {told:?}");
            assert_eq!(parts.end_ms(), 8 * 24 * 3_600_000, "{window}");
        }
        assert_eq!(Parts::of(WEEK * 10, now), Parts::of(WEEK, now));
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
