//! What people do to jobs that nobody holds, and what time does to dead letters.
//!
//! Each is decided here by the head that was read, and done by a script if the head is still that one. If it is not,
//! somebody was faster, and it is decided anew.

use std::collections::BTreeMap;

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
            if discard.replays.is_some_and(|expected| record.job.progress.replays != expected) {
                return Ok(Discarded::DiedAgain);
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
        let cut = self.excess(retention.ended_max_count).await?;
        for (partition, kept_at_edge) in self.partitions().zip(cut.kept_at_edge) {
            let age = i64::try_from(retention.ended_max_age.as_millis()).unwrap_or(i64::MAX);
            let before = now.as_millis().saturating_sub(age).max(cut.before);
            self.forget_ended(partition, before, (cut.edge, kept_at_edge), &mut pruned).await?;
        }
        pruned.kv_entries = self.prune_notes(PRUNE_MAX, now).await?;
        pruned.more |= pruned.kv_entries == PRUNE_MAX.cast_unsigned();
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

    /// Finds the ended jobs that are too many. What ends meanwhile is newer and changes nothing about them, and neither
    /// does another node that prunes.
    async fn excess(&self, most: u64) -> Result<Cut, StoreError> {
        let (mut total, mut oldest) = (0, Vec::new());
        for partition in self.partitions() {
            let mut numbers =
                self.run(&self.scripts.ended, partition, &[Arg::Int(PRUNE_MAX)]).await?.list()?;
            let times = numbers.split_off(1);
            total += numbers.remove(0).count()?;
            let numbers = times.into_iter().map(Answer::count).collect::<Result<Vec<_>, _>>()?;
            oldest.push(numbers.chunks_exact(2).map(|pair| (pair[0].cast_signed(), pair[1])).collect());
        }
        Ok(Cut::at(total.saturating_sub(most), &oldest))
    }

    async fn forget_ended(
        &self,
        partition: u16,
        before: i64,
        (edge, kept_at_edge): (i64, u64),
        pruned: &mut Pruned,
    ) -> Result<(), StoreError> {
        let args =
            [Arg::Int(before), Arg::Int(edge), Arg::Int(kept_at_edge.cast_signed()), Arg::Int(PRUNE_MAX)];
        let [more, gone] = self.run(&self.scripts.prune, partition, &args).await?.parts()?;
        let id = |answer: Answer| keys::unpack(&answer.bytes()?).ok_or_else(unexpected);
        let gone = gone.list()?.into_iter().map(id).collect::<Result<Vec<_>, _>>()?;
        pruned.more |= more.yes()?;
        pruned.ended += gone.len() as u64;
        self.release(partition, gone).await
    }
}

/// Which ended jobs go because there are too many of them: the oldest of all partitions, by when they ended.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    /// What ended at or before this goes.
    before: i64,
    /// Of what ended at this time, some go.
    edge: i64,
    /// How many of those each partition keeps.
    kept_at_edge: Vec<u64>,
}

impl Cut {
    /// Of each partition when its oldest jobs ended, and how many at each time. Where [`PRUNE_MAX`] are told of there
    /// may be more.
    fn at(excess: u64, oldest: &[Vec<(i64, u64)>]) -> Cut {
        let mut cut = Cut { before: i64::MIN, edge: i64::MIN, kept_at_edge: vec![0; oldest.len()] };
        let is_cut_off = |times: &&Vec<(i64, u64)>| {
            times.iter().map(|(_, count)| count).sum::<u64>() >= PRUNE_MAX.cast_unsigned()
        };
        let known_until =
            oldest.iter().filter(is_cut_off).filter_map(|times| times.last()).map(|(at, _)| *at);
        let known_until = known_until.min().unwrap_or(i64::MAX);
        let mut by_time: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
        for (partition, times) in oldest.iter().enumerate() {
            for (at, count) in times {
                by_time.entry(*at).or_insert_with(|| vec![0; oldest.len()])[partition] += count;
            }
        }
        let mut left = excess;
        for (at, counts) in by_time.range(..=known_until) {
            let count = counts.iter().sum::<u64>();
            if left == 0 {
                break;
            }
            if count <= left {
                left -= count;
                cut.before = *at;
                continue;
            }
            cut.edge = *at;
            for (kept, count) in cut.kept_at_edge.iter_mut().zip(counts) {
                let goes = left.min(*count);
                (*kept, left) = (count - goes, left - goes);
            }
            break;
        }
        cut
    }
}

fn contended() -> StoreError {
    StoreError::Unavailable(format!("the job changed under our hands {TRIES_MAX} times; ask again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(before: i64, edge: i64, kept_at_edge: &[u64]) -> Cut {
        Cut { before, edge, kept_at_edge: kept_at_edge.to_vec() }
    }

    #[test]
    fn the_oldest_of_all_partitions_go_whichever_has_them() {
        let oldest = [vec![(1, 2), (5, 3)], vec![], vec![(2, 1), (5, 2), (9, 1)]];
        assert_eq!(Cut::at(0, &oldest), cut(i64::MIN, i64::MIN, &[0, 0, 0]));
        assert_eq!(Cut::at(1, &oldest), cut(i64::MIN, 1, &[1, 0, 0]));
        assert_eq!(Cut::at(3, &oldest), cut(2, i64::MIN, &[0, 0, 0]));
        assert_eq!(Cut::at(7, &oldest), cut(2, 5, &[0, 0, 1]));
        assert_eq!(Cut::at(8, &oldest), cut(5, i64::MIN, &[0, 0, 0]));
        assert_eq!(Cut::at(9, &oldest), cut(9, i64::MIN, &[0, 0, 0]));
        assert_eq!(Cut::at(u64::MAX, &oldest), cut(9, i64::MIN, &[0, 0, 0]));
        assert_eq!(Cut::at(1, &[vec![], vec![]]), cut(i64::MIN, i64::MIN, &[0, 0]));
    }

    #[test]
    fn nothing_goes_that_may_be_newer_than_what_was_not_told_of() {
        let many = PRUNE_MAX.cast_unsigned();
        let oldest = [vec![(1, many)], vec![(1, 1), (2, 1)]];
        assert_eq!(Cut::at(many * 3, &oldest), cut(1, i64::MIN, &[0, 0]));
    }
}
