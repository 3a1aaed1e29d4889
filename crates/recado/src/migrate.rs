//! Everything from one store into another, checked by counts and checksums.
//!
//! Nobody may use either store meanwhile. Jobs, notes and records that nobody has archived are copied, the source keeps its own and is marked
//! as moved, so that nobody serves it by mistake and delivers what is delivered elsewhere. A move that was
//! cut off is taken up again by asking for it again: what has arrived is left alone.

mod trail;

use std::sync::Arc;

use recado_core::payload::digest_of;
use recado_core::{
    Attempt, AttemptResult, AuditEvent, AuditKind, Damage, DeadLetter, Payload, Timestamp, Transition,
};
use recado_store::{
    Claim, Note, NoteWrite, Pick, Settled, Settlement, Shelf, Standing, Store, StoreError, Transfer, Turns,
};
use serde::{Deserialize, Serialize};

use trail::Unarchived;

/// Jobs that are carried at a time.
const LOAD_JOBS: usize = 1_000;

/// What is known of a store's moves, under [`FROM`] and [`TO`].
const MOVES: Shelf = Shelf::new("moves");
const FROM: &str = "from";
const TO: &str = "to";

#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error("cannot read the source: {0}")]
    Source(StoreError),
    #[error("cannot write to the target: {0}; ask again to go on where it stopped")]
    Target(StoreError),
    #[error(
        "the target holds {jobs} jobs and {records} audit records already, and they did not come from {from}; move into an \
         empty store"
    )]
    TargetTaken { jobs: u64, records: u64, from: String },
    #[error("the source was moved to {to} before; start that one, or move from there")]
    SourceMoved { to: String },
    #[error(
        "the target does not hold what the source gave ({what}): nothing was switched over; \
         is somebody using one of the two?"
    )]
    Differs { what: String },
}

#[derive(Serialize, Deserialize)]
struct Mark {
    store: String,
    done: bool,
}

/// A store and what people call it. The name shows no password.
#[derive(Clone, Debug)]
pub struct Named {
    pub store: Arc<dyn Store>,
    pub name: String,
}

/// What there is of a store, in two numbers: the sum does not depend on the order.
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
    /// Audit records about no job in the store that nobody has archived; those about jobs came with them.
    pub records: Tally,
    /// Leases that were taken over before: their jobs may have been sent.
    pub leases_ended: u64,
}

/// Where a move has come to, for whoever watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Copied { done: u64, of: u64 },
    Checked { done: u64, of: u64 },
}

/// Where jobs were moved to from here, if they were.
pub async fn moved_to(store: &dyn Store, now: Timestamp) -> Result<Option<String>, StoreError> {
    Ok(mark(store, TO, now).await?.filter(|mark| mark.done).map(|mark| mark.store))
}

async fn mark(store: &dyn Store, key: &str, now: Timestamp) -> Result<Option<Mark>, StoreError> {
    let note = store.note(MOVES, key, now).await?;
    Ok(note.and_then(|note| note.value.parse().ok()))
}

async fn write_mark(store: &dyn Store, key: &str, mark: &Mark, now: Timestamp) -> Result<(), StoreError> {
    let value = serde_json::to_string(mark).ok().map(Payload::trusted);
    let write = NoteWrite { shelf: MOVES, key: key.into(), value, expect: None, expires_at: None };
    store.write_notes(vec![write], now).await.map(drop)
}

/// Moves all jobs and the notes of these shelves.
pub async fn move_all(
    from: &Named,
    to: &Named,
    shelves: &[Shelf],
    now: Timestamp,
    mut watch: impl FnMut(Step),
) -> Result<Moved, MoveError> {
    if let Some(to) = moved_to(&*from.store, now).await.map_err(MoveError::Source)? {
        return Err(MoveError::SourceMoved { to });
    }
    let here = total(&*to.store, now).await.map_err(MoveError::Target)?;
    let arriving = mark(&*to.store, FROM, now).await.map_err(MoveError::Target)?;
    let arriving = arriving.is_some_and(|mark| mark.store == from.name && !mark.done);
    let records = Unarchived::of(&*to.store, now).await.map_err(MoveError::Target)?.tally().count;
    if here + records > 0 && !arriving {
        return Err(MoveError::TargetTaken { jobs: here, records, from: from.name.clone() });
    }
    let leases_ended = end_leases(&*from.store, now).await.map_err(MoveError::Source)?;
    let under_way = Mark { store: from.name.clone(), done: false };
    write_mark(&*to.store, FROM, &under_way, now).await.map_err(MoveError::Target)?;

    let mut unarchived = Unarchived::of(&*from.store, now).await.map_err(MoveError::Source)?;
    let jobs = copy_jobs(from, to, &mut unarchived, now, &mut watch).await?;
    let records = unarchived.tally();
    trail::copy(from, to, unarchived, now).await?;
    let notes = copy_notes(from, to, shelves, now).await?;
    let moved = Moved { jobs, notes, records, leases_ended };
    check(to, moved, shelves, now, &mut watch).await?;

    let arrived = Mark { store: from.name.clone(), done: true };
    write_mark(&*to.store, FROM, &arrived, now).await.map_err(MoveError::Target)?;
    let left = Mark { store: to.name.clone(), done: true };
    write_mark(&*from.store, TO, &left, now).await.map_err(MoveError::Source)?;
    Ok(moved)
}

