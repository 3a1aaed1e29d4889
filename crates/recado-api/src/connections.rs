//! Bounds connections: in all, of one address, and of callers that have not been let in yet.
//!
//! A caller is let in once the gate took a request of it. Until then its connection is *unproven*: it is counted more
//! narrowly, and the oldest unproven one, of the address that has most of them, is closed when a newcomer needs room.
//! So sockets that say nothing cannot keep out callers with a token, not even from the same address.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::serve::ServeLimits;

/// Connections at most that are closing to make room: they hold their descriptors a moment longer.
const CLOSING_CONNECTIONS_MAX: usize = 64;

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: Arc<ServeLimits>,
    open: Mutex<OpenConnections>,
    closed: Notify,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next_number: u64,
    total: usize,
    unproven: usize,
    closing: usize,
    addresses: HashMap<IpAddr, AddressConnections>,
}

#[derive(Debug, Default)]
struct AddressConnections {
    total: usize,
    /// By number: the oldest first.
    unproven: BTreeMap<u64, CancellationToken>,
}

/// One connection's place among all. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace(pub Proof);

/// A connection's caller, with the gate's note that it was let in.
#[derive(Clone, Debug)]
pub(crate) struct Proof(Arc<Caller>);

#[derive(Debug)]
struct Caller {
    connections: Arc<Connections>,
    address: IpAddr,
    number: u64,
    is_proven: AtomicBool,
    /// Cancelled when the connection has to make room for another, or its answer for another answer.
    evicted: CancellationToken,
}

impl Connections {
    pub fn new(limits: Arc<ServeLimits>) -> Arc<Self> {
        Arc::new(Connections { limits, open: Mutex::default(), closed: Notify::new() })
    }

    /// Takes a connection in, at the cost of an unproven one if need be; `None` when there is no room.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPlace> {
        let address = network_of(address);
        let mut open = self.open.lock();
        open.make_room(&self.limits, address)?;
        open.next_number += 1;
        let (number, evicted) = (open.next_number, CancellationToken::new());
        open.total += 1;
        open.unproven += 1;
        let own = open.addresses.entry(address).or_default();
        own.total += 1;
        own.unproven.insert(number, evicted.clone());
        drop(open);
        let (connections, is_proven) = (self.clone(), AtomicBool::new(false));
        Some(ConnectionPlace(Proof(Arc::new(Caller { connections, address, number, is_proven, evicted }))))
    }

    /// Waits until connections that were closed to make room are gone, but for a few.
    pub async fn settle(&self) {
        loop {
            let closed = self.closed.notified();
            if self.open.lock().closing < CLOSING_CONNECTIONS_MAX {
                return;
            }
            closed.await;
        }
    }
}

impl OpenConnections {
    fn make_room(&mut self, limits: &ServeLimits, newcomer: IpAddr) -> Option<()> {
        let own = self.addresses.get(&newcomer);
        let (own_total, own_unproven) = own.map_or((0, 0), |own| (own.total, own.unproven.len()));
        if own_total >= limits.address_connections_max
            || own_unproven >= limits.unproven_address_connections_max
        {
            return self.evict_from(newcomer);
        }
        if self.total >= limits.connections_max || self.unproven >= limits.unproven_connections_max {
            let most = self.addresses.iter().max_by_key(|(_, address)| address.unproven.len());
            let most = most.map(|(address, _)| *address)?;
            return self.evict_from(most);
        }
        Some(())
    }

    /// Closes the oldest unproven connection of an address.
    fn evict_from(&mut self, address: IpAddr) -> Option<()> {
        let own = self.addresses.get_mut(&address)?;
        let (_, evicted) = own.unproven.pop_first()?;
        evicted.cancel();
        own.total -= 1;
        if own.total == 0 {
            self.addresses.remove(&address);
        }
        self.total -= 1;
        self.unproven -= 1;
        self.closing += 1;
        Some(())
    }

