//! One route's line: a ring of tenants, each with its own jobs by urgency, and the jobs not due yet.

use std::collections::VecDeque;

use hashbrown::HashMap;
use recado_core::RouteName;
use recado_store::reference::TURN_JOBS_MAX;

use crate::heap::LazyHeap;
use crate::index::{CompanyKey, Slots};

/// When a job is due and the slot it is in; the sequence number breaks ties.
pub type Due = (i64, u64, u32);

#[derive(Debug)]
pub struct Lane {
    pub route: RouteName,
    /// Not looked at yet, by due time. Everything passes through here, so that order is by due time alone.
    delayed: LazyHeap<Due>,
    tenants: HashMap<CompanyKey, Tenant>,
    ring: VecDeque<CompanyKey>,
    turn_taken: u32,
    /// Over all tenants.
    ready_count: usize,
    /// Ready or not.
    pub waiting_count: usize,
}

#[derive(Debug, Default)]
struct Tenant {
    /// Priority first, then due time, then arrival.
    ready: LazyHeap<(u8, i64, u64, u32)>,
    ready_count: usize,
    in_ring: bool,
}

impl Lane {
    pub fn new(route: RouteName) -> Self {
        Lane {
            route,
            delayed: LazyHeap::default(),
            tenants: HashMap::new(),
            ring: VecDeque::new(),
            turn_taken: 0,
            ready_count: 0,
            waiting_count: 0,
        }
    }

    pub fn wait(&mut self, due: Due) {
        self.waiting_count += 1;
        self.delayed.push(due);
    }

    /// Moves what is due by `now` into its tenant's line.
    pub fn promote(&mut self, now: i64, slots: &mut Slots) {
        while let Some((due, seq, slot)) = self.delayed.peek(|entry| slots.waits(entry)) {
            if due > now {
                break;
            }
            self.delayed.pop(|_| true);
            let company = slots.promote(slot);
            let tenant = self.tenants.entry(company).or_default();
            tenant.ready.push((slots.priority(slot), due, seq, slot));
            tenant.ready_count += 1;
            self.ready_count += 1;
            if !tenant.in_ring {
                tenant.in_ring = true;
                self.ring.push_back(company);
            }
        }
    }

    pub fn ready_count(&self) -> usize {
        self.ready_count
    }

    /// When the next job that is not due yet will be.
    pub fn next_due(&mut self, slots: &Slots) -> Option<i64> {
        self.delayed.peek(|entry| slots.waits(entry)).map(|(due, ..)| due)
    }

    /// The next job in turn, taken out of the line.
    pub fn take(&mut self, slots: &Slots) -> Option<u32> {
        loop {
            let company = *self.ring.front()?;
            let tenant = self.tenants.get_mut(&company)?;
            if self.turn_taken >= TURN_JOBS_MAX {
                self.turn_taken = 0;
                self.ring.rotate_left(1);
                continue;
            }
            let taken = tenant.ready.pop(|(_, due, seq, slot)| slots.is_ready((due, seq, slot)));
            match taken {
                Some((.., slot)) => {
                    tenant.ready_count -= 1;
                    self.ready_count -= 1;
                    self.turn_taken += 1;
                    return Some(slot);
                }
                None => {
                    // Nothing left: it leaves the ring and is forgotten until it has work again.
                    self.tenants.remove(&company);
                    self.ring.pop_front();
                    self.turn_taken = 0;
                }
            }
        }
    }

    /// A waiting job left the line by another door (cancelled, overdue).
    pub fn forget(&mut self, company: CompanyKey, was_ready: bool, waiting: usize, slots: &Slots) {
        match self.tenants.get_mut(&company) {
            Some(tenant) if was_ready => {
                tenant.ready_count -= 1;
                self.ready_count -= 1;
                tenant
                    .ready
                    .sweep(tenant.ready_count, |(_, due, seq, slot)| slots.is_ready((due, seq, slot)));
            }
            _ => self.delayed.sweep(waiting, |entry| slots.waits(entry)),
        }
    }
}
