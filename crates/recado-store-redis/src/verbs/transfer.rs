//! Reads and adopts whole jobs, for moves between stores and for the archive of dead letters.

use std::collections::BTreeMap;

use async_trait::async_trait;
use recado_core::{DeadLetter, Job, JobId, Lease, Payload, Status};
use recado_store::{Adopted, Fence, FencedWrite, JobSnapshot, Page, SnapshotState, StoreError, Transfer};

use crate::codec::answer::Answer;
use crate::codec::dead_letter;
use crate::codec::keys::IdKey;
use crate::codec::record::{Ending, HeldState, Phase, Record, damaged, decode_or_mark, json, no_data};
use crate::link::Arg;
use crate::store::RedisStore;
use crate::verbs::audit::{audit_event, mark_archived};
use crate::verbs::partitions::BEYOND_ALL;

/// Jobs at most in one call: no other client is served while a script runs.
const CALL_JOBS_MAX: usize = 100;

#[async_trait]
impl Transfer for RedisStore {
    async fn forget(&self, ids: Vec<JobId>) -> Result<u64, StoreError> {
        let mut gone = 0;
        for id in &ids {
            let Some(found) = self.find(id).await? else { continue };
            let key = IdKey::of(id);
            let args = [Arg::Int(i64::from(key.bucket)), Arg::from(&*key.bytes)];
            for answer in self.run(&self.scripts.forget, found.partition, &args).await?.list()? {
                if answer.yes()? {
                    self.release(found.partition, vec![id.clone()]).await?;
                    gone += 1;
                }
            }
        }
        Ok(gone)
    }

    async fn adopt(&self, snapshots: Vec<JobSnapshot>) -> Result<Vec<Adopted>, StoreError> {
        let mut by_partition: BTreeMap<u16, Vec<(usize, &JobSnapshot)>> = BTreeMap::new();
        for (at, snapshot) in snapshots.iter().enumerate() {
            by_partition.entry(self.partition_of(&snapshot.job.company)).or_default().push((at, snapshot));
        }
        let mut answers = vec![Adopted::Known; snapshots.len()];
        for (partition, own) in by_partition {
            for some in own.chunks(CALL_JOBS_MAX) {
                self.adopt_some(partition, some, &mut answers).await?;
            }
        }
        let done = snapshots.iter().zip(&answers).filter(|(_, answer)| **answer == Adopted::Done);
        self.wakeups.announce(&self.link, done.map(|(snapshot, _)| &snapshot.job.route));
        Ok(answers)
    }

    /// Each partition knows the fence, and so does the key-value slot: a script sees no other slot's keys.
    async fn raise_fence(&self, fence: Fence) -> Result<(), StoreError> {
        let number = i64::try_from(fence.number).unwrap_or(i64::MAX);
        for root in self.roots.iter().chain([&self.kv_root]) {
            let args = [Arg::from(fence.name), Arg::Int(number)];
            if !root.run(&self.link, &self.scripts.fence, &args, None).await?.yes()? {
                return Err(StoreError::Fenced);
            }
        }
        Ok(())
    }

    async fn write_fenced(&self, fence: Fence, write: FencedWrite) -> Result<Vec<Lease>, StoreError> {
        write.execute(&self.with_fence(fence)).await
    }

    async fn snapshots(&self, after: Option<u64>, limit: usize) -> Result<Page<JobSnapshot>, StoreError> {
        let from = after.map_or(0, |after| after.saturating_add(1)).min(BEYOND_ALL);
        let most = limit.min(CALL_JOBS_MAX);
        let mut found = Vec::new();
        for partition in self.partitions() {
            let first = self.number_at(partition, from);
            let args = [Arg::Int(first.cast_signed()), Arg::Int(most as i64 + 1)];
            for row in self.run(&self.scripts.walk, partition, &args).await?.list()? {
                let (seq, snapshot) = read_snapshot(partition, row)?;
                found.push((self.order_of(partition, seq), snapshot));
            }
        }
        found.sort_by_key(|(order, _)| *order);
        let more = found.len() > most;
        found.truncate(most);
        let next = found.last().map(|(order, _)| *order).filter(|_| more);
        Ok(Page { items: found.into_iter().map(|(_, snapshot)| snapshot).collect(), next })
    }

    async fn snapshot(&self, id: &JobId) -> Result<Option<JobSnapshot>, StoreError> {
        let Some(found) = self.find(id).await? else { return Ok(None) };
        let args = [Arg::Int(found.seq.cast_signed()), Arg::Int(1)];
        let row = self.run(&self.scripts.walk, found.partition, &args).await?.list()?.pop();
        // The job may have been forgotten in between; then the script returns the next one.
        let snapshot = row.map(|row| read_snapshot(found.partition, row)).transpose()?;
        Ok(snapshot.map(|(_, snapshot)| snapshot).filter(|snapshot| snapshot.job.id == *id))
    }
}

