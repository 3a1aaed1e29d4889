//! Wakes callers that wait for work: at once for this process's own, by hints for other nodes', and by time in any case.
//!
//! Hints can be lost, so every route with a waiting caller is woken once in a while without one.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{Random, RouteName};
use recado_store::{Waker, Wakes};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::link::{Hint, Link};

/// Stands for the route in a hint that key-value entries changed. No route has this name.
const KV_CHANGED: &str = "/notes";

#[derive(Debug)]
pub struct Wakeups {
    /// Callers that wait for changed key-value entries wait for [`KV_CHANGED`].
    routes: Wakes,
    /// Routes that a caller has waited for.
    waited_for: Mutex<HashSet<RouteName>>,
    /// Tells this process's own hints from those of others.
    node: Box<str>,
}

impl Wakeups {
    pub fn new(random: &Random) -> Self {
        Wakeups {
            routes: Wakes::default(),
            waited_for: Mutex::default(),
            node: format!("{:016x}", random.next_u64()).into(),
        }
    }

    pub fn waker(&self, route: &RouteName) -> Waker {
        self.waited_for.lock().insert(route.clone());
        self.routes.waker(route)
    }

    pub fn kv_waker(&self) -> Waker {
        self.waker(&RouteName::trusted(KV_CHANGED))
    }

    fn wake_all(&self) {
        let routes: Vec<RouteName> = self.waited_for.lock().iter().cloned().collect();
        routes.iter().for_each(|route| self.routes.wake(route));
    }

    /// Wakes callers that wait for these routes, here and on the other nodes.
    pub fn announce<'a>(&self, link: &Link, routes: impl Iterator<Item = &'a RouteName>) {
        let routes: HashSet<&RouteName> = routes.collect();
        for route in routes {
            self.routes.wake(route);
            link.publish(&format!("{} {route}", self.node));
        }
    }

    /// Wakes callers that wait for changed key-value entries, here and on the other nodes.
    pub fn announce_kv(&self, link: &Link) {
        self.announce(link, [&RouteName::trusted(KV_CHANGED)].into_iter());
    }

    /// Wakes callers for other nodes' hints, and all of them once every `at_least`.
    pub async fn listen(self: Arc<Self>, mut hints: Receiver<Hint>, at_least: Duration) {
        // At first there was nothing to miss.
        let mut is_new = true;
        let mut tick = tokio::time::interval(at_least);
        tick.reset();
        loop {
            tokio::select! {
                _ = tick.tick() => self.wake_all(),
                hint = hints.recv() => match hint {
                    Ok(Hint::Said(text)) => self.on_hint(&text),
                    Ok(Hint::Missed) if is_new => is_new = false,
                    Ok(Hint::Missed) | Err(RecvError::Lagged(_)) => self.wake_all(),
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }

    fn on_hint(&self, text: &str) {
        match text.split_once(' ') {
            Some((node, _)) if *node == *self.node => {}
            Some((_, route)) => {
                // Only known routes: an entry for every name that is ever heard would be a leak.
                let known = self.waited_for.lock().get(route).cloned();
                known.iter().for_each(|route| self.routes.wake(route));
            }
            None => {}
        }
    }
}
