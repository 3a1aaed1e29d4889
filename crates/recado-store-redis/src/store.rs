//! The store: its shared state, and the traits [`JobStore`] and [`Inspect`] by the functions of other modules. The other
//! traits are in modules of their own: [`crate::verbs::key_value`], [`crate::verbs::audit`], [`crate::verbs::transfer`].

use recado_store::prelude::*;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use recado_core::{AuditEvent, DeadLetter, JobId, Lease, LeaseToken, NewJob, Random, RouteName, Timestamp};
use recado_store::{
    Cancelled, Claim, Claimed, Counts, DeadLetterFilter, DeadLetterGroup, Discard, Discarded, Durability,
    Enqueued, Extended, Fence, GroupBy, JobFilter, JobView, LeftOut, Page, PageRequest, Pruned, Redrive,
    Redriven, Retention, Settled, Settlement, StoreError, StoreReport, TenantFilter, TenantView, Waker,
};
use tokio::task::JoinSet;

use crate::codec::answer::Answer;
use crate::codec::keys::Root;
use crate::codec::token::Token;
use crate::format::upgrade;
use crate::format::{self, Format};
use crate::link::{Arg, Link, OpenError, RedisOptions, Script};
use crate::orphan_grace::OrphanGrace;
use crate::scripts::Scripts;
use crate::verbs::batcher::{self, Batcher};
use crate::verbs::claim::Claims;
use crate::verbs::enqueue::Intake;
use crate::verbs::settle::HeadCache;
use crate::wakeups::Wakeups;

/// A handle. The tasks that run batches keep the store open.
#[derive(Debug, Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
    /// Of the writer whose handle this is.
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
    pub(crate) format: Format,
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
            kv_root: Root::of(&options.prefix, "notes"),
            format: Format::default(),
            enqueues: Batcher::default(),
            settles: Batcher::default(),
            roots,
            _tasks: tasks,
        });
        let store = RedisStore { shared, fence: None };
        for root in store.roots.iter().chain([&store.kv_root]) {
            upgrade::check_or_upgrade(&store, root).await?;
        }
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
    async fn unanswered(&self) -> Result<Option<String>, StoreError> {
        let mut asked = JoinSet::new();
        for (partition, root) in self.partitions().zip(&self.roots) {
            let (store, key) = (self.clone(), root.key("format"));
            asked.spawn(async move {
                let answer = store.link.command(redis::cmd("EXISTS").arg(&key), &key).await;
                answer.err().map(|error| (partition, error))
            });
        }
        let mut silent: Vec<_> = asked.join_all().await.into_iter().flatten().collect();
        silent.sort_unstable_by_key(|(partition, _)| *partition);
        let Some((_, error)) = silent.first().cloned() else { return Ok(None) };
        if silent.len() == self.roots.len() {
            return Err(error);
        }
        let names: Vec<_> = silent.iter().map(|(partition, _)| partition.to_string()).collect();
        let (names, all) = (names.join(", "), self.roots.len());
        Ok(Some(format!("of {all} partitions these do not answer: {names} ({error})")))
    }

    pub(crate) async fn run(
        &self,
        script: &Script,
        partition: u16,
        args: &[Arg<'_>],
    ) -> Result<Answer, StoreError> {
        self.format.still_fits()?;
        self.roots[usize::from(partition)].run(&self.link, script, args, self.fence).await
    }

    pub(crate) async fn run_on_kv(&self, script: &Script, args: &[Arg<'_>]) -> Result<Answer, StoreError> {
        self.kv_root.run(&self.link, script, args, self.fence).await
    }

    pub(crate) fn root(&self, partition: u16) -> Option<&Root> {
        self.roots.get(usize::from(partition))
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

    /// Tokens by partition, each with its place among all, in order.
    pub(crate) fn by_partition(
        &self,
        tokens: impl Iterator<Item = Option<Token>>,
    ) -> BTreeMap<u16, Vec<(usize, Token)>> {
        let mut sorted: BTreeMap<u16, Vec<(usize, Token)>> = BTreeMap::new();
        for (at, token) in tokens.enumerate() {
            if let Some(token) = token {
                sorted.entry(token.partition).or_default().push((at, token));
            }
        }
        sorted
    }
}

#[async_trait]
impl JobStore for RedisStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        let jobs = jobs.into_iter().enumerate().map(|(nth, new)| Intake { new, nth });
        batcher::submit(self, jobs.collect()).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.claim_jobs(&claim).await
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> Result<Vec<Extended>, StoreError> {
        self.extend_leases(&tokens, until).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        batcher::submit(self, settlements).await
    }

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> Result<Cancelled, StoreError> {
        self.cancel_job(id, &audit).await
    }

    async fn redrive(&self, redrive: Redrive) -> Result<Redriven, StoreError> {
        self.redrive_dead_letter(&redrive).await
    }

    async fn discard(&self, discard: Discard) -> Result<Discarded, StoreError> {
        self.discard_dead_letter(&discard).await
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned, StoreError> {
        self.prune_jobs(&retention, now).await
    }

    fn waker(&self, route: &RouteName) -> Waker {
        self.wakeups.waker(route)
    }

    async fn lease(&self, token: LeaseToken) -> Result<Option<Lease>, StoreError> {
        self.current_lease(token).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl Inspect for RedisStore {
    fn durability(&self) -> Durability {
        self.link.checkup().durability()
    }

    async fn job(&self, id: &JobId, now: Timestamp) -> Result<Option<JobView>, StoreError> {
        self.view(id, now).await
    }

    async fn jobs(
        &self,
        filter: JobFilter,
        page: PageRequest,
        now: Timestamp,
    ) -> Result<Page<JobView>, StoreError> {
        self.list_jobs(&filter, page, now).await
    }

    async fn audit(&self, id: &JobId) -> Result<Vec<AuditEvent>, StoreError> {
        self.trail_of(id).await
    }

    async fn dead_letter(&self, id: &JobId) -> Result<Option<DeadLetter>, StoreError> {
        self.find_dead_letter(id).await
    }

    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError> {
        self.list_dead_letters(&filter, page).await
    }

    async fn oldest_dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        self.list_oldest_dead_letters(limit).await
    }

    async fn dead_letter_groups(
        &self,
        by: GroupBy,
        filter: DeadLetterFilter,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        self.groups(by, &filter).await
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts, StoreError> {
        self.count_jobs(now).await
    }

    async fn oldest_due(
        &self,
        left_out: &LeftOut,
        now: Timestamp,
    ) -> Result<BTreeMap<RouteName, Timestamp>, StoreError> {
        self.due_since(left_out, now).await
    }

    async fn tenants(&self, filter: TenantFilter, now: Timestamp) -> Result<Vec<TenantView>, StoreError> {
        self.tenant_stats(&filter, now).await
    }

    async fn report(&self) -> Result<StoreReport, StoreError> {
        let unanswered = self.unanswered().await?;
        let memory = self.link.memory().latest();
        let free_bytes = memory.and_then(|read| Some(read.max_bytes?.saturating_sub(read.used_bytes)));
        Ok(StoreReport {
            kind: "redis",
            durability: self.durability(),
            size_bytes: memory.map_or(0, |read| read.used_bytes),
            used_bytes: memory.map_or(0, |read| read.used_bytes),
            free_bytes,
            max_bytes: memory.and_then(|read| read.max_bytes),
            refusing: memory.and_then(|read| read.refusal()),
            unanswered,
        })
    }
}
