//! Workers' leases over a restart, when the clock was set.

use recado_store::prelude::*;
use std::time::Duration;

use recado_core::{LeaseToken, RouteName, Timestamp};
use recado_store::{Claim, Pick, Turns};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::given::{DAY, Directory, HOUR, T0, accepted, job, options};

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
    let store = EmbeddedStore::open(&options).unwrap();
    store.lease(token).await.unwrap().unwrap().expires_at
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
