//! A store whose writes of jobs are counted and timed.

use std::sync::Arc;

use async_trait::async_trait;
use recado_core::{AuditEvent, JobId, Lease, LeaseToken, NewJob, RouteName, Timestamp};
use recado_observe::{Fact, StoreWork};
use recado_store::{
    Cancelled, Claim, Claimed, Discard, Discarded, Enqueued, Extended, JobStore, Pruned, Redrive, Redriven,
    Retention, Settled, Settlement, StoreError, Waker, Watcher,
};
use tokio::time::Instant;

use crate::metrics::Metrics;

/// Passes every call on, and records in [`Metrics`] what came of it.
#[derive(Debug)]
pub(crate) struct InstrumentedStore {
    jobs: Arc<dyn JobStore>,
    metrics: Arc<Metrics>,
}

impl InstrumentedStore {
    pub fn new(jobs: Arc<dyn JobStore>, metrics: Arc<Metrics>) -> Self {
        jobs.watch(metrics.clone());
        InstrumentedStore { jobs, metrics }
    }

    fn record_work(&self, work: StoreWork, began: Instant) {
        self.metrics.record(&Fact::StoreWorked { work, took: began.elapsed() });
    }
}

fn routes_of(jobs: &[NewJob]) -> Vec<RouteName> {
    jobs.iter().map(|job| job.route.clone()).collect()
}

#[async_trait]
impl JobStore for InstrumentedStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        let (began, routes) = (Instant::now(), routes_of(&jobs));
        let enqueued = self.jobs.enqueue(jobs).await?;
        self.record_work(StoreWork::Enqueue, began);
        let is_new = |answer: &Enqueued| matches!(answer, Enqueued::Accepted { .. });
        let new = routes.iter().zip(&enqueued).filter(|(_, answer)| is_new(answer));
        self.metrics.record_accepted(new.map(|(route, _)| route));
        Ok(enqueued)
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let began = Instant::now();
        let claimed = self.jobs.claim(claim).await?;
        self.record_work(StoreWork::Claim, began);
        Ok(claimed)
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> Result<Vec<Extended>, StoreError> {
        self.jobs.extend(tokens, until).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        let following: Vec<_> = settlements.iter().map(|one| routes_of(&one.follow_ups)).collect();
        let began = Instant::now();
        let settled = self.jobs.settle(settlements).await?;
        self.record_work(StoreWork::Settle, began);
        let done = following.iter().zip(&settled).filter(|(_, settled)| **settled == Settled::Done);
        self.metrics.record_accepted(done.flat_map(|(routes, _)| routes));
        Ok(settled)
    }

    async fn lease(&self, token: LeaseToken) -> Result<Option<Lease>, StoreError> {
        self.jobs.lease(token).await
    }

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> Result<Cancelled, StoreError> {
        self.jobs.cancel(id, audit).await
    }

    async fn redrive(&self, redrive: Redrive) -> Result<Redriven, StoreError> {
        let following = routes_of(&redrive.follow_ups);
        let redriven = self.jobs.redrive(redrive).await?;
        if redriven == Redriven::Done {
            self.metrics.record_accepted(following.iter());
        }
        Ok(redriven)
    }

    async fn discard(&self, discard: Discard) -> Result<Discarded, StoreError> {
        let following = routes_of(&discard.follow_ups);
        let discarded = self.jobs.discard(discard).await?;
        if discarded == Discarded::Done {
            self.metrics.record_accepted(following.iter());
        }
        Ok(discarded)
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned, StoreError> {
        self.jobs.prune(retention, now).await
    }

    fn waker(&self, route: &RouteName) -> Waker {
        self.jobs.waker(route)
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) {
        self.jobs.watch(watcher);
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.jobs.close().await
    }
}
