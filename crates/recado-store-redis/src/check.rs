//! Checks whether a server is fit to keep jobs: before the store opens, while it is open, and for `recado doctor`.
//!
//! Only two things keep a store from being opened: a server that throws keys away when it is full, and one that
//! lacks what the scripts need. Everything else is told, with what to do about it. Where a managed server hides
//! its settings, `INFO` is read as far as it goes and the rest is said to be unknown.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use recado_core::Random;
use recado_store::Durability;
use redis::{Cmd, InfoDict};
use serde::Serialize;
use tokio::time::Instant;

use crate::link::{Connection, OpenError, Reading, RedisOptions, Shards};

const MAJOR_VERSION_MIN: u64 = 7;

/// Interval of checks while the store is open: settings can be changed while it runs, and after a failover
/// another server answers.
const EXAMINE_EVERY: Duration = Duration::from_secs(30);

/// Memory share that triggers a warning.
const MEMORY_HIGH: f64 = 0.8;

const MEMORY: &str = "store memory";

/// Durabilities by how much a crash can take, the least first.
const BY_LOSS: [Durability; 5] = [
    Durability::Fsync,
    Durability::EverySecond,
    Durability::Eventually,
    Durability::Unknown,
    Durability::Memory,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingState {
    Good,
    /// It works; the operator should know.
    Note,
    /// The store does not open.
    Bad,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub what: &'static str,
    pub state: FindingState,
    pub found: String,
    /// The action that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// The reports of all masters.
#[derive(Debug, Clone)]
pub struct Checkup {
    servers: Vec<ServerReport>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ServerReport {
    at: Arc<str>,
    product: &'static str,
    version: String,
    role: Option<String>,
    /// True if the server belongs to a Cluster and the URL does not say so.
    unexpected_cluster: bool,
    append_only: Option<bool>,
    append_fsync: Option<String>,
    eviction: Option<String>,
    memory: Option<Reading>,
}

impl Checkup {
    /// Checks without opening the store, however unfit the server may be.
    pub async fn of(options: &RedisOptions, random: Arc<Random>) -> Result<Checkup, OpenError> {
        let shards = Shards::open(options, random).await?;
        examine(&shards, options.timeout).await
    }

    /// The durability of the weakest master: what a crash of its machine can take.
    pub fn durability(&self) -> Durability {
        let loss = |durability: &Durability| BY_LOSS.iter().position(|other| other == durability);
        self.servers.iter().map(ServerReport::durability).max_by_key(loss).unwrap_or_default()
    }

    /// The results of all checks, one server after the other.
    pub fn findings(&self) -> Vec<Finding> {
        self.servers.iter().flat_map(ServerReport::findings).collect()
    }

    /// Logs findings that are not good and were not known before. Memory has alerts of its own.
    fn log_news(&self, before: &[Finding]) {
        let known = |finding: &Finding| before.iter().any(|told| told.found == finding.found);
        for finding in self.findings() {
            match finding.state {
                _ if finding.what == MEMORY || known(&finding) => {}
                FindingState::Good => {}
                FindingState::Note => tracing::warn!(fix = finding.fix, "{}", finding.found),
                FindingState::Bad => tracing::error!(fix = finding.fix, "{}", finding.found),
            }
        }
    }

    /// Refuses what would lose jobs or cannot run the scripts.
    pub(crate) fn permit(&self) -> Result<(), OpenError> {
        let reason = |Finding { state, found, fix, .. }: Finding| {
            (state == FindingState::Bad).then(|| format!("{found}; {}", fix.unwrap_or_default()))
        };
        let reasons: Vec<_> = self.findings().into_iter().filter_map(reason).collect();
        if reasons.is_empty() { Ok(()) } else { Err(OpenError::Unfit(reasons.join("\n"))) }
    }
}

/// The latest reports of an open store's servers.
#[derive(Debug)]
pub(crate) struct Health(RwLock<Arc<Checkup>>);

impl Health {
    /// Refuses an unfit server, and logs what else is worth knowing.
    pub async fn examine(shards: &Shards, timeout: Duration) -> Result<Self, OpenError> {
        let checkup = examine(shards, timeout).await?;
        checkup.permit()?;
        checkup.log_news(&[]);
        Ok(Health(RwLock::new(Arc::new(checkup))))
    }

    pub fn latest(&self) -> Arc<Checkup> {
        self.0.read().clone()
    }

    pub async fn keep(self: Arc<Self>, shards: Arc<Shards>, timeout: Duration) {
        loop {
            tokio::time::sleep(EXAMINE_EVERY).await;
            if let Ok(checkup) = examine(&shards, timeout).await {
                checkup.log_news(&self.latest().findings());
                *self.0.write() = Arc::new(checkup);
            }
        }
    }
}

/// Asks every master.
pub(crate) async fn examine(shards: &Shards, timeout: Duration) -> Result<Checkup, OpenError> {
    let mut servers = Vec::new();
    for master in shards.masters() {
        let mut server = read_report(&master, timeout).await?;
        server.unexpected_cluster &= matches!(shards, Shards::One { .. });
        servers.push(server);
    }
    Ok(Checkup { servers })
}

async fn read_report(master: &Connection, timeout: Duration) -> Result<ServerReport, OpenError> {
    let (deadline, at) = (Instant::now() + timeout, master.name());
    let ask = async |command: &Cmd| master.send(command, deadline).await;
    let answer = ask(&redis::cmd("INFO")).await.map_err(|fault| OpenError::of(fault, timeout))?;
    let info = redis::from_redis_value(answer).map_err(|_| {
        OpenError::Unavailable(format!("the server at {at} does not answer INFO; is it Redis or Valkey?"))
    })?;
    let mut settings = redis::cmd("CONFIG");
    settings.arg("GET").arg("append*").arg("maxmemory-policy");
    // Managed servers forbid it.
    let settings = ask(&settings).await.ok().and_then(|value| redis::from_redis_value(value).ok());
    Ok(ServerReport::read(at, &info, settings.unwrap_or_default()))
}

impl ServerReport {
    fn read(at: Arc<str>, info: &InfoDict, mut settings: HashMap<String, String>) -> Self {
        let (product, version) = match info.get("valkey_version") {
            Some(version) => ("Valkey", version),
            None => ("Redis", info.get("redis_version").unwrap_or_else(|| "of unknown version".to_owned())),
        };
        let append_only = settings.get("appendonly").map(|setting| setting == "yes");
        ServerReport {
            at,
            product,
            version,
            role: info.get("role"),
            unexpected_cluster: info.get("cluster_enabled") == Some(true),
            append_only: append_only.or_else(|| info.get("aof_enabled")),
            append_fsync: settings.remove("appendfsync"),
            eviction: settings.remove("maxmemory-policy").or_else(|| info.get("maxmemory_policy")),
            memory: Reading::of(info),
        }
    }

    fn durability(&self) -> Durability {
        match (self.append_only, self.append_fsync.as_deref()) {
            (Some(false), _) => Durability::Memory,
            (Some(true), Some("always")) => Durability::Fsync,
            (Some(true), Some("everysec")) => Durability::EverySecond,
            (Some(true), Some("no")) => Durability::Eventually,
            _ => Durability::Unknown,
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![self.version_finding()];
        findings.extend(self.role_finding());
        findings.extend([self.eviction_finding(), self.durability_finding(), self.memory_finding()]);
        findings
    }

    fn version_finding(&self) -> Finding {
        let what = "store version";
        let found = format!("{} {} at {}", self.product, self.version, self.at);
        match self.version.split('.').next().and_then(|major| major.parse::<u64>().ok()) {
            Some(major) if major >= MAJOR_VERSION_MIN => good(what, found),
            Some(_) => bad(what, format!("{found} is too old"), "use Redis 7 or Valkey 7.2, or a later one"),
            None => note(what, found, "see that it is Redis 7, Valkey 7.2 or later"),
        }
    }

    fn role_finding(&self) -> Option<Finding> {
        let (found, fix) = match self.role.as_deref() {
            _ if self.unexpected_cluster => (
                "is part of a Cluster",
                "write redis+cluster://… in the store's URL: a single member has only some of the keys",
            ),
            Some("slave") => (
                "is a replica and takes no writes",
                "name the master in the store's URL, or use redis+sentinel://… so that it is found",
            ),
            _ => return None,
        };
        Some(bad("store role", format!("{} at {} {found}", self.product, self.at), fix))
    }

    fn eviction_finding(&self) -> Finding {
        let (what, at) = ("store eviction", &self.at);
        match self.eviction.as_deref() {
            Some("noeviction") => good(what, format!("maxmemory-policy at {at} is noeviction")),
            Some(policy) => bad(
                what,
                format!(
                    "{} at {at} throws keys away when it is full (maxmemory-policy {policy}), and with them jobs",
                    self.product
                ),
                "run `redis-cli CONFIG SET maxmemory-policy noeviction`, and write `maxmemory-policy noeviction` into redis.conf",
            ),
            None => note(
                what,
                format!("the server at {at} hides its maxmemory-policy"),
                "see that it is noeviction: with any other, jobs vanish when the memory is full",
            ),
        }
    }

    fn durability_finding(&self) -> Finding {
        let (what, at) = ("store durability", &self.at);
        let always = "for none at all: `redis-cli CONFIG SET appendfsync always`, and `appendfsync always` in redis.conf";
        let (found, fix) = match self.durability() {
            Durability::Fsync => {
                return good(what, format!("{at} forces every write to disk before it answers"));
            }
            Durability::EverySecond => (
                format!(
                    "{at} writes to disk every second: a crash of its machine loses up to two seconds of jobs that were accepted"
                ),
                always,
            ),
            Durability::Eventually => (
                format!(
                    "{at} leaves writing to disk to its kernel: a crash of its machine loses up to half a minute of jobs that were accepted"
                ),
                always,
            ),
            Durability::Memory => (
                format!(
                    "{at} has no append-only file: a crash or a restart loses every job since its last snapshot"
                ),
                "run `redis-cli CONFIG SET appendonly yes`, and write `appendonly yes` and `appendfsync everysec` (or `always`) into redis.conf",
            ),
            Durability::Unknown => (
                format!("the server at {at} hides whether and when it writes to disk"),
                "see in its provider's console that appendonly is yes, and what appendfsync is",
            ),
        };
        note(what, found, fix)
    }

    fn memory_finding(&self) -> Finding {
        let at = &self.at;
        let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let (found, fix) = match self.memory {
            None => (format!("the server at {at} hides its memory"), "watch it in its provider's console"),
            Some(Reading { used_bytes, max_bytes: None }) => (
                format!(
                    "{} MB used at {at}, without a limit: it grows until its machine has no more",
                    megabytes(used_bytes)
                ),
                "set maxmemory to what the machine can spare, such as `maxmemory 512mb`: then a full store refuses jobs instead of dying",
            ),
            Some(memory @ Reading { used_bytes, max_bytes: Some(max) }) => {
                let found = format!("{} of {} MB used at {at}", megabytes(used_bytes), megabytes(max));
                if memory.fraction().is_none_or(|fraction| fraction < MEMORY_HIGH) {
                    return good(MEMORY, found);
                }
                (
                    found,
                    "raise maxmemory, or let the queues and the dead letters drain: a full store refuses jobs",
                )
            }
        };
        note(MEMORY, found, fix)
    }
}

pub fn good(what: &'static str, found: impl ToString) -> Finding {
    Finding { what, state: FindingState::Good, found: found.to_string(), fix: None }
}

pub fn note(what: &'static str, found: impl ToString, fix: impl ToString) -> Finding {
    Finding { state: FindingState::Note, ..bad(what, found, fix) }
}

pub fn bad(what: &'static str, found: impl ToString, fix: impl ToString) -> Finding {
    Finding { what, state: FindingState::Bad, found: found.to_string(), fix: Some(fix.to_string()) }
}
