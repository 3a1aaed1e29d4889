//! Shares of tenants in a route: batches, weights, quotas, and urgency that starves no tenant.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use recado_core::fairness::TURN_JOBS;
use recado_core::{CompanyId, NewJob};
use recado_store::{OLDEST_EVERY_JOBS, Pick, Turns};

use super::ordering::turns;
use crate::Home;
use crate::given::{DAY, HOUR, SECOND, T0, TestStore, company, deliver, job, jobs_of, priority, route};

fn each(values: &[(&str, u32)]) -> Arc<HashMap<CompanyId, u32>> {
    Arc::new(values.iter().map(|(tenant, value)| (company(tenant), *value)).collect())
}

fn quota(values: &[(&str, u32)]) -> Turns {
    Turns { quota: each(values), ..Turns::default() }
}

fn batch(batch: u32) -> Turns {
    Turns { batch, ..Turns::default() }
}

/// Takes in `count` jobs of each of these tenants, one tenant after the other.
async fn given(home: &mut dyn Home, tenants: &[&str], count: usize) -> TestStore {
    let store = TestStore::at(home).await;
    for tenant in tenants {
        store.accept(jobs_of(tenant, count)).await;
    }
    store
}

pub async fn tenants_take_turns_of_at_most_three(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for tenant in ["a", "b", "c"] {
        store.accept(jobs_of(tenant, 7)).await;
    }
    let leases = store.ready(100, T0).await;
    let expected = [("a", 3), ("b", 3), ("c", 3), ("a", 3), ("b", 3), ("c", 3), ("a", 1), ("b", 1), ("c", 1)];
    assert_eq!(turns(&leases), expected.map(|(tenant, count)| (tenant.to_owned(), count)));
}

pub async fn urgency_does_not_let_one_tenant_overtake_another(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("calm", 4)).await;
    store
        .accept(jobs_of("loud", 20).into_iter().map(|new| NewJob { priority: priority(1), ..new }).collect())
        .await;
    let leases = store.ready(10, T0).await;
    assert_eq!(
        turns(&leases),
        [("calm", 3), ("loud", 3), ("calm", 1), ("loud", 3)].map(|(t, n)| (t.to_owned(), n))
    );
}

pub async fn g10_a_tenant_gets_at_most_three_in_a_row_times_its_weight(home: &mut dyn Home) {
    assert_eq!(TURN_JOBS, 3, "the required batch");
    let store = given(home, &["a", "b"], 12).await;
    let weighted = Turns { weights: each(&[("b", 2)]), ..Turns::default() };
    let expected = ["a a a", "b b b b b b", "a a a", "b b b b b b", "a a a", "a a a"].join(" ");
    assert_eq!(store.served(100, &weighted).await.join(" "), expected);
}

pub async fn g10_the_batch_can_be_tuned_from_claim_to_claim(home: &mut dyn Home) {
    let store = given(home, &["a", "b"], 12).await;
    assert_eq!(store.served(4, &batch(1)).await, ["a", "b", "a", "b"]);
    let served = store.served(8, &batch(4)).await;
    assert_eq!(served.join(" "), "b b b a a a a b", "what runs becomes longer");
    assert_eq!(store.served(2, &batch(4)).await, ["b", "b"]);
    assert_eq!(store.served(3, &batch(2)).await, ["a", "a", "b"], "three is more than a turn now");
}

pub async fn g11_turns_go_on_from_claim_to_claim(home: &mut dyn Home) {
    let store = given(home, &["a", "b", "c"], 5).await;
    let mut served = Vec::new();
    for max in [1, 1, 2, 5, 4, 2] {
        served.extend(store.served(max, &Turns::default()).await);
    }
    assert_eq!(served.join(" "), "a a a b b b c c c a a b b c c");
}

pub async fn g11_the_tenant_served_longest_ago_is_first(home: &mut dyn Home) {
    let store = given(home, &["a"], 10).await;
    store.served(3, &Turns::default()).await;
    store.accept(jobs_of("b", 4)).await;
    let served = store.served(4, &Turns::default()).await;
    assert_eq!(served, ["b", "b", "b", "a"], "a has just had its turn, b has had none");
}

