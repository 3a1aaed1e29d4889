//! Everything from one store into another, checked by counts and checksums.
//!
//! Neither store is served meanwhile: both are marked before anything moves, see [`marks`]. Jobs, key-value entries and
//! records that are not archived are copied, and the source keeps its own. A move that was cut off is taken up again by
//! asking for it again: what has arrived is left alone. The process that takes it up raises the fences of both stores, so the
//! one before it writes nothing more, should it still be there.

mod marks;
mod queue;
mod trail;

use std::sync::Arc;
use std::time::Duration;

use recado_core::payload::digest_of;
use recado_core::words::counted;
use recado_core::{
    AuditEvent, AuditKind, BodyHash, Damage, DeadLetter, Lease, LostLease, Timestamp, Transition, decide,
};
use recado_engine::dlq::bulk;
use recado_engine::duties::nodes;
use recado_store::{
    Claim, Durability, Fence, FencedWrite, JobSnapshot, KvEntry, KvWrite, Namespace, Pick, Settled,
    Settlement, SnapshotState, Store, StoreError, Turns,
};
use serde::Serialize;

use marks::{End, Mark, is_same_store};
use queue::Queue;
use trail::Unarchived;

pub use marks::{InMove, MOVES, in_move, in_move_by};

/// Jobs that are carried at a time.
const LOAD_JOBS: usize = 1_000;

/// Time after which a Redis that forces its log to disk every second has the marks there.
const MARKS_DURABLE_AFTER: Duration = Duration::from_millis(2_500);

/// The leases that are taken over to be ended. After a move that was cut off in between and called off, the source's
/// servers find them when their time is up.
const LEASE_LASTS: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error("cannot read the source: {0}")]
    Source(StoreError),
    #[error("cannot write to the target: {0}; repeat the command to continue where it stopped")]
    Target(StoreError),
    #[error(
        "the target holds {} and {} already; move into an empty store",
        counted(*jobs, "job", "jobs"),
        counted(*records, "audit record", "audit records")
    )]
    TargetTaken { jobs: u64, records: u64 },
    #[error("the target took everything over from {from} before; serve it, or move into an empty store")]
    TargetWhole { from: String },
    #[error(
        "the target holds a part of what {from} had, of a move that was cancelled or is another one's; empty it (remove \
         its data directory, or its keys from Redis), and repeat the command"
    )]
    TargetHalfFilled { from: String },
    #[error("everything in the target was moved to {to} before; move into an empty store")]
    TargetMoved { to: String },
    #[error(
        "the source does not hold everything that {from} had: finish that move first, or move from there"
    )]
    SourceHalfFilled { from: String },
    #[error("the source was moved to {to} before; serve that one, or move from there")]
    SourceMoved { to: String },
    #[error("the source is being moved to {to}; continue that move, or cancel it with --to {to} --abort")]
    SourceMoving { to: String },
    #[error("the source is not being moved; there is nothing to cancel")]
    NoMove,
    #[error("the move was cancelled meanwhile: serve the source")]
    CalledOff,
    #[error(
        "another `recado store migrate` has taken this move over, or it was finished or cancelled: this one has \
         written nothing since and stops"
    )]
    TakenOver,
    #[error(
        "{store} is in use by {nodes}; stop these servers, wait a minute if one was killed, and ask again"
    )]
    InUse { store: String, nodes: String },
    #[error(
        "the target does not hold what the source gave ({what}): nothing was switched over; \
         is another program using one of the two?"
    )]
    Differs { what: String },
}

/// A store and what people call it. The name shows no password.
#[derive(Clone, Debug)]
pub struct Named {
    pub store: Arc<dyn Store>,
    pub name: String,
}

impl Named {
    fn side(&self, end: End, now: Timestamp) -> Side<'_> {
        Side { store: &*self.store, name: &self.name, end, now }
    }
}

/// A store as one end of a move.
#[derive(Clone, Copy)]
struct Side<'a> {
    store: &'a dyn Store,
    name: &'a str,
    end: End,
    now: Timestamp,
}

