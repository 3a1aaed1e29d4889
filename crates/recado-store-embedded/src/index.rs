//! The schedule in memory: the jobs that exist, those that are due, the order of turns, and the leases.
//!
//! All of it can be rebuilt from the file, so it takes no part in durability. It reads no clock and does
//! no I/O. A waiting job costs one [`Slot`], one entry in its lane, one in the expiry queue and a few
//! bytes in the id table.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
use indexmap::IndexSet;
use recado_core::{CompanyId, LostLease, Progress, Random, RouteName, Timestamp};
use recado_store::{JobFilter, LeftOut, TenantFilter, TenantView, Turns};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::lane::{Due, Lane, TurnTerms};
use crate::lazy_heap::LazyHeap;
use crate::owner_index::{OwnerFilter, OwnerIndex};

pub type CompanyKey = u32;
pub type LaneKey = u16;

/// Ended jobs by the time of their end, with the number of their row. They mostly come in order; after the clock was set
/// back they do not, so each finds its place by search.
pub type EndedJobs<E = (i64, u64)> = BTreeSet<E>;

/// A job's id, digested. Two ids never share one in practice: 128 bits under a secret key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdHash([u64; 2]);

/// Digests ids under a random key: a caller cannot choose ids that collide.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdDigester {
    keys: (u64, u64),
}

impl IdDigester {
    pub fn digest(self, id: &str) -> IdHash {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        hasher.write(id.as_bytes());
        let digest = hasher.finish128();
        IdHash([digest.h1, digest.h2])
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Free,
    Delayed,
    Ready,
    Leased,
}

/// A job that has not ended.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    pub id: IdHash,
    pub seq: u64,
    pub due: i64,
    pub expires: i64,
    pub company: CompanyKey,
    pub lane: LaneKey,
    pub priority: u8,
    /// [`Phase::Free`] until the job joins.
    pub phase: Phase,
}

#[derive(Debug, Default)]
pub struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    pub fn get(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    /// Returns true if this entry of a lane's delayed queue still stands for a waiting job.
    pub fn is_delayed(&self, (due, seq, slot): Due) -> bool {
        let slot = self.get(slot);
        slot.phase == Phase::Delayed && slot.seq == seq && slot.due == due
    }

    pub fn is_ready(&self, (due, seq, slot): Due) -> bool {
        let slot = self.get(slot);
        slot.phase == Phase::Ready && slot.seq == seq && slot.due == due
    }

    pub fn promote(&mut self, slot: u32) -> Slot {
        let slot = &mut self.slots[slot as usize];
        slot.phase = Phase::Ready;
        *slot
    }

    fn expires_waiting(&self, (expires, slot): (i64, u32)) -> bool {
        let slot = self.get(slot);
        matches!(slot.phase, Phase::Delayed | Phase::Ready) && slot.expires == expires
    }
}

/// A lease and what settling it needs to know of its job.
#[derive(Debug, Clone)]
pub struct ActiveLease {
    pub slot: u32,
    pub fence: u64,
    pub expires_at: i64,
    /// The record of this lease in a lease that takes it over.
    pub as_lost: LostLease,
    pub progress: Progress,
    /// The history so far, as JSON; absent when there is none.
    pub attempts: Option<Box<str>>,
}

/// The place of a job that an id belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobLocation {
    Live(u32),
    /// Ended or dead: its row's number.
    Row(u64),
}

/// Interned names: a name's key is its position, a small number, so that slots are small.
type NameTable<N> = IndexSet<N, DefaultHashBuilder>;

/// Returns a name's key, which it gets now if it has none.
fn key_of<N: Eq + Hash + Borrow<str>>(
    names: &mut NameTable<N>,
    name: &str,
    make: impl FnOnce(&str) -> N,
) -> usize {
    names.get_index_of(name).unwrap_or_else(|| names.insert_full(make(name)).0)
}

fn find_company(companies: &NameTable<CompanyId>, company: &CompanyId) -> Option<CompanyKey> {
    companies.get_index_of(company).map(|key| key as CompanyKey)
}

