//! Promises of this store alone: its scripts, its packing and its bounds.

use recado_store::prelude::*;
use std::time::Duration;

use recado_core::{AttemptResult, CompanyId, NewJob, Payload, Status, Transition};
use recado_store::{Claim, Extended, Pick, Settled, Settlement, StoreError};
use recado_store_redis::{RedisOptions, RedisStore};

use crate::given::{HOUR, T0, claim, delivered, job, jobs, random};
use crate::place::Place;
use crate::server::Server;

#[tokio::test]
async fn scripts_survive_a_server_that_forgets_them() {
    let server = Server::start();
    let store = RedisStore::open(&RedisOptions::new(server.url()), random()).await.unwrap();
    let forget = || server.ask::<()>(&["SCRIPT", "FLUSH"]);
    store.enqueue(jobs(0..1)).await.unwrap();
    forget();
    store.enqueue(jobs(1..2)).await.unwrap();
    forget();
    let leases = store.claim(claim(2)).await.unwrap().leases;
    forget();
    store.settle(leases.iter().map(delivered).collect()).await.unwrap();
    forget();
    assert_eq!(store.counts(T0).await.unwrap().ended, 2);
}

#[tokio::test]
async fn a_slow_tenants_jobs_are_moved_out_of_a_stream_that_is_mostly_holes() {
    let place = Place::single();
    let store = place.store().await;
    let of = |tenant: &str, name: String| NewJob { company: CompanyId::new(tenant).unwrap(), ..job(&name) };
    let mut turns = claim(1_000);
    turns.turns.quota = std::sync::Arc::new([(CompanyId::new("slow").unwrap(), 0)].into());
    for round in 0..30 {
        let mut new: Vec<_> = (0..99).map(|n| of("quick", format!("quick-{round}-{n}"))).collect();
        new.push(of("slow", format!("slow-{round:02}")));
        store.enqueue(new).await.unwrap();
        let leases = store.claim(turns.clone()).await.unwrap().leases;
        assert_eq!(leases.len(), 99);
        store.settle(leases.iter().map(delivered).collect()).await.unwrap();
    }
    let stream = format!("{}:{{0}}:new", place.options.prefix);
    let packed: usize = place.server.ask(&["XLEN", &stream]);
    assert!(packed < 30, "{packed} of 30 still hold a block of the stream each");
    assert!(place.server.ask::<usize>(&["EXISTS", &format!("{}:{{0}}:job:100", place.options.prefix)]) == 1);
    let late = Claim { pick: Pick::Overdue, now: T0.plus(HOUR * 24), ..claim(1) };
    let overdue = store.claim(late).await.unwrap().leases;
    assert_eq!(overdue[0].job.id.as_str(), "slow-00", "what was moved out still knows its end");
    let leases = store.claim(claim(1_000)).await.unwrap().leases;
    let names: Vec<_> = leases.iter().map(|lease| lease.job.id.to_string()).collect();
    let expected: Vec<_> = (1..30).map(|round| format!("slow-{round:02}")).collect();
    assert_eq!(names, expected, "in line as before");
    assert!(leases.iter().all(|lease| lease.job.data == job("any").data));
}

#[tokio::test]
async fn jobs_that_come_seldom_stay_packed_in_several_partitions_too() {
    let place = Place::single().in_partitions(3);
    let store = place.store().await;
    let (mut packed, mut streams) = (0, 0);
    for hour in 0..60 {
        let at = T0.plus(HOUR * hour);
        let new = NewJob {
            enqueued_at: at,
            due_at: at,
            expires_at: at.plus(HOUR * 1_000),
            ..job(&format!("{hour}"))
        };
        store.enqueue(vec![new]).await.unwrap();
    }
    for partition in 0..3 {
        let stream = format!("{}:{{{partition}}}:new", place.options.prefix);
        let count: usize = place.server.ask(&["XLEN", &stream]);
        packed += count;
        streams += usize::from(count > 0);
    }
    assert_eq!((packed, streams), (60, 1), "numbers that lie far apart are no holes");
}

#[tokio::test]
async fn thousands_that_are_overdue_come_in_the_order_of_their_ends() {
    let place = Place::single();
    let store = place.store().await;
    // Ends that jump back and forth over many blocks.
    let end = |n: u64| T0.plus(Duration::from_millis(1_000 + (n * 7_919) % 10_007));
    let new = (0..10_000_u64).map(|n| NewJob { expires_at: end(n), ..job(&format!("job-{n}")) });
    store.enqueue(new.collect()).await.unwrap();
    let mut seen = Vec::new();
    let overdue = Claim { pick: Pick::Overdue, now: T0.plus(HOUR), ..claim(700) };
    for _ in 0..10_000 {
        let leases = store.claim(overdue.clone()).await.unwrap().leases;
        seen.extend(leases.iter().map(|lease| lease.job.expires_at));
        if seen.len() == 10_000 {
            break;
        }
    }
    assert_eq!(seen.len(), 10_000, "some never came");
    assert!(seen.is_sorted(), "an earlier end came after a later one");
    assert_eq!(store.claim(overdue).await.unwrap().next_at, None);
}

#[tokio::test]
async fn a_large_job_lies_by_itself_and_comes_whole() {
    let place = Place::single();
    let store = place.store().await;
    let data = Payload::new(&format!("\"{}\"", "é".repeat(400_000))).unwrap();
    let large = |name: &str| NewJob { data: data.clone(), ..job(name) };
    store.enqueue(vec![large("one"), job("small"), large("two"), large("three")]).await.unwrap();
    let leases = store.claim(claim(9)).await.unwrap().leases;
    let names: Vec<_> = leases.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!(names, ["one", "small", "two", "three"], "its size does not change its place");
    assert_eq!(leases[2].job.data, data);
    let given_back = |nth: usize| Settlement {
        transition: Transition::Release { at: T0, lost: None },
        ..delivered(&leases[nth])
    };
    store.settle(vec![given_back(2)]).await.unwrap();
    assert_eq!(store.claim(claim(9)).await.unwrap().leases[0].job.data, data);
    store.settle(vec![delivered(&leases[0])]).await.unwrap();
    let left: usize = place.server.ask(&["EXISTS", &format!("{}:{{0}}:data:1", place.options.prefix)]);
    assert_eq!(left, 0, "a job that has ended keeps no data");
}

