//! One attempt at one job, top to bottom.
//!
//! ```text
//! renew ─▶ resolve ─▶ admit ─▶ send ─▶ classify ─▶ decide ─▶ settle ─▶ post_settle
//! ```
//!
//! If the process dies
//!
//! - before `send`: the lease runs out, the job is claimed again, nothing was sent.
//! - between `send` and the end of `settle`: the provider may have it. The job is claimed again and sent
//!   once more with the same idempotency key; `docs/guarantees.md` lists every way to a duplicate.
//! - after `settle`: nothing; the outcome is durable. Only a live event, a counter or the note that
//!   a company's credential is refused may be missing.
//!
//! If the lease ended before `send` (a stalled process or store), it is extended first; if that fails, nothing is sent.
//!
//! A transport that panics costs its job one attempt, and one that hangs is cut off at the route's timeout:
//! [`crate::send`]. A settle is tried again until the store takes it: [`crate::attempt::settle`].

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Fault, Job, Lease, Timestamp, Transition, Verdict, decide};
use recado_transport::{Delivery, Wanted};
use tokio::time::Instant;

use crate::admission::gate::{Permit, ProviderTarget, ReceiverHold};
use crate::admission::receivers::HELD_LOOK_AFTER;
use crate::attempt::leases::HeldLease;
use crate::attempt::pins::{self, RequiredProvider};
use crate::attempt::{Attempts, calls, log};
use crate::metrics::delay_source_of;
use crate::route::Route;
use crate::send::send;

/// Shortest wait of a retry that the retry budget refuses.
const RETRY_WAIT_MIN: Duration = Duration::from_secs(1);

impl Attempts {
    /// Delivers one leased job and settles the lease. Its slot at the provider is free when it ends, however it does.
    pub(crate) async fn deliver(self: &Arc<Self>, target: &ProviderTarget, permit: Permit, lease: HeldLease) {
        // Renew.
        if !self.leases.renew_if_ending(&lease).await {
            tracing::warn!(jobId = %lease.job.id, attempt = lease.attempt, "The lease was lost before the job was sent; its new holder decides");
            return;
        }
        // If this process stood still since the claim, a pause or hold may be unknown here.
        if self.gate.may_have_missed_changes() {
            drop(permit);
            return self.release(&lease).await;
        }
        let started_at = self.env.now();

        // Resolve: find the route; bury the job if it has expired.
        let Some(route) = self.env.routes.get(lease.job.route.as_str()) else {
            drop(permit);
            return self.release(&lease).await;
        };
        if lease.job.expires_at <= started_at {
            drop(permit);
            let (transition, audit) = decide::bury_expired(&lease.job, None, &route.terms, started_at);
            return self.settle(&lease, transition, Some(audit)).await;
        }

        // Admit: breaker, pause and slots held the lane back before it claimed, and the rates were charged. The
        // remaining checks concern this job. What few jobs need is boxed: see `FUTURE_MAX`.
        let (target, permit) = match pins::required_provider(&lease.job, route, &target.provider.name) {
            RequiredProvider::Current => (target.clone(), permit),
            RequiredProvider::Removed(provider) => {
                drop(permit);
                return Box::pin(self.bury_pinned(&lease, &provider)).await;
            }
            RequiredProvider::Other(provider) => {
                drop(permit);
                let Some(pinned) = Box::pin(self.admit_pinned(route, provider, &lease.job)).await else {
                    return self.postpone(&lease, self.pinned_until(provider, started_at)).await;
                };
                pinned
            }
        };
        if let Some(until) = self.retry_wait(&target, &lease.job, started_at) {
            drop(permit);
            return self.postpone(&lease, until).await;
        }

        let was_deferred = self.gate.deferrals.was_deferred(&lease.job, started_at);
        // Some for a job that renews a cached answer.
        let answer_key = calls::refreshed_key(&lease.job);
        let delivery = Delivery {
            job: &lease.job,
            attempt: lease.attempt,
            now: started_at,
            timeout: route.timeout,
            answer: if answer_key.is_some() { Wanted::Answer } else { Wanted::Receipt },
        };
        // Send.
        let began = Instant::now();
        let outcome = send(&target.transport, delivery).await;
        let took = began.elapsed();
        // No descriptor, port or memory was left here.
        if let Some(fault) = outcome.shortage() {
            drop(permit);
            return self.postpone_for_shortage(&lease, route, fault).await;
        }

        // Classify, and let breaker and limits know.
        let verdict = route.classifier.verdict(outcome);

        let now = self.env.now();
        // The `ReceiverHold` that the answer placed on the job's receiver, if it did.
        let hold = permit.record_verdict(&lease.job, &verdict, now);
        if let (Some(key), Verdict::Delivered { answer: Some(answer) }) = (answer_key, &verdict) {
            self.remember_answer(key, answer.clone(), now);
        }
        // Decide. The job's history keeps short answers only.
        let verdict = calls::drop_long_answer(verdict);
        let delay_source = delay_source_of(&verdict);
        let draw = self.env.random.next_draw();
        let (mut transition, audit) =
            decide::decide_after_attempt(&lease, verdict, &route.terms, started_at, now, draw);
        transition.set_provider(&target.provider.name);
        if was_deferred {
            transition.mark_deferred();
        }
        if let Some(hold) = hold {
            self.look_again_while_held(&mut transition, hold, route, now).await;
        }

        // Settle; `settle_attempt` goes on with `post_settle`.
        log::attempt(&self.env.routes, &lease, &transition);
        self.env.traces.record_attempt(&lease, &target.provider.name, &transition, (started_at, took));
        self.settle_attempt(&lease, transition, Some(audit), delay_source).await;
    }

