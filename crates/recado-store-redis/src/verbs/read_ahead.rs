//! Reads the new jobs that a claim is about to lease, in the claim's own round trip.
//!
//! Redis copies every value that goes through a script several times, so a claim that answers with its jobs costs twice
//! one that answers with their numbers. New jobs lie in a stream in the order of their numbers, and a lane is mostly
//! worked off in that order. So a node guesses the numbers that come next, sends a plain `XRANGE` for them behind the claim,
//! and the claim leaves those jobs out of its answer.
//!
//! - An entry that is read behind the claim is the leased job's: only the holder of a lease changes its job. The other way
//!   round a server that lost its last second could have given the number to another job in between.
//! - A wrong guess costs a read in vain, so a guess is made while the last one would have been right.
//! - A job that was left out and not read is read by another call.

use std::collections::HashMap;

use parking_lot::Mutex;
use recado_core::RouteName;
use redis::{Cmd, Value};

use crate::codec::keys::Root;
use crate::link::read;

/// Numbers for each job, at most, over which a guess reaches: in several partitions numbers lie apart.
const NUMBERS_PER_JOB_MAX: u64 = 4;

/// Part of a claim's jobs by which a guess reaches further on both sides: tenants take turns, so some are behind and some
/// run ahead.
const SLACK_PART: u64 = 8;

/// A range of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberRange {
    pub from: u64,
    pub to: u64,
}

/// The numbers that the next claim of a lane will probably lease.
#[derive(Debug, Clone, Copy)]
struct Guess {
    from: u64,
    per_job: u64,
    is_trusted: bool,
}

impl Guess {
    fn range(&self, jobs: usize) -> NumberRange {
        let jobs = jobs as u64;
        let slack = jobs / SLACK_PART * self.per_job;
        NumberRange {
            from: self.from.saturating_sub(slack).max(1),
            to: self.from + jobs * self.per_job + slack,
        }
    }
}

/// The guess for each lane of each partition.
#[derive(Debug, Default)]
pub struct ReadAhead(Mutex<HashMap<RouteName, Vec<Option<Guess>>>>);

impl ReadAhead {
    /// Returns the numbers to read behind a claim of so many jobs, if a guess is worth it.
    pub fn guess(&self, route: &RouteName, partition: u16, jobs: usize) -> Option<NumberRange> {
        let guesses = self.0.lock();
        let guess = (*guesses.get(route)?.get(usize::from(partition))?)?;
        guess.is_trusted.then(|| guess.range(jobs))
    }

    /// Learns from a claim of so many jobs, by the numbers of those that were leased.
    pub fn learn(&self, route: &RouteName, partition: u16, jobs: usize, leased: &[u64]) {
        let (Some(least), Some(most)) = (leased.iter().min(), leased.iter().max()) else { return };
        let mut guesses = self.0.lock();
        let of_route = guesses.entry(route.clone()).or_default();
        let at = usize::from(partition);
        of_route.resize(of_route.len().max(at + 1), None);
        let per_job = (most - least + 1).div_ceil(leased.len() as u64);
        let was_right = of_route[at].is_none_or(|guess| {
            let NumberRange { from, to } = guess.range(jobs);
            let right = leased.iter().filter(|number| (from..=to).contains(number)).count();
            2 * right >= leased.len()
        });
        of_route[at] = Some(Guess {
            from: most + 1,
            per_job: per_job.min(NUMBERS_PER_JOB_MAX),
            is_trusted: was_right && per_job <= NUMBERS_PER_JOB_MAX,
        });
    }
}

/// The command that reads a range of new jobs, so many at most.
pub fn read_command(root: &Root, range: NumberRange, jobs: usize) -> Cmd {
    let mut command = redis::cmd("XRANGE");
    // A few more than jobs / SLACK_PART on both sides, also where numbers do not lie apart any more.
    command.arg(root.key("new")).arg(range.from).arg(range.to).arg("COUNT").arg(2 * jobs + 1);
    command
}

/// New jobs as they lie in the stream, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Entries(Vec<(u64, Vec<u8>)>);

impl Entries {
    /// Reads the answer to [`read_command`].
    pub fn of(answer: Value) -> Self {
        let entries: Vec<(String, Vec<Vec<u8>>)> = read(answer).unwrap_or_default();
        let packed = |(place, mut values): (String, Vec<Vec<u8>>)| {
            let number = place.split_once('-')?.0.parse().ok()?;
            // One that format 2 wrote has two values, and is never left out of a claim's answer.
            (values.len() == 2).then(|| (number, values.swap_remove(1)))
        };
        Entries(entries.into_iter().filter_map(packed).collect())
    }

    /// Takes out the job with this number.
    pub fn take(&mut self, number: u64) -> Option<Vec<u8>> {
        let at = self.0.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(std::mem::take(&mut self.0[at].1)).filter(|packed| !packed.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(claims: &[&[u64]]) -> Option<NumberRange> {
        let (ahead, route) = (ReadAhead::default(), RouteName::trusted("email"));
        for leased in claims {
            ahead.learn(&route, 1, 4, leased);
        }
        ahead.guess(&route, 1, 4)
    }

    #[test]
    fn a_lane_that_is_worked_off_in_order_is_read_ahead() {
        assert_eq!(guessed(&[]), None);
        assert_eq!(guessed(&[&[1, 2, 3, 4]]), Some(NumberRange { from: 5, to: 9 }));
        assert_eq!(guessed(&[&[1, 2, 3, 4], &[6, 5, 7, 8]]), Some(NumberRange { from: 9, to: 13 }));
        assert_eq!(guessed(&[&[1, 3, 5, 7]]), Some(NumberRange { from: 8, to: 16 }), "every other number");
        assert_eq!(
            guessed(&[&[1, 2], &[]]),
            Some(NumberRange { from: 3, to: 7 }),
            "an empty claim says nothing"
        );
    }

    #[test]
    fn a_large_claim_reaches_further_on_both_sides() {
        let guess = Guess { from: 1_000, per_job: 2, is_trusted: true };
        assert_eq!(guess.range(256), NumberRange { from: 936, to: 1_576 });
        assert_eq!(Guess { from: 5, ..guess }.range(256).from, 1);
    }

    #[test]
    fn a_guess_that_would_have_been_wrong_is_followed_by_none_until_one_would_have_been_right() {
        assert_eq!(guessed(&[&[1, 20, 300, 4_000]]), None, "far apart");
        assert_eq!(guessed(&[&[1, 2, 3, 4], &[800, 801]]), None, "another node was faster");
        let right_again: [&[u64]; 3] = [&[1, 2, 3, 4], &[800, 801], &[802, 803]];
        assert_eq!(guessed(&right_again), Some(NumberRange { from: 804, to: 808 }));
    }
}
