//! Receivers that users choose: a webhook endpoint, or the host of an address. Each is held back on its own.
//!
//! A receiver that asks for quiet, or that is slow, holds back the jobs of its company that go to it, and no others.
//! A store's lanes know companies and no receivers, so such a job is claimed, found to be held, and released until
//! the receiver is looked at again: that spends no attempt, no slot and no rate.
//!
//! Holds are shared by all nodes, slots are each process's own. Every receiver belongs to a company: the same host
//! may be held for one company and not for another.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::limit::Quiet;
use recado_core::{CompanyId, Timestamp};
use recado_transport::Receiver;

use crate::admission::control::{RECEIVER_HOLDS, SharedLimit};
use crate::shared::value::SharedValue;

/// Receivers of a provider that are held at most. The answer of one more holds back its own job alone.
const RECEIVERS_KEPT_MAX: usize = 10_000;

/// A job of a held receiver is looked at again after this, so that a lifted hold is noticed.
pub(crate) const HELD_LOOK_AFTER: Duration = Duration::from_secs(5);

/// Time between two such looks, over all held receivers of a provider: held jobs cost a hundred looks a second.
const HELD_LOOK_SPACING: Duration = Duration::from_millis(10);

/// Looks are spread over this long at most, whatever the number of held jobs.
const HELD_LOOK_SPREAD_MAX: Duration = Duration::from_secs(10 * 60);

/// Shortest and longest time that a delivery to a receiver without free slots is taken to need.
const SERVICE_MIN: Duration = Duration::from_millis(10);
const SERVICE_MAX: Duration = Duration::from_secs(60);

/// Jobs of a receiver without free slots are spread over this long at most.
const BUSY_SPREAD_MAX: Duration = Duration::from_secs(5 * 60);

/// A receiver, and the company whose jobs name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReceiverId {
    pub company: CompanyId,
    pub receiver: Receiver,
}

impl ReceiverId {
    /// Writes the key of its hold in the store.
    pub fn key(&self, provider: &str) -> String {
        let (kind, name) = match &self.receiver {
            Receiver::Endpoint(id) => ("endpoint", id),
            Receiver::Host(host) => ("host", host),
        };
        format!("{provider}/{}/{kind}/{name}", self.company)
    }

    /// Reads a key that [`ReceiverId::key`] wrote: the provider's name and the receiver.
    pub fn read(key: &str) -> Option<(&str, ReceiverId)> {
        let mut parts = key.splitn(4, '/');
        let (provider, company) = (parts.next()?, CompanyId::new(parts.next()?).ok()?);
        let receiver = match (parts.next()?, parts.next()?) {
            ("endpoint", id) => Receiver::Endpoint(id.into()),
            ("host", host) => Receiver::Host(host.into()),
            _ => return None,
        };
        Some((provider, ReceiverId { company, receiver }))
    }
}

/// The reason why a delivery to a receiver may not start, with the time to look at its job again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReceiverWait {
    Held { quiet: Quiet, look_at: Timestamp },
    Busy { look_at: Timestamp },
}

/// The receivers of one provider that are held or have deliveries on their way.
#[derive(Debug)]
pub(crate) struct Receivers {
    provider: Box<str>,
    /// Deliveries to one receiver at the same time.
    slots_max: usize,
    known: Mutex<KnownReceivers>,
    last_look: Mutex<Timestamp>,
}

type KnownReceivers = HashMap<ReceiverId, ReceiverState>;

#[derive(Debug)]
struct ReceiverState {
    hold: SharedLimit,
    /// Start times of the deliveries on their way, oldest first.
    running: VecDeque<Timestamp>,
    /// Mean time of its latest deliveries.
    service: Duration,
    /// The last look at a job that found no free slot.
    last_look: Timestamp,
}

impl ReceiverState {
    fn is_at_rest(&self, now: Timestamp) -> bool {
        self.running.is_empty()
            && !self.hold.has_pending_writes()
            && self.hold.read(|hold| hold.expires_at() <= now)
    }
}

