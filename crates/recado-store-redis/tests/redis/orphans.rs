//! Leases that ran out while Redis could not be reached.

use recado_store::prelude::*;
use std::time::Duration;

use recado_core::Lease;
use recado_store::{Claim, Extended, Pick, StoreError};
use recado_store_redis::{RedisOptions, RedisStore};

use crate::given::{HOUR, T0, claim, jobs, random};
use crate::server::Server;

const TIMEOUT: Duration = Duration::from_millis(300);
const LEASE: Duration = Duration::from_millis(800);

/// The leases taken over once all ran out, as soon as Redis answers.
async fn look(store: &RedisStore) -> Vec<Lease> {
    let now = T0.plus(HOUR);
    loop {
        let claim = Claim { pick: Pick::Orphaned, now, lease_until: now.plus(LEASE), ..claim(9) };
        match store.claim(claim).await {
            Ok(claimed) => return claimed.leases,
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn look_until_taken(store: &RedisStore) -> Vec<Lease> {
    loop {
        let taken = look(store).await;
        if !taken.is_empty() {
            return taken;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_redis_was_away_living_nodes_extend_their_leases_before_others_take_them_over() {
    let mut server = Server::durable();
    let options = RedisOptions { timeout: TIMEOUT, orphan_grace: LEASE, ..RedisOptions::new(server.url()) };
    let holder = RedisStore::open(&options, random()).await.unwrap();
    let other = RedisStore::open(&options, random()).await.unwrap();
    holder.enqueue(jobs(0..3)).await.unwrap();
    let soon = Claim { lease_until: T0.plus(LEASE), ..claim(1) };
    let first = holder.claim(soon.clone()).await.unwrap().leases.remove(0);
    assert_eq!(look_until_taken(&other).await[0].job.id, first.job.id, "a node that looks on takes it over");
    let held = holder.claim(Claim { max: 2, ..soon }).await.unwrap().leases;
    server.kill();
    tokio::time::sleep(2 * TIMEOUT).await;
    server.restart();
    while holder.counts(T0).await.is_err() {}
    assert!(look(&other).await.is_empty(), "their holder could not reach Redis either");
    let extended = holder.extend(vec![held[0].token], T0.plus(HOUR * 2)).await.unwrap();
    assert_eq!(extended, [Extended::Until(T0.plus(HOUR * 2))]);
    let taken: Vec<_> = look_until_taken(&other).await.into_iter().map(|lease| lease.job.id).collect();
    assert_eq!(taken, [held[1].job.id.clone()], "only the lease that was not extended");
}
