//! The connections to one relay: their limit, and those that wait for the next message.
//!
//! A slot is the right to have one connection. A delivery with a slot takes the youngest connection that
//! waits, so that in quiet times the surplus grows old and is closed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{Fault, NetworkKind};
use recado_transport::patience;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};

use crate::config::SmtpConfig;
use crate::deadline::Deadline;
use crate::transaction::Connection;

const QUIT_TIMEOUT: Duration = Duration::from_secs(1);
const IDLE_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) struct Pool {
    slots: Arc<Semaphore>,
    idle: Arc<IdlePool>,
}

struct IdlePool {
    open: Mutex<IdleConnections>,
    idle_timeout: Duration,
    messages_max: u32,
}

#[derive(Default)]
struct IdleConnections {
    /// Connections without a message, each since when, the youngest last.
    connections: Vec<(Instant, Connection)>,
    /// A task closes those that grow old.
    watched: bool,
}

/// The right to have one connection, for as long as it is held.
pub(crate) struct Slot {
    idle: Arc<IdlePool>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(config: &SmtpConfig) -> Self {
        let idle = IdlePool {
            open: Mutex::default(),
            idle_timeout: config.idle_timeout.min(IDLE_TIMEOUT_MAX),
            messages_max: config.messages_per_connection_max,
        };
        let slots = config.connections_max.min(Semaphore::MAX_PERMITS);
        Pool { slots: Arc::new(Semaphore::new(slots)), idle: Arc::new(idle) }
    }

    pub(crate) async fn acquire_slot(&self, deadline: Deadline) -> Result<Slot, Fault> {
        match patience::until(deadline.end(), Arc::clone(&self.slots).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Slot { idle: Arc::clone(&self.idle), _permit: permit }),
            _ => Err(Fault::network(
                NetworkKind::Timeout,
                "no connection to the server became free in time; allow more of them or fewer jobs at once",
            )),
        }
    }
}

impl Slot {
    /// Takes an idle connection that is still open, if there is one.
    pub(crate) async fn take_idle(&self) -> Option<Connection> {
        while let Some(mut connection) = self.idle.take_newest() {
            if connection.wire.is_quiet().await {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps the connection for the next message, unless a transaction is unfinished.
    pub(crate) fn return_connection(&self, connection: Connection) {
        if !connection.ready {
            return;
        }
        if connection.used >= self.idle.messages_max {
            tokio::spawn(quit(connection));
            return;
        }
        let mut open = self.idle.open.lock();
        open.connections.push((Instant::now(), connection));
        if !std::mem::replace(&mut open.watched, true) {
            tokio::spawn(close_expired(Arc::downgrade(&self.idle)));
        }
    }
}

/// Closes idle connections that grow too old; ends when none is left.
async fn close_expired(idle: Weak<IdlePool>) {
    loop {
        let Some(next) = idle.upgrade().and_then(|idle| idle.next_expiry()) else { return };
        sleep_until(next).await;
        let Some(old) = idle.upgrade().map(|idle| idle.take_expired()) else { return };
        for connection in old {
            quit(connection).await;
        }
    }
}

async fn quit(connection: Connection) {
    let _ = timeout(QUIT_TIMEOUT, connection.quit()).await;
}

impl IdlePool {
    fn take_newest(&self) -> Option<Connection> {
        let (since, connection) = self.open.lock().connections.pop()?;
        // If the youngest is too old, so are all others, and they are being seen to.
        (since.elapsed() < self.idle_timeout).then_some(connection)
    }

    /// The time when the oldest has waited for too long. If there is none, the watch ends here.
    fn next_expiry(&self) -> Option<Instant> {
        let mut open = self.open.lock();
        open.watched = !open.connections.is_empty();
        open.connections.first().map(|(since, _)| *since + self.idle_timeout)
    }

    fn take_expired(&self) -> Vec<Connection> {
        let connections = &mut self.open.lock().connections;
        let old = connections.partition_point(|(since, _)| since.elapsed() >= self.idle_timeout);
        connections.drain(..old).map(|(_, connection)| connection).collect()
    }
}
