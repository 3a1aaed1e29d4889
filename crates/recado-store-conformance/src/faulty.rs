//! A store that fails on request, around one that works, for tests of what callers do about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::{AuditEvent, DeadLetter, JobId, Lease, LeaseToken, NewJob, RouteName, Timestamp};
use recado_store::prelude::*;
use recado_store::{
    Adopted, AuditRecord, AuditSpan, AuditTrim, Cancelled, Claim, Claimed, Counts, DeadLetterFilter,
    DeadLetterGroup, Discard, Discarded, Durability, Enqueued, Extended, Fence, FencedWrite, GroupBy,
    JobFilter, JobSnapshot, JobView, KvEntry, KvWrite, KvWritten, LeftOut, Namespace, Page, PageRequest,
    Pruned, Redrive, Redriven, Retention, Settled, Settlement, Store, StoreError, StoreReport, TenantFilter,
    TenantView, Waker, Wakes, Watcher,
};
use tokio::sync::watch;

/// A method, or a group of methods, that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Enqueue,
    Claim,
    Settle,
    KvWrite,
    /// The entries are written, and the answer is lost.
    KvWriteAnswer,
    /// One entry or a whole namespace.
    KvRead,
    /// Any verb that writes.
    Write,
    /// Any verb that writes: it is done, and its answer is lost.
    WriteAnswer,
}

#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    plan: Mutex<Vec<Fault>>,
    fired: Mutex<Vec<Verb>>,
    recorded: Mutex<Vec<AuditEvent>>,
    namespaces_read: Mutex<Vec<Namespace>>,
    /// Wakes the other nodes when entries are written, where several share the store.
    kv_wakes: Option<Arc<Wakes>>,
    /// While true, work is done and no answer leaves, as behind a disk that stalls.
    stalled: watch::Sender<bool>,
}

#[derive(Debug)]
struct Fault {
    verb: Verb,
    /// Calls of the verb that still go well.
    after: usize,
    times: usize,
    error: StoreError,
}

impl FaultyStore {
    pub fn around(inner: Arc<dyn Store>) -> Self {
        FaultyStore {
            inner,
            plan: Mutex::default(),
            fired: Mutex::default(),
            recorded: Mutex::default(),
            namespaces_read: Mutex::default(),
            kv_wakes: None,
            stalled: watch::Sender::new(false),
        }
    }

    /// One node's view of a store that several share: a write of entries wakes the others, too.
    pub fn shared(inner: Arc<dyn Store>, kv_wakes: &Arc<Wakes>) -> Self {
        FaultyStore { kv_wakes: Some(kv_wakes.clone()), ..FaultyStore::around(inner) }
    }

    /// After `after` calls that go well, the next `times` calls of `verb` fail before they reach the store.
    pub fn fail(&self, verb: Verb, after: usize, times: usize, error: StoreError) {
        self.plan.lock().push(Fault { verb, after, times, error });
    }

    /// Times that the verb has failed: a test of a fault asserts that it fired.
    pub fn fired(&self, verb: Verb) -> usize {
        self.fired.lock().iter().filter(|fired| **fired == verb).count()
    }

    /// Audit events recorded alone or together with entries, in order.
    pub fn recorded(&self) -> Vec<AuditEvent> {
        self.recorded.lock().clone()
    }

    /// Times that this whole namespace was read.
    pub fn reads_of(&self, namespace: &str) -> usize {
        self.namespaces_read.lock().iter().filter(|read| read.as_str() == namespace).count()
    }

    /// From now on jobs are taken in, leased, extended and settled, and the answers wait.
    pub fn stall(&self) {
        self.stalled.send_replace(true);
    }

    /// The answers leave.
    pub fn end_stall(&self) {
        self.stalled.send_replace(false);
    }

    /// Calls whose answers wait.
    pub fn waiting_answers(&self) -> usize {
        self.stalled.receiver_count()
    }

    /// Makes a write, unless it is to fail, and loses its answer if that is to fail.
    async fn write<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.trip(Verb::Write)?;
        let answer = call.await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    /// Keeps the answer back while the store is stalled.
    async fn stall_answer<T>(&self, call: impl Future<Output = T>) -> T {
        let answer = call.await;
        // The sender is here, so this ends only with the stall.
        let _ = self.stalled.subscribe().wait_for(|stalled| !stalled).await;
        answer
    }

