//! Prunes: expires dead letters, and forgets ended jobs and key-value entries whose time is over.

use std::collections::BTreeMap;

use recado_core::{AuditEvent, AuditKind, Timestamp};
use recado_store::{Pruned, StoreResult};

use crate::codec::keys;
use crate::codec::record::decode_or_report;
use crate::link::unexpected;
use crate::store::RedisStore;
use crate::verbs::operator::{ActionTerms, JobBefore, give_up};

/// Most ended jobs, and key-value entries, that one call of prune forgets.
pub(crate) const PRUNE_MAX: i64 = 1_000;

/// Most dead letters that one call of prune expires.
const EXPIRE_MAX: usize = 100;

impl RedisStore {
    pub(crate) async fn expire_dead_letters(
        &self,
        partition: u16,
        now: Timestamp,
        pruned: &mut Pruned,
    ) -> StoreResult<()> {
        let mut call = self.call(&self.scripts.expired_dead_letters, partition);
        let over: Vec<(u64, Vec<u8>)> = self.run(call.arg(now.as_millis()).arg(EXPIRE_MAX)).await?;
        pruned.more |= over.len() == EXPIRE_MAX;
        for (seq, head) in over {
            let Some(record) = decode_or_report(&head, partition, seq) else { continue };
            let audit = AuditEvent::about(&record.job, AuditKind::DeadLetterExpired, now);
            let terms = ActionTerms { audit: &audit, corrected: None, follow_ups: &[] };
            let before = JobBefore { partition, seq, head };
            let is_done = self.apply_action(&before, give_up(record, now), terms).await?;
            pruned.dead_letters += u64::from(is_done);
        }
        Ok(())
    }

    /// Finds the ended jobs that are too many. What ends meanwhile is newer and changes nothing about them, and neither
    /// does another node that prunes.
    pub(crate) async fn excess(&self, most: u64) -> StoreResult<Cut> {
        let (mut total, mut oldest) = (0, Vec::new());
        for partition in self.partitions() {
            let numbers: Vec<u64> =
                self.run(self.call(&self.scripts.ended, partition).arg(PRUNE_MAX)).await?;
            let (count, times) = numbers.split_first().ok_or_else(unexpected)?;
            total += count;
            oldest.push(
                times.as_chunks::<2>().0.iter().map(|[at, count]| (at.cast_signed(), *count)).collect(),
            );
        }
        Ok(Cut::at(total.saturating_sub(most), &oldest))
    }

    pub(crate) async fn forget_ended(
        &self,
        partition: u16,
        before: i64,
        (edge, kept_at_edge): (i64, u64),
        pruned: &mut Pruned,
    ) -> StoreResult<()> {
        let mut call = self.call(&self.scripts.prune, partition);
        call.arg(before).arg(edge).arg(kept_at_edge).arg(PRUNE_MAX);
        let (more, gone): (bool, Vec<Vec<u8>>) = self.run(&call).await?;
        let gone: Option<Vec<_>> = gone.iter().map(|id| keys::unpack(id)).collect();
        let gone = gone.ok_or_else(unexpected)?;
        pruned.more |= more;
        pruned.ended += gone.len() as u64;
        self.release(partition, &gone).await
    }
}

/// Bounds of the ended jobs to forget because there are too many: the oldest of all partitions, by when they ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Jobs that ended at or before this are forgotten.
    pub before: i64,
    /// End time of jobs that are forgotten in part.
    pub edge: i64,
    /// Jobs of that time that each partition keeps.
    pub kept_at_edge: Vec<u64>,
}

impl Cut {
    /// `oldest`: for each partition, end times of its oldest jobs with their counts. A list that adds up to [`PRUNE_MAX`]
    /// may be cut off.
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
