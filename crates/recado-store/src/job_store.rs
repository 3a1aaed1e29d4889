//! Writing jobs: enqueue, claim, settle, replay, prune.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::{
    AuditEvent, JobId, Lease, LeaseToken, NewJob, Payload, RouteName, Status, Timestamp, Transition,
};

use crate::error::StoreResult;
use crate::turns::Turns;
use crate::wake::Waker;

/// Writes jobs: takes them in, leases them, settles their leases, and ends dead letters.
#[async_trait]
pub trait JobStore: Send + Sync + std::fmt::Debug + 'static {
    /// Takes jobs in, each exactly once by its id. Answers in order, after they are durable.
    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>>;

    /// Leases up to `max` jobs. A crash afterwards leaves orphans, never losses.
    async fn claim(&self, claim: Claim) -> StoreResult<Claimed>;

    /// Moves a lease's end, which is measured like [`Claim::lease_until`].
    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> StoreResult<Vec<Extended>>;

    /// Ends leases, each atomically, in order.
    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>>;

    /// Stops a job that is not being delivered. A dead letter whose replay is cancelled is dead again, and
    /// kept for [`RECALLED_KEPT`](recado_core::dead_letter::RECALLED_KEPT) at least.
    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> StoreResult<Cancelled>;

    /// Puts a dead letter back in line. The entry stays until the job is delivered, and keeps what was accepted beside
    /// what it was corrected to, whether the replay fails again or is called off. It keeps its place in the queue, too:
    /// a walk through all pages sees each entry once that was there all along.
    async fn redrive(&self, redrive: Redrive) -> StoreResult<Redriven>;

    /// Gives a dead letter up for good.
    async fn discard(&self, discard: Discard) -> StoreResult<Discarded>;

    /// Forgets what retention no longer keeps, a bounded amount at a time, leaving a record of each dead letter.
    async fn prune(&self, retention: Retention, now: Timestamp) -> StoreResult<Pruned>;

    /// Returns a listener that wakes when a route may have work sooner than its last claim said. A hint: correctness never
    /// depends on it.
    fn waker(&self, route: &RouteName) -> Waker;

    /// Returns the lease under each of these tokens, with its job, for reports about leases held outside this process.
    async fn leases(&self, tokens: &[LeaseToken]) -> StoreResult<Vec<Option<Lease>>>;

    /// Returns the lease under a token, with its job.
    async fn lease(&self, token: LeaseToken) -> StoreResult<Option<Lease>> {
        Ok(self.leases(&[token]).await?.pop().flatten())
    }

    /// Sets the observer of what the store does on its own. A store that has nothing to report ignores it.
    fn watch(&self, _watcher: Arc<dyn Watcher>) {}

    /// Writes out what is pending and lets go of the files.
    async fn close(&self) -> StoreResult<()>;
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

/// Selects the jobs to lease.
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
    /// Jobs that are accepted in the same step when it is done, and not at all when it is stale. One whose id
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
    /// Follow-ups as in a settlement: taken in when the act is done.
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
    /// Follow-ups as in a settlement: taken in when the act is done.
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

/// Observes what a store does between a request and its answer. It is called on the store's own threads, so it must
/// be quick.
pub trait Watcher: Send + Sync + std::fmt::Debug + 'static {
    /// Requests were committed together, this many.
    fn on_commit(&self, requests: u64, took: Duration);

    /// Commits were forced to disk.
    fn on_fsync(&self, took: Duration);
}
