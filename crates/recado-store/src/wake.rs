//! Wake-ups instead of polling.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use recado_core::RouteName;
use tokio::sync::watch;

/// The bells of a store, one per route.
#[derive(Debug, Default)]
pub struct Wakes {
    routes: Mutex<HashMap<RouteName, Arc<watch::Sender<u64>>>>,
}

impl Wakes {
    pub fn waker(&self, route: &RouteName) -> Waker {
        Waker(self.bell(route).subscribe())
    }

    /// Everybody who waits for this route looks again.
    pub fn ring(&self, route: &RouteName) {
        self.bell(route).send_modify(|rings| *rings = rings.wrapping_add(1));
    }

    fn bell(&self, route: &RouteName) -> Arc<watch::Sender<u64>> {
        let mut routes = self.routes.lock();
        match routes.get(route) {
            Some(bell) => bell.clone(),
            None => routes.entry(route.clone()).or_insert_with(|| Arc::new(watch::Sender::new(0))).clone(),
        }
    }
}

/// Listens for one route. A ring between two waits is not lost.
#[derive(Debug, Clone)]
pub struct Waker(watch::Receiver<u64>);

impl Waker {
    /// Returns at the first ring since the last call (or since it was made). Safe to drop.
    pub async fn rung(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Forgets rings so far: what comes next is looked at anyway.
    pub fn reset(&mut self) {
        self.0.mark_unchanged();
    }
}
