//! The processes that share the store: each leaves a note of itself, and all can read them.
//!
//! A process that has the store for itself writes no note and is the only node. The times
//! are the store's, so that nodes whose clocks differ agree on who is silent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{Payload, Timestamp};
use recado_store::{KvWrite, Namespace, Store};
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, EngineError, Inner};

pub const NAMESPACE: Namespace = Namespace::new("nodes");

/// Interval of a node's beats.
const BEAT_EVERY: Duration = Duration::from_secs(5);

/// After three beats that did not come, something is wrong with it.
const SILENT_AFTER: Duration = Duration::from_secs(15);

/// Then it is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// HeldLeases in the minute that its work is counted over.
const BEATS_COUNTED: usize = 12;

/// A process's description of itself.
#[derive(Debug, Clone, Default)]
pub struct NodeInfo {
    pub host: Box<str>,
    /// Address of its API.
    pub listen: Option<Box<str>>,
}

/// The note that a node leaves at every beat.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Beat {
    host: Box<str>,
    listen: Option<Box<str>>,
    version: Box<str>,
    started_at: Timestamp,
    seen_at: Timestamp,
    stopping: bool,
    running: u64,
    ended_last_minute: u64,
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
    pub host: Box<str>,
    pub listen: Option<Box<str>>,
    pub version: Box<str>,
    pub started_at: Timestamp,
    pub last_seen_at: Timestamp,
    pub health: Health,
    /// Deliveries under way.
    pub running: u64,
    pub ended_last_minute: u64,
    /// Of all that ended in the last minute, how much this node did.
    pub share_percent: f64,
}

/// This process's figures about itself.
#[derive(Debug)]
pub(crate) struct NodeBeats {
    about: NodeInfo,
    started_at: Timestamp,
    /// Deliveries ended, at each of the last beats.
    ended_at_beats: Mutex<VecDeque<u64>>,
}

impl NodeBeats {
    pub fn new(about: NodeInfo, now: Timestamp) -> Self {
        NodeBeats { about, started_at: now, ended_at_beats: Mutex::new(VecDeque::from([0])) }
    }

    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    fn beat(&self, engine: &Inner, now: Timestamp) -> Beat {
        let ended_a_minute_ago = self.ended_at_beats.lock().front().copied().unwrap_or_default();
        Beat {
            host: self.about.host.clone(),
            listen: self.about.listen.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_at: self.started_at,
            seen_at: now,
            stopping: engine.stopping.is_cancelled(),
            running: engine.beats.running_count(),
            ended_last_minute: engine.beats.ended_count() - ended_a_minute_ago,
        }
    }

    fn count(&self, ended: u64) {
        let mut beats = self.ended_at_beats.lock();
        if beats.len() > BEATS_COUNTED {
            beats.pop_front();
        }
        beats.push_back(ended);
    }
}

/// Says that this node is there, until everything has ended. Then it takes its leave.
pub(crate) async fn run(engine: Arc<Inner>) {
    let shared = engine.store.is_shared();
    loop {
        let stopping = engine.stopping.is_cancelled();
        let now = engine.clock.now();
        if shared {
            let beat = serde_json::to_string(&engine.nodes.beat(&engine, now)).ok().map(Payload::trusted);
            write(&*engine.store, &engine.settings.node, beat, now).await;
        }
        tokio::select! {
            () = engine.stopped.cancelled() => break,
            // DeliveryFeedback at once, so that it gets no work any more.
            () = engine.stopping.cancelled(), if !stopping => continue,
            () = tokio::time::sleep(BEAT_EVERY) => {}
        }
        engine.nodes.count(engine.beats.ended_count());
    }
    if shared {
        write(&*engine.store, &engine.settings.node, None, engine.clock.now()).await;
    }
}

/// Leaves the first note of a node before it looks whether it may serve the store. So a move that is about to
/// take the store away sees the node, or the node sees the move.
pub async fn register(store: &dyn Store, node: &str, about: &NodeInfo, now: Timestamp) {
    if !store.is_shared() {
        return;
    }
    let beat = Beat {
        host: about.host.clone(),
        listen: about.listen.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        started_at: now,
        seen_at: now,
        stopping: false,
        running: 0,
        ended_last_minute: 0,
    };
    write(store, node, serde_json::to_string(&beat).ok().map(Payload::trusted), now).await;
}

/// Takes the note of a node away that does not start after all.
pub async fn deregister(store: &dyn Store, node: &str, now: Timestamp) {
    if store.is_shared() {
        write(store, node, None, now).await;
    }
}

async fn write(store: &dyn Store, node: &str, value: Option<Payload>, now: Timestamp) {
    let expires_at = value.is_some().then(|| now.plus(FORGOTTEN_AFTER));
    let note = KvWrite {
        namespace: NAMESPACE,
        key: node.into(),
        value,
        expect: None,
        expires_at,
        audit: Vec::new(),
    };
    if let Err(error) = store.kv_write(vec![note], now).await {
        tracing::debug!(%error, "cannot tell the other nodes that this one is there");
    }
}

impl Engine {
    /// Every node that has been heard of lately, by id; this one as it is right now.
    pub async fn nodes(&self) -> Result<Vec<Node>, EngineError> {
        let inner = &self.inner;
        let now = self.now();
        let own = &inner.settings.node;
        let mut beats = vec![(own.clone(), inner.nodes.beat(inner, now))];
        for note in inner.store.kv_list(NAMESPACE, now).await? {
            // One that a newer version wrote in a way that this one cannot read is left out.
            if let (true, Ok(beat)) = (note.key != *own, note.value.parse()) {
                beats.push((note.key, beat));
            }
        }
        beats.sort_by(|(one, _), (other, _)| one.cmp(other));
        let ended: u64 = beats.iter().map(|(_, beat)| beat.ended_last_minute).sum();
        Ok(beats.into_iter().map(|(id, beat)| show(id, beat, ended, now)).collect())
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
    Node {
        id,
        host: beat.host,
        listen: beat.listen,
        version: beat.version,
        started_at: beat.started_at,
        last_seen_at: beat.seen_at,
        health,
        running: beat.running,
        ended_last_minute: beat.ended_last_minute,
        share_percent: if ended == 0 { 0.0 } else { beat.ended_last_minute as f64 * 100.0 / ended as f64 },
    }
}