#[derive(Debug, Default)]
pub struct Index {
    pub digester: IdDigester,
    companies: NameTable<CompanyId>,
    routes: NameTable<RouteName>,
    /// In the order of their routes.
    lanes: Vec<Lane>,
    pub slots: Slots,
    live: HashTable<u32>,
    rows: HashTable<(IdHash, u64)>,
    expiry: LazyHeap<(i64, u32)>,
    pub leases: HashMap<u64, ActiveLease>,
    lease_ends: LazyHeap<LeaseEnd>,
    pub ended: EndedJobs,
    pub owner_index: OwnerIndex,
    pub next_seq: u64,
    /// The number of the next record of the trail.
    pub next_record: u64,
    waiting_count: usize,
    pub dead_count: u64,
}

/// The end of a lease, the number of its job's row and its fence.
type LeaseEnd = (i64, u64, u64);

impl Index {
    /// Makes an empty one.
    pub fn new(random: &Random) -> Self {
        let digester = IdDigester { keys: (random.next_u64(), random.next_u64()) };
        Index { digester, next_seq: 1, next_record: 1, ..Index::default() }
    }

    /// Reserves memory for `times` as many waiting jobs as there are.
    pub fn reserve_in_proportion(&mut self, times: usize) {
        let Index { slots, live, expiry, waiting_count, .. } = self;
        let waiting = *waiting_count * times;
        slots.slots.reserve_exact(waiting);
        live.reserve(waiting, |&slot| slots.get(slot).id.0[0]);
        expiry.reserve(waiting);
    }

    pub fn digest(&self, id: &str) -> IdHash {
        self.digester.digest(id)
    }

    pub fn find(&self, id: IdHash) -> Option<JobLocation> {
        if let Some(&slot) = self.live.find(id.0[0], |&slot| self.slots.get(slot).id == id) {
            return Some(JobLocation::Live(slot));
        }
        self.rows.find(id.0[0], |(known, _)| *known == id).map(|(_, seq)| JobLocation::Row(*seq))
    }

    /// The row of a job, wherever it stands.
    pub fn row_of(&self, id: IdHash) -> Option<u64> {
        self.find(id).map(|place| match place {
            JobLocation::Live(slot) => self.slots.get(slot).seq,
            JobLocation::Row(seq) => seq,
        })
    }

    pub fn company_key(&mut self, company: &str) -> CompanyKey {
        key_of(&mut self.companies, company, |name| CompanyId::trusted(name)) as CompanyKey
    }

    pub fn lane_key(&mut self, route: &str) -> LaneKey {
        let key = key_of(&mut self.routes, route, |name| RouteName::trusted(name));
        self.lanes.resize_with(self.routes.len(), Lane::default);
        LaneKey::try_from(key).unwrap_or(LaneKey::MAX)
    }

    /// The lane of a route that has had a job.
    pub fn lane_of(&self, route: &str) -> Option<LaneKey> {
        self.routes.get_index_of(route).map(|key| LaneKey::try_from(key).unwrap_or(LaneKey::MAX))
    }

    /// Routes that have had a job.
    pub fn routes(&self) -> impl Iterator<Item = &RouteName> {
        self.routes.iter()
    }

    pub fn route(&self, slot: u32) -> RouteName {
        self.routes[self.slots.get(slot).lane as usize].clone()
    }

    pub fn company(&self, slot: u32) -> CompanyId {
        self.companies[self.slots.get(slot).company as usize].clone()
    }

