//! Everything from one store into another, checked by counts and checksums.
//!
//! Neither store is served meanwhile: both are marked before anything moves, see [`marks`]. Jobs, notes and records
//! that are not archived are copied, and the source keeps its own. A move that was cut off is taken up again by
//! asking for it again: what has arrived is left alone. The process that takes it up raises the fences of both stores, so the
//! one before it writes nothing more, should it still be there.

mod marks;
mod queue;
mod trail;

use recado_core::words::counted;
use std::sync::Arc;
use std::time::Duration;

use recado_core::payload::digest_of;
use recado_core::{Attempt, AttemptResult, AuditEvent, AuditKind, Damage, DeadLetter, Timestamp, Transition};
use recado_engine::dlq::bulk;
use recado_engine::duties::nodes;
use recado_store::{
    Claim, Durability, Fence, FencedWrite, JobSnapshot, KvEntry, KvWrite, Namespace, Pick, Settled,
    Settlement, Standing, Store, StoreError, Turns,
};
use serde::Serialize;

use marks::{End, Mark, is_same_store};
use queue::Queue;
use trail::Unarchived;

pub use marks::{InMove, in_move};

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
    #[error("cannot write to the target: {0}; ask again to go on where it stopped")]
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
        "the target holds a part of what {from} had, of a move that was called off or is another one's; empty it (remove \
         its data directory, or its keys from Redis), and ask again"
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
    #[error("the source is being moved to {to}; go on with that move, or call it off with --to {to} --abort")]
    SourceMoving { to: String },
    #[error("the source is not being moved; there is nothing to call off")]
    NoMove,
    #[error("the move was called off meanwhile: serve the source")]
    CalledOff,
    #[error(
        "another `recado store migrate` has taken this move over, or it was finished or called off: this one has \
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

impl MoveError {
    fn source(error: StoreError) -> Self {
        match error {
            StoreError::Fenced => MoveError::TakenOver,
            error => MoveError::Source(error),
        }
    }

    fn target(error: StoreError) -> Self {
        match error {
            StoreError::Fenced => MoveError::TakenOver,
            error => MoveError::Target(error),
        }
    }
}

/// A move as this process carries it out. Its fences have the versions of the marks that it has written.
struct Run {
    id: String,
    source: Fence,
    target: Fence,
}

