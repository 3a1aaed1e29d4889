//! Counts by names from outside, bounded: the busiest names have an entry of their own, the rest share one.
//!
//! A name without an entry takes one when it has lately been twice as busy as the least busy that has one. A
//! name that loses its entry leaves its counts with the rest, and one that gains an entry starts at zero, so no
//! count ever falls and the sum stays exact.

use std::collections::HashMap;
use std::time::Duration;

use recado_core::Timestamp;

use crate::counters::AddCounts;
use crate::history::{HOUR, History};
use crate::{NAMED_MAX, OTHER};

/// Names without an entry whose volume is counted.
const CANDIDATES_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub struct TopK<C> {
    named: HashMap<Box<str>, TopEntry<C>>,
    rest: History<C>,
    /// Recent volume of names without an entry.
    candidates: HashMap<Box<str>, u64>,
    /// The hour that volumes were last halved in.
    hour: i64,
}

#[derive(Debug, Default)]
struct TopEntry<C> {
    history: History<C>,
    recent: u64,
}

impl<C: AddCounts> TopK<C> {
    pub fn add(&mut self, name: &str, at: Timestamp, counts: &C, volume: u64) {
        self.halve_old_volumes(at);
        if let Some(entry) = self.named.get_mut(name) {
            entry.history.add(at, counts);
            entry.recent += volume;
        } else if name == OTHER {
            self.rest.add(at, counts);
        } else if self.named.len() < NAMED_MAX {
            let mut entry = TopEntry { history: History::default(), recent: volume };
            entry.history.add(at, counts);
            self.named.insert(name.into(), entry);
        } else {
            self.rest.add(at, counts);
            self.add_candidate(name, volume);
        }
    }

    /// Halves all volumes once an hour.
    fn halve_old_volumes(&mut self, at: Timestamp) {
        let hour_ms = i64::try_from(HOUR.as_millis()).unwrap_or(i64::MAX);
        let hour = at.as_millis().div_euclid(hour_ms);
        let halvings = u32::try_from(hour - self.hour).unwrap_or_default().min(63);
        if halvings > 0 {
            self.hour = hour;
            self.named.values_mut().for_each(|entry| entry.recent >>= halvings);
            self.candidates.values_mut().for_each(|volume| *volume >>= halvings);
            self.candidates.retain(|_, volume| *volume > 0);
        }
    }

    fn add_candidate(&mut self, name: &str, volume: u64) {
        while self.candidates.len() >= CANDIDATES_MAX && !self.candidates.contains_key(name) {
            self.candidates.retain(|_, volume| {
                *volume /= 2;
                *volume > 0
            });
        }
        let candidates = self.candidates.entry(name.into()).or_default();
        *candidates += volume;
        let volume = *candidates;
        let least =
            self.named.iter().min_by(|one, other| (one.1.recent, one.0).cmp(&(other.1.recent, other.0)));
        let Some(loser) = least.filter(|(_, entry)| volume / 2 > entry.recent).map(|(name, _)| name.clone())
        else {
            return;
        };
        if let Some(entry) = self.named.remove(&loser) {
            self.rest.absorb(entry.history);
        }
        self.candidates.remove(name);
        self.named.insert(name.into(), TopEntry { history: History::default(), recent: volume });
    }

    /// Returns the names with an entry, in order.
    pub fn named(&self) -> Vec<(&str, &History<C>)> {
        let mut named: Vec<_> = self.named.iter().map(|(name, entry)| (&**name, &entry.history)).collect();
        named.sort_unstable_by_key(|(name, _)| *name);
        named
    }

    /// Returns the totals of each name, and of the rest.
    pub fn totals(&self) -> Vec<(&str, &C)> {
        let named = self.named().into_iter().map(|(name, history)| (name, &history.total));
        named.chain([(OTHER, &self.rest.total)]).collect()
    }

    pub fn sums_over(&self, window: Duration, now: Timestamp) -> Vec<(&str, C)> {
        let named = self.named().into_iter().map(|(name, history)| (name, history.sum_over(window, now)));
        named.chain([(OTHER, self.rest.sum_over(window, now))]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(3_600_000);

    fn full() -> TopK<u64> {
        let mut top = TopK::<u64>::default();
        for one in 0..NAMED_MAX {
            top.add(&format!("c{one:02}"), NOW, &10, 10);
        }
        top
    }

    fn sum(top: &TopK<u64>) -> u64 {
        top.totals().iter().map(|(_, count)| **count).sum()
    }

    fn holds(top: &TopK<u64>, name: &str) -> Option<u64> {
        top.totals().iter().find(|(known, _)| *known == name).map(|(_, count)| **count)
    }

    #[test]
    fn a_name_that_is_twice_as_busy_replaces_the_least_busy_and_nothing_is_lost() {
        let mut top = full();
        top.add("late", NOW, &20, 20);
        assert_eq!((holds(&top, "late"), holds(&top, OTHER)), (None, Some(20)));
        top.add("late", NOW, &2, 2);
        assert_eq!(holds(&top, "late"), Some(0), "what it had stays with the rest");
        assert_eq!((holds(&top, "c00"), holds(&top, OTHER)), (None, Some(32)));
        top.add("late", NOW, &5, 5);
        assert_eq!((holds(&top, "late"), top.named().len(), sum(&top)), (Some(5), NAMED_MAX, 527));
        let hour: u64 = top.sums_over(HOUR, NOW).iter().map(|(_, count)| count).sum();
        assert_eq!(hour, 527, "neither is anything lost from a window");
    }

    #[test]
    fn what_was_hours_ago_counts_less() {
        let mut top = full();
        let later = NOW.plus(HOUR * 4);
        top.add("late", later, &3, 3);
        assert_eq!(holds(&top, "late"), Some(0));
    }

    #[test]
    fn a_flood_of_names_takes_no_more_room() {
        let mut top = full();
        for one in 0..20_000 {
            top.add(&format!("flood{one}"), NOW, &1, 1);
        }
        assert!(top.candidates.len() <= CANDIDATES_MAX);
        assert_eq!((top.named().len(), sum(&top)), (NAMED_MAX, 20_500));
        for _ in 0..30 {
            top.add("busy", NOW, &1, 1);
        }
        assert!(holds(&top, "busy").is_some(), "a flood does not hide who is really busy");
    }

    #[test]
    fn a_name_that_says_other_is_one_of_the_rest() {
        let mut top = TopK::<u64>::default();
        top.add(OTHER, NOW, &1, 1);
        assert_eq!(top.totals(), [(OTHER, &1)]);
    }
}
