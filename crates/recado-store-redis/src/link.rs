//! The connection to Redis: one server, a Sentinel set or a Cluster, behind the same few calls.
//!
//! ```text
//!   run / command ──▶ shards ──▶ server of the key's slot ──▶ one multiplexed connection
//!     within the timeout │            ▲
//!                        │            └ opened, dropped and opened again by its own task
//!                        └ MOVED and ASK are followed; the map of slots is read again
//! ```
//!
//! - A call ends within the timeout, whatever happens: waiting for a connection, a script that has to be
//!   loaded and a redirect all spend the same time.
//! - Nothing is repeated once it may have been carried out. The store's verbs are safe to repeat, and their
//!   caller decides.
//! - A connection that does not answer is given up, and its task opens a new one.
//!
//! `docs/redis-connections.md` explains it for readers; `docs/decisions/0028-redis-connections-are-ours.md` says why the
//! client library's Cluster and Sentinel clients are not used.
//!
//! Deliberately absent: reading from replicas (they may be behind), transactions (every verb is one script),
//! and what any key means.

mod answer;
mod clock;
mod cluster;
mod connection;
mod fault;
mod hints;
mod location;
mod memory;
mod shards;
mod slots;
mod url;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use recado_core::Random;
use recado_store::StoreResult;
use redis::{Cmd, FromRedisValue, ServerErrorKind, ToRedisArgs, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::check::{Checkup, Health};
use crate::orphan_grace::ORPHAN_GRACE;
pub(crate) use answer::{Data, read, unexpected};
pub use clock::ServerClock;
pub use fault::OpenError;
pub use hints::Hint;
pub use memory::{Memory, Reading};
pub use url::{Target, UrlError};

pub(crate) use connection::Connection;
use hints::Hints;
pub(crate) use shards::Shards;

/// The longest that an operation on Redis may take.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// Longest delay until work of another node is found when its hint was lost.
const WAKE_EVERY: Duration = Duration::from_secs(1);

/// Address and settings of the store.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisOptions {
    /// `redis://…`, `redis+sentinel://…` or `redis+cluster://…`, see [`Target`].
    pub url: String,
    /// Partitions that the jobs are divided into, each wholly on one shard. Chosen once: see the store.
    pub partitions: u16,
    /// Prefix of every key.
    pub prefix: Box<str>,
    /// Every call ends within this.
    pub timeout: Duration,
    /// Interval at which waiting callers look again for work or key-value entries, hints or not.
    pub wake_every: Duration,
    /// Time that living nodes have to extend their leases after Redis was away, before others take them over.
    pub orphan_grace: Duration,
    /// Authorities to trust instead of the system's, as PEM, for servers with a certificate of one's own.
    pub trusted_roots_pem: Option<String>,
}

impl RedisOptions {
    pub fn new(url: impl Into<String>) -> Self {
        RedisOptions {
            url: url.into(),
            partitions: 1,
            prefix: "recado".into(),
            timeout: TIMEOUT,
            wake_every: WAKE_EVERY,
            orphan_grace: ORPHAN_GRACE,
            trusted_roots_pem: None,
        }
    }

    /// Names the store in messages and commands: its URL without the password, and the options that tell it from other
    /// stores on the same server.
    pub fn name(&self) -> String {
        let usual = RedisOptions::new("");
        let mut name = Target::read(&self.url).map(|target| target.to_string()).unwrap_or_default();
        if self.prefix != usual.prefix {
            name.push_str(&format!(" --prefix {}", self.prefix));
        }
        if self.partitions != usual.partitions {
            name.push_str(&format!(" --partitions {}", self.partitions));
        }
        name
    }
}

/// Without the URL: it may hold a password.
impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("partitions", &self.partitions)
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// A script, known to the server by its hash once it has run.
///
/// A script that has to run on a full server begins with `#!lua flags=allow-oom`; any other is refused before
/// its first write. One that finds what it reads to be impossible answers
/// `redis.error_reply('BROKEN …')`, which becomes [`StoreError::Broken`](recado_store::StoreError::Broken).
#[derive(Debug)]
pub struct Script {
    pub name: &'static str,
    source: &'static str,
    sha: Box<str>,
}

impl Script {
    pub fn new(name: &'static str, source: &'static str) -> Self {
        Script { name, source, sha: redis::Script::new(source).get_hash().into() }
    }

    /// Begins a call on these keys, which are of one slot. Its arguments follow.
    pub fn on(&self, keys: &[&[u8]]) -> ScriptCall<'_> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&*self.sha).arg(keys.len()).arg(keys);
        ScriptCall { script: self, command }
    }
}

/// A call of a script by its hash.
#[derive(Debug)]
pub struct ScriptCall<'a> {
    script: &'a Script,
    command: Cmd,
}

impl ScriptCall<'_> {
    pub fn arg(&mut self, arg: impl ToRedisArgs) -> &mut Self {
        self.command.arg(arg);
        self
    }

    /// The same call with the whole script, for a server that does not know the hash.
    fn with_source(&self) -> Cmd {
        let mut whole = redis::cmd("EVAL");
        whole.arg(self.script.source);
        for arg in self.command.args_iter().skip(2) {
            if let redis::Arg::Simple(bytes) = arg {
                whole.arg(bytes);
            }
        }
        whole
    }
}