impl RedisStore {
    async fn adopt_some(
        &self,
        partition: u16,
        snapshots: &[(usize, &JobSnapshot)],
        answers: &mut [Adopted],
    ) -> Result<(), StoreError> {
        let Some((_, first)) = snapshots.first() else { return Ok(()) };
        let refused = self.refused(partition, snapshots.iter().map(|(_, snapshot)| &snapshot.job.id)).await?;
        let mut args = vec![Arg::Int(self.floor(first.job.enqueued_at, 0))];
        let free = || snapshots.iter().filter(|(_, snapshot)| !refused.contains(&snapshot.job.id));
        free().try_for_each(|(_, snapshot)| push_snapshot(snapshot, &mut args))?;
        for ((at, _), answer) in free().zip(self.run(&self.scripts.adopt, partition, &args).await?.list()?) {
            if answer.yes()? {
                answers[*at] = Adopted::Done;
            }
        }
        Ok(())
    }
}

/// Pushes the arguments of one adopted job, as `adopt.lua` reads them.
fn push_snapshot<'a>(snapshot: &'a JobSnapshot, args: &mut Vec<Arg<'a>>) -> Result<(), StoreError> {
    let JobSnapshot { job, body_hash, state, dead_letter, queue_place, audit, archived } = snapshot;
    let (standing, phase, ended_at, answer) = match state {
        SnapshotState::Waiting => ("wait", Phase::Live, None, None),
        SnapshotState::Dead => ("dead", Phase::Dead, None, None),
        SnapshotState::Ended { status, at, answer } => {
            ("end", Phase::Ended(ending(*status)), Some(*at), answer.clone())
        }
    };
    let checksum = ended_at.is_none().then(|| snapshot.checksum());
    let (job_without, body_hash) = (Job { data: no_data(), checksum, ..job.clone() }, *body_hash);
    let record = Record { job: job_without, body_hash, phase, ended_at, answer, receipt: None };
    let original = dead_letter.as_ref().map_or(&job.data, |letter| &letter.original_data);
    let corrected = Some(&job.data).filter(|data| *data != original);
    let key = IdKey::of(&job.id);
    args.push(Arg::Int(i64::from(key.bucket)));
    args.push(Arg::from(Vec::from(key.bytes)));
    args.push(Arg::from(record.encode()?));
    args.push(Arg::from(standing));
    args.push(Arg::from(original.as_str()));
    args.push(Arg::Int(i64::from(corrected.is_some())));
    args.push(Arg::from(corrected.map_or("", Payload::as_str)));
    args.push(Arg::from(dead_letter.as_ref().map(dead_letter::encode).transpose()?.unwrap_or_default()));
    args.push(queue_place.map_or(Arg::from(""), |place| Arg::Int(place.cast_signed())));
    args.push(Arg::Int(ended_at.map_or(0, |at| at.as_millis())));
    args.push(Arg::Int(audit.len() as i64));
    for (nth, event) in audit.iter().enumerate() {
        let event = json(event)?;
        args.push(Arg::from(if nth < *archived { mark_archived(&event) } else { event }));
    }
    Ok(())
}

fn ending(status: Status) -> Ending {
    match status {
        Status::Sent => Ending::Sent,
        Status::Discarded => Ending::Discarded,
        _ => Ending::Cancelled,
    }
}

fn read_snapshot(partition: u16, row: Answer) -> Result<(u64, JobSnapshot), StoreError> {
    let [seq, head, data, letter, original, events] = row.parts()?;
    let seq = seq.count()?;
    let record = decode_or_mark(&head.bytes()?, partition, seq).ok_or_else(damaged)?;
    let mut dead_letter: Option<DeadLetter> = None;
    let data = data.payload()?;
    if let (Some(letter), Some(original)) = (letter.there(), original.there()) {
        let (original, corrected) = (original.payload()?, Some(data.clone()));
        dead_letter = Some(dead_letter::decode(&letter.bytes()?, record.clone(), original, corrected));
    }
    let mut audit = Vec::new();
    for event in events.list()? {
        audit.extend(audit_event(&event.bytes()?));
    }
    let state = match (record.phase, record.ended_at) {
        (Phase::Ended(_), Some(at)) => {
            let status = record.status(HeldState::Free, at);
            SnapshotState::Ended { status, at, answer: record.answer }
        }
        (Phase::Dead, _) => SnapshotState::Dead,
        _ => SnapshotState::Waiting,
    };
    let (job, body_hash) = (Job { data, ..record.job }, record.body_hash);
    let snapshot = JobSnapshot { job, body_hash, state, dead_letter, queue_place: None, audit, archived: 0 };
    Ok((seq, snapshot))
}
