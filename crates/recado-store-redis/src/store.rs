//! The store: its shared state, and calls of scripts on a partition. The five traits are in [`crate::verbs`].

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use futures_util::future::join_all;
use recado_core::{LeaseToken, Random};
use recado_store::{Fence, Settlement, StoreError, StoreResult};
use redis::{Cmd, FromRedisValue, Value};
use tokio::task::JoinSet;

use crate::codec::keys::Root;
use crate::codec::token::Token;
use crate::format::{self, upgrade};
use crate::link::{Link, OpenError, RedisOptions, Script, ScriptCall};
use crate::orphan_grace::OrphanGrace;
use crate::scripts::Scripts;
use crate::verbs::batcher::Batcher;
use crate::verbs::claim::Claims;
use crate::verbs::enqueue::Intake;
use crate::verbs::key_value::KV_PART;
use crate::verbs::settle::HeadCache;
use crate::wakeups::Wakeups;

/// A handle. The tasks that run batches keep the store open.
#[derive(Debug, Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
    /// Fence of the writer whose handle this is.
    fence: Option<Fence>,
}

#[derive(Debug)]
pub struct Shared {
    pub(crate) link: Link,
    pub(crate) scripts: Scripts,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) heads: HeadCache,
    pub(crate) claims: Claims,
    pub(crate) random: Arc<Random>,
    pub(crate) orphan_grace: OrphanGrace,
    pub(crate) kv_root: Root,
    /// The reason, once the store has another format than the one that was opened: nothing may be read from it or
    /// written to it.
    pub(crate) format_changed: OnceLock<String>,
    pub(crate) enqueues: Batcher<Intake>,
    pub(crate) settles: Batcher<Settlement>,
    /// The common prefix of the keys of each partition.
    pub(crate) roots: Vec<Root>,
    _tasks: JoinSet<()>,
}

impl Deref for RedisStore {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl RedisStore {
    /// Opens the store, or makes it. Fences and waits between attempts to connect are drawn from `random`: two nodes
    /// need different seeds.
    pub async fn open(options: &RedisOptions, random: Arc<Random>) -> Result<RedisStore, OpenError> {
        let link = Link::open(options, random.clone()).await?;
        let wakeups = Arc::new(Wakeups::new(&random));
        let mut tasks = JoinSet::new();
        tasks.spawn(wakeups.clone().listen(link.subscribe(), options.wake_every));
        let partitions = options.partitions.max(1);
        let roots = (0..partitions).map(|partition| Root::of(&options.prefix, partition)).collect();
        let shared = Arc::new(Shared {
            link,
            scripts: Scripts::new(),
            wakeups,
            heads: HeadCache::default(),
            claims: Claims::default(),
            random,
            orphan_grace: OrphanGrace::new(partitions, options.orphan_grace, options.timeout),
            kv_root: Root::of(&options.prefix, KV_PART),
            format_changed: OnceLock::new(),
            enqueues: Batcher::default(),
            settles: Batcher::default(),
            roots,
            _tasks: tasks,
        });
        let store = RedisStore { shared, fence: None };
        upgrade::check_or_upgrade(&store).await?;
        tokio::spawn(format::keep(Arc::downgrade(&store.shared)));
        Ok(store)
    }

    /// Reads the number of partitions of an existing store; none where there is no store.
    pub async fn found_partitions(
        options: &RedisOptions,
        random: Arc<Random>,
    ) -> Result<Option<u16>, OpenError> {
        let link = Link::open(options, random).await?;
        format::found_partitions(&link, &Root::of(&options.prefix, 0)).await
    }

    /// A handle whose writes are refused once another writer has raised the fence.
    pub(crate) fn with_fence(&self, fence: Fence) -> RedisStore {
        RedisStore { fence: Some(fence), ..self.clone() }
    }

    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Names the partitions that do not answer. An error if none does.
    pub(crate) async fn unanswered(&self) -> StoreResult<Option<String>> {
        let asked = self.partitions().zip(&self.roots).map(async |(partition, root)| {
            let answer = self.link.command::<bool>(redis::cmd("EXISTS").arg(root.key("format"))).await;
            answer.err().map(|error| (partition.to_string(), error))
        });
        let (names, errors): (Vec<_>, Vec<_>) = join_all(asked).await.into_iter().flatten().unzip();
        let Some(error) = errors.into_iter().next() else { return Ok(None) };
        if names.len() == self.roots.len() {
            return Err(error);
        }
        let (names, all) = (names.join(", "), self.roots.len());
        Ok(Some(format!("of {all} partitions these do not answer: {names} ({error})")))
    }

    /// Begins a call of a script on a partition.
    pub(crate) fn call<'a>(&self, script: &'a Script, partition: u16) -> ScriptCall<'a> {
        self.roots[usize::from(partition)].call(script, self.fence)
    }

    /// Begins a call of a script on the key-value entries.
    pub(crate) fn call_on_kv<'a>(&self, script: &'a Script) -> ScriptCall<'a> {
        self.kv_root.call(script, self.fence)
    }

    /// Runs a script on a partition.
    pub(crate) async fn run<T: FromRedisValue>(&self, call: &ScriptCall<'_>) -> StoreResult<T> {
        match self.format_changed.get() {
            Some(why) => Err(StoreError::Broken(why.clone())),
            None => self.link.run(call).await,
        }
    }

    /// Runs a script on a partition, and then a command there in the same round trip.
    pub(crate) async fn run_and_read<T: FromRedisValue>(
        &self,
        call: &ScriptCall<'_>,
        then: &Cmd,
    ) -> StoreResult<(T, Option<Value>)> {
        match self.format_changed.get() {
            Some(why) => Err(StoreError::Broken(why.clone())),
            None => self.link.run_and_read(call, then).await,
        }
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = u16> + use<> {
        0..self.roots.len() as u16
    }

    pub(crate) fn partition_count(&self) -> u64 {
        self.roots.len() as u64
    }

    /// Absent when no lease of this store can have this token.
    pub(crate) fn read_token(&self, token: LeaseToken) -> Option<Token> {
        Some(Token::from(token)).filter(|token| usize::from(token.partition) < self.roots.len())
    }
}