    /// Lets a retry look again every few seconds while its receiver is held, instead of waiting as long as the answer
    /// asked, so that lifting the hold frees the job.
    ///
    /// This waits until the store has the hold, or a crash would let the job out too early. The next look is counted from
    /// then, however long the save took, so that every node that may send has read the hold by that time. It does not
    /// apply to a route with a second provider, which does not know the hold and would be asked too early.
    async fn look_again_while_held(
        &self,
        transition: &mut Transition,
        hold: ReceiverHold,
        route: &Route,
        now: Timestamp,
    ) {
        let Transition::RetryAt { at, .. } = transition else { return };
        if *at <= hold.until
            && route.others.is_empty()
            && self.gate.save_receiver_hold(&hold, route.hold_max(), now).await
        {
            *at = (*at).min(self.env.now().plus(HELD_LOOK_AFTER));
        }
    }

    /// Returns when to try again if the provider's retry budget is used up: while a provider is in trouble, retries must
    /// not drown first tries.
    fn retry_wait(&self, target: &ProviderTarget, job: &Job, now: Timestamp) -> Option<Timestamp> {
        let held = job.progress.attempts_spent > 0 && !target.provider.admits_retry(now);
        held.then(|| now.plus(RETRY_WAIT_MIN.mul_f64(self.env.random.next_draw().between(1.0, 2.0))))
    }

    /// Postpones a job because this process lacks a resource. Nothing was handed over, and the provider is not blamed.
    async fn postpone_for_shortage(&self, lease: &Lease, route: &Route, fault: &Fault) {
        let now = self.env.now();
        self.shortages.record(&lease.job, fault, now);
        let draw = self.env.random.next_draw();
        let (transition, audit) =
            decide::decide_after_shortage(&lease.job, &fault.text, &route.terms, now, draw);
        self.settle(lease, transition, audit).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that the future of a delivery may have. It is allocated and moved once for every job: at 7 KiB, and twice
    /// that in its task, a drain lost 40 % of its speed.
    const FUTURE_MAX: usize = 5 * 1024;

    #[test]
    fn the_future_of_a_delivery_stays_small() {
        fn size_of_future<A, F>(_: impl Fn(A) -> F) -> usize {
            size_of::<F>()
        }
        type Arguments = (&'static Arc<Attempts>, &'static ProviderTarget, Permit, HeldLease);
        let size = size_of_future(|(attempts, target, permit, lease): Arguments| {
            attempts.deliver(target, permit, lease)
        });
        assert!(size <= FUTURE_MAX, "{size} bytes; box what few deliveries need");
    }
}
