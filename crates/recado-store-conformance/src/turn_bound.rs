//! The bound on waiting, held against random arrivals, claims and endings.
//!
//! Whenever a job of one tenant comes, every other tenant that has a ready job and is not held back must have
//! something left to wait for: one turn of each tenant that stood in the ring before it, and nothing of those
//! that came after. A job that comes without being owed breaks the bound.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use recado_core::{CompanyId, Lease, NewJob, Timestamp, Transition};
use recado_store::{Claim, Pick, Turns};

use super::Home;
use super::given::{T0, TestStore, company, deliver, job, route};
use super::property_test::for_any;

const TENANTS: usize = 5;
const STEPS_MAX: usize = 80;

#[derive(Clone, Debug)]
struct TurnScenario {
    batch: u32,
    weights: [u32; TENANTS],
    steps: Vec<TurnStep>,
}

#[derive(Clone, Debug)]
enum TurnStep {
    Arrive {
        tenant: usize,
        jobs: usize,
    },
    Claim {
        max: usize,
        /// The tenant that gets nothing of this claim.
        held_back: Option<usize>,
    },
    /// One of the jobs in flight ends, or goes back in line.
    Settle {
        nth: usize,
        delivered: bool,
    },
}

/// Runs random scenarios in stores that `home` makes; panics with the shortest one in which a tenant waits for
/// more than one turn of each tenant before it.
pub fn a_tenant_waits_for_one_turn_of_each_other_at_most<H: Home>(home: impl Fn() -> H) {
    let tenant = 0..TENANTS;
    let step = prop_oneof![
        3 => (tenant.clone(), 1..8_usize).prop_map(|(tenant, jobs)| TurnStep::Arrive { tenant, jobs }),
        4 => (1..7_usize, prop::option::weighted(0.3, tenant))
            .prop_map(|(max, held_back)| TurnStep::Claim { max, held_back }),
        2 => (0..32_usize, any::<bool>()).prop_map(|(nth, delivered)| TurnStep::Settle { nth, delivered }),
    ];
    let steps = prop::collection::vec(step, 1..STEPS_MAX);
    let scenarios = (1..4_u32, prop::array::uniform5(1..4_u32), steps)
        .prop_map(|(batch, weights, steps)| TurnScenario { batch, weights, steps });
    for_any(&scenarios, async |scenario| run_scenario(home(), &scenario).await);
}

async fn run_scenario(mut home: impl Home, scenario: &TurnScenario) {
    let store = TestStore::at(&mut home).await;
    let mut owed_turns = OwedTurns::new(scenario);
    let mut in_flight: Vec<Lease> = Vec::new();
    let mut arrived = 0;
    for (nth, step) in scenario.steps.iter().enumerate() {
        let now = T0.plus(Duration::from_millis(nth as u64));
        match *step {
            TurnStep::Arrive { tenant, jobs } => {
                let new = |n| NewJob { company: name(tenant), due_at: now, ..job(&format!("job-{n}")) };
                store.accept((arrived..arrived + jobs).map(new).collect()).await;
                arrived += jobs;
                owed_turns.arrive(tenant, jobs);
            }
            TurnStep::Claim { max, held_back } => {
                let leases = claim(&store, scenario, max, held_back, now).await;
                assert_eq!(
                    leases.len(),
                    max.min(owed_turns.free(held_back)),
                    "step {nth}: no tenant is held up"
                );
                for lease in leases {
                    owed_turns.serve(&lease.job.company, held_back, nth);
                    in_flight.push(lease);
                }
            }
            TurnStep::Settle { .. } if in_flight.is_empty() => {}
            TurnStep::Settle { nth: which, delivered: true } => {
                let lease = in_flight.swap_remove(which % in_flight.len());
                store.done(&lease, deliver(&lease, now), now).await;
            }
            TurnStep::Settle { nth: which, delivered: false } => {
                let lease = in_flight.swap_remove(which % in_flight.len());
                store.done(&lease, Transition::Release { at: now, lost: None }, now).await;
                owed_turns.arrive(number(&lease.job.company), 1);
            }
        }
    }
}

async fn claim(
    store: &TestStore,
    scenario: &TurnScenario,
    max: usize,
    held_back: Option<usize>,
    now: Timestamp,
) -> Vec<Lease> {
    let weights: HashMap<_, _> =
        scenario.weights.iter().enumerate().map(|(n, weight)| (name(n), *weight)).collect();
    let turns = Turns {
        batch: scenario.batch,
        weights: Arc::new(weights),
        quota: Arc::new(held_back.map(|tenant| (name(tenant), 0)).into_iter().collect()),
    };
    let claim = Claim {
        pick: Pick::Ready(route("email")),
        max,
        now,
        lease_until: now.plus(Duration::from_secs(60)),
        worker: "worker-1".into(),
        provider: None,
        outlives_process: true,
        turns,
    };
    store.0.claim(claim).await.unwrap().leases
}

fn name(tenant: usize) -> CompanyId {
    company(&format!("tenant-{tenant}"))
}

fn number(company: &CompanyId) -> usize {
    (0..TENANTS).find(|tenant| name(*tenant) == *company).unwrap()
}

/// Ready jobs of each tenant, and the jobs of others that each may still have to wait for.
struct OwedTurns {
    turn_jobs: [u32; TENANTS],
    ready: [usize; TENANTS],
    owed: [[u32; TENANTS]; TENANTS],
    served_last: Option<usize>,
}

impl OwedTurns {
    fn new(scenario: &TurnScenario) -> Self {
        let turn_jobs = scenario.weights.map(|weight| scenario.batch * weight);
        OwedTurns { turn_jobs, ready: [0; TENANTS], owed: [[0; TENANTS]; TENANTS], served_last: None }
    }

    /// Jobs that a claim can take.
    fn free(&self, held_back: Option<usize>) -> usize {
        (0..TENANTS).filter(|tenant| Some(*tenant) != held_back).map(|tenant| self.ready[tenant]).sum()
    }

    fn arrive(&mut self, tenant: usize, jobs: usize) {
        if self.ready[tenant] == 0 {
            self.begin_to_wait(tenant);
            self.served_last = self.served_last.filter(|last| *last != tenant);
            for waiting in 0..TENANTS {
                // The tenant served last may have had its turn, and then stands behind those who come.
                let before = self.served_last == Some(waiting);
                self.owed[waiting][tenant] = if before { self.turn_jobs[tenant] } else { 0 };
            }
        }
        self.ready[tenant] += jobs;
    }

    fn begin_to_wait(&mut self, tenant: usize) {
        for other in 0..TENANTS {
            self.owed[tenant][other] = if self.ready[other] > 0 { self.turn_jobs[other] } else { 0 };
        }
    }

    fn serve(&mut self, company: &CompanyId, held_back: Option<usize>, nth: usize) {
        let served = number(company);
        self.ready[served] -= 1;
        for waiting in (0..TENANTS).filter(|other| *other != served && Some(*other) != held_back) {
            if self.ready[waiting] > 0 {
                let owed = &mut self.owed[waiting][served];
                assert!(
                    *owed > 0,
                    "step {nth}: {company} came before tenant-{waiting}, which was there first"
                );
                *owed -= 1;
            }
        }
        self.begin_to_wait(served);
        self.served_last = Some(served);
    }
}
