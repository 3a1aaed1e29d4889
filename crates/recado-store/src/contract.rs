//! The five traits of a store, and the requests and answers of their methods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::{
    AuditEvent, BodyHash, Checksum, DeadLetter, Job, JobId, Lease, LeaseToken, NewJob, Payload, RouteName,
    Status, Timestamp, Transition,
};

use crate::inspect::{
    Counts, DeadLetterFilter, DeadLetterGroup, Durability, GroupBy, JobFilter, JobView, LeftOut, Page,
    PageRequest, StoreReport, TenantFilter, TenantView,
};
use crate::key_value::{KvEntry, KvWrite, KvWritten, Namespace};
use crate::turns::Turns;
use crate::wake::Waker;

/// Split by what the caller does next.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written; ask again later. Work that is already in can still be settled.
    #[error("the store is full: {0}")]
    Full(String),
    /// It is not known whether it was written; ask again, the verbs are safe to repeat.
    #[error("the store did not answer: {0}")]
    Unavailable(String),
    /// The store's own files cannot be trusted any more. Stop, and start again to recover.
    #[error("the store has failed: {0}")]
    Broken(String),
    /// Nothing was written: a newer writer has raised the [`Fence`]. Stop for good.
    #[error("a newer writer has taken over")]
    Fenced,
}

/// Answer to one job of an `enqueue`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    Accepted {
        status: Status,
    },
    /// The same job again: nothing was written.
    Duplicate {
        status: Status,
    },
    /// The id is taken by a job with another body: nothing was written.
    Conflict,
}

/// Which jobs to lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// Jobs of this route that are due.
    Ready(RouteName),
    /// Waiting jobs of any route whose time has run out.
    Overdue,
    /// Jobs whose lease ran out; the new lease tells which one it takes over.
    Orphaned,
}

#[derive(Debug, Clone)]
pub struct Claim {
    pub pick: Pick,
    pub max: usize,
    /// The wall clock's time, which due times and ends of life are compared with. With [`Pick::Orphaned`] it is the time
    /// that ends of leases are measured by.
    pub now: Timestamp,
    /// Measured by a time that runs like the wall clock's and never steps. Stores compare it with the `now` of
    /// [`Pick::Orphaned`] alone.
    pub lease_until: Timestamp,
    /// The lease's holder, for the record.
    pub worker: Box<str>,
    /// The provider that is to be asked. A lease that runs out tells it, and so does the lease that took it over.
    pub provider: Option<Box<str>>,
    /// The lease outlives this process: a holder outside it has the token.
    pub outlives_process: bool,
    /// The terms of turns between tenants. The other picks know no turns.
    pub turns: Turns,
}

