//! Decides when a node may take over expired leases: after it has reached Redis without a break for a grace period.
//!
//! While Redis cannot be reached no node can extend a lease. The first one to reach it afterwards finds the leases of
//! nodes that are alive and well expired, and so does a node that has just started or that stood still itself. Each
//! waits out the grace period first, in which living nodes extend their leases; then only those of dead nodes are left.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time that living nodes have to reach Redis again: they try to connect every two seconds at least, and extend their
/// leases half a second later.
pub(crate) const ORPHAN_GRACE: Duration = Duration::from_secs(5);

/// The grace period of each partition.
#[derive(Debug)]
pub(crate) struct OrphanGrace {
    period: Duration,
    /// Longer without an answer is a break, however short leases are.
    timeout: Duration,
    partitions: Vec<Mutex<Option<AnswerStreak>>>,
}

/// Answers without a break: the first and the last.
#[derive(Debug, Clone, Copy)]
struct AnswerStreak {
    since: Instant,
    last: Instant,
}

impl OrphanGrace {
    pub fn new(partitions: u16, period: Duration, timeout: Duration) -> Self {
        let partitions = (0..partitions).map(|_| Mutex::new(None)).collect();
        OrphanGrace { period, timeout, partitions }
    }

    /// Returns true if expired leases of this length may be taken over now.
    pub fn is_over(&self, partition: u16, lease: Duration) -> bool {
        // The wait is never longer than a lease of a dead node would have lasted.
        let period = self.period.min(lease);
        let streak = self.current_streak(partition, lease);
        period.is_zero() || streak.is_some_and(|streak| streak.since.elapsed() >= period)
    }

    /// Records that the partition has answered.
    pub fn record_answer(&self, partition: u16, lease: Duration) {
        let now = Instant::now();
        let since = self.current_streak(partition, lease).map_or(now, |streak| streak.since);
        *self.partitions[usize::from(partition)].lock() = Some(AnswerStreak { since, last: now });
    }

    fn current_streak(&self, partition: u16, lease: Duration) -> Option<AnswerStreak> {
        // A lease is extended three times before it ends: it outlasts a break of one of those.
        let longest = self.timeout.max(lease / 3);
        self.partitions[usize::from(partition)].lock().filter(|streak| streak.last.elapsed() <= longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);
    const SECOND: Duration = Duration::from_secs(1);

    async fn answer_for(grace: &OrphanGrace, seconds: u32) {
        for _ in 0..seconds {
            grace.record_answer(0, LEASE);
            tokio::time::sleep(SECOND).await;
        }
    }

    /// Asserts that the grace ends after five seconds of answers, and not after four.
    async fn it_is_over_after_five_seconds(grace: &OrphanGrace) {
        answer_for(grace, 4).await;
        assert!(!grace.is_over(0, LEASE));
        answer_for(grace, 1).await;
        assert!(grace.is_over(0, LEASE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_has_just_started_waits_first() {
        let grace = OrphanGrace::new(1, ORPHAN_GRACE, 2 * SECOND);
        assert!(!grace.is_over(0, LEASE));
        it_is_over_after_five_seconds(&grace).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_break_that_a_lease_outlasts_is_none_and_a_longer_one_begins_anew() {
        let grace = OrphanGrace::new(1, ORPHAN_GRACE, 2 * SECOND);
        answer_for(&grace, 10).await;
        tokio::time::sleep(4 * SECOND).await;
        assert!(grace.is_over(0, LEASE), "five seconds since the last answer");
        tokio::time::sleep(SECOND).await;
        assert!(!grace.is_over(0, LEASE));
        it_is_over_after_five_seconds(&grace).await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_partition_says_nothing_about_another_and_short_leases_have_a_short_grace_period() {
        let grace = OrphanGrace::new(2, ORPHAN_GRACE, 2 * SECOND);
        answer_for(&grace, 5).await;
        assert!(grace.is_over(0, LEASE));
        assert!(!grace.is_over(1, LEASE));
        grace.record_answer(1, SECOND);
        tokio::time::sleep(SECOND).await;
        assert!(grace.is_over(1, SECOND));
    }
}
