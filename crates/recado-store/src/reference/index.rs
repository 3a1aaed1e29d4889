//! Finds the reference's jobs without a scan. It says nothing that the records do not say.

use std::collections::{BTreeSet, HashMap};

use recado_core::{JobId, LeaseToken, RouteName, Timestamp};

use super::StoredJob;
use crate::Pick;

/// Jobs by a time, earliest first, each with its number.
type ByTime = BTreeSet<(Timestamp, u64)>;

/// The numbers of jobs, by what verbs look for.
#[derive(Debug, Default, Clone)]
pub struct Index {
    ids: HashMap<JobId, u64>,
    tokens: HashMap<LeaseToken, u64>,
    /// Waiting jobs of each route by their due time.
    due: HashMap<RouteName, ByTime>,
    /// Waiting jobs by their end of life.
    overdue: ByTime,
    /// Leased jobs by the end of the lease.
    orphaned: ByTime,
}

impl Index {
    pub fn add(&mut self, record: &StoredJob) {
        let StoredJob { seq, job, lease, .. } = record;
        self.ids.insert(job.id.clone(), *seq);
        if let Some(held) = lease {
            self.tokens.insert(held.token, *seq);
            self.orphaned.insert((held.expires_at, *seq));
        }
        if record.waits() {
            self.due.entry(job.route.clone()).or_default().insert((job.due_at, *seq));
            self.overdue.insert((job.expires_at, *seq));
        }
    }

    pub fn remove(&mut self, record: &StoredJob) {
        let StoredJob { seq, job, lease, .. } = record;
        self.ids.remove(&job.id);
        if let Some(held) = lease {
            self.tokens.remove(&held.token);
            self.orphaned.remove(&(held.expires_at, *seq));
        }
        if let Some(due) = self.due.get_mut(&job.route) {
            due.remove(&(job.due_at, *seq));
        }
        self.overdue.remove(&(job.expires_at, *seq));
    }

    pub fn find(&self, id: &JobId) -> Option<u64> {
        self.ids.get(id).copied()
    }

    pub fn find_leased(&self, token: LeaseToken) -> Option<u64> {
        self.tokens.get(&token).copied()
    }

    fn by_time(&self, pick: &Pick) -> Option<&ByTime> {
        match pick {
            Pick::Ready(route) => self.due.get(route),
            Pick::Overdue => Some(&self.overdue),
            Pick::Orphaned => Some(&self.orphaned),
        }
    }

    /// Returns what this picks at `now`, each with the time that it is picked by: earliest first.
    pub fn due(&self, pick: &Pick, now: Timestamp) -> impl Iterator<Item = (Timestamp, u64)> {
        self.by_time(pick).into_iter().flat_map(move |jobs| jobs.range(..=(now, u64::MAX)).copied())
    }

    /// Returns the time when time alone will bring more of what this picks.
    pub fn next_at(&self, pick: &Pick, now: Timestamp) -> Option<Timestamp> {
        self.by_time(pick)?.range((now, u64::MAX)..).next().map(|(at, _)| *at)
    }
}
