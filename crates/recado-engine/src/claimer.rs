//! One loop a route: as many leases as its provider admits, a delivery for each.
//!
//! It asks the provider first and claims second, so what may not go out stays in its lane. It sleeps until
//! the store rings, until the next job is due, until the provider or a tenant is free again, whichever comes
//! first; it never polls. A route with several providers asks them in order.

use std::collections::HashMap;
use std::sync::Arc;

use recado_core::{CompanyId, Timestamp};
use recado_store::{Claim, Claimed, Pick, StoreError, Turns, Waker};
use tokio::sync::futures::Notified;

use crate::clock::until;
use crate::deliver::deliver;
use crate::engine::Inner;
use crate::providers::{Grant, Provider};
use crate::route::{Leg, Route};

/// Leases that one claim asks for at most.
const CLAIM_JOBS_MAX: usize = 256;

/// Pause after a claim that the store could not answer.
const CLAIM_RETRY: std::time::Duration = std::time::Duration::from_millis(250);

pub(crate) async fn run(engine: Arc<Inner>, route: Arc<Route>) {
    let legs = engine.legs(&route);
    let mut waker = engine.store.waker(&route.name);
    loop {
        // Listen before asking: what changes in between must not be missed.
        let mut changes: Vec<_> = legs.iter().map(|leg| Box::pin(leg.provider.changed.notified())).collect();
        for change in &mut changes {
            change.as_mut().enable();
        }
        let mut tenants_changed = std::pin::pin!(engine.tenants.changed.notified());
        tenants_changed.as_mut().enable();
        if engine.stopping.is_cancelled() {
            return;
        }
        let (leg, grant) = match admitted(&engine, &legs) {
            Ok(admitted) => admitted,
            Err(free_at) => {
                tokio::select! {
                    () = engine.stopping.cancelled() => return,
                    () = any(changes) => {}
                    () = sleep_until(free_at, &engine) => {}
                }
                continue;
            }
        };
        let granted = grant.count();
        waker.reset();
        let (shares, _) = turns(&engine, Some(&leg.provider), granted);
        // A stop must not tear a claim apart: its answer carries leases.
        let claimed = match claim(&engine, &route, granted, shares).await {
            Ok(claimed) => claimed,
            Err(error) => {
                leg.provider.unused(&grant, granted, engine.clock.now());
                if let StoreError::Broken(error) = error {
                    return engine.store_broke(&error);
                }
                tracing::warn!(route = %route.name, %error, "cannot claim; trying again");
                tokio::time::sleep(CLAIM_RETRY).await;
                continue;
            }
        };
        let came = claimed.leases.len();
        leg.provider.unused(&grant, granted - came, engine.clock.now());
        start(&engine, leg, grant == Grant::Probe, claimed.leases);
        if came == granted {
            continue;
        }
        // What just started may have used a tenant's share up.
        let (_, tenant_free_at) = turns(&engine, Some(&leg.provider), granted);
        tokio::select! {
            () = tenants_changed => {}
            () = rest(&engine, &mut waker, leg, claimed.next_at, tenant_free_at) => {}
        }
    }
}

/// The first provider that admits anything, or when to ask again.
fn admitted<'a>(engine: &Arc<Inner>, legs: &'a [Leg]) -> Result<(&'a Leg, Grant), Option<Timestamp>> {
    let now = engine.clock.now();
    let mut free_at: Option<Timestamp> = None;
    for leg in legs {
        let (grant, swing) = leg.provider.admit(CLAIM_JOBS_MAX, now);
        engine.swung(&leg.provider, swing, now);
        match grant {
            Grant::None { until, .. } => free_at = [free_at, until].into_iter().flatten().min(),
            grant => return Ok((leg, grant)),
        }
    }
    Err(free_at)
}

/// How tenants share this claim, and when the first that is held back is free again.
pub(crate) fn turns(
    engine: &Inner,
    provider: Option<&Arc<Provider>>,
    granted: usize,
) -> (Turns, Option<Timestamp>) {
    let now = engine.clock.now();
    let (mut quotas, leg_free_at) = provider.map(|provider| provider.quotas(now)).unwrap_or_default();
    let tenant_free_at = engine.tenants.bound(&mut quotas, now);
    let unbounded = u32::try_from(granted).unwrap_or(u32::MAX);
    quotas.retain(|_: &CompanyId, quota| *quota < unbounded);
    let turns = Turns {
        batch: engine.settings.turn_jobs,
        weights: engine.tenants.weights(),
        quota: Arc::<HashMap<_, _>>::new(quotas),
    };
    (turns, [leg_free_at, tenant_free_at].into_iter().flatten().min())
}

async fn claim(engine: &Inner, route: &Route, max: usize, turns: Turns) -> Result<Claimed, StoreError> {
    let now = engine.clock.now();
    engine
        .store
        .claim(Claim {
            pick: Pick::Ready(route.name.clone()),
            max,
            now,
            lease_until: now.plus(engine.settings.lease),
            worker: engine.settings.node.clone(),
            outlives_process: false,
            turns,
        })
        .await
}

fn start(engine: &Arc<Inner>, leg: &Leg, probe: bool, leases: Vec<recado_core::Lease>) {
    let now = engine.clock.now();
    for lease in leases {
        engine.beats.started(lease.token);
        engine.tenants.started(&lease.job.company, now);
        leg.provider.started(&lease.job.company, lease.job.progress.attempts_spent == 0, now);
        let (engine, leg, deliveries) = (engine.clone(), leg.clone(), engine.deliveries.clone());
        deliveries.spawn(async move {
            let token = lease.token;
            tokio::select! {
                () = deliver(&engine, &leg, probe, lease) => {}
                () = engine.stopped.cancelled() => {}
            }
            engine.beats.ended(token);
        });
    }
}

/// Until there may be more to claim.
async fn rest(
    engine: &Inner,
    waker: &mut Waker,
    leg: &Leg,
    next_at: Option<Timestamp>,
    tenant_free_at: Option<Timestamp>,
) {
    let next = [next_at, tenant_free_at].into_iter().flatten().min();
    // Deliveries that end free a tenant's share, but are no news to a lane that has nothing to send.
    let tenant_change = async {
        match tenant_free_at {
            Some(_) => leg.provider.changed.notified().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = engine.stopping.cancelled() => {}
        () = waker.rung() => {}
        () = tenant_change => {}
        () = sleep_until(next, engine) => {}
    }
}

async fn any(changes: Vec<std::pin::Pin<Box<Notified<'_>>>>) {
    if changes.is_empty() {
        return std::future::pending().await;
    }
    futures_util::future::select_all(changes).await;
}

async fn sleep_until(at: Option<Timestamp>, engine: &Inner) {
    match at {
        Some(at) => tokio::time::sleep(until(at, engine.clock.now())).await,
        None => std::future::pending().await,
    }
}
