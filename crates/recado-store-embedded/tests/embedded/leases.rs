//! Tokens of leases, and workers' leases over a restart, when the clock was set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use recado_core::{LeaseToken, Random, RouteName, Timestamp};
use recado_store::prelude::*;
use recado_store::{Claim, Pick, Turns, Watcher};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::given::{DAY, Directory, HOUR, T0, accepted, deliver, job, open, options, settle};

const MINUTE: Duration = Duration::from_secs(60);

async fn claim(store: &EmbeddedStore, pick: Pick, now: Timestamp, lease: Duration) -> Vec<LeaseToken> {
    let claim = Claim {
        pick,
        max: 10,
        now,
        lease_until: now.plus(lease),
        worker: "worker".into(),
        provider: None,
        outlives_process: true,
        turns: Turns::default(),
    };
    store.claim(claim).await.unwrap().leases.into_iter().map(|lease| lease.token).collect()
}

/// A worker takes a lease at `T0`, and the store is opened again at `opened_at`; when the lease ends then.
async fn end_after_a_restart(lease: Duration, opened_at: Timestamp) -> Timestamp {
    let home = Directory::in_memory();
    let store = home.store();
    assert!(accepted(&store.enqueue(vec![job("a")]).await));
    let ready = Pick::Ready(RouteName::new("email").unwrap());
    let token = claim(&store, ready, T0, lease).await[0];
    drop(store);
    let options = EmbeddedOptions { now: Some(opened_at), ..options(home.path()) };
    let store = open(&options).unwrap();
    store.lease(token).await.unwrap().unwrap().expires_at
}

#[tokio::test]
async fn a_seed_gives_the_same_tokens_again() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let home = Directory::in_memory();
        let store = EmbeddedStore::open(&options(home.path()), Arc::new(Random::from_seed(seed))).unwrap();
        assert!(accepted(&store.enqueue(vec![job("a"), job("b")]).await));
        runs.push(claim(&store, Pick::Ready(RouteName::new("email").unwrap()), T0, HOUR).await);
    }
    assert_eq!((runs[0].len(), &runs[0]), (2, &runs[1]));
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test]
async fn a_workers_lease_that_lasts_stays_as_it_is_over_a_restart() {
    let opened_at = T0.plus(MINUTE);
    assert_eq!(end_after_a_restart(HOUR, opened_at).await, T0.plus(HOUR));
}

#[tokio::test]
async fn a_clock_that_was_set_back_before_a_restart_makes_no_workers_lease_longer_than_it_was() {
    let opened_at = Timestamp::from_millis(T0.as_millis() - 24 * 3_600_000);
    assert_eq!(end_after_a_restart(HOUR, opened_at).await, opened_at.plus(HOUR));
}

#[tokio::test]
async fn a_clock_that_was_set_forward_before_a_restart_ends_no_workers_lease() {
    let opened_at = T0.plus(DAY);
    assert_eq!(end_after_a_restart(MINUTE, opened_at).await, opened_at.plus(MINUTE));
    assert_eq!(end_after_a_restart(HOUR, opened_at).await, opened_at.plus(MINUTE * 5), "and not for long");
}

#[derive(Debug, Default)]
struct FsyncCount(AtomicU64);

impl Watcher for FsyncCount {
    fn on_commit(&self, _: u64, _: Duration) {}

    fn on_fsync(&self, _: Duration) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn claims_and_heartbeats_are_not_forced_to_disk_and_all_else_is() {
    let home = Directory::in_memory();
    let store = home.store();
    let count = Arc::new(FsyncCount::default());
    store.watch(count.clone());
    let fsyncs = || count.0.swap(0, Ordering::SeqCst);
    assert!(accepted(&store.enqueue(vec![job("a")]).await));
    assert_eq!(fsyncs(), 1, "enqueue");
    let lease = crate::given::claim(&store, 1, T0).await.remove(0);
    assert_eq!(fsyncs(), 0, "claim");
    store.extend(vec![lease.token], T0.plus(DAY)).await.unwrap();
    assert_eq!(fsyncs(), 0, "extend");
    settle(&store, &lease, deliver(&lease)).await.unwrap();
    assert_eq!(fsyncs(), 1, "settle");
    store.record(Vec::new()).await.unwrap();
    assert_eq!(fsyncs(), 1, "record");
    store.kv_write(Vec::new(), T0).await.unwrap();
    assert_eq!(fsyncs(), 1, "kv_write");
}
