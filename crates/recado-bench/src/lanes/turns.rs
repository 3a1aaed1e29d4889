//! One company has a long queue, another one comes: how much of the queue goes first?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::{Outcome, Payload};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::{Carrier, ProviderAct};
use recado_transport::{DataFault, Delivery, Transport, TransportKind};

use crate::report::Report;
use crate::scene::{Scene, route, submission_of, take_in};
use crate::{BenchOptions, Failed};

const LANE: &str = "lane";
const LOUD_JOBS: usize = 20_000;
const LATE_JOBS: usize = 10;
const SLOTS: usize = 5;
const LATENCY: Duration = Duration::from_millis(1);

/// Takes its time with each job and notes whose was done.
#[derive(Debug, Default)]
struct Done(Mutex<Vec<Whose>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Loud,
    Late,
}

#[async_trait]
impl Transport for Done {
    fn kind(&self) -> TransportKind {
        TransportKind::Custom("done")
    }

    fn check(&self, _data: &Payload) -> Result<(), Vec<DataFault>> {
        Ok(())
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        tokio::time::sleep(LATENCY).await;
        let whose = if delivery.job.company.as_str() == "late" { Whose::Late } else { Whose::Loud };
        self.0.lock().push(whose);
        Outcome::Accepted { answer: None }
    }
}

impl Done {
    /// Jobs of the loud company that went before the last one of the late company, once all of those are
    /// done.
    fn loud_before_the_last(&self) -> Option<usize> {
        let done = self.0.lock();
        let (last, _) =
            done.iter().enumerate().filter(|(_, whose)| **whose == Whose::Late).nth(LATE_JOBS - 1)?;
        Some(last + 1 - LATE_JOBS)
    }
}

pub async fn behind_a_queue(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let scene = Scene::new(options, "lanes").await?;
    let done = Arc::new(Done::default());
    let lane = route(LANE, Carrier::Transport(done.clone()))?;
    let terms = BTreeMap::from([(LANE.into(), ProviderTerms::plain(SLOTS))]);
    let engine = scene.guarded_engine([lane], terms);
    engine.gate.act_on_provider(LANE, ProviderAct::Pause, None, None).await?;
    take_in(&engine, LOUD_JOBS, |_| submission_of("loud", LANE)).await?;
    take_in(&engine, LATE_JOBS, |_| submission_of("late", LANE)).await?;
    engine.gate.act_on_provider(LANE, ProviderAct::Resume, None, None).await?;
    let before = loop {
        if let Some(before) = done.loud_before_the_last() {
            break before;
        }
        tokio::time::sleep(LATENCY).await;
    };
    report.add("jobs of 20,000 done before the tenth of a company that came after", before as f64, "jobs");
    engine.stop().await?;
    scene.removed()
}
