//! Follows jobs from their first failed attempt to their end, in bounded memory.

use std::collections::{HashMap, VecDeque};

use recado_core::AuditEvent;
use recado_core::payload::digest_of;

/// Jobs at most that are followed at a time, and as many that died and may be replayed. Of further ones nothing is
/// learned.
const JOBS_MAX: usize = 100_000;

/// Stands for one job of one company.
pub type JobKey = u128;

/// The job that a record is about.
pub fn job_key(event: &AuditEvent) -> Option<JobKey> {
    let (company, job) = (event.company_id.as_deref()?, event.job_id.as_deref()?);
    Some(digest_of(&[company, job]))
}

/// Follows jobs, each from its first failed attempt or a replay to delivery, death or an operator's act.
#[derive(Debug)]
pub struct JobTracker<T> {
    running: HashMap<JobKey, T>,
    buried: HashMap<JobKey, T>,
    /// The order in which jobs died.
    deaths: VecDeque<JobKey>,
}

impl<T> Default for JobTracker<T> {
    fn default() -> Self {
        JobTracker { running: HashMap::new(), buried: HashMap::new(), deaths: VecDeque::new() }
    }
}

impl<T> JobTracker<T> {
    /// Returns what is known of the job, begun now if nothing is; `None` when too many jobs are followed.
    pub fn open_or_begin(&mut self, job: JobKey, begin: impl FnOnce() -> T) -> Option<&mut T> {
        if self.running.len() >= JOBS_MAX && !self.running.contains_key(&job) {
            return None;
        }
        Some(self.running.entry(job).or_insert_with(begin))
    }

    pub fn end(&mut self, job: JobKey) -> Option<T> {
        self.running.remove(&job)
    }

    /// Keeps the life of a job that died, in case it is replayed. The oldest is forgotten when there are too many.
    pub fn keep_buried(&mut self, job: JobKey, life: T) {
        self.buried.insert(job, life);
        self.deaths.push_back(job);
        if self.deaths.len() > JOBS_MAX
            && let Some(oldest) = self.deaths.pop_front()
        {
            self.buried.remove(&oldest);
        }
    }

    pub fn take_buried(&mut self, job: JobKey) -> Option<T> {
        self.buried.remove(&job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_bound_however_many_jobs_there_are() {
        let mut tracker = JobTracker::default();
        for job in 0..JOBS_MAX as u128 + 10 {
            tracker.open_or_begin(job, || job);
            tracker.keep_buried(job, job);
        }
        assert_eq!(
            (tracker.running.len(), tracker.buried.len(), tracker.deaths.len()),
            (JOBS_MAX, JOBS_MAX, JOBS_MAX)
        );
        assert_eq!(tracker.open_or_begin(1, || 7).copied(), Some(1), "a job that is followed goes on");
        assert_eq!(tracker.take_buried(0), None, "the oldest is forgotten");
        assert_eq!(tracker.take_buried(JOBS_MAX as u128 + 9), Some(JOBS_MAX as u128 + 9));
    }
}
