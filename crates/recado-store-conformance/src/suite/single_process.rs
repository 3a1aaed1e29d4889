//! Promises of stores that belong to one process at a time: what ends with it.

use recado_core::{AttemptResult, LostLease, NewJob, Transition};
use recado_store::{Claim, Pick, Settled, Turns};

use super::durability::reopen;
use crate::Home;
use crate::given::{HOUR, SECOND, T0, TestStore, attempt, deliver, job, jobs_of, route};

pub async fn tenants_stand_by_who_has_been_due_longest(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for (tenant, seconds) in [("late", 2), ("early", 0), ("middle", 1)] {
        let due_at = T0.plus(SECOND * seconds);
        store.accept(jobs_of(tenant, 5).into_iter().map(|new| NewJob { due_at, ..new }).collect()).await;
    }
    store.ready(1, T0.plus(SECOND * 3)).await;
    let store = reopen(store, home).await;
    let leases = store.ready(10, T0.plus(SECOND * 3)).await;
    let tenants: Vec<_> = leases.iter().map(|lease| lease.job.company.as_str()).collect();
    let expected = [["early"; 3], ["middle"; 3], ["late"; 3]].concat();
    assert_eq!(tenants[..9], expected, "the turn that ran is forgotten, the order is not");
    assert_eq!(tenants[9], "early");
    assert_eq!(store.tenant("early", T0).await.unwrap().total_processed, 4, "counted since the start");
}

pub async fn a_lease_held_inside_is_an_orphan_at_once(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let claim = Claim {
        pick: Pick::Ready(route("email")),
        max: 1,
        now: T0,
        lease_until: T0.plus(HOUR),
        worker: "node".into(),
        provider: None,
        outlives_process: false,
        turns: Turns::default(),
    };
    let old = store.0.claim(claim).await.unwrap().leases.remove(0);
    let store = reopen(store, home).await;
    assert_eq!(store.ready(10, T0).await.len(), 0, "it may have been sent, so it is not simply ready again");
    let taken = store.claim(Pick::Orphaned, 10, T0).await.leases.remove(0);
    assert_eq!(
        taken.lost,
        Some(LostLease { attempt: 1, claimed_at: T0, worker: "node".into(), provider: None })
    );
    assert_eq!(store.settle(&old, deliver(&old, T0), T0).await, Settled::Stale, "its holder is fenced off");
    let lost = Some(attempt(1, AttemptResult::Lost, T0));
    store.done(&taken, Transition::Release { at: T0, lost }, T0).await;
    assert_eq!(store.only(T0).await.attempt, 2);
}
