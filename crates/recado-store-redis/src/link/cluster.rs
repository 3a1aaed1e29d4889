//! A Redis Cluster: the map of slots to masters, kept up to date as it changes.
//!
//! The map is read at the start, and again whenever something says that it is out of date: a redirect, a
//! master that cannot be reached, a refusal for want of slots. A call whose master is gone looks again when
//! the map changes, within its time.
//!
//! Our own, and not the client library's: that one repeats requests after it lost the connection, when they may have been
//! carried out, and one shard that stands still delays calls to the others. See
//! `docs/decisions/0028-redis-connections-are-ours.md`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Cmd, ServerErrorKind, Value};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::connection::Connection;
use super::fault::{Fault, OpenError};
use super::location::Location;
use super::slots::{SlotMap, slot_of};
use super::url::Address;

/// Redirects that a call follows at most. One is usual; more happen while slots move.
const REDIRECTS_MAX: usize = 5;

/// Least time between two readings of the map.
const READ_EVERY_MIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Cluster {
    state: Arc<ClusterState>,
    reader: AbortHandle,
}

#[derive(Debug)]
struct ClusterState {
    /// The addresses of the URL.
    seeds: Location,
    timeout: Duration,
    servers: Mutex<HashMap<Address, Arc<Connection>>>,
    map: watch::Sender<Arc<SlotMap>>,
    outdated: Notify,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Cluster {
    /// Returns when the map has been read.
    pub async fn open(seeds: Location, timeout: Duration) -> Result<Self, OpenError> {
        let state = Arc::new(ClusterState {
            seeds,
            timeout,
            servers: Mutex::default(),
            map: watch::Sender::new(Arc::default()),
            outdated: Notify::new(),
        });
        state.read_map().await.map_err(OpenError::Unavailable)?;
        let reader = tokio::spawn(state.clone().keep_map()).abort_handle();
        Ok(Cluster { state, reader })
    }

    /// Sends a command to the holder of the key's slot, and on to where it is redirected.
    pub async fn send(&self, key: &[u8], command: &Cmd, deadline: Instant) -> Result<Value, Fault> {
        let slot = slot_of(key);
        let mut server = self.state.holder(slot, deadline).await?;
        let mut is_asking = false;
        for _ in 0..REDIRECTS_MAX {
            let answer = match is_asking {
                true => server.send_asking(command, deadline).await,
                false => server.send(command, deadline).await,
            };
            let Err(fault) = answer else { return answer };
            self.state.learn_from(&fault);
            let Some(address) = redirect(&fault) else { return Err(fault) };
            is_asking = fault.server_kind() == Some(ServerErrorKind::Ask);
            server = self.state.server(&address);
        }
        Err(no_holder(slot, "every shard named another one"))
    }

    /// Sends two commands in one round trip. A redirect is followed with the first one alone.
    pub async fn send_pair(
        &self,
        key: &[u8],
        pair: [&Cmd; 2],
        deadline: Instant,
    ) -> Result<(Value, Option<Value>), Fault> {
        let server = self.state.holder(slot_of(key), deadline).await?;
        let answers = server.send_pair(pair, deadline).await;
        let Err(fault) = answers else { return answers };
        self.state.learn_from(&fault);
        if redirect(&fault).is_none() {
            return Err(fault);
        }
        Ok((self.send(key, pair[0], deadline).await?, None))
    }

    pub fn masters(&self) -> Vec<Arc<Connection>> {
        let map = self.state.map.borrow().clone();
        map.masters.iter().map(|address| self.state.server(address)).collect()
    }

    pub fn any_location(&self) -> Location {
        let map = self.state.map.borrow().clone();
        let seeds = &self.state.seeds;
        let known = if map.masters.is_empty() { &seeds.target.addresses } else { &map.masters };
        seeds.to(known[seeds.random.next_index(known.len())].clone())
    }
}

impl ClusterState {
    /// The master of a slot, once it can be reached.
    async fn holder(&self, slot: u16, deadline: Instant) -> Result<Arc<Connection>, Fault> {
        let mut map = self.map.subscribe();
        loop {
            let holder = map.borrow_and_update().holder(slot).map(|address| self.server(address));
            let Some(server) = holder else {
                self.outdated.notify_one();
                if timeout_at(deadline, map.changed()).await.is_err() {
                    return Err(no_holder(slot, "no shard has it"));
                }
                continue;
            };
            if server.is_up() {
                return Ok(server);
            }
            self.outdated.notify_one();
            tokio::select! {
                () = server.connected() => return Ok(server),
                _ = map.changed() => {}
                () = tokio::time::sleep_until(deadline) => return Err(server.unreachable()),
            }
        }
    }

