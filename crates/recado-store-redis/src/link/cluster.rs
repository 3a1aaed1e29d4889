//! A Redis Cluster: which master has which slots, kept up to date as it changes.
//!
//! The map is read at the start, and again whenever something says that it is out of date: a redirect, a
//! master that cannot be reached, a refusal for want of slots. A call whose master is gone looks again when
//! the map changes, within its time.
//!
//! Our own, and not the client library's: that one repeats requests after it lost the connection, when they may
//! have been carried out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Cmd, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::fault::{Fault, OpenError};
use super::node::{Node, Request};
use super::place::{Dial, Place};
use super::slots::{SlotMap, slot_of};
use super::url::Address;

/// Redirects that a call follows at most. One is usual; more happen while slots move.
const REDIRECTS_MAX: usize = 5;

/// Between two readings of the map.
const READ_EVERY_MIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Cluster {
    inner: Arc<Inner>,
    reader: AbortHandle,
}

#[derive(Debug)]
struct Inner {
    seeds: Vec<Address>,
    dial: Arc<Dial>,
    timeout: Duration,
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
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
    pub async fn open(seeds: &[Address], dial: Arc<Dial>, timeout: Duration) -> Result<Self, OpenError> {
        let inner = Arc::new(Inner {
            seeds: seeds.to_vec(),
            dial,
            timeout,
            nodes: Mutex::default(),
            map: watch::Sender::new(Arc::default()),
            outdated: Notify::new(),
        });
        inner.read_map().await.map_err(OpenError::Unavailable)?;
        let reader = tokio::spawn(inner.clone().keep_map()).abort_handle();
        Ok(Cluster { inner, reader })
    }

    pub async fn send(
        &self,
        key: &[u8],
        request: Request<'_>,
        deadline: Instant,
    ) -> Result<Vec<Value>, Fault> {
        match request {
            Request::One(command) => Ok(vec![self.send_one(slot_of(key), command, deadline).await?]),
            Request::Many(pipeline) => self.send_many(slot_of(key), pipeline, deadline).await,
        }
    }

    async fn send_one(&self, slot: u16, command: &Cmd, deadline: Instant) -> Result<Value, Fault> {
        let mut node = self.inner.holder(slot, deadline).await?;
        let mut asking = false;
        for _ in 0..REDIRECTS_MAX {
            let answer = match asking {
                true => {
                    let mut pair = redis::pipe();
                    pair.cmd("ASKING").add_command(command.clone());
                    node.send(Request::Many(&pair), deadline).await
                }
                false => node.send(Request::One(command), deadline).await,
            };
            let fault = match answer {
                Ok(mut values) => return Ok(values.pop().unwrap_or(Value::Nil)),
                Err(fault) => fault,
            };
            self.inner.learn_from(&fault);
            let Fault::Redis { error, .. } = &fault else { return Err(fault) };
            let Some(address) = redirect(error) else { return Err(fault) };
            asking = fault.server_kind() == Some(ServerErrorKind::Ask);
            node = self.inner.node(&address);
        }
        Err(Fault::Unreachable {
            at: format!("the holder of slot {slot}").into(),
            why: "every shard named another one".into(),
        })
    }

    /// Those that were redirected, and only those, are sent again one by one.
    async fn send_many(
        &self,
        slot: u16,
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, Fault> {
        let node = self.inner.holder(slot, deadline).await?;
        let sent = node.send_each(Request::Many(pipeline), deadline).await;
        let mut values = sent.inspect_err(|fault| self.inner.learn_from(fault))?;
        for (value, command) in values.iter_mut().zip(pipeline.cmd_iter()) {
            if let Value::ServerError(error) = &*value
                && redirect(&error.clone().into()).is_some()
            {
                self.inner.outdated.notify_one();
                *value = self.send_one(slot, command, deadline).await?;
            }
        }
        node.accepted(values)
    }

    pub fn masters(&self) -> Vec<Arc<Node>> {
        let map = self.inner.map.borrow().clone();
        map.masters.iter().map(|address| self.inner.node(address)).collect()
    }

    pub fn any_place(&self) -> Place {
        let map = self.inner.map.borrow().clone();
        let known = if map.masters.is_empty() { &self.inner.seeds } else { &map.masters };
        Place::to(known[fastrand::usize(..known.len())].clone(), self.inner.dial.clone())
    }
}

impl Inner {
    /// The master of a slot, once it can be reached.
    async fn holder(&self, slot: u16, deadline: Instant) -> Result<Arc<Node>, Fault> {
        let mut map = self.map.subscribe();
        loop {
            let holder = map.borrow_and_update().holder(slot).map(|address| self.node(address));
            let Some(node) = holder else {
                self.outdated.notify_one();
                if timeout_at(deadline, map.changed()).await.is_err() {
                    return Err(Fault::Unreachable {
                        at: format!("the holder of slot {slot}").into(),
                        why: "no shard has it".into(),
                    });
                }
                continue;
            };
            if node.is_up() {
                return Ok(node);
            }
            self.outdated.notify_one();
            tokio::select! {
                () = node.connected() => return Ok(node),
                _ = map.changed() => {}
                () = tokio::time::sleep_until(deadline) => return Err(node.unreachable()),
            }
        }
    }

    fn node(&self, address: &Address) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        let start = || Arc::new(Node::start(Place::to(address.clone(), self.dial.clone()), self.timeout));
        nodes.entry(address.clone()).or_insert_with(start).clone()
    }

    fn learn_from(&self, fault: &Fault) {
        let outdated = match fault {
            Fault::Unreachable { .. } | Fault::Silent { .. } => true,
            Fault::Redis { error, .. } => match fault.server_kind() {
                Some(kind) => matches!(
                    kind,
                    ServerErrorKind::Moved
                        | ServerErrorKind::ClusterDown
                        | ServerErrorKind::ReadOnly
                        | ServerErrorKind::MasterDown
                ),
                None => error.is_io_error(),
            },
        };
        if outdated {
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

    /// Asks those who are connected first, then the others that are known, then those of the URL.
    async fn read_map(&self) -> Result<(), String> {
        let deadline = Instant::now() + self.timeout;
        let known: Vec<_> = self.nodes.lock().iter().map(|(at, node)| (at.clone(), node.clone())).collect();
        let (up, down): (Vec<_>, Vec<_>) = known.into_iter().partition(|(_, node)| node.is_up());
        let seeds = self.seeds.iter().map(|seed| (seed.clone(), self.node(seed)));
        let asked: Vec<_> = up.into_iter().chain(down).chain(seeds).collect();
        let share = self.timeout / u32::try_from(asked.len()).unwrap_or(1).max(1);
        let mut why = "no address is known".to_owned();
        for (address, node) in asked {
            let soon = deadline.min(Instant::now() + share.max(Duration::from_millis(200)));
            match node.send(Request::One(redis::cmd("CLUSTER").arg("SLOTS")), soon).await {
                Ok(values) => match values.first().and_then(|value| SlotMap::read(value, &address)) {
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
        self.nodes.lock().retain(|address, _| map.masters.contains(address));
        self.map.send_if_modified(|known| {
            let news = **known != map;
            if news {
                *known = Arc::new(map);
            }
            news
        });
    }
}

/// The address that an error redirects to.
fn redirect(error: &RedisError) -> Option<Address> {
    let (address, _) = error.redirect_node()?;
    // A server without a name for the other says so by none: then the new map knows better.
    let (host, port) = address.rsplit_once(':').filter(|(host, _)| !host.is_empty())?;
    Some(Address { host: host.to_owned(), port: port.parse().ok()? })
}
