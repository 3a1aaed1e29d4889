//! Wake-ups instead of polling.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use recado_core::RouteName;
use tokio::sync::watch;

/// Wake-ups of a store, by route.
#[derive(Debug, Default)]
pub struct Wakes {
    routes: Mutex<HashMap<RouteName, Arc<watch::Sender<u64>>>>,
}

impl Wakes {
    pub fn waker(&self, route: &RouteName) -> Waker {
        Waker(self.sender(route).subscribe())
    }

    /// Wakes all listeners of this route.
    pub fn wake(&self, route: &RouteName) {
        self.sender(route).send_modify(|wakes| *wakes = wakes.wrapping_add(1));
    }

    fn sender(&self, route: &RouteName) -> Arc<watch::Sender<u64>> {
        let mut routes = self.routes.lock();
        match routes.get(route) {
            Some(sender) => sender.clone(),
            None => routes.entry(route.clone()).or_insert_with(|| Arc::new(watch::Sender::new(0))).clone(),
        }
    }
}

/// Listens for one route. A wake-up between two waits is not lost.
#[derive(Debug, Clone)]
pub struct Waker(watch::Receiver<u64>);

impl Waker {
    /// Returns at the first wake-up since the last call (or since it was made). Safe to drop.
    pub async fn wait(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Forgets wake-ups so far: the caller looks for work next anyway.
    pub fn reset(&mut self) {
        self.0.mark_unchanged();
    }
}
