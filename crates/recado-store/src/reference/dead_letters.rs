//! The reference's dead letters: filed in the order in which they came, each at one place until it leaves.

use recado_core::{Burial, DeadLetter};

use super::{Phase, State};
use crate::{DeadLetterFilter, DeadLetterGroup, GroupBy};

impl State {
    /// Moves a job to the dead letter queue. One whose replay failed keeps its place there.
    pub fn bury(&mut self, at: usize, burial: Burial) {
        let record = &mut self.records[at];
        let before = self.dead.iter_mut().find(|(_, entry)| entry.job_id == record.job.id);
        let accepted = before.as_ref().map(|(_, entry)| entry.original_data.clone());
        let entry = DeadLetter::new(record.job.clone(), accepted, burial);
        record.job.attempts = entry.attempts.clone();
        record.phase = Phase::Dead;
        match before {
            Some((_, old)) => *old = entry,
            None => self.insert_dead_letter(entry, None),
        }
    }

    /// Puts a new entry in the queue, at its place or as the newest.
    pub fn insert_dead_letter(&mut self, entry: DeadLetter, place: Option<u64>) {
        let number = place.unwrap_or(self.last_dead + 1);
        self.last_dead = self.last_dead.max(number);
        let at = self.dead.partition_point(|(other, _)| *other < number);
        self.dead.insert(at, (number, entry));
    }

    /// Counts the entries that match, by what they have in common; the largest group first.
    pub fn groups(&self, by: GroupBy, filter: &DeadLetterFilter) -> Vec<DeadLetterGroup> {
        let mut groups: Vec<DeadLetterGroup> = Vec::new();
        for (_, entry) in self.dead.iter().filter(|(_, entry)| filter.matches(entry)) {
            let key: Option<Box<str>> = match by {
                GroupBy::LastFailureCode => entry.failure.code.clone(),
                GroupBy::Company => Some(entry.company.as_str().into()),
                GroupBy::Route => Some(entry.route.as_str().into()),
                GroupBy::Fingerprint => Some(entry.failure.fingerprint.clone()),
            };
            match groups.iter_mut().find(|group| group.key == key) {
                Some(group) => group.count += 1,
                None => {
                    let example_reason = entry.failure.reason.as_str().into();
                    groups.push(DeadLetterGroup { key, count: 1, example_reason });
                }
            }
        }
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        groups
    }
}