    fn server(&self, address: &Address) -> Arc<Connection> {
        let mut servers = self.servers.lock();
        let start = || Arc::new(Connection::start(self.seeds.to(address.clone()), self.timeout));
        servers.entry(address.clone()).or_insert_with(start).clone()
    }

    fn learn_from(&self, fault: &Fault) {
        use ServerErrorKind::{ClusterDown, MasterDown, Moved, ReadOnly};
        let is_outdated = match (fault, fault.server_kind()) {
            (Fault::Unreachable { .. } | Fault::Silent { .. }, _) => true,
            (_, Some(kind)) => matches!(kind, Moved | ClusterDown | ReadOnly | MasterDown),
            (Fault::Redis { error, .. }, None) => error.is_io_error(),
        };
        if is_outdated {
            self.outdated.notify_one();
        }
    }

    /// Reads the map whenever it is said to be out of date.
    async fn keep_map(self: Arc<Self>) {
        loop {
            self.outdated.notified().await;
            if let Err(error) = self.read_map().await {
                tracing::warn!(error, "Cannot read which shard has which slots");
            }
            tokio::time::sleep(READ_EVERY_MIN).await;
        }
    }

    /// Asks the connected servers first, then the others that are known, then those of the URL.
    async fn read_map(&self) -> Result<(), String> {
        let deadline = Instant::now() + self.timeout;
        let known: Vec<_> =
            self.servers.lock().iter().map(|(at, server)| (at.clone(), server.clone())).collect();
        let (up, down): (Vec<_>, Vec<_>) = known.into_iter().partition(|(_, server)| server.is_up());
        let seeds = self.seeds.target.addresses.iter().map(|seed| (seed.clone(), self.server(seed)));
        let asked: Vec<_> = up.into_iter().chain(down).chain(seeds).collect();
        let share = self.timeout / u32::try_from(asked.len()).unwrap_or(1).max(1);
        let mut why = "no address is known".to_owned();
        for (address, server) in asked {
            let soon = deadline.min(Instant::now() + share.max(Duration::from_millis(200)));
            match server.send(redis::cmd("CLUSTER").arg("SLOTS"), soon).await {
                Ok(value) => match SlotMap::read(&value, &address) {
                    Some(map) => {
                        self.adopt(map);
                        return Ok(());
                    }
                    None => why = format!("{address} does not know its slots; is it part of a Cluster?"),
                },
                Err(fault) => why = fault.into_store_error("CLUSTER SLOTS", self.timeout).to_string(),
            }
        }
        Err(why)
    }

    fn adopt(&self, map: SlotMap) {
        self.servers.lock().retain(|address, _| map.masters.contains(address));
        self.map.send_if_modified(|known| {
            let is_new = **known != map;
            if is_new {
                *known = Arc::new(map);
            }
            is_new
        });
    }
}

fn no_holder(slot: u16, why: &str) -> Fault {
    Fault::Unreachable { at: format!("the holder of slot {slot}").into(), why: why.into() }
}

/// The address that a server redirects to.
fn redirect(fault: &Fault) -> Option<Address> {
    let Fault::Redis { error, .. } = fault else { return None };
    let (address, _) = error.redirect_node()?;
    // A server without a name for the other says so by none: then the new map knows better.
    let (host, port) = address.rsplit_once(':').filter(|(host, _)| !host.is_empty())?;
    Some(Address { host: host.to_owned(), port: port.parse().ok()? })
}
