//! Takes over leases that ran out, and jobs whose time ran out while they waited.
//!
//! Both are claimed like any other job, under a fresh token, so a holder that wakes up late is fenced off.
//! Leases of this process itself are not taken over ([`crate::attempt::leases`]). After a standstill of this
//! process or of its store workers outside it could not extend their leases: they have a respite to do so
//! first.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Timestamp, decide};
use recado_store::{Pick, StoreError, Turns};
use tokio::time::Instant;

use crate::admission::hold_reason::HoldReason;
use crate::attempt::Attempts;
use crate::attempt::leases::{ClaimHere, HeldClaim, HeldLease};

/// Jobs taken over in one sweep.
const SWEEP_JOBS_MAX: usize = 500;

/// New leases may end before the last known one, so no sleep is longer than this.
const SWEEP_AT_LEAST_EVERY: Duration = Duration::from_millis(500);

/// A rescuer that has not looked for this long stood still, or its store did.
const LOOK_BREAK: Duration = Duration::from_secs(2);

/// After a break, holders outside this process have this long to extend their leases before any is taken over.
const RESPITE: Duration = Duration::from_secs(5);

/// Takes over jobs whose time ran out, until the engine stops.
pub(crate) async fn run_overdue(attempts: Arc<Attempts>) {
    loop {
        let swept = sweep(&attempts, Pick::Overdue, attempts.env.now()).await;
        if !rest_after(&attempts, swept, SWEEP_AT_LEAST_EVERY).await {
            return;
        }
    }
}

/// Takes over leases that ran out, until the engine stops.
pub(crate) async fn run_orphaned(attempts: Arc<Attempts>) {
    let mut takeover_gate = TakeoverGate::new(attempts.env.clock.steady_now());
    let wait = SWEEP_AT_LEAST_EVERY.min(attempts.leases.length / 4);
    loop {
        let swept = sweep_orphaned(&attempts, &mut takeover_gate).await;
        if !rest_after(&attempts, swept, wait).await {
            return;
        }
    }
}

/// Rests before the next sweep; returns false when the engine stops or the store has failed for good.
async fn rest_after(attempts: &Attempts, swept: Result<Swept, StoreError>, longest: Duration) -> bool {
    let round = swept.map(|swept| match swept.next_at {
        _ if !swept.all => Duration::ZERO,
        Some(at) => at.since(attempts.env.now()).min(longest),
        None => longest,
    });
    let complaint = "Cannot look for abandoned jobs; trying again";
    attempts.env.lifecycle.rest_after(round, longest, complaint).await
}

async fn sweep_orphaned(
    attempts: &Arc<Attempts>,
    takeover_gate: &mut TakeoverGate,
) -> Result<Swept, StoreError> {
    let time = attempts.leases.takeover_time().await?;
    let ended_by = takeover_gate.look(time, RESPITE.min(attempts.leases.length));
    // The end of the next lease is no time to look: its holder extends it before.
    Ok(Swept { next_at: None, ..sweep(attempts, Pick::Orphaned, ended_by).await? })
}

/// Remembers since when the rescuer has looked at the leases without a break.
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
    /// Leases that had ended at start may be taken over at once.
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

/// Takes over what is picked at `now`, up to [`SWEEP_JOBS_MAX`].
async fn sweep(attempts: &Arc<Attempts>, pick: Pick, now: Timestamp) -> Result<Swept, StoreError> {
    let claim = ClaimHere { pick, max: SWEEP_JOBS_MAX, now, provider: None, turns: Turns::default() };
    let HeldClaim { leases, next_at } = attempts.claim_here(claim).await?;
    let all = leases.len() < SWEEP_JOBS_MAX;
    futures_util::future::join_all(leases.into_iter().map(|lease| take_over(attempts, lease))).await;
    Ok(Swept { next_at, all })
}

async fn take_over(attempts: &Attempts, lease: HeldLease) {
    let (now, gate) = (attempts.env.now(), &attempts.gate);
    let terms = attempts.env.routes.terms_of(&lease.job.route);
    let decided = match &lease.lost {
        Some(lost) => {
            tracing::warn!(jobId = %lease.job.id, companyId = %lease.job.company, attempt = lost.attempt, worker = %lost.worker, "A lease ran out; its job is taken over");
            decide::decide_after_crash(&lease.job, lost, terms, now, attempts.env.random.next_draw())
        }
        None => {
            let held = gate
                .hold_by_pin(&lease.job)
                .or_else(|| gate.hold(lease.job.route.as_str(), lease.job.company.as_str()))
                .or_else(|| gate.receiver_hold(&lease.job));
            let held = held.filter(HoldReason::is_deferral).map(|hold| hold.why);
            decide::bury_expired(&lease.job, held.as_deref(), terms, now)
        }
    };
    attempts.settle_and_log(&lease, decided).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Timestamp = Timestamp::from_millis(1_760_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn after_a_standstill_only_what_had_ended_before_it_is_taken_over_until_the_respite_is_over() {
        let mut takeover_gate = TakeoverGate::new(T0);
        let mut time = T0;
        for _ in 0..5 {
            tokio::time::sleep(SECOND).await;
            time = time.plus(SECOND);
            assert_eq!(takeover_gate.look(time, RESPITE), time, "it looks without a break");
        }
        let before = time;
        tokio::time::sleep(20 * SECOND).await;
        time = time.plus(20 * SECOND);
        for _ in 0..5 {
            assert_eq!(takeover_gate.look(time, RESPITE), before);
            tokio::time::sleep(SECOND).await;
            time = time.plus(SECOND);
        }
        assert_eq!(takeover_gate.look(time, RESPITE), time);
    }
}
