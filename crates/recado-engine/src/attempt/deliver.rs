//! One attempt at one job, top to bottom.
//!
//! ```text
//! resolve ─▶ admit ─▶ send ─▶ classify ─▶ decide ─▶ settle ─▶ aftermath
//! ```
//!
//! If the process dies
//!
//! - before `send`: the lease is orphaned, the job is claimed again, nothing was sent.
//! - between `send` and the end of `settle`: the provider may have it. The job is claimed again and sent
//!   once more with the same idempotency key; that is the one duplicate that can happen.
//! - after `settle`: nothing; the outcome is durable. Only the log line may be missing.
//!
//! A lease that has ended before `send`, because the process or its store stood still, is extended first; where that is
//! refused, another holder has the job, and nothing is sent.
//!
//! A transport that panics costs its job one attempt. A transport that hangs is cut off at the route's
//! timeout. A settle that the store cannot take right now is tried again until it can or until the
//! process is told to stop; a settle whose lease another holder has changes nothing.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use recado_core::decide::{self, Terms};
use recado_core::{Damage, Fault, Job, Lease, NetworkKind, Outcome, Timestamp, Transition, Verdict};
use recado_store::{Settled, Settlement, StoreError};
use recado_transport::{Delivery, Transport, Wanted};
use tokio::time::Instant;

use crate::admission::gate::{Permit, ReceiverHold};
use crate::admission::receivers::HELD_LOOK_AFTER;
use crate::attempt::calls;
use crate::attempt::leases::HeldLease;
use crate::attempt::log;
use crate::attempt::pins::{self, Pinned};
use crate::attempt::post_settle::PostSettle;
use crate::engine::Inner;
use crate::metrics::WaitBy;
use crate::route::ProviderTarget;
use crate::shared::value::make;

/// Least time that a job stands back.
const STAND_BACK: Duration = Duration::from_secs(1);

/// First wait before a settle is tried again; it doubles up to [`SETTLE_RETRY_MAX`].
const SETTLE_RETRY_MIN: Duration = Duration::from_millis(20);
const SETTLE_RETRY_MAX: Duration = Duration::from_secs(2);

/// Delivers one leased job and settles the lease. Its place at the provider is free when it ends, however it does.
pub(crate) async fn deliver(engine: &Arc<Inner>, leg: &ProviderTarget, way: Permit, lease: HeldLease) {
    if !engine.still_holds(&lease).await {
        tracing::warn!(jobId = %lease.job.id, attempt = lease.attempt, "the lease was lost before the job was sent; its new holder decides");
        return;
    }
    let started_at = engine.clock.now();

    // Resolve: who carries it, and is it still worth carrying?
    let Some(route) = engine.routes.get(lease.job.route.as_str()) else {
        return release(engine, &lease).await;
    };
    if lease.job.expires_at <= started_at {
        let (transition, audit) = decide::bury_expired(&lease.job, None, &route.terms, started_at);
        return settle_with(engine, &lease, transition, Some(audit), WaitBy::Policy).await;
    }

    // Admit: breaker, pause and slots held the lane back before it claimed, and the rates are spent. What is left
    // to ask is about this job.
    let (leg, way) = match pins::relation(&lease.job, route, &leg.provider.name) {
        Pinned::Here => (leg.clone(), way),
        Pinned::Gone(provider) => return pins::bury(engine, &lease, &provider).await,
        Pinned::Elsewhere(provider) => {
            drop(way);
            let Some(pinned) = pins::admit(engine, route, provider, &lease.job).await else {
                let until = engine.pinned_until(provider, started_at, engine.chance.draw());
                return settle_with(engine, &lease, Transition::Postpone { until }, None, WaitBy::Policy)
                    .await;
            };
            pinned
        }
    };
    if let Some(until) = stand_back(engine, &leg, &lease.job, started_at) {
        return settle_with(engine, &lease, Transition::Postpone { until }, None, WaitBy::Policy).await;
    }

    let held_up = engine.held_up.had_held(&lease.job, started_at);
    let refreshes = calls::refreshes(&lease.job);
    let delivery = Delivery {
        job: &lease.job,
        attempt: lease.attempt,
        now: started_at,
        timeout: route.timeout,
        answer: if refreshes.is_some() { Wanted::Answer } else { Wanted::Receipt },
    };
    let began = Instant::now();
    let outcome = send(&leg.transport, delivery).await;
    let took = began.elapsed();
    if let Some(fault) = outcome.shortage() {
        drop(way);
        return put_off(engine, &lease, &route.terms, fault).await;
    }

    let verdict = route.classifier.verdict(outcome);

    let now = engine.clock.now();
    let hold = way.told(&lease.job, &verdict, now);
    if let (Some(key), Verdict::Delivered { answer: Some(answer) }) = (refreshes, &verdict) {
        calls::remember(engine, key, answer.clone(), now);
    }
    let verdict = calls::as_receipt(verdict);
    let wait_by = WaitBy::of(&verdict);
    let (mut transition, audit) =
        decide::decide_after_attempt(&lease, verdict, &route.terms, started_at, now, engine.chance.draw());
    transition.set_provider(&leg.provider.name);
    if held_up {
        transition.mark_held_up();
    }
    if let Some(hold) = hold {
        leave_wait_to_hold(engine, &hold, route.hold_max(), &mut transition, now).await;
    }

    log::attempt(engine, &lease, &route.terms.policy, &transition);
    engine.traced_attempt(&lease, &leg.provider.name, &transition, (started_at, took));
    settle_with(engine, &lease, transition, Some(audit), wait_by).await;
}

