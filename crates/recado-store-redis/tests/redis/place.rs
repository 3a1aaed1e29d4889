//! Stores of the tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use recado_store::Store;
use recado_store::conformance::Home;
use recado_store_redis::{RedisOptions, RedisStore};

use crate::given::random;
use crate::server::{Cluster, Server};

/// Never, as far as a test is concerned: no waiter is rung without a reason.
const NEVER: Duration = Duration::from_secs(3_600);

/// A prefix of its own on a server that tests share.
pub struct Place<S> {
    /// Ends with the last one who has it.
    pub server: Arc<S>,
    pub options: RedisOptions,
}

impl Place<Server> {
    /// On one server.
    pub fn single() -> Self {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let server = shared(&SHARED, Server::start);
        let url = server.url();
        Place::on(server, url)
    }

    /// On one Valkey.
    pub fn valkey() -> Self {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let server = shared(&SHARED, Server::valkey);
        let url = server.url();
        Place::on(server, url)
    }
}

impl Place<Cluster> {
    /// On a Cluster of three masters.
    pub fn cluster() -> Self {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let cluster = shared(&SHARED, || Cluster::start(3));
        let url = cluster.url();
        Place::on(cluster, url)
    }

    /// On a Cluster of three masters of its own.
    pub fn own_cluster() -> Self {
        let cluster = Arc::new(Cluster::start(3));
        let url = cluster.url();
        Place::on(cluster, url)
    }
}

impl<S> Place<S> {
    fn on(server: Arc<S>, url: String) -> Self {
        static PLACES: AtomicU64 = AtomicU64::new(0);
        let prefix = format!("place-{}", PLACES.fetch_add(1, Ordering::Relaxed)).into();
        let options = RedisOptions {
            prefix,
            wake_every: NEVER,
            orphan_grace: Duration::ZERO,
            ..RedisOptions::new(url)
        };
        Place { server, options }
    }

    pub fn in_partitions(mut self, partitions: u16) -> Self {
        self.options.partitions = partitions;
        self
    }

    /// Waiters look again as often as in production.
    pub fn ringing(mut self) -> Self {
        self.options.wake_every = RedisOptions::new("").wake_every;
        self
    }

    pub async fn store(&self) -> RedisStore {
        RedisStore::open(&self.options, random()).await.unwrap()
    }
}

#[async_trait]
impl<S: Send + Sync> Home for Place<S> {
    async fn open(&mut self) -> Arc<dyn Store> {
        Arc::new(self.store().await)
    }
}

/// A server of its own that is killed before it is opened again, so that only what is on disk is there.
pub struct Disk {
    server: Server,
    opened: bool,
}

impl Disk {
    pub fn new() -> Self {
        Disk { server: Server::durable(), opened: false }
    }
}

#[async_trait]
impl Home for Disk {
    async fn open(&mut self) -> Arc<dyn Store> {
        if self.opened {
            self.server.restart();
        }
        self.opened = true;
        let options = RedisOptions {
            wake_every: NEVER,
            orphan_grace: Duration::ZERO,
            ..RedisOptions::new(self.server.url())
        };
        Arc::new(RedisStore::open(&options, random()).await.unwrap())
    }
}

fn shared<S>(place: &Mutex<Weak<S>>, start: impl FnOnce() -> S) -> Arc<S> {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = place.upgrade() {
        return server;
    }
    let server = Arc::new(start());
    *place = Arc::downgrade(&server);
    server
}
