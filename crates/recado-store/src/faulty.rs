//! A store that fails when told to, around one that works. For tests of what callers do about it.

use crate::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::{AuditEvent, DeadLetter, JobId, Lease, LeaseToken, NewJob, RouteName, Timestamp};
use tokio::sync::watch;

use crate::contract::{
    Adopted, AuditRecord, AuditSpan, AuditTrim, Cancelled, Claim, Claimed, Discard, Discarded, Enqueued,
    Extended, Fence, FencedWrite, JobSnapshot, Pruned, Redrive, Redriven, Retention, Settled, Settlement,
    Store, StoreError, Watcher,
};
use crate::inspect::{
    Counts, DeadLetterFilter, DeadLetterGroup, Durability, GroupBy, JobFilter, JobView, LeftOut, Page,
    PageRequest, StoreReport, TenantFilter, TenantView,
};
use crate::key_value::{KvEntry, KvWrite, KvWritten, Namespace};
use crate::wake::{Waker, Wakes};

/// Which verb fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Enqueue,
    Claim,
    Settle,
    KvWrite,
    /// The notes are written, and the answer is lost.
    KvWriteAnswer,
    /// One note or a whole namespace.
    ReadNotes,
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
    shelves_read: Mutex<Vec<Namespace>>,
    /// Rung when notes are written, where several nodes share the store.
    notes_bell: Option<Arc<Wakes>>,
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
            shelves_read: Mutex::default(),
            notes_bell: None,
            stalled: watch::Sender::new(false),
        }
    }

    /// One node's view of a store that several share: a write of notes rings the others' bell, too.
    pub fn shared(inner: Arc<dyn Store>, notes_bell: &Arc<Wakes>) -> Self {
        FaultyStore { notes_bell: Some(notes_bell.clone()), ..FaultyStore::around(inner) }
    }

    /// After `after` calls that go well, the next `times` calls of `verb` fail before they reach the store.
    pub fn fail(&self, verb: Verb, after: usize, times: usize, error: StoreError) {
        self.plan.lock().push(Fault { verb, after, times, error });
    }

    /// Times that the verb has failed: a test of a fault asserts that it fired.
    pub fn fired(&self, verb: Verb) -> usize {
        self.fired.lock().iter().filter(|fired| **fired == verb).count()
    }

    /// Audit events recorded alone or together with notes, in order.
    pub fn recorded(&self) -> Vec<AuditEvent> {
        self.recorded.lock().clone()
    }

    /// Times that this whole namespace was read.
    pub fn reads_of(&self, namespace: &str) -> usize {
        self.shelves_read.lock().iter().filter(|read| read.as_str() == namespace).count()
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

    async fn answer<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
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

/// The room of the bell for notes: a name that no test gives a route.
fn notes_room() -> RouteName {
    RouteName::trusted("the-notes-of-all-nodes")
}

#[async_trait]
impl JobStore for FaultyStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        self.trip(Verb::Enqueue)?;
        self.trip(Verb::Write)?;
        let answer = self.answer(self.inner.enqueue(jobs).await).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.trip(Verb::Claim)?;
        self.trip(Verb::Write)?;
        let answer = self.answer(self.inner.claim(claim).await).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> Result<Vec<Extended>, StoreError> {
        self.trip(Verb::Write)?;
        let answer = self.answer(self.inner.extend(tokens, until).await).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        self.trip(Verb::Settle)?;
        self.trip(Verb::Write)?;
        let answer = self.answer(self.inner.settle(settlements).await).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> Result<Cancelled, StoreError> {
        self.trip(Verb::Write)?;
        let answer = self.inner.cancel(id, audit).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    async fn redrive(&self, redrive: Redrive) -> Result<Redriven, StoreError> {
        self.trip(Verb::Write)?;
        let answer = self.inner.redrive(redrive).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    async fn discard(&self, discard: Discard) -> Result<Discarded, StoreError> {
        self.trip(Verb::Write)?;
        let answer = self.inner.discard(discard).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned, StoreError> {
        self.trip(Verb::Write)?;
        let answer = self.inner.prune(retention, now).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    fn waker(&self, route: &RouteName) -> Waker {
        self.inner.waker(route)
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) {
        self.inner.watch(watcher);
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    async fn lease(&self, token: LeaseToken) -> Result<Option<Lease>, StoreError> {
        self.inner.lease(token).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}

#[async_trait]
impl Inspect for FaultyStore {
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
        let noted = self.inner.kv_write(writes, now).await?;
        let done = acts.into_iter().zip(&noted).filter(|(_, noted)| matches!(noted, KvWritten::Done { .. }));
        self.recorded.lock().extend(done.flat_map(|(acts, _)| acts));
        if let Some(bell) = &self.notes_bell {
            bell.ring(&notes_room());
        }
        self.trip(Verb::KvWriteAnswer)?;
        self.trip(Verb::WriteAnswer)?;
        Ok(noted)
    }

    fn kv_changes(&self) -> Option<Waker> {
        match &self.notes_bell {
            Some(bell) => Some(bell.waker(&notes_room())),
            None => self.inner.kv_changes(),
        }
    }

    async fn kv_get(
        &self,
        namespace: Namespace,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KvEntry>, StoreError> {
        self.trip(Verb::ReadNotes)?;
        self.inner.kv_get(namespace, key, now).await
    }

    async fn kv_list(&self, namespace: Namespace, now: Timestamp) -> Result<Vec<KvEntry>, StoreError> {
        self.shelves_read.lock().push(namespace);
        self.trip(Verb::ReadNotes)?;
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
        self.trip(Verb::Write)?;
        self.inner.record(events).await?;
        self.trip(Verb::WriteAnswer)
    }

    async fn trim_audit(&self, trim: AuditTrim) -> Result<u64, StoreError> {
        self.trip(Verb::Write)?;
        let answer = self.inner.trim_audit(trim).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    fn audit_parts(&self) -> u16 {
        self.inner.audit_parts()
    }

    async fn audit_in(&self, span: AuditSpan, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.inner.audit_in(span, limit).await
    }
}

#[async_trait]
impl Transfer for FaultyStore {
    async fn forget(&self, ids: Vec<JobId>) -> Result<u64, StoreError> {
        self.trip(Verb::Write)?;
        let answer = self.inner.forget(ids).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    async fn adopt(&self, transfers: Vec<JobSnapshot>) -> Result<Vec<Adopted>, StoreError> {
        self.trip(Verb::Write)?;
        let answer = self.inner.adopt(transfers).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    async fn raise_fence(&self, fence: Fence) -> Result<(), StoreError> {
        self.trip(Verb::Write)?;
        self.inner.raise_fence(fence).await?;
        self.trip(Verb::WriteAnswer)
    }

    async fn write_fenced(&self, fence: Fence, write: FencedWrite) -> Result<Vec<Lease>, StoreError> {
        self.trip(Verb::Write)?;
        let answer = self.inner.write_fenced(fence, write).await?;
        self.trip(Verb::WriteAnswer)?;
        Ok(answer)
    }

    async fn transfers(&self, after: Option<u64>, limit: usize) -> Result<Page<JobSnapshot>, StoreError> {
        self.inner.transfers(after, limit).await
    }

    async fn transfer(&self, id: &JobId) -> Result<Option<JobSnapshot>, StoreError> {
        self.inner.transfer(id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::ReferenceStore;

    const NAMESPACE: Namespace = Namespace::new("accounts");
    const NOW: Timestamp = Timestamp::from_millis(0);

    #[tokio::test]
    async fn notes_fail_when_told_to_and_only_then() {
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
        store.fail(Verb::ReadNotes, 1, 2, gone());
        assert!(store.kv_write(vec![write()], NOW).await.is_err());
        assert!(
            store.kv_get(NAMESPACE, "a", NOW).await.unwrap().is_none(),
            "the write failed before the store"
        );
        assert!(store.kv_get(NAMESPACE, "a", NOW).await.is_err());
        assert!(store.kv_list(NAMESPACE, NOW).await.is_err());
        assert!(store.kv_write(vec![write()], NOW).await.is_ok());
        assert_eq!(store.kv_list(NAMESPACE, NOW).await.unwrap().len(), 1);
        assert_eq!((store.fired(Verb::KvWrite), store.fired(Verb::ReadNotes)), (1, 2));
    }
}