/// Makes a retry due early where a hold on its receiver stands for the wait: the job is held until the hold ends or an
/// operator lifts it. Only once the store has the hold, or a crash would let the job out too early.
async fn leave_wait_to_hold(
    engine: &Inner,
    asked: &ReceiverHold,
    hold_max: Duration,
    transition: &mut Transition,
    now: Timestamp,
) {
    if let Transition::RetryAt { at, .. } = transition
        && *at <= asked.until
        && make(&*engine.store, &[(&*asked.hold, None)], now).await.is_ok()
        && asked.hold.read(|hold| hold.quiet(now)).and_then(|quiet| quiet.at_most(hold_max, now)).is_some()
    {
        *at = (*at).min(now.plus(HELD_LOOK_AFTER));
    }
}

/// Until when a retry stands back although its lane may go on, if it does: while a provider is in trouble, retries must
/// not drown first tries.
fn stand_back(engine: &Inner, leg: &ProviderTarget, job: &Job, now: Timestamp) -> Option<Timestamp> {
    let held = job.progress.attempts_spent > 0 && !leg.provider.admits_retry(now);
    held.then(|| now.plus(STAND_BACK.mul_f64(engine.chance.draw().between(1.0, 2.0))))
}

/// Puts a job off that met a shortage of our own. Nothing was handed over, and the provider is told of nothing.
async fn put_off(engine: &Inner, lease: &Lease, terms: &Terms, fault: &Fault) {
    let now = engine.clock.now();
    engine.shortages.note(&lease.job, fault, now);
    let (transition, audit) =
        decide::decide_after_shortage(&lease.job, &fault.text, terms, now, engine.chance.draw());
    settle_with(engine, lease, transition, audit, WaitBy::Policy).await;
}

/// Hands the job over, within the route's timeout, whatever the transport does.
pub(crate) async fn send(transport: &Arc<dyn Transport>, delivery: Delivery<'_>) -> Outcome {
    let timeout = delivery.timeout;
    let guarded = AssertUnwindSafe(transport.send(delivery)).catch_unwind();
    match tokio::time::timeout(timeout, guarded).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Outcome::Failed(Fault::panic(&panic_text(panic.as_ref()))),
        Err(_) => timed_out(timeout),
    }
}

pub(crate) fn timed_out(timeout: Duration) -> Outcome {
    let words = format!("no answer within {}", recado_core::time::show_duration(timeout));
    // It was cut off somewhere between connecting and reading the answer: it may have arrived.
    Outcome::Failed(Fault { uncertain: true, ..Fault::network(NetworkKind::Timeout, &words) })
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the transport panicked: {}", text.unwrap_or("no message"))
}

