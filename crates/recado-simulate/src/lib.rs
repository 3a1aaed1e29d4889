//! Plays a route's jobs through the engine in virtual time, while the provider is down for a part of it.
//!
//! The engine is the one that runs in production, with the route as it is configured: policy, classifier, breaker,
//! rate, concurrency, timeout, turns of companies, time to live, fallback (without its notice) and the providers that
//! take over. Stand-ins are the provider ([`provider`]), the store (the in-memory reference) and the clock. Jobs,
//! latencies, failures and jitter come from a seed, so a run can be repeated to the last byte.
//!
//! | file | duty |
//! |---|---|
//! | [`provider`] | answers, and fails during an outage |
//! | [`tally`] | counts what happened, second by second |
//!
//! Deliberately absent: the time that the machine and its disk need, so the route is never slower than its provider;
//! other routes that share the provider; other nodes.
//!
//! Not to be confused with `recado-sim`, which tests the engine itself: several nodes, faults of every kind, and a checker
//! of what is promised.

mod provider;
mod tally;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use recado_core::{Payload, Policy, Random, Timestamp};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::duties::alerts::AlertTerms;
use recado_engine::notify::notices::Notices;
use recado_engine::{
    Carrier, Clock, Engine, EngineError, Fallback, Parts, Route, Routes, Settings, Submission,
};
use recado_store::reference::ReferenceStore;
use recado_store::{AuditLog, AuditTrim, Retention};
use recado_wire::simulations::{Simulation, SimulationRequest};
use tokio::runtime::Builder;
use tokio::time::Instant;

use provider::SimulatedProvider;
use tally::Tally;

/// The time at which every simulation begins: 2026-01-01T00:00:00Z.
const STARTED_AT: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Virtual time between two looks at the progress.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Longer than any simulation: nothing in it listens to alerts.
const ALERTS_EVERY: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A route and what it is put through.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The route as it is configured. Its transports are not used.
    pub route: Route,
    /// Protection of the route's providers.
    pub providers: BTreeMap<Box<str>, ProviderTerms>,
    pub settings: Settings,
    pub load: Load,
}

/// Jobs that arrive, and the provider's part in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    pub rate_per_second: f64,
    pub companies: u32,
    /// Times at which the route's first provider is down.
    pub outages: Vec<Range<Duration>>,
    /// Time that the provider takes for an answer, on average.
    pub latency: Duration,
    pub duration: Duration,
    pub seed: u64,
}

impl From<&SimulationRequest> for Load {
    fn from(request: &SimulationRequest) -> Self {
        let millis = Duration::from_millis;
        Load {
            rate_per_second: request.rate_per_second(),
            companies: request.companies(),
            outages: request.outages().iter().map(|one| millis(one.from_ms)..millis(one.to_ms)).collect(),
            latency: millis(request.latency_ms()),
            duration: millis(request.for_ms()),
            seed: request.seed(),
        }
    }
}

/// The reason why a simulation has no result.
#[derive(Debug)]
pub enum Stopped {
    /// Its caller ended it.
    ByCaller,
    /// More jobs waited at once than its caller has memory for.
    TooManyWait,
    /// It could not start, or the engine refused a job.
    Failed(String),
}

/// The state of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The part of the work that is done, from 0 to 1.
    pub done: f64,
    /// Jobs that wait now. Each takes memory.
    pub waiting: u64,
}

/// Hears of the progress about once for each second that is simulated; ends the simulation by a break.
pub type Listener<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<Stopped>;

/// Simulates each policy in turn, with the same jobs, on the calling thread. The first of them is called `policy`, the
/// second `against`.
pub fn simulate(
    scenario: &Scenario,
    request: &SimulationRequest,
    policies: &[Policy],
    listener: Listener<'_>,
) -> Result<Simulation, Stopped> {
    let of_policy = |(at, (name, policy)): (usize, (&&str, &Policy))| {
        let mut of_all = |progress: Progress| {
            listener(Progress { done: (at as f64 + progress.done) / policies.len() as f64, ..progress })
        };
        Ok(scenario.run(policy, &mut of_all)?.report(name, policy))
    };
    let named = ["policy", "against"].iter().zip(policies).enumerate();
    Ok(Simulation {
        route: scenario.route.name.clone(),
        rate_per_second: request.rate_per_second(),
        companies: request.companies(),
        outages: request.outages(),
        latency_ms: request.latency_ms(),
        for_ms: request.for_ms(),
        seed: request.seed(),
        policies: named.map(of_policy).collect::<Result<_, _>>()?,
    })
}

