//! A store that keeps no records of what is settled on it, around one that would.
//!
//! The product has no such thing: what was done is on record. Only beside it can be seen what that costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use recado_core::{AuditEvent, DeadLetter, JobId, Lease, LeaseToken, NewJob, RouteName, Timestamp};
use recado_store::prelude::*;
use recado_store::{
    Adopted, AuditRecord, AuditSpan, AuditTrim, Cancelled, Claim, Claimed, Counts, DeadLetterFilter,
    DeadLetterGroup, Discard, Discarded, Durability, Enqueued, Extended, Fence, FencedWrite, GroupBy,
    JobFilter, JobSnapshot, JobView, KvEntry, KvWrite, KvWritten, LeftOut, Namespace, Page, PageRequest,
    Pruned, Redrive, Redriven, Retention, Settled, Settlement, Store, StoreReport, StoreResult, TenantFilter,
    TenantView, Waker, Watcher, delegate,
};

#[derive(Debug)]
pub struct Unrecorded(pub Arc<dyn Store>);

delegate! {
    impl JobStore for Unrecorded, to 0 {
        fn waker(route: &RouteName) -> Waker;
        fn watch(watcher: Arc<dyn Watcher>) -> ();
        async fn enqueue(jobs: Vec<NewJob>) -> Vec<Enqueued>;
        async fn claim(claim: Claim) -> Claimed;
        async fn extend(tokens: Vec<LeaseToken>, until: Timestamp) -> Vec<Extended>;
        async fn cancel(id: &JobId, audit: AuditEvent) -> Cancelled;
        async fn redrive(redrive: Redrive) -> Redriven;
        async fn discard(discard: Discard) -> Discarded;
        async fn prune(retention: Retention, now: Timestamp) -> Pruned;
        async fn leases(tokens: &[LeaseToken]) -> Vec<Option<Lease>>;
        async fn close() -> ();
    }

    async fn settle(&self, mut settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        settlements.iter_mut().for_each(|settlement| settlement.audit = None);
        self.0.settle(settlements).await
    }
}

delegate! {
    impl Inspect for Unrecorded, to 0 {
        fn durability() -> Durability;
        async fn job(id: &JobId, now: Timestamp) -> Option<JobView>;
        async fn jobs(filter: JobFilter, page: PageRequest, now: Timestamp) -> Page<JobView>;
        async fn audit(id: &JobId) -> Vec<AuditEvent>;
        async fn dead_letter(id: &JobId) -> Option<DeadLetter>;
        async fn dead_letters(filter: DeadLetterFilter, page: PageRequest) -> Page<DeadLetter>;
        async fn oldest_dead_letters(limit: usize) -> Vec<DeadLetter>;
        async fn dead_letter_groups(by: GroupBy, filter: DeadLetterFilter) -> Vec<DeadLetterGroup>;
        async fn counts(now: Timestamp) -> Counts;
        async fn oldest_due(left_out: &LeftOut, now: Timestamp) -> BTreeMap<RouteName, Timestamp>;
        async fn tenants(filter: TenantFilter, now: Timestamp) -> Vec<TenantView>;
        async fn report() -> StoreReport;
    }
}

delegate! {
    impl KeyValue for Unrecorded, to 0 {
        fn kv_changes() -> Option<Waker>;
        async fn kv_write(writes: Vec<KvWrite>, now: Timestamp) -> Vec<KvWritten>;
        async fn kv_get(namespace: Namespace, key: &str, now: Timestamp) -> Option<KvEntry>;
        async fn kv_list(namespace: Namespace, now: Timestamp) -> Vec<KvEntry>;
        async fn kv_versions(namespaces: &[Namespace]) -> Vec<Option<u64>>;
    }
}

delegate! {
    impl AuditLog for Unrecorded, to 0 {
        fn audit_parts() -> u16;
        async fn record(events: Vec<AuditEvent>) -> ();
        async fn trim_audit(trim: AuditTrim) -> u64;
        async fn audit_records(span: AuditSpan, limit: usize) -> Vec<AuditRecord>;
    }
}

delegate! {
    impl Transfer for Unrecorded, to 0 {
        async fn forget(ids: Vec<JobId>) -> u64;
        async fn adopt(snapshots: Vec<JobSnapshot>) -> Vec<Adopted>;
        async fn raise_fence(fence: Fence) -> ();
        async fn write_fenced(fence: Fence, write: FencedWrite) -> Vec<Lease>;
        async fn snapshots(after: Option<u64>, limit: usize) -> Page<JobSnapshot>;
        async fn snapshot(id: &JobId) -> Option<JobSnapshot>;
    }
}