#[tokio::test]
async fn what_has_become_due_is_put_in_line_a_bounded_number_at_a_time() {
    let place = Place::single();
    let store = place.store().await;
    let later = T0.plus(Duration::from_secs(1));
    let new = (0..3_500).map(|n| NewJob { due_at: later, ..job(&format!("job-{n}")) });
    store.enqueue(new.collect()).await.unwrap();
    let due = Claim { now: later, ..claim(10) };
    let first = store.claim(due.clone()).await.unwrap();
    assert_eq!((first.leases.len(), first.next_at), (10, Some(later)), "there is more to look at: ask again");
    let waiting = format!("{}:{{0}}:later:email", place.options.prefix);
    let left: usize = place.server.ask(&["ZCARD", &waiting]);
    assert_eq!(left, 2_500, "a thousand at a time");
    assert_eq!(store.counts(later).await.unwrap().ready, 3_490, "all of them are due");
    let mut came = 10;
    while came < 3_500 {
        let leases = store.claim(Claim { max: 1_000, ..due.clone() }).await.unwrap().leases;
        assert!(!leases.is_empty());
        came += leases.len();
    }
    let lost = recado_core::Attempt::ended(1, later, later, AttemptResult::Lost);
    let one = Settlement {
        transition: Transition::Release { at: later, lost: Some(lost) },
        ..delivered(&first.leases[0])
    };
    store.settle(vec![one]).await.unwrap();
    assert_eq!(store.claim(due).await.unwrap().leases.len(), 1);
}

#[tokio::test]
async fn a_full_server_refuses_new_jobs_and_lets_everything_else_go_on() {
    let server = Server::start();
    let store = RedisStore::open(&RedisOptions::new(server.url()), random()).await.unwrap();
    store.enqueue(jobs(0..3)).await.unwrap();
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = store.enqueue(jobs(3..6)).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    let leases = store.claim(claim(3)).await.unwrap().leases;
    assert_eq!(leases.len(), 3, "what is in is delivered");
    assert_eq!(
        store.extend(vec![leases[2].token], T0.plus(HOUR)).await.unwrap(),
        [Extended::Until(T0.plus(HOUR))]
    );
    let done = Settlement { follow_ups: vec![job("follows")], ..delivered(&leases[0]) };
    assert_eq!(store.settle(vec![done]).await.unwrap(), [Settled::Done]);
    assert_eq!(store.job(&leases[0].job.id, T0).await.unwrap().unwrap().status, Status::Sent);
    let counts = store.counts(T0).await.unwrap();
    assert_eq!(
        (counts.ready, counts.leased, counts.ended),
        (1, 2, 1),
        "what follows is taken in, what was refused is not"
    );
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(store.enqueue(jobs(3..6)).await.unwrap().len(), 3, "and with room all goes on");
}

#[tokio::test]
async fn jobs_that_are_due_when_they_come_stand_where_they_came() {
    let place = Place::single();
    let store = place.store().await;
    let asked = |name: &str, ms: u64| {
        let at = T0.plus(Duration::from_millis(ms));
        NewJob { enqueued_at: at, due_at: at, ..job(name) }
    };
    for (name, ms) in [("first", 20), ("second", 0), ("third", 10)] {
        store.enqueue(vec![asked(name, ms)]).await.unwrap();
    }
    let aside = format!("{}:{{0}}:aside:email/acme/5", place.options.prefix);
    assert_eq!(place.server.ask::<usize>(&["EXISTS", &aside]), 0, "no job was put aside");
    let now = T0.plus(Duration::from_secs(1));
    let leases = store.claim(Claim { now, ..claim(9) }).await.unwrap().leases;
    let names: Vec<_> = leases.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!(names, ["first", "second", "third"]);
}

#[tokio::test]
async fn what_a_claim_took_off_a_list_and_did_not_lease_is_back_in_its_place() {
    let place = Place::single();
    let store = place.store().await;
    let of = |tenant: &str, n: usize| NewJob {
        company: CompanyId::new(tenant).unwrap(),
        ..job(&format!("{tenant}-{n}"))
    };
    const TENANTS: [&str; 3] = ["heavy", "one", "other"];
    store.enqueue((0..40).flat_map(|n| TENANTS.map(|tenant| of(tenant, n))).collect()).await.unwrap();
    // Of 24 jobs each would get 8; one that gets 12 in a turn leaves the others less than that.
    let mut weighted = claim(24);
    weighted.turns.weights = std::sync::Arc::new([(CompanyId::new("heavy").unwrap(), 4)].into());
    let mut came: Vec<String> = Vec::new();
    while came.len() < 120 {
        let leases = store.claim(weighted.clone()).await.unwrap().leases;
        assert!(!leases.is_empty(), "{} came, and then none", came.len());
        came.extend(leases.iter().map(|lease| lease.job.id.to_string()));
    }
    for tenant in TENANTS {
        let own: Vec<_> = came.iter().filter(|name| name.starts_with(tenant)).cloned().collect();
        let expected: Vec<_> = (0..40).map(|n| format!("{tenant}-{n}")).collect();
        assert_eq!(own, expected, "each once, in order");
    }
}
