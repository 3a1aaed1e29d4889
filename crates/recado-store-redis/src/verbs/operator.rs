//! Operator actions on jobs that are not leased: cancel, redrive, discard.
//!
//! Each is decided here by the head that was read, and done by a script if the head is still that one. If it is not,
//! another caller was faster, and it is decided anew.

use recado_core::{AuditEvent, JobId, NewJob, Payload, Status, Timestamp};
use recado_store::{Cancelled, Discard, Discarded, Redrive, Redriven, StoreError};

use crate::codec::record::{Ending, HeldState, Phase, Record, json};
use crate::link::Arg;
use crate::store::RedisStore;
use crate::verbs::enqueue::push_new_job;
use crate::verbs::inspect::Found;

/// Most tries while other callers are faster.
const TRIES_MAX: usize = 16;

/// A change of a job, decided by the head that it had.
struct OperatorAction<'a> {
    partition: u16,
    seq: u64,
    before: Vec<u8>,
    verb: &'static str,
    after: Record,
    now: Timestamp,
    audit: &'a AuditEvent,
    corrected: Option<&'a Payload>,
    follow_ups: &'a [NewJob],
}

impl RedisStore {
    /// Applies a change. Returns false when the head is another one by now.
    async fn apply_action(&self, action: OperatorAction<'_>) -> Result<bool, StoreError> {
        let refused = self.refused(action.partition, action.follow_ups.iter().map(|new| &new.id)).await?;
        let follow_ups = || action.follow_ups.iter().filter(|new| !refused.contains(&new.id));
        let mut args = vec![
            Arg::Int(self.floor(action.now, 0)),
            Arg::Int(action.seq.cast_signed()),
            Arg::from(&*action.before),
            Arg::from(action.verb),
            Arg::from(action.after.encode()?),
            Arg::Int(action.now.as_millis()),
            Arg::from(json(action.audit)?),
            Arg::Int(i64::from(action.corrected.is_some())),
            Arg::from(action.corrected.map_or("", Payload::as_str)),
        ];
        follow_ups().try_for_each(|new| push_new_job(new, &mut args))?;
        let done = self.run(&self.scripts.operator, action.partition, &args).await?.yes()?;
        if done {
            let own = Some(&action.after.job.route).filter(|_| action.verb == "redrive");
            self.wakeups.announce(&self.link, own.into_iter().chain(follow_ups().map(|new| &new.route)));
        }
        Ok(done)
    }

    pub(crate) async fn cancel_job(&self, id: &JobId, audit: &AuditEvent) -> Result<Cancelled, StoreError> {
        let now = audit.timestamp;
        for _ in 0..TRIES_MAX {
            let Some(Found { partition, seq, head, held, .. }) = self.find(id).await? else {
                return Ok(Cancelled::Unknown);
            };
            let mut after = Record::decode(&head)?;
            match after.status(HeldState::of(held.is_some()), now) {
                Status::Cancelled => return Ok(Cancelled::Already),
                status @ (Status::Delivering | Status::Sent | Status::Failed | Status::Discarded) => {
                    return Ok(Cancelled::Refused(status));
                }
                Status::Scheduled | Status::Queued | Status::Retrying | Status::Parked => {}
            }
            // A replay that is called off leaves the dead letter where it was.
            let verb = if after.job.progress.replays > 0 {
                after.phase = Phase::Dead;
                "recall"
            } else {
                after.end(Ending::Cancelled, now, None);
                "cancel"
            };
            let (corrected, follow_ups) = (None, &[][..]);
            let action = OperatorAction {
                partition,
                seq,
                before: head,
                verb,
                after,
                now,
                audit,
                corrected,
                follow_ups,
            };
            if self.apply_action(action).await? {
                return Ok(Cancelled::Done);
            }
        }
        Err(contended())
    }

    pub(crate) async fn redrive_dead_letter(&self, redrive: &Redrive) -> Result<Redriven, StoreError> {
        for _ in 0..TRIES_MAX {
            let Some(Found { partition, seq, head, .. }) = self.find(&redrive.id).await? else {
                return Ok(Redriven::Unknown);
            };
            let mut after = Record::decode(&head)?;
            match after.phase {
                Phase::Dead => {}
                Phase::Live if after.job.progress.replays > 0 => return Ok(Redriven::AlreadyReplaying),
                Phase::Live | Phase::Ended(_) => return Ok(Redriven::Unknown),
            }
            after.phase = Phase::Live;
            after.job.due_at = redrive.due_at;
            after.job.expires_at = redrive.expires_at;
            after.job.progress.attempts_spent = 0;
            after.job.progress.crashes = 0;
            after.job.progress.replays += 1;
            if let (Some(checksum), Some(data)) = (after.job.checksum, &redrive.data) {
                after.job.checksum = Some(checksum.with_data(data));
            }
            let action = OperatorAction {
                partition,
                seq,
                before: head,
                verb: "redrive",
                after,
                now: redrive.audit.timestamp,
                audit: &redrive.audit,
                corrected: redrive.data.as_ref(),
                follow_ups: &redrive.follow_ups,
            };
            if self.apply_action(action).await? {
                return Ok(Redriven::Done);
            }
        }
        Err(contended())
    }

    pub(crate) async fn discard_dead_letter(&self, discard: &Discard) -> Result<Discarded, StoreError> {
        let (audit, now) = (&discard.audit, discard.audit.timestamp);
        for _ in 0..TRIES_MAX {
            let Some(Found { partition, seq, head, .. }) = self.find(&discard.id).await? else {
                return Ok(Discarded::Unknown);
            };
            let record = Record::decode(&head)?;
            match record.phase {
                Phase::Dead => {}
                Phase::Live if record.job.progress.replays > 0 => return Ok(Discarded::Replaying),
                Phase::Live | Phase::Ended(_) => return Ok(Discarded::Unknown),
            }
            if discard.replays.is_some_and(|expected| record.job.progress.replays != expected) {
                return Ok(Discarded::DiedAgain);
            }
            if self.end_dead_letter((partition, seq, head), record, now, audit, &discard.follow_ups).await? {
                return Ok(Discarded::Done);
            }
        }
        Err(contended())
    }

    /// Ends a dead letter as discarded.
    pub(crate) async fn end_dead_letter(
        &self,
        (partition, seq, before): (u16, u64, Vec<u8>),
        mut after: Record,
        now: Timestamp,
        audit: &AuditEvent,
        follow_ups: &[NewJob],
    ) -> Result<bool, StoreError> {
        after.end(Ending::Discarded, now, None);
        let (verb, corrected) = ("give-up", None);
        self.apply_action(OperatorAction {
            partition,
            seq,
            before,
            verb,
            after,
            now,
            audit,
            corrected,
            follow_ups,
        })
        .await
    }
}

fn contended() -> StoreError {
    StoreError::Unavailable(format!("the job changed {TRIES_MAX} times while this was tried; ask again"))
}
