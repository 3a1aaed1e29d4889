//! Snapshots of the reference's jobs, made and taken in.

use async_trait::async_trait;
use recado_core::{DeadLetter, Job, JobId, Lease, Status};

use super::{ReferenceStore, State, StoredJob};
use crate::{
    Adopted, Fence, FencedWrite, JobSnapshot, Page, SnapshotState, StoreError, StoreResult, Transfer,
};

impl State {
    pub fn adopt(&mut self, snapshot: JobSnapshot) -> Adopted {
        let checksum = Some(snapshot.checksum());
        let JobSnapshot { job, body_hash, state, dead_letter, queue_place, audit, archived } = snapshot;
        let job = Job { checksum, ..job };
        let seq = self.last_seq + 1;
        let mut known = Vec::new();
        if let Some(there) = self.find(&job.id) {
            let is_discarded = matches!(there.state, SnapshotState::Ended { status: Status::Discarded, .. });
            if !is_discarded || state != SnapshotState::Dead {
                return Adopted::Known;
            }
            let gone = there.seq;
            self.take(gone);
            known = self.trail.reassign(gone, seq);
        }
        self.last_seq = seq;
        let dead_letter =
            dead_letter.map(|entry| (self.dead_number(queue_place), DeadLetter { checksum, ..entry }));
        self.insert(StoredJob { dead_letter, ..StoredJob::new(seq, job, body_hash, state) });
        for (nth, event) in audit.into_iter().enumerate().filter(|(_, event)| !known.contains(event)) {
            match nth < archived {
                true => self.trail.append_archived(seq, event),
                false => self.trail.append(Some(seq), event),
            }
        }
        Adopted::Done
    }

    pub fn snapshot(&self, record: &StoredJob) -> JobSnapshot {
        JobSnapshot {
            dead_letter: record.dead_letter.clone().map(|(_, entry)| entry),
            audit: self.trail.events_of(record.seq),
            ..JobSnapshot::new(record.job.clone(), record.body_hash, record.state.clone())
        }
    }
}

#[async_trait]
impl Transfer for ReferenceStore {
    async fn forget(&self, ids: Vec<JobId>) -> StoreResult<u64> {
        let mut state = self.state.lock();
        let mut forgotten = 0;
        for id in ids {
            let Some(record) = state.find(&id) else { continue };
            if let (SnapshotState::Ended { .. }, seq) = (&record.state, record.seq) {
                state.take(seq);
                state.trail.forget(seq);
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }

    async fn adopt(&self, transfers: Vec<JobSnapshot>) -> StoreResult<Vec<Adopted>> {
        let mut state = self.state.lock();
        let adopt = |transfer: JobSnapshot| {
            let route = transfer.job.route.clone();
            let adopted = state.adopt(transfer);
            if adopted == Adopted::Done {
                self.wakes.wake(&route);
            }
            adopted
        };
        Ok(transfers.into_iter().map(adopt).collect())
    }

    async fn raise_fence(&self, fence: Fence) -> StoreResult<()> {
        let mut fences = self.fences.lock().await;
        let raised = fences.entry(fence.name).or_default();
        *raised = fence.number.max(*raised);
        if *raised == fence.number { Ok(()) } else { Err(StoreError::Fenced) }
    }

    async fn write_fenced(&self, fence: Fence, write: FencedWrite) -> StoreResult<Vec<Lease>> {
        let fences = self.fences.lock().await;
        if fences.get(fence.name) != Some(&fence.number) {
            return Err(StoreError::Fenced);
        }
        write.execute(self).await
    }

    async fn snapshots(&self, after: Option<u64>, limit: usize) -> StoreResult<Page<JobSnapshot>> {
        let state = self.state.lock();
        let rest = state.records.values().filter(|record| after.is_none_or(|after| record.seq > after));
        let mut taken: Vec<&StoredJob> = rest.take(limit + 1).collect();
        let more = taken.len() > limit;
        taken.truncate(limit);
        let next = taken.last().map(|record| record.seq).filter(|_| more);
        Ok(Page { items: taken.into_iter().map(|record| state.snapshot(record)).collect(), next })
    }

    async fn snapshot(&self, id: &JobId) -> StoreResult<Option<JobSnapshot>> {
        let state = self.state.lock();
        Ok(state.find(id).map(|record| state.snapshot(record)))
    }
}
