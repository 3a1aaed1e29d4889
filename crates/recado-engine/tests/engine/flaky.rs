//! A provider that comes and goes, and the engines that meet it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::breaker::BreakerTerms;
use recado_core::{Fault, Outcome, Payload, Timestamp};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::{Carrier, Engine, Parts, Random, Route, Routes, Settings, Submission};
use recado_store::{Store, Wakes};
use recado_store_conformance::faulty::FaultyStore;
use recado_transport::{DataFault, Delivery, Transport, TransportKind};

use crate::given::{Given, route, settings, submission};

pub const BREAKER: BreakerTerms = BreakerTerms::new(5, Duration::from_secs(60), Duration::from_secs(120));

/// A provider that is down until a test brings it back, and that notes every request.
#[derive(Debug, Default)]
pub struct Flaky {
    pub down: AtomicBool,
    /// It takes the request and never answers.
    pub stuck: AtomicBool,
    pub answer: Mutex<Option<Fault>>,
    pub asked: Mutex<Vec<(Timestamp, String)>>,
    pub latency: Duration,
}

impl Flaky {
    pub fn down() -> Arc<Self> {
        let flaky = Flaky::default();
        flaky.down.store(true, Ordering::SeqCst);
        Arc::new(flaky)
    }

    pub fn is_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    pub fn count(&self) -> usize {
        self.asked.lock().len()
    }

    pub fn asked_since(&self, at: Timestamp) -> Vec<Timestamp> {
        self.asked.lock().iter().map(|(when, _)| *when).filter(|when| *when >= at).collect()
    }

    /// The most requests that any window of this length has seen, wherever it begins.
    pub fn most_within(&self, window: Duration) -> usize {
        let times = self.asked_since(Timestamp::from_millis(0));
        let within =
            |first: &Timestamp| times.iter().filter(|at| *at >= first && at.since(*first) < window).count();
        times.iter().map(within).max().unwrap_or(0)
    }
}

#[async_trait]
impl Transport for Flaky {
    fn kind(&self) -> TransportKind {
        TransportKind::Custom("flaky")
    }

    fn check(&self, _: &Payload) -> Result<(), Vec<DataFault>> {
        Ok(())
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        self.asked.lock().push((delivery.now, delivery.job.company.as_str().to_owned()));
        tokio::time::sleep(self.latency).await;
        if self.stuck.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if let Some(fault) = self.answer.lock().clone() {
            return Outcome::Failed(fault);
        }
        match self.down.load(Ordering::SeqCst) {
            true => Outcome::Failed(Fault::answer("421", "down")),
            false => Outcome::Accepted { answer: None },
        }
    }
}

pub fn mail(flaky: &Arc<Flaky>) -> Route {
    route("mail", Carrier::Transport(flaky.clone()))
}

pub fn with_breaker() -> ProviderTerms {
    ProviderTerms { breaker: Some(BREAKER), ..ProviderTerms::plain(8) }
}

fn parts(
    given: &Given,
    store: Arc<dyn Store>,
    settings: Settings,
    routes: Vec<Route>,
    terms: &[(&str, ProviderTerms)],
) -> Parts {
    let mut parts =
        Parts::new(store, Routes::new(routes), settings, given.clock.clone(), Random::from_seed(7));
    parts.providers = terms.iter().map(|(name, terms)| ((*name).into(), *terms)).collect();
    parts
}

pub fn protected(given: &Given, routes: Vec<Route>, terms: &[(&str, ProviderTerms)]) -> Engine {
    protected_with(given, settings(), routes, terms)
}

pub fn protected_with(
    given: &Given,
    settings: Settings,
    routes: Vec<Route>,
    terms: &[(&str, ProviderTerms)],
) -> Engine {
    Engine::start(parts(given, given.store.clone(), settings, routes, terms))
}

/// The same by a process that was here before.
pub async fn restarted(given: &Given, routes: Vec<Route>, terms: &[(&str, ProviderTerms)]) -> Engine {
    let mut parts = parts(given, given.store.clone(), settings(), routes, terms);
    parts.read_back().await.unwrap();
    Engine::start(parts)
}

/// One of several nodes on the same store, and its way to the store.
pub async fn node(
    given: &Given,
    wakes: &Arc<Wakes>,
    name: &str,
    routes: Vec<Route>,
    terms: &[(&str, ProviderTerms)],
) -> (Engine, Arc<FaultyStore>) {
    let store = Arc::new(FaultyStore::shared(given.store.clone(), wakes));
    let settings = Settings { node: name.into(), ..settings() };
    let mut parts = parts(given, store.clone(), settings, routes, terms);
    parts.read_back().await.unwrap();
    (Engine::start(parts), store)
}

pub fn to(company: &str, id: &str) -> Submission {
    Submission { company_id: company.to_owned(), ..submission(id) }
}

/// So many jobs, by number.
pub async fn submit_many(engine: &Engine, count: usize) {
    let jobs = (0..count).map(|n| submission(&format!("job-{n:04}"))).collect();
    assert!(engine.intake.submit(jobs).await.unwrap().iter().all(Result::is_ok));
}

pub async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
