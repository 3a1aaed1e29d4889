//! Reads and adopts whole jobs, for moves between stores and for the archive of dead letters.

use async_trait::async_trait;
use recado_core::{Job, JobId, Lease, Payload, Status};
use recado_store::{
    Adopted, Fence, FencedWrite, JobSnapshot, Page, SnapshotState, StoreError, StoreResult, Transfer,
};

use crate::codec::dead_letter;
use crate::codec::keys::IdKey;
use crate::codec::record::{HeldState, Phase, Record, damaged, decode_or_mark, json, no_data};
use crate::link::{Data, ScriptCall};
use crate::store::RedisStore;
use crate::verbs::audit::{audit_event, mark_archived};
use crate::verbs::partitions::{BEYOND_ALL, by_partition};

/// Jobs at most in one call: no other client is served while a script runs.
const CALL_JOBS_MAX: usize = 100;

#[async_trait]
impl Transfer for RedisStore {
    async fn forget(&self, ids: Vec<JobId>) -> StoreResult<u64> {
        let mut gone = 0;
        for id in &ids {
            let Some(found) = self.find(id).await? else { continue };
            let mut call = self.call(&self.scripts.forget, found.partition);
            let (is_gone,): (bool,) = self.run(call.arg(IdKey::of(id))).await?;
            if is_gone {
                self.release(found.partition, std::slice::from_ref(id)).await?;
                gone += 1;
            }
        }
        Ok(gone)
    }

    async fn adopt(&self, snapshots: Vec<JobSnapshot>) -> StoreResult<Vec<Adopted>> {
        let mut answers = vec![Adopted::Known; snapshots.len()];
        let placed = snapshots.iter().enumerate();
        let placed = placed.map(|(at, snapshot)| (self.partition_of(&snapshot.job.company), (at, snapshot)));
        for (partition, own) in by_partition(placed) {
            for some in own.chunks(CALL_JOBS_MAX) {
                self.adopt_some(partition, some, &mut answers).await?;
            }
        }
        let done = snapshots.iter().zip(&answers).filter(|(_, answer)| **answer == Adopted::Done);
        self.wakeups.announce(&self.link, done.map(|(snapshot, _)| &snapshot.job.route));
        Ok(answers)
    }

    /// Each partition knows the fence, and so does the key-value slot: a script sees no other slot's keys.
    async fn raise_fence(&self, fence: Fence) -> StoreResult<()> {
        let number = i64::try_from(fence.number).unwrap_or(i64::MAX);
        for root in self.roots.iter().chain([&self.kv_root]) {
            let mut call = root.call(&self.scripts.fence, None);
            if !self.link.run(call.arg(fence.name).arg(number)).await? {
                return Err(StoreError::Fenced);
            }
        }
        Ok(())
    }

    async fn write_fenced(&self, fence: Fence, write: FencedWrite) -> StoreResult<Vec<Lease>> {
        write.execute(&self.with_fence(fence)).await
    }

    async fn snapshots(&self, after: Option<u64>, limit: usize) -> StoreResult<Page<JobSnapshot>> {
        let from = after.map_or(0, |after| after.saturating_add(1)).min(BEYOND_ALL);
        let most = limit.min(CALL_JOBS_MAX);
        let mut found = Vec::new();
        for partition in self.partitions() {
            for (seq, snapshot) in self.walk(partition, self.number_at(partition, from), most + 1).await? {
                found.push((self.order_of(partition, seq), snapshot));
            }
        }
        found.sort_by_key(|(order, _)| *order);
        let more = found.len() > most;
        found.truncate(most);
        let next = found.last().map(|(order, _)| *order).filter(|_| more);
        Ok(Page { items: found.into_iter().map(|(_, snapshot)| snapshot).collect(), next })
    }

    async fn snapshot(&self, id: &JobId) -> StoreResult<Option<JobSnapshot>> {
        let Some(found) = self.find(id).await? else { return Ok(None) };
        let snapshot = self.walk(found.partition, found.seq, 1).await?.pop();
        // The job may have been forgotten in between; then the script returns the next one.
        Ok(snapshot.map(|(_, snapshot)| snapshot).filter(|snapshot| snapshot.job.id == *id))
    }
}

