//! The reference's turns: lists, scanned.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use recado_core::fairness::round_robin_priority;
use recado_core::{CompanyId, Lease, RouteName, Timestamp};

use super::{Phase, Record, State};
use crate::contract::Claim;
use crate::inspect::{TenantFilter, TenantView};
use crate::turns::{OLDEST_EVERY_JOBS, Turns};

/// Whose turn it is on a route, and how its tenants fared.
#[derive(Debug, Default)]
pub struct Lane {
    /// Jobs that were found due, with their tenants.
    ready: BTreeMap<u64, CompanyId>,
    /// Tenants with a ready job, first come first.
    ring: Vec<CompanyId>,
    fares: HashMap<CompanyId, Fare>,
    served_last: Option<CompanyId>,
}

/// Statistics of a tenant.
#[derive(Debug, Default)]
struct Fare {
    /// Jobs it has had of its turn.
    taken: u32,
    rounds: u64,
    processed: u64,
    last_at: Option<Timestamp>,
}

impl Lane {
    fn found_due(&mut self, seq: u64, company: &CompanyId) {
        self.ready.insert(seq, company.clone());
        if !self.ring.contains(company) {
            self.ring.push(company.clone());
            self.fare(company).taken = 0;
        }
    }

    pub fn leave(&mut self, seq: u64) {
        let Some(company) = self.ready.remove(&seq) else { return };
        if !self.ready.values().any(|other| *other == company) {
            self.ring.retain(|other| *other != company);
            self.fare(&company).rounds = 0;
        }
    }

    /// Whose job is next: the first in the ring that is not held back.
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
        let over = self.ring.contains(company) && self.fare(company).taken >= turns.jobs_of(company);
        if over {
            self.fare(company).taken = 0;
            self.ring.retain(|other| other != company);
            self.ring.push(company.clone());
        }
        over
    }

    fn serve(&mut self, company: &CompanyId, now: Timestamp) {
        if self.served_last.as_ref() != Some(company) || self.fare(company).taken == 0 {
            for waiting in self.ring.clone() {
                self.fare(&waiting).rounds += 1;
            }
            self.served_last = Some(company.clone());
        }
        let fare = self.fare(company);
        fare.rounds = 0;
        fare.taken += 1;
        fare.processed += 1;
        fare.last_at = Some(now);
    }

    fn fare(&mut self, company: &CompanyId) -> &mut Fare {
        self.fares.entry(company.clone()).or_default()
    }
}

impl State {
    /// Finds out what has become due, of one route or of all, in the order in which it did.
    pub fn look(&mut self, route: Option<&RouteName>, now: Timestamp) {
        let due = |record: &&Record| {
            matches!(record.phase, Phase::Waiting)
                && record.job.due_at <= now
                && route.is_none_or(|route| record.job.route == *route)
        };
        let mut due: Vec<&Record> = self.records.iter().filter(due).collect();
        due.sort_by_key(|record| (record.job.due_at, record.seq));
        for Record { seq, job, .. } in due {
            self.lanes.entry(job.route.clone()).or_default().found_due(*seq, &job.company);
        }
    }

    /// The next job of this route: whose turn it is, then that tenant's most urgent or oldest.
    pub fn next_ready(&mut self, route: &RouteName, claim: &Claim, leases: &[Lease]) -> Option<usize> {
        let lane = self.lanes.get_mut(route)?;
        let company = lane.next_tenant(&claim.turns, leases)?;
        let oldest = lane.fare(&company).processed % OLDEST_EVERY_JOBS == OLDEST_EVERY_JOBS - 1;
        lane.serve(&company, claim.now);
        let own = |at: &usize| {
            let Record { seq, job, .. } = &self.records[*at];
            job.company == company && lane.ready.contains_key(seq)
        };
        (0..self.records.len()).filter(own).min_by_key(|&at| {
            let Record { seq, job, .. } = &self.records[at];
            ((!oldest).then_some(job.priority), job.due_at, *seq)
        })
    }

    pub fn tenants(&self, filter: &TenantFilter, now: Timestamp) -> Vec<TenantView> {
        let live = |record: &&Record| matches!(record.phase, Phase::Waiting | Phase::Leased(_));
        let mut found: BTreeSet<(RouteName, CompanyId)> = BTreeSet::new();
        for Record { job, .. } in self.records.iter().filter(live) {
            found.insert((job.route.clone(), job.company.clone()));
        }
        for (route, lane) in &self.lanes {
            let served = lane.fares.iter().filter(|(_, fare)| fare.processed > 0);
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
        let fare = lane.and_then(|lane| lane.fares.get(&company));
        let rounds = fare.map_or(0, |fare| fare.rounds);
        let latest = lane.is_some_and(|lane| lane.served_last.as_ref() == Some(&company));
        let mut view = TenantView {
            queued: 0,
            delayed: 0,
            leased: 0,
            last_processed_at: fare.and_then(|fare| fare.last_at),
            rounds_without_processing: rounds,
            current_priority: round_robin_priority(rounds),
            total_processed: fare.map_or(0, |fare| fare.processed),
            consecutive_batch_count: fare.filter(|_| latest).map_or(0, |fare| fare.taken),
            company,
            route,
        };
        for Record { job, phase, .. } in &self.records {
            if job.company == view.company && job.route == view.route {
                match phase {
                    Phase::Waiting if job.due_at <= now => view.queued += 1,
                    Phase::Waiting => view.delayed += 1,
                    Phase::Leased(_) => view.leased += 1,
                    Phase::Ended { .. } | Phase::Dead => {}
                }
            }
        }
        view
    }
}
