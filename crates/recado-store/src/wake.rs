//! Wake-ups instead of polling.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use recado_core::RouteName;
use tokio::sync::Notify;

/// Wake-ups of a store, by route.
#[derive(Debug, Default)]
pub struct Wakes {
    routes: Mutex<BTreeMap<RouteName, Arc<RouteWakes>>>,
}

/// Wake-ups of one route. Not a `watch` channel: that one wakes its listeners in a random order, and a run in virtual
/// time has to be repeatable.
#[derive(Debug, Default)]
struct RouteWakes {
    count: AtomicU64,
    listeners: Notify,
}

impl Wakes {
    pub fn waker(&self, route: &RouteName) -> Waker {
        let wakes = self.of(route);
        Waker { seen: wakes.count.load(Ordering::SeqCst), wakes }
    }

    /// Wakes all listeners of this route.
    pub fn wake(&self, route: &RouteName) {
        let wakes = self.of(route);
        wakes.count.fetch_add(1, Ordering::SeqCst);
        wakes.listeners.notify_waiters();
    }

    /// Wakes all listeners of all routes.
    pub fn wake_all(&self) {
        let routes: Vec<RouteName> = self.routes.lock().keys().cloned().collect();
        routes.iter().for_each(|route| self.wake(route));
    }

    fn of(&self, route: &RouteName) -> Arc<RouteWakes> {
        let mut routes = self.routes.lock();
        match routes.get(route) {
            Some(wakes) => wakes.clone(),
            None => routes.entry(route.clone()).or_default().clone(),
        }
    }
}

/// Listens for one route. A wake-up between two waits is not lost.
#[derive(Debug, Clone)]
pub struct Waker {
    wakes: Arc<RouteWakes>,
    /// The count of wake-ups at the last call.
    seen: u64,
}

impl Waker {
    /// Returns at the first wake-up since the last call (or since it was made). Safe to drop.
    pub async fn wait(&mut self) {
        loop {
            // Listens before it looks: a wake-up in between must not be missed.
            let mut woken = std::pin::pin!(self.wakes.listeners.notified());
            woken.as_mut().enable();
            let count = self.wakes.count.load(Ordering::SeqCst);
            if count != self.seen {
                self.seen = count;
                return;
            }
            woken.await;
        }
    }

    /// Forgets wake-ups so far: the caller looks for work next anyway.
    pub fn reset(&mut self) {
        self.seen = self.wakes.count.load(Ordering::SeqCst);
    }
}