pub async fn g11_a_tenant_that_comes_back_joins_at_the_back(home: &mut dyn Home) {
    let store = given(home, &["a"], 1).await;
    store.accept(jobs_of("b", 9)).await;
    assert_eq!(store.served(2, &Turns::default()).await, ["a", "b"]);
    store.accept(jobs_of("c", 9)).await;
    store.accept(vec![NewJob { company: company("a"), ..job("again") }]).await;
    let served = store.served(8, &Turns::default()).await;
    assert_eq!(served.join(" "), "b b c c c a b b", "one turn of each before it, and no more");
}

pub async fn g11_a_tenant_with_ten_jobs_does_not_wait_for_twenty_thousand(home: &mut dyn Home) {
    let store = given(home, &["a"], 20_000).await;
    let mut in_flight = store.ready(5, T0).await;
    store.accept(jobs_of("b", 10)).await;
    let (mut of_a, mut of_b) = (in_flight.len(), 0);
    while of_b < 10 {
        for lease in &in_flight {
            store.done(lease, deliver(lease, T0), T0).await;
        }
        in_flight = store.ready(5, T0).await;
        for lease in &in_flight {
            *(if lease.job.company.as_str() == "b" { &mut of_b } else { &mut of_a }) += 1;
        }
        assert!(of_a < 60, "{of_a} jobs of the other came before the tenth of ten");
    }
}

pub async fn g24_weights_of_three_two_and_one_hold_over_a_long_run(home: &mut dyn Home) {
    let store = given(home, &["gold", "silver", "bronze"], 700).await;
    let weighted = Turns { weights: each(&[("gold", 3), ("silver", 2), ("bronze", 1)]), ..Turns::default() };
    let mut served = Vec::new();
    for max in [1, 7, 5, 64, 2].into_iter().cycle() {
        served.extend(store.served(max, &weighted).await);
        if served.len() >= 1_200 {
            break;
        }
    }
    for (tenant, weight) in [("gold", 3.0), ("silver", 2.0), ("bronze", 1.0)] {
        let got = served.iter().filter(|other| *other == tenant).count() as f64;
        let share = served.len() as f64 * weight / 6.0;
        assert!((got - share).abs() <= share * 0.05, "{tenant} got {got}, its share is {share}");
    }
}

pub async fn g11_of_a_thousand_tenants_each_gets_its_share_over_every_window(home: &mut dyn Home) {
    const TENANTS: usize = 1_000;
    const BATCH: usize = 2;
    let store = TestStore::at(home).await;
    let names: Vec<String> = (0..TENANTS).map(|n| format!("tenant-{n:04}")).collect();
    store.accept(names.iter().flat_map(|name| jobs_of(name, 2 * BATCH)).collect()).await;
    let mut served: Vec<String> = Vec::new();
    while served.len() < names.len() * 2 * BATCH {
        served.extend(store.served(50, &batch(BATCH as u32)).await);
    }
    for name in &names {
        // How far it is ahead of its share, in thousandths of a job; a window's error is a difference of two.
        let (mut ahead, mut lowest, mut highest) = (0, 0, 0);
        for one in &served {
            ahead += if one == name { TENANTS as i64 - 1 } else { -1 };
            (lowest, highest) = (lowest.min(ahead), highest.max(ahead));
        }
        assert!(highest - lowest <= (BATCH * TENANTS) as i64, "{name} is more than a batch off its share");
    }
}

pub async fn g22_a_tenant_held_back_is_passed_over_and_keeps_its_place(home: &mut dyn Home) {
    let store = given(home, &["a", "b", "c"], 9).await;
    let served = store.served(7, &quota(&[("a", 0)])).await;
    assert_eq!(served.join(" "), "b b b c c c b", "no tenant waits for it");
    let served = store.served(9, &Turns::default()).await;
    assert_eq!(served.join(" "), "a a a b b c c c a", "it is first, the others go on where they were");
}

pub async fn g22_a_tenant_gets_no_more_than_its_quota_and_no_other_less_for_it(home: &mut dyn Home) {
    let store = given(home, &["a", "b"], 9).await;
    let bounded = quota(&[("a", 4), ("unknown", 0)]);
    let served = store.served(12, &bounded).await;
    assert_eq!(served.join(" "), "a a a b b b a b b b b b", "four of it, and the rest of the other");
    let served = store.served(12, &bounded).await;
    assert_eq!(served.join(" "), "a a b a a", "the next claim has a quota of its own");
}