#[derive(Debug, Default)]
pub struct Claimed {
    pub leases: Vec<Lease>,
    /// The time when time alone will bring more of what was picked, if that is known. A tenant that is held
    /// back has jobs that are due already: only its hold says when it may go on.
    pub next_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub struct Settlement {
    pub token: LeaseToken,
    pub transition: Transition,
    pub audit: Option<AuditEvent>,
    pub now: Timestamp,
    /// Jobs that are taken in in the same step when it is done, and not at all when it is stale. One whose id
    /// is taken already is left alone. They are taken in even while a store that runs short of room refuses
    /// others: what it keeps back is for them too.
    pub follow_ups: Vec<NewJob>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Done,
    /// The token is not the job's current one; nothing changed.
    Stale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    Until(Timestamp),
    Stale,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    Done,
    /// It was cancelled before.
    Already,
    /// Too late: it is being delivered, or it has ended.
    Refused(Status),
    Unknown,
}

/// Bring a dead letter back with a fresh budget of attempts.
#[derive(Debug, Clone)]
pub struct Redrive {
    pub id: JobId,
    /// Corrected data; when absent what it was corrected to last, or else the original.
    pub data: Option<Payload>,
    pub due_at: Timestamp,
    pub expires_at: Timestamp,
    pub audit: AuditEvent,
    /// As in a settlement: taken in when it is done.
    pub follow_ups: Vec<NewJob>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redriven {
    Done,
    /// It is on its way already; nothing changed.
    AlreadyReplaying,
    Unknown,
}

/// Give a dead letter up.
#[derive(Debug, Clone)]
pub struct Discard {
    pub id: JobId,
    /// Only if the job was replayed so often: one that was replayed and died again since then is another entry.
    pub replays: Option<u32>,
    pub audit: AuditEvent,
    /// As in a settlement: taken in when it is done.
    pub follow_ups: Vec<NewJob>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discarded {
    Done,
    /// It is being replayed: cancel it or let it end.
    Replaying,
    /// It was replayed since then and died again: nothing changed.
    DiedAgain,
    Unknown,
}

/// A job with all that its store knows of it, on its way to another store or back from an archive.
///
/// A lease does not travel: a mover takes leases over first, or they come as waiting.
#[derive(Debug, Clone)]
pub struct JobSnapshot {
    pub job: Job,
    pub body_hash: BodyHash,
    pub standing: Standing,
    /// Its entry while it is dead or replaying.
    pub dead_letter: Option<DeadLetter>,
    /// The entry's place among all that are moved with it, counted from 1 for the oldest. Absent: it becomes the
    /// newest entry. A store that gives a job leaves it absent.
    pub queue_place: Option<u64>,
    /// Its trail, oldest first.
    pub audit: Vec<AuditEvent>,
    /// Archived records among these, oldest first: they stay on the job's trail, and are not archived again.
    /// A store that gives a job does not know, and says none.
    pub archived: usize,
}

impl JobSnapshot {
    /// The job's checksum as its store had it, or a fresh one where it had none.
    pub fn checksum(&self) -> Checksum {
        let fresh = || {
            let checksum = Checksum::of_job(&self.job);
            let accepted = self.dead_letter.as_ref().map(|entry| &entry.original_data);
            let checksum = accepted.map_or(checksum, |accepted| checksum.with_accepted(accepted));
            self.job.damage().map_or(checksum, |damage| checksum.inverted(damage))
        };
        self.job.checksum.unwrap_or_else(fresh)
    }
}

/// The state of a transferred job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Waiting,
    /// In the dead letter queue.
    Dead,
    Ended {
        status: Status,
        at: Timestamp,
        answer: Option<Payload>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adopted {
    Done,
    /// The id is taken: nothing was written.
    Known,
}

/// A fencing token: of all writers under one name the store lets the newest write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    pub name: &'static str,
    /// Grows from writer to writer.
    pub number: u64,
}

/// A write that is made only while its [`Fence`] stands.
#[derive(Debug, Clone)]
pub enum FencedWrite {
    Claim(Claim),
    Adopt(Vec<JobSnapshot>),
    Record(Vec<AuditEvent>),
    KvWrite(Vec<KvWrite>, Timestamp),
}

impl FencedWrite {
    /// Carries it out by the verbs of a store that sees to the fence.
    pub async fn carry_out(self, store: &dyn Store) -> Result<Vec<Lease>, StoreError> {
        match self {
            FencedWrite::Claim(claim) => return Ok(store.claim(claim).await?.leases),
            FencedWrite::Adopt(transfers) => drop(store.adopt(transfers).await?),
            FencedWrite::Record(events) => store.record(events).await?,
            FencedWrite::KvWrite(writes, now) => drop(store.kv_write(writes, now).await?),
        }
        Ok(Vec::new())
    }
}

/// Time that ended jobs are remembered. Dead letters carry their own time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    pub ended_max_age: Duration,
    pub ended_max_count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    pub ended: u64,
    pub dead_letters: u64,
    /// Key-value entries whose time was over.
    pub kv_entries: u64,
    /// There is more to prune: ask again.
    pub more: bool,
}

/// A record of the trail under its number. Within a part of the trail numbers rise, and none is given twice in a
/// store's life, whatever was trimmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    pub number: u64,
    pub event: AuditEvent,
}

/// Which records of one part of the trail, and from which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSpan {
    pub part: u16,
    /// Beyond this number; 0 for the beginning.
    pub after: u64,
    pub newest_first: bool,
}

/// The records to remove from one part of the trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditTrim {
    pub part: u16,
    /// The last one that is archived: nothing beyond it goes.
    pub up_to: u64,
    /// Records from before this go.
    pub before: Timestamp,
    /// Records from before this go if the store knows no job that they are about.
    pub forgotten_before: Timestamp,
}

