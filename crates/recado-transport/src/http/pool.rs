//! Connections that are kept for the next request.
//!
//! One bound holds for all receivers together, so a busy receiver keeps every connection that it needs, and many
//! receivers that are seldom asked do not use up the process's file descriptors: the connection that was idle for the
//! longest time is closed first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Idle connections at most, of all receivers of a client together.
const IDLE_MAX: usize = 512;
/// Time after which an idle connection is closed; many servers close theirs after a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Idle connections by their origin, such as `https://api.example.com`.
#[derive(Debug)]
pub(super) struct Pool<C> {
    idle: Mutex<Idle<C>>,
}

#[derive(Debug)]
struct Idle<C> {
    /// In the order in which they became idle.
    connections: BTreeMap<u64, IdleConnection<C>>,
    /// Numbers of an origin's connections, ascending.
    by_origin: HashMap<Box<str>, VecDeque<u64>>,
    next: u64,
    /// A task closes what has been idle for too long.
    is_swept: bool,
}

#[derive(Debug)]
struct IdleConnection<C> {
    connection: C,
    origin: Box<str>,
    since: Instant,
}

impl<C> Default for Pool<C> {
    fn default() -> Self {
        let idle = Idle { connections: BTreeMap::new(), by_origin: HashMap::new(), next: 0, is_swept: false };
        Pool { idle: Mutex::new(idle) }
    }
}

impl<C: Send + 'static> Pool<C> {
    /// Takes the connection to this origin that became idle last: the others are the more likely to be closed.
    pub fn take(&self, origin: &str) -> Option<C> {
        self.idle.lock().take_newest(origin)
    }

    /// Keeps a connection whose last answer was read to its end.
    pub fn put(self: &Arc<Self>, origin: &str, connection: C) {
        let mut idle = self.idle.lock();
        // Dropped after the lock: closing a connection takes a system call.
        let _closed = (idle.connections.len() >= IDLE_MAX).then(|| idle.take_oldest());
        idle.put(origin, connection, Instant::now());
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Takes out what has been idle for too long; returns with it the time at which the next one will have been.
    fn take_expired(&self, now: Instant) -> (Vec<C>, Option<Instant>) {
        let mut idle = self.idle.lock();
        let mut expired = Vec::new();
        loop {
            let next = idle.connections.first_key_value().map(|(_, oldest)| oldest.since + IDLE_TIMEOUT);
            if next.is_some_and(|next| next <= now) {
                expired.extend(idle.take_oldest());
                continue;
            }
            idle.is_swept = next.is_some();
            return (expired, next);
        }
    }
}

impl<C> Idle<C> {
    fn put(&mut self, origin: &str, connection: C, since: Instant) {
        let number = self.next;
        self.next += 1;
        match self.by_origin.get_mut(origin) {
            Some(numbers) => numbers.push_back(number),
            None => drop(self.by_origin.insert(origin.into(), VecDeque::from([number]))),
        }
        self.connections.insert(number, IdleConnection { connection, origin: origin.into(), since });
    }

    fn take_newest(&mut self, origin: &str) -> Option<C> {
        let numbers = self.by_origin.get_mut(origin)?;
        let number = numbers.pop_back()?;
        if numbers.is_empty() {
            self.by_origin.remove(origin);
        }
        Some(self.connections.remove(&number)?.connection)
    }

    fn take_oldest(&mut self) -> Option<C> {
        let (_, oldest) = self.connections.pop_first()?;
        if let Some(numbers) = self.by_origin.get_mut(&oldest.origin) {
            numbers.pop_front();
            if numbers.is_empty() {
                self.by_origin.remove(&oldest.origin);
            }
        }
        Some(oldest.connection)
    }
}

/// Closes connections that have been idle for too long. Ends when none is left.
async fn sweep<C: Send + 'static>(pool: Weak<Pool<C>>) {
    while let Some(next) = pool.upgrade().and_then(|pool| pool.take_expired(Instant::now()).1) {
        tokio::time::sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_connection_that_became_idle_last_is_taken_first() {
        let pool = Arc::new(Pool::default());
        for (origin, connection) in [("a", 1), ("b", 2), ("a", 3)] {
            pool.put(origin, connection);
        }
        assert_eq!(
            [pool.take("a"), pool.take("a"), pool.take("a"), pool.take("b")],
            [Some(3), Some(1), None, Some(2)]
        );
        assert!(pool.idle.lock().by_origin.is_empty(), "an origin without connections is forgotten");
    }

    #[tokio::test]
    async fn one_bound_holds_for_all_receivers_and_a_busy_one_may_fill_it() {
        let pool = Arc::new(Pool::default());
        for receiver in 0..IDLE_MAX {
            pool.put(&format!("http://receiver-{receiver}"), receiver);
        }
        for busy in 0..IDLE_MAX / 2 {
            pool.put("http://busy", busy);
        }
        assert_eq!(pool.idle.lock().connections.len(), IDLE_MAX);
        assert_eq!(pool.idle.lock().by_origin["http://busy"].len(), IDLE_MAX / 2);
        assert_eq!(pool.take("http://receiver-0"), None, "the oldest was closed");
        assert_eq!(pool.take(&format!("http://receiver-{}", IDLE_MAX - 1)), Some(IDLE_MAX - 1));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_closed_after_a_while_without_any_request() {
        let pool = Arc::new(Pool::default());
        pool.put("a", 1);
        tokio::time::sleep(IDLE_TIMEOUT / 2).await;
        pool.put("b", 2);
        tokio::time::sleep(IDLE_TIMEOUT * 3 / 4).await;
        assert_eq!(pool.take("a"), None);
        assert_eq!(pool.idle.lock().connections.len(), 1);
        tokio::time::sleep(IDLE_TIMEOUT).await;
        assert!(pool.idle.lock().connections.is_empty());
        pool.put("c", 3);
        tokio::time::sleep(IDLE_TIMEOUT * 2).await;
        assert_eq!(pool.take("c"), None, "a pool that was empty is swept again");
    }
}
