//! The company and the route of each job, by its number, so that lists of one company's or one route's jobs are found.
//!
//! An index in the file over either would make taking jobs in three times as dear. A few bytes a job in memory do as
//! well, and looking through a million of them takes a millisecond or two. A block is let go of with its last job, so
//! one that stays for a year costs a block and not all that came after it.

use std::collections::BTreeMap;

use crate::index::{CompanyKey, LaneKey};

/// Jobs in a block.
const BLOCK_JOBS: usize = 1_024;

/// Stands where a number has no job.
const NO_COMPANY: CompanyKey = CompanyKey::MAX;

/// The jobs of a company, of a route, of both, or all.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnerFilter {
    pub company: Option<CompanyKey>,
    pub lane: Option<LaneKey>,
}

impl OwnerFilter {
    pub fn matches(self, company: CompanyKey, lane: LaneKey) -> bool {
        self.company.is_none_or(|want| want == company) && self.lane.is_none_or(|want| want == lane)
    }
}

#[derive(Debug)]
struct Block {
    companies: Box<[CompanyKey; BLOCK_JOBS]>,
    lanes: Box<[LaneKey; BLOCK_JOBS]>,
    jobs: usize,
}

/// Company and lane of every job, in blocks of consecutive numbers.
#[derive(Debug, Default)]
pub struct OwnerIndex(BTreeMap<u64, Block>);

/// Returns the block that a number is in, and its place there.
fn locate(seq: u64) -> (u64, usize) {
    let jobs = BLOCK_JOBS as u64;
    (seq / jobs, (seq % jobs) as usize)
}

impl OwnerIndex {
    pub fn insert(&mut self, seq: u64, company: CompanyKey, lane: LaneKey) {
        let (number, at) = locate(seq);
        let empty = || Block {
            companies: Box::new([NO_COMPANY; BLOCK_JOBS]),
            lanes: Box::new([0; BLOCK_JOBS]),
            jobs: 0,
        };
        let block = self.0.entry(number).or_insert_with(empty);
        block.jobs += usize::from(block.companies[at] == NO_COMPANY);
        block.companies[at] = company;
        block.lanes[at] = lane;
    }

    pub fn remove(&mut self, seq: u64) {
        let (number, at) = locate(seq);
        let Some(block) = self.0.get_mut(&number) else { return };
        block.jobs -= usize::from(block.companies[at] != NO_COMPANY);
        block.companies[at] = NO_COMPANY;
        if block.jobs == 0 {
            self.0.remove(&number);
        }
    }

    /// Returns the numbers of an owner's jobs from `top` down, `max` at most.
    pub fn find_newest(&self, owner: OwnerFilter, top: u64, max: usize) -> Vec<u64> {
        let (last, _) = locate(top);
        let mut found = Vec::new();
        for (number, block) in self.0.range(..=last).rev() {
            for at in (0..BLOCK_JOBS).rev() {
                let (company, lane) = (block.companies[at], block.lanes[at]);
                let seq = number * BLOCK_JOBS as u64 + at as u64;
                if company == NO_COMPANY || seq > top || !owner.matches(company, lane) {
                    continue;
                }
                if found.len() == max {
                    return found;
                }
                found.push(seq);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_found_by_their_owner_newest_first_and_not_once_forgotten() {
        let mut index = OwnerIndex::default();
        // One long before all others costs a block, not a gap.
        for (seq, company, lane) in
            [(5, 1, 0), (9_000_000_000, 1, 1), (9_000_000_001, 2, 0), (9_000_000_002, 1, 0)]
        {
            index.insert(seq, company, lane);
        }
        assert_eq!(index.0.len(), 2);
        let of = |index: &OwnerIndex, company, lane, top, max| {
            index.find_newest(OwnerFilter { company, lane }, top, max)
        };
        assert_eq!(of(&index, Some(1), None, u64::MAX, 9), [9_000_000_002, 9_000_000_000, 5]);
        assert_eq!(of(&index, Some(1), Some(0), u64::MAX, 9), [9_000_000_002, 5]);
        assert_eq!(of(&index, None, Some(0), 9_000_000_001, 9), [9_000_000_001, 5]);
        assert_eq!(of(&index, None, None, u64::MAX, 2), [9_000_000_002, 9_000_000_001]);
        index.insert(5, 1, 0);
        index.remove(5);
        index.remove(5);
        assert_eq!((index.0.len(), of(&index, Some(1), Some(0), u64::MAX, 9)), (1, vec![9_000_000_002]));
    }
}