/// Hears of what a store does between a request and its answer. It is told on the store's own threads, so it must
/// be quick.
pub trait Watcher: Send + Sync + std::fmt::Debug + 'static {
    /// So many requests were committed together.
    fn committed(&self, requests: u64, took: Duration);

    /// Commits were forced to disk.
    fn forced(&self, took: Duration);
}

/// Writes jobs: takes them in, leases them, settles their leases, and ends dead letters.
#[async_trait]
pub trait JobStore: Send + Sync + std::fmt::Debug + 'static {
    /// Takes jobs in, each exactly once by its id. Answers in order, after they are durable.
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError>;

    /// Leases up to `max` jobs. A crash afterwards leaves orphans, never losses.
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError>;

    /// Moves a lease's end, which is measured like [`Claim::lease_until`].
    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> Result<Vec<Extended>, StoreError>;

    /// Ends leases, each atomically, in order.
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError>;

    /// Stops a job that is not being delivered. A dead letter whose replay is cancelled is dead again, and
    /// kept for [`RECALLED_KEPT`](recado_core::dead_letter::RECALLED_KEPT) at least.
    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> Result<Cancelled, StoreError>;

    /// Puts a dead letter back in line. The entry stays until the job is delivered, and keeps what was accepted beside
    /// what it was corrected to, whether the replay fails again or is called off. It keeps its place in the queue, too:
    /// a walk through all pages sees each entry once that was there all along.
    async fn redrive(&self, redrive: Redrive) -> Result<Redriven, StoreError>;

    /// Gives a dead letter up for good.
    async fn discard(&self, discard: Discard) -> Result<Discarded, StoreError>;

    /// Forgets what retention no longer keeps, a bounded amount at a time, leaving a record of each dead letter.
    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned, StoreError>;

    /// Tells when a route may have work. A hint: correctness never depends on it.
    fn waker(&self, route: &RouteName) -> Waker;

    /// What its answers to writes are worth right now. Known without asking, so that every answer can say it.
    fn durability(&self) -> Durability;

    /// Who this lease's job belongs to, for reports about a lease held outside this process.
    async fn lease(&self, token: LeaseToken) -> Result<Option<Lease>, StoreError>;

    /// From now on this one hears of what the store does on its own. A store that has nothing to tell ignores it.
    fn watch(&self, _watcher: Arc<dyn Watcher>) {}

    /// Writes out what is pending and lets go of the files.
    async fn close(&self) -> Result<(), StoreError>;
}

/// Read queries over jobs and dead letters. None of them counts by scanning the jobs that wait.
#[async_trait]
pub trait Inspect: Send + Sync + std::fmt::Debug + 'static {
    async fn job(&self, id: &JobId, now: Timestamp) -> Result<Option<JobView>, StoreError>;

    /// Newest first.
    async fn jobs(
        &self,
        filter: JobFilter,
        page: PageRequest,
        now: Timestamp,
    ) -> Result<Page<JobView>, StoreError>;

    async fn audit(&self, id: &JobId) -> Result<Vec<AuditEvent>, StoreError>;

    async fn dead_letter(&self, id: &JobId) -> Result<Option<DeadLetter>, StoreError>;

    /// Newest first, by when each entered the queue: a replay that fails again has never left it.
    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError>;

    /// Those that have been in the queue longest, first of all; none that is replaying.
    async fn oldest_dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError>;

    /// Largest group first.
    async fn dead_letter_groups(
        &self,
        by: GroupBy,
        filter: DeadLetterFilter,
    ) -> Result<Vec<DeadLetterGroup>, StoreError>;

    async fn counts(&self, now: Timestamp) -> Result<Counts, StoreError>;

    /// The time since when the oldest unclaimed job has been due, for each route that has one; the companies
    /// in `left_out` do not count. Where very many tenants wait, a store may ask only those that have waited
    /// longest for a turn.
    async fn oldest_due(
        &self,
        left_out: &LeftOut,
        now: Timestamp,
    ) -> Result<BTreeMap<RouteName, Timestamp>, StoreError>;

    /// How each tenant fares on each route, by route and company: those with a job that waits or is leased, and
    /// those served lately.
    async fn tenants(&self, filter: TenantFilter, now: Timestamp) -> Result<Vec<TenantView>, StoreError>;

    async fn report(&self) -> Result<StoreReport, StoreError>;
}