impl RedisStore {
    /// Reads the jobs of a partition from a number on, each with its number.
    async fn walk(&self, partition: u16, from: u64, most: usize) -> StoreResult<Vec<(u64, JobSnapshot)>> {
        let mut call = self.call(&self.scripts.walk, partition);
        let rows: Vec<SnapshotRow> = self.run(call.arg(from).arg(most)).await?;
        rows.into_iter().map(|row| Ok((row.0, read_snapshot(partition, row)?))).collect()
    }

    async fn adopt_some(
        &self,
        partition: u16,
        snapshots: &[(usize, &JobSnapshot)],
        answers: &mut [Adopted],
    ) -> StoreResult<()> {
        let Some((_, first)) = snapshots.first() else { return Ok(()) };
        let refused = self.reserve(partition, snapshots.iter().map(|(_, snapshot)| &snapshot.job.id)).await?;
        let mut call = self.call(&self.scripts.adopt, partition);
        call.arg(self.floor(first.job.enqueued_at, 0));
        let free = || snapshots.iter().filter(|(_, snapshot)| !refused.contains(&snapshot.job.id));
        free().try_for_each(|(_, snapshot)| push_snapshot(snapshot, &mut call))?;
        let adopted: Vec<bool> = self.run(&call).await?;
        for ((at, _), _) in free().zip(adopted).filter(|(_, is_done)| *is_done) {
            answers[*at] = Adopted::Done;
        }
        Ok(())
    }
}

/// Pushes the arguments of one adopted job, as `adopt.lua` reads them.
fn push_snapshot(snapshot: &JobSnapshot, call: &mut ScriptCall<'_>) -> StoreResult<()> {
    let JobSnapshot { job, body_hash, state, dead_letter, queue_place, audit, archived } = snapshot;
    let (standing, phase, ended_at, answer) = match state {
        SnapshotState::Waiting => ("wait", Phase::Live, None, None),
        SnapshotState::Dead => ("dead", Phase::Dead, None, None),
        SnapshotState::Ended { status, at, answer } => {
            ("end", ended_phase(*status), Some(*at), answer.clone())
        }
    };
    let checksum = ended_at.is_none().then(|| snapshot.checksum());
    let without_data = Job { data: no_data(), checksum, ..job.clone() };
    let record = Record { ended_at, answer, ..Record::of(without_data, *body_hash, phase) };
    let original = dead_letter.as_ref().map_or(&job.data, |letter| &letter.original_data);
    let corrected = Some(&job.data).filter(|data| *data != original);
    call.arg(IdKey::of(&job.id)).arg(record.encode()?).arg(standing).arg(original.as_str());
    call.arg(corrected.is_some()).arg(corrected.map_or("", Payload::as_str));
    call.arg(dead_letter.as_ref().map(dead_letter::encode).transpose()?.unwrap_or_default());
    call.arg(queue_place.map(|place| place.to_string()).unwrap_or_default());
    call.arg(ended_at.map_or(0, |at| at.as_millis())).arg(audit.len());
    for (nth, event) in audit.iter().enumerate() {
        let event = json(event)?;
        call.arg(if nth < *archived { mark_archived(&event) } else { event });
    }
    Ok(())
}

fn ended_phase(status: Status) -> Phase {
    match status {
        Status::Sent => Phase::Sent,
        Status::Discarded => Phase::Discarded,
        _ => Phase::Cancelled,
    }
}

/// Number, head, data, dead letter and its original data, audit records.
type SnapshotRow = (u64, Vec<u8>, Data, Option<Vec<u8>>, Option<Data>, Vec<Vec<u8>>);

fn read_snapshot(
    partition: u16,
    (seq, head, Data(data), letter, original, events): SnapshotRow,
) -> StoreResult<JobSnapshot> {
    let record = decode_or_mark(&head, partition, seq).ok_or_else(damaged)?;
    let dead_letter = letter.zip(original).map(|(letter, Data(original))| {
        dead_letter::decode(&letter, record.clone(), original, Some(data.clone()))
    });
    let audit = events.iter().filter_map(|event| audit_event(event)).collect();
    let state = match (record.phase, record.ended_at) {
        (Phase::Dead, _) => SnapshotState::Dead,
        (Phase::Live, _) | (_, None) => SnapshotState::Waiting,
        (_, Some(at)) => {
            let status = record.status(HeldState::Free, at);
            SnapshotState::Ended { status, at, answer: record.answer }
        }
    };
    let (job, body_hash) = (Job { data, ..record.job }, record.body_hash);
    Ok(JobSnapshot { job, body_hash, state, dead_letter, queue_place: None, audit, archived: 0 })
}
