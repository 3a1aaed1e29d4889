//! Handles a route's jobs while every provider of it is closed off, where its fallback says `open`.
//!
//! Jobs of other routes wait. These are taken from their lane as they come due and given up, put off or
//! marked, by the route's act, without a request and without spending an attempt. When the reset time is over
//! the next job is the probe, and from then on the lane is the claimer's again. A process that dies in
//! between leaves leases that run out, and the job comes again.

use std::sync::Arc;

use recado_core::{Timestamp, decide};
use recado_store::{Claim, Pick, StoreError, Turns};

use crate::attempt::claimer::{CLAIM_RETRY, any, listen};
use crate::attempt::deliver::settle_with;
use crate::attempt::leases::HeldLease;
use crate::attempt::log;
use crate::clock::sleep_until;
use crate::engine::Inner;
use crate::fallback::Act;
use crate::metrics::WaitBy;
use crate::route::Route;

/// Taken from the lane at a time.
const ACT_JOBS_MAX: usize = 256;

pub(crate) async fn run(engine: Arc<Inner>, route: Arc<Route>) {
    let providers: Vec<_> = route.providers().filter_map(|name| engine.providers.get(name)).collect();
    let mut waker = engine.store.waker(&route.name);
    loop {
        let changes = listen(providers.iter().map(|provider| &provider.changed).chain([&engine.said]));
        if engine.stopping.is_cancelled() {
            return;
        }
        waker.reset();
        let shut = |now| providers.iter().all(|provider| provider.is_shut(now));
        let next_at = match shut(engine.clock.now()) && engine.pause_of(&route.name).is_none() {
            false => None,
            true => match act(&engine, &route).await {
                Ok(next_at) => next_at,
                Err(StoreError::Broken(error)) => return engine.store_broke(&error),
                Err(error) => {
                    tracing::warn!(route = %route.name, %error, "cannot claim; trying again");
                    tokio::time::sleep(CLAIM_RETRY).await;
                    continue;
                }
            },
        };
        tokio::select! {
            () = engine.stopping.cancelled() => return,
            () = waker.rung() => {}
            () = any(changes) => {}
            () = sleep_until(&*engine.clock, next_at) => {}
        }
    }
}

/// Acts on what is due; when the next one will be.
async fn act(engine: &Arc<Inner>, route: &Route) -> Result<Option<Timestamp>, StoreError> {
    let now = engine.clock.now();
    // Nothing is sent, so rates do not matter; a pause does.
    let turns = Turns { quota: Arc::new(engine.tenants.paused()), ..Turns::default() };
    let claim = Claim {
        pick: Pick::Ready(route.name.clone()),
        max: ACT_JOBS_MAX,
        now,
        lease_until: engine.lease_until(),
        worker: engine.settings.node.clone(),
        provider: None,
        outlives_process: false,
        turns,
    };
    let claimed = engine.claim_here(claim).await?;
    let came = claimed.leases.len();
    let why = engine.route_hold(route).map_or_else(|| "circuit breaker OPEN".to_owned(), |hold| hold.why);
    let act = |lease| act_on(engine, route, lease, &why);
    tokio::select! {
        _ = futures_util::future::join_all(claimed.leases.into_iter().map(act)) => {}
        () = engine.stopping.cancelled() => {}
    }
    Ok(if came == ACT_JOBS_MAX { Some(now) } else { claimed.next_at })
}

async fn act_on(engine: &Inner, route: &Route, lease: HeldLease, why: &str) {
    let now = engine.clock.now();
    let (transition, audit) = match route.fallback.act {
        _ if lease.job.expires_at <= now => decide::bury_expired(&lease.job, Some(why), &route.terms, now),
        Act::Reschedule(after) => decide::postpone_by_fallback(&lease.job, after, why, &route.terms, now),
        _ => decide::bury_by_fallback(&lease.job, why, &route.terms, now),
    };
    log::attempt(engine, &lease, &route.terms.policy, &transition);
    settle_with(engine, &lease, transition, Some(audit), WaitBy::Policy).await;
}
