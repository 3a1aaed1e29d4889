//! A store whose calls can be delayed, lost, repeated, refused and observed, around one that works.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use recado_core::{AuditEvent, DeadLetter, JobId, Lease, LeaseToken, NewJob, RouteName, Timestamp};
use recado_store::prelude::*;
use recado_store::{
    Adopted, AuditRecord, AuditSpan, AuditTrim, Cancelled, Claim, Claimed, Counts, DeadLetterFilter,
    DeadLetterGroup, Discard, Discarded, Durability, Enqueued, Extended, Fence, FencedWrite, GroupBy,
    JobFilter, JobSnapshot, JobView, KvEntry, KvWrite, KvWritten, LeftOut, Namespace, Page, PageRequest,
    Pick, Pruned, Redrive, Redriven, Retention, Settled, Settlement, Store, StoreReport, StoreResult,
    TenantFilter, TenantView, Waker, Wakes, Watcher, delegate,
};

/// A call of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Enqueue,
    Claim,
    Extend,
    Settle,
    Cancel,
    Redrive,
    Discard,
    Prune,
    KvWrite,
    KvGet(Namespace),
    KvList(Namespace),
    /// A write of the audit log, or of whole jobs on their way between stores.
    OtherWrite,
    OtherRead,
    Close,
}

impl Call {
    pub fn is_write(self) -> bool {
        !matches!(self, Call::KvGet(_) | Call::KvList(_) | Call::OtherRead | Call::Close)
    }
}

/// A write that the store has made, with its answer, which may still be lost.
#[derive(Debug, Clone, Copy)]
pub enum Done<'a> {
    Enqueued(&'a [NewJob], &'a [Enqueued]),
    Claimed(&'a Claim, &'a Claimed),
    Extended(&'a [LeaseToken], Timestamp, &'a [Extended]),
    Settled(&'a [Settlement], &'a [Settled]),
    Cancelled(&'a JobId, &'a AuditEvent, &'a Cancelled),
    Redriven(&'a Redrive, &'a Redriven),
    Discarded(&'a Discard, &'a Discarded),
    KvWritten(&'a [KvWrite], &'a [KvWritten]),
    Recorded(&'a [AuditEvent]),
}

/// Decides the fate of each call on its way to the store and back.
#[async_trait]
pub trait Interceptor: Send + Sync + std::fmt::Debug + 'static {
    /// Waits, or fails, before a call reaches the store.
    async fn before(&self, call: Call) -> StoreResult<()>;

    /// Waits, or fails, before the answer of a call that was made leaves.
    async fn after(&self, call: Call) -> StoreResult<()>;

    /// Returns true for a request that reaches the store twice; the second answer is the caller's.
    fn repeats(&self, _call: Call) -> bool {
        false
    }

    /// Returns true while leases that ran out are not given to this node, as in the grace period of a shared server.
    fn keeps_orphans(&self) -> bool {
        false
    }

    fn observe(&self, _done: Done<'_>) {}
}

/// A store behind an [`Interceptor`].
#[derive(Debug)]
pub struct InterceptedStore<I> {
    inner: Arc<dyn Store>,
    interceptor: I,
    /// Wakes the other nodes when entries are written, where several share the store.
    kv_wakes: Option<Arc<Wakes>>,
}

impl<I> Deref for InterceptedStore<I> {
    type Target = I;

    fn deref(&self) -> &I {
        &self.interceptor
    }
}

impl<I: Interceptor> InterceptedStore<I> {
    /// With `kv_wakes` it is one node's view of a store that several share: a write of entries wakes the others, too.
    pub fn new(inner: Arc<dyn Store>, interceptor: I, kv_wakes: Option<Arc<Wakes>>) -> Self {
        InterceptedStore { inner, interceptor, kv_wakes }
    }

    async fn pass<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        self.pass_observed(call, answer, |_, _| {}).await
    }

    async fn pass_observed<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = StoreResult<T>> + Send,
        observe: impl FnOnce(&I, &T) + Send,
    ) -> StoreResult<T> {
        self.interceptor.before(call).await?;
        let answer = answer.await?;
        observe(&self.interceptor, &answer);
        self.interceptor.after(call).await?;
        Ok(answer)
    }
}

/// The route that stands for entries: a name that no test gives a route.
fn kv_route() -> RouteName {
    RouteName::trusted("the-entries-of-all-nodes")
}

