//! Takes over what nobody looks after: leases that ran out, and jobs whose time ran out while they waited.
//!
//! Both are claimed like any other job, under a fresh token, so a holder that wakes up late is fenced off.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Lease, Timestamp, decide};
use recado_store::{Claim, Claimed, Pick, StoreError, Turns};

use crate::clock::until;
use crate::deliver::settle_with;
use crate::engine::Inner;
use crate::figures::WaitBy;
use crate::holds::Hold;
use crate::log;

/// Taken over at a time.
const SWEEP_JOBS_MAX: usize = 500;

/// New leases may end before the last known one, so nobody sleeps longer than this.
const SWEEP_AT_LEAST_EVERY: Duration = Duration::from_millis(500);

pub(crate) async fn run(engine: Arc<Inner>, pick: Pick) {
    loop {
        let next_at = match sweep(&engine, &pick).await {
            Ok(next_at) => next_at,
            Err(StoreError::Broken(error)) => return engine.store_broke(&error),
            Err(error) => {
                tracing::warn!(%error, "cannot look for abandoned jobs; trying again");
                None
            }
        };
        let now = engine.clock.now();
        let wait = next_at.map_or(SWEEP_AT_LEAST_EVERY, |at| until(at, now).min(SWEEP_AT_LEAST_EVERY));
        tokio::select! {
            () = engine.stopping.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn sweep(engine: &Arc<Inner>, pick: &Pick) -> Result<Option<Timestamp>, StoreError> {
    loop {
        let now = engine.clock.now();
        let claim = Claim {
            pick: pick.clone(),
            max: SWEEP_JOBS_MAX,
            now,
            lease_until: now.plus(engine.settings.lease),
            worker: engine.settings.node.clone(),
            outlives_process: false,
            turns: Turns::default(),
        };
        let Claimed { leases, next_at } = engine.claim(claim).await?;
        let came = leases.len();
        futures_util::future::join_all(leases.into_iter().map(|lease| take_over(engine, lease))).await;
        if came < SWEEP_JOBS_MAX {
            return Ok(next_at);
        }
    }
}

async fn take_over(engine: &Inner, lease: Lease) {
    let now = engine.clock.now();
    let terms = engine.terms_of(&lease.job.route);
    let (transition, audit) = match &lease.lost {
        Some(lost) => {
            tracing::warn!(jobId = %lease.job.id, companyId = %lease.job.company, attempt = lost.attempt, worker = %lost.worker, "A lease ran out; its job is taken over");
            decide::after_crash(&lease.job, lost, &terms, now, engine.chance.draw())
        }
        None => {
            let held = engine.hold(lease.job.route.as_str(), lease.job.company.as_str());
            let held = held.or_else(|| engine.receiver_hold(&lease.job));
            let held = held.filter(Hold::is_deferral).map(|hold| hold.why);
            decide::expired(&lease.job, held.as_deref(), &terms, now)
        }
    };
    log::attempt(engine, &lease, &terms.policy, &transition);
    settle_with(engine, &lease, transition, Some(audit), WaitBy::Policy).await;
}