    /// A job joins, waiting.
    pub fn insert(&mut self, made: Slot) -> u32 {
        let slot = match self.slots.free.pop() {
            Some(slot) => {
                self.slots.slots[slot as usize] = made;
                slot
            }
            None => {
                self.slots.slots.push(made);
                u32::try_from(self.slots.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        let slots = &self.slots;
        self.live.insert_unique(made.id.0[0], slot, |&slot| slots.get(slot).id.0[0]);
        self.next_seq = self.next_seq.max(made.seq + 1);
        self.owner_index.insert(made.seq, made.company, made.lane);
        self.queue(slot, made.due);
        slot
    }

    /// Returns the owner that a list asks for; `None` when no job belongs to it.
    pub fn owner_filter(&self, filter: &JobFilter) -> Option<OwnerFilter> {
        let mut owner = OwnerFilter::default();
        if let Some(company) = &filter.company {
            owner.company = Some(find_company(&self.companies, company)?);
        }
        if let Some(route) = &filter.route {
            owner.lane = Some(self.lane_of(route.as_str())?);
        }
        Some(owner)
    }

    /// Returns the numbers of jobs that wait for a time in `due`, from `top` down, `max` at most.
    pub fn find_waiting(
        &self,
        owner: OwnerFilter,
        due: RangeInclusive<i64>,
        top: u64,
        max: usize,
    ) -> Vec<u64> {
        let mut newest = BinaryHeap::with_capacity(max + 1);
        for slot in &self.slots.slots {
            let waits = matches!(slot.phase, Phase::Delayed | Phase::Ready) && due.contains(&slot.due);
            if waits && slot.seq <= top && owner.matches(slot.company, slot.lane) {
                newest.push(Reverse(slot.seq));
                if newest.len() > max {
                    newest.pop();
                }
            }
        }
        newest.into_sorted_vec().into_iter().map(|Reverse(seq)| seq).collect()
    }

    /// Puts a new or a leased job in line for `due`.
    pub fn queue(&mut self, slot: u32, due: i64) {
        let made = &mut self.slots.slots[slot as usize];
        let was_leased = made.phase == Phase::Leased;
        made.due = due;
        made.phase = Phase::Delayed;
        let lane = &mut self.lanes[made.lane as usize];
        lane.queue(made.company, (due, made.seq, slot));
        if was_leased {
            lane.end_lease(made.company);
        }
        self.expiry.push((made.expires, slot));
        self.waiting_count += 1;
    }

    /// Call before the first [`Index::take_ready`] of a claim.
    pub fn begin_claim(&mut self, lane: LaneKey, now: i64) {
        let lane = &mut self.lanes[lane as usize];
        lane.promote(now, &mut self.slots);
        lane.begin_claim();
    }

    /// Leases the next job of a lane in turn.
    pub fn take_ready(&mut self, lane: LaneKey, now: i64, turns: &Turns) -> Option<u32> {
        let Index { lanes, slots, companies, .. } = self;
        let slot = lanes[lane as usize].take(now, slots, |key| {
            let company = &companies[key as usize];
            TurnTerms { turn_jobs: turns.jobs_of(company), quota: turns.quota_of(company) }
        })?;
        self.mark_leased(slot);
        Some(slot)
    }

    pub fn next_due(&mut self, lane: LaneKey) -> Option<i64> {
        self.lanes[lane as usize].next_due(&self.slots)
    }

    /// Leases a waiting job whose time is over.
    pub fn take_overdue(&mut self, now: i64) -> Option<u32> {
        let slots = &self.slots;
        let (expires, slot) = self.expiry.peek(|entry| slots.expires_waiting(entry))?;
        if expires > now {
            return None;
        }
        self.remove_waiting(slot);
        Some(slot)
    }

    pub fn next_expiry(&mut self) -> Option<i64> {
        let slots = &self.slots;
        self.expiry.peek(|entry| slots.expires_waiting(entry)).map(|(expires, _)| expires)
    }

    /// Takes a waiting job out of its lane without its turn having come; it counts as leased.
    pub fn remove_waiting(&mut self, slot: u32) {
        let left = *self.slots.get(slot);
        self.mark_leased(slot);
        self.lanes[left.lane as usize].remove(left, self.waiting_count, &self.slots);
    }

    fn mark_leased(&mut self, slot: u32) {
        let taken = &mut self.slots.slots[slot as usize];
        taken.phase = Phase::Leased;
        self.lanes[taken.lane as usize].begin_lease(taken.company);
        self.waiting_count -= 1;
        let slots = &self.slots;
        self.expiry.sweep(self.waiting_count, |entry| slots.expires_waiting(entry));
    }

    /// Records the holder of a job.
    pub fn add_lease(&mut self, held: ActiveLease) {
        let seq = self.slots.get(held.slot).seq;
        self.lease_ends.push((held.expires_at, seq, held.fence));
        self.leases.insert(seq, held);
    }

    pub fn extend(&mut self, seq: u64, until: i64) {
        if let Some(held) = self.leases.get_mut(&seq) {
            held.expires_at = until;
            self.lease_ends.push((until, seq, held.fence));
            let leases = &self.leases;
            self.lease_ends.sweep(leases.len(), |end| is_current(leases, end));
        }
    }

    /// Returns the job whose lease ran out first, if one has by `now`.
    pub fn find_orphan(&mut self, now: i64) -> Option<u64> {
        self.next_lease_end().filter(|(at, _)| *at <= now).map(|(_, seq)| seq)
    }

    pub fn next_lease_end(&mut self) -> Option<(i64, u64)> {
        let leases = &self.leases;
        self.lease_ends.peek(|end| is_current(leases, end)).map(|(at, seq, _)| (at, seq))
    }

    /// Ends a lease; the slot stays until it waits again or is freed.
    pub fn remove_lease(&mut self, seq: u64) {
        self.leases.remove(&seq);
        let leases = &self.leases;
        self.lease_ends.sweep(leases.len(), |end| is_current(leases, end));
    }

    /// A leased job has ended or died; its id is remembered with its row.
    pub fn retire(&mut self, slot: u32) {
        let Slot { id, seq, company, lane, .. } = *self.slots.get(slot);
        self.lanes[lane as usize].end_lease(company);
        if let Ok(entry) = self.live.find_entry(id.0[0], |&live| live == slot) {
            entry.remove();
        }
        self.slots.slots[slot as usize].phase = Phase::Free;
        self.slots.free.push(slot);
        self.remember_row(id, seq);
    }

    pub fn remember_row(&mut self, id: IdHash, seq: u64) {
        self.rows.insert_unique(id.0[0], (id, seq), |(known, _)| known.0[0]);
        self.next_seq = self.next_seq.max(seq + 1);
    }

    pub fn forget_row(&mut self, id: IdHash) {
        if let Ok(entry) = self.rows.find_entry(id.0[0], |(known, _)| *known == id) {
            entry.remove();
        }
    }

    /// Forgets a job that has ended.
    pub fn forget_ended(&mut self, id: IdHash, seq: u64, ended_at: i64) {
        self.forget_row(id);
        self.owner_index.remove(seq);
        self.ended.remove(&(ended_at, seq));
    }

    /// Waiting jobs, due or not, of each route that has any.
    pub fn waiting_by_route(&self) -> BTreeMap<RouteName, u64> {
        let lanes = self.routes.iter().zip(&self.lanes);
        let waiting = lanes.filter(|(_, lane)| lane.waiting_count > 0);
        waiting.map(|(route, lane)| (route.clone(), lane.waiting_count as u64)).collect()
    }

    /// Waiting jobs that are not due, and those that are.
    pub fn waiting_counts(&mut self, now: i64) -> (u64, u64) {
        let Index { lanes, slots, .. } = self;
        let mut ready = 0;
        for lane in lanes.iter_mut() {
            lane.promote(now, slots);
            ready += lane.ready_count;
        }
        (self.waiting_count as u64 - ready as u64, ready as u64)
    }

    /// Returns the due time of the oldest waiting job of each route; `left_out` does not count.
    pub fn oldest_due(&mut self, left_out: &LeftOut, now: i64) -> BTreeMap<RouteName, Timestamp> {
        let Index { routes, lanes, slots, companies, .. } = self;
        let oldest = routes.iter().zip(lanes).filter_map(|(route, lane)| {
            lane.promote(now, slots);
            let here = left_out.iter().filter(|(of, _)| of.as_ref().is_none_or(|of| of == route));
            let here: HashSet<_> = here.filter_map(|(_, company)| find_company(companies, company)).collect();
            Some((route.clone(), Timestamp::from_millis(lane.oldest_due(slots, &here)?)))
        });
        oldest.collect()
    }

    /// Returns the statistics of each tenant on each lane, by route and company.
    pub fn tenants(&mut self, filter: &TenantFilter, now: i64) -> Vec<TenantView> {
        let Index { routes, lanes, slots, companies, .. } = self;
        let mut views = Vec::new();
        let lanes = routes.iter().zip(lanes);
        for (route, lane) in
            lanes.filter(|(route, _)| filter.route.as_ref().is_none_or(|want| want == *route))
        {
            lane.promote(now, slots);
            let name = |key: CompanyKey| &companies[key as usize];
            match &filter.company {
                Some(company) => {
                    views.extend(
                        find_company(companies, company).and_then(|key| lane.view(key, company, route)),
                    );
                }
                None => views.extend(lane.tenants().filter_map(|key| lane.view(key, name(key), route))),
            }
        }
        views.sort_unstable_by(|a, b| (&a.route, &a.company).cmp(&(&b.route, &b.company)));
        views
    }
}

fn is_current(leases: &HashMap<u64, ActiveLease>, (at, seq, fence): LeaseEnd) -> bool {
    leases.get(&seq).is_some_and(|held| held.fence == fence && held.expires_at == at)
}

#[cfg(test)]
mod tests;
