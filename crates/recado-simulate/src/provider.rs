//! The provider's stand-in: takes its time for an answer, and during an outage fails in the ways that real ones do.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::classify::{Blame, Class};
use recado_core::outcome::enhanced_code;
use recado_core::{Classifier, Fault, NetworkKind, Outcome, Payload, Random};
use recado_transport::{DataFault, Delivery, Transport, TransportKind};

use crate::Load;
use crate::tally::Tally;

/// Share of an outage's attempts whose connection is refused.
const REFUSED: f64 = 0.5;

/// Share of an outage's attempts that get the answer "unavailable".
const UNAVAILABLE: f64 = 0.3;

/// Share of an outage's attempts that get no answer until the route's timeout. The rest lose the connection after the
/// handover. In both cases it is uncertain whether the provider has the job.
const SILENT: f64 = 0.15;

/// Answers of providers that are down. A route is given the first that its rules read as one.
const UNAVAILABLE_ANSWERS: [(&str, Option<u16>, &str); 3] = [
    ("503", Some(503), "Service Unavailable"),
    ("421", None, "4.3.2 Service not available"),
    ("ServiceUnavailable", None, "SERVICE_UNAVAILABLE"),
];

/// Mixed into the seed, so that the provider draws other numbers than the engine.
const ANSWERS: u64 = 1 << 63;

#[derive(Debug)]
pub struct SimulatedProvider {
    outages: Vec<Range<Duration>>,
    latency: Duration,
    unavailable: Fault,
    random: Random,
    tally: Arc<Tally>,
}

impl SimulatedProvider {
    pub fn new(
        load: &Load,
        outages: Vec<Range<Duration>>,
        classifier: &Classifier,
        tally: Arc<Tally>,
    ) -> Self {
        let random = Random::from_seed(load.seed ^ ANSWERS);
        let unavailable = unavailable_answer(classifier);
        SimulatedProvider { outages, latency: load.latency, unavailable, random, tally }
    }

    /// Waits for an answer, half to one and a half times the latency.
    async fn answer_in_time(&self) {
        tokio::time::sleep(self.latency.mul_f64(self.random.next_draw().between(0.5, 1.5))).await;
    }
}

fn unavailable_answer(classifier: &Classifier) -> Fault {
    let answers = UNAVAILABLE_ANSWERS.map(|(code, status, text)| Fault {
        status,
        enhanced: enhanced_code(text).map(Into::into),
        ..Fault::answer(code, text)
    });
    let is_outage = |answer: &&Fault| {
        let failure = classifier.classify((*answer).clone());
        failure.class == Class::Transient && failure.blame == Blame::Provider
    };
    answers.iter().find(is_outage).unwrap_or(&answers[0]).clone()
}

#[async_trait]
impl Transport for SimulatedProvider {
    fn kind(&self) -> TransportKind {
        TransportKind::Custom("simulated")
    }

    fn check(&self, _: &Payload) -> Result<(), Vec<DataFault>> {
        Ok(())
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        let now = self.tally.record_attempt(&delivery);
        if !self.outages.iter().any(|outage| outage.contains(&now)) {
            self.answer_in_time().await;
            return Outcome::Accepted { answer: None };
        }
        let chance = self.random.next_draw().between(0.0, 1.0);
        Outcome::Failed(if chance < REFUSED {
            Fault::network(NetworkKind::Connect, "connection refused")
        } else if chance < REFUSED + UNAVAILABLE {
            self.answer_in_time().await;
            self.unavailable.clone()
        } else if chance < REFUSED + UNAVAILABLE + SILENT {
            std::future::pending().await
        } else {
            self.answer_in_time().await;
            Fault::network(NetworkKind::Dropped, "the connection was lost")
        })
    }
}
