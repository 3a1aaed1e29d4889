//! The connections to one relay: their limit, and those that wait for the next message.
//!
//! A slot is the right to have one connection. A delivery with a slot takes the youngest connection that
//! waits, so that in quiet times the surplus grows old and is closed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{Fault, NetworkKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::config::SmtpConfig;
use crate::deadline::Deadline;
use crate::transaction::Connection;

const QUIT_TIMEOUT: Duration = Duration::from_secs(1);
const IDLE_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) struct Pool {
    slots: Arc<Semaphore>,
    waiting: Arc<Waiting>,
}

struct Waiting {
    line: Mutex<Line>,
    idle_timeout: Duration,
    messages_max: u32,
}

#[derive(Default)]
struct Line {
    /// Connections without a message, each since when, the youngest last.
    connections: Vec<(Instant, Connection)>,
    /// A task closes those that grow old.
    watched: bool,
}

/// The right to have one connection, for as long as it is held.
pub(crate) struct Slot {
    waiting: Arc<Waiting>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(config: &SmtpConfig) -> Self {
        let waiting = Waiting {
            line: Mutex::default(),
            idle_timeout: config.idle_timeout.min(IDLE_TIMEOUT_MAX),
            messages_max: config.messages_per_connection_max,
        };
        let slots = config.connections_max.min(Semaphore::MAX_PERMITS);
        Pool { slots: Arc::new(Semaphore::new(slots)), waiting: Arc::new(waiting) }
    }

    pub(crate) async fn slot(&self, deadline: Deadline) -> Result<Slot, Fault> {
        match timeout_at(deadline.end(), Arc::clone(&self.slots).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Slot { waiting: Arc::clone(&self.waiting), _permit: permit }),
            _ => Err(Fault::network(
                NetworkKind::Timeout,
                "no connection to the server became free in time; allow more of them or fewer jobs at once",
            )),
        }
    }
}

impl Slot {
    /// A connection that waits and has not been heard to die, if there is one.
    pub(crate) async fn kept(&self) -> Option<Connection> {
        while let Some(mut connection) = self.waiting.take_youngest() {
            if connection.is_quiet().await {
                return Some(connection);
            }
        }
        None
    }

    /// Lets the connection wait for the next message, unless it is in the midst of one.
    pub(crate) fn give_back(&self, connection: Connection) {
        if !connection.is_ready() {
            return;
        }
        if connection.used() >= self.waiting.messages_max {
            tokio::spawn(quit(connection));
            return;
        }
        let mut line = self.waiting.line.lock();
        line.connections.push((Instant::now(), connection));
        if !std::mem::replace(&mut line.watched, true) {
            tokio::spawn(close_the_old(Arc::downgrade(&self.waiting)));
        }
    }
}

/// Runs for as long as anything waits.
async fn close_the_old(waiting: Weak<Waiting>) {
    loop {
        let Some(next) = waiting.upgrade().and_then(|waiting| waiting.next_to_close()) else { return };
        sleep_until(next).await;
        let Some(old) = waiting.upgrade().map(|waiting| waiting.take_old()) else { return };
        for connection in old {
            quit(connection).await;
        }
    }
}

async fn quit(connection: Connection) {
    let _ = timeout(QUIT_TIMEOUT, connection.quit()).await;
}

impl Waiting {
    fn take_youngest(&self) -> Option<Connection> {
        let (since, connection) = self.line.lock().connections.pop()?;
        // If the youngest is too old, so are all others, and they are being seen to.
        (since.elapsed() < self.idle_timeout).then_some(connection)
    }

    /// The time when the oldest has waited for too long. If there is none, the watch ends here.
    fn next_to_close(&self) -> Option<Instant> {
        let mut line = self.line.lock();
        line.watched = !line.connections.is_empty();
        line.connections.first().map(|(since, _)| *since + self.idle_timeout)
    }

    fn take_old(&self) -> Vec<Connection> {
        let connections = &mut self.line.lock().connections;
        let old = connections.partition_point(|(since, _)| since.elapsed() >= self.idle_timeout);
        connections.drain(..old).map(|(_, connection)| connection).collect()
    }
}
