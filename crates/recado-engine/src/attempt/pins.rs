//! Keeps a job with the provider that may have taken it.
//!
//! An attempt whose answer was lost, and one that was lost with its process, pin their job: another provider would
//! send it a second time. The pin lasts until the job is delivered, replayed by a person, or expires. While its
//! provider may not be asked the job waits alone; jobs behind it go on through the route's other providers.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Draw, Job, Lease, RouteName, Timestamp, decide};

use crate::admission::gate::Permit;
use crate::admission::hold_reason::HoldReason;
use crate::admission::provider::{RefusalReason, SlotOwner};
use crate::attempt::deliver::settle_with;
use crate::attempt::log;
use crate::engine::Inner;
use crate::metrics::WaitBy;
use crate::route::{ProviderTarget, Route};

/// Shortest and longest wait of a job whose provider may not be asked; each is stretched by up to its double, so that
/// such jobs do not come back all at once.
const PINNED_WAIT_MIN: Duration = Duration::from_secs(1);
const PINNED_WAIT_MAX: Duration = Duration::from_secs(30);

/// Relation of a job's pin to the provider that is about to be asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pinned<'a> {
    /// It has no pin, or is pinned to this provider.
    Here,
    /// It is pinned to another provider of the route.
    Elsewhere(&'a str),
    /// It is pinned to a provider that is not on the route.
    Gone(Box<str>),
}

/// Compares a job's pin with the provider that is about to be asked. A pin whose provider is not known is taken for one
/// to the route's first provider, which is asked before all others.
pub(crate) fn relation<'a>(job: &Job, route: &'a Route, provider: &str) -> Pinned<'a> {
    let Some(pin) = job.pin() else { return Pinned::Here };
    let Some(name) = pin.provider else {
        return if *route.provider == *provider { Pinned::Here } else { Pinned::Elsewhere(&route.provider) };
    };
    if *name == *provider {
        return Pinned::Here;
    }
    match route.providers().find(|other| **other == *name) {
        Some(other) => Pinned::Elsewhere(other),
        None => Pinned::Gone(name),
    }
}

/// Asks the provider that a job is pinned to for a permit, while its lane was claimed for another one.
pub(crate) async fn admit(
    engine: &Arc<Inner>,
    route: &Route,
    provider: &str,
    job: &Job,
) -> Option<(ProviderTarget, Permit)> {
    let leg = engine.legs(route).into_iter().find(|leg| *leg.provider.name == *provider)?;
    let mut places = engine.admit(&leg.provider, 1, SlotOwner::ThisProcess, route.hold_max()).await.ok()?;
    let way = places.start(job, leg.receiver_of(job)).ok()?;
    let taken = engine.take(Some(&leg.provider), &[Some(&job.company)]).await;
    matches!(taken.as_deref(), Ok([true])).then_some((leg, way))
}

/// Moves a job whose pinned provider left its route to the dead letter queue.
pub(crate) async fn bury(engine: &Inner, lease: &Lease, provider: &str) {
    let (terms, now) = (engine.terms_of(&lease.job.route), engine.clock.now());
    let (transition, audit) = decide::bury_without_pinned_provider(&lease.job, provider, &terms, now);
    log::attempt(engine, lease, &terms.policy, &transition);
    settle_with(engine, lease, transition, Some(audit), WaitBy::Policy).await;
}

/// Keeps leases that a worker may have, and buries those whose pinned provider left the route.
pub(crate) fn without_gone(engine: &Arc<Inner>, route: &RouteName, leases: Vec<Lease>) -> Vec<Lease> {
    let Some(route) = engine.routes.get(route.as_str()) else { return leases };
    let mut kept = Vec::with_capacity(leases.len());
    for lease in leases {
        match relation(&lease.job, route, &route.provider) {
            Pinned::Here | Pinned::Elsewhere(_) => kept.push(lease),
            Pinned::Gone(provider) => {
                let (engine, deliveries) = (engine.clone(), engine.deliveries.clone());
                deliveries.spawn(async move {
                    tokio::select! {
                        () = bury(&engine, &lease, &provider) => {}
                        () = engine.stopped.cancelled() => {}
                    }
                });
            }
        }
    }
    kept
}

impl Inner {
    /// The time at which a job that is pinned to this provider is looked at again.
    pub fn pinned_until(&self, provider: &str, now: Timestamp, draw: Draw) -> Timestamp {
        let wait = match self.providers.get(provider).and_then(|provider| provider.view(now).held) {
            Some((_, Some(until))) => until.since(now).clamp(PINNED_WAIT_MIN, PINNED_WAIT_MAX),
            Some((_, None)) => PINNED_WAIT_MAX,
            // It is busy, or free again already.
            None => PINNED_WAIT_MIN,
        };
        now.plus(wait.mul_f64(draw.between(1.0, 2.0)))
    }

    /// Returns what holds back a job that is pinned to a provider, beside what holds its route back.
    pub fn hold_by_pin(&self, job: &Job, now: Timestamp) -> Option<HoldReason> {
        let route = self.routes.get(job.route.as_str())?;
        let pin = job.pin()?;
        let name = pin.provider.as_deref().unwrap_or(&route.provider);
        let retry_at = job.attempts.last().map(|last| {
            let delay = last.next_retry_delay_ms.map(Duration::from_millis).unwrap_or_default();
            last.ended_at.plus(delay)
        });
        if route.others.is_empty() || retry_at.is_some_and(|at| at > now) {
            return None;
        }
        let (why, until): (RefusalReason, _) =
            self.providers.get(name)?.view_of(route.hold_max(), now).held?;
        let hold = HoldReason::new(&why, until);
        Some(HoldReason {
            why: format!("provider {name} may have taken it, and no other is asked; {}", hold.why),
            ..hold
        })
    }
}
