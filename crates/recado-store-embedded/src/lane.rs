//! The queue of one route: a ring of tenants, each with its own jobs by urgency, and the jobs not due yet.
//!
//! A turn costs a logarithm of the tenants in the ring, a job one of its tenant's jobs. Tenants that are held
//! back are looked at once in a claim and left where they stand. Tenants without jobs are remembered for a while,
//! for their statistics, and then forgotten.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use recado_core::fairness::round_robin_priority;
use recado_core::{CompanyId, RouteName, Timestamp};
use recado_store::TenantView;

use crate::index::{CompanyKey, Phase, Slot, Slots};
use crate::lazy_heap::LazyHeap;
use crate::tenant::Tenant;

/// A job by its due time, with its slot; the sequence number breaks ties.
pub type Due = (i64, u64, u32);

/// Tenants without jobs that a lane remembers at most.
pub const IDLE_TENANTS_MAX: usize = 10_000;

/// The shares that a claim grants a tenant.
#[derive(Debug, Clone, Copy)]
pub struct TurnTerms {
    /// Jobs in one turn, at least one.
    pub turn_jobs: u32,
    /// Jobs in this claim.
    pub quota: u32,
}

#[derive(Debug, Default)]
pub struct Lane {
    /// Jobs not looked at yet, by due time. Every job passes through here, so that due time alone orders them.
    delayed: LazyHeap<Due>,
    tenants: HashMap<CompanyKey, Tenant>,
    /// Tenants with ready jobs by place, least recently served first.
    ring: BTreeMap<u64, CompanyKey>,
    next_place: u64,
    served_last: Option<CompanyKey>,
    /// Turns given so far.
    turns: u64,
    /// Claims so far; the latest one has passed over the tenants before `passed`.
    claims: u64,
    passed: u64,
    /// Tenants that ran out of jobs, longest ago first.
    idle: LazyHeap<(u64, CompanyKey)>,
    idle_count: usize,
    next_idle: u64,
    /// Over all tenants.
    pub ready_count: usize,
    /// Ready or not.
    pub waiting_count: usize,
}

impl Lane {
    pub fn queue(&mut self, company: CompanyKey, due: Due) {
        let tenant = self.tenants.entry(company).or_default();
        tenant.waiting_count += 1;
        if tenant.idle_since.take().is_some() {
            self.idle_count -= 1;
        }
        self.waiting_count += 1;
        self.delayed.push(due);
    }

    /// Moves what is due by `now` into its tenant's line.
    pub fn promote(&mut self, now: i64, slots: &mut Slots) {
        let Lane { delayed, tenants, ring, next_place, turns, ready_count, .. } = self;
        delayed.take_while(
            |(due, ..)| due <= now,
            |(due, seq, slot)| {
                if !slots.is_delayed((due, seq, slot)) {
                    return;
                }
                let Slot { company, priority, .. } = slots.promote(slot);
                let tenant = tenants.entry(company).or_default();
                tenant.push(priority, (due, seq, slot));
                *ready_count += 1;
                if tenant.place.is_none() {
                    tenant.place = Some(*next_place);
                    tenant.taken = 0;
                    tenant.waits_since_turn = *turns;
                    ring.insert(*next_place, company);
                    *next_place += 1;
                }
            },
        );
    }

    /// Returns the time when the next job that is not due yet will be.
    pub fn next_due(&mut self, slots: &Slots) -> Option<i64> {
        self.delayed.peek(|entry| slots.is_delayed(entry)).map(|(due, ..)| due)
    }

    /// Returns the due time of the oldest unclaimed job; the companies in `left_out` do not count.
    pub fn oldest_due(&mut self, slots: &Slots, left_out: &HashSet<CompanyKey>) -> Option<i64> {
        let Lane { ring, tenants, .. } = self;
        let counted = ring.values().filter(|key| !left_out.contains(*key));
        let waiting = counted.filter_map(|key| tenants.get_mut(key)?.oldest_due(slots));
        waiting.min()
    }

    /// Call before the first [`Lane::take`] of a claim: no tenant has been passed over or had anything yet.
    pub fn begin_claim(&mut self) {
        self.claims += 1;
        self.passed = 0;
    }

