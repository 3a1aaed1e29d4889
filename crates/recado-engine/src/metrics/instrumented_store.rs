//! The store's writes of jobs, counted and timed.

use std::ops::Deref;
use std::sync::Arc;

use recado_core::{NewJob, RouteName};
use recado_observe::{Fact, StoreWork};
use recado_store::{
    Claim, Claimed, Discard, Discarded, Enqueued, JobStore, Redrive, Redriven, Settled, Settlement,
    StoreError,
};
use tokio::time::Instant;

use crate::metrics::Metrics;

/// Writes jobs, and records in [`Metrics`] what came of it. Calls that count nothing are the store's own.
#[derive(Clone, Debug)]
pub(crate) struct InstrumentedStore {
    jobs: Arc<dyn JobStore>,
    metrics: Arc<Metrics>,
}

impl Deref for InstrumentedStore {
    type Target = dyn JobStore;

    fn deref(&self) -> &Self::Target {
        &*self.jobs
    }
}

fn routes_of(jobs: &[NewJob]) -> Vec<RouteName> {
    jobs.iter().map(|job| job.route.clone()).collect()
}

impl InstrumentedStore {
    pub fn new(jobs: Arc<dyn JobStore>, metrics: Arc<Metrics>) -> Self {
        jobs.watch(metrics.clone());
        InstrumentedStore { jobs, metrics }
    }

    async fn timed<T>(
        &self,
        work: StoreWork,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let done = call.await?;
        self.metrics.record(&Fact::StoreWorked { work, took: began.elapsed() });
        Ok(done)
    }

    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        let routes = routes_of(&jobs);
        let enqueued = self.timed(StoreWork::Enqueue, self.jobs.enqueue(jobs)).await?;
        let is_new = |answer: &Enqueued| matches!(answer, Enqueued::Accepted { .. });
        let new = routes.iter().zip(&enqueued).filter(|(_, answer)| is_new(answer));
        self.metrics.record_accepted(new.map(|(route, _)| route));
        Ok(enqueued)
    }

    pub async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.timed(StoreWork::Claim, self.jobs.claim(claim)).await
    }

    pub async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        let following: Vec<_> = settlements.iter().map(|one| routes_of(&one.follow_ups)).collect();
        let settled = self.timed(StoreWork::Settle, self.jobs.settle(settlements)).await?;
        let done = following.iter().zip(&settled).filter(|(_, settled)| **settled == Settled::Done);
        self.metrics.record_accepted(done.flat_map(|(routes, _)| routes));
        Ok(settled)
    }

    pub async fn redrive(&self, redrive: Redrive) -> Result<Redriven, StoreError> {
        let following = routes_of(&redrive.follow_ups);
        let redriven = self.jobs.redrive(redrive).await?;
        self.metrics.record_accepted(following.iter().filter(|_| redriven == Redriven::Done));
        Ok(redriven)
    }

    pub async fn discard(&self, discard: Discard) -> Result<Discarded, StoreError> {
        let following = routes_of(&discard.follow_ups);
        let discarded = self.jobs.discard(discard).await?;
        self.metrics.record_accepted(following.iter().filter(|_| discarded == Discarded::Done));
        Ok(discarded)
    }
}
