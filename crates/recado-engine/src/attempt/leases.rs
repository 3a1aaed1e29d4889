//! The leases that this process holds, kept alive so that a slow provider is not taken for a dead worker.
//!
//! All leases here are measured by [`Clock::steady_now`](crate::clock::Clock::steady_now). A lease that is held here is never taken over by this process
//! itself, however long its disk stalled or it stood still: before the rescuer takes anything over it has the leases
//! extended that may have ended meanwhile, and takes over what had ended before that ([`HeldLeases::takeover_time`]). A
//! claim whose answer is still on its way counts as held.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{Lease, LeaseToken, Timestamp};
use recado_store::{Claim, Claimed, Extended, Pick, StoreError, Turns};

use crate::attempt::Attempts;
use crate::environment::Environment;

/// Extensions that one request carries at most.
const BEAT_TOKENS_MAX: usize = 1_000;

/// Time until the next try after the store could not be reached.
const BEAT_RETRY: Duration = Duration::from_millis(500);

/// The leases that this process holds, and how many deliveries run and have ended.
#[derive(Debug)]
pub(crate) struct HeldLeases {
    env: Arc<Environment>,
    /// Length of a lease without a heartbeat.
    pub length: Duration,
    leases: Mutex<LeaseEnds>,
    /// Held while leases are extended: an older extension must not be written over a newer one.
    extending: tokio::sync::Mutex<()>,
    running: AtomicU64,
    ended: AtomicU64,
}

#[derive(Debug, Default)]
struct LeaseEnds {
    /// By token: the end that the store is known to have.
    ends: HashMap<LeaseToken, Timestamp>,
    /// Ends of the leases that claims on their way may have been given already, each with the number of such claims.
    claimed_ends: BTreeMap<Timestamp, usize>,
}

/// A lease that a task of this process holds. It is extended until this is dropped, however the task ends.
#[derive(Debug)]
pub(crate) struct HeldLease {
    lease: Lease,
    held: Arc<HeldLeases>,
}

impl Deref for HeldLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.held.leases.lock().ends.remove(&self.lease.token);
    }
}

/// Leases that this process was given and holds.
#[derive(Debug)]
pub(crate) struct HeldClaim {
    pub leases: Vec<HeldLease>,
    pub next_at: Option<Timestamp>,
}

/// A claim whose answer is on its way, until this is dropped.
struct ClaimUnderWay<'a> {
    held: &'a HeldLeases,
    lease_until: Timestamp,
}

impl Drop for ClaimUnderWay<'_> {
    fn drop(&mut self) {
        let mut leases = self.held.leases.lock();
        if let Some(claims) = leases.claimed_ends.get_mut(&self.lease_until) {
            *claims -= 1;
            if *claims == 0 {
                leases.claimed_ends.remove(&self.lease_until);
            }
        }
    }
}

/// Counts a delivery as running until it is dropped.
#[derive(Debug)]
pub(crate) struct RunningDelivery(Arc<HeldLeases>);

