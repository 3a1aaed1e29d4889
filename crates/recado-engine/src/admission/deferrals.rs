//! Remembers which lanes and companies were held back, so that an attempt can record that its job was
//! deferred.
//!
//! A job that waits for a breaker, a limit or a pause is not touched, because there may be thousands: its
//! lane remembers, or its company there. A job that became due before the hold ended was deferred, and its
//! next attempt records that. Waiting for a turn or a free slot is not a deferral. Several holds in a row
//! count once.

use std::collections::HashMap;

use parking_lot::Mutex;
use recado_core::{CompanyId, Job, RouteName, Timestamp};

/// Companies that a lane remembers at most.
const COMPANIES_KEPT_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Deferrals {
    lanes: Mutex<HashMap<RouteName, LaneHolds>>,
}

#[derive(Debug, Default)]
struct LaneHolds {
    whole: HoldSpan,
    companies: HashMap<CompanyId, HoldSpan>,
}

#[derive(Debug, Default)]
struct HoldSpan {
    is_on: bool,
    /// The time when it was last seen to be on, or to be over.
    until: Option<Timestamp>,
}

impl HoldSpan {
    /// Records that the hold is on at `now`.
    fn mark_on(&mut self, now: Timestamp) {
        (self.is_on, self.until) = (true, Some(now));
    }

    /// Records that the hold is over at `now`.
    fn mark_over(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.is_on) {
            self.until = Some(now);
        }
    }

    fn held(&self, due_at: Timestamp, by: Timestamp) -> bool {
        self.until.is_some_and(|until| due_at < until && until <= by)
    }
}

impl Deferrals {
    /// Remembers that the whole lane is held back now.
    pub fn record_held_lane(&self, route: &RouteName, now: Timestamp) {
        self.lanes.lock().entry(route.clone()).or_default().whole.mark_on(now);
    }

    /// Remembers that the lane is not held back now.
    pub fn record_free_lane(&self, route: &RouteName, now: Timestamp) {
        if let Some(lane) = self.lanes.lock().get_mut(route) {
            lane.whole.mark_over(now);
        }
    }

    /// Remembers the quota of each bounded company: zero means held back.
    pub fn record_companies(&self, route: &RouteName, quotas: &HashMap<CompanyId, u32>, now: Timestamp) {
        let mut lanes = self.lanes.lock();
        let mut held = quotas.iter().filter(|(_, quota)| **quota == 0).map(|(company, _)| company).peekable();
        if held.peek().is_none() && !lanes.contains_key(route) {
            return;
        }
        let lane = lanes.entry(route.clone()).or_default();
        for (company, hold) in &mut lane.companies {
            match quotas.get(company) {
                Some(0) => hold.mark_on(now),
                _ => hold.mark_over(now),
            }
        }
        for company in held {
            lane.companies.entry(company.clone()).or_default().mark_on(now);
        }
        if lane.companies.len() > COMPANIES_KEPT_MAX {
            lane.companies.retain(|_, hold| hold.is_on);
        }
    }

    /// Returns true if a job that was taken at `taken_at` had been held up although it was due.
    pub fn was_deferred(&self, job: &Job, taken_at: Timestamp) -> bool {
        let lanes = self.lanes.lock();
        let Some(lane) = lanes.get(&job.route) else { return false };
        let company = lane.companies.get(&job.company);
        lane.whole.held(job.due_at, taken_at) || company.is_some_and(|hold| hold.held(job.due_at, taken_at))
    }
}
