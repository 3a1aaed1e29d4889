//! The reference's turns.

use std::collections::{BTreeSet, HashMap};

use recado_core::fairness::round_robin_priority;
use recado_core::{CompanyId, Lease, Priority, RouteName, Timestamp};

use super::{State, StoredJob};
use crate::{Claim, OLDEST_EVERY_JOBS, SnapshotState, TenantFilter, TenantView, Turns};

/// The order of turns on a route, and the statistics of its tenants.
#[derive(Debug, Default, Clone)]
pub struct Lane {
    /// Waiting jobs that were not found due yet, by their due time.
    delayed: BTreeSet<(Timestamp, u64)>,
    /// Jobs that were found due, of each tenant that has any.
    ready: HashMap<CompanyId, ReadyJobs>,
    /// Tenants with a ready job, first come first.
    ring: Vec<CompanyId>,
    tenant_stats: HashMap<CompanyId, TenantStats>,
    served_last: Option<CompanyId>,
}

/// A tenant's jobs that were found due.
#[derive(Debug, Default, Clone)]
struct ReadyJobs {
    by_priority: BTreeSet<(Priority, Timestamp, u64)>,
    by_due_time: BTreeSet<(Timestamp, u64)>,
}

/// Statistics of a tenant.
#[derive(Debug, Default, Clone)]
struct TenantStats {
    /// Jobs it has had of its turn.
    taken: u32,
    rounds: u64,
    processed: u64,
    last_at: Option<Timestamp>,
}

impl Lane {
    pub fn add_waiting(&mut self, record: &StoredJob) {
        self.delayed.insert((record.job.due_at, record.seq));
    }

    /// Takes a job out that waits no more; a tenant without a ready job leaves the ring.
    pub fn remove_waiting(&mut self, StoredJob { seq, job, .. }: &StoredJob) {
        self.delayed.remove(&(job.due_at, *seq));
        let Some(ready) = self.ready.get_mut(&job.company) else { return };
        ready.by_priority.remove(&(job.priority, job.due_at, *seq));
        ready.by_due_time.remove(&(job.due_at, *seq));
        if ready.by_due_time.is_empty() {
            self.ready.remove(&job.company);
            self.ring.retain(|other| *other != job.company);
            self.stats(&job.company).rounds = 0;
        }
    }

    fn add_ready(&mut self, StoredJob { seq, job, .. }: &StoredJob) {
        if !self.ready.contains_key(&job.company) {
            self.ring.push(job.company.clone());
            self.stats(&job.company).taken = 0;
        }
        let ready = self.ready.entry(job.company.clone()).or_default();
        ready.by_priority.insert((job.priority, job.due_at, *seq));
        ready.by_due_time.insert((job.due_at, *seq));
    }

    /// Returns the tenant whose job is next: the first in the ring that is not held back.
    fn next_tenant(&mut self, turns: &Turns, leases: &[Lease]) -> Option<CompanyId> {
        let held_back = |company: &CompanyId| {
            let had = leases.iter().filter(|lease| lease.job.company == *company).count();
            had >= turns.quota_of(company) as usize
        };
        if let Some(last) = self.served_last.clone() {
            self.end_turn(&last, turns);
        }
        loop {
            let company = self.ring.iter().find(|company| !held_back(company))?.clone();
            if !self.end_turn(&company, turns) {
                return Some(company);
            }
        }
    }

    /// Sends a tenant whose turn is over to the back.
    fn end_turn(&mut self, company: &CompanyId, turns: &Turns) -> bool {
        let over = self.ring.contains(company) && self.stats(company).taken >= turns.jobs_of(company);
        if over {
            self.stats(company).taken = 0;
            self.ring.retain(|other| other != company);
            self.ring.push(company.clone());
        }
        over
    }

