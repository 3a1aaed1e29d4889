//! Statistics of tenants.

use std::collections::HashMap;
use std::sync::Arc;

use recado_core::fairness::{PRIORITY_BASE, PRIORITY_BEST};
use recado_core::{NewJob, Transition};
use recado_store::{Pick, TenantFilter, TenantView, Turns};

use crate::Home;
use crate::given::{DAY, HOUR, SECOND, T0, TestStore, bury, company, deliver, job, jobs_of, retry_at, route};

async fn view(store: &TestStore, tenant: &str) -> TenantView {
    store.tenant(tenant, T0).await.unwrap_or_else(|| panic!("nothing is known of {tenant}"))
}

/// Rounds waited, and what they make of the priority.
async fn rounds(store: &TestStore, tenant: &str) -> (u64, u32) {
    let view = view(store, tenant).await;
    (view.rounds_without_processing, view.current_priority)
}

/// Ready, delayed and leased.
async fn places(store: &TestStore, tenant: &str) -> [u64; 3] {
    let view = view(store, tenant).await;
    [view.queued, view.delayed, view.leased]
}

pub async fn g12_a_tenant_shows_every_required_field(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("a", 5)).await;
    store.accept(jobs_of("b", 5)).await;
    store.accept(vec![NewJob { company: company("a"), due_at: T0.plus(HOUR), ..job("later") }]).await;
    let untouched = TenantView {
        company: company("a"),
        route: route("email"),
        queued: 5,
        delayed: 1,
        leased: 0,
        last_processed_at: None,
        rounds_without_processing: 0,
        current_priority: PRIORITY_BASE,
        total_processed: 0,
        consecutive_batch_count: 0,
    };
    assert_eq!(view(&store, "a").await, untouched);
    store.ready(2, T0.plus(SECOND)).await;
    let served = TenantView {
        queued: 3,
        leased: 2,
        last_processed_at: Some(T0.plus(SECOND)),
        total_processed: 2,
        consecutive_batch_count: 2,
        ..untouched
    };
    assert_eq!(view(&store, "a").await, served);
    let waiting = TenantView {
        company: company("b"),
        queued: 5,
        delayed: 0,
        leased: 0,
        last_processed_at: None,
        rounds_without_processing: 1,
        current_priority: 4,
        total_processed: 0,
        consecutive_batch_count: 0,
        ..served
    };
    assert_eq!(view(&store, "b").await, waiting);
}

pub async fn g12_waiting_raises_the_priority_round_by_round_and_never_above_the_best(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for tenant in 1..=6 {
        store.accept(jobs_of(&format!("before-{tenant}"), 3)).await;
    }
    store.accept(jobs_of("last", 4)).await;
    assert_eq!((PRIORITY_BASE, PRIORITY_BEST), (5, 1));
    for expected in [(0, 5), (1, 4), (2, 3), (3, 2), (4, 1), (5, 1), (6, 1)] {
        assert_eq!(rounds(&store, "last").await, expected);
        store.ready(3, T0).await;
    }
    assert_eq!(rounds(&store, "last").await, (0, 5), "it was served");
}

pub async fn g12_jobs_in_a_row_are_counted_until_another_tenant_is_served(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("a", 9)).await;
    let mut counts = Vec::new();
    for _ in 0..5 {
        store.ready(1, T0).await;
        counts.push(view(&store, "a").await.consecutive_batch_count);
    }
    assert_eq!(counts, [1, 2, 3, 1, 2], "alone, one turn follows the other");
    store.accept(jobs_of("b", 1)).await;
    store.ready(2, T0).await;
    assert_eq!(view(&store, "a").await.consecutive_batch_count, 0);
    assert_eq!(view(&store, "b").await.consecutive_batch_count, 1);
}

pub async fn rounds_count_only_while_a_job_is_due(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("a", 20)).await;
    store.accept(vec![NewJob { company: company("b"), due_at: T0.plus(HOUR), ..job("b") }]).await;
    store.ready(9, T0).await;
    assert_eq!(rounds(&store, "b").await, (0, 5), "its job is not due");
    let alone = Turns { quota: Arc::new(HashMap::from([(company("b"), 0)])), ..Turns::default() };
    store.claim_by(alone, Pick::Ready(route("email")), 6, T0.plus(HOUR)).await;
    assert_eq!(rounds(&store, "b").await, (2, 3));
    store.cancel("b", T0.plus(HOUR)).await;
    store.accept(vec![NewJob { company: company("b"), ..job("another") }]).await;
    assert_eq!(rounds(&store, "b").await, (0, 5), "it waits anew");
}

