//! Names from outside, bounded: the busiest have a seat of their own, the rest share one.
//!
//! A name without a seat takes one when it has lately been twice as busy as the least busy that has one. Who
//! loses a seat leaves its counts with the rest, and who gains one starts at nothing, so that no count ever
//! falls and all together are always all there was.

use std::collections::HashMap;
use std::time::Duration;

use recado_core::Timestamp;

use crate::counters::Sum;
use crate::history::{HOUR, History};
use crate::{NAMED_MAX, OTHER};

/// Names without a seat whose volume is followed.
const WAITING_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub struct Seats<C> {
    seated: HashMap<Box<str>, Seat<C>>,
    rest: History<C>,
    /// Recent volume of those without a seat.
    waiting: HashMap<Box<str>, u64>,
    /// The hour that volumes were last halved in.
    hour: i64,
}

#[derive(Debug, Default)]
struct Seat<C> {
    history: History<C>,
    recent: u64,
}

impl<C: Sum> Seats<C> {
    pub fn enter(&mut self, name: &str, at: Timestamp, counts: &C, volume: u64) {
        self.fade(at);
        if let Some(seat) = self.seated.get_mut(name) {
            seat.history.enter(at, counts);
            seat.recent += volume;
        } else if name == OTHER {
            self.rest.enter(at, counts);
        } else if self.seated.len() < NAMED_MAX {
            let mut seat = Seat { history: History::default(), recent: volume };
            seat.history.enter(at, counts);
            self.seated.insert(name.into(), seat);
        } else {
            self.rest.enter(at, counts);
            self.wait(name, volume);
        }
    }

    /// Every hour, what was before counts half.
    fn fade(&mut self, at: Timestamp) {
        let hour_ms = i64::try_from(HOUR.as_millis()).unwrap_or(i64::MAX);
        let hour = at.as_millis().div_euclid(hour_ms);
        let halvings = u32::try_from(hour - self.hour).unwrap_or_default().min(63);
        if halvings > 0 {
            self.hour = hour;
            self.seated.values_mut().for_each(|seat| seat.recent >>= halvings);
            self.waiting.values_mut().for_each(|volume| *volume >>= halvings);
            self.waiting.retain(|_, volume| *volume > 0);
        }
    }

    fn wait(&mut self, name: &str, volume: u64) {
        while self.waiting.len() >= WAITING_MAX && !self.waiting.contains_key(name) {
            self.waiting.retain(|_, volume| {
                *volume /= 2;
                *volume > 0
            });
        }
        let waiting = self.waiting.entry(name.into()).or_default();
        *waiting += volume;
        let volume = *waiting;
        let least =
            self.seated.iter().min_by(|one, other| (one.1.recent, one.0).cmp(&(other.1.recent, other.0)));
        let Some(loser) = least.filter(|(_, seat)| volume / 2 > seat.recent).map(|(name, _)| name.clone())
        else {
            return;
        };
        if let Some(seat) = self.seated.remove(&loser) {
            self.rest.absorb(seat.history);
        }
        self.waiting.remove(name);
        self.seated.insert(name.into(), Seat { history: History::default(), recent: volume });
    }

    /// Everybody with a seat, by name.
    pub fn named(&self) -> Vec<(&str, &History<C>)> {
        let mut named: Vec<_> = self.seated.iter().map(|(name, seat)| (&**name, &seat.history)).collect();
        named.sort_unstable_by_key(|(name, _)| *name);
        named
    }

    /// The same, and what the rest share.
    pub fn totals(&self) -> Vec<(&str, &C)> {
        let named = self.named().into_iter().map(|(name, history)| (name, &history.total));
        named.chain([(OTHER, &self.rest.total)]).collect()
    }

    pub fn over(&self, window: Duration, now: Timestamp) -> Vec<(&str, C)> {
        let named = self.named().into_iter().map(|(name, history)| (name, history.over(window, now)));
        named.chain([(OTHER, self.rest.over(window, now))]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(3_600_000);

    fn full() -> Seats<u64> {
        let mut seats = Seats::<u64>::default();
        for one in 0..NAMED_MAX {
            seats.enter(&format!("c{one:02}"), NOW, &10, 10);
        }
        seats
    }

    fn sum(seats: &Seats<u64>) -> u64 {
        seats.totals().iter().map(|(_, count)| **count).sum()
    }

    fn holds(seats: &Seats<u64>, name: &str) -> Option<u64> {
        seats.totals().iter().find(|(known, _)| *known == name).map(|(_, count)| **count)
    }

    #[test]
    fn whoever_is_twice_as_busy_takes_the_seat_of_the_least_busy_and_nothing_is_lost() {
        let mut seats = full();
        seats.enter("late", NOW, &20, 20);
        assert_eq!((holds(&seats, "late"), holds(&seats, OTHER)), (None, Some(20)));
        seats.enter("late", NOW, &2, 2);
        assert_eq!(holds(&seats, "late"), Some(0), "what it had stays with the rest");
        assert_eq!((holds(&seats, "c00"), holds(&seats, OTHER)), (None, Some(32)));
        seats.enter("late", NOW, &5, 5);
        assert_eq!((holds(&seats, "late"), seats.named().len(), sum(&seats)), (Some(5), NAMED_MAX, 527));
        let hour: u64 = seats.over(HOUR, NOW).iter().map(|(_, count)| count).sum();
        assert_eq!(hour, 527, "neither is anything lost from a window");
    }

    #[test]
    fn what_was_hours_ago_counts_less() {
        let mut seats = full();
        let later = NOW.plus(HOUR * 4);
        seats.enter("late", later, &3, 3);
        assert_eq!(holds(&seats, "late"), Some(0));
    }

    #[test]
    fn a_flood_of_names_takes_no_more_room() {
        let mut seats = full();
        for one in 0..20_000 {
            seats.enter(&format!("flood{one}"), NOW, &1, 1);
        }
        assert!(seats.waiting.len() <= WAITING_MAX);
        assert_eq!((seats.named().len(), sum(&seats)), (NAMED_MAX, 20_500));
        for _ in 0..30 {
            seats.enter("busy", NOW, &1, 1);
        }
        assert!(holds(&seats, "busy").is_some(), "a flood does not hide who is really busy");
    }

    #[test]
    fn a_name_that_says_other_is_one_of_the_rest() {
        let mut seats = Seats::<u64>::default();
        seats.enter(OTHER, NOW, &1, 1);
        assert_eq!(seats.totals(), [(OTHER, &1)]);
    }
}