    fn count_served(&mut self, company: &CompanyId, now: Timestamp) {
        if self.served_last.as_ref() != Some(company) || self.stats(company).taken == 0 {
            for waiting in &self.ring {
                self.tenant_stats.entry(waiting.clone()).or_default().rounds += 1;
            }
            self.served_last = Some(company.clone());
        }
        let stats = self.stats(company);
        stats.rounds = 0;
        stats.taken += 1;
        stats.processed += 1;
        stats.last_at = Some(now);
    }

    fn stats(&mut self, company: &CompanyId) -> &mut TenantStats {
        self.tenant_stats.entry(company.clone()).or_default()
    }
}

impl State {
    /// Adds the jobs that have become due, of one route or of all, to their rings in the order in which they did.
    pub fn mark_due(&mut self, route: Option<&RouteName>, now: Timestamp) {
        let lanes = self.lanes.iter_mut().filter(|(name, _)| route.is_none_or(|route| *name == route));
        for (_, lane) in lanes {
            let still_delayed = lane.delayed.split_off(&(now, u64::MAX));
            for (_, seq) in std::mem::replace(&mut lane.delayed, still_delayed) {
                lane.add_ready(&self.records[&seq]);
            }
        }
    }

    /// Returns the next job of this route: the next tenant's most urgent or oldest.
    pub fn next_ready(&mut self, route: &RouteName, claim: &Claim, leases: &[Lease]) -> Option<u64> {
        let lane = self.lanes.get_mut(route)?;
        let company = lane.next_tenant(&claim.turns, leases)?;
        let oldest = lane.stats(&company).processed % OLDEST_EVERY_JOBS == OLDEST_EVERY_JOBS - 1;
        lane.count_served(&company, claim.now);
        let ready = lane.ready.get(&company)?;
        match oldest {
            true => ready.by_due_time.first().map(|(_, seq)| *seq),
            false => ready.by_priority.first().map(|(_, _, seq)| *seq),
        }
    }

    pub fn tenants(&self, filter: &TenantFilter, now: Timestamp) -> Vec<TenantView> {
        let live = |record: &&StoredJob| record.state == SnapshotState::Waiting;
        let mut found: BTreeSet<(RouteName, CompanyId)> = BTreeSet::new();
        for StoredJob { job, .. } in self.records.values().filter(live) {
            found.insert((job.route.clone(), job.company.clone()));
        }
        for (route, lane) in &self.lanes {
            let served = lane.tenant_stats.iter().filter(|(_, stats)| stats.processed > 0);
            found.extend(served.map(|(company, _)| (route.clone(), company.clone())));
        }
        found.retain(|(route, company)| {
            filter.route.as_ref().is_none_or(|want| route == want)
                && filter.company.as_ref().is_none_or(|want| company == want)
        });
        found.into_iter().map(|(route, company)| self.tenant(route, company, now)).collect()
    }

    fn tenant(&self, route: RouteName, company: CompanyId, now: Timestamp) -> TenantView {
        let lane = self.lanes.get(&route);
        let stats = lane.and_then(|lane| lane.tenant_stats.get(&company));
        let rounds = stats.map_or(0, |stats| stats.rounds);
        let latest = lane.is_some_and(|lane| lane.served_last.as_ref() == Some(&company));
        let mut view = TenantView {
            queued: 0,
            delayed: 0,
            leased: 0,
            last_processed_at: stats.and_then(|stats| stats.last_at),
            rounds_without_processing: rounds,
            current_priority: round_robin_priority(rounds),
            total_processed: stats.map_or(0, |stats| stats.processed),
            consecutive_batch_count: stats.filter(|_| latest).map_or(0, |stats| stats.taken),
            company,
            route,
        };
        let live = self.records.values().filter(|record| record.state == SnapshotState::Waiting);
        for StoredJob { job, lease, .. } in live {
            if job.company == view.company && job.route == view.route {
                *match lease {
                    Some(_) => &mut view.leased,
                    None if job.due_at <= now => &mut view.queued,
                    None => &mut view.delayed,
                } += 1;
            }
        }
        view
    }
}
