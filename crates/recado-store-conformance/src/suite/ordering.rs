//! Order of claims: turns between tenants; urgency, due time and arrival within one.

use std::collections::HashSet;
use std::time::Duration;

use recado_core::fairness::TURN_JOBS;
use recado_core::{JobId, Lease, NewJob, Transition};
use recado_store::Pick;

use crate::Home;
use crate::given::{HOUR, SECOND, T0, TestStore, company, id, job, jobs_of, priority, retry_at, route};

const TURN: usize = TURN_JOBS as usize;

fn ids(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.job.id.as_str()).collect()
}

/// Consecutive jobs of each tenant, in order.
pub fn turns(leases: &[Lease]) -> Vec<(String, usize)> {
    let mut turns: Vec<(String, usize)> = Vec::new();
    for lease in leases {
        match turns.last_mut() {
            Some((company, count)) if company == lease.job.company.as_str() => *count += 1,
            _ => turns.push((lease.job.company.to_string(), 1)),
        }
    }
    turns
}

pub async fn within_a_tenant_urgency_then_due_time_then_arrival_decide(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let ms = Duration::from_millis;
    store
        .accept(vec![
            NewJob { due_at: T0.plus(ms(20)), ..job("fifth") },
            NewJob { priority: priority(9), ..job("sixth") },
            NewJob { due_at: T0.plus(ms(10)), ..job("third") },
            NewJob { due_at: T0.plus(ms(10)), ..job("fourth") },
            NewJob { priority: priority(1), due_at: T0.plus(ms(30)), ..job("first") },
            NewJob { priority: priority(2), due_at: T0.plus(ms(30)), ..job("second") },
        ])
        .await;
    let leases = store.ready(10, T0.plus(SECOND)).await;
    assert_eq!(ids(&leases), ["first", "second", "third", "fourth", "fifth", "sixth"]);
}

pub async fn the_same_order_holds_over_many_small_claims(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let names: Vec<String> = (0..20).map(|n| format!("job-{n:02}")).collect();
    store.accept(names.iter().map(|name| job(name)).collect()).await;
    let mut claimed = Vec::new();
    while claimed.len() < names.len() {
        let leases = store.ready(3, T0).await;
        assert!(!leases.is_empty(), "nothing came after {claimed:?}");
        claimed.extend(leases.into_iter().map(|lease| lease.job.id.to_string()));
    }
    assert_eq!(claimed, names);
}

pub async fn a_late_tenant_with_one_job_is_claimed_within_one_turn_of_a_thousand(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("many", 1_000)).await;
    for already in [0, 1, 2, 4, 50] {
        store.ready(already, T0).await;
        let late = format!("late-{already}");
        store.accept(vec![NewJob { company: company(&late), ..job(&late) }]).await;
        let leases = store.ready(TURN + 1, T0).await;
        let served = leases.iter().any(|lease| lease.job.company.as_str() == late);
        assert!(served, "{late} is not among the next {} jobs: {:?}", TURN + 1, turns(&leases));
    }
}

pub async fn a_tenant_that_arrives_waits_at_most_one_turn_of_each_other_one(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for tenant in 0..5 {
        store.accept(jobs_of(&format!("old-{tenant}"), 40)).await;
    }
    store.ready(7, T0).await;
    store.accept(vec![NewJob { company: company("new"), ..job("new") }]).await;
    let mut waited = 0;
    loop {
        let leases = store.ready(1, T0).await;
        if leases[0].job.company.as_str() == "new" {
            break;
        }
        waited += 1;
        assert!(waited <= 5 * TURN, "the newcomer waited for {waited} jobs of five tenants");
    }
}

pub async fn a_job_is_not_claimed_before_it_is_due_and_the_claim_says_when(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store
        .accept(vec![
            NewJob { due_at: T0.plus(HOUR), ..job("hour") },
            NewJob { due_at: T0.plus(SECOND), ..job("second") },
            NewJob { due_at: T0.plus(SECOND / 2), route: route("other"), ..job("elsewhere") },
        ])
        .await;
    let email = || Pick::Ready(route("email"));
    let early = store.claim(email(), 10, T0.plus(SECOND - Duration::from_millis(1))).await;
    assert_eq!((ids(&early.leases), early.next_at), (vec![], Some(T0.plus(SECOND))));
    let due = store.claim(email(), 10, T0.plus(SECOND)).await;
    assert_eq!((ids(&due.leases), due.next_at), (vec!["second"], Some(T0.plus(HOUR))));
    let last = store.claim(email(), 10, T0.plus(HOUR)).await;
    assert_eq!((ids(&last.leases), last.next_at), (vec!["hour"], None));
}

pub async fn a_retry_waits_for_its_own_time_and_then_goes_in_line_by_it(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let lease = store.only(T0).await;
    store.done(&lease, retry_at(&lease, T0.plus(SECOND), T0), T0).await;
    store.accept(vec![NewJob { due_at: T0.plus(SECOND / 2), ..job("before") }]).await;
    store.accept(vec![NewJob { due_at: T0.plus(SECOND * 2), ..job("after") }]).await;
    assert_eq!(ids(&store.ready(10, T0.plus(SECOND * 3)).await), ["before", "a", "after"]);
}

pub async fn a_released_job_keeps_its_place_by_the_time_it_was_released_for(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), job("b")]).await;
    let leases = store.ready(2, T0).await;
    for lease in leases.iter().rev() {
        store.done(lease, Transition::Release { at: T0, lost: None }, T0).await;
    }
    assert_eq!(ids(&store.ready(2, T0).await), ["a", "b"], "due at the same time, so by arrival");
}

pub async fn routes_do_not_mix(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("mail"), NewJob { route: route("sms"), ..job("text") }]).await;
    let nowhere = store.claim(Pick::Ready(route("nowhere")), 10, T0).await;
    assert_eq!((nowhere.leases.len(), nowhere.next_at), (0, None));
    let texts = store.claim(Pick::Ready(route("sms")), 10, T0).await;
    assert_eq!(ids(&texts.leases), ["text"]);
    assert_eq!(ids(&store.ready(10, T0).await), ["mail"]);
}

pub async fn many_claims_at_once_give_each_job_once(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let mut expected = HashSet::new();
    for tenant in ["a", "b", "c"] {
        let jobs = jobs_of(tenant, 30);
        expected.extend(jobs.iter().map(|new| new.id.clone()));
        store.accept(jobs).await;
    }
    let mut claimed: Vec<JobId> = Vec::new();
    while claimed.len() < 90 {
        let (one, two, three) = tokio::join!(store.ready(7, T0), store.ready(1, T0), store.ready(11, T0));
        let came = [one, two, three].into_iter().flatten().map(|lease| lease.job.id);
        let before = claimed.len();
        claimed.extend(came);
        assert!(claimed.len() > before, "{before} of 90 came, and then none");
    }
    assert_eq!(claimed.len(), 90, "a job was claimed twice");
    assert_eq!(claimed.into_iter().collect::<HashSet<_>>(), expected);
}

pub async fn a_claim_takes_no_more_than_it_asked_for(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), job("b"), job("c")]).await;
    assert_eq!(store.ready(0, T0).await.len(), 0);
    assert_eq!(ids(&store.ready(2, T0).await), ["a", "b"]);
    assert_eq!(store.view("c", T0).await.job.id, id("c"));
    assert_eq!(ids(&store.ready(2, T0).await), ["c"]);
    assert_eq!(store.ready(2, T0).await.len(), 0);
}