delegate! {
    impl<I: Interceptor> JobStore for InterceptedStore<I>, to inner {
        fn waker(route: &RouteName) -> Waker;
        fn watch(watcher: Arc<dyn Watcher>) -> ();
        async fn prune(retention: Retention, now: Timestamp) -> Pruned, as Call::Prune;
        async fn leases(tokens: &[LeaseToken]) -> Vec<Option<Lease>>, as Call::OtherRead;
        async fn close() -> (), as Call::Close;
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        let sent = jobs.clone();
        let answer = async {
            if self.interceptor.repeats(Call::Enqueue) {
                let first = self.inner.enqueue(jobs.clone()).await?;
                self.interceptor.observe(Done::Enqueued(&jobs, &first));
            }
            self.inner.enqueue(jobs).await
        };
        self.pass_observed(Call::Enqueue, answer, |on, done| on.observe(Done::Enqueued(&sent, done))).await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<Claimed> {
        let answer = async {
            match claim.pick == Pick::Orphaned && self.interceptor.keeps_orphans() {
                true => Ok(Claimed::default()),
                false => self.inner.claim(claim.clone()).await,
            }
        };
        self.pass_observed(Call::Claim, answer, |on, done| on.observe(Done::Claimed(&claim, done))).await
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> StoreResult<Vec<Extended>> {
        let answer = async {
            if self.interceptor.repeats(Call::Extend) {
                self.inner.extend(tokens.clone(), until).await?;
            }
            self.inner.extend(tokens.clone(), until).await
        };
        let observe = |on: &I, done: &Vec<Extended>| on.observe(Done::Extended(&tokens, until, done));
        self.pass_observed(Call::Extend, answer, observe).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        let answer = async {
            if self.interceptor.repeats(Call::Settle) {
                let first = self.inner.settle(settlements.clone()).await?;
                self.interceptor.observe(Done::Settled(&settlements, &first));
            }
            self.inner.settle(settlements.clone()).await
        };
        let observe = |on: &I, done: &Vec<Settled>| on.observe(Done::Settled(&settlements, done));
        self.pass_observed(Call::Settle, answer, observe).await
    }

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> StoreResult<Cancelled> {
        let answer = self.inner.cancel(id, audit.clone());
        let observe = |on: &I, done: &Cancelled| on.observe(Done::Cancelled(id, &audit, done));
        self.pass_observed(Call::Cancel, answer, observe).await
    }

    async fn redrive(&self, redrive: Redrive) -> StoreResult<Redriven> {
        let answer = self.inner.redrive(redrive.clone());
        self.pass_observed(Call::Redrive, answer, |on, done| on.observe(Done::Redriven(&redrive, done))).await
    }

    async fn discard(&self, discard: Discard) -> StoreResult<Discarded> {
        let answer = self.inner.discard(discard.clone());
        self.pass_observed(Call::Discard, answer, |on, done| on.observe(Done::Discarded(&discard, done)))
            .await
    }
}

delegate! {
    impl<I: Interceptor> Inspect for InterceptedStore<I>, to inner {
        fn durability() -> Durability;
        async fn job(id: &JobId, now: Timestamp) -> Option<JobView>, as Call::OtherRead;
        async fn jobs(filter: JobFilter, page: PageRequest, now: Timestamp) -> Page<JobView>, as Call::OtherRead;
        async fn audit(id: &JobId) -> Vec<AuditEvent>, as Call::OtherRead;
        async fn dead_letter(id: &JobId) -> Option<DeadLetter>, as Call::OtherRead;
        async fn dead_letters(filter: DeadLetterFilter, page: PageRequest) -> Page<DeadLetter>, as Call::OtherRead;
        async fn dead_letter_groups(by: GroupBy, filter: DeadLetterFilter) -> Vec<DeadLetterGroup>, as Call::OtherRead;
        async fn oldest_dead_letters(limit: usize) -> Vec<DeadLetter>, as Call::OtherRead;
        async fn counts(now: Timestamp) -> Counts, as Call::OtherRead;
        async fn oldest_due(left_out: &LeftOut, now: Timestamp) -> BTreeMap<RouteName, Timestamp>, as Call::OtherRead;
        async fn tenants(filter: TenantFilter, now: Timestamp) -> Vec<TenantView>, as Call::OtherRead;
        async fn report() -> StoreReport, as Call::OtherRead;
    }
}

delegate! {
    impl<I: Interceptor> KeyValue for InterceptedStore<I>, to inner {
        async fn kv_get(namespace: Namespace, key: &str, now: Timestamp) -> Option<KvEntry>, as Call::KvGet(namespace);
        async fn kv_list(namespace: Namespace, now: Timestamp) -> Vec<KvEntry>, as Call::KvList(namespace);
        async fn kv_versions(namespaces: &[Namespace]) -> Vec<Option<u64>>, as Call::OtherRead;
    }

    async fn kv_write(&self, writes: Vec<KvWrite>, now: Timestamp) -> StoreResult<Vec<KvWritten>> {
        let answer = self.inner.kv_write(writes.clone(), now);
        let observe = |on: &I, done: &Vec<KvWritten>| {
            on.observe(Done::KvWritten(&writes, done));
            if let Some(wakes) = &self.kv_wakes {
                wakes.wake(&kv_route());
            }
        };
        self.pass_observed(Call::KvWrite, answer, observe).await
    }

    fn kv_changes(&self) -> Option<Waker> {
        match &self.kv_wakes {
            Some(wakes) => Some(wakes.waker(&kv_route())),
            None => self.inner.kv_changes(),
        }
    }
}

delegate! {
    impl<I: Interceptor> AuditLog for InterceptedStore<I>, to inner {
        fn audit_parts() -> u16;
        async fn trim_audit(trim: AuditTrim) -> u64, as Call::OtherWrite;
        async fn audit_records(span: AuditSpan, limit: usize) -> Vec<AuditRecord>, as Call::OtherRead;
    }

    async fn record(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
        let answer = self.inner.record(events.clone());
        self.pass_observed(Call::OtherWrite, answer, |on, ()| on.observe(Done::Recorded(&events))).await
    }
}

delegate! {
    impl<I: Interceptor> Transfer for InterceptedStore<I>, to inner {
        async fn forget(ids: Vec<JobId>) -> u64, as Call::OtherWrite;
        async fn adopt(transfers: Vec<JobSnapshot>) -> Vec<Adopted>, as Call::OtherWrite;
        async fn raise_fence(fence: Fence) -> (), as Call::OtherWrite;
        async fn write_fenced(fence: Fence, write: FencedWrite) -> Vec<Lease>, as Call::OtherWrite;
        async fn snapshots(after: Option<u64>, limit: usize) -> Page<JobSnapshot>, as Call::OtherRead;
        async fn snapshot(id: &JobId) -> Option<JobSnapshot>, as Call::OtherRead;
    }
}
