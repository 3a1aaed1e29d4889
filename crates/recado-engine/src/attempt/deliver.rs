//! One attempt at one job, top to bottom.
//!
//! ```text
//! resolve ─▶ admit ─▶ send ─▶ classify ─▶ decide ─▶ settle ─▶ post_settle
//! ```
//!
//! If the process dies
//!
//! - before `send`: the lease is orphaned, the job is claimed again, nothing was sent.
//! - between `send` and the end of `settle`: the provider may have it. The job is claimed again and sent
//!   once more with the same idempotency key; `docs/guarantees.md` lists every way to a duplicate.
//! - after `settle`: nothing; the outcome is durable. Only a live event, a counter or an account's mark may be missing.
//!
//! A lease that has ended before `send`, because the process or its store stood still, is extended first; where that is
//! refused, another holder has the job, and nothing is sent.
//!
//! A transport that panics costs its job one attempt, and one that hangs is cut off at the route's timeout:
//! [`crate::send`]. A settle is tried again until the store takes it: [`crate::attempt::settle`].

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Fault, Job, Lease, Timestamp, Transition, Verdict, decide};
use recado_observe::DelaySource;
use recado_transport::{Delivery, Wanted};
use tokio::time::Instant;

use crate::admission::gate::{Permit, ProviderTarget};
use crate::admission::receivers::HELD_LOOK_AFTER;
use crate::attempt::leases::HeldLease;
use crate::attempt::pins::{self, Pinned};
use crate::attempt::{Attempts, calls, log};
use crate::metrics::delay_source;
use crate::route::Route;
use crate::send::send;

/// Shortest wait of a retry that the retry budget refuses.
const RETRY_WAIT_MIN: Duration = Duration::from_secs(1);

impl Attempts {
    /// Delivers one leased job and settles the lease. Its slot at the provider is free when it ends, however it does.
    pub(crate) async fn deliver(self: &Arc<Self>, target: &ProviderTarget, permit: Permit, lease: HeldLease) {
        if !self.leases.renew_if_ending(&lease).await {
            tracing::warn!(jobId = %lease.job.id, attempt = lease.attempt, "the lease was lost before the job was sent; its new holder decides");
            return;
        }
        // This process stood still since the claim: another node may have paused or held back what it is about to send.
        if self.gate.freshness.is_stale() {
            drop(permit);
            return self.release(&lease).await;
        }
        let started_at = self.env.now();

        // Resolve: who carries it, and is it still worth carrying?
        let Some(route) = self.env.routes.get(lease.job.route.as_str()) else {
            return self.release(&lease).await;
        };
        if lease.job.expires_at <= started_at {
            let (transition, audit) = decide::bury_expired(&lease.job, None, &route.terms, started_at);
            return self.settle(&lease, transition, Some(audit), DelaySource::Policy).await;
        }

        // Admit: breaker, pause and slots held the lane back before it claimed, and the rates were charged. The
        // remaining checks concern this job.
        let (target, permit) = match pins::relation(&lease.job, route, &target.provider.name) {
            Pinned::Here => (target.clone(), permit),
            Pinned::Gone(provider) => return Box::pin(self.bury_pinned(&lease, &provider)).await,
            Pinned::Elsewhere(provider) => {
                // Frees the slot at the other provider.
                drop(permit);
                let Some(pinned) = Box::pin(self.admit_pinned(route, provider, &lease.job)).await else {
                    return self.postpone(&lease, self.pinned_until(provider, started_at)).await;
                };
                pinned
            }
        };
        if let Some(until) = self.retry_wait(&target, &lease.job, started_at) {
            return self.postpone(&lease, until).await;
        }

        let was_deferred = self.gate.deferrals.was_deferred(&lease.job, started_at);
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
        if let Some(fault) = outcome.shortage() {
            drop(permit);
            return self.postpone_for_shortage(&lease, route, fault).await;
        }

        // Classify, and let breaker and limits know.
        let verdict = route.classifier.verdict(outcome);

        let now = self.env.now();
        let hold = permit.record_verdict(&lease.job, &verdict, now);
        if let (Some(key), Verdict::Delivered { answer: Some(answer) }) = (answer_key, &verdict) {
            self.remember_answer(key, answer.clone(), now);
        }
        // Decide.
        let verdict = calls::drop_long_answer(verdict);
        let delay_source = delay_source(&verdict);
        let draw = self.env.random.next_draw();
        let (mut transition, audit) =
            decide::decide_after_attempt(&lease, verdict, &route.terms, started_at, now, draw);
        transition.set_provider(&target.provider.name);
        if was_deferred {
            transition.mark_deferred();
        }
        if let Some(hold) = hold
            && let Transition::RetryAt { at, .. } = &mut transition
            && *at <= hold.until
            // Another provider of the route does not know the hold, and would be asked before the answer allows it.
            && route.others.is_empty()
            && self.gate.save_receiver_hold(&hold, route.hold_max(), now).await
        {
            // The hold on its receiver replaces the wait: the job is looked at again every few seconds until the hold ends
            // or an operator lifts it. Only once the store has the hold, or a crash would let the job out too early; and
            // counted from then, so that every node that may send has read the hold before it looks. The save may have
            // taken long, or this process stood still before it.
            *at = (*at).min(self.env.now().plus(HELD_LOOK_AFTER));
        }

        // Settle; `settle` goes on with `post_settle`.
        log::attempt(&self.env.routes, &lease, &transition);
        self.env.traces.record_attempt(&lease, &target.provider.name, &transition, (started_at, took));
        self.settle(&lease, transition, Some(audit), delay_source).await;
    }

    /// Returns the time until which a retry is postponed although its lane may go on, if it is: while a provider is in
    /// trouble, retries must not drown first tries.
    fn retry_wait(&self, target: &ProviderTarget, job: &Job, now: Timestamp) -> Option<Timestamp> {
        let held = job.progress.attempts_spent > 0 && !target.provider.admits_retry(now);
        held.then(|| now.plus(RETRY_WAIT_MIN.mul_f64(self.env.random.next_draw().between(1.0, 2.0))))
    }

    /// Postpones a job that met a shortage of our own. Nothing was handed over, and the provider is not blamed.
    async fn postpone_for_shortage(&self, lease: &Lease, route: &Route, fault: &Fault) {
        let now = self.env.now();
        self.shortages.record(&lease.job, fault, now);
        let draw = self.env.random.next_draw();
        let (transition, audit) =
            decide::decide_after_shortage(&lease.job, &fault.text, &route.terms, now, draw);
        self.settle(lease, transition, audit, DelaySource::Policy).await;
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