impl Side<'_> {
    /// Says at which end a store failed.
    fn at<T>(&self, done: Result<T, StoreError>) -> Result<T, MoveError> {
        done.map_err(|error| match (error, self.end) {
            (StoreError::Fenced, _) => MoveError::TakenOver,
            (error, End::Source) => MoveError::Source(error),
            (error, End::Target) => MoveError::Target(error),
        })
    }

    async fn entries(&self, namespace: Namespace) -> Result<Vec<KvEntry>, MoveError> {
        self.at(self.store.kv_list(namespace, self.now).await)
    }

    async fn write(&self, fence: Fence, write: FencedWrite) -> Result<Vec<Lease>, MoveError> {
        self.at(self.store.write_fenced(fence, write).await)
    }

    /// Goes through all jobs, some at a time.
    async fn each_load(
        &self,
        mut take: impl AsyncFnMut(Vec<JobSnapshot>) -> Result<(), MoveError>,
    ) -> Result<(), MoveError> {
        let mut after = None;
        loop {
            let page = self.at(self.store.snapshots(after, LOAD_JOBS).await)?;
            take(page.items).await?;
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn count_jobs(&self) -> Result<u64, MoveError> {
        let counts = self.at(self.store.counts(self.now).await)?;
        Ok(counts.delayed + counts.ready + counts.leased + counts.dead_letters + counts.ended)
    }

    /// Refuses a store whose nodes still run: it would change under the move.
    async fn refuse_if_used(&self) -> Result<(), MoveError> {
        let running = self.entries(nodes::NAMESPACE).await?;
        if running.is_empty() {
            return Ok(());
        }
        let running: Vec<&str> = running.iter().map(|node| &*node.key).collect();
        Err(MoveError::InUse { store: self.name.to_owned(), nodes: running.join(", ") })
    }
}

/// The content of a store, in two numbers: the sum does not depend on the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub count: u64,
    #[serde(serialize_with = "hex")]
    pub checksum: u128,
}

fn hex<S: serde::Serializer>(sum: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{sum:032x}"))
}

impl Tally {
    fn add(&mut self, digest: u128) {
        self.count += 1;
        self.checksum = self.checksum.wrapping_add(digest);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    pub jobs: Tally,
    /// Key-value entries.
    #[serde(rename = "notes")]
    pub entries: Tally,
    /// Unarchived audit records about no job in the store; those about jobs came with them.
    pub records: Tally,
    /// Leases that were taken over before: their jobs may have been sent.
    pub leases_ended: u64,
}

/// The progress of a move, for its observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Copied { done: u64, of: u64 },
    Checked { done: u64, of: u64 },
}

/// Moves all jobs and the key-value entries of these namespaces.
pub async fn move_all(
    from: &Named,
    to: &Named,
    namespaces: &[Namespace],
    now: Timestamp,
    mut watch: impl FnMut(Step),
) -> Result<Moved, MoveError> {
    let (from, to) = (from.side(End::Source, now), to.side(End::Target, now));
    let run = Run::begin(from, to).await?;
    let leases_ended = run.end_leases().await?;
    let queue = Queue::of(from).await?;
    let mut unarchived = Unarchived::of(from).await?;
    let jobs = run.copy_jobs(&queue, &mut unarchived, &mut watch).await?;
    let records = unarchived.tally();
    trail::copy(from, to, run.target_fence, unarchived).await?;
    if queue != Queue::of(to).await? {
        return Err(MoveError::Differs { what: "the order of the dead letters differs".to_owned() });
    }
    let entries = run.copy_entries(&queue, namespaces).await?;
    let moved = Moved { jobs, entries, records, leases_ended };
    check(to, moved, namespaces, &mut watch).await?;
    run.end().await?;
    Ok(moved)
}

