//! A store and an engine on it, in this process, for one measurement.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use recado_api::{ApiOptions, ApiState, ServeLimits};
use recado_core::decide::Terms;
use recado_core::{Payload, Random, RouteName, rules};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::audit::TrailTerms;
use recado_engine::{Carrier, Clock, Engine, Parts, Route, Routes, Settings, Submission, SystemClock};
use recado_store::{Claim, Pick, Retention, Store, Turns};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};
use tokio::task::JoinHandle;

use super::{BenchOptions, Failed};

/// Jobs in one request.
const INTAKE_JOBS: usize = 1_000;

/// The product's own default.
pub const LEASE: Duration = Duration::from_secs(15);

/// Jobs that a claim takes, as in the engine.
pub const CLAIM_JOBS: usize = 256;

/// Interval of looks at an engine until it is done.
pub const LOOK: Duration = Duration::from_millis(10);

/// Filler that brings a payload to 300 bytes.
const FILLER_BYTES: usize = 273;

/// A payload of 300 bytes that the sandbox takes at once.
pub fn payload() -> String {
    format!(r#"{{"script":["ok"],"text":"{}"}}"#, "x".repeat(FILLER_BYTES))
}

/// A whole request for `POST /v1/jobs` with a fresh id.
pub fn job_body(route: &str) -> String {
    let id = uuid::Uuid::new_v4();
    format!(r#"{{"jobId":"{id}","route":"{route}","companyId":"acme","data":{}}}"#, payload())
}

pub fn submission(route: &str) -> Submission {
    submission_of("acme", route)
}

pub fn submission_of(company: &str, route: &str) -> Submission {
    Submission {
        job_id: Some(uuid::Uuid::new_v4().to_string()),
        ..Submission::new(route, company, Payload::trusted(payload()))
    }
}

/// Makes a claim as the engine makes it.
pub fn claim(route: &RouteName, lease: Duration) -> Claim {
    let now = SystemClock.now();
    Claim {
        pick: Pick::Ready(route.clone()),
        max: CLAIM_JOBS,
        now,
        lease_until: now.plus(lease),
        worker: "bench".into(),
        provider: None,
        outlives_process: false,
        turns: Turns::default(),
    }
}

pub fn route(name: &str, carrier: Carrier) -> Result<Route, Failed> {
    Ok(Route {
        name: RouteName::new(name)?,
        carrier,
        provider: name.into(),
        others: Vec::new(),
        classifier: rules::named("general").unwrap_or_default(),
        terms: Terms {
            policy: recado_core::Policy::exponential(Duration::from_secs(1), Duration::from_secs(60), 5),
            dead_letter_ttl: Duration::from_secs(7 * 24 * 3_600),
            crashes_max: 5,
            start_over_after: None,
        },
        timeout: Duration::from_secs(30),
        concurrency: 1_024,
        fallback: recado_engine::Fallback::default(),
    })
}

/// Takes in this many jobs, whole requests at a time.
pub async fn take_in(
    engine: &Engine,
    count: usize,
    submission: impl Fn(usize) -> Submission,
) -> Result<(), Failed> {
    for first in (0..count).step_by(INTAKE_JOBS) {
        let batch = (first..count.min(first + INTAKE_JOBS)).map(&submission).collect();
        for answer in engine.intake.submit(batch).await? {
            answer.map_err(|refusal| format!("{refusal:?}"))?;
        }
    }
    Ok(())
}

/// An engine on a store, as a node of this name.
pub fn engine_on(
    store: Arc<dyn Store>,
    node: &str,
    lease: Duration,
    routes: impl IntoIterator<Item = Route>,
    providers: BTreeMap<Box<str>, ProviderTerms>,
    trail: Option<TrailTerms>,
) -> Engine {
    let settings = Settings {
        node: node.into(),
        lease,
        stop_grace: Duration::from_secs(10),
        retention: Retention {
            ended_max_age: Duration::from_secs(7 * 24 * 3_600),
            ended_max_count: 1_000_000,
        },
        job_ttl: Duration::from_secs(24 * 3_600),
        dead_letter_ttl: Duration::from_secs(7 * 24 * 3_600),
        crashes_max: 5,
        notices: recado_engine::notify::notices::Notices::default(),
        turn_jobs: recado_core::fairness::TURN_JOBS,
    };
    let mut parts =
        Parts::new(store, Routes::new(routes), settings, Arc::new(SystemClock), Random::from_entropy());
    parts.providers = providers;
    parts.trail = trail;
    Engine::start(parts)
}

/// Until nothing waits and nothing is on its way.
pub async fn emptied(store: &dyn Store) -> Result<(), Failed> {
    drained_to(store, 0).await
}

/// Until at most so many jobs wait or are on their way.
pub async fn drained_to(store: &dyn Store, jobs: u64) -> Result<(), Failed> {
    loop {
        let counts = store.counts(SystemClock.now()).await?;
        if counts.ready + counts.leased + counts.delayed <= jobs {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Runs so many tasks at once, and returns the results of all.
pub async fn at_once<T, W>(tasks: usize, task: impl Fn(usize) -> W) -> Result<Vec<T>, Failed>
where
    T: Send + 'static,
    W: Future<Output = Result<T, Failed>> + Send + 'static,
{
    let running: Vec<_> = (0..tasks).map(|nth| tokio::spawn(task(nth))).collect();
    let mut results = Vec::with_capacity(tasks);
    for task in running {
        results.push(task.await??);
    }
    Ok(results)
}

/// Our API on a free port, over an engine.
pub async fn serve(engine: &Engine) -> Result<(SocketAddr, JoinHandle<()>), Failed> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = recado_api::router(ApiState::new(engine.clone(), ApiOptions::default()));
    let server = recado_api::serve(listener, router, ServeLimits::default(), std::future::pending());
    Ok((address, tokio::spawn(server)))
}

pub struct Scene {
    pub store: Arc<EmbeddedStore>,
    pub dir: PathBuf,
}

impl Scene {
    /// An empty store of its own.
    pub async fn new(options: &BenchOptions, name: &str) -> Result<Self, Failed> {
        let dir = options.dir.join(name);
        let open = dir.clone();
        let random = Arc::new(Random::from_entropy());
        let open = move || EmbeddedStore::open(&EmbeddedOptions::at(open), random);
        let store = tokio::task::spawn_blocking(open).await??;
        Ok(Scene { store: Arc::new(store), dir })
    }

    pub fn engine(&self, routes: impl IntoIterator<Item = Route>) -> Engine {
        self.guarded_engine(routes, BTreeMap::new())
    }

    /// With providers that have terms of their own.
    pub fn guarded_engine(
        &self,
        routes: impl IntoIterator<Item = Route>,
        providers: BTreeMap<Box<str>, ProviderTerms>,
    ) -> Engine {
        engine_on(self.store.clone(), "bench", LEASE, routes, providers, None)
    }

    /// Takes jobs in while only workers could carry them, so that a drain starts with a full queue.
    pub async fn fill(
        &self,
        count: usize,
        route: Route,
        submission: impl Fn(usize) -> Submission,
    ) -> Result<(), Failed> {
        take_in(&self.engine([Route { carrier: Carrier::Workers, ..route }]), count, submission).await
    }

    pub async fn emptied(&self) -> Result<(), Failed> {
        emptied(&*self.store).await
    }

    /// Removes its files, once they are no longer in use.
    pub fn removed(self) -> Result<(), Failed> {
        Ok(std::fs::remove_dir_all(&self.dir)?)
    }

    pub fn size_bytes(&self) -> u64 {
        let size = |name: &str| std::fs::metadata(self.dir.join(name)).map_or(0, |meta| meta.len());
        size("recado.db") + size("recado.db-wal")
    }
}