/// A connection to wherever the store is. Its tasks end with it.
#[derive(Debug)]
pub struct Link {
    shards: Arc<Shards>,
    timeout: Duration,
    clock: ServerClock,
    hints: Hints,
    memory: Arc<Memory>,
    health: Arc<Health>,
    _tasks: JoinSet<()>,
}

impl Link {
    /// Connects, checks that the server is fit to keep jobs, and reads its clock. Refuses a server that evicts.
    pub async fn open(options: &RedisOptions, random: Arc<Random>) -> Result<Link, OpenError> {
        let shards = Arc::new(Shards::open(options, random).await?);
        let health = Arc::new(Health::examine(&shards, options.timeout).await?);
        let clock = ServerClock::read(&shards, options).await?;
        let memory = Arc::new(Memory::default());
        memory.read(&shards, options.timeout).await;
        let mut tasks = JoinSet::new();
        tasks.spawn(clock.clone().keep(shards.clone()));
        tasks.spawn(memory.clone().keep(shards.clone(), options.timeout));
        tasks.spawn(health.clone().keep(shards.clone(), options.timeout));
        let hints = Hints::start(&mut tasks, &shards, options);
        Ok(Link { shards, timeout: options.timeout, clock, hints, memory, health, _tasks: tasks })
    }

    /// Runs a script where its first key is.
    pub async fn run<T: FromRedisValue>(&self, call: &ScriptCall<'_>) -> StoreResult<T> {
        let deadline = Instant::now() + self.timeout;
        let key = argument(&call.command, 3);
        let answer = match self.shards.send(key, &call.command, deadline).await {
            Err(fault) if fault.server_kind() == Some(ServerErrorKind::NoScript) => {
                self.shards.send(key, &call.with_source(), deadline).await
            }
            answer => answer,
        };
        read(answer.map_err(|fault| fault.into_store_error(call.script.name, self.timeout))?)
    }

    /// Runs a script, and then a command on the same keys, in one round trip. The command's answer is absent when it could
    /// not be sent right behind the script, or failed.
    pub async fn run_and_read<T: FromRedisValue>(
        &self,
        call: &ScriptCall<'_>,
        then: &Cmd,
    ) -> StoreResult<(T, Option<Value>)> {
        let deadline = Instant::now() + self.timeout;
        let key = argument(&call.command, 3);
        let answers = match self.shards.send_pair(key, [&call.command, then], deadline).await {
            Err(fault) if fault.server_kind() == Some(ServerErrorKind::NoScript) => {
                self.shards.send(key, &call.with_source(), deadline).await.map(|answer| (answer, None))
            }
            answers => answers,
        };
        let (answer, then) =
            answers.map_err(|fault| fault.into_store_error(call.script.name, self.timeout))?;
        Ok((read(answer)?, then))
    }

    /// Sends a command to where its first argument is, which is a key.
    pub async fn command<T: FromRedisValue>(&self, command: &Cmd) -> StoreResult<T> {
        read(self.send(argument(command, 1), command).await?)
    }

    async fn send(&self, key: &[u8], command: &Cmd) -> StoreResult<Value> {
        let answer = self.shards.send(key, command, Instant::now() + self.timeout).await;
        answer.map_err(|fault| fault.into_store_error("command", self.timeout))
    }

    /// Every call ends within this.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Measures the round trip to the first partition's server.
    pub async fn ping(&self) -> StoreResult<Duration> {
        let sent_at = Instant::now();
        self.send(self.clock.key(), &redis::cmd("PING")).await?;
        Ok(sent_at.elapsed())
    }

    pub fn clock(&self) -> ServerClock {
        self.clock.clone()
    }

    /// Publishes a hint to the other nodes about something that they would find out by themselves later. It is lost
    /// without a trace when it cannot be sent now. Scripts may `PUBLISH` to [`Link::channel`] themselves.
    pub fn publish(&self, text: &str) {
        let _ = self.hints.outgoing.try_send(text.into());
    }

    /// The channel that hints are on.
    pub fn channel(&self) -> &str {
        &self.hints.channel
    }

    /// Hints that this and other nodes publish, from now on. A receiver that lags has missed some; so have
    /// all after [`Hint::Missed`].
    pub fn subscribe(&self) -> tokio::sync::broadcast::Receiver<Hint> {
        self.hints.said.subscribe()
    }

    /// The servers' latest reports on themselves.
    pub fn checkup(&self) -> Arc<Checkup> {
        self.health.latest()
    }

    pub fn memory(&self) -> &Memory {
        &self.memory
    }
}

/// The argument of a command in this place.
fn argument(command: &Cmd, at: usize) -> &[u8] {
    match command.args_iter().nth(at) {
        Some(redis::Arg::Simple(bytes)) => bytes,
        _ => b"",
    }
}
