//! Handles a route's jobs while every provider's breaker is open, where its fallback says `open`.
//!
//! Jobs of other routes wait. These are taken from their lane as they come due and given up, postponed or
//! marked, by the route's act, without a request and without spending an attempt. When the reset time is over
//! the next job is the probe, and from then on the lane is the claimer's again. A process that dies in
//! between leaves leases that run out, and the job comes again.

use std::sync::Arc;

use recado_core::{Timestamp, decide};
use recado_store::{Pick, StoreError, Turns};

use crate::admission::gate::STALE_LOOK_AFTER;
use crate::attempt::Attempts;
use crate::attempt::claimer::{CLAIM_RETRY, any, listen};
use crate::attempt::leases::{ClaimHere, HeldLease};
use crate::clock::sleep_until;
use crate::fallback::Act;
use crate::route::Route;

/// Jobs taken from the lane at a time.
const ACT_JOBS_MAX: usize = 256;

/// Watches one route until the engine stops.
pub(crate) async fn run(attempts: Arc<Attempts>, route: Arc<Route>) {
    let (gate, lifecycle) = (&attempts.gate, &attempts.env.lifecycle);
    let providers: Vec<_> = route.providers().filter_map(|name| gate.providers.get(name)).collect();
    let mut waker = attempts.env.jobs.waker(&route.name);
    loop {
        let changes = listen(providers.iter().map(|provider| &provider.changed).chain([&gate.changed]));
        if lifecycle.is_stopping() {
            return;
        }
        waker.reset();
        let now = attempts.env.now();
        let all_open = providers.iter().all(|provider| provider.is_open_without_probe(now));
        let is_due = all_open && gate.pause_of(&route.name).is_none();
        let next_at = match is_due {
            false => None,
            // Another node may have closed the breaker or paused the route since this one read about it.
            true if gate.may_have_missed_changes() => Some(now.plus(STALE_LOOK_AFTER)),
            true => match attempts.fall_back_on_due(&route).await {
                Ok(next_at) => next_at,
                Err(StoreError::Broken(error)) => return lifecycle.fail_store(&error),
                Err(error) => {
                    tracing::warn!(route = %route.name, %error, "Cannot claim; trying again");
                    tokio::time::sleep(CLAIM_RETRY).await;
                    continue;
                }
            },
        };
        tokio::select! {
            biased;
            () = lifecycle.stopping.cancelled() => return,
            () = waker.wait() => {}
            () = any(changes) => {}
            () = sleep_until(&*attempts.env.clock, next_at) => {}
        }
    }
}

impl Attempts {
    /// Acts on the jobs that are due, and returns when the next one will be.
    async fn fall_back_on_due(self: &Arc<Self>, route: &Route) -> Result<Option<Timestamp>, StoreError> {
        let now = self.env.now();
        // Nothing is sent, so rates do not matter; a pause does.
        let turns = Turns { quota: Arc::new(self.gate.tenants.paused()), ..Turns::default() };
        let pick = Pick::Ready(route.name.clone());
        let claim = ClaimHere { pick, max: ACT_JOBS_MAX, now, provider: None, turns };
        let claimed = self.claim_here(claim).await?;
        let came = claimed.leases.len();
        let hold = self.gate.route_hold(route);
        let why = hold.map_or_else(|| "circuit breaker OPEN".to_owned(), |hold| hold.why);
        let act = |lease| self.fall_back(route, lease, &why);
        tokio::select! {
            biased;
            _ = futures_util::future::join_all(claimed.leases.into_iter().map(act)) => {}
            () = self.env.lifecycle.stopping.cancelled() => {}
        }
        Ok(if came == ACT_JOBS_MAX { Some(now) } else { claimed.next_at })
    }

    async fn fall_back(&self, route: &Route, lease: HeldLease, why: &str) {
        let now = self.env.now();
        let decided = match route.fallback.act {
            _ if lease.job.expires_at <= now => {
                decide::bury_expired(&lease.job, Some(why), &route.terms, now)
            }
            Act::Reschedule(after) => decide::postpone_by_fallback(&lease.job, after, why, &route.terms, now),
            _ => decide::bury_by_fallback(&lease.job, why, &route.terms, now),
        };
        self.settle_and_log(&lease, decided).await;
    }
}
