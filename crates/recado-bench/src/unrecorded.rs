//! A store that keeps no records of what is settled on it, around one that would.
//!
//! The product has no such thing: what was done is on record. Only beside it can be seen what that costs.

use recado_store::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use recado_core::{AuditEvent, DeadLetter, JobId, Lease, LeaseToken, NewJob, RouteName, Timestamp};
use recado_store::{
    Adopted, AuditRecord, AuditSpan, AuditTrim, Cancelled, Claim, Claimed, Counts, DeadLetterFilter,
    DeadLetterGroup, Discard, Discarded, Durability, Enqueued, Extended, Fence, FencedWrite, GroupBy,
    JobFilter, JobSnapshot, JobView, KvEntry, KvWrite, KvWritten, LeftOut, Namespace, Page, PageRequest,
    Pruned, Redrive, Redriven, Retention, Settled, Settlement, Store, StoreError, StoreReport, TenantFilter,
    TenantView, Waker, Watcher,
};

#[derive(Debug)]
pub struct Unrecorded(pub Arc<dyn Store>);

#[async_trait]
impl JobStore for Unrecorded {
    async fn settle(&self, mut settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        settlements.iter_mut().for_each(|settlement| settlement.audit = None);
        self.0.settle(settlements).await
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        self.0.enqueue(jobs).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.0.claim(claim).await
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> Result<Vec<Extended>, StoreError> {
        self.0.extend(tokens, until).await
    }

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> Result<Cancelled, StoreError> {
        self.0.cancel(id, audit).await
    }

    async fn redrive(&self, redrive: Redrive) -> Result<Redriven, StoreError> {
        self.0.redrive(redrive).await
    }

    async fn discard(&self, discard: Discard) -> Result<Discarded, StoreError> {
        self.0.discard(discard).await
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned, StoreError> {
        self.0.prune(retention, now).await
    }

    fn waker(&self, route: &RouteName) -> Waker {
        self.0.waker(route)
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) {
        self.0.watch(watcher);
    }

    async fn lease(&self, token: LeaseToken) -> Result<Option<Lease>, StoreError> {
        self.0.lease(token).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.0.close().await
    }
}

#[async_trait]
impl Inspect for Unrecorded {
    fn durability(&self) -> Durability {
        self.0.durability()
    }

    async fn job(&self, id: &JobId, now: Timestamp) -> Result<Option<JobView>, StoreError> {
        self.0.job(id, now).await
    }

    async fn jobs(
        &self,
        filter: JobFilter,
        page: PageRequest,
        now: Timestamp,
    ) -> Result<Page<JobView>, StoreError> {
        self.0.jobs(filter, page, now).await
    }

    async fn audit(&self, id: &JobId) -> Result<Vec<AuditEvent>, StoreError> {
        self.0.audit(id).await
    }

    async fn dead_letter(&self, id: &JobId) -> Result<Option<DeadLetter>, StoreError> {
        self.0.dead_letter(id).await
    }

    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError> {
        self.0.dead_letters(filter, page).await
    }

    async fn oldest_dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        self.0.oldest_dead_letters(limit).await
    }

    async fn dead_letter_groups(
        &self,
        by: GroupBy,
        filter: DeadLetterFilter,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        self.0.dead_letter_groups(by, filter).await
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts, StoreError> {
        self.0.counts(now).await
    }

    async fn oldest_due(
        &self,
        left_out: &LeftOut,
        now: Timestamp,
    ) -> Result<BTreeMap<RouteName, Timestamp>, StoreError> {
        self.0.oldest_due(left_out, now).await
    }

    async fn tenants(&self, filter: TenantFilter, now: Timestamp) -> Result<Vec<TenantView>, StoreError> {
        self.0.tenants(filter, now).await
    }

    async fn report(&self) -> Result<StoreReport, StoreError> {
        self.0.report().await
    }
}

#[async_trait]
impl KeyValue for Unrecorded {
    async fn kv_write(&self, writes: Vec<KvWrite>, now: Timestamp) -> Result<Vec<KvWritten>, StoreError> {
        self.0.kv_write(writes, now).await
    }

    fn kv_changes(&self) -> Option<Waker> {
        self.0.kv_changes()
    }

    async fn kv_get(
        &self,
        namespace: Namespace,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KvEntry>, StoreError> {
        self.0.kv_get(namespace, key, now).await
    }

    async fn kv_list(&self, namespace: Namespace, now: Timestamp) -> Result<Vec<KvEntry>, StoreError> {
        self.0.kv_list(namespace, now).await
    }

    async fn kv_versions(&self, namespaces: &[Namespace]) -> Result<Vec<Option<u64>>, StoreError> {
        self.0.kv_versions(namespaces).await
    }
}

#[async_trait]
impl AuditLog for Unrecorded {
    async fn record(&self, events: Vec<AuditEvent>) -> Result<(), StoreError> {
        self.0.record(events).await
    }

    async fn trim_audit(&self, trim: AuditTrim) -> Result<u64, StoreError> {
        self.0.trim_audit(trim).await
    }

    fn audit_parts(&self) -> u16 {
        self.0.audit_parts()
    }

    async fn audit_records(&self, span: AuditSpan, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.0.audit_records(span, limit).await
    }
}

#[async_trait]
impl Transfer for Unrecorded {
    async fn forget(&self, ids: Vec<JobId>) -> Result<u64, StoreError> {
        self.0.forget(ids).await
    }

    async fn adopt(&self, transfers: Vec<JobSnapshot>) -> Result<Vec<Adopted>, StoreError> {
        self.0.adopt(transfers).await
    }

    async fn raise_fence(&self, fence: Fence) -> Result<(), StoreError> {
        self.0.raise_fence(fence).await
    }

    async fn write_fenced(&self, fence: Fence, write: FencedWrite) -> Result<Vec<Lease>, StoreError> {
        self.0.write_fenced(fence, write).await
    }

    async fn snapshots(&self, after: Option<u64>, limit: usize) -> Result<Page<JobSnapshot>, StoreError> {
        self.0.snapshots(after, limit).await
    }

    async fn snapshot(&self, id: &JobId) -> Result<Option<JobSnapshot>, StoreError> {
        self.0.snapshot(id).await
    }
}
