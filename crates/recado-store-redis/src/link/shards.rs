//! Which node a key is at.

use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::RedisOptions;
use super::cluster::Cluster;
use super::fault::{Fault, OpenError};
use super::node::{Node, Request};
use super::place::{Dial, Place};
use super::url::{Kind, Target};

#[derive(Debug)]
pub(crate) enum Shards {
    /// A single server, or the master of a Sentinel set.
    One {
        node: Arc<Node>,
        place: Place,
    },
    Many(Cluster),
}

impl Shards {
    /// Returns when the server, or one of a Cluster, has answered.
    pub async fn open(target: &Target, options: &RedisOptions) -> Result<Self, OpenError> {
        let dial = Dial::new(target, options.trusted_roots_pem.as_deref())?;
        let shards = match target.kind {
            Kind::Cluster => {
                return Ok(Shards::Many(Cluster::open(&target.addresses, dial, options.timeout).await?));
            }
            Kind::Single | Kind::Sentinel { .. } => {
                let place = Place::of(target, dial);
                Shards::One { node: Arc::new(Node::start(place.clone(), options.timeout)), place }
            }
        };
        let deadline = Instant::now() + options.timeout;
        let answer = shards.send(b"", Request::One(&redis::cmd("PING")), deadline).await;
        answer.map_err(|fault| OpenError::of(fault, options.timeout))?;
        Ok(shards)
    }

    /// One answer to each command, in order; a refusal of any is the refusal of all.
    pub async fn send(
        &self,
        key: &[u8],
        request: Request<'_>,
        deadline: Instant,
    ) -> Result<Vec<Value>, Fault> {
        match self {
            Shards::One { node, .. } => node.send(request, deadline).await,
            Shards::Many(cluster) => cluster.send(key, request, deadline).await,
        }
    }

    /// Every server that takes writes.
    pub fn masters(&self) -> Vec<Arc<Node>> {
        match self {
            Shards::One { node, .. } => vec![node.clone()],
            Shards::Many(cluster) => cluster.masters(),
        }
    }

    /// Asks every master at once, in no order.
    pub async fn ask_all(&self, command: &Cmd, deadline: Instant) -> Vec<Result<Value, Fault>> {
        let mut asked = JoinSet::new();
        for node in self.masters() {
            let command = command.clone();
            asked.spawn(async move {
                let mut values = node.send(Request::One(&command), deadline).await?;
                Ok(values.pop().unwrap_or(Value::Nil))
            });
        }
        asked.join_all().await
    }

    /// Somewhere to listen: in a Cluster every node hears what is published at any.
    pub fn listening_place(&self) -> Place {
        match self {
            Shards::One { place, .. } => place.clone(),
            Shards::Many(cluster) => cluster.any_place(),
        }
    }
}