/// Calls off a move that is not whole: the source may be served again. What has arrived stays in the target, which is
/// not served until it has been emptied.
pub async fn call_off(from: &Named, to: &str, now: Timestamp) -> Result<(), MoveError> {
    let from = from.side(End::Source, now);
    let (mark, version) = from.mark_as(End::Source).await?.ok_or(MoveError::NoMove)?;
    if mark.done {
        return Err(MoveError::SourceMoved { to: mark.store });
    }
    if !is_same_store(&mark.store, to) {
        return Err(MoveError::SourceMoving { to: mark.store });
    }
    // A process that still moves is shut out before the source may be served.
    let fence = from.renew_mark(&mark, version).await?;
    from.write_mark(None, fence.number).await.map(drop)
}

/// Decides by the marks whether this move may begin or go on. Returns true if it has begun at both ends.
fn is_begun(to: &str, source: Option<&Mark>, target: Option<&Mark>) -> Result<bool, MoveError> {
    let unfinished = target.filter(|target| !target.done);
    match (source, unfinished) {
        (Some(source), Some(target)) if source.is_same_move(target) => Ok(true),
        (Some(source), _) if source.done => Err(MoveError::SourceMoved { to: source.store.clone() }),
        (Some(source), _) if !is_same_store(&source.store, to) => {
            Err(MoveError::SourceMoving { to: source.store.clone() })
        }
        (_, None) => Ok(false),
        (_, Some(target)) => Err(MoveError::TargetHalfFilled { from: target.store.clone() }),
    }
}

/// Refuses a source that another move fills, and a target that another move has emptied.
async fn refuse_in_other_move(from: Side<'_>, to: Side<'_>) -> Result<(), MoveError> {
    let filled = from.mark_as(End::Target).await?;
    if let Some((mark, _)) = filled.filter(|(mark, _)| !mark.done) {
        return Err(MoveError::SourceHalfFilled { from: mark.store });
    }
    match to.mark_as(End::Source).await? {
        Some((mark, _)) => Err(MoveError::TargetMoved { to: mark.store }),
        None => Ok(()),
    }
}

/// Refuses a target that holds something.
async fn refuse_if_taken(to: Side<'_>, mark: Option<&Mark>) -> Result<(), MoveError> {
    let (jobs, records) = (to.count_jobs().await?, Unarchived::of(to).await?.tally().count);
    match mark {
        _ if jobs + records == 0 => Ok(()),
        Some(mark) => Err(MoveError::TargetWhole { from: mark.store.clone() }),
        None => Err(MoveError::TargetTaken { jobs, records }),
    }
}

/// A move as this process carries it out. Its fences have the versions of the marks that it has written.
struct Run<'a> {
    id: String,
    from: Side<'a>,
    to: Side<'a>,
    source_fence: Fence,
    target_fence: Fence,
}

impl<'a> Run<'a> {
    /// Marks both stores, the source first, and shuts out every process that began or took up this move before.
    async fn begin(from: Side<'a>, to: Side<'a>) -> Result<Self, MoveError> {
        from.refuse_if_used().await?;
        to.refuse_if_used().await?;
        let (source, source_version) = from.mark_as(End::Source).await?.unzip();
        let (target, target_version) = to.mark_as(End::Target).await?.unzip();
        let (source_version, target_version) =
            (source_version.unwrap_or_default(), target_version.unwrap_or_default());
        refuse_in_other_move(from, to).await?;
        if let (Some(source), Some(target)) = (&source, &target)
            && source.is_same_move(target)
            && target.done
        {
            // The target may be in use by now. A source that does not know it lost its last mark with its server.
            let mark = Mark { done: true, ..source.clone() };
            from.write_mark(Some(&mark), source_version).await?;
            return Err(MoveError::SourceMoved { to: mark.store });
        }
        if !is_begun(to.name, source.as_ref(), target.as_ref())? {
            refuse_if_taken(to, target.as_ref()).await?;
        }
        let known = source.as_ref().and_then(|source| source.id.clone());
        let id = known.unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
        let mark = |other: Side<'_>| Mark { store: other.name.to_owned(), done: false, id: Some(id.clone()) };
        let (source, target) = (source.unwrap_or_else(|| mark(to)), mark(from));
        let source = Mark { id: Some(id.clone()), ..source };
        let source_fence = from.renew_mark(&source, source_version).await?;
        let target_fence = to.renew_mark(&target, target_version).await?;
        // A Redis that crashes may lose its last two seconds. With them it must not lose the marks: both would be served.
        if [from, to].iter().any(|side| side.store.durability() == Durability::EverySecond) {
            tokio::time::sleep(MARKS_DURABLE_AFTER).await;
        }
        // A server that starts says that it is there and then looks for marks, so one of the two sees the other.
        from.refuse_if_used().await?;
        to.refuse_if_used().await?;
        Ok(Run { id, from, to, source_fence, target_fence })
    }

