//! Nodes as processes: this program again, with an engine and connections of its own.
//!
//! The two talk over the node's standard input and output: the node's manifest in a line of JSON, `ready`
//! from it, `go` to it. It works until its input ends, so it never outlives its parent. Nothing is on the
//! command line: a URL may hold a password.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use recado_core::Random;
use recado_engine::Carrier;
use recado_store_redis::{RedisOptions, RedisStore};
use recado_transport::Sandbox;
use serde::{Deserialize, Serialize};

use super::ROUTE;
use crate::Failed;
use crate::process::KilledOnDrop;
use crate::scene::{engine_on, route};

/// The hidden command that a node runs.
pub const COMMAND: &str = "bench-node";

const READY: &str = "ready\n";
const GO: &str = "go\n";

/// Description of a node.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub name: String,
    pub url: String,
    pub prefix: Box<str>,
    pub partitions: u16,
    pub lease_ms: u64,
}

/// A node that was started. It is killed when it is dropped.
pub struct NodeProcess {
    process: KilledOnDrop,
    input: Option<ChildStdin>,
}

impl NodeProcess {
    /// Returns when it has opened the store and waits to be let go.
    pub async fn start(manifest: Manifest) -> Result<Self, Failed> {
        tokio::task::spawn_blocking(move || {
            let mut process = Command::new(std::env::current_exe()?)
                .arg(COMMAND)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let mut node = NodeProcess { input: process.stdin.take(), process: KilledOnDrop(process) };
            node.say(&format!("{}\n", serde_json::to_string(&manifest)?))?;
            let output = node.process.0.stdout.take().ok_or("a node has no output")?;
            let mut said = String::new();
            BufReader::new(output).read_line(&mut said)?;
            match said.as_str() {
                READY => Ok(node),
                _ => Err(format!("{} did not start", manifest.name).into()),
            }
        })
        .await?
    }

    /// From now on it works.
    pub fn go(&mut self) -> Result<(), Failed> {
        self.say(GO)
    }

    /// Lets it end what it has begun.
    pub async fn stop(mut self) -> Result<(), Failed> {
        self.input = None;
        let ended = tokio::task::spawn_blocking(move || self.process.0.wait()).await??;
        if ended.success() { Ok(()) } else { Err(format!("a node ended with {ended}").into()) }
    }

    fn say(&mut self, text: &str) -> Result<(), Failed> {
        let input = self.input.as_mut().ok_or("a node has no input")?;
        Ok(input.write_all(text.as_bytes()).and_then(|()| input.flush())?)
    }
}

/// Runs the process of a node.
pub async fn run() -> Result<(), Failed> {
    let manifest: Manifest = serde_json::from_str(&heard().await?)
        .map_err(|_| "a node is started by `recado bench redis`, which tells it what it is")?;
    let Manifest { name, url, prefix, partitions, lease_ms } = manifest;
    let options = RedisOptions { partitions, prefix, ..RedisOptions::new(url) };
    let store = Arc::new(RedisStore::open(&options, Arc::new(Random::from_entropy())).await?);
    let route = route(ROUTE, Carrier::Transport(Arc::new(Sandbox)))?;
    io::stdout().write_all(READY.as_bytes()).and_then(|()| io::stdout().flush())?;
    if heard().await? != GO {
        return Ok(());
    }
    let engine = engine_on(store, &name, Duration::from_millis(lease_ms), [route], BTreeMap::new(), None);
    heard().await?;
    Ok(engine.stop().await?)
}

/// The next line of the input, empty at its end.
async fn heard() -> Result<String, Failed> {
    let read = || {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|_| line)
    };
    Ok(tokio::task::spawn_blocking(read).await??)
}
