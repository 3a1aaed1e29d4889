//! Several partitions as one store.

use recado_store::prelude::*;
use std::collections::{HashMap, HashSet};

use recado_core::{BodyHash, CompanyId, JobId, Lease, NewJob, Status};
use recado_store::{Enqueued, JobFilter, PageRequest, Settlement};
use tokio::task::JoinSet;

use crate::given::{T0, claim, delivered, job, jobs};
use crate::place::Place;

fn of(company: usize, name: &str) -> NewJob {
    NewJob { company: CompanyId::new(format!("company-{company}")).unwrap(), ..job(name) }
}

#[tokio::test]
async fn an_id_is_taken_once_whichever_partition_it_is_asked_in() {
    let place = Place::single().in_partitions(5);
    let store = place.store().await;
    for n in 0..50 {
        let name = format!("job-{n}");
        let first = store.enqueue(vec![of(n, &name)]).await.unwrap();
        assert_eq!(first, [Enqueued::Accepted { status: Status::Queued }]);
        let again = store.enqueue(vec![of(n, &name)]).await.unwrap();
        assert_eq!(again, [Enqueued::Duplicate { status: Status::Queued }], "{name}");
        let other = NewJob { body_hash: BodyHash(2), ..of(n + 1, &name) };
        assert_eq!(store.enqueue(vec![other]).await.unwrap(), [Enqueued::Conflict], "{name}");
        let found = store.job(&JobId::new(name.as_str()).unwrap(), T0).await.unwrap().unwrap();
        assert_eq!(found.job.company.as_str(), format!("company-{n}"));
    }
    assert_eq!(store.counts(T0).await.unwrap().ready, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_companies_that_want_one_id_at_once_one_gets_it() {
    let place = Place::single().in_partitions(4);
    let store = std::sync::Arc::new(place.store().await);
    for round in 0..20 {
        let mut tasks = JoinSet::new();
        for n in 0..8 {
            let store = store.clone();
            let new = NewJob { body_hash: BodyHash(n as u128), ..of(n, &format!("round-{round}")) };
            tasks.spawn(async move { store.enqueue(vec![new]).await.unwrap().remove(0) });
        }
        let answers = tasks.join_all().await;
        let accepted = answers.iter().filter(|answer| matches!(answer, Enqueued::Accepted { .. })).count();
        let refused = answers.iter().filter(|answer| **answer == Enqueued::Conflict).count();
        assert_eq!((accepted, refused), (1, 7), "{answers:?}");
    }
    assert_eq!(store.counts(T0).await.unwrap().ready, 20);
}

#[tokio::test]
async fn an_id_reserved_by_a_node_that_crashed_is_accepted_when_it_is_enqueued_again() {
    let place = Place::single().in_partitions(3);
    let store = place.store().await;
    store.enqueue((0..60).map(|n| of(n, &format!("job-{n}"))).collect()).await.unwrap();
    // What the crash leaves: the home knows where the job is to be, and it is not there.
    let prefix = &place.options.prefix;
    let keys: Vec<String> = place.server.ask(&["KEYS", &format!("{prefix}:*:ids:*")]);
    let mut lost = 0;
    for key in &keys {
        for id in place.server.ask::<Vec<String>>(&["HKEYS", key]) {
            let kept: String = place.server.ask(&["HGET", key, &id]);
            if !kept.starts_with('@')
                && keys.iter().any(|home| {
                    home != key && place.server.ask::<Option<String>>(&["HGET", home, &id]).is_some()
                })
            {
                place.server.ask::<()>(&["HDEL", key, &id]);
                lost += 1;
            }
        }
    }
    assert!(lost > 10, "only {lost} of 60 jobs have another home than their partition");
    let again = store.enqueue((0..60).map(|n| of(n, &format!("job-{n}"))).collect()).await.unwrap();
    let accepted = again.iter().filter(|answer| matches!(answer, Enqueued::Accepted { .. })).count();
    assert_eq!(accepted, lost, "those and no others");
}

#[tokio::test]
async fn what_follows_a_job_stays_in_its_partition_and_is_found() {
    let place = Place::single().in_partitions(4);
    let store = place.store().await;
    store.enqueue((0..20).map(|n| of(n, &format!("job-{n}"))).collect()).await.unwrap();
    let leases = store.claim(claim(20)).await.unwrap().leases;
    assert_eq!(leases.len(), 20);
    let settlements = leases.iter().map(|lease| Settlement {
        follow_ups: vec![of(99, &format!("after-{}", lease.job.id)), of(99, "job-0")],
        ..delivered(lease)
    });
    store.settle(settlements.collect()).await.unwrap();
    for n in 0..20 {
        let name = JobId::new(format!("after-job-{n}")).unwrap();
        assert_eq!(store.job(&name, T0).await.unwrap().unwrap().status, Status::Queued, "{name}");
    }
    let followed = store.claim(claim(100)).await.unwrap().leases;
    let names: HashSet<_> = followed.iter().map(|lease| lease.job.id.clone()).collect();
    assert_eq!((followed.len(), names.len()), (20, 20), "an id that is taken elsewhere is left alone");
    let fares = store.tenants(recado_store::TenantFilter::default(), T0).await.unwrap();
    let own: Vec<_> = fares.iter().filter(|fare| fare.company.as_str() == "company-99").collect();
    assert_eq!((own.len(), own[0].leased), (1, 20), "one tenant, wherever its jobs are");
}

#[tokio::test]
async fn a_claim_is_shared_by_how_many_tenants_wait_in_each_partition() {
    let place = Place::single().in_partitions(3);
    let store = place.store().await;
    const TENANTS: usize = 30;
    for tenant in 0..TENANTS {
        let new = (0..40).map(|n| of(tenant, &format!("job-{tenant}-{n}")));
        store.enqueue(new.collect()).await.unwrap();
    }
    let mut served: HashMap<String, usize> = HashMap::new();
    // Three rounds of turns, in claims of ten.
    for _ in 0..TENANTS * 3 * 3 / 10 {
        for lease in store.claim(claim(10)).await.unwrap().leases {
            *served.entry(lease.job.company.to_string()).or_default() += 1;
        }
    }
    assert_eq!(served.len(), TENANTS, "every tenant was served");
    let (least, most) = (served.values().min().unwrap(), served.values().max().unwrap());
    assert!(*least >= 3 && *most <= 18, "of nine each, one got {least} and one {most}");
}

/// Companies of each of three partitions, as the tokens of their leases name them.
async fn companies_by_partition() -> [Vec<usize>; 3] {
    let place = Place::single().in_partitions(3);
    let store = place.store().await;
    store.enqueue((0..60).map(|n| of(n, &n.to_string())).collect()).await.unwrap();
    let mut of_each = <[Vec<usize>; 3]>::default();
    for lease in store.claim(claim(60)).await.unwrap().leases {
        of_each[(lease.token.0 >> 112) as usize].push(lease.job.id.as_str().parse().unwrap());
    }
    of_each
}

#[tokio::test]
async fn the_share_of_a_partition_follows_the_tenants_that_wait_now() {
    const CLAIM: usize = 40;
    let of_each = companies_by_partition().await;
    for seed in 0..6 {
        let random = recado_core::Random::from_seed(seed);
        let place = Place::single().in_partitions(3);
        let store = place.store().await;
        // Each time another crowd, where the one before may have left one tenant behind.
        for crowd in 0..3 {
            let size = |all: &Vec<usize>| 1 + random.next_index(all.len().min(12));
            let tenants: Vec<usize> = of_each.iter().flat_map(|all| all[..size(all)].to_vec()).collect();
            let new = tenants.iter().flat_map(|tenant| {
                (0..2 * CLAIM).map(move |n| of(*tenant, &format!("job-{crowd}-{tenant}-{n}")))
            });
            store.enqueue(new.collect()).await.unwrap();
            // The first claim of a crowd learns how many wait where.
            assert_eq!(store.claim(claim(CLAIM)).await.unwrap().leases.len(), CLAIM);
            let mut served: HashMap<String, usize> = HashMap::new();
            for lease in store.claim(claim(CLAIM)).await.unwrap().leases {
                *served.entry(lease.job.company.to_string()).or_default() += 1;
            }
            let (most, fair) = (served.values().max().unwrap(), CLAIM.div_ceil(tenants.len()));
            assert!(*most <= fair + 2, "seed {seed}: {most} of {CLAIM} for one of {} tenants", tenants.len());
            store.claim(claim(usize::from(u16::MAX))).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_quota_holds_over_all_partitions_and_calls() {
    let place = Place::single().in_partitions(3);
    let store = place.store().await;
    store.enqueue((0..900).map(|n| of(n % 3, &format!("job-{n}"))).collect()).await.unwrap();
    let mut bounded = claim(2_000);
    let quota = (0..3).map(|n| (CompanyId::new(format!("company-{n}")).unwrap(), 270)).collect();
    bounded.turns.quota = std::sync::Arc::new(quota);
    assert_eq!(store.claim(bounded).await.unwrap().leases.len(), 3 * 270);
}

#[tokio::test]
async fn a_quota_holds_for_a_company_whose_follow_ups_are_in_several_partitions() {
    let place = Place::single().in_partitions(3);
    let store = place.store().await;
    store.enqueue((0..30).map(|n| of(n, &format!("job-{n}"))).collect()).await.unwrap();
    let notice = |lease: &Lease| of(1_000, &format!("about-{}", lease.job.id));
    let leases = store.claim(claim(30)).await.unwrap().leases;
    let settled =
        leases.iter().map(|lease| Settlement { follow_ups: vec![notice(lease)], ..delivered(lease) });
    store.settle(settled.collect()).await.unwrap();
    let mut bounded = claim(30);
    bounded.turns.quota = std::sync::Arc::new([(CompanyId::new("company-1000").unwrap(), 4)].into());
    assert_eq!(store.claim(bounded).await.unwrap().leases.len(), 4);
}

#[tokio::test]
async fn a_list_goes_through_all_partitions_in_the_order_of_arrival() {
    let place = Place::single().in_partitions(3);
    let store = place.store().await;
    let mut expected = Vec::new();
    for minute in 0..30 {
        let at = T0.plus(std::time::Duration::from_secs(60 * minute));
        let new = NewJob { enqueued_at: at, due_at: at, ..of(minute as usize, &format!("job-{minute:02}")) };
        store.enqueue(vec![new]).await.unwrap();
        expected.push(format!("job-{minute:02}"));
    }
    expected.reverse();
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = store.jobs(JobFilter::default(), PageRequest { before, limit: 4 }, T0).await.unwrap();
        seen.extend(page.items.into_iter().map(|view| view.job.id.to_string()));
        match page.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn while_a_cluster_moves_a_partition_its_jobs_wait_and_none_is_harmed() {
    // Not the one that the other tests share: they use the same slot.
    let place = Place::own_cluster();
    let store = place.store().await;
    store.enqueue(jobs(0..3)).await.unwrap();
    let slot: u16 = place.server.masters[0].ask(&["CLUSTER", "KEYSLOT", "{0}"]);
    place.server.begin_move(slot);
    let refused = store.enqueue(jobs(3..6)).await;
    assert!(matches!(refused, Err(recado_store::StoreError::Unavailable(_))), "{refused:?}");
    let (from, to) = place.server.holder_and_other(slot);
    for server in [from, to] {
        server.ask::<()>(&["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"]);
    }
    assert_eq!(store.counts(T0).await.unwrap().ready, 3, "nothing was written beside what is there");
    assert_eq!(store.enqueue(jobs(3..6)).await.unwrap().len(), 3);
}