/// A store and what people call it. The name shows no password.
#[derive(Clone, Debug)]
pub struct Named {
    pub store: Arc<dyn Store>,
    pub name: String,
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
    pub notes: Tally,
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

/// Moves all jobs and the notes of these namespaces.
pub async fn move_all(
    from: &Named,
    to: &Named,
    namespaces: &[Namespace],
    now: Timestamp,
    mut watch: impl FnMut(Step),
) -> Result<Moved, MoveError> {
    let run = begin(from, to, now).await?;
    let leases_ended = end_leases(&*from.store, run.source, now).await.map_err(MoveError::source)?;
    let queue = Queue::of(&*from.store).await.map_err(MoveError::source)?;
    let mut unarchived = Unarchived::of(&*from.store, now).await.map_err(MoveError::source)?;
    let jobs = copy_jobs(from, to, run.target, &queue, &mut unarchived, now, &mut watch).await?;
    let records = unarchived.tally();
    trail::copy(from, to, run.target, unarchived, now).await?;
    let arrived = Queue::of(&*to.store).await.map_err(MoveError::target)?;
    if !queue.is_same_as(&arrived) {
        return Err(MoveError::Differs { what: "the order of the dead letters differs".to_owned() });
    }
    let notes = copy_notes(from, to, run.target, &queue, namespaces, now).await?;
    let moved = Moved { jobs, notes, records, leases_ended };
    check(to, moved, namespaces, now, &mut watch).await?;
    end(from, to, run, now).await?;
    Ok(moved)
}

/// Calls off a move that is not whole: the source may be served again. What has arrived stays in the target, which is
/// not served until it has been emptied.
pub async fn call_off(from: &Named, to: &str, now: Timestamp) -> Result<(), MoveError> {
    let mark = marks::read(&*from.store, End::Source, now).await.map_err(MoveError::source)?;
    let (mark, version) = mark.ok_or(MoveError::NoMove)?;
    if mark.done {
        return Err(MoveError::SourceMoved { to: mark.store });
    }
    if !is_same_store(&mark.store, to) {
        return Err(MoveError::SourceMoving { to: mark.store });
    }
    // A process that still moves is shut out before the source may be served.
    let fence =
        marks::renew(&*from.store, End::Source, &mark, version, now).await.map_err(MoveError::source)?;
    let removed = marks::write(&*from.store, End::Source, None, fence.number, now).await;
    removed.map(drop).map_err(MoveError::source)
}

/// Marks both stores, the source first, and shuts out every process that began or took up this move before.
async fn begin(from: &Named, to: &Named, now: Timestamp) -> Result<Run, MoveError> {
    refuse_if_used(from, now).await.map_err(MoveError::source)??;
    refuse_if_used(to, now).await.map_err(MoveError::target)??;
    let source = marks::read(&*from.store, End::Source, now).await.map_err(MoveError::source)?;
    let target = marks::read(&*to.store, End::Target, now).await.map_err(MoveError::target)?;
    let (source, source_version) = source.map_or((None, 0), |(mark, version)| (Some(mark), version));
    let (target, target_version) = target.map_or((None, 0), |(mark, version)| (Some(mark), version));
    refuse_in_other_move(from, to, now).await?;
    if let (Some(source), Some(target)) = (&source, &target)
        && source.is_same_move(target)
        && target.done
    {
        // The target may be in use by now. A source that does not know it lost its last mark with its server.
        let mark = Mark { done: true, ..source.clone() };
        let written = marks::write(&*from.store, End::Source, Some(&mark), source_version, now).await;
        written.map_err(MoveError::source)?;
        return Err(MoveError::SourceMoved { to: mark.store });
    }
    let begun = begun(to, source.as_ref(), target.as_ref())?;
    if begun != Begun::AtBothEnds {
        refuse_if_taken(to, target.as_ref(), now).await?;
    }
    let known = source.as_ref().and_then(|source| source.id.clone());
    let id = known.unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
    let mark = |other: &Named| Mark { store: other.name.clone(), done: false, id: Some(id.clone()) };
    let source = Mark { id: Some(id.clone()), ..source.unwrap_or_else(|| mark(to)) };
    let source = marks::renew(&*from.store, End::Source, &source, source_version, now).await;
    let source = source.map_err(MoveError::source)?;
    let target = marks::renew(&*to.store, End::Target, &mark(from), target_version, now).await;
    let target = target.map_err(MoveError::target)?;
    // A Redis that crashes may lose its last two seconds. With them it must not lose the marks: both would be served.
    if [from, to].iter().any(|side| side.store.durability() == Durability::EverySecond) {
        tokio::time::sleep(MARKS_DURABLE_AFTER).await;
    }
    // A server that starts says that it is there and then looks for marks, so one of the two sees the other.
    refuse_if_used(from, now).await.map_err(MoveError::source)??;
    refuse_if_used(to, now).await.map_err(MoveError::target)??;
    Ok(Run { id, source, target })
}

/// The marks of an earlier begin of the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    Nowhere,
    AtItsSource,
    AtBothEnds,
}

/// Decides by the marks whether this move may begin or go on.
fn begun(to: &Named, source: Option<&Mark>, target: Option<&Mark>) -> Result<Begun, MoveError> {
    let unfinished = target.filter(|target| !target.done);
    match (source, unfinished) {
        (Some(source), Some(target)) if source.is_same_move(target) => Ok(Begun::AtBothEnds),
        (Some(source), _) if source.done => Err(MoveError::SourceMoved { to: source.store.clone() }),
        (Some(source), _) if !is_same_store(&source.store, &to.name) => {
            Err(MoveError::SourceMoving { to: source.store.clone() })
        }
        (Some(_), None) => Ok(Begun::AtItsSource),
        (None, None) => Ok(Begun::Nowhere),
        (_, Some(target)) => Err(MoveError::TargetHalfFilled { from: target.store.clone() }),
    }
}