pub async fn jobs_are_counted_where_they_stand(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("a", 4)).await;
    let leases = store.ready(4, T0).await;
    assert_eq!(places(&store, "a").await, [0, 0, 4]);
    store.done(&leases[0], retry_at(&leases[0], T0.plus(HOUR), T0), T0).await;
    assert_eq!(places(&store, "a").await, [0, 1, 3]);
    store.done(&leases[1], Transition::Release { at: T0, lost: None }, T0).await;
    assert_eq!(places(&store, "a").await, [1, 1, 2]);
    store.done(&leases[2], bury(&leases[2], None, "no", T0), T0).await;
    assert_eq!(places(&store, "a").await, [1, 1, 1]);
    store.redrive("a-00002", None, T0).await;
    assert_eq!(places(&store, "a").await, [2, 1, 1]);
    store.done(&leases[3], deliver(&leases[3], T0), T0).await;
    assert_eq!(places(&store, "a").await, [2, 1, 0]);
    let later = store.tenant("a", T0.plus(HOUR)).await.unwrap();
    assert_eq!((later.queued, later.delayed), (3, 0), "time alone makes it ready");
    assert_eq!(later.total_processed, 4, "what came back has not been claimed again");
}

pub async fn jobs_that_leave_by_another_door_are_not_processed(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("a", 3)).await;
    assert_eq!(places(&store, "a").await, [3, 0, 0]);
    store.cancel("a-00000", T0).await;
    assert_eq!(places(&store, "a").await, [2, 0, 0]);
    let overdue = store.claim(Pick::Overdue, 2, T0.plus(DAY)).await.leases;
    assert_eq!(places(&store, "a").await, [0, 0, 2]);
    assert_eq!(view(&store, "a").await.total_processed, 0);
    for lease in &overdue {
        store.done(lease, bury(lease, None, "too late", T0), T0).await;
    }
    assert_eq!(store.tenant("a", T0).await, None, "it has no jobs and was never served");
}

pub async fn a_tenant_that_was_served_is_remembered_without_jobs(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("a", 1)).await;
    let lease = store.ready(1, T0).await.remove(0);
    store.done(&lease, deliver(&lease, T0), T0).await;
    assert_eq!(places(&store, "a").await, [0, 0, 0]);
    let served = view(&store, "a").await;
    assert_eq!((served.total_processed, served.last_processed_at), (1, Some(T0)));
    store.accept(vec![NewJob { company: company("a"), ..job("again") }]).await;
    store.ready(1, T0.plus(SECOND)).await;
    let again = view(&store, "a").await;
    assert_eq!((again.total_processed, again.last_processed_at), (2, Some(T0.plus(SECOND))));
}

pub async fn tenants_are_found_by_company_and_route(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for (name, tenant, to) in [("1", "b", "sms"), ("2", "a", "sms"), ("3", "b", "email"), ("4", "c", "email")]
    {
        store.accept(vec![NewJob { company: company(tenant), route: route(to), ..job(name) }]).await;
    }
    let found = async |tenant: Option<&str>, to: Option<&str>| {
        let filter = TenantFilter { company: tenant.map(company), route: to.map(route) };
        let views = store.0.tenants(filter, T0).await.unwrap();
        let name = |view: TenantView| format!("{}/{}", view.route, view.company);
        views.into_iter().map(name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found(None, None).await, "email/b email/c sms/a sms/b", "by route, then company");
    assert_eq!(found(Some("b"), None).await, "email/b sms/b");
    assert_eq!(found(None, Some("sms")).await, "sms/a sms/b");
    assert_eq!(found(Some("a"), Some("sms")).await, "sms/a");
    assert_eq!(found(Some("a"), Some("email")).await, "");
    assert_eq!(found(Some("unknown"), None).await, "");
    assert_eq!(found(None, Some("nowhere")).await, "");
}
