//! Decides when a node may take over leases that ran out: after it has looked for them without a break.
//!
//! While Redis cannot be reached no node can extend a lease. The first one to reach it afterwards finds the
//! leases of nodes that are alive and well run out, and so does a node that has just started or that stood
//! still itself. Each of them looks on for a while first, in which living nodes extend their leases; then
//! only those of dead nodes are left.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time that living nodes have to reach Redis again: they try to connect every two seconds at least, and
/// extend their leases half a second later.
pub(crate) const RESPITE: Duration = Duration::from_secs(5);

/// The looks at each partition.
#[derive(Debug)]
pub(crate) struct Looks {
    respite: Duration,
    /// Longer without an answer is a break, however short leases are.
    timeout: Duration,
    partitions: Vec<Mutex<Option<Look>>>,
}

/// Answers without a break: the first and the last.
#[derive(Debug, Clone, Copy)]
struct Look {
    since: Instant,
    last: Instant,
}

impl Looks {
    pub fn new(partitions: u16, respite: Duration, timeout: Duration) -> Self {
        let partitions = (0..partitions).map(|_| Mutex::new(None)).collect();
        Looks { respite, timeout, partitions }
    }

    /// Returns true if leases of this length that ran out may be taken over now.
    pub fn suffice(&self, partition: u16, lease: Duration) -> bool {
        // The wait is never longer than a lease of a dead node would have lasted.
        let respite = self.respite.min(lease);
        let look = self.unbroken(partition, lease);
        respite.is_zero() || look.is_some_and(|look| look.since.elapsed() >= respite)
    }

    /// The partition has answered.
    pub fn answered(&self, partition: u16, lease: Duration) {
        let now = Instant::now();
        let since = self.unbroken(partition, lease).map_or(now, |look| look.since);
        *self.partitions[usize::from(partition)].lock() = Some(Look { since, last: now });
    }

    fn unbroken(&self, partition: u16, lease: Duration) -> Option<Look> {
        // A lease is extended three times before it ends: it outlasts a break of one of those.
        let longest = self.timeout.max(lease / 3);
        self.partitions[usize::from(partition)].lock().filter(|look| look.last.elapsed() <= longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);
    const SECOND: Duration = Duration::from_secs(1);

    async fn look_for(looks: &Looks, seconds: u32) {
        for _ in 0..seconds {
            looks.answered(0, LEASE);
            tokio::time::sleep(SECOND).await;
        }
    }

    /// And four do not.
    async fn five_seconds_suffice(looks: &Looks) {
        look_for(looks, 4).await;
        assert!(!looks.suffice(0, LEASE));
        look_for(looks, 1).await;
        assert!(looks.suffice(0, LEASE));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_just_started_looks_on_first() {
        let looks = Looks::new(1, RESPITE, 2 * SECOND);
        assert!(!looks.suffice(0, LEASE));
        five_seconds_suffice(&looks).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_break_that_a_lease_outlasts_is_none_and_a_longer_one_begins_anew() {
        let looks = Looks::new(1, RESPITE, 2 * SECOND);
        look_for(&looks, 10).await;
        tokio::time::sleep(4 * SECOND).await;
        assert!(looks.suffice(0, LEASE), "five seconds since the last answer");
        tokio::time::sleep(SECOND).await;
        assert!(!looks.suffice(0, LEASE));
        five_seconds_suffice(&looks).await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_partition_says_nothing_about_another_and_short_leases_have_a_short_respite() {
        let looks = Looks::new(2, RESPITE, 2 * SECOND);
        look_for(&looks, 5).await;
        assert!(looks.suffice(0, LEASE));
        assert!(!looks.suffice(1, LEASE));
        looks.answered(1, SECOND);
        tokio::time::sleep(SECOND).await;
        assert!(looks.suffice(1, SECOND));
    }
}