    /// Marks both stores as whole, the source first: between the two neither is served.
    async fn end(self) -> Result<(), MoveError> {
        let Run { from, to, .. } = self;
        let mark =
            |other: Side<'_>| Mark { store: other.name.to_owned(), done: true, id: Some(self.id.clone()) };
        let begun = from.mark_as(End::Source).await?;
        if !begun.is_some_and(|(begun, _)| begun.is_same_move(&mark(to))) {
            return Err(MoveError::CalledOff);
        }
        from.write_mark(Some(&mark(to)), self.source_fence.number).await?;
        to.write_mark(Some(&mark(from)), self.target_fence.number).await.map(drop)
    }

    /// Leases do not travel, so each is ended as if its holder had vanished.
    async fn end_leases(&self) -> Result<u64, MoveError> {
        let Side { store, now, .. } = self.from;
        let mut ended = 0;
        loop {
            let claim = Claim {
                pick: Pick::Orphaned,
                max: LOAD_JOBS,
                now: Timestamp::MAX,
                lease_until: now.plus(LEASE_LASTS),
                worker: "store migrate".into(),
                provider: None,
                outlives_process: true,
                turns: Turns::default(),
            };
            let leases = self.from.write(self.source_fence, FencedWrite::Claim(claim)).await?;
            if leases.is_empty() {
                return Ok(ended);
            }
            let settlements = leases.iter().map(|lease| {
                let unknown = || LostLease {
                    attempt: lease.attempt,
                    claimed_at: now,
                    worker: "a server".into(),
                    provider: None,
                };
                let holder = lease.lost.clone().unwrap_or_else(unknown);
                let words = format!(
                    "the store was moved while {} had the job on attempt {}; the provider may have taken it",
                    holder.worker, holder.attempt
                );
                let (lost, failure) = decide::lost_attempt(&lease.job, &holder, &words, now);
                let audit = AuditEvent::about(&lease.job, AuditKind::LeaseLost, now)
                    .failure(&failure)
                    .attempt(holder.attempt)
                    .reason("Moved to another store while it was being delivered".to_owned());
                Settlement {
                    token: lease.token,
                    transition: Transition::Release { at: now, lost: Some(lost) },
                    audit: Some(audit),
                    now,
                    follow_ups: Vec::new(),
                }
            });
            let settled = self.from.at(store.settle(settlements.collect()).await)?;
            ended += settled.iter().filter(|settled| **settled == Settled::Done).count() as u64;
        }
    }

    async fn copy_jobs(
        &self,
        queue: &Queue,
        unarchived: &mut Unarchived,
        watch: &mut impl FnMut(Step),
    ) -> Result<Tally, MoveError> {
        let of = self.from.count_jobs().await?;
        let places = queue.places();
        let mut tally = Tally::default();
        let copied = self.from.each_load(async |mut jobs| {
            for job in &mut jobs {
                tally.add(digest(job));
                job.queue_place = places.get(&job.job.id).copied();
                job.archived = job.audit.len() - unarchived.take_from(&job.audit);
            }
            self.to.write(self.target_fence, FencedWrite::Adopt(jobs)).await?;
            watch(Step::Copied { done: tally.count, of });
            Ok(())
        });
        copied.await?;
        Ok(tally)
    }