    fn trip(&self, verb: Verb) -> Result<(), StoreError> {
        let mut plan = self.plan.lock();
        let Some(fault) = plan.iter_mut().find(|fault| fault.verb == verb && fault.times > 0) else {
            return Ok(());
        };
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        fault.times -= 1;
        self.fired.lock().push(verb);
        Err(fault.error.clone())
    }
}

/// The route that stands for entries: a name that no test gives a route.
fn kv_route() -> RouteName {
    RouteName::trusted("the-entries-of-all-nodes")
}

#[async_trait]
impl JobStore for FaultyStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        self.trip(Verb::Enqueue)?;
        self.write(self.stall_answer(self.inner.enqueue(jobs))).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.trip(Verb::Claim)?;
        self.write(self.stall_answer(self.inner.claim(claim))).await
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> Result<Vec<Extended>, StoreError> {
        self.write(self.stall_answer(self.inner.extend(tokens, until))).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        self.trip(Verb::Settle)?;
        self.write(self.stall_answer(self.inner.settle(settlements))).await
    }

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> Result<Cancelled, StoreError> {
        self.write(self.inner.cancel(id, audit)).await
    }

    async fn redrive(&self, redrive: Redrive) -> Result<Redriven, StoreError> {
        self.write(self.inner.redrive(redrive)).await
    }

    async fn discard(&self, discard: Discard) -> Result<Discarded, StoreError> {
        self.write(self.inner.discard(discard)).await
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned, StoreError> {
        self.write(self.inner.prune(retention, now)).await
    }

    fn waker(&self, route: &RouteName) -> Waker {
        self.inner.waker(route)
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) {
        self.inner.watch(watcher);
    }

    async fn leases(&self, tokens: &[LeaseToken]) -> Result<Vec<Option<Lease>>, StoreError> {
        self.inner.leases(tokens).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}

#[async_trait]
impl Inspect for FaultyStore {
    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    async fn job(&self, id: &JobId, now: Timestamp) -> Result<Option<JobView>, StoreError> {
        self.inner.job(id, now).await
    }

    async fn jobs(
        &self,
        filter: JobFilter,
        page: PageRequest,
        now: Timestamp,
    ) -> Result<Page<JobView>, StoreError> {
        self.inner.jobs(filter, page, now).await
    }

    async fn audit(&self, id: &JobId) -> Result<Vec<AuditEvent>, StoreError> {
        self.inner.audit(id).await
    }

    async fn dead_letter(&self, id: &JobId) -> Result<Option<DeadLetter>, StoreError> {
        self.inner.dead_letter(id).await
    }

    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError> {
        self.inner.dead_letters(filter, page).await
    }

    async fn dead_letter_groups(
        &self,
        by: GroupBy,
        filter: DeadLetterFilter,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        self.inner.dead_letter_groups(by, filter).await
    }

    async fn oldest_dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        self.inner.oldest_dead_letters(limit).await
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts, StoreError> {
        self.inner.counts(now).await
    }

    async fn oldest_due(
        &self,
        left_out: &LeftOut,
        now: Timestamp,
    ) -> Result<BTreeMap<RouteName, Timestamp>, StoreError> {
        self.inner.oldest_due(left_out, now).await
    }

    async fn tenants(&self, filter: TenantFilter, now: Timestamp) -> Result<Vec<TenantView>, StoreError> {
        self.inner.tenants(filter, now).await
    }

    async fn report(&self) -> Result<StoreReport, StoreError> {
        self.inner.report().await
    }
}

#[async_trait]
impl KeyValue for FaultyStore {
    async fn kv_write(&self, writes: Vec<KvWrite>, now: Timestamp) -> Result<Vec<KvWritten>, StoreError> {
        self.trip(Verb::KvWrite)?;
        self.trip(Verb::Write)?;
        let acts: Vec<Vec<AuditEvent>> = writes.iter().map(|write| write.audit.clone()).collect();
        let written = self.inner.kv_write(writes, now).await?;
        let done =
            acts.into_iter().zip(&written).filter(|(_, written)| matches!(written, KvWritten::Done { .. }));
        self.recorded.lock().extend(done.flat_map(|(acts, _)| acts));
        if let Some(wakes) = &self.kv_wakes {
            wakes.wake(&kv_route());
        }
        self.trip(Verb::KvWriteAnswer)?;
        self.trip(Verb::WriteAnswer)?;
        Ok(written)
    }

    fn kv_changes(&self) -> Option<Waker> {
        match &self.kv_wakes {
            Some(wakes) => Some(wakes.waker(&kv_route())),
            None => self.inner.kv_changes(),
        }
    }

    async fn kv_get(
        &self,
        namespace: Namespace,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KvEntry>, StoreError> {
        self.trip(Verb::KvRead)?;
        self.inner.kv_get(namespace, key, now).await
    }

    async fn kv_list(&self, namespace: Namespace, now: Timestamp) -> Result<Vec<KvEntry>, StoreError> {
        self.namespaces_read.lock().push(namespace);
        self.trip(Verb::KvRead)?;
        self.inner.kv_list(namespace, now).await
    }

    async fn kv_versions(&self, namespaces: &[Namespace]) -> Result<Vec<Option<u64>>, StoreError> {
        self.inner.kv_versions(namespaces).await
    }
}

#[async_trait]
impl AuditLog for FaultyStore {
    async fn record(&self, events: Vec<AuditEvent>) -> Result<(), StoreError> {
        self.recorded.lock().extend(events.iter().cloned());
        self.write(self.inner.record(events)).await
    }

    async fn trim_audit(&self, trim: AuditTrim) -> Result<u64, StoreError> {
        self.write(self.inner.trim_audit(trim)).await
    }

    fn audit_parts(&self) -> u16 {
        self.inner.audit_parts()
    }

    async fn audit_records(&self, span: AuditSpan, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.inner.audit_records(span, limit).await
    }
}

#[async_trait]
impl Transfer for FaultyStore {
    async fn forget(&self, ids: Vec<JobId>) -> Result<u64, StoreError> {
        self.write(self.inner.forget(ids)).await
    }

    async fn adopt(&self, transfers: Vec<JobSnapshot>) -> Result<Vec<Adopted>, StoreError> {
        self.write(self.inner.adopt(transfers)).await
    }

    async fn raise_fence(&self, fence: Fence) -> Result<(), StoreError> {
        self.write(self.inner.raise_fence(fence)).await
    }

    async fn write_fenced(&self, fence: Fence, write: FencedWrite) -> Result<Vec<Lease>, StoreError> {
        self.write(self.inner.write_fenced(fence, write)).await
    }

    async fn snapshots(&self, after: Option<u64>, limit: usize) -> Result<Page<JobSnapshot>, StoreError> {
        self.inner.snapshots(after, limit).await
    }

    async fn snapshot(&self, id: &JobId) -> Result<Option<JobSnapshot>, StoreError> {
        self.inner.snapshot(id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recado_store::reference::ReferenceStore;

    const NAMESPACE: Namespace = Namespace::new("accounts");
    const NOW: Timestamp = Timestamp::from_millis(0);

    #[tokio::test]
    async fn entries_fail_when_told_to_and_only_then() {
        let store = FaultyStore::around(Arc::new(ReferenceStore::default()));
        let write = || KvWrite {
            namespace: NAMESPACE,
            key: "a".into(),
            value: Some(recado_core::Payload::trusted("1")),
            expect: None,
            expires_at: None,
            audit: Vec::new(),
        };
        let gone = || StoreError::Unavailable("gone".to_owned());
        store.fail(Verb::KvWrite, 0, 1, gone());
        store.fail(Verb::KvRead, 1, 2, gone());
        assert!(store.kv_write(vec![write()], NOW).await.is_err());
        assert!(
            store.kv_get(NAMESPACE, "a", NOW).await.unwrap().is_none(),
            "the write failed before the store"
        );
        assert!(store.kv_get(NAMESPACE, "a", NOW).await.is_err());
        assert!(store.kv_list(NAMESPACE, NOW).await.is_err());
        assert!(store.kv_write(vec![write()], NOW).await.is_ok());
        assert_eq!(store.kv_list(NAMESPACE, NOW).await.unwrap().len(), 1);
        assert_eq!((store.fired(Verb::KvWrite), store.fired(Verb::KvRead)), (1, 2));
    }
}
