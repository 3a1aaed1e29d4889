//! One loop a route: as many leases as its provider admits, a delivery for each.
//!
//! It asks the provider first and claims second, so what may not go out stays in its lane. What it claimed it takes
//! from the rates before it sends it; what other nodes were faster with goes back untouched. It sleeps until the
//! store rings, until the next job is due, until the provider or a tenant is free again, whichever comes first; it
//! never polls. A route with several providers asks them in order.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recado_core::{CompanyId, Timestamp, Transition};
use recado_observe::HoldKind;
use recado_store::{Claim, Pick, StoreError, Turns};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::admission::gate::{NotStarted, Permit, Reservation};
use crate::admission::provider::{Provider, Quotas, SlotOwner};
use crate::admission::receivers::ReceiverWait;
use crate::attempt::deliver::{deliver, release, settle_with};
use crate::attempt::leases::{HeldClaim, HeldLease};
use crate::clock::sleep_until;
use crate::engine::Inner;
use crate::metrics::{HoldTimer, WaitBy, hold_of};
use crate::route::{ProviderTarget, Route};

/// Leases that one claim asks for at most.
const CLAIM_JOBS_MAX: usize = 256;

/// Pause after a claim that the store could not answer.
pub(crate) const CLAIM_RETRY: Duration = Duration::from_millis(250);

