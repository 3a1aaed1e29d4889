//! Counts and logs resource shortages of this process: descriptors, memory, ports, names, its store.
//!
//! A job that meets one is postponed and spends no attempt; its provider is not blamed, and no breaker moves.

use parking_lot::Mutex;
use recado_core::{Fault, Job, Timestamp};

/// Minimum interval between two log lines: thousands of jobs may meet the same shortage.
const LOG_EVERY_MS: i64 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Shortages(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    count: u64,
    logged_at: Option<Timestamp>,
}

impl Shortages {
    /// Deliveries that met a shortage since the start.
    pub fn count(&self) -> u64 {
        self.0.lock().count
    }

    /// Counts a delivery that met a shortage, and logs it unless a line was logged a moment ago.
    pub fn record(&self, job: &Job, fault: &Fault, now: Timestamp) {
        let mut seen = self.0.lock();
        seen.count += 1;
        if seen.logged_at.is_some_and(|at| (0..LOG_EVERY_MS).contains(&(now.as_millis() - at.as_millis()))) {
            return;
        }
        seen.logged_at = Some(now);
        tracing::error!(
            jobId = %job.id,
            route = %job.route,
            shortages = seen.count,
            why = &*fault.text,
            "This process lacks a resource; the jobs that need it are postponed and spend no attempt"
        );
    }
}
