//! The reference's turns: lists, scanned.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use recado_core::fairness::round_robin_priority;
use recado_core::{CompanyId, Lease, RouteName, Timestamp};

use super::{State, StoredJob};
use crate::{Claim, OLDEST_EVERY_JOBS, SnapshotState, TenantFilter, TenantView, Turns};

/// The order of turns on a route, and the statistics of its tenants.
#[derive(Debug, Default)]
pub struct Lane {
    /// Jobs that were found due, with their tenants.
    ready: BTreeMap<u64, CompanyId>,
    /// Tenants with a ready job, first come first.
    ring: Vec<CompanyId>,
    tenant_stats: HashMap<CompanyId, TenantStats>,
    served_last: Option<CompanyId>,
}

/// Statistics of a tenant.
#[derive(Debug, Default)]
struct TenantStats {
    /// Jobs it has had of its turn.
    taken: u32,
    rounds: u64,
    processed: u64,
    last_at: Option<Timestamp>,
}

impl Lane {
    fn add_ready(&mut self, seq: u64, company: &CompanyId) {
        self.ready.insert(seq, company.clone());
        if !self.ring.contains(company) {
            self.ring.push(company.clone());
            self.stats(company).taken = 0;
        }
    }

    pub fn remove_ready(&mut self, seq: u64) {
        let Some(company) = self.ready.remove(&seq) else { return };
        if !self.ready.values().any(|other| *other == company) {
            self.ring.retain(|other| *other != company);
            self.stats(&company).rounds = 0;
        }
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
            for waiting in self.ring.clone() {
                self.stats(&waiting).rounds += 1;
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
        let due = |record: &&StoredJob| {
            record.waits() && record.job.due_at <= now && route.is_none_or(|route| record.job.route == *route)
        };
        let mut due: Vec<&StoredJob> = self.records.iter().filter(due).collect();
        due.sort_by_key(|record| (record.job.due_at, record.seq));
        for StoredJob { seq, job, .. } in due {
            self.lanes.entry(job.route.clone()).or_default().add_ready(*seq, &job.company);
        }
    }

    /// Returns the next job of this route: the next tenant's most urgent or oldest.
    pub fn next_ready(&mut self, route: &RouteName, claim: &Claim, leases: &[Lease]) -> Option<usize> {
        let lane = self.lanes.get_mut(route)?;
        let company = lane.next_tenant(&claim.turns, leases)?;
        let oldest = lane.stats(&company).processed % OLDEST_EVERY_JOBS == OLDEST_EVERY_JOBS - 1;
        lane.count_served(&company, claim.now);
        let own = |at: &usize| {
            let StoredJob { seq, job, .. } = &self.records[*at];
            job.company == company && lane.ready.contains_key(seq)
        };
        (0..self.records.len()).filter(own).min_by_key(|&at| {
            let StoredJob { seq, job, .. } = &self.records[at];
            ((!oldest).then_some(job.priority), job.due_at, *seq)
        })
    }

    pub fn tenants(&self, filter: &TenantFilter, now: Timestamp) -> Vec<TenantView> {
        let live = |record: &&StoredJob| record.state == SnapshotState::Waiting;
        let mut found: BTreeSet<(RouteName, CompanyId)> = BTreeSet::new();
        for StoredJob { job, .. } in self.records.iter().filter(live) {
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
        let live = self.records.iter().filter(|record| record.state == SnapshotState::Waiting);
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