pub(crate) async fn run(engine: Arc<Inner>, route: Arc<Route>) {
    let legs = engine.legs(&route);
    let mut waker = engine.store.waker(&route.name);
    let mut held = HoldTimer::default();
    loop {
        // Listen before asking: what changes in between must not be missed.
        let changes = listen(legs.iter().map(|leg| &leg.provider.changed).chain([&engine.said]));
        let mut said = std::pin::pin!(engine.said.notified());
        said.as_mut().enable();
        if engine.stopping.is_cancelled() {
            return;
        }
        let (leg, mut places) = match admitted(&engine, &route, &legs).await {
            Ok(admitted) => admitted,
            Err((why, free_at)) => {
                held.held(&engine, &route.name, why);
                let is_held = why.is_some_and(|why| why != HoldKind::Concurrency);
                engine.held_up.lane(&route.name, is_held, engine.clock.now());
                tokio::select! {
                    () = engine.stopping.cancelled() => return,
                    () = any(changes) => {}
                    () = sleep_until(&*engine.clock, free_at) => {}
                }
                continue;
            }
        };
        held.held(&engine, &route.name, None);
        engine.held_up.lane(&route.name, false, engine.clock.now());
        let granted = places.count();
        waker.reset();
        let (shares, _) = turns(&engine, Some(&leg.provider), route.hold_max(), granted);
        let quota = shares.quota.clone();
        engine.held_up.companies(&route.name, &quota, engine.clock.now());
        // A stop must not tear a claim apart: its answer carries leases.
        let claimed = match claim(&engine, &route, leg, granted, shares).await {
            Ok(claimed) => claimed,
            Err(StoreError::Broken(error)) => return engine.store_broke(&error),
            Err(error) => {
                tracing::warn!(route = %route.name, %error, "cannot claim; trying again");
                drop(places);
                tokio::time::sleep(CLAIM_RETRY).await;
                continue;
            }
        };
        let came = claimed.leases.len();
        let held_back = held_back(&quota, &claimed.leases);
        let all_sent = send_off(&engine, leg, &mut places, claimed.leases).await;
        drop(places);
        if came == granted || !all_sent {
            continue;
        }
        // Listen before looking again.
        let mut freed = std::pin::pin!(leg.provider.freed.notified());
        freed.as_mut().enable();
        let (shares, tenant_free_at) = turns(&engine, Some(&leg.provider), route.hold_max(), granted);
        engine.held_up.companies(&route.name, &shares.quota, engine.clock.now());
        if held_back.iter().any(|company| shares.quota_of(company) > 0) {
            continue;
        }
        let next = claimed.next_at.into_iter().chain(tenant_free_at).min();
        tokio::select! {
            () = engine.stopping.cancelled() => {}
            () = said => {}
            () = waker.rung() => {}
            () = freed => {}
            () = sleep_until(&*engine.clock, next) => {}
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

/// The first provider that admits anything, or what the lane waits for and when to ask again.
async fn admitted<'a>(
    engine: &Arc<Inner>,
    route: &Route,
    legs: &'a [ProviderTarget],
) -> Result<(&'a ProviderTarget, Reservation), (Option<HoldKind>, Option<Timestamp>)> {
    if engine.pause_of(&route.name).is_some() {
        return Err((Some(HoldKind::Pause), None));
    }
    let mut why = None;
    let mut free_at: Option<Timestamp> = None;
    for leg in legs {
        match engine.admit(&leg.provider, CLAIM_JOBS_MAX, SlotOwner::ThisProcess, route.hold_max()).await {
            Ok(places) => return Ok((leg, places)),
            Err(refusal) => {
                why = why.or(hold_of(&refusal.why));
                free_at = free_at.into_iter().chain(refusal.until).min();
            }
        }
    }
    Err((why, free_at))
}

/// The terms of turns for this claim, and the time when the first held company is free again.
pub(crate) fn turns(
    engine: &Arc<Inner>,
    provider: Option<&Arc<Provider>>,
    hold_max: Duration,
    granted: usize,
) -> (Turns, Option<Timestamp>) {
    let now = engine.clock.now();
    let mut quotas = Quotas::default();
    if let Some(provider) = provider {
        provider.bound_companies(&mut quotas, hold_max, now);
    }
    engine.tenants.bound(&mut quotas, now);
    let Quotas { mut of, free_at, ahead } = quotas;
    for (limit, spend) in ahead {
        engine.owe_limit(&limit, spend, now);
    }
    let unbounded = u32::try_from(granted).unwrap_or(u32::MAX);
    of.retain(|_, quota| *quota < unbounded);
    let turns = Turns {
        batch: engine.settings.turn_jobs,
        weights: engine.tenants.weights(),
        quota: Arc::<HashMap<_, _>>::new(of),
    };
    (turns, free_at)
}

async fn claim(
    engine: &Arc<Inner>,
    route: &Route,
    leg: &ProviderTarget,
    max: usize,
    turns: Turns,
) -> Result<HeldClaim, StoreError> {
    engine
        .claim_here(Claim {
            pick: Pick::Ready(route.name.clone()),
            max,
            now: engine.clock.now(),
            lease_until: engine.lease_until(),
            worker: engine.settings.node.clone(),
            provider: Some(leg.provider.name.clone()),
            outlives_process: false,
            turns,
        })
        .await
}

/// Starts what was claimed, as far as rates and slots go; whether nothing of it was put back. A job whose receiver is
/// held or has no slot left is not due again before that is looked at again.
async fn send_off(
    engine: &Arc<Inner>,
    leg: &ProviderTarget,
    places: &mut Reservation,
    leases: Vec<HeldLease>,
) -> bool {
    let (mut starting, mut back, mut deferred) = (Vec::with_capacity(leases.len()), Vec::new(), Vec::new());
    for lease in leases {
        match places.start(&lease.job, leg.receiver_of(&lease.job)) {
            Ok(way) => starting.push((lease, way)),
            Err(NotStarted::CompanyBusy) => back.push(lease),
            Err(NotStarted::Receiver(wait)) => deferred.push((lease, wait)),
        }
    }
    defer(engine, deferred);
    let companies: Vec<_> = starting.iter().map(|(lease, _)| Some(&lease.job.company)).collect();
    let taken = engine.take(Some(&leg.provider), &companies).await;
    let failed = taken.is_err();
    let go = taken.unwrap_or_else(|error| {
        tracing::warn!(provider = %leg.provider.name, %error, "cannot spend a rate; its jobs go back");
        vec![false; starting.len()]
    });
    for ((lease, way), go) in starting.into_iter().zip(go) {
        match go {
            true => start(engine, leg, lease, way),
            false => back.push(lease),
        }
    }
    let all_sent = back.is_empty();
    put_back(engine, back);
    if failed {
        tokio::time::sleep(CLAIM_RETRY).await;
    }
    all_sent
}

fn start(engine: &Arc<Inner>, leg: &ProviderTarget, lease: HeldLease, way: Permit) {
    let running = engine.beats.delivery();
    let (engine, leg, deliveries) = (engine.clone(), leg.clone(), engine.deliveries.clone());
    deliveries.spawn(async move {
        tokio::select! {
            biased;
            () = deliver(&engine, &leg, way, lease) => {}
            () = engine.stopped.cancelled() => {
                engine.abandoned.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(running);
    });
}

/// Gives jobs back until their receivers are looked at again. Nothing was sent, and they spend no attempt. A hold
/// counts once as a deferral, however often it is looked at; waiting for a slot does not count.
fn defer(engine: &Arc<Inner>, waiting: Vec<(HeldLease, ReceiverWait)>) {
    for (lease, wait) in waiting {
        let transition = match wait {
            ReceiverWait::Held { look_at, .. } if lease.job.progress.deferrals == 0 => {
                Transition::Postpone { until: look_at }
            }
            ReceiverWait::Held { look_at, .. } | ReceiverWait::Busy { look_at } => {
                Transition::Release { at: look_at, lost: None }
            }
        };
        let (engine, deliveries) = (engine.clone(), engine.deliveries.clone());
        deliveries.spawn(async move {
            tokio::select! {
                () = settle_with(&engine, &lease, transition, None, WaitBy::Policy) => {}
                () = engine.stopped.cancelled() => {}
            }
        });
    }
}

/// Gives jobs back that may not go out after all. Nothing was sent, and they spend no attempt.
pub(crate) fn put_back(engine: &Arc<Inner>, leases: Vec<HeldLease>) {
    for lease in leases {
        let (engine, deliveries) = (engine.clone(), engine.deliveries.clone());
        deliveries.spawn(async move {
            tokio::select! {
                () = release(&engine, &lease) => {}
                () = engine.stopped.cancelled() => {}
            }
        });
    }
}

/// Listens from now on: a ring before [`any`] is waited for is not missed.
pub(crate) fn listen<'a>(bells: impl Iterator<Item = &'a Notify>) -> Vec<Pin<Box<Notified<'a>>>> {
    let mut listening: Vec<_> = bells.map(|bell| Box::pin(bell.notified())).collect();
    for one in &mut listening {
        one.as_mut().enable();
    }
    listening
}

pub(crate) async fn any(listening: Vec<Pin<Box<Notified<'_>>>>) {
    futures_util::future::select_all(listening).await;
}
