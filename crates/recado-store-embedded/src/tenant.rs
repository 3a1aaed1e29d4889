//! One tenant on one lane: its jobs that are due, and its statistics.

use recado_store::OLDEST_EVERY_JOBS;

use crate::index::Slots;
use crate::lane::Due;
use crate::lazy_heap::LazyHeap;

#[derive(Debug, Default)]
pub struct Tenant {
    /// By priority, the most urgent first; few, because there are nine priorities and most tenants use one.
    levels: Vec<Level>,
    pub ready_count: usize,
    /// Ready or not.
    pub waiting_count: usize,
    pub leased_count: usize,
    /// Its place in the ring, while it has a ready job.
    pub place: Option<u64>,
    /// Jobs it has had of its turn.
    pub taken: u32,
    /// The lane's count of turns when it was last served or began to wait.
    pub waits_since_turn: u64,
    /// The claim that last took of it, and how much.
    claimed: (u64, u32),
    pub processed: u64,
    pub last_at: Option<i64>,
    /// The time when it ran out of jobs, in the lane's order of such events.
    pub idle_since: Option<u64>,
}

/// The ready jobs of one priority, by due time and arrival.
#[derive(Debug)]
struct Level {
    priority: u8,
    jobs: LazyHeap<Due>,
    live_count: usize,
}

impl Tenant {
    pub fn push(&mut self, priority: u8, due: Due) {
        let at = match self.levels.binary_search_by_key(&priority, |level| level.priority) {
            Ok(at) => at,
            Err(at) => {
                self.levels.insert(at, Level { priority, jobs: LazyHeap::default(), live_count: 0 });
                at
            }
        };
        self.levels[at].jobs.push(due);
        self.levels[at].live_count += 1;
        self.ready_count += 1;
    }

    /// The most urgent job, or every so often the one that has been due longest.
    pub fn pop(&mut self, slots: &Slots) -> Option<u32> {
        let live = |entry| slots.is_ready(entry);
        let level = if self.processed % OLDEST_EVERY_JOBS == OLDEST_EVERY_JOBS - 1 {
            let firsts = self.levels.iter_mut().enumerate();
            let oldest = firsts.filter_map(|(at, level)| Some((level.jobs.peek(live)?, at))).min()?;
            &mut self.levels[oldest.1]
        } else {
            self.levels.iter_mut().find(|level| level.live_count > 0)?
        };
        let (.., slot) = level.jobs.pop(live)?;
        level.live_count -= 1;
        self.ready_count -= 1;
        Some(slot)
    }

    /// Returns the due time of the ready job that has waited longest.
    pub fn oldest_due(&mut self, slots: &Slots) -> Option<i64> {
        let firsts =
            self.levels.iter_mut().filter_map(|level| level.jobs.peek(|entry| slots.is_ready(entry)));
        firsts.map(|(due, ..)| due).min()
    }

    /// Counts a ready job as removed; its entry is dropped when it surfaces.
    pub fn remove(&mut self, priority: u8, slots: &Slots) {
        self.ready_count -= 1;
        if let Ok(at) = self.levels.binary_search_by_key(&priority, |level| level.priority) {
            let level = &mut self.levels[at];
            level.live_count -= 1;
            level.jobs.sweep(level.live_count, |entry| slots.is_ready(entry));
        }
    }

    /// Lets go of what only a tenant with ready jobs needs.
    pub fn leave_ring(&mut self) -> Option<u64> {
        self.levels.clear();
        self.place.take()
    }

    pub fn is_idle(&self) -> bool {
        self.waiting_count == 0 && self.leased_count == 0
    }

    /// Jobs that this claim has taken of it.
    pub fn claimed_by(&self, claim: u64) -> u32 {
        if self.claimed.0 == claim { self.claimed.1 } else { 0 }
    }

    /// Counts one job as claimed in its turn.
    pub fn count_served(&mut self, claim: u64, now: i64) {
        self.claimed = (claim, self.claimed_by(claim) + 1);
        self.taken += 1;
        self.processed += 1;
        self.last_at = Some(now);
    }
}
