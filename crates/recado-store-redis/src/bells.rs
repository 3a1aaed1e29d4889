//! Who is woken when: by this process's own work at once, by other nodes' through hints, and by time in any case.
//!
//! Hints can be lost, so every route that somebody waits for is rung once in a while without one.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::RouteName;
use recado_store::{Waker, Wakes};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::link::{Hint, Link};

/// What a hint about notes says. No route is called so.
const NOTES: &str = "/notes";

#[derive(Debug)]
pub struct Bells {
    wakes: Wakes,
    notes: Wakes,
    /// Routes that somebody has waited for.
    waited_for: Mutex<HashSet<RouteName>>,
    /// Tells this process's own hints from those of others.
    node: Box<str>,
}

impl Bells {
    pub fn new() -> Self {
        Bells {
            wakes: Wakes::default(),
            notes: Wakes::default(),
            waited_for: Mutex::default(),
            node: format!("{:016x}", fastrand::u64(..)).into(),
        }
    }

    pub fn waker(&self, route: &RouteName) -> Waker {
        self.waited_for.lock().insert(route.clone());
        self.wakes.waker(route)
    }

    pub fn notes_waker(&self) -> Waker {
        self.notes.waker(&notes_room())
    }

    fn ring(&self, route: &RouteName) {
        self.wakes.wake(route);
    }

    fn ring_notes(&self) {
        self.notes.wake(&notes_room());
    }

    fn ring_all(&self) {
        let routes: Vec<RouteName> = self.waited_for.lock().iter().cloned().collect();
        routes.iter().for_each(|route| self.ring(route));
        self.ring_notes();
    }

    /// These routes may have work: rings here and tells the other nodes.
    pub fn announce<'a>(&self, link: &Link, routes: impl Iterator<Item = &'a RouteName>) {
        let routes: HashSet<&RouteName> = routes.collect();
        for route in routes {
            self.ring(route);
            link.publish(&format!("{} {route}", self.node));
        }
    }

    /// Notes were written: rings here and tells the other nodes.
    pub fn announce_notes(&self, link: &Link) {
        self.ring_notes();
        link.publish(&format!("{} {NOTES}", self.node));
    }

    /// Rings for others' hints, and for all once every `at_least`.
    pub async fn listen(self: Arc<Self>, mut hints: Receiver<Hint>, at_least: Duration) {
        // At first there was nothing to miss.
        let mut is_new = true;
        let mut tick = tokio::time::interval(at_least);
        tick.reset();
        loop {
            tokio::select! {
                _ = tick.tick() => self.ring_all(),
                hint = hints.recv() => match hint {
                    Ok(Hint::Said(text)) => self.heard(&text),
                    Ok(Hint::Missed) if is_new => is_new = false,
                    Ok(Hint::Missed) | Err(RecvError::Lagged(_)) => self.ring_all(),
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }

    fn heard(&self, text: &str) {
        match text.split_once(' ') {
            Some((node, _)) if *node == *self.node => {}
            Some((_, NOTES)) => self.ring_notes(),
            Some((_, route)) => {
                // Only what somebody waits for: a bell for every name that is ever heard would be a leak.
                let known = self.waited_for.lock().get(route).cloned();
                known.iter().for_each(|route| self.ring(route));
            }
            None => {}
        }
    }
}

fn notes_room() -> RouteName {
    RouteName::trusted(NOTES)
}
