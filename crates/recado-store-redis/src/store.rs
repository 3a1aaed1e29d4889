//! The store: the contract's verbs, each handed to whoever carries it out.

use recado_store::prelude::*;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use recado_core::{AuditEvent, DeadLetter, JobId, Lease, LeaseToken, NewJob, RouteName, Timestamp};
use recado_store::{
    Adopted, AuditRecord, AuditSpan, AuditTrim, Cancelled, Claim, Claimed, Counts, DeadLetterFilter,
    DeadLetterGroup, Discard, Discarded, Durability, Enqueued, Extended, Fence, FencedWrite, GroupBy,
    JobFilter, JobSnapshot, JobView, KvEntry, KvWrite, KvWritten, LeftOut, Namespace, Page, PageRequest,
    Pruned, Redrive, Redriven, Retention, Settled, Settlement, StoreError, StoreReport, TenantFilter,
    TenantView, Waker,
};
use tokio::task::JoinSet;

use crate::answer::Answer;
use crate::bells::Bells;
use crate::claim::Claims;
use crate::enqueue::Intake;
use crate::format::{self, Format};
use crate::keys::Root;
use crate::link::{Arg, Link, OpenError, RedisOptions, Script};
use crate::looks::Looks;
use crate::scripts::Scripts;
use crate::settle::Heads;
use crate::together::{self, Line};
use crate::token::Token;

/// A handle: what goes together in one script is carried out by a task that keeps the store open.
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
    pub(crate) bells: Arc<Bells>,
    pub(crate) heads: Heads,
    pub(crate) claims: Claims,
    pub(crate) looks: Looks,
    pub(crate) notes_root: Root,
    pub(crate) format: Format,
    pub(crate) enqueues: Line<Intake>,
    pub(crate) settles: Line<Settlement>,
    /// What the keys of each partition begin with.
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
    pub async fn open(options: &RedisOptions) -> Result<RedisStore, OpenError> {
        let link = Link::open(options).await?;
        let bells = Arc::new(Bells::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(bells.clone().listen(link.subscribe(), options.ring_every));
        let partitions = options.partitions.max(1);
        let roots = (0..partitions).map(|partition| Root::of(&options.prefix, partition)).collect();
        let shared = Arc::new(Shared {
            link,
            scripts: Scripts::new(),
            bells,
            heads: Heads::default(),
            claims: Claims::default(),
            looks: Looks::new(partitions, options.respite, options.timeout),
            notes_root: Root::of(&options.prefix, "notes"),
            format: Format::default(),
            enqueues: Line::default(),
            settles: Line::default(),
            roots,
            _tasks: tasks,
        });
        let store = RedisStore { shared, fence: None };
        for root in store.roots.iter().chain([&store.notes_root]) {
            format::check(&store.link, root, partitions).await?;
        }
        tokio::spawn(format::keep(Arc::downgrade(&store.shared)));
        Ok(store)
    }

    /// The number of partitions of the store that is there; none where there is no store.
    pub async fn found_partitions(options: &RedisOptions) -> Result<Option<u16>, OpenError> {
        let link = Link::open(options).await?;
        format::found_partitions(&link, &Root::of(&options.prefix, 0)).await
    }

    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Which partitions do not answer. An error if none does.
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

    pub(crate) async fn run_on_notes(&self, script: &Script, args: &[Arg<'_>]) -> Result<Answer, StoreError> {
        self.notes_root.run(&self.link, script, args, self.fence).await
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
        together::ask(self, jobs.collect()).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.lease_jobs(&claim).await
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> Result<Vec<Extended>, StoreError> {
        self.extend_leases(&tokens, until).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        together::ask(self, settlements).await
    }

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> Result<Cancelled, StoreError> {
        self.cancel_job(id, &audit).await
    }

    async fn redrive(&self, redrive: Redrive) -> Result<Redriven, StoreError> {
        self.redrive_letter(&redrive).await
    }

    async fn discard(&self, discard: Discard) -> Result<Discarded, StoreError> {
        self.discard_letter(&discard).await
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned, StoreError> {
        self.prune_some(&retention, now).await
    }

    fn waker(&self, route: &RouteName) -> Waker {
        self.bells.waker(route)
    }

    fn durability(&self) -> Durability {
        self.link.checkup().durability()
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
        self.letter_of(id).await
    }

    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError> {
        self.list_letters(&filter, page).await
    }

    async fn oldest_dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        self.letters_dead_longest(limit).await
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
        self.fares(&filter, now).await
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

#[async_trait]
impl KeyValue for RedisStore {
    async fn kv_write(&self, writes: Vec<KvWrite>, now: Timestamp) -> Result<Vec<KvWritten>, StoreError> {
        let noted = self.note_down(&writes, now).await?;
        if noted.iter().any(|noted| matches!(noted, KvWritten::Done { .. })) {
            self.bells.announce_notes(&self.link);
        }
        self.copy_circuits(&writes, &noted, now).await;
        Ok(noted)
    }

    fn kv_changes(&self) -> Option<Waker> {
        Some(self.bells.notes_waker())
    }

    async fn kv_get(
        &self,
        namespace: Namespace,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KvEntry>, StoreError> {
        self.read_note(namespace, key, now).await
    }

    async fn kv_list(&self, namespace: Namespace, now: Timestamp) -> Result<Vec<KvEntry>, StoreError> {
        self.read_shelf(namespace, now).await
    }

    async fn kv_versions(&self, namespaces: &[Namespace]) -> Result<Vec<Option<u64>>, StoreError> {
        self.versions_of(namespaces).await
    }
}

#[async_trait]
impl AuditLog for RedisStore {
    async fn record(&self, events: Vec<AuditEvent>) -> Result<(), StoreError> {
        self.put_on_record(&events).await
    }

    async fn trim_audit(&self, trim: AuditTrim) -> Result<u64, StoreError> {
        self.trim_records(trim).await
    }

    fn audit_parts(&self) -> u16 {
        self.partition_count() as u16 + 1
    }

    async fn audit_in(&self, span: AuditSpan, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.records_in(span, limit).await
    }
}

#[async_trait]
impl Transfer for RedisStore {
    async fn forget(&self, ids: Vec<JobId>) -> Result<u64, StoreError> {
        self.forget_jobs(&ids).await
    }

    async fn adopt(&self, transfers: Vec<JobSnapshot>) -> Result<Vec<Adopted>, StoreError> {
        self.adopt_jobs(&transfers).await
    }

    /// Each partition knows the fence, and so do the notes: a script sees no other slot's keys.
    async fn raise_fence(&self, fence: Fence) -> Result<(), StoreError> {
        let number = i64::try_from(fence.number).unwrap_or(i64::MAX);
        for root in self.roots.iter().chain([&self.notes_root]) {
            let args = [Arg::from(fence.name), Arg::Int(number)];
            if !root.run(&self.link, &self.scripts.fence, &args, None).await?.yes()? {
                return Err(StoreError::Fenced);
            }
        }
        Ok(())
    }

    async fn write_fenced(&self, fence: Fence, write: FencedWrite) -> Result<Vec<Lease>, StoreError> {
        write.carry_out(&RedisStore { fence: Some(fence), ..self.clone() }).await
    }

    async fn transfers(&self, after: Option<u64>, limit: usize) -> Result<Page<JobSnapshot>, StoreError> {
        self.give_jobs(after, limit).await
    }

    async fn transfer(&self, id: &JobId) -> Result<Option<JobSnapshot>, StoreError> {
        self.give_job(id).await
    }
}