/// Refuses a source that another move fills, and a target that another move has emptied.
async fn refuse_in_other_move(from: &Named, to: &Named, now: Timestamp) -> Result<(), MoveError> {
    let filled = marks::read(&*from.store, End::Target, now).await.map_err(MoveError::source)?;
    if let Some((mark, _)) = filled.filter(|(mark, _)| !mark.done) {
        return Err(MoveError::SourceHalfFilled { from: mark.store });
    }
    match marks::read(&*to.store, End::Source, now).await.map_err(MoveError::target)? {
        Some((mark, _)) => Err(MoveError::TargetMoved { to: mark.store }),
        None => Ok(()),
    }
}

/// Refuses a target that holds something.
async fn refuse_if_taken(to: &Named, mark: Option<&Mark>, now: Timestamp) -> Result<(), MoveError> {
    let jobs = total(&*to.store, now).await.map_err(MoveError::target)?;
    let records = Unarchived::of(&*to.store, now).await.map_err(MoveError::target)?.tally().count;
    match mark {
        _ if jobs + records == 0 => Ok(()),
        Some(mark) => Err(MoveError::TargetWhole { from: mark.store.clone() }),
        None => Err(MoveError::TargetTaken { jobs, records }),
    }
}

/// Refuses a store whose nodes still run: it would change under the move.
async fn refuse_if_used(side: &Named, now: Timestamp) -> Result<Result<(), MoveError>, StoreError> {
    let found = side.store.kv_list(nodes::NAMESPACE, now).await?;
    if found.is_empty() {
        return Ok(Ok(()));
    }
    let running: Vec<&str> = found.iter().map(|note| &*note.key).collect();
    Ok(Err(MoveError::InUse { store: side.name.clone(), nodes: running.join(", ") }))
}

/// Marks both stores as whole, the source first: between the two neither is served.
async fn end(from: &Named, to: &Named, run: Run, now: Timestamp) -> Result<(), MoveError> {
    let mark = |other: &Named| Mark { store: other.name.clone(), done: true, id: Some(run.id.clone()) };
    let begun = marks::read(&*from.store, End::Source, now).await.map_err(MoveError::source)?;
    if !begun.is_some_and(|(begun, _)| begun.is_same_move(&mark(to))) {
        return Err(MoveError::CalledOff);
    }
    let left = marks::write(&*from.store, End::Source, Some(&mark(to)), run.source.number, now).await;
    left.map_err(MoveError::source)?;
    let arrived = marks::write(&*to.store, End::Target, Some(&mark(from)), run.target.number, now).await;
    arrived.map(drop).map_err(MoveError::target)
}

async fn total(store: &dyn Store, now: Timestamp) -> Result<u64, StoreError> {
    let counts = store.counts(now).await?;
    Ok(counts.delayed + counts.ready + counts.leased + counts.dead_letters + counts.ended)
}

/// Leases do not travel, so each is ended as if its holder had vanished.
async fn end_leases(store: &dyn Store, fence: Fence, now: Timestamp) -> Result<u64, StoreError> {
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
        let leases = store.write_fenced(fence, FencedWrite::Claim(claim)).await?;
        if leases.is_empty() {
            return Ok(ended);
        }
        let settlements = leases.iter().map(|lease| {
            let claimed_at = lease.lost.as_ref().map_or(now, |lost| lost.claimed_at);
            let mut lost = Attempt::ended(lease.attempt, claimed_at, now, AttemptResult::Lost);
            lost.provider = lease.lost.as_ref().and_then(|lost| lost.provider.clone());
            lost.replays = lease.job.progress.replays;
            let audit = AuditEvent::about(&lease.job, AuditKind::LeaseLost, now)
                .attempt(lease.attempt)
                .reason("Moved to another store while it was being delivered".to_owned());
            Settlement {
                token: lease.token,
                transition: Transition::Release { at: now, lost: Some(lost) },
                audit: Some(audit),
                now,
                follow_ups: Vec::new(),
            }
        });
        let settled = store.settle(settlements.collect()).await?;
        ended += settled.iter().filter(|settled| **settled == Settled::Done).count() as u64;
    }
}