    /// Takes the next job in turn out of the queue.
    pub fn take(&mut self, now: i64, slots: &Slots, terms: impl Fn(CompanyKey) -> TurnTerms) -> Option<u32> {
        if let Some(company) = self.served_last {
            self.end_turn(company, terms(company));
        }
        loop {
            let (&place, &company) = self.ring.range(self.passed..).next()?;
            let granted = terms(company);
            let tenant = self.tenants.get_mut(&company)?;
            if tenant.claimed_by(self.claims) >= granted.quota {
                // What is left of a quota only shrinks while a claim lasts: no tenant before this place is
                // looked at again.
                self.passed = place + 1;
                continue;
            }
            if tenant.taken >= granted.turn_jobs {
                // A turn that was cut short, and is shorter now.
                self.end_turn(company, granted);
                continue;
            }
            let slot = tenant.pop(slots)?;
            if self.served_last != Some(company) || tenant.taken == 0 {
                self.turns += 1;
                self.served_last = Some(company);
            }
            tenant.waits_since_turn = self.turns;
            tenant.count_served(self.claims, now);
            self.ready_count -= 1;
            self.leave_ring_if_done(company);
            return Some(slot);
        }
    }

    /// Sends a tenant whose turn is over to the back.
    ///
    /// This does not happen as soon as the turn is over: a tenant that arrived since then was served less recently.
    fn end_turn(&mut self, company: CompanyKey, terms: TurnTerms) {
        let Some(tenant) = self.tenants.get_mut(&company) else { return };
        let Some(place) = tenant.place.filter(|_| tenant.taken >= terms.turn_jobs) else { return };
        tenant.taken = 0;
        if self.ring.last_key_value().is_some_and(|(last, _)| *last > place) {
            self.ring.remove(&place);
            self.ring.insert(self.next_place, company);
            tenant.place = Some(self.next_place);
            self.next_place += 1;
        }
    }

    fn leave_ring_if_done(&mut self, company: CompanyKey) {
        if let Some(tenant) = self.tenants.get_mut(&company)
            && tenant.ready_count == 0
            && let Some(place) = tenant.leave_ring()
        {
            self.ring.remove(&place);
        }
    }

    /// Counts a waiting job as leased, in its turn or not.
    pub fn begin_lease(&mut self, company: CompanyKey) {
        self.waiting_count -= 1;
        if let Some(tenant) = self.tenants.get_mut(&company) {
            tenant.waiting_count -= 1;
            tenant.leased_count += 1;
        }
    }

    /// Counts a lease as ended.
    pub fn end_lease(&mut self, company: CompanyKey) {
        let Some(tenant) = self.tenants.get_mut(&company) else { return };
        tenant.leased_count -= 1;
        if !tenant.is_idle() {
            return;
        }
        if tenant.processed == 0 {
            self.tenants.remove(&company);
            return;
        }
        tenant.idle_since = Some(self.next_idle);
        self.idle.push((self.next_idle, company));
        self.idle_count += 1;
        self.next_idle += 1;
        self.forget_idle();
    }

    /// Keeps the number of idle tenants bounded, those that were served last.
    fn forget_idle(&mut self) {
        let Lane { tenants, idle, idle_count, .. } = self;
        let is_idle = |tenants: &HashMap<CompanyKey, Tenant>, (since, company)| {
            tenants.get(&company).is_some_and(|tenant| tenant.idle_since == Some(since))
        };
        if *idle_count > IDLE_TENANTS_MAX
            && let Some((_, company)) = idle.pop(|entry| is_idle(tenants, entry))
        {
            tenants.remove(&company);
            *idle_count -= 1;
        }
        idle.sweep(*idle_count, |entry| is_idle(tenants, entry));
    }

    /// Removes a waiting job without its turn having come (cancelled, overdue).
    pub fn remove(&mut self, left: Slot, waiting: usize, slots: &Slots) {
        match self.tenants.get_mut(&left.company) {
            Some(tenant) if left.phase == Phase::Ready => {
                tenant.remove(left.priority, slots);
                self.ready_count -= 1;
                self.leave_ring_if_done(left.company);
            }
            _ => self.delayed.sweep(waiting, |entry| slots.is_delayed(entry)),
        }
    }

    #[cfg(test)]
    pub fn idle_entries(&self) -> usize {
        self.idle.len()
    }

    /// Those with jobs, and those served lately.
    pub fn tenants(&self) -> impl Iterator<Item = CompanyKey> {
        self.tenants.keys().copied()
    }

    pub fn view(&self, key: CompanyKey, company: &CompanyId, route: &RouteName) -> Option<TenantView> {
        let tenant = self.tenants.get(&key)?;
        let rounds = tenant.place.map_or(0, |_| self.turns - tenant.waits_since_turn);
        Some(TenantView {
            company: company.clone(),
            route: route.clone(),
            queued: tenant.ready_count as u64,
            delayed: (tenant.waiting_count - tenant.ready_count) as u64,
            leased: tenant.leased_count as u64,
            last_processed_at: tenant.last_at.map(Timestamp::from_millis),
            rounds_without_processing: rounds,
            current_priority: round_robin_priority(rounds),
            total_processed: tenant.processed,
            consecutive_batch_count: if self.served_last == Some(key) { tenant.taken } else { 0 },
        })
    }
}