async fn total(store: &dyn Store, now: Timestamp) -> Result<u64, StoreError> {
    let counts = store.counts(now).await?;
    Ok(counts.delayed + counts.ready + counts.leased + counts.dead_letters + counts.ended)
}

/// Leases do not travel, so each is ended as if its holder had vanished.
async fn end_leases(store: &dyn Store, now: Timestamp) -> Result<u64, StoreError> {
    let mut ended = 0;
    loop {
        let claim = Claim {
            pick: Pick::Orphaned,
            max: LOAD_JOBS,
            now: Timestamp::MAX,
            lease_until: Timestamp::MAX,
            worker: "store migrate".into(),
            outlives_process: true,
            turns: Turns::default(),
        };
        let leases = store.claim(claim).await?.leases;
        if leases.is_empty() {
            return Ok(ended);
        }
        let settlements = leases.iter().map(|lease| {
            let claimed_at = lease.lost.as_ref().map_or(now, |lost| lost.claimed_at);
            let lost = Attempt::ended(lease.attempt, claimed_at, now, AttemptResult::Lost);
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
    unarchived: &mut Unarchived,
    now: Timestamp,
    watch: &mut impl FnMut(Step),
) -> Result<Tally, MoveError> {
    let of = total(&*from.store, now).await.map_err(MoveError::Source)?;
    let mut tally = Tally::default();
    let mut after = None;
    loop {
        let mut page = from.store.transfers(after, LOAD_JOBS).await.map_err(MoveError::Source)?;
        for transfer in &mut page.items {
            tally.add(digest(transfer));
            transfer.archived = transfer.audit.len() - unarchived.take_from(&transfer.audit);
        }
        to.store.adopt(page.items).await.map_err(MoveError::Target)?;
        watch(Step::Copied { done: tally.count, of });
        after = page.next;
        if after.is_none() {
            return Ok(tally);
        }
    }
}

async fn copy_notes(from: &Named, to: &Named, shelves: &[Shelf], now: Timestamp) -> Result<Tally, MoveError> {
    let mut tally = Tally::default();
    for shelf in shelves {
        let notes = from.store.notes(*shelf, now).await.map_err(MoveError::Source)?;
        notes.iter().for_each(|note| tally.add(note_digest(*shelf, note)));
        let writes = notes.into_iter().map(|note| NoteWrite {
            shelf: *shelf,
            key: note.key,
            value: Some(note.value),
            expect: None,
            expires_at: note.expires_at,
        });
        to.store.write_notes(writes.collect(), now).await.map_err(MoveError::Target)?;
    }
    Ok(tally)
}

/// Reads back what arrived: what was not written down is not there.
async fn check(
    to: &Named,
    moved: Moved,
    shelves: &[Shelf],
    now: Timestamp,
    watch: &mut impl FnMut(Step),
) -> Result<(), MoveError> {
    let mut unarchived = Unarchived::of(&*to.store, now).await.map_err(MoveError::Target)?;
    let mut found = Tally::default();
    let mut after = None;
    loop {
        let page = to.store.transfers(after, LOAD_JOBS).await.map_err(MoveError::Target)?;
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
    for shelf in shelves {
        let here = to.store.notes(*shelf, now).await.map_err(MoveError::Target)?;
        here.iter().for_each(|note| found.add(note_digest(*shelf, note)));
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
fn digest(transfer: &Transfer) -> u128 {
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
fn note_digest(shelf: Shelf, note: &Note) -> u128 {
    digest_of(&[shelf.as_str(), &note.key, note.value.as_str(), &format!("{:?}", note.expires_at)])
}

#[cfg(test)]
mod tests;
