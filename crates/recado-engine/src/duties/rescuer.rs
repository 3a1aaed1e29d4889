//! Takes over leases that ran out, and jobs whose time ran out while they waited.
//!
//! Both are claimed like any other job, under a fresh token, so a holder that wakes up late is fenced off.
//! Leases of this process itself are not taken over ([`crate::attempt::leases`]). After a standstill of this
//! process or of its store workers outside it could not extend their leases: they have a respite to do so
//! first.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Timestamp, decide};
use recado_store::{Claim, Pick, StoreError, Turns};
use tokio::time::Instant;

use crate::admission::hold_reason::HoldReason;
use crate::attempt::deliver::settle_with;
use crate::attempt::leases::{HeldClaim, HeldLease};
use crate::attempt::log;
use crate::clock::until;
use crate::engine::Inner;
use crate::metrics::WaitBy;

/// Taken over at a time.
const SWEEP_JOBS_MAX: usize = 500;

/// New leases may end before the last known one, so no sleep is longer than this.
const SWEEP_AT_LEAST_EVERY: Duration = Duration::from_millis(500);

/// A sweeper that has not looked for this long stood still, or its store did.
const LOOK_BREAK: Duration = Duration::from_secs(2);

/// After a break, holders outside this process have this long to extend their leases before any is taken over.
const RESPITE: Duration = Duration::from_secs(5);

pub(crate) async fn run_overdue(engine: Arc<Inner>) {
    loop {
        let now = engine.clock.now();
        let swept = sweep(&engine, Pick::Overdue, now).await;
        let Some(Swept { next_at, all }) = checked(&engine, swept) else { return };
        let wait = next_at.map_or(SWEEP_AT_LEAST_EVERY, |at| until(at, now).min(SWEEP_AT_LEAST_EVERY));
        if rested(&engine, if all { wait } else { Duration::ZERO }).await.is_none() {
            return;
        }
    }
}

pub(crate) async fn run_orphaned(engine: Arc<Inner>) {
    let mut lookout = TakeoverGate::new(engine.clock.steady_now());
    let wait = SWEEP_AT_LEAST_EVERY.min(engine.settings.lease / 4);
    loop {
        let swept = sweep_orphaned(&engine, &mut lookout).await;
        let Some(Swept { all, .. }) = checked(&engine, swept) else { return };
        if rested(&engine, if all { wait } else { Duration::ZERO }).await.is_none() {
            return;
        }
    }
}

/// `None` when the engine stops.
async fn rested(engine: &Inner, wait: Duration) -> Option<()> {
    engine.stopping.run_until_cancelled(tokio::time::sleep(wait)).await
}

async fn sweep_orphaned(engine: &Arc<Inner>, lookout: &mut TakeoverGate) -> Result<Swept, StoreError> {
    let time = engine.takeover_time().await?;
    let ended_by = lookout.look(time, RESPITE.min(engine.settings.lease));
    sweep(engine, Pick::Orphaned, ended_by).await
}

/// Remembers since when the sweeper has looked at the leases without a break.
#[derive(Debug)]
struct TakeoverGate {
    /// The time of the last look before the break.
    before: Timestamp,
    /// The first look after it.
    since: Option<Instant>,
    last: Instant,
    last_time: Timestamp,
}

impl TakeoverGate {
    /// Whatever had ended by the start may be taken over at once.
    fn new(now: Timestamp) -> Self {
        TakeoverGate { before: now, since: None, last: Instant::now(), last_time: now }
    }

    /// Looks at `time`; returns the time by which a lease must have ended to be taken over.
    fn look(&mut self, time: Timestamp, respite: Duration) -> Timestamp {
        if self.last.elapsed() > LOOK_BREAK {
            self.before = self.last_time;
            self.since = Some(Instant::now());
        }
        self.last = Instant::now();
        self.last_time = time;
        match self.since {
            Some(since) if since.elapsed() < respite => self.before.min(time),
            _ => time,
        }
    }
}

/// The result of one sweep.
struct Swept {
    /// The time at which there will be more.
    next_at: Option<Timestamp>,
    /// It took all that there was.
    all: bool,
}

/// `None` when the store has failed for good.
fn checked(engine: &Inner, swept: Result<Swept, StoreError>) -> Option<Swept> {
    match swept {
        Ok(swept) => Some(swept),
        Err(StoreError::Broken(error)) => {
            engine.store_broke(&error);
            None
        }
        Err(error) => {
            tracing::warn!(%error, "cannot look for abandoned jobs; trying again");
            Some(Swept { next_at: None, all: true })
        }
    }
}

/// Takes over what is picked at `now`, up to [`SWEEP_JOBS_MAX`].
async fn sweep(engine: &Arc<Inner>, pick: Pick, now: Timestamp) -> Result<Swept, StoreError> {
    let claim = Claim {
        pick,
        max: SWEEP_JOBS_MAX,
        now,
        lease_until: engine.lease_until(),
        worker: engine.settings.node.clone(),
        provider: None,
        outlives_process: false,
        turns: Turns::default(),
    };
    let HeldClaim { leases, next_at } = engine.claim_here(claim).await?;
    let all = leases.len() < SWEEP_JOBS_MAX;
    futures_util::future::join_all(leases.into_iter().map(|lease| take_over(engine, lease))).await;
    Ok(Swept { next_at, all })
}

async fn take_over(engine: &Inner, lease: HeldLease) {
    let now = engine.clock.now();
    let terms = engine.terms_of(&lease.job.route);
    let (transition, audit) = match &lease.lost {
        Some(lost) => {
            tracing::warn!(jobId = %lease.job.id, companyId = %lease.job.company, attempt = lost.attempt, worker = %lost.worker, "A lease ran out; its job is taken over");
            decide::decide_after_crash(&lease.job, lost, &terms, now, engine.chance.draw())
        }
        None => {
            let held = engine
                .hold_by_pin(&lease.job, now)
                .or_else(|| engine.hold(lease.job.route.as_str(), lease.job.company.as_str()))
                .or_else(|| engine.receiver_hold(&lease.job));
            let held = held.filter(HoldReason::is_deferral).map(|hold| hold.why);
            decide::bury_expired(&lease.job, held.as_deref(), &terms, now)
        }
    };
    log::attempt(engine, &lease, &terms.policy, &transition);
    settle_with(engine, &lease, transition, Some(audit), WaitBy::Policy).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Timestamp = Timestamp::from_millis(1_760_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn after_a_standstill_only_what_had_ended_before_it_is_taken_over_until_the_respite_is_over() {
        let mut lookout = TakeoverGate::new(T0);
        let mut time = T0;
        for _ in 0..5 {
            tokio::time::sleep(SECOND).await;
            time = time.plus(SECOND);
            assert_eq!(lookout.look(time, RESPITE), time, "it looks without a break");
        }
        let before = time;
        tokio::time::sleep(20 * SECOND).await;
        time = time.plus(20 * SECOND);
        for _ in 0..5 {
            assert_eq!(lookout.look(time, RESPITE), before);
            tokio::time::sleep(SECOND).await;
            time = time.plus(SECOND);
        }
        assert_eq!(lookout.look(time, RESPITE), time);
    }
}
