//! Writes the outcome of an attempt down.
//!
//! A settle that the store cannot take right now is tried again until it can or until the process is told to stop: that
//! keeps a sent job from being sent again. A settle whose lease another holder has changes nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recado_core::{AuditEvent, Damage, Job, Lease, Timestamp, Transition, decide};
use recado_observe::DelaySource;
use recado_store::{Settled, Settlement, StoreError};

use crate::attempt::leases::HeldLease;
use crate::attempt::post_settle::PostSettle;
use crate::attempt::{Attempts, log};

/// First wait before a settle is tried again; it doubles up to [`SETTLE_RETRY_MAX`].
const SETTLE_RETRY_MIN: Duration = Duration::from_millis(20);
const SETTLE_RETRY_MAX: Duration = Duration::from_secs(2);

/// Makes the settlement of a lease that ends now. A decision brings the time that it was made at, so that all that
/// follows from it has the same.
pub(crate) fn settlement(
    lease: &Lease,
    transition: Transition,
    audit: Option<AuditEvent>,
    now: Timestamp,
) -> Settlement {
    Settlement { token: lease.token, transition, audit, now, follow_ups: Vec::new() }
}

impl Attempts {
    /// Settles a lease whose transition is no retry, with what follows from it.
    pub(crate) fn settle(
        &self,
        lease: &Lease,
        transition: Transition,
        audit: Option<AuditEvent>,
    ) -> impl Future<Output = ()> {
        self.settle_attempt(lease, transition, audit, DelaySource::default())
    }

    /// Settles a lease after an attempt, with what follows from the transition. `delay_source` is the origin of the wait
    /// before a retry.
    ///
    /// The plan is made before the first wait, so that the returned future holds each value once: a delivery's future is
    /// moved when its task starts, and its size is part of the cost of a job.
    pub(crate) fn settle_attempt(
        &self,
        lease: &Lease,
        transition: Transition,
        audit: Option<AuditEvent>,
        delay_source: DelaySource,
    ) -> impl Future<Output = ()> {
        let mut settlement = settlement(lease, transition, audit, self.env.now());
        let post_settle = PostSettle::plan(self, &lease.job, &mut settlement, delay_source);
        self.settle_until_taken(lease, settlement, post_settle)
    }

    /// Logs a transition that spent no attempt of its own here, and settles it.
    pub(crate) async fn settle_and_log(&self, lease: &Lease, (transition, audit): (Transition, AuditEvent)) {
        log::attempt(&self.env.routes, lease, &transition);
        self.settle(lease, transition, Some(audit)).await;
    }

    /// Gives a job back until a later time. Nothing was sent, and it counts as deferred.
    pub(crate) async fn postpone(&self, lease: &Lease, until: Timestamp) {
        self.settle(lease, Transition::Postpone { until }, None).await;
    }

    /// Gives a job back untouched: this process cannot carry it (its route is gone or belongs to workers), it stood still
    /// and does not know what others wrote, or the worker that asked for it has hung up.
    pub(crate) async fn release(&self, lease: &Lease) {
        let transition = Transition::Release { at: lease.job.due_at, lost: None };
        self.settle(lease, transition, None).await;
    }

    /// Releases jobs in the background that may not go out after all. Nothing was sent, and they spend no attempt.
    pub(crate) fn release_all(self: &Arc<Self>, leases: impl IntoIterator<Item = HeldLease>) {
        for lease in leases {
            let attempts = self.clone();
            self.env.lifecycle.spawn(async move { attempts.release(&lease).await });
        }
    }

    /// Removes the leases of damaged jobs from the list and moves those jobs to the dead letter queue in the
    /// background; the claim does not wait.
    ///
    /// No endpoint is notified of a job whose ids or company are damaged: the endpoint could be another company's.
    pub(crate) fn bury_damaged(self: &Arc<Self>, leases: &mut Vec<Lease>) {
        for lease in leases.extract_if(.., |lease| lease.job.damage().is_some()) {
            let Some(damage) = lease.job.damage() else { continue };
            let lease = self.leases.hold(lease);
            tracing::error!(jobId = %lease.job.id, route = %lease.job.route, damage = damage.as_str(), "A stored job is damaged; nothing was sent");
            let terms = self.env.routes.terms_of(&lease.job.route);
            let now = self.env.now();
            let (transition, audit) = decide::bury_damaged(&lease.job, damage, terms, now);
            log::attempt(&self.env.routes, &lease, &transition);
            let mut settlement = settlement(&lease, transition, Some(audit), now);
            let post_settle = match damage {
                Damage::Identity => PostSettle::default(),
                _ => PostSettle::plan(self, &lease.job, &mut settlement, DelaySource::default()),
            };
            let attempts = self.clone();
            self.env.lifecycle.spawn(async move {
                attempts.settle_until_taken(&lease, settlement, post_settle).await;
            });
        }
    }

    async fn settle_until_taken(&self, lease: &Lease, settlement: Settlement, mut post_settle: PostSettle) {
        let lifecycle = &self.env.lifecycle;
        post_settle.leaves_queue = self.leaves_queue(&lease.job, &settlement.transition).await;
        let (mut wait, mut is_late) = (SETTLE_RETRY_MIN, false);
        loop {
            let settled = self.env.jobs.settle(vec![settlement.clone()]).await;
            if is_late && settled.is_ok() {
                lifecycle.unwritten_outcomes.fetch_sub(1, Ordering::Relaxed);
            }
            match settled {
                Ok(settled) if settled.first() == Some(&Settled::Stale) => {
                    tracing::warn!(jobId = %lease.job.id, attempt = lease.attempt, "The lease was lost before the outcome was written; another attempt decides");
                    return;
                }
                Ok(_) => {
                    return post_settle.run(self, &lease.job, &settlement.transition, settlement.now).await;
                }
                Err(StoreError::Broken(error)) => return lifecycle.fail_store(&error),
                Err(error) => {
                    tracing::warn!(jobId = %lease.job.id, %error, "Cannot write an outcome down yet; trying again");
                    if !std::mem::replace(&mut is_late, true) {
                        lifecycle.unwritten_outcomes.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::select! {
                        biased;
                        () = lifecycle.stopped.cancelled() => return,
                        () = tokio::time::sleep(wait) => {}
                    }
                    wait = (wait * 2).min(SETTLE_RETRY_MAX);
                }
            }
        }
    }

    /// Returns the time when a job's dead letter came to the queue, if this transition removes it.
    pub(crate) async fn leaves_queue(&self, job: &Job, transition: &Transition) -> Option<Timestamp> {
        if job.progress.replays == 0 || !matches!(transition, Transition::Deliver { .. }) {
            return None;
        }
        self.inspect.dead_letter(&job.id).await.ok().flatten().map(|entry| entry.moved_at)
    }
}
