//! Claims as many jobs of a route as its provider admits, and starts a delivery for each.
//!
//! It asks the provider first and claims second, so what may not go out stays in its lane. What it claimed it takes
//! from the rates before it sends it; a job whose rate another node used up is released. It sleeps until the
//! store wakes it, until the next job is due, until the provider or a tenant is free again, whichever comes first. It
//! polls only during a ramp, while a company's slots are taken, while its view is stale, and after it was refused a
//! probe. A route with several providers asks them in order.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{CompanyId, Timestamp, Transition};
use recado_observe::HoldKind;
use recado_store::{Pick, StoreError};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::admission::gate::{NotStarted, Permit, ProviderTarget, Reservation};
use crate::admission::provider::SlotOwner;
use crate::admission::receivers::ReceiverWait;
use crate::attempt::Attempts;
use crate::attempt::leases::{ClaimHere, HeldLease};
use crate::clock::sleep_until;
use crate::metrics::HoldTimer;
use crate::route::Route;

/// Leases that one claim asks for at most.
const CLAIM_JOBS_MAX: usize = 256;

/// Pause after a claim that the store could not answer.
pub(crate) const CLAIM_RETRY: Duration = Duration::from_millis(250);

/// Claims and delivers the jobs of one route until the engine stops.
pub(crate) async fn run(attempts: Arc<Attempts>, route: Arc<Route>) {
    let (gate, lifecycle) = (&attempts.gate, &attempts.env.lifecycle);
    let targets = gate.targets(&route);
    let mut waker = attempts.env.jobs.waker(&route.name);
    let mut hold_timer = HoldTimer::default();
    loop {
        // Listen before asking: what changes in between must not be missed.
        let changes = listen(targets.iter().map(|target| &target.provider.changed).chain([&gate.changed]));
        let mut changed = std::pin::pin!(gate.changed.notified());
        changed.as_mut().enable();
        if lifecycle.is_stopping() {
            return;
        }
        let (target, mut reservation) = match attempts.reserve(&route, &targets).await {
            Ok(reserved) => reserved,
            Err((why, free_at)) => {
                hold_timer.switch(&attempts.env.metrics, &route.name, why);
                let is_held = why.is_some_and(|why| why != HoldKind::Concurrency);
                match is_held {
                    true => gate.deferrals.record_held_lane(&route.name, attempts.env.now()),
                    false => gate.deferrals.record_free_lane(&route.name, attempts.env.now()),
                }
                tokio::select! {
                    biased;
                    () = lifecycle.stopping.cancelled() => return,
                    () = any(changes) => {}
                    () = sleep_until(&*attempts.env.clock, free_at) => {}
                }
                continue;
            }
        };
        hold_timer.switch(&attempts.env.metrics, &route.name, None);
        gate.deferrals.record_free_lane(&route.name, attempts.env.now());
        let granted = reservation.count();
        waker.reset();
        let make_turns = || gate.turns(Some(&target.provider), route.hold_max(), granted, attempts.turn_jobs);
        let (turns, _) = make_turns();
        let quota = turns.quota.clone();
        gate.deferrals.record_companies(&route.name, &quota, attempts.env.now());
        // A stop must not tear a claim apart: its answer carries leases.
        let claim = ClaimHere {
            pick: Pick::Ready(route.name.clone()),
            max: granted,
            now: attempts.env.now(),
            provider: Some(target.provider.name.clone()),
            turns,
        };
        let claimed = match attempts.claim_here(claim).await {
            Ok(claimed) => claimed,
            Err(StoreError::Broken(error)) => return lifecycle.fail_store(&error),
            Err(error) => {
                tracing::warn!(route = %route.name, %error, "Cannot claim; trying again");
                drop(reservation);
                tokio::time::sleep(CLAIM_RETRY).await;
                continue;
            }
        };
        let came = claimed.leases.len();
        let held_back = held_back(&quota, &claimed.leases);
        let all_sent = attempts.send_off(target, &mut reservation, claimed.leases).await;
        drop(reservation);
        if came == granted || !all_sent {
            continue;
        }
        // Listen before looking again.
        let mut freed = std::pin::pin!(target.provider.freed.notified());
        freed.as_mut().enable();
        let (turns, tenant_free_at) = make_turns();
        gate.deferrals.record_companies(&route.name, &turns.quota, attempts.env.now());
        if held_back.iter().any(|company| turns.quota_of(company) > 0) {
            continue;
        }
        let next = claimed.next_at.into_iter().chain(tenant_free_at).min();
        tokio::select! {
            biased;
            () = lifecycle.stopping.cancelled() => {}
            () = changed => {}
            () = waker.wait() => {}
            () = freed => {}
            () = sleep_until(&*attempts.env.clock, next) => {}
        }
    }
}

