//! The Redis that is measured: named by its URL, or started for the occasion.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::Random;
use recado_store_redis::{RedisOptions, RedisStore};
use redis::aio::MultiplexedConnection;

use super::node::{Manifest, NodeProcess};
use crate::process::{KilledOnDrop, free_port};
use crate::{BenchOptions, Failed};

/// Gives up on a server that does not answer by then.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Keys removed in one command.
const REMOVED_KEYS: usize = 1_000;

pub struct RedisServer {
    url: String,
    connection: MultiplexedConnection,
    /// Prefix of the current measurement's keys: other keys of a server that was named are not touched.
    prefix: Box<str>,
    process: Option<KilledOnDrop>,
}

impl RedisServer {
    pub async fn at(options: &BenchOptions) -> Result<Self, Failed> {
        let (url, process) = match &options.redis_url {
            Some(url) => (url.clone(), None),
            None => start(options)?,
        };
        let client = redis::Client::open(&*url)?;
        let started = Instant::now();
        let connection = loop {
            match client.get_multiplexed_async_connection().await {
                Ok(connection) => break connection,
                Err(error) if started.elapsed() > READY_WITHIN => {
                    return Err(format!("no answer from Redis: {error}").into());
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        Ok(RedisServer { url, connection, prefix: new_prefix(), process })
    }

    pub fn is_ours(&self) -> bool {
        self.process.is_some()
    }

    /// A way to the store of the current measurement.
    pub async fn store(&self, partitions: u16) -> Result<RedisStore, Failed> {
        let options =
            RedisOptions { partitions, prefix: self.prefix.clone(), ..RedisOptions::new(self.url.clone()) };
        Ok(RedisStore::open(&options, Arc::new(Random::from_entropy())).await?)
    }

    /// A node on the store of the current measurement.
    pub async fn node(&self, name: &str, partitions: u16, lease: Duration) -> Result<NodeProcess, Failed> {
        let manifest = Manifest {
            name: name.to_owned(),
            url: self.url.clone(),
            prefix: self.prefix.clone(),
            partitions,
            lease_ms: u64::try_from(lease.as_millis())?,
        };
        NodeProcess::start(manifest).await
    }

    /// The server's memory without the buffers of its connections, which keep the size of the largest call for a while.
    pub async fn used_bytes(&mut self) -> Result<u64, Failed> {
        let info: String = redis::cmd("INFO").arg("memory").query_async(&mut self.connection).await?;
        let figure = |name: &str| -> Result<u64, Failed> {
            let found = info.lines().find_map(|line| line.strip_prefix(name));
            Ok(found.ok_or_else(|| format!("no {name} in INFO"))?.trim().parse()?)
        };
        Ok(figure("used_memory:")?.saturating_sub(figure("mem_clients_normal:")?))
    }

    pub async fn set_fsync(&mut self, policy: &str) -> Result<(), Failed> {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("appendfsync").arg(policy);
        Ok(set.exec_async(&mut self.connection).await?)
    }

    /// Removes what a measurement left; the next one has keys of its own.
    pub async fn cleared(&mut self) -> Result<(), Failed> {
        let pattern = format!("{}:*", self.prefix);
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(REMOVED_KEYS);
            let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut self.connection).await?;
            if !keys.is_empty() {
                redis::cmd("UNLINK").arg(keys).exec_async(&mut self.connection).await?;
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        self.prefix = new_prefix();
        Ok(())
    }
}

/// About as long as the usual one: it is part of every key.
fn new_prefix() -> Box<str> {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("b{}", &random[..6]).into()
}

/// With a log on disk that is forced once a second, and not written anew in the middle of a measurement.
fn start(options: &BenchOptions) -> Result<(String, Option<KilledOnDrop>), Failed> {
    let port = free_port()?;
    let dir = options.dir.join("redis");
    std::fs::create_dir_all(&dir)?;
    let process = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "yes"])
        .args(["--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0", "--dir"])
        .arg(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            format!("cannot start redis-server ({error}); install it, or name one with --url")
        })?;
    Ok((format!("redis://127.0.0.1:{port}"), Some(KilledOnDrop(process))))
}