/// Gives the job back untouched: this process cannot carry it (its route is gone or belongs to workers), or
/// the worker that asked for it has hung up.
pub(crate) async fn release(engine: &Inner, lease: &Lease) {
    let transition = Transition::Release { at: lease.job.due_at, lost: None };
    settle_with(engine, lease, transition, None, WaitBy::Policy).await;
}

/// Writes the outcome down, with what follows from it. Not taking no for an answer is what keeps a sent job
/// from being sent again.
pub(crate) async fn settle_with(
    engine: &Inner,
    lease: &Lease,
    transition: Transition,
    audit: Option<recado_core::AuditEvent>,
    wait_by: WaitBy,
) {
    let now = engine.clock.now();
    let mut aftermath = PostSettle::of(engine, &lease.job, &transition, wait_by, now);
    aftermath.leaves_queue = engine.leaves_queue(&lease.job, &transition).await;
    settle_until_taken(engine, lease, transition, audit, aftermath, now).await;
}

/// Takes leases of jobs out of the list whose stored content is damaged, and moves these to the dead letter queue
/// beside the claim, which does not wait for it.
///
/// Where the ids or the company are damaged no endpoint is notified: it could be another company's.
pub(crate) fn bury_damaged(engine: &Arc<Inner>, leases: &mut Vec<Lease>) {
    for lease in leases.extract_if(.., |lease| lease.job.damage().is_some()) {
        let Some(damage) = lease.job.damage() else { continue };
        let lease = engine.beats.hold(lease);
        tracing::error!(jobId = %lease.job.id, route = %lease.job.route, damage = damage.as_str(), "A stored job is damaged; nothing was sent");
        let (now, terms) = (engine.clock.now(), engine.terms_of(&lease.job.route));
        let (transition, audit) = decide::bury_damaged(&lease.job, damage, &terms, now);
        log::attempt(engine, &lease, &terms.policy, &transition);
        let aftermath = match damage {
            Damage::Identity => PostSettle::default(),
            _ => PostSettle::of(engine, &lease.job, &transition, WaitBy::Policy, now),
        };
        let (engine, deliveries) = (engine.clone(), engine.deliveries.clone());
        deliveries.spawn(async move {
            tokio::select! {
                () = settle_until_taken(&engine, &lease, transition, Some(audit), aftermath, now) => {}
                () = engine.stopped.cancelled() => {}
            }
        });
    }
}

async fn settle_until_taken(
    engine: &Inner,
    lease: &Lease,
    transition: Transition,
    audit: Option<recado_core::AuditEvent>,
    mut aftermath: PostSettle,
    now: Timestamp,
) {
    let mut wait = SETTLE_RETRY_MIN;
    let follow_ups = std::mem::take(&mut aftermath.follow_ups);
    let settlement = Settlement { token: lease.token, transition, audit, now, follow_ups };
    let mut is_late = false;
    loop {
        let settled = engine.settle(vec![settlement.clone()]).await;
        if is_late && settled.is_ok() {
            engine.unwritten.fetch_sub(1, Ordering::Relaxed);
        }
        match settled {
            Ok(settled) if settled.first() == Some(&Settled::Stale) => {
                tracing::warn!(jobId = %lease.job.id, attempt = lease.attempt, "the lease was lost before the outcome was written; another attempt decides");
                return;
            }
            Ok(_) => return aftermath.happened(engine, &lease.job, &settlement.transition, now).await,
            Err(StoreError::Broken(error)) => {
                engine.store_broke(&error);
                return;
            }
            Err(error) => {
                tracing::warn!(jobId = %lease.job.id, %error, "cannot write an outcome down yet; trying again");
                if !std::mem::replace(&mut is_late, true) {
                    engine.unwritten.fetch_add(1, Ordering::Relaxed);
                }
                tokio::select! {
                    () = engine.stopped.cancelled() => return,
                    () = tokio::time::sleep(wait) => {}
                }
                wait = (wait * 2).min(SETTLE_RETRY_MAX);
            }
        }
    }
}
