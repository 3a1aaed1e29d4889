//! The timetable of troubles: the same in every cycle, so that a viewer knows what to look at.

use std::time::Duration;

use tokio::time::Instant;

/// After so long it begins anew.
pub const CYCLE: Duration = Duration::from_secs(150);

/// A trouble, or a person's act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Episode {
    InstagramDown,
    Campaign,
    WhatsappThrottles,
    RelaySlow,
    ReceiverDead,
    OpenaiOverloaded,
    InsurerDown,
    Repair,
}

/// One line of the timetable.
#[derive(Clone, Copy, Debug)]
pub struct TimetableEntry {
    pub episode: Episode,
    /// Times within the cycle, at the usual speed.
    pub from: Duration,
    pub until: Duration,
    /// The event.
    pub begins: &'static str,
    /// The thing to see in it.
    pub shows: &'static str,
}

impl TimetableEntry {
    const fn showing(self, shows: &'static str) -> Self {
        TimetableEntry { shows, ..self }
    }

    /// It is over as soon as it has happened.
    pub fn is_a_moment(&self) -> bool {
        self.from == self.until
    }
}

const fn during(from_s: u64, until_s: u64, episode: Episode, begins: &'static str) -> TimetableEntry {
    let (from, until) = (Duration::from_secs(from_s), Duration::from_secs(until_s));
    TimetableEntry { episode, from, until, begins, shows: "" }
}

/// In order.
pub const ENTRIES: [TimetableEntry; 8] = [
    during(10, 35, Episode::InstagramDown, "Instagram is down")
        .showing("its breaker opens, probes, closes; posts wait and lose no attempt"),
    during(30, 30, Episode::Campaign, "mercado-relampago sends 300 e-mails at once")
        .showing("the other companies keep their turns"),
    during(50, 68, Episode::WhatsappThrottles, "WhatsApp answers 429 with Retry-After")
        .showing("it is obeyed; login codes that come too late expire"),
    during(70, 88, Episode::RelaySlow, "the mail relay takes its time")
        .showing("e-mail queues up, and nothing else does"),
    during(85, 110, Episode::ReceiverDead, "pet-feliz's webhook receiver is dead")
        .showing("after ten failures in a row its endpoint is switched off"),
    during(100, 118, Episode::OpenaiOverloaded, "OpenAI is overloaded")
        .showing("its breaker opens after three failures"),
    during(108, 128, Episode::InsurerDown, "the insurer does not answer")
        .showing("claims back off, and the worker gets them again later"),
    during(
        135,
        135,
        Episode::Repair,
        "an operator switches the endpoint on again and replays what it missed",
    )
    .showing("a bulk replay, two canaries first"),
];

/// The clock of the cycles, which may run faster than others.
#[derive(Clone, Copy, Debug)]
pub struct Timetable {
    started: Instant,
    speed: u32,
}

impl Timetable {
    pub fn start(speed: u32) -> Self {
        Timetable { started: Instant::now(), speed: speed.max(1) }
    }

    /// A time at the usual speed, as it is at this one.
    pub fn hasten(&self, usual: Duration) -> Duration {
        usual / self.speed
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Position in the cycle, at the usual speed.
    pub fn position(&self) -> Duration {
        self.elapsed() * self.speed
    }

    /// Returns true if this trouble is on.
    pub fn is_on(&self, episode: Episode) -> bool {
        is_on_at(self.position(), episode)
    }

    /// Resolves at this position.
    pub async fn reached(&self, position: Duration) {
        tokio::time::sleep_until(self.started + self.hasten(position)).await;
    }
}

fn is_on_at(position: Duration, episode: Episode) -> bool {
    let into_cycle = Duration::from_secs(position.as_secs() % CYCLE.as_secs());
    let mut during = ENTRIES.iter().filter(|entry| (entry.from..entry.until).contains(&into_cycle));
    during.any(|entry| entry.episode == episode)
}

/// One end of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Begins,
    Ends,
}

/// All changes with their times, one after the other, for ever.
pub fn changes() -> impl Iterator<Item = (Duration, &'static TimetableEntry, Change)> {
    let mut cycle: Vec<_> = ENTRIES.iter().map(|entry| (entry.from, entry, Change::Begins)).collect();
    let ends = ENTRIES.iter().filter(|entry| !entry.is_a_moment());
    cycle.extend(ends.map(|entry| (entry.until, entry, Change::Ends)));
    cycle.sort_by_key(|(at, _, _)| *at);
    (0..).flat_map(move |cycles| {
        cycle.clone().into_iter().map(move |(at, entry, change)| (CYCLE * cycles + at, entry, change))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_on_from_its_time_to_its_end_and_again_in_the_next_cycle() {
        for cycle in 0..2 {
            for (millis, on) in [(9_999, false), (10_000, true), (34_999, true), (35_000, false)] {
                let position = CYCLE * cycle + Duration::from_millis(millis);
                assert_eq!(is_on_at(position, Episode::InstagramDown), on, "{millis} ms of cycle {cycle}");
            }
        }
    }

    #[test]
    fn everything_that_begins_ends_in_order_and_within_the_cycle() {
        let all: Vec<_> = changes().take(32).collect();
        assert!(all.is_sorted_by_key(|(at, _, _)| *at), "{all:?}");
        let begun = all.iter().filter(|(at, _, change)| *change == Change::Begins && *at < CYCLE).count();
        assert_eq!(begun, ENTRIES.len());
        for entry in &ENTRIES {
            assert!(entry.from <= entry.until && entry.until < CYCLE, "{entry:?}");
        }
    }
}