    async fn copy_entries(&self, queue: &Queue, namespaces: &[Namespace]) -> Result<Tally, MoveError> {
        let mut tally = Tally::default();
        for namespace in namespaces {
            let mut entries = self.from.entries(*namespace).await?;
            if *namespace == bulk::NAMESPACE {
                for entry in &mut entries {
                    let moved = queue.moved_bulk(self.from.store, self.to.store, entry.value.clone()).await;
                    entry.value = self.from.at(moved)?;
                }
            }
            entries.iter().for_each(|entry| tally.add(entry_digest(*namespace, entry)));
            let writes = entries.into_iter().map(|entry| KvWrite {
                namespace: *namespace,
                key: entry.key,
                value: Some(entry.value),
                expect: None,
                expires_at: entry.expires_at,
                audit: Vec::new(),
            });
            let writes = FencedWrite::KvWrite(writes.collect(), self.to.now);
            self.to.write(self.target_fence, writes).await?;
        }
        Ok(tally)
    }
}

/// Reads back what arrived: what was not written down is not there.
async fn check(
    to: Side<'_>,
    moved: Moved,
    namespaces: &[Namespace],
    watch: &mut impl FnMut(Step),
) -> Result<(), MoveError> {
    let mut unarchived = Unarchived::of(to).await?;
    let mut jobs = Tally::default();
    let read = to.each_load(async |found| {
        for job in &found {
            jobs.add(digest(job));
            unarchived.take_from(&job.audit);
        }
        watch(Step::Checked { done: jobs.count, of: moved.jobs.count });
        Ok(())
    });
    read.await?;
    same("jobs", moved.jobs, jobs)?;
    same("audit records", moved.records, unarchived.tally())?;
    let mut entries = Tally::default();
    for namespace in namespaces {
        let here = to.entries(*namespace).await?;
        here.iter().for_each(|entry| entries.add(entry_digest(*namespace, entry)));
    }
    same("key-value entries", moved.entries, entries)
}

fn same(what: &str, given: Tally, found: Tally) -> Result<(), MoveError> {
    if given == found {
        return Ok(());
    }
    let what = match given.count == found.count {
        true => format!("the checksums of {} {what} differ", given.count),
        false => format!("{} {what} were given, {} are there", given.count, found.count),
    };
    Err(MoveError::Differs { what })
}

/// Everything that can be read of a job; payloads beside, because `Debug` keeps them to itself. Of checksums only what
/// they find: a job that came without one gets one, and one that has ended needs none. Of a body's digest the part that
/// every store keeps.
fn digest(transfer: &JobSnapshot) -> u128 {
    let damage = match (&transfer.state, &transfer.dead_letter) {
        (SnapshotState::Ended { .. }, _) => None,
        (_, Some(entry)) => entry.damage(),
        (_, None) => transfer.job.damage(),
    };
    let mut bare = transfer.clone();
    bare.job.checksum = None;
    bare.body_hash = BodyHash::of_kept(bare.body_hash.kept());
    bare.dead_letter = bare.dead_letter.map(|entry| DeadLetter { checksum: None, ..entry });
    let original = transfer.dead_letter.as_ref().map_or("", |entry| entry.original_data.as_str());
    let answer = match &transfer.state {
        SnapshotState::Ended { answer: Some(answer), .. } => answer.as_str(),
        _ => "",
    };
    let damage = damage.map_or("", Damage::as_str);
    digest_of(&[&format!("{bare:?}"), transfer.job.data.as_str(), original, answer, damage])
}

/// Without the version, which belongs to its store.
fn entry_digest(namespace: Namespace, entry: &KvEntry) -> u128 {
    digest_of(&[namespace.as_str(), &entry.key, entry.value.as_str(), &format!("{:?}", entry.expires_at)])
}

#[cfg(test)]
mod tests;