pub async fn a_turn_cut_short_by_a_quota_goes_on_where_it_was(home: &mut dyn Home) {
    let store = given(home, &["a", "b"], 9).await;
    assert_eq!(store.served(3, &quota(&[("a", 1)])).await, ["a", "b", "b"]);
    let served = store.served(7, &Turns::default()).await;
    assert_eq!(served.join(" "), "a a b a a a b", "two were left of its turn, one of the other's");
}

pub async fn where_every_tenant_is_held_back_nothing_comes(home: &mut dyn Home) {
    let store = given(home, &["a", "b"], 9).await;
    let missing = quota(&[("a", 0), ("b", 0)]);
    assert_eq!(store.served(10, &missing).await.len(), 0);
    assert_eq!(store.served(10, &quota(&[("a", 1), ("b", 2)])).await, ["a", "b", "b"]);
    assert_eq!(store.served(10, &missing).await.len(), 0);
    assert_eq!(store.served(100, &Turns::default()).await.len(), 15, "nothing is lost by it");
}

pub async fn a_tenant_held_back_does_not_say_when_there_is_more(home: &mut dyn Home) {
    let store = given(home, &["a"], 3).await;
    let ready = || Pick::Ready(route("email"));
    let claimed = store.claim_by(quota(&[("a", 0)]), ready(), 10, T0).await;
    assert_eq!((claimed.leases.len(), claimed.next_at), (0, None), "time alone brings nothing");
    store.accept(vec![NewJob { due_at: T0.plus(HOUR), ..job("later") }]).await;
    let claimed = store.claim_by(quota(&[("a", 0)]), ready(), 10, T0).await;
    assert_eq!((claimed.leases.len(), claimed.next_at), (0, Some(T0.plus(HOUR))));
}

pub async fn other_picks_know_no_quota(home: &mut dyn Home) {
    let store = given(home, &["a"], 2).await;
    let (held_back, end) = (quota(&[("a", 0)]), T0.plus(DAY));
    let overdue = store.claim_by(held_back.clone(), Pick::Overdue, 10, end).await;
    assert_eq!(overdue.leases.len(), 2, "expired jobs must go, even of a tenant that is held back");
    let orphaned = store.claim_by(held_back, Pick::Orphaned, 10, end.plus(DAY)).await;
    assert_eq!(orphaned.leases.len(), 2);
}

pub async fn every_tenth_job_of_a_tenant_is_the_one_due_longest(home: &mut dyn Home) {
    assert_eq!(OLDEST_EVERY_JOBS, 10);
    let store = TestStore::at(home).await;
    let ms = Duration::from_millis;
    store
        .accept(vec![
            NewJob { priority: priority(9), due_at: T0.plus(ms(2)), ..job("second") },
            NewJob { priority: priority(5), due_at: T0.plus(ms(1)), ..job("first") },
            NewJob { priority: priority(9), due_at: T0.plus(ms(2)), ..job("third") },
        ])
        .await;
    let urgent =
        |n| NewJob { priority: priority(1), due_at: T0.plus(ms(3)), ..job(&format!("urgent-{n:02}")) };
    store.accept((0..40).map(urgent).collect()).await;
    let mut came = Vec::new();
    while came.len() < 43 {
        let leases = store.ready(4, T0.plus(SECOND)).await;
        came.extend(leases.into_iter().map(|lease| lease.job.id.to_string()));
    }
    let at = |name: &str| came.iter().position(|other| other == name).unwrap() + 1;
    assert_eq!(["first", "second", "third"].map(at), [10, 20, 30]);
    let rest: Vec<_> = came.iter().filter(|name| name.starts_with("urgent")).collect();
    assert!(rest.is_sorted(), "the others keep their order: {rest:?}");
}

pub async fn urgent_jobs_without_end_do_not_starve_an_old_one(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![NewJob { priority: priority(9), ..job("old") }]).await;
    for n in 0..OLDEST_EVERY_JOBS {
        let now = T0.plus(SECOND * (n as u32 + 1));
        let urgent = |m| NewJob { priority: priority(1), due_at: now, ..job(&format!("urgent-{n}-{m}")) };
        store.accept((0..2).map(urgent).collect()).await;
        let lease = store.ready(1, now).await.remove(0);
        if lease.job.id.as_str() == "old" {
            return;
        }
        store.done(&lease, deliver(&lease, now), now).await;
    }
    panic!("it waited for {OLDEST_EVERY_JOBS} jobs of its own tenant, and there is no end of them");
}