/// Returns the next time in a row of looks: `spacing` after the last one, `earliest` at the earliest, and within
/// `spread_max` of that.
fn next_look(
    last: &mut Timestamp,
    earliest: Timestamp,
    spacing: Duration,
    spread_max: Duration,
) -> Timestamp {
    let at = earliest.max(last.plus(spacing));
    *last = if at > earliest.plus(spread_max) { earliest } else { at };
    *last
}

impl Receivers {
    pub fn new(provider: &str, slots_max: usize) -> Self {
        let start = Timestamp::from_millis(0);
        Receivers {
            provider: provider.into(),
            slots_max,
            known: Mutex::default(),
            last_look: Mutex::new(start),
        }
    }

    fn state<'a>(&self, known: &'a mut KnownReceivers, id: &ReceiverId) -> &'a mut ReceiverState {
        known.entry(id.clone()).or_insert_with(|| ReceiverState {
            hold: Arc::new(SharedValue::new(RECEIVER_HOLDS, id.key(&self.provider))),
            running: VecDeque::new(),
            service: SERVICE_MIN,
            last_look: Timestamp::from_millis(0),
        })
    }

    /// Takes a slot of the receiver, unless it is held or has none left. No hold lasts longer than `hold_max`
    /// of the job's route. `bound` shortens a hold that became too long when the clock was set back.
    pub fn start(
        &self,
        id: &ReceiverId,
        hold_max: Duration,
        bound: impl FnOnce(&SharedLimit),
        now: Timestamp,
    ) -> Result<(), ReceiverWait> {
        let mut known = self.known.lock();
        let state = self.state(&mut known, id);
        bound(&state.hold);
        if let Some(quiet) = state.hold.read(|hold| hold.quiet(now)).and_then(|it| it.at_most(hold_max, now))
        {
            let mut last = self.last_look.lock();
            let earliest = now.plus(HELD_LOOK_AFTER);
            let look_at = next_look(&mut last, earliest, HELD_LOOK_SPACING, HELD_LOOK_SPREAD_MAX);
            return Err(ReceiverWait::Held { look_at: look_at.min(quiet.until), quiet });
        }
        if state.running.len() >= self.slots_max {
            // One that says nothing is as slow as the oldest delivery that waits for it.
            let waits = state.running.front().map_or(Duration::ZERO, |since| now.since(*since));
            let service = state.service.max(waits).clamp(SERVICE_MIN, SERVICE_MAX);
            // Twice as often as slots come free, so that none is idle for long.
            let spacing = service / u32::try_from(2 * self.slots_max).unwrap_or(u32::MAX);
            let spacing = spacing.max(Duration::from_millis(1));
            let look_at = next_look(&mut state.last_look, now.plus(spacing), spacing, BUSY_SPREAD_MAX);
            return Err(ReceiverWait::Busy { look_at });
        }
        state.running.push_back(now);
        Ok(())
    }

    /// Gives a slot back that was taken at `started_at`.
    pub fn end(&self, id: &ReceiverId, started_at: Timestamp, now: Timestamp) {
        let mut known = self.known.lock();
        let Some(state) = known.get_mut(id) else { return };
        if let Some(at) = state.running.iter().position(|one| *one == started_at) {
            state.running.remove(at);
        }
        state.service = (state.service * 3 + now.since(started_at).min(SERVICE_MAX)) / 4;
        if state.is_at_rest(now) {
            known.remove(id);
        }
    }

    /// Returns the value that holds this receiver back, shared with all nodes. `None` when too many are held.
    pub fn hold_of(&self, id: &ReceiverId, now: Timestamp) -> Option<SharedLimit> {
        let mut known = self.known.lock();
        if known.len() >= RECEIVERS_KEPT_MAX && !known.contains_key(id) {
            known.retain(|_, state| !state.is_at_rest(now));
            if known.len() >= RECEIVERS_KEPT_MAX {
                return None;
            }
        }
        Some(self.state(&mut known, id).hold.clone())
    }

    /// Returns true when no receiver is held and none has a delivery on its way.
    pub fn is_empty(&self) -> bool {
        self.known.lock().is_empty()
    }

    /// Returns the value that holds a known receiver back.
    pub fn known_hold(&self, id: &ReceiverId) -> Option<SharedLimit> {
        self.known.lock().get(id).map(|state| state.hold.clone())
    }

    /// Returns the values that hold receivers back, of all that are known, by key.
    pub fn holds(&self) -> Vec<SharedLimit> {
        let mut holds: Vec<SharedLimit> =
            self.known.lock().values().map(|state| state.hold.clone()).collect();
        holds.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        holds
    }

    /// Returns every receiver that is held at `now`.
    pub fn all_held(&self, now: Timestamp) -> Vec<(ReceiverId, Quiet, SharedLimit)> {
        let known = self.known.lock();
        let held = known.iter().filter_map(|(id, state)| {
            Some((id.clone(), state.hold.read(|hold| hold.quiet(now))?, state.hold.clone()))
        });
        held.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_760_000_000_000);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn id(company: &str, endpoint: &str) -> ReceiverId {
        ReceiverId { company: CompanyId::trusted(company), receiver: Receiver::Endpoint(endpoint.into()) }
    }

    #[test]
    fn a_key_names_provider_company_and_receiver() {
        let host = ReceiverId { receiver: Receiver::Host("a.example:81".into()), ..id("acme", "") };
        for one in [id("acme", "ep_1"), id("acme", "odd/one/id"), host] {
            assert_eq!(ReceiverId::read(&one.key("webhook")), Some(("webhook", one)));
        }
        assert_eq!(ReceiverId::read("webhook/acme/other/x"), None);
    }

    #[test]
    fn a_receiver_has_its_slots_and_another_one_its_own() {
        let receivers = Receivers::new("webhook", 2);
        let (full, free) = (id("acme", "full"), id("acme", "free"));
        assert_eq!(
            (receivers.start(&full, HOUR, |_| {}, NOW), receivers.start(&full, HOUR, |_| {}, NOW)),
            (Ok(()), Ok(()))
        );
        assert!(
            matches!(receivers.start(&full, HOUR, |_| {}, NOW), Err(ReceiverWait::Busy { look_at }) if look_at > NOW)
        );
        assert_eq!(receivers.start(&free, HOUR, |_| {}, NOW), Ok(()));
        receivers.end(&full, NOW, NOW.plus(SERVICE_MIN));
        assert_eq!(receivers.start(&full, HOUR, |_| {}, NOW.plus(SERVICE_MIN)), Ok(()));
    }

    #[test]
    fn jobs_of_a_receiver_that_says_nothing_are_looked_at_ever_more_rarely() {
        let receivers = Receivers::new("webhook", 16);
        let hole = id("acme", "hole");
        (0..16).for_each(|_| receivers.start(&hole, HOUR, |_| {}, NOW).unwrap());
        let last_of_500 = |now: Timestamp| {
            let looks = (0..500).map(|_| match receivers.start(&hole, HOUR, |_| {}, now) {
                Err(ReceiverWait::Busy { look_at }) => look_at,
                other => panic!("{other:?}"),
            });
            looks.max().unwrap().since(now)
        };
        assert!(last_of_500(NOW) < Duration::from_secs(2), "it may just be busy");
        let later = NOW.plus(Duration::from_secs(9));
        assert!(last_of_500(later) > Duration::from_secs(100), "500 jobs, 16 slots, 9 s each");
    }

    #[test]
    fn looks_at_held_jobs_are_spaced_and_bounded() {
        let mut last = NOW;
        let earliest = NOW.plus(HELD_LOOK_AFTER);
        let mut look = || next_look(&mut last, earliest, HELD_LOOK_SPACING, HELD_LOOK_SPREAD_MAX);
        let looks: Vec<_> = (0..100_000).map(|_| look()).collect();
        assert_eq!((looks[0], looks[1]), (earliest, earliest.plus(HELD_LOOK_SPACING)));
        let bound = earliest.plus(HELD_LOOK_SPREAD_MAX);
        assert!(looks.iter().all(|at| (earliest..=bound).contains(at)), "whatever their number");
    }
}