/// Small durable values that all nodes share, by namespace and key, written by compare-and-set.
#[async_trait]
pub trait KeyValue: Send + Sync + std::fmt::Debug + 'static {
    /// Writes entries, each atomically together with its audit records, in order. A store that runs short of
    /// room takes them like settlements: an operator who eases its load must be able to say so.
    async fn kv_write(&self, writes: Vec<KvWrite>, now: Timestamp) -> Result<Vec<KvWritten>, StoreError>;

    /// Wakes when another node may have written entries: caches of them are to be read again. A hint, like
    /// [`JobStore::waker`]. `None`: no other node writes, and this process has all there is.
    fn kv_changes(&self) -> Option<Waker> {
        None
    }

    /// Returns true if other nodes may be on this store.
    fn is_shared(&self) -> bool {
        self.kv_changes().is_some()
    }

    async fn kv_get(
        &self,
        namespace: Namespace,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KvEntry>, StoreError>;

    /// Returns all entries of a namespace, by key.
    async fn kv_list(&self, namespace: Namespace, now: Timestamp) -> Result<Vec<KvEntry>, StoreError>;

    /// Returns a number for each of these namespaces that changes when an entry there is written, removed or pruned,
    /// so that a cache reads only what has changed. `None`: the store does not tell.
    async fn kv_versions(&self, namespaces: &[Namespace]) -> Result<Vec<Option<u64>>, StoreError> {
        Ok(vec![None; namespaces.len()])
    }
}

/// The audit trail: appended to by every write, read and trimmed by the archiver.
#[async_trait]
pub trait AuditLog: Send + Sync + std::fmt::Debug + 'static {
    /// Appends to the audit trail.
    async fn record(&self, events: Vec<AuditEvent>) -> Result<(), StoreError>;

    /// Forgets records that were archived, a bounded number of the oldest, and says how many went. As long as some
    /// go there may be more.
    async fn trim_audit(&self, trim: AuditTrim) -> Result<u64, StoreError>;

    /// Parts that the trail is kept in; order holds within each.
    fn audit_parts(&self) -> u16 {
        1
    }

    /// The trail itself, records that belong to no job included, for the archiver: every record given here is
    /// durable. Records that came with an adopted job as archived are not given.
    async fn audit_in(&self, span: AuditSpan, limit: usize) -> Result<Vec<AuditRecord>, StoreError>;
}

/// Moves whole jobs between stores, and to and from an archive.
#[async_trait]
pub trait Transfer: Send + Sync + std::fmt::Debug + 'static {
    /// Forgets ended jobs at once, with all records about them here: the caller has archived those. Returns
    /// how many went; jobs that have not ended stay.
    async fn forget(&self, ids: Vec<JobId>) -> Result<u64, StoreError>;

    /// Takes jobs in as another store or an archive had them, each atomically, in order. An id that is taken
    /// is left alone, unless its job was discarded and a dead letter comes back: that one takes its place. Its trail
    /// stays, and goes on with what it does not have yet.
    async fn adopt(&self, transfers: Vec<JobSnapshot>) -> Result<Vec<Adopted>, StoreError>;

    /// Lets this writer write, and shuts out all with a smaller number. [`StoreError::Fenced`] when a larger one was
    /// raised before.
    async fn raise_fence(&self, fence: Fence) -> Result<(), StoreError>;

    /// Carries a write out as its verb does, if in the same atomic step the fence is the one that was raised last;
    /// [`StoreError::Fenced`] if not. A store that was emptied has none. The leases are those of a claim.
    async fn write_fenced(&self, fence: Fence, write: FencedWrite) -> Result<Vec<Lease>, StoreError>;

    /// Every job with all that is known of it, oldest first, beginning after an order number.
    async fn transfers(&self, after: Option<u64>, limit: usize) -> Result<Page<JobSnapshot>, StoreError>;

    /// One job with all that is known of it.
    async fn transfer(&self, id: &JobId) -> Result<Option<JobSnapshot>, StoreError>;
}

/// A whole store. The crate's documentation says what every implementation promises.
///
/// Code takes the narrowest trait that it needs; a `dyn Store` becomes any of the five.
pub trait Store: JobStore + Inspect + KeyValue + AuditLog + Transfer {}

impl<T: JobStore + Inspect + KeyValue + AuditLog + Transfer> Store for T {}