    fn leave(&mut self, Caller { address, number, is_proven, .. }: &Caller) {
        let own = self.addresses.get_mut(address);
        let was_unproven = own.as_ref().is_some_and(|own| own.unproven.contains_key(number));
        match own.filter(|_| was_unproven || is_proven.load(Ordering::Relaxed)) {
            Some(own) => {
                own.unproven.remove(number);
                own.total -= 1;
                if own.total == 0 {
                    self.addresses.remove(address);
                }
                self.total -= 1;
                self.unproven -= usize::from(was_unproven);
            }
            // It made room for another.
            None => self.closing = self.closing.saturating_sub(1),
        }
    }
}

impl Proof {
    /// Notes that the gate took a request of this caller.
    pub fn show(&self) {
        let Caller { connections, address, number, is_proven, .. } = &*self.0;
        if is_proven.load(Ordering::Relaxed) {
            return;
        }
        let mut open = connections.open.lock();
        let own = open.addresses.get_mut(address);
        // One that is being closed stays unproven.
        if own.is_some_and(|own| own.unproven.remove(number).is_some()) {
            open.unproven -= 1;
            is_proven.store(true, Ordering::Relaxed);
        }
    }

    /// The network that the caller has to itself.
    pub fn address(&self) -> IpAddr {
        self.0.address
    }

    /// Closes the caller's connection when cancelled.
    pub fn cut(&self) -> &CancellationToken {
        &self.0.evicted
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let Proof(caller) = &self.0;
        caller.connections.open.lock().leave(caller);
        caller.connections.closed.notify_waiters();
    }
}

/// The network that one caller has to itself: an IPv4 address, or 64 bits of an IPv6 address.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(max: usize) -> Arc<Connections> {
        Connections::new(Arc::new(ServeLimits::for_connections(max)))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn silent_sockets_of_one_address_make_room_for_a_caller_from_the_same_address() {
        let all = connections(64);
        let silent: Vec<_> = (0..200).filter_map(|_| all.enter(ip("10.0.0.1"))).collect();
        let kept = silent.iter().filter(|place| !place.0.cut().is_cancelled()).count();
        assert_eq!((silent.len(), kept), (200, all.limits.unproven_address_connections_max));
        let caller = all.enter(ip("10.0.0.1")).expect("room");
        caller.0.show();
        let more: Vec<_> = (0..200).filter_map(|_| all.enter(ip("10.0.0.1"))).collect();
        assert!(!caller.0.cut().is_cancelled() && caller.0.0.is_proven.load(Ordering::Relaxed));
        drop((silent, more, caller));
        let open = all.open.lock();
        assert_eq!((open.total, open.closing), (0, 0));
        assert!(open.addresses.is_empty());
    }

    #[test]
    fn the_address_with_most_silent_sockets_pays_for_a_newcomer() {
        let all = connections(64);
        let few: Vec<_> = (0..4).filter_map(|_| all.enter(ip("10.0.0.2"))).collect();
        let many: Vec<_> = ["10.0.0.1", "10.0.0.3"]
            .iter()
            .flat_map(|address| (0..64).filter_map(|_| all.enter(ip(address))).collect::<Vec<_>>())
            .collect();
        assert!(
            many.iter().any(|place| place.0.cut().is_cancelled()),
            "there was room for all: nothing was tested"
        );
        assert!(few.iter().all(|place| !place.0.cut().is_cancelled()));
    }

    #[test]
    fn callers_that_were_let_in_are_bounded_by_address_and_in_all() {
        let all = connections(64);
        let enter = |address: &str| {
            let place = all.enter(ip(address))?;
            place.0.show();
            Some(place)
        };
        let first: Vec<_> = (0..64).filter_map(|_| enter("10.0.0.1")).collect();
        assert_eq!(first.len(), all.limits.address_connections_max);
        let second: Vec<_> = (0..64).filter_map(|_| enter("10.0.0.2")).collect();
        assert_eq!(first.len() + second.len(), 64, "full");
        assert!(enter("10.0.0.3").is_none());
        drop(first);
        assert!(enter("10.0.0.3").is_some());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_caller() {
        assert_eq!(network_of(ip("2001:db8::1")), network_of(ip("2001:db8::2:3:4:5")));
        assert_ne!(network_of(ip("2001:db8::1")), network_of(ip("2001:db8:0:1::1")));
        assert_eq!(network_of(ip("::ffff:10.0.0.1")), ip("10.0.0.1"));
    }
}
