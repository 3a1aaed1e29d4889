//! One loop a route: as many leases as there are free slots, a delivery for each.
//!
//! It sleeps until the store rings, until the next job is due or until a slot frees, whichever comes
//! first; it never polls.

use std::sync::Arc;

use recado_store::{Claim, Pick, StoreError, Turns};

use crate::clock::until;
use crate::deliver::deliver;
use crate::engine::Inner;
use crate::route::Route;

/// Leases that one claim asks for at most.
const CLAIM_JOBS_MAX: usize = 256;

/// Pause after a claim that the store could not answer.
const CLAIM_RETRY: std::time::Duration = std::time::Duration::from_millis(250);

pub(crate) async fn run(engine: Arc<Inner>, route: Arc<Route>) {
    let slots = engine.slots_of(&route.name);
    let mut waker = engine.store.waker(&route.name);
    loop {
        // Wait for a free slot, then take as many as are free.
        let first = tokio::select! {
            () = engine.stopping.cancelled() => return,
            slot = slots.clone().acquire_owned() => match slot { Ok(slot) => slot, Err(_) => return },
        };
        let mut free = vec![first];
        while free.len() < CLAIM_JOBS_MAX
            && let Ok(slot) = slots.clone().try_acquire_owned()
        {
            free.push(slot);
        }
        waker.reset();
        let now = engine.clock.now();
        let claim = Claim {
            pick: Pick::Ready(route.name.clone()),
            max: free.len(),
            now,
            lease_until: now.plus(engine.settings.lease),
            worker: engine.settings.node.clone(),
            outlives_process: false,
            turns: Turns::default(),
        };
        // A stop must not tear a claim apart: its answer carries leases.
        let claimed = match engine.store.claim(claim).await {
            Ok(claimed) => claimed,
            Err(StoreError::Broken(error)) => return engine.store_broke(&error),
            Err(error) => {
                tracing::warn!(route = %route.name, %error, "cannot claim; trying again");
                tokio::time::sleep(CLAIM_RETRY).await;
                continue;
            }
        };
        let came = claimed.leases.len();
        for (lease, slot) in claimed.leases.into_iter().zip(free.drain(..came)) {
            engine.beats.started(lease.token);
            let (engine, deliveries) = (engine.clone(), engine.deliveries.clone());
            deliveries.spawn(async move {
                let token = lease.token;
                tokio::select! {
                    () = deliver(&engine, lease) => {}
                    () = engine.stopped.cancelled() => {}
                }
                engine.beats.ended(token);
                drop(slot);
            });
        }
        if free.is_empty() {
            continue;
        }
        drop(free);
        tokio::select! {
            () = engine.stopping.cancelled() => return,
            () = waker.rung() => {}
            () = sleep_until_due(claimed.next_at, &engine) => {}
        }
    }
}

async fn sleep_until_due(due: Option<recado_core::Timestamp>, engine: &Inner) {
    match due {
        Some(due) => tokio::time::sleep(until(due, engine.clock.now())).await,
        None => std::future::pending().await,
    }
}
