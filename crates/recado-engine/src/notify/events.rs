//! The stream of events: listeners get them as they happen, and may ask for those they just missed.
//!
//! Nothing here is durable. Events that must not be lost (callbacks, notifications) leave as follow-up jobs in the
//! same step that settles the attempt: see `attempt::post_settle`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use recado_core::Event;
use tokio::sync::broadcast;

/// Events that a slow listener may lag behind before it misses some.
const LAG_MAX: usize = 4_096;

/// Events kept for listeners that come back after a lost connection.
const KEPT_MAX: usize = 1_024;

#[derive(Debug)]
pub struct Events {
    sender: broadcast::Sender<Arc<Event>>,
    kept: Mutex<VecDeque<Arc<Event>>>,
    /// A listener has come; before that, events are not worth the work.
    listened: AtomicBool,
}

/// A listener's stream: first the events it missed, then new ones.
#[derive(Debug)]
pub struct Listening {
    pub missed: Vec<Arc<Event>>,
    pub receiver: broadcast::Receiver<Arc<Event>>,
    /// It asked to go on after an event that is no longer kept: some are lost to it.
    pub gap: bool,
}

impl Default for Events {
    fn default() -> Self {
        Events {
            sender: broadcast::Sender::new(LAG_MAX),
            kept: Mutex::default(),
            listened: AtomicBool::new(false),
        }
    }
}

impl Events {
    /// Returns true once a listener has come; it stays true when that one leaves.
    pub fn had_listener(&self) -> bool {
        self.listened.load(Ordering::Relaxed)
    }

    pub fn publish(&self, event: Event) {
        if !self.had_listener() {
            return;
        }
        let event = Arc::new(event);
        let mut kept = self.kept.lock();
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(event.clone());
        // Under the lock, so that a listener neither misses an event nor hears it twice.
        let _ = self.sender.send(event);
    }

    /// Forgets kept events. A listener that asks to go on after one of them is told of a gap.
    pub fn forget(&self, is_wanted: impl Fn(&Event) -> bool) {
        self.kept.lock().retain(|event| !is_wanted(event));
    }

    /// Listens from now on, or from the event after `last_seen`; from the oldest that is kept if that one is not.
    pub fn listen(&self, last_seen: Option<&str>) -> Listening {
        let kept = self.kept.lock();
        self.listened.store(true, Ordering::Relaxed);
        let receiver = self.sender.subscribe();
        let Some(last) = last_seen else { return Listening { missed: Vec::new(), receiver, gap: false } };
        let seen = kept.iter().position(|event| &*event.id == last);
        let missed = kept.iter().skip(seen.map_or(0, |at| at + 1)).cloned().collect();
        Listening { missed, receiver, gap: seen.is_none() }
    }
}

#[cfg(test)]
mod tests {
    use recado_core::{EventData, EventKind, Timestamp};

    use super::*;

    fn event(n: i64) -> Event {
        Event::new(EventKind::JobSent, None, &["x"], Timestamp::from_millis(n), EventData::default())
    }

    #[test]
    fn a_listener_that_comes_back_hears_what_it_missed_and_nothing_twice() {
        let events = Events::default();
        events.publish(event(0));
        let mut first = events.listen(None);
        (1..=3).for_each(|n| events.publish(event(n)));
        let heard = first.receiver.try_recv().unwrap();
        let mut again = events.listen(Some(&heard.id));
        let missed: Vec<_> = again.missed.iter().map(|event| event.timestamp.as_millis()).collect();
        assert_eq!((missed, again.gap), (vec![2, 3], false));
        assert!(again.receiver.try_recv().is_err(), "what was missed is not told again");
        events.publish(event(4));
        assert_eq!(again.receiver.try_recv().unwrap().timestamp.as_millis(), 4);
    }

    #[test]
    fn a_listener_that_was_away_for_too_long_hears_of_the_gap_and_what_is_kept() {
        let events = Events::default();
        let _listening = events.listen(None);
        let old = event(0);
        let id = old.id.clone();
        events.publish(old);
        (1..=KEPT_MAX as i64).for_each(|n| events.publish(event(n)));
        let back = events.listen(Some(&id));
        let missed: Vec<_> = back.missed.iter().map(|event| event.timestamp.as_millis()).collect();
        assert!(back.gap);
        assert_eq!(missed, (1..=KEPT_MAX as i64).collect::<Vec<_>>(), "what is kept is told");
    }
}