/// Companies that got all that this claim might take of them, and may have more.
fn held_back(quota: &HashMap<CompanyId, u32>, leases: &[HeldLease]) -> Vec<CompanyId> {
    let mut left = quota.clone();
    for lease in leases {
        if let Some(left) = left.get_mut(&lease.job.company) {
            *left = left.saturating_sub(1);
        }
    }
    left.into_iter().filter(|(_, left)| *left == 0).map(|(company, _)| company).collect()
}

impl Attempts {
    /// Reserves slots of the first provider that has any, or says what the lane waits for and when to ask again.
    async fn reserve<'a>(
        &self,
        route: &Route,
        targets: &'a [ProviderTarget],
    ) -> Result<(&'a ProviderTarget, Reservation), (Option<HoldKind>, Option<Timestamp>)> {
        if self.gate.pause_of(&route.name).is_some() {
            return Err((Some(HoldKind::Pause), None));
        }
        let mut why = None;
        let mut free_at: Option<Timestamp> = None;
        for target in targets {
            let owner = SlotOwner::ThisProcess;
            match self.gate.reserve(&target.provider, CLAIM_JOBS_MAX, owner, route.hold_max()).await {
                Ok(reservation) => return Ok((target, reservation)),
                Err(refusal) => {
                    why = why.or(refusal.why.metric());
                    free_at = free_at.into_iter().chain(refusal.until).min();
                }
            }
        }
        Err((why, free_at))
    }

    /// Starts what was claimed, as far as rates and slots go; returns true when nothing of it was released. A job whose
    /// receiver is held or has no slot left is not due again before that is looked at again.
    async fn send_off(
        self: &Arc<Self>,
        target: &ProviderTarget,
        reservation: &mut Reservation,
        leases: Vec<HeldLease>,
    ) -> bool {
        let mut starting = Vec::with_capacity(leases.len());
        let mut back = Vec::new();
        for lease in leases {
            match reservation.start(&lease.job, target.receiver_of(&lease.job)) {
                Ok(permit) => starting.push((lease, permit)),
                Err(NotStarted::NoSlot | NotStarted::CompanyBusy) => back.push(lease),
                Err(NotStarted::Receiver(wait)) => self.postpone_for_receiver(lease, wait),
            }
        }
        let companies: Vec<_> = starting.iter().map(|(lease, _)| Some(&lease.job.company)).collect();
        let drawn = self.gate.draw_rates(Some(&target.provider), &companies).await;
        let failed = drawn.is_err();
        let go = drawn.unwrap_or_else(|error| {
            tracing::warn!(provider = %target.provider.name, %error, "Cannot spend a rate; its jobs go back");
            vec![false; starting.len()]
        });
        for ((lease, permit), go) in starting.into_iter().zip(go) {
            match go {
                true => self.start(target, lease, permit),
                false => back.push(lease),
            }
        }
        let all_sent = back.is_empty();
        self.release_all(back);
        if failed {
            tokio::time::sleep(CLAIM_RETRY).await;
        }
        all_sent
    }

    fn start(self: &Arc<Self>, target: &ProviderTarget, lease: HeldLease, permit: Permit) {
        let running = self.leases.count_delivery();
        let (attempts, target) = (self.clone(), target.clone());
        self.env.lifecycle.spawn_delivery(async move {
            attempts.deliver(&target, permit, lease).await;
            drop(running);
        });
    }

    /// Postpones a job until its receiver is looked at again. Nothing was sent, and it spends no attempt. A hold counts
    /// once as a deferral, however often it is looked at; waiting for a slot does not count.
    fn postpone_for_receiver(self: &Arc<Self>, lease: HeldLease, wait: ReceiverWait) {
        let transition = match wait {
            ReceiverWait::Held { look_at, .. } if lease.job.progress.deferrals == 0 => {
                Transition::Postpone { until: look_at }
            }
            ReceiverWait::Held { look_at, .. } | ReceiverWait::Busy { look_at } => {
                Transition::Release { at: look_at, lost: None }
            }
        };
        let attempts = self.clone();
        self.env.lifecycle.spawn(async move {
            attempts.settle(&lease, transition, None).await;
        });
    }
}

/// Listens from now on: a signal before [`any`] is waited for is not missed.
pub(crate) fn listen<'a>(signals: impl Iterator<Item = &'a Notify>) -> Vec<Pin<Box<Notified<'a>>>> {
    let mut listening: Vec<_> = signals.map(|signal| Box::pin(signal.notified())).collect();
    for one in &mut listening {
        one.as_mut().enable();
    }
    listening
}

pub(crate) async fn any(listening: Vec<Pin<Box<Notified<'_>>>>) {
    futures_util::future::select_all(listening).await;
}
