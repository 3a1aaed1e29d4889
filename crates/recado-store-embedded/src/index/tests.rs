//! Cost of the schedule, counted in steps and entries.

use std::cell::Cell;
use std::cmp::Ordering;
use std::rc::Rc;

use super::*;
use crate::lane::IDLE_TENANTS_MAX;

const NOW: i64 = 1_000;

fn add(index: &mut Index, company: &str, job: u64) -> u32 {
    let entry = Slot {
        id: index.digest(&job.to_string()),
        seq: job,
        due: NOW,
        expires: i64::MAX,
        company: index.company_key(company),
        lane: index.lane_key("email"),
        priority: 5,
        phase: Phase::Free,
    };
    index.insert(entry)
}

/// Serves the only job of a tenant and lets it end.
fn serve(index: &mut Index, company: &str, job: u64) {
    let slot = add(index, company, job);
    index.begin_claim(0, NOW);
    assert_eq!(index.take_ready(0, NOW, &Turns::default()), Some(slot));
    index.retire(slot);
}

#[test]
fn tenants_held_back_are_looked_at_once_in_a_claim_and_not_for_each_job() {
    const HELD_BACK: u32 = 1_000;
    const JOBS: u32 = 100;
    let mut index = Index::new(&Random::from_seed(7));
    for tenant in 0..HELD_BACK {
        for job in 0..5 {
            add(&mut index, &format!("held-{tenant}"), u64::from(tenant * 5 + job));
        }
    }
    let free = index.company_key("free");
    for job in 0..3 * JOBS {
        add(&mut index, "free", u64::from(1_000_000 + job));
    }
    for _claim in 0..3 {
        index.begin_claim(0, NOW);
        let looks = Cell::new(0);
        let terms = |company| {
            looks.set(looks.get() + 1);
            TurnTerms { turn_jobs: 3, quota: if company == free { u32::MAX } else { 0 } }
        };
        for _job in 0..JOBS {
            let slot = index.lanes[0].take(NOW, &index.slots, terms).unwrap();
            assert_eq!(index.slots.get(slot).company, free);
            index.mark_leased(slot);
        }
        assert!(looks.get() >= HELD_BACK, "they stand before the free one");
        assert!(looks.get() <= HELD_BACK + 2 * JOBS, "{} looks for {JOBS} jobs", looks.get());
    }
}

#[test]
fn of_the_tenants_without_jobs_those_served_last_are_remembered() {
    let mut index = Index::new(&Random::from_seed(7));
    let count = IDLE_TENANTS_MAX as u64 + 10;
    for tenant in 0..count {
        serve(&mut index, &format!("tenant-{tenant}"), tenant);
        // It is never the one that has been idle longest.
        serve(&mut index, "regular", count + tenant);
    }
    assert_eq!(index.lanes[0].tenants().count(), IDLE_TENANTS_MAX);
    let mut known = |company: &str| {
        let filter = TenantFilter { company: Some(CompanyId::trusted(company)), route: None };
        !index.tenants(&filter, NOW).is_empty()
    };
    assert!(!known("tenant-0") && known("regular") && known(&format!("tenant-{}", count - 1)));
}

#[test]
fn a_tenant_that_comes_and_goes_leaves_nothing_behind() {
    let mut index = Index::new(&Random::from_seed(7));
    for job in 0..20_000 {
        serve(&mut index, "regular", job);
    }
    let idle = index.lanes[0].idle_entries();
    assert!(idle < 2_000, "{idle} entries for one tenant");
}

#[test]
fn a_tenant_with_jobs_is_never_forgotten() {
    let mut index = Index::new(&Random::from_seed(7));
    serve(&mut index, "busy", 0);
    add(&mut index, "busy", 1);
    for tenant in 0..IDLE_TENANTS_MAX as u64 + 10 {
        let slot = add(&mut index, &format!("tenant-{tenant}"), 2 + tenant);
        let turns = Turns {
            quota: std::sync::Arc::new([(CompanyId::trusted("busy"), 0)].into()),
            ..Turns::default()
        };
        index.begin_claim(0, NOW);
        assert_eq!(index.take_ready(0, NOW, &turns), Some(slot));
        index.retire(slot);
    }
    let filter = TenantFilter { company: Some(CompanyId::trusted("busy")), route: None };
    let [view] = &index.tenants(&filter, NOW)[..] else { panic!("it waits, and is not listed") };
    assert_eq!((view.queued, view.total_processed, view.current_priority), (1, 1, 1));
}

/// An ending that counts how often it is compared.
#[derive(Clone)]
struct Counted(i64, Rc<Cell<u64>>);

impl Ord for Counted {
    fn cmp(&self, other: &Self) -> Ordering {
        self.1.set(self.1.get() + 1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Counted {}

#[test]
#[expect(clippy::mutable_key_type, reason = "the count is no part of the order")]
fn a_clock_that_was_set_back_makes_filing_an_ending_no_more_work() {
    const ENDINGS: i64 = 20_000;
    let comparisons = Rc::new(Cell::new(0));
    let mut endings = EndedJobs::default();
    let mut file = |from: i64| {
        let before = comparisons.get();
        endings.extend((from..from + ENDINGS).map(|at| Counted(at, comparisons.clone())));
        comparisons.get() - before
    };
    let in_order = file(10 * ENDINGS);
    let set_back = file(0);
    assert!(set_back <= 2 * in_order, "{set_back} comparisons after the step, {in_order} before it");
    assert_eq!(endings.first().map(|ending| ending.0), Some(0));
}
