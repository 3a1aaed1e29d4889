//! Calls that come while others are on their way.

use recado_store::prelude::*;
use std::time::Duration;

use recado_core::{BodyHash, NewJob, Status};
use recado_store::{Enqueued, Settled, StoreError};
use recado_store_redis::{RedisOptions, RedisStore};
use tokio::task::{JoinHandle, JoinSet};

use crate::given::{T0, claim, delivered, job, jobs, random};
use crate::server::{Cluster, Server};

const CALLS: usize = 100;

const ACCEPTED: Enqueued = Enqueued::Accepted { status: Status::Queued };

/// Scripts that the server has run.
fn scripts_run(server: &Server) -> u64 {
    let info: String = server.ask(&["INFO", "commandstats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// A store that has run its scripts once.
async fn warm(server: &Server) -> RedisStore {
    let store = RedisStore::open(&RedisOptions::new(server.url()), random()).await.unwrap();
    store.enqueue(vec![job("taken")]).await.unwrap();
    let lease = store.claim(claim(1)).await.unwrap().leases.remove(0);
    assert_eq!(store.settle(vec![delivered(&lease)]).await.unwrap(), [Settled::Done]);
    store
}

/// Asks in a task of its own, and returns when the call is in line.
async fn ask(store: &RedisStore, name: &str) -> JoinHandle<Result<Vec<Enqueued>, StoreError>> {
    let (store, new) = (store.clone(), job(name));
    let call = tokio::spawn(async move { store.enqueue(vec![new]).await });
    tokio::task::yield_now().await;
    call
}

#[tokio::test]
async fn calls_that_come_at_once_share_a_batch_and_each_has_its_own_answer() {
    let server = Server::start();
    let store = warm(&server).await;
    let before = scripts_run(&server);
    server.pause();
    let mut calls = JoinSet::new();
    for new in jobs(0..CALLS).into_iter().chain([NewJob { body_hash: BodyHash(2), ..job("taken") }]) {
        let store = store.clone();
        calls.spawn(async move { (new.id.as_str() == "taken", store.enqueue(vec![new]).await.unwrap()) });
    }
    tokio::task::yield_now().await;
    server.resume();
    while let Some(answer) = calls.join_next().await {
        let (is_taken, answer) = answer.unwrap();
        assert_eq!(answer, [if is_taken { Enqueued::Conflict } else { ACCEPTED }]);
    }
    let leases = store.claim(claim(CALLS)).await.unwrap().leases;
    assert_eq!(leases.len(), CALLS);
    for lease in &leases {
        let (store, settlement) = (store.clone(), delivered(lease));
        calls.spawn(async move {
            assert_eq!(store.settle(vec![settlement]).await.unwrap(), [Settled::Done]);
            (false, Vec::new())
        });
    }
    while let Some(settled) = calls.join_next().await {
        settled.unwrap();
    }
    let ran = scripts_run(&server) - before;
    assert!(ran < CALLS as u64 / 2, "{ran} scripts for {} calls", 2 * CALLS);
}

#[tokio::test]
async fn a_call_given_up_in_the_queue_is_not_carried_out_and_harms_no_other() {
    let server = Server::start();
    let store = warm(&server).await;
    server.pause();
    let first = ask(&store, "first").await;
    let second = ask(&store, "second").await;
    let gone = ask(&store, "gone").await;
    let last = ask(&store, "last").await;
    first.abort();
    gone.abort();
    assert!(first.await.is_err() && gone.await.is_err(), "they were still waiting");
    server.resume();
    for call in [second, last] {
        assert_eq!(call.await.unwrap().unwrap(), [ACCEPTED]);
    }
    let mut kept: Vec<_> =
        store.claim(claim(9)).await.unwrap().leases.into_iter().map(|lease| lease.job.id).collect();
    kept.sort();
    assert_eq!(kept.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["first", "last", "second"]);
    assert!(store.job(&job("gone").id, T0).await.unwrap().is_none());
}

#[tokio::test]
async fn the_time_in_the_queue_is_part_of_a_calls_time() {
    let server = Server::start();
    warm(&server).await;
    let options = RedisOptions { timeout: Duration::from_millis(300), ..RedisOptions::new(server.url()) };
    let store = RedisStore::open(&options, random()).await.unwrap();
    server.pause();
    let mut calls = Vec::new();
    for name in ["a", "b", "c", "d"] {
        calls.push(ask(&store, name).await);
    }
    for call in calls {
        assert!(matches!(call.await.unwrap(), Err(StoreError::Unavailable(_))));
    }
    server.resume();
}

/// A call says which shards it needs by whether it is answered while one stands still and nothing else is on its way.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_stands_still_holds_up_no_call_that_does_not_need_it() {
    let cluster = Cluster::with(3, &["appendonly no", "cluster-require-full-coverage no"]);
    let timeout = Duration::from_secs(1);
    let options = RedisOptions { partitions: 3, timeout, ..RedisOptions::new(cluster.url()) };
    let store = RedisStore::open(&options, random()).await.unwrap();
    let company = |nth: usize| recado_core::CompanyId::new(format!("company-{nth}")).unwrap();
    let all: Vec<_> =
        (0..12).map(|nth| NewJob { company: company(nth), ..job(&format!("job-{nth}")) }).collect();
    store.enqueue(all.clone()).await.unwrap();

    cluster.masters[1].pause();
    let (mut healthy, mut stuck) = (Vec::new(), Vec::new());
    for new in all {
        let answer = store.enqueue(vec![new.clone()]).await;
        if answer.is_ok() { healthy.push(new) } else { stuck.push(new) }
    }
    assert!(!healthy.is_empty() && !stuck.is_empty(), "{} and {}", healthy.len(), stuck.len());
    let ask = |new: NewJob| {
        let store = store.clone();
        tokio::spawn(async move { store.enqueue(vec![new]).await })
    };
    let waiting: Vec<_> = stuck.into_iter().map(ask).collect();
    let answered: Vec<_> = healthy.into_iter().map(ask).collect();
    for call in answered {
        let answer = call.await.unwrap().unwrap();
        assert_eq!(answer, [Enqueued::Duplicate { status: Status::Queued }]);
    }
    for call in waiting {
        assert!(call.await.unwrap().is_err(), "the shard answers: nothing stood still");
    }
    cluster.masters[1].resume();
}