impl Drop for RunningDelivery {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl HeldLeases {
    pub fn new(env: Arc<Environment>, length: Duration) -> Self {
        let (leases, extending) = (Mutex::default(), tokio::sync::Mutex::default());
        HeldLeases { env, length, leases, extending, running: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// Holds a lease, which is extended until the result is dropped.
    pub fn hold(self: &Arc<Self>, lease: Lease) -> HeldLease {
        self.leases.lock().ends.insert(lease.token, lease.expires_at);
        HeldLease { lease, held: self.clone() }
    }

    /// Counts a delivery as running until the result is dropped.
    pub fn count_delivery(self: &Arc<Self>) -> RunningDelivery {
        self.running.fetch_add(1, Ordering::Relaxed);
        RunningDelivery(self.clone())
    }

    pub fn running_count(&self) -> u64 {
        self.running.load(Ordering::Relaxed)
    }

    /// Since the start.
    pub fn ended_count(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    fn claim_under_way(&self, lease_until: Timestamp) -> ClaimUnderWay<'_> {
        *self.leases.lock().claimed_ends.entry(lease_until).or_default() += 1;
        ClaimUnderWay { held: self, lease_until }
    }

    fn record_extended(&self, tokens: &[LeaseToken], answers: &[Extended]) {
        let mut leases = self.leases.lock();
        for (token, answer) in tokens.iter().zip(answers) {
            match answer {
                Extended::Until(until) => {
                    leases.ends.entry(*token).and_modify(|end| *end = *until);
                }
                // It was settled meanwhile, or another holder has the job now.
                Extended::Stale => drop(leases.ends.remove(token)),
            }
        }
    }
}

impl LeaseEnds {
    fn tokens(&self, ending_by: Timestamp) -> Vec<LeaseToken> {
        let ending = self.ends.iter().filter(|(_, end)| **end <= ending_by);
        let mut tokens: Vec<LeaseToken> = ending.map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        tokens
    }

    /// The latest time, `now` at most, at which no lease has ended that a claim on its way may have been given.
    fn before_claims(&self, now: Timestamp) -> Timestamp {
        let earliest = self.claimed_ends.keys().next();
        earliest.map_or(now, |end| now.min(Timestamp::from_millis(end.as_millis() - 1)))
    }
}

/// Extends all held leases three times a lease: two times may fail before it matters. Goes on during a graceful stop.
pub(crate) async fn run_heartbeat(leases: Arc<HeldLeases>) {
    let beat = leases.length / 3;
    let mut wait = beat;
    loop {
        tokio::select! {
            biased;
            () = leases.env.lifecycle.stopped.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = match leases.extend_all().await {
            Ok(()) => beat,
            Err(error) => {
                tracing::warn!(%error, "Cannot extend the leases of running deliveries; trying again");
                beat.min(BEAT_RETRY)
            }
        };
    }
}

impl HeldLeases {
    /// The end of a lease that this process takes now.
    pub fn lease_until(&self) -> Timestamp {
        self.env.clock.steady_now().plus(self.length)
    }

    /// A lease that ends by this time has missed a heartbeat.
    fn next_beat(&self) -> Timestamp {
        self.env.clock.steady_now().plus(self.length / 3)
    }

    async fn extend_all(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.extending.lock().await;
        let tokens = self.leases.lock().tokens(Timestamp::MAX);
        self.extend_tokens(&tokens).await
    }

    /// Extends leases from now on. The caller holds the lock over extensions.
    async fn extend_tokens(&self, tokens: &[LeaseToken]) -> Result<(), StoreError> {
        for tokens in tokens.chunks(BEAT_TOKENS_MAX) {
            let answers = self.env.jobs.extend(tokens.to_vec(), self.lease_until()).await?;
            self.record_extended(tokens, &answers);
        }
        Ok(())
    }

    /// The time by which a lease must have ended to be taken over. No lease that this process holds, or may just have
    /// been given, ends before it: those that could are extended first, and without the store's word on that nothing is
    /// taken over.
    pub async fn takeover_time(&self) -> Result<Timestamp, StoreError> {
        let _one_at_a_time = self.extending.lock().await;
        let (time, ending) = {
            let leases = self.leases.lock();
            (leases.before_claims(self.env.clock.steady_now()), leases.tokens(self.next_beat()))
        };
        self.extend_tokens(&ending).await?;
        Ok(time)
    }

    /// Extends a held lease that has ended or is about to, and returns true when it lasts. If it was lost, another holder
    /// decides about the job, and nothing may be sent.
    pub async fn renew_if_ending(&self, lease: &HeldLease) -> bool {
        loop {
            match self.leases.lock().ends.get(&lease.token).copied() {
                None => return false,
                Some(end) if end > self.next_beat() => return true,
                Some(_) => {}
            }
            // With all others that are about to end: many deliveries come here at once.
            match self.takeover_time().await {
                Ok(_) => {}
                Err(StoreError::Broken(error)) => {
                    self.env.lifecycle.fail_store(&error);
                    return false;
                }
                Err(error) => {
                    tracing::warn!(jobId = %lease.job.id, %error, "Cannot extend a lease before its job is sent; trying again");
                    tokio::time::sleep(BEAT_RETRY).await;
                }
            }
        }
    }
}

/// A claim of jobs for this process.
pub(crate) struct ClaimHere {
    pub pick: Pick,
    pub max: usize,
    pub now: Timestamp,
    pub provider: Option<Box<str>>,
    pub turns: Turns,
}

impl Attempts {
    /// Leases jobs from the store. Those whose stored content is damaged are moved to the dead letter queue and not given
    /// out.
    async fn claim(self: &Arc<Self>, claim: Claim) -> Result<Claimed, StoreError> {
        let mut claimed = self.env.jobs.claim(claim).await?;
        self.bury_damaged(&mut claimed.leases);
        Ok(claimed)
    }

    /// Claims jobs for this process, which holds their leases until each is dropped.
    pub(crate) async fn claim_here(self: &Arc<Self>, claim: ClaimHere) -> Result<HeldClaim, StoreError> {
        let ClaimHere { pick, max, now, provider, turns } = claim;
        let (lease_until, worker) = (self.leases.lease_until(), self.env.node.clone());
        let _under_way = self.leases.claim_under_way(lease_until);
        let claim = Claim { pick, max, now, lease_until, worker, provider, outlives_process: false, turns };
        let Claimed { leases, next_at } = self.claim(claim).await?;
        Ok(HeldClaim { leases: leases.into_iter().map(|lease| self.leases.hold(lease)).collect(), next_at })
    }

    /// Claims jobs for a worker outside this process. Leases that a slow store left little of are extended before they
    /// are handed out; one that was lost meanwhile is not.
    pub(crate) async fn claim_for_outside(
        self: &Arc<Self>,
        claim: Claim,
        length: Duration,
    ) -> Result<Claimed, StoreError> {
        let _under_way = self.leases.claim_under_way(claim.lease_until);
        let mut claimed = self.claim(claim).await?;
        let is_short = |lease: &Lease| lease.expires_at <= self.env.clock.steady_now().plus(length / 2);
        if !claimed.leases.iter().any(is_short) {
            return Ok(claimed);
        }
        let until = self.env.clock.steady_now().plus(length);
        let tokens = claimed.leases.iter().map(|lease| lease.token).collect();
        match self.env.jobs.extend(tokens, until).await {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                claimed.leases.retain_mut(|lease| {
                    lease.expires_at = until;
                    answers.next().is_some_and(|answer| answer != Extended::Stale)
                });
                Ok(claimed)
            }
            Err(error) => {
                self.release_all(claimed.leases.into_iter().map(|lease| self.leases.hold(lease)));
                Err(error)
            }
        }
    }
}
