//! The processes that share the store: each writes an entry about itself, and all can read them.
//!
//! A process that has the store for itself writes none and is the only node. The times
//! are the store's, so that nodes whose clocks differ agree on who is silent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::Timestamp;
use recado_store::{KeyValue, KvWrite, Namespace};
use serde::{Deserialize, Serialize};

use crate::attempt::leases::HeldLeases;
use crate::environment::Environment;
use crate::error::Result;
use crate::shared::entry::{EntryKey, read_entry, write_of};

pub const NAMESPACE: Namespace = Namespace::new("nodes");

/// Interval of a node's beats.
const BEAT_EVERY: Duration = Duration::from_secs(5);

/// A node is shown as silent after this long without a beat: three are missing.
const SILENT_AFTER: Duration = Duration::from_secs(15);

/// A node leaves the list after this long without a beat.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Beats in the minute that its work is counted over.
const BEATS_COUNTED: usize = 12;

/// A process's description of itself.
#[derive(Debug, Clone, Default)]
pub struct NodeInfo {
    pub host: Box<str>,
    /// Address of its API.
    pub listen: Option<Box<str>>,
}

/// The entry that a node writes at every beat.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Beat {
    pub host: Box<str>,
    pub listen: Option<Box<str>>,
    pub version: Box<str>,
    pub started_at: Timestamp,
    pub seen_at: Timestamp,
    pub stopping: bool,
    /// Deliveries under way.
    pub running: u64,
    pub ended_last_minute: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Ok,
    /// It lets its deliveries end and takes no more.
    Stopping,
    /// It has not been heard of for a while: dead, cut off or very slow. Its leases run out.
    Silent,
}

#[derive(Debug, Clone)]
pub struct Node {
    pub id: Box<str>,
    /// Its last heartbeat.
    pub beat: Beat,
    pub health: Health,
    /// This node's share of the jobs that ended in the last minute.
    pub share_percent: f64,
}

/// This process among the nodes that share the store.
#[derive(Debug)]
pub struct Nodes {
    pub(crate) env: Arc<Environment>,
    pub(crate) info: NodeInfo,
    pub(crate) kv: Arc<dyn KeyValue>,
    pub(crate) leases: Arc<HeldLeases>,
    /// Deliveries ended, at each of the last beats.
    pub(crate) ended_at_beats: Mutex<VecDeque<u64>>,
}

impl Nodes {
    fn beat(&self, now: Timestamp) -> Beat {
        let ended_a_minute_ago = self.ended_at_beats.lock().front().copied().unwrap_or_default();
        Beat {
            stopping: self.env.lifecycle.is_stopping(),
            running: self.leases.running_count(),
            ended_last_minute: self.leases.ended_count() - ended_a_minute_ago,
            ..Beat::first(&self.info, self.env.metrics.started_at(), now)
        }
    }

    fn count_ended(&self) {
        let mut beats = self.ended_at_beats.lock();
        if beats.len() > BEATS_COUNTED {
            beats.pop_front();
        }
        beats.push_back(self.leases.ended_count());
    }

    /// Writes this node's heartbeat until the engine has stopped, then removes its entry.
    pub(crate) async fn run(self: Arc<Self>) {
        let shared = self.kv.is_shared();
        loop {
            let stopping = self.env.lifecycle.is_stopping();
            let now = self.env.now();
            if shared {
                write(&*self.kv, &self.env.node, Some(&self.beat(now)), now).await;
            }
            tokio::select! {
                biased;
                () = self.env.lifecycle.stopped.cancelled() => break,
                // At once, so that the list of nodes shows that it is stopping.
                () = self.env.lifecycle.stopping.cancelled(), if !stopping => continue,
                () = tokio::time::sleep(BEAT_EVERY) => {}
            }
            self.count_ended();
        }
        if shared {
            write(&*self.kv, &self.env.node, None, self.env.now()).await;
        }
    }

    /// Returns every node that has been heard of lately, by id; this one as it is right now.
    pub async fn list(&self) -> Result<Vec<Node>> {
        let now = self.env.now();
        let mut beats = vec![(self.env.node.clone(), self.beat(now))];
        for entry in self.kv.kv_list(NAMESPACE, now).await? {
            // One that a newer version wrote in a way that this one cannot read is left out.
            if let (true, Some(beat)) = (entry.key != self.env.node, read_entry(&entry)) {
                beats.push((entry.key, beat));
            }
        }
        beats.sort_by(|(one, _), (other, _)| one.cmp(other));
        let ended: u64 = beats.iter().map(|(_, beat)| beat.ended_last_minute).sum();
        Ok(beats.into_iter().map(|(id, beat)| show(id, beat, ended, now)).collect())
    }
}

impl Beat {
    fn first(info: &NodeInfo, started_at: Timestamp, now: Timestamp) -> Self {
        Beat {
            host: info.host.clone(),
            listen: info.listen.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_at,
            seen_at: now,
            stopping: false,
            running: 0,
            ended_last_minute: 0,
        }
    }
}

/// Writes the first entry of a node before it looks whether it may serve the store. So a move that is about to take the
/// store away sees the node, or the node sees the move.
pub async fn register(kv: &dyn KeyValue, node: &str, info: &NodeInfo, now: Timestamp) {
    if kv.is_shared() {
        write(kv, node, Some(&Beat::first(info, now, now)), now).await;
    }
}

/// Removes the entry of a node that does not start after all.
pub async fn deregister(kv: &dyn KeyValue, node: &str, now: Timestamp) {
    if kv.is_shared() {
        write(kv, node, None, now).await;
    }
}

async fn write(kv: &dyn KeyValue, node: &str, beat: Option<&Beat>, now: Timestamp) {
    let key = EntryKey { namespace: NAMESPACE, key: node };
    let expires_at = beat.is_some().then(|| now.plus(FORGOTTEN_AFTER));
    let written = match write_of(key, beat, None) {
        Ok(write) => kv.kv_write(vec![KvWrite { expires_at, ..write }], now).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        tracing::debug!(%error, "Cannot write this node's heartbeat");
    }
}

fn show(id: Box<str>, beat: Beat, ended: u64, now: Timestamp) -> Node {
    let health = if now.since(beat.seen_at) > SILENT_AFTER {
        Health::Silent
    } else if beat.stopping {
        Health::Stopping
    } else {
        Health::Ok
    };
    let share_percent = if ended == 0 { 0.0 } else { beat.ended_last_minute as f64 * 100.0 / ended as f64 };
    Node { id, beat, health, share_percent }
}
