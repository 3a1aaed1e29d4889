//! Keeps a job with the provider that may have taken it.
//!
//! An attempt whose answer was lost, and one that was lost with its process, pin their job: another provider would
//! send it a second time. The pin lasts until the job is delivered, replayed by a person, or expires. While its
//! provider may not be asked the job waits alone; jobs behind it go on through the route's other providers.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Job, Lease, RouteName, Timestamp, decide};

use crate::admission::gate::{Permit, ProviderTarget};
use crate::admission::provider::{Refusal, SlotOwner};
use crate::attempt::Attempts;
use crate::route::Route;

/// Shortest and longest wait of a job whose provider may not be asked; each wait is multiplied by a random
/// factor from 1 to 2, so that such jobs do not come back all at once.
const PINNED_WAIT_MIN: Duration = Duration::from_secs(1);
const PINNED_WAIT_MAX: Duration = Duration::from_secs(30);

/// The provider that a job has to be sent through, seen from the one that is about to be asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequiredProvider<'a> {
    /// The job has no pin, or is pinned to this provider.
    Current,
    /// The job is pinned to another provider of the route.
    Other(&'a str),
    /// The job is pinned to a provider that is no longer on the route.
    Removed(Box<str>),
}

/// Compares a job's pin with the provider that is about to be asked. A pin whose provider is not known is taken for one
/// to the route's first provider, which is asked before all others.
pub(crate) fn required_provider<'a>(job: &Job, route: &'a Route, provider: &str) -> RequiredProvider<'a> {
    let Some(pin) = job.pin() else { return RequiredProvider::Current };
    let Some(name) = pin.provider else {
        return match *route.provider == *provider {
            true => RequiredProvider::Current,
            false => RequiredProvider::Other(&route.provider),
        };
    };
    if *name == *provider {
        return RequiredProvider::Current;
    }
    match route.providers().find(|other| **other == *name) {
        Some(other) => RequiredProvider::Other(other),
        None => RequiredProvider::Removed(name),
    }
}

impl Attempts {
    /// Asks the provider that a job is pinned to for a permit, while its lane was claimed for another one.
    pub(crate) async fn admit_pinned(
        &self,
        route: &Route,
        provider: &str,
        job: &Job,
    ) -> Option<(ProviderTarget, Permit)> {
        let targets = self.gate.targets(route);
        let target = targets.into_iter().find(|target| *target.provider.name == *provider)?;
        let reserving = self.gate.reserve(&target.provider, 1, SlotOwner::ThisProcess, route.hold_max());
        let mut reservation = reserving.await.ok()?;
        let permit = reservation.start(job, target.receiver_of(job)).ok()?;
        let drawn = self.gate.draw_rates(Some(&target.provider), &[Some(&job.company)]).await;
        matches!(drawn.as_deref(), Ok([true])).then_some((target, permit))
    }

    /// Moves a job whose pinned provider left its route to the dead letter queue.
    pub(crate) async fn bury_pinned(&self, lease: &Lease, provider: &str) {
        let (terms, now) = (self.env.routes.terms_of(&lease.job.route), self.env.now());
        self.settle_and_log(lease, decide::bury_without_pinned_provider(&lease.job, provider, terms, now))
            .await;
    }

    /// Keeps the leases that a worker may have, and buries the jobs whose pinned provider left the route.
    pub(crate) fn keep_deliverable(self: &Arc<Self>, route: &RouteName, leases: Vec<Lease>) -> Vec<Lease> {
        let Some(route) = self.env.routes.get(route.as_str()) else { return leases };
        let mut kept = Vec::with_capacity(leases.len());
        for lease in leases {
            match required_provider(&lease.job, route, &route.provider) {
                RequiredProvider::Current | RequiredProvider::Other(_) => kept.push(lease),
                RequiredProvider::Removed(provider) => {
                    let attempts = self.clone();
                    self.env.lifecycle.spawn(async move { attempts.bury_pinned(&lease, &provider).await });
                }
            }
        }
        kept
    }

    /// Returns the time at which a job that is pinned to this provider is looked at again.
    pub(crate) fn pinned_until(&self, provider: &str, now: Timestamp) -> Timestamp {
        let provider = self.gate.providers.get(provider);
        let wait = match provider.and_then(|provider| provider.view(now).held) {
            Some(Refusal { until: Some(until), .. }) => {
                until.since(now).clamp(PINNED_WAIT_MIN, PINNED_WAIT_MAX)
            }
            Some(Refusal { until: None, .. }) => PINNED_WAIT_MAX,
            // It is busy, or free again already.
            None => PINNED_WAIT_MIN,
        };
        now.plus(wait.mul_f64(self.env.random.next_draw().between(1.0, 2.0)))
    }
}
