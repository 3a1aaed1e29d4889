//! Fixtures of the tests: a clock that follows tokio's, routes, and far ends that misbehave.

use recado_store::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::decide::Terms;
use recado_core::{Fault, JobId, Outcome, Payload, Policy, RouteName, Status, Timestamp, rules};
use recado_engine::{Accepted, Carrier, Clock, Engine, Parts, Random, Route, Routes, Settings, Submission};
use recado_store::reference::ReferenceStore;
use recado_store::{JobView, Retention, Store};
use recado_store_conformance::faulty::FaultyStore;
use recado_transport::{DataFault, Delivery, Transport, TransportKind};
use tokio::time::Instant;

/// Follows tokio's time, which the tests pause, unless a test sets it.
#[derive(Debug)]
pub struct TestClock {
    started: Instant,
    set_by_ms: AtomicI64,
}

impl TestClock {
    /// Sets it forward, or back.
    pub fn set_by(&self, seconds: i64) {
        self.set_by_ms.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }
}

pub const EPOCH: Timestamp = Timestamp::from_millis(1_760_000_000_000);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let now = EPOCH.plus(self.started.elapsed()).as_millis();
        Timestamp::from_millis(now + self.set_by_ms.load(Ordering::SeqCst))
    }

    fn steady_now(&self) -> Timestamp {
        EPOCH.plus(self.started.elapsed())
    }
}

/// Plays a script, one entry an attempt, the last one for all that follow; notes when it was called.
#[derive(Debug, Default)]
pub struct Scripted {
    pub script: Vec<&'static str>,
    pub latency: Duration,
    pub calls: Mutex<Vec<(JobId, u32, Timestamp)>>,
    pub running: AtomicU32,
    pub running_max: AtomicU32,
}

impl Scripted {
    pub fn new(script: &[&'static str]) -> Self {
        Scripted { script: script.to_vec(), ..Scripted::default() }
    }

    pub fn slow(latency: Duration) -> Self {
        Scripted { latency, ..Scripted::default() }
    }

    pub fn count(&self) -> usize {
        self.calls.lock().len()
    }
}

#[async_trait]
impl Transport for Scripted {
    fn kind(&self) -> TransportKind {
        TransportKind::Custom("scripted")
    }

    fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>> {
        if data.as_str().contains("refuse me") {
            let fault = DataFault { pointer: "/text".to_owned(), message: "cannot be delivered".to_owned() };
            return Err(vec![fault]);
        }
        Ok(())
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        self.calls.lock().push((delivery.job.id.clone(), delivery.attempt, delivery.now));
        let now_running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.running_max.fetch_max(now_running, Ordering::SeqCst);
        tokio::time::sleep(self.latency).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        let at = delivery.attempt as usize - 1;
        match self.script.get(at).or(self.script.last()).copied().unwrap_or("ok") {
            "ok" => Outcome::Accepted { answer: None },
            "panic" => panic!("the far end made us stumble"),
            "hang" => std::future::pending().await,
            code => Outcome::Failed(Fault::answer(code, "said the far end")),
        }
    }
}

pub fn settings() -> Settings {
    Settings {
        node: "node-1".into(),
        lease: Duration::from_secs(15),
        stop_grace: Duration::from_secs(30),
        retention: Retention { ended_max_age: Duration::from_secs(3_600), ended_max_count: 1_000 },
        job_ttl: Duration::from_secs(24 * 3_600),
        dead_letter_ttl: Duration::from_secs(7 * 24 * 3_600),
        crashes_max: 5,
        notices: recado_engine::notify::notices::Notices::default(),
        turn_jobs: recado_core::fairness::TURN_JOBS,
    }
}

pub fn route(name: &str, carrier: Carrier) -> Route {
    Route {
        name: RouteName::new(name).unwrap(),
        carrier,
        provider: name.into(),
        others: Vec::new(),
        classifier: rules::named("smtp").unwrap(),
        terms: Terms {
            policy: Policy::exponential(Duration::from_secs(1), Duration::from_secs(60), 5),
            dead_letter_ttl: Duration::from_secs(7 * 24 * 3_600),
            crashes_max: 5,
            start_over_after: None,
        },
        timeout: Duration::from_secs(30),
        concurrency: 8,
        fallback: recado_engine::Fallback::default(),
    }
}

/// An engine with one route `mail`, on a store that outlives it.
pub struct Given {
    pub store: Arc<ReferenceStore>,
    pub clock: Arc<TestClock>,
}

impl Given {
    pub fn new() -> Self {
        Given {
            store: Arc::default(),
            clock: Arc::new(TestClock { started: Instant::now(), set_by_ms: AtomicI64::new(0) }),
        }
    }

    pub fn engine(&self, routes: impl IntoIterator<Item = Route>) -> Engine {
        self.engine_with(routes, settings())
    }

    pub fn engine_with(&self, routes: impl IntoIterator<Item = Route>, settings: Settings) -> Engine {
        Engine::start(Parts::new(
            self.store.clone(),
            Routes::new(routes),
            settings,
            self.clock.clone(),
            Random::from_seed(7),
        ))
    }

    /// An engine on another view of the store.
    pub fn engine_on(&self, store: Arc<dyn Store>, routes: impl IntoIterator<Item = Route>) -> Engine {
        let routes = Routes::new(routes);
        Engine::start(Parts::new(store, routes, settings(), self.clock.clone(), Random::from_seed(7)))
    }

    /// An engine over the same jobs whose store can be made to fail.
    pub fn shaky(&self, far_end: &Arc<Scripted>) -> (Engine, Arc<FaultyStore>) {
        let store = Arc::new(FaultyStore::around(self.store.clone()));
        let routes = Routes::new([route("mail", Carrier::Transport(far_end.clone()))]);
        let parts = Parts::new(store.clone(), routes, settings(), self.clock.clone(), Random::from_seed(7));
        let engine = Engine::start(parts);
        (engine, store)
    }

    pub fn mail(&self, far_end: &Arc<Scripted>) -> Engine {
        self.engine([route("mail", Carrier::Transport(far_end.clone()))])
    }

    pub fn clock_now(&self) -> Timestamp {
        self.clock.now()
    }

    pub async fn view(&self, id: &str) -> JobView {
        self.store.job(&JobId::new(id).unwrap(), self.clock.now()).await.unwrap().expect("the job is known")
    }

    /// Waits, in virtual time, until the job has this status.
    pub async fn until(&self, id: &str, status: Status) -> JobView {
        for _ in 0..200_000 {
            let view = self.view(id).await;
            if view.status == status {
                return view;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{id} never became {status}; it is {}", self.view(id).await.status);
    }
}

pub fn submission(id: &str) -> Submission {
    Submission { job_id: Some(id.to_owned()), ..Submission::new("mail", "acme", Payload::new("{}").unwrap()) }
}

pub async fn submit(engine: &Engine, submission: Submission) -> Accepted {
    engine.intake.submit(vec![submission]).await.unwrap().remove(0).expect("taken in")
}