impl Scenario {
    fn run(&self, policy: &Policy, listener: Listener<'_>) -> Result<Arc<Tally>, Stopped> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(|error| Stopped::Failed(error.to_string()))?;
        // The log is for real jobs.
        let silence = tracing::Dispatch::none();
        tracing::dispatcher::with_default(&silence, || {
            runtime.block_on(async {
                let tally = Arc::new(Tally::new(&self.load));
                let store = Arc::new(ReferenceStore::observed(tally.clone()));
                self.play(policy, &store, &tally, listener).await.map(|()| tally)
            })
        })
    }

    async fn play(
        &self,
        policy: &Policy,
        store: &Arc<ReferenceStore>,
        tally: &Arc<Tally>,
        listener: Listener<'_>,
    ) -> Result<(), Stopped> {
        let Load { duration, companies, seed, .. } = self.load;
        let clock = Arc::new(VirtualClock { started: Instant::now() });
        let mut parts = Parts::new(
            store.clone(),
            Routes::new([self.simulated_route(policy, tally)]),
            self.settings(),
            clock.clone(),
            Random::from_seed(seed),
        );
        parts.providers = self.providers.clone();
        parts.alerts = AlertTerms { every: ALERTS_EVERY, ..AlertTerms::default() };
        let engine = Engine::start(parts);

        let jobs = Random::from_seed(seed ^ ARRIVALS);
        let mut arrivals = arrivals(&self.load, &jobs).peekable();
        let mut looked_at = Duration::ZERO;
        while looked_at < duration {
            let next_look = duration.min(looked_at + LOOK_EVERY);
            while let Some(at) = arrivals.next_if(|at| *at < next_look) {
                tokio::time::sleep_until(clock.started + at).await;
                let company = jobs.next_index(companies as usize);
                submit(&engine, self.route.name.as_str(), company).await?;
                tally.record_accepted();
            }
            tokio::time::sleep_until(clock.started + next_look).await;
            looked_at = next_look;
            // No archiver reads the trail, so it would only grow.
            let all = AuditTrim {
                part: 0,
                up_to: u64::MAX,
                before: Timestamp::MAX,
                forgotten_before: Timestamp::MAX,
            };
            let _ = store.trim_audit(all).await;
            let done = looked_at.as_secs_f64() / duration.as_secs_f64();
            if let ControlFlow::Break(why) = listener(Progress { done, waiting: tally.waiting() }) {
                return Err(why);
            }
        }
        Ok(())
    }

    /// Returns the route with stand-ins for its providers.
    fn simulated_route(&self, policy: &Policy, tally: &Arc<Tally>) -> Route {
        let mut route = self.route.clone();
        route.terms.policy = policy.clone();
        // The tally has counted them, and no one replays them: kept, they would take memory without a bound.
        route.terms.dead_letter_ttl = Duration::ZERO;
        route.fallback = Fallback { notify: None, ..route.fallback };
        let own =
            SimulatedProvider::new(&self.load, self.load.outages.clone(), &route.classifier, tally.clone());
        route.carrier = Carrier::Transport(Arc::new(own));
        for (_, transport) in &mut route.others {
            let other = SimulatedProvider::new(&self.load, Vec::new(), &route.classifier, tally.clone());
            *transport = Arc::new(other);
        }
        route
    }

    /// Returns the engine's settings with nothing that lasts or leaves the process.
    fn settings(&self) -> Settings {
        let retention = Retention { ended_max_age: Duration::ZERO, ended_max_count: 0 };
        Settings {
            retention,
            notices: Notices::default(),
            node: "simulation".into(),
            ..self.settings.clone()
        }
    }
}

/// Mixed into the seed, so that arrivals draw other numbers than the engine.
const ARRIVALS: u64 = 1 << 62;

/// Returns the times at which jobs arrive: evenly, each somewhere within its own share of time.
fn arrivals<'a>(load: &Load, random: &'a Random) -> impl Iterator<Item = Duration> + use<'a> {
    let rate = load.rate_per_second;
    let count = (rate * load.duration.as_secs_f64()).round() as u64;
    (0..count).map(move |nth| {
        Duration::from_secs_f64(random.next_draw().between(nth as f64, (nth + 1) as f64) / rate)
    })
}

async fn submit(engine: &Engine, route: &str, company: usize) -> Result<(), Stopped> {
    let job = Submission::new(route, format!("company-{}", company + 1), Payload::trusted("{}"));
    let refused = |error: EngineError| Stopped::Failed(error.to_string());
    match engine.intake.submit(vec![job]).await.map_err(refused)?.pop() {
        Some(Ok(_)) => Ok(()),
        answer => Err(Stopped::Failed(format!("{answer:?}"))),
    }
}

/// A wall clock that runs with the virtual time.
#[derive(Debug)]
struct VirtualClock {
    started: Instant,
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        STARTED_AT.plus(self.started.elapsed())
    }
}