async fn copy_jobs(
    from: &Named,
    to: &Named,
    fence: Fence,
    queue: &Queue,
    unarchived: &mut Unarchived,
    now: Timestamp,
    watch: &mut impl FnMut(Step),
) -> Result<Tally, MoveError> {
    let of = total(&*from.store, now).await.map_err(MoveError::source)?;
    let places = queue.places();
    let mut tally = Tally::default();
    let mut after = None;
    loop {
        let mut page = from.store.transfers(after, LOAD_JOBS).await.map_err(MoveError::source)?;
        for transfer in &mut page.items {
            tally.add(digest(transfer));
            transfer.queue_place = places.get(&transfer.job.id).copied();
            transfer.archived = transfer.audit.len() - unarchived.take_from(&transfer.audit);
        }
        to.store.write_fenced(fence, FencedWrite::Adopt(page.items)).await.map_err(MoveError::target)?;
        watch(Step::Copied { done: tally.count, of });
        after = page.next;
        if after.is_none() {
            return Ok(tally);
        }
    }
}

async fn copy_notes(
    from: &Named,
    to: &Named,
    fence: Fence,
    queue: &Queue,
    namespaces: &[Namespace],
    now: Timestamp,
) -> Result<Tally, MoveError> {
    let mut tally = Tally::default();
    for namespace in namespaces {
        let mut notes = from.store.kv_list(*namespace, now).await.map_err(MoveError::source)?;
        if *namespace == bulk::NAMESPACE {
            for note in &mut notes {
                let moved = queue.moved_bulk(&*from.store, &*to.store, note.value.clone()).await;
                note.value = moved.map_err(MoveError::source)?;
            }
        }
        notes.iter().for_each(|note| tally.add(note_digest(*namespace, note)));
        let writes = notes.into_iter().map(|note| KvWrite {
            namespace: *namespace,
            key: note.key,
            value: Some(note.value),
            expect: None,
            expires_at: note.expires_at,
            audit: Vec::new(),
        });
        let writes = FencedWrite::KvWrite(writes.collect(), now);
        to.store.write_fenced(fence, writes).await.map_err(MoveError::target)?;
    }
    Ok(tally)
}

/// Reads back what arrived: what was not written down is not there.
async fn check(
    to: &Named,
    moved: Moved,
    namespaces: &[Namespace],
    now: Timestamp,
    watch: &mut impl FnMut(Step),
) -> Result<(), MoveError> {
    let mut unarchived = Unarchived::of(&*to.store, now).await.map_err(MoveError::target)?;
    let mut found = Tally::default();
    let mut after = None;
    loop {
        let page = to.store.transfers(after, LOAD_JOBS).await.map_err(MoveError::target)?;
        for transfer in &page.items {
            found.add(digest(transfer));
            unarchived.take_from(&transfer.audit);
        }
        watch(Step::Checked { done: found.count, of: moved.jobs.count });
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    same("jobs", moved.jobs, found)?;
    same("audit records", moved.records, unarchived.tally())?;
    let mut found = Tally::default();
    for namespace in namespaces {
        let here = to.store.kv_list(*namespace, now).await.map_err(MoveError::target)?;
        here.iter().for_each(|note| found.add(note_digest(*namespace, note)));
    }
    same("notes", moved.notes, found)
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
/// they find: a job that came without one gets one, and one that has ended needs none.
fn digest(transfer: &JobSnapshot) -> u128 {
    let damage = match (&transfer.standing, &transfer.dead_letter) {
        (Standing::Ended { .. }, _) => None,
        (_, Some(entry)) => entry.damage(),
        (_, None) => transfer.job.damage(),
    };
    let mut bare = transfer.clone();
    bare.job.checksum = None;
    bare.dead_letter = bare.dead_letter.map(|entry| DeadLetter { checksum: None, ..entry });
    let original = transfer.dead_letter.as_ref().map_or("", |entry| entry.original_data.as_str());
    let answer = match &transfer.standing {
        Standing::Ended { answer: Some(answer), .. } => answer.as_str(),
        _ => "",
    };
    let damage = damage.map_or("", Damage::as_str);
    digest_of(&[&format!("{bare:?}"), transfer.job.data.as_str(), original, answer, damage])
}

/// Without the version, which belongs to its store.
fn note_digest(namespace: Namespace, note: &KvEntry) -> u128 {
    digest_of(&[namespace.as_str(), &note.key, note.value.as_str(), &format!("{:?}", note.expires_at)])
}

#[cfg(test)]
mod tests;
