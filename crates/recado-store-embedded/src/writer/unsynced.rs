//! Jobs whose last change is not on disk yet.
//!
//! A claim may be answered before the disk has it ([why](../../../../docs/decisions/0009-leases-are-written-but-not-forced.md)),
//! unless it hands out one of these: nothing may be sent that a power cut could still undo.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the last commit that is on disk. The fsync thread raises it.
pub type SyncedCommit = Arc<AtomicU64>;

pub struct UnsyncedJobs {
    synced: SyncedCommit,
    /// Commits that may not be on disk, in their order.
    commits: VecDeque<UnsyncedCommit>,
    /// The number of the commit that is being made. One that fails leaves it to the next.
    number: u64,
    /// New rows below this one are on disk.
    synced_rows: u64,
    /// New rows below this one are in the log, by commits that may not be on disk.
    logged_rows: u64,
    /// Rows of earlier commits that were made claimable since, each with the last commit that did so.
    requeued: HashMap<u64, u64>,
}

struct UnsyncedCommit {
    number: u64,
    /// The first row that it does not have.
    next_row: u64,
    requeued: Vec<u64>,
}

impl UnsyncedJobs {
    /// `next_row` is the first row that the file does not have.
    pub fn new(synced: SyncedCommit, next_row: u64) -> Self {
        UnsyncedJobs {
            synced,
            commits: VecDeque::new(),
            number: 1,
            synced_rows: next_row,
            logged_rows: next_row,
            requeued: HashMap::new(),
        }
    }

    /// Forgets what has come to the disk since the last commit.
    pub fn begin_commit(&mut self) {
        let synced = self.synced.load(Ordering::Acquire);
        while let Some(commit) = self.commits.pop_front_if(|commit| commit.number <= synced) {
            self.synced_rows = commit.next_row;
            for row in commit.requeued {
                if self.requeued.get(&row) == Some(&commit.number) {
                    self.requeued.remove(&row);
                }
            }
        }
    }

    /// Adds a job that the commit makes claimable.
    pub fn add(&mut self, row: u64) {
        // A row of an earlier commit may come to the disk before this commit does.
        if row < self.logged_rows {
            self.requeued.insert(row, self.number);
        }
    }

    pub fn contains(&self, row: u64) -> bool {
        row >= self.synced_rows || self.requeued.contains_key(&row)
    }

    /// Ends the commit, before the fsync thread gets it, and returns its number.
    pub fn end_commit(&mut self, next_row: u64) -> u64 {
        let number = self.number;
        let requeued = self.requeued.iter().filter(|(_, commit)| **commit == number);
        let requeued = requeued.map(|(row, _)| *row).collect();
        self.commits.push_back(UnsyncedCommit { number, next_row, requeued });
        self.number += 1;
        self.logged_rows = self.logged_rows.max(next_row);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_unsynced_until_the_last_commit_that_made_it_claimable_is_on_disk() {
        let synced = SyncedCommit::default();
        let mut jobs = UnsyncedJobs::new(synced.clone(), 10);
        assert!(!jobs.contains(9), "it was in the file");
        // Row 10 is new and row 4 comes back; row 4 comes back once more.
        for next_row in [11, 11] {
            jobs.begin_commit();
            jobs.add(4);
            jobs.add(10);
            jobs.end_commit(next_row);
        }
        assert_eq!([4, 10, 9].map(|row| jobs.contains(row)), [true, true, false]);
        synced.store(1, Ordering::Release);
        jobs.begin_commit();
        assert_eq!([4, 10, 9].map(|row| jobs.contains(row)), [true, true, false]);
        synced.store(2, Ordering::Release);
        jobs.begin_commit();
        assert_eq!([4, 10, 9].map(|row| jobs.contains(row)), [false, false, false]);
        assert!(jobs.commits.is_empty() && jobs.requeued.is_empty(), "nothing is kept");
    }
}
