//! Whole jobs on their way between stores, and to and from an archive.

use async_trait::async_trait;
use recado_core::{
    AuditEvent, BodyHash, Checksum, DeadLetter, Job, JobId, Lease, Payload, Status, Timestamp,
};

use crate::Store;
#[cfg(doc)]
use crate::error::StoreError;
use crate::error::StoreResult;
use crate::inspect::Page;
use crate::job_store::Claim;
use crate::key_value::KvWrite;

/// Moves whole jobs between stores, and to and from an archive.
#[async_trait]
pub trait Transfer: Send + Sync + std::fmt::Debug + 'static {
    /// Forgets ended jobs at once, with all records about them here: the caller has archived those. Returns
    /// how many went; jobs that have not ended stay.
    async fn forget(&self, ids: Vec<JobId>) -> StoreResult<u64>;

    /// Takes jobs in as another store or an archive had them, each atomically, in order. An id that is taken
    /// is left alone, unless its job was discarded and a dead letter comes back: that one takes its place. Its trail
    /// stays, and goes on with what it does not have yet.
    async fn adopt(&self, snapshots: Vec<JobSnapshot>) -> StoreResult<Vec<Adopted>>;

    /// Lets this writer write, and shuts out all with a smaller number. [`StoreError::Fenced`] when a larger one was
    /// raised before.
    async fn raise_fence(&self, fence: Fence) -> StoreResult<()>;

    /// Carries a write out as its verb does, if in the same atomic step the fence is the one that was raised last;
    /// [`StoreError::Fenced`] if not. A store that was emptied has none. The leases are those of a claim.
    async fn write_fenced(&self, fence: Fence, write: FencedWrite) -> StoreResult<Vec<Lease>>;

    /// Every job with all that is known of it, oldest first, beginning after an order number.
    async fn snapshots(&self, after: Option<u64>, limit: usize) -> StoreResult<Page<JobSnapshot>>;

    /// One job with all that is known of it.
    async fn snapshot(&self, id: &JobId) -> StoreResult<Option<JobSnapshot>>;
}

/// A job with all that its store knows of it, on its way to another store or back from an archive.
///
/// A lease does not travel: a mover takes leases over first, or they come as waiting.
#[derive(Debug, Clone)]
pub struct JobSnapshot {
    pub job: Job,
    pub body_hash: BodyHash,
    pub state: SnapshotState,
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
    /// Makes a snapshot of a job without a dead letter, and without its trail.
    pub fn new(job: Job, body_hash: BodyHash, state: SnapshotState) -> Self {
        let (dead_letter, queue_place, audit, archived) = (None, None, Vec::new(), 0);
        JobSnapshot { job, body_hash, state, dead_letter, queue_place, audit, archived }
    }

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

/// The state of a job in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotState {
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
    /// Makes the write by the methods of a store that sees to the fence.
    pub async fn execute(self, store: &dyn Store) -> StoreResult<Vec<Lease>> {
        match self {
            FencedWrite::Claim(claim) => return Ok(store.claim(claim).await?.leases),
            FencedWrite::Adopt(snapshots) => drop(store.adopt(snapshots).await?),
            FencedWrite::Record(events) => store.record(events).await?,
            FencedWrite::KvWrite(writes, now) => drop(store.kv_write(writes, now).await?),
        }
        Ok(Vec::new())
    }
}
