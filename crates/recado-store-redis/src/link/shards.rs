//! Finds the server of a key: the only one, or the holder of the key's slot.

use std::sync::Arc;

use futures_util::future::join_all;
use recado_core::Random;
use redis::{Cmd, Value};
use tokio::time::Instant;

use super::RedisOptions;
use super::cluster::Cluster;
use super::connection::Connection;
use super::fault::{Fault, OpenError};
use super::location::Location;
use super::url::Kind;

#[derive(Debug)]
pub(crate) enum Shards {
    /// A single server, or the master of a Sentinel set.
    One {
        server: Arc<Connection>,
        location: Location,
    },
    Many(Cluster),
}

impl Shards {
    /// Returns when the server, or one of a Cluster, has answered.
    pub async fn open(options: &RedisOptions, random: Arc<Random>) -> Result<Self, OpenError> {
        let location = Location::read(options, random)?;
        if location.target.kind == Kind::Cluster {
            return Cluster::open(location, options.timeout).await.map(Shards::Many);
        }
        let server = Arc::new(Connection::start(location.clone(), options.timeout));
        let shards = Shards::One { server, location };
        let deadline = Instant::now() + options.timeout;
        let answer = shards.send(b"", &redis::cmd("PING"), deadline).await;
        answer.map_err(|fault| OpenError::of(fault, options.timeout))?;
        Ok(shards)
    }

    /// Sends a command to the server that has the key.
    pub async fn send(&self, key: &[u8], command: &Cmd, deadline: Instant) -> Result<Value, Fault> {
        match self {
            Shards::One { server, .. } => server.send(command, deadline).await,
            Shards::Many(cluster) => cluster.send(key, command, deadline).await,
        }
    }

    /// Sends two commands in one round trip to the server that has the key. The second answer is absent when the first
    /// command was redirected, or the second one failed.
    pub async fn send_pair(
        &self,
        key: &[u8],
        pair: [&Cmd; 2],
        deadline: Instant,
    ) -> Result<(Value, Option<Value>), Fault> {
        match self {
            Shards::One { server, .. } => server.send_pair(pair, deadline).await,
            Shards::Many(cluster) => cluster.send_pair(key, pair, deadline).await,
        }
    }

    /// Every server that takes writes.
    pub fn masters(&self) -> Vec<Arc<Connection>> {
        match self {
            Shards::One { server, .. } => vec![server.clone()],
            Shards::Many(cluster) => cluster.masters(),
        }
    }

    /// Asks every master at once.
    pub async fn ask_all(&self, command: &Cmd, deadline: Instant) -> Vec<Result<Value, Fault>> {
        join_all(self.masters().iter().map(|server| server.send(command, deadline))).await
    }

    /// A server to subscribe at: in a Cluster each passes on what is published at any.
    pub fn subscribe_location(&self) -> Location {
        match self {
            Shards::One { location, .. } => location.clone(),
            Shards::Many(cluster) => cluster.any_location(),
        }
    }
}
