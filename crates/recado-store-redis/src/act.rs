//! What people do to jobs that nobody holds, and what time does to dead letters.
//!
//! Each is decided here by the head that was read, and done by a script if the head is still that one. If it is not,
//! somebody was faster, and it is decided anew.

use std::time::Duration;

use recado_core::{AuditEvent, AuditKind, JobId, NewJob, Payload, Status, Timestamp};
use recado_store::{Cancelled, Discard, Discarded, Pruned, Redrive, Redriven, Retention, StoreError};

use crate::answer::{Answer, unexpected};
use crate::enqueue::intake;
use crate::inspect::Found;
use crate::keys;
use crate::link::Arg;
use crate::record::{Ending, Phase, Record, decode_or_report, json};
use crate::store::RedisStore;

/// Tries before it is said that others are always faster.
const TRIES_MAX: usize = 16;

/// Ended jobs, and notes, at most that one call of prune forgets.
const PRUNE_MAX: i64 = 1_000;

/// Dead letters at most that one call of prune gives up.
const EXPIRE_MAX: i64 = 100;

/// A change of a job, decided by the head that it had.
struct Act<'a> {
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
    /// Whether it was done; not when the head is another one by now.
    async fn act(&self, act: Act<'_>) -> Result<bool, StoreError> {
        let refused = self.refused(act.partition, act.follow_ups.iter().map(|new| &new.id)).await?;
        let follow_ups = || act.follow_ups.iter().filter(|new| !refused.contains(&new.id));
        let mut args = vec![
            Arg::Int(self.floor(act.now, 0)),
            Arg::Int(act.seq.cast_signed()),
            Arg::from(&*act.before),
            Arg::from(act.verb),
            Arg::from(act.after.encode()?),
            Arg::Int(act.now.as_millis()),
            Arg::from(json(act.audit)?),
            Arg::Int(i64::from(act.corrected.is_some())),
            Arg::from(act.corrected.map_or("", Payload::as_str)),
        ];
        follow_ups().try_for_each(|new| intake(new, &mut args))?;
        let done = self.run(&self.scripts.act, act.partition, &args).await?.yes()?;
        if done {
            let own = Some(&act.after.job.route).filter(|_| act.verb == "redrive");
            self.bells.announce(&self.link, own.into_iter().chain(follow_ups().map(|new| &new.route)));
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
            match after.status(held.is_some(), now) {
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
            let act = Act { partition, seq, before: head, verb, after, now, audit, corrected, follow_ups };
            if self.act(act).await? {
                return Ok(Cancelled::Done);
            }
        }
        Err(contended())
    }

    pub(crate) async fn redrive_letter(&self, redrive: &Redrive) -> Result<Redriven, StoreError> {
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
            let act = Act {
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
            if self.act(act).await? {
                return Ok(Redriven::Done);
            }
        }
        Err(contended())
    }

    pub(crate) async fn discard_letter(&self, discard: &Discard) -> Result<Discarded, StoreError> {
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
            if self.give_up((partition, seq, head), record, now, audit, &discard.follow_ups).await? {
                return Ok(Discarded::Done);
            }
        }
        Err(contended())
    }

    async fn give_up(
        &self,
        (partition, seq, before): (u16, u64, Vec<u8>),
        mut after: Record,
        now: Timestamp,
        audit: &AuditEvent,
        follow_ups: &[NewJob],
    ) -> Result<bool, StoreError> {
        after.end(Ending::Discarded, now, None);
        let (verb, corrected) = ("give-up", None);
        self.act(Act { partition, seq, before, verb, after, now, audit, corrected, follow_ups }).await
    }

    pub(crate) async fn prune_some(
        &self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<Pruned, StoreError> {
        let mut pruned = Pruned::default();
        for partition in self.partitions() {
            self.expire_letters(partition, now, &mut pruned).await?;
        }
        let kept = self.kept(retention.ended_max_count).await?;
        for (partition, kept_max) in self.partitions().zip(kept) {
            self.forget_ended(partition, retention.ended_max_age, kept_max, now, &mut pruned).await?;
        }
        pruned.notes = self.prune_notes(PRUNE_MAX, now).await?;
        pruned.more |= pruned.notes == PRUNE_MAX.cast_unsigned();
        Ok(pruned)
    }

    async fn expire_letters(
        &self,
        partition: u16,
        now: Timestamp,
        pruned: &mut Pruned,
    ) -> Result<(), StoreError> {
        let args = [Arg::Int(now.as_millis()), Arg::Int(EXPIRE_MAX)];
        let over = self.run(&self.scripts.expired, partition, &args).await?.list()?;
        pruned.more |= over.len() == EXPIRE_MAX as usize;
        for letter in over {
            let [seq, head] = letter.parts()?;
            let (seq, head) = (seq.count()?, head.bytes()?);
            let Some(record) = decode_or_report(&head, partition, seq) else { continue };
            let audit = AuditEvent::about(&record.job, AuditKind::DeadLetterExpired, now);
            let done = self.give_up((partition, seq, head), record, now, &audit, &[]).await?;
            pruned.dead_letters += u64::from(done);
        }
        Ok(())
    }

    /// How many ended jobs each partition may keep: all of them together `most`, each by what it has.
    async fn kept(&self, most: u64) -> Result<Vec<u64>, StoreError> {
        if self.has_one_partition() {
            return Ok(vec![most]);
        }
        let mut ended = Vec::new();
        for root in self.partitions().filter_map(|partition| self.root(partition)) {
            let key = root.key("counters");
            let mut count = redis::cmd("HGET");
            count.arg(&key).arg("ended");
            let answer = Answer(self.link.command(&count, &key).await?);
            ended.push(answer.there().map_or(Ok(0), Answer::count)?);
        }
        Ok(share_out(most, &ended))
    }

    async fn forget_ended(
        &self,
        partition: u16,
        max_age: Duration,
        kept_max: u64,
        now: Timestamp,
        pruned: &mut Pruned,
    ) -> Result<(), StoreError> {
        let age = i64::try_from(max_age.as_millis()).unwrap_or(i64::MAX);
        let args = [
            Arg::Int(now.as_millis().saturating_sub(age)),
            Arg::Int(i64::try_from(kept_max).unwrap_or(i64::MAX)),
            Arg::Int(PRUNE_MAX),
        ];
        let [more, gone] = self.run(&self.scripts.prune, partition, &args).await?.parts()?;
        let id = |answer: Answer| keys::unpack(&answer.bytes()?).ok_or_else(unexpected);
        let gone = gone.list()?.into_iter().map(id).collect::<Result<Vec<_>, _>>()?;
        pruned.more |= more.yes()?;
        pruned.ended += gone.len() as u64;
        self.release(partition, gone).await
    }
}

/// Divides `most` by what there is of each; each may keep all where that is not too many.
fn share_out(most: u64, there: &[u64]) -> Vec<u64> {
    let total: u128 = there.iter().copied().map(u128::from).sum();
    if total <= u128::from(most) {
        return there.to_vec();
    }
    // Rounded at the running sum, so that the parts make the whole.
    let mut sum = 0_u128;
    let mut share = |there: &u64| {
        let before = sum * u128::from(most) / total;
        sum += u128::from(*there);
        (sum * u128::from(most) / total - before) as u64
    };
    there.iter().map(&mut share).collect()
}

fn contended() -> StoreError {
    StoreError::Unavailable(format!("the job changed under our hands {TRIES_MAX} times; ask again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_kept_is_shared_out_to_the_last_job() {
        assert_eq!(share_out(10, &[3, 7, 0]), [3, 7, 0]);
        assert_eq!(share_out(7, &[0, 2_500, 0]), [0, 7, 0]);
        assert_eq!(share_out(10, &[10, 10, 10]).iter().sum::<u64>(), 10);
        assert_eq!(share_out(0, &[5, 5]), [0, 0]);
        assert_eq!(share_out(u64::MAX, &[5, 5]), [5, 5]);
    }
}
