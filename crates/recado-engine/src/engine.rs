//! Wires the rooms together, starts their tasks, and stops them gracefully.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::classify::HOLD_MAX_DEFAULT;
use recado_core::{Random, Timestamp};
use recado_store::{AuditLog, Inspect, KeyValue, KvEntry, Namespace, Retention, Store, StoreError};
use recado_transport::TransportKind;
use recado_transport_webhook::Webhook;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::accept::Intake;
use crate::admission::breaker::Source;
use crate::admission::control::ROUTES;
use crate::admission::deferrals::Deferrals;
use crate::admission::gate::{self, Gate};
use crate::admission::provider::{Provider, ProviderTerms};
use crate::admission::tenant_limits::Tenants;
use crate::attempt::leases::{HeldLeases, run_heartbeat};
use crate::attempt::shortage::Shortages;
use crate::attempt::{Attempts, claimer, open_breaker_fallback};
use crate::audit::reads::Reads;
use crate::audit::{AuditArchive, AuditTrail, TrailTerms, archiver};
use crate::clock::Clock;
use crate::dlq::{DeadLetterTerms, DeadLetters, archive, auto_replay, bulk};
use crate::duties::alerts::{AlertRunner, AlertTerms};
use crate::duties::gauges::{GaugeReader, LastReading};
use crate::duties::nodes::{NodeInfo, Nodes};
use crate::duties::{pruner, rescuer};
use crate::endpoint_admin::EndpointAdmin;
use crate::environment::Environment;
use crate::error::StopError;
use crate::metrics::Metrics;
use crate::metrics::dead_letter_rate::DeadLetterRate;
use crate::metrics::instrumented_store::InstrumentedStore;
use crate::notify::Notifier;
use crate::notify::accounts::Accounts;
use crate::notify::endpoints::EndpointRegistry;
use crate::notify::events::Events;
use crate::notify::notices::Notices;
use crate::route::{Carrier, Route, Routes};
use crate::shared::sync::{self, Freshness};
use crate::shared::value::{SharedStore, SharedValue};
use crate::tiss_decision::TissDecisions;
use crate::traces::{Tracer, Traces};

/// Time that the last steps of a stop may take when its grace is over: to take leave of the other nodes, to
/// close the store.
pub const LAST_STEP_MAX: Duration = Duration::from_secs(1);

/// Settings of an engine, apart from its routes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This process, for the record of who holds a lease.
    pub node: Box<str>,
    /// Length of a lease without a heartbeat.
    pub lease: Duration,
    /// Longest time of a graceful stop, but for [`LAST_STEP_MAX`]; it waits so long for running deliveries.
    pub stop_grace: Duration,
    pub retention: Retention,
    /// A job's time to live when its caller names none.
    pub job_ttl: Duration,
    /// Kept for jobs whose route is no longer configured.
    pub dead_letter_ttl: Duration,
    pub crashes_max: u32,
    pub notices: Notices,
    /// Consecutive jobs of one company before the next one's turn.
    pub turn_jobs: u32,
}

/// The parts of an engine.
#[derive(Debug)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub routes: Routes,
    pub settings: Settings,
    /// Shared with the transport that delivers to endpoints.
    pub endpoints: Arc<EndpointRegistry>,
    /// The transport that delivers to endpoints, if there is one.
    pub webhook: Option<Arc<Webhook>>,
    pub accounts: Accounts,
    /// Protection of providers; one that is not here has its routes' concurrency and nothing else.
    pub providers: BTreeMap<Box<str>, ProviderTerms>,
    /// The store's values that all nodes share.
    found: Vec<(Namespace, Vec<KvEntry>)>,
    /// The beginning of the read that found them.
    read_at: Instant,
    /// This process's description for the others that share the store.
    pub info: NodeInfo,
    /// Terms of the dead letter queue.
    pub dead_letters: DeadLetterTerms,
    /// Rules of alerts.
    pub alerts: AlertTerms,
    /// Place of the audit trail's files, if there are any.
    pub trail: Option<TrailTerms>,
    /// Takes spans; absent where no traces are recorded.
    pub tracer: Option<Arc<dyn Tracer>>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<Random>,
}

impl Parts {
    pub fn new(
        store: Arc<dyn Store>,
        routes: Routes,
        settings: Settings,
        clock: Arc<dyn Clock>,
        random: impl Into<Arc<Random>>,
    ) -> Self {
        let endpoints = Arc::new(EndpointRegistry::new(store.clone(), clock.clone()));
        let accounts = Accounts::new(store.clone(), clock.clone());
        Parts {
            store,
            routes,
            settings,
            endpoints,
            webhook: None,
            accounts,
            providers: BTreeMap::new(),
            found: Vec::new(),
            read_at: Instant::now(),
            info: NodeInfo::default(),
            dead_letters: DeadLetterTerms::default(),
            alerts: AlertTerms::default(),
            trail: None,
            tracer: None,
            clock,
            random: random.into(),
        }
    }

    /// Reads endpoints, marks on accounts, tenants' terms, breakers, limits and pauses back from the store. Before
    /// the start: no callback must be missed and no broken provider asked because the process is young.
    pub async fn read_back(&mut self) -> Result<(), StoreError> {
        self.read_at = Instant::now();
        let now = self.clock.now();
        for namespace in gate::NAMESPACES {
            self.found.push((namespace, self.store.kv_list(namespace, now).await?));
        }
        self.endpoints.cache.reload().await?;
        self.accounts.marked.reload().await
    }
}

/// A running engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Rooms>);

/// The rooms of an engine, each with its own state.
#[derive(Debug)]
pub struct Rooms {
    /// Takes jobs in.
    pub intake: Intake,
    /// Makes attempts; serves workers and calls.
    pub attempts: Arc<Attempts>,
    /// Decides what may start, and takes operators' acts on providers, routes and companies.
    pub gate: Arc<Gate>,
    pub dlq: Arc<DeadLetters>,
    pub audit: Arc<AuditTrail>,
    pub notifier: Arc<Notifier>,
    pub endpoint_admin: EndpointAdmin,
    pub tiss: TissDecisions,
    pub metrics: Arc<Metrics>,
    pub gauges: Arc<GaugeReader>,
    pub alerts: Arc<AlertRunner>,
    pub nodes: Arc<Nodes>,
    settings: Settings,
    store: Arc<dyn Store>,
    env: Arc<Environment>,
}

impl Deref for Engine {
    type Target = Rooms;

    fn deref(&self) -> &Rooms {
        &self.0
    }
}

impl Engine {
    /// Wires the rooms and starts their tasks.
    pub fn start(parts: Parts) -> Engine {
        let mut parts = parts;
        let (found, trail) = (std::mem::take(&mut parts.found), parts.trail.clone());
        let engine = Engine(Arc::new(wire(parts)));
        engine.start_tasks(&found, trail);
        engine
    }

    fn start_tasks(&self, found: &[(Namespace, Vec<KvEntry>)], trail: Option<TrailTerms>) {
        let Rooms { attempts, gate, dlq, env, store, .. } = &**self;
        for (namespace, entries) in found {
            // No task writes yet that could be too busy to listen.
            let _ = gate.take_in(*namespace, entries, Instant::now(), Source::BeforeStart);
        }
        let (lifecycle, duties) = (&env.lifecycle, &env.lifecycle.duties);
        for route in env.routes.iter().filter(|route| matches!(route.carrier, Carrier::Transport(_))) {
            duties.spawn(claimer::run(attempts.clone(), route.clone()));
        }
        for route in env.routes.iter().filter(|route| route.fallback.acts_on_open()) {
            duties.spawn(open_breaker_fallback::run(attempts.clone(), route.clone()));
        }
        if let Some(changes) = store.kv_changes() {
            let rooms: Vec<Arc<dyn sync::Synced>> = vec![Arc::new(gate.clone()), self.notifier.clone()];
            duties.spawn(sync::run(store.clone(), rooms, lifecycle.clone(), gate.freshness.clone(), changes));
        }
        duties.spawn(rescuer::run_orphaned(attempts.clone()));
        duties.spawn(rescuer::run_overdue(attempts.clone()));
        duties.spawn(self.clone().warn_of_stranded_jobs());
        lifecycle.heartbeat.spawn(run_heartbeat(attempts.leases.clone()));
        lifecycle.heartbeat.spawn(self.nodes.clone().run());
        if let Some(terms) = trail {
            lifecycle.heartbeat.spawn(archiver::run(self.audit.clone(), terms));
        }
        let Settings { retention, dead_letter_ttl, .. } = self.settings.clone();
        duties.spawn(pruner::run(env.clone(), retention, dead_letter_ttl));
        duties.spawn(dlq.rate.clone().run(lifecycle.clone()));
        duties.spawn(self.alerts.clone().run());
        duties.spawn(bulk::run(dlq.clone()));
        if let Some(archive) = dlq.terms.archive.clone() {
            duties.spawn(archive::run(dlq.clone(), archive));
        }
        if !dlq.terms.auto_replay.is_empty() {
            duties.spawn(auto_replay::run(dlq.clone()));
        }
    }

    /// Stops within the grace; see [`Engine::stop_by`].
    pub async fn stop(&self) -> Result<(), StopError> {
        self.stop_by(Instant::now() + self.settings.stop_grace).await
    }

    /// Stops claiming, waits until the deadline for running deliveries, then closes the store. It returns
    /// within [`LAST_STEP_MAX`] of the deadline, or twice that with a store that does not answer.
    ///
    /// A delivery that has not ended by then keeps its lease and comes back as an orphan at the next start:
    /// it may have been sent, so it is not thrown away and not called delivered, and the stop is an error.
    pub async fn stop_by(&self, deadline: Instant) -> Result<(), StopError> {
        let lifecycle = &self.env.lifecycle;
        lifecycle.stopping.cancel();
        let work_ends = all_end([&lifecycle.duties, &lifecycle.deliveries]);
        if tokio::time::timeout_at(deadline, work_ends).await.is_err() {
            tracing::warn!(
                running = self.attempts.leases.running_count(),
                "Work is still running after the grace; its deliveries will be repeated after the restart"
            );
        }
        lifecycle.stopped.cancel();
        let rest_ends = all_end([&lifecycle.duties, &lifecycle.deliveries, &lifecycle.heartbeat]);
        if tokio::time::timeout_at(last_step(deadline), rest_ends).await.is_err() {
            tracing::warn!("Some shutdown state was not saved; other nodes will detect it");
        }
        match tokio::time::timeout_at(last_step(deadline), self.store.close()).await {
            Ok(closed) => closed?,
            Err(_) => return Err(StoreError::Unavailable("it was not closed in time".to_owned()).into()),
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        match (count(&lifecycle.unwritten_outcomes), count(&lifecycle.abandoned_deliveries)) {
            (0, 0) => Ok(()),
            (outcomes, deliveries) => Err(StopError::Unfinished { outcomes, deliveries }),
        }
    }

    /// Resolves when the store has failed for good, with the reason.
    pub async fn broken(&self) -> String {
        self.env.lifecycle.store_failure().await
    }

    /// Tells the channels for alerts that the store has failed, as far as they can be reached at once.
    pub async fn tell_that_it_broke(&self, why: &str) {
        self.notifier.tell_that_the_store_failed(&self.settings.node, why).await;
    }

    /// Warns of accepted jobs whose route can no longer deliver.
    async fn warn_of_stranded_jobs(self) {
        let Ok(counts) = self.store.counts(self.now()).await else { return };
        for (route, jobs) in counts.waiting_by_route {
            if let Some(why) = self.env.routes.why_undeliverable(route.as_str()) {
                tracing::warn!(route = %route, jobs, why, "Jobs wait for a route that cannot deliver; they go to the dead letter queue when they expire");
            }
        }
    }
}

impl Rooms {
    pub fn is_stopping(&self) -> bool {
        self.env.lifecycle.is_stopping()
    }

    pub fn routes(&self) -> &Routes {
        &self.env.routes
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the store's read queries.
    pub fn inspect(&self) -> &dyn Inspect {
        &*self.store
    }

    pub fn now(&self) -> Timestamp {
        self.env.now()
    }
}

/// Makes the rooms, lower ones first.
fn wire(parts: Parts) -> Rooms {
    let Parts { store, settings, endpoints, accounts, clock, random, .. } = parts;
    let (kv, audit_log): (Arc<dyn KeyValue>, Arc<dyn AuditLog>) = (store.clone(), store.clone());
    let routes = parts.routes.with_unknown(settings.dead_letter_ttl, settings.crashes_max);
    let metrics = Arc::new(Metrics::new(routes.names(), clock.clone()));
    let env = Arc::new(Environment {
        node: settings.node.clone(),
        jobs: InstrumentedStore::new(store.clone(), metrics.clone()),
        traces: Traces { tracer: parts.tracer, random: random.clone() },
        lifecycle: Arc::default(),
        metrics: metrics.clone(),
        routes,
        clock,
        random,
    });
    let rate = Arc::new(DeadLetterRate::new(kv.clone(), env.clock.clone()));

    let webhooks = env.routes.iter().filter(|route| route.has_transport(TransportKind::Webhook));
    let callback_route = webhooks.min_by_key(|route| route.name.as_str() != "webhook");
    let notifier = Arc::new(Notifier {
        env: env.clone(),
        events: Events::default(),
        endpoints,
        accounts,
        notices: settings.notices.clone(),
        callback_route: callback_route.map(|route| route.name.clone()),
        job_ttl: settings.job_ttl,
    });

    let route_control =
        |route: &Arc<Route>| (route.name.clone(), Arc::new(SharedValue::new(ROUTES, route.name.as_str())));
    let gate = Arc::new(Gate {
        env: env.clone(),
        providers: providers_of(&env.routes, &parts.providers),
        tenants: Tenants::default(),
        route_controls: env.routes.iter().map(route_control).collect(),
        deferrals: Deferrals::default(),
        changed: Notify::new(),
        shared: Arc::new(SharedStore {
            kv: kv.clone(),
            audit: audit_log.clone(),
            clock: env.clock.clone(),
            lifecycle: env.lifecycle.clone(),
        }),
        freshness: Arc::new(Freshness::new(&*kv, parts.read_at)),
        notifier: notifier.clone(),
    });

    let leases = Arc::new(HeldLeases::new(env.clone(), settings.lease));
    let attempts = Arc::new(Attempts {
        env: env.clone(),
        gate: gate.clone(),
        leases: leases.clone(),
        inspect: store.clone(),
        kv: kv.clone(),
        notifier: notifier.clone(),
        dead_letter_rate: rate.clone(),
        shortages: Shortages::default(),
        turn_jobs: settings.turn_jobs,
    });

    let dlq = Arc::new(DeadLetters {
        env: env.clone(),
        terms: parts.dead_letters,
        gate: gate.clone(),
        store: store.clone(),
        notifier: notifier.clone(),
        rate,
        trail_dir: parts.trail.as_ref().map(|terms| terms.dir.clone()),
        bulk_changed: Notify::new(),
    });
    let audit = Arc::new(AuditTrail {
        env: env.clone(),
        archive: AuditArchive::new(parts.trail),
        store: store.clone(),
        dlq: dlq.clone(),
        notifier: notifier.clone(),
        jobs_kept: settings.retention.ended_max_age,
        reads: Reads::default(),
        suggesting: Arc::default(),
    });
    let gauges = Arc::new(GaugeReader {
        env: env.clone(),
        attempts: attempts.clone(),
        audit: audit.clone(),
        last: LastReading::default(),
    });
    let alerts = AlertRunner::new(parts.alerts, kv.clone(), gauges.clone(), notifier.clone());
    Rooms {
        intake: Intake { env: env.clone(), job_ttl: settings.job_ttl },
        endpoint_admin: EndpointAdmin {
            env: env.clone(),
            notifier: notifier.clone(),
            gate: gate.clone(),
            webhook: parts.webhook,
            audit: audit_log.clone(),
        },
        tiss: TissDecisions { env: env.clone(), audit: audit_log, notifier: notifier.clone() },
        nodes: Arc::new(Nodes {
            env: env.clone(),
            info: parts.info,
            kv,
            leases,
            ended_at_beats: Mutex::new(VecDeque::from([0])),
        }),
        alerts: Arc::new(alerts),
        attempts,
        gate,
        dlq,
        audit,
        notifier,
        metrics,
        gauges,
        settings,
        store,
        env,
    }
}

/// Waits until all tasks have ended, one group after the other: those of a later group may have been started by an
/// earlier one.
async fn all_end(groups: impl IntoIterator<Item = &TaskTracker>) {
    for tasks in groups {
        tasks.close();
        tasks.wait().await;
    }
}

/// Returns the deadline of a step of a stop that begins now.
fn last_step(deadline: Instant) -> Instant {
    deadline.max(Instant::now() + LAST_STEP_MAX)
}

/// Makes one of each provider that a route names, however many do.
fn providers_of(
    routes: &Routes,
    terms: &BTreeMap<Box<str>, ProviderTerms>,
) -> BTreeMap<Box<str>, Arc<Provider>> {
    let mut found: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    for route in routes.iter() {
        for name in route.providers() {
            let (concurrency, longest_wait) = found.entry(name).or_default();
            *concurrency = route.concurrency.max(*concurrency);
            *longest_wait = route.classifier.longest_wait().max(*longest_wait);
        }
    }
    // Some are for calls alone that the product makes by itself.
    for (name, known) in terms {
        found.entry(name).or_insert((known.concurrency, HOLD_MAX_DEFAULT));
    }
    let provider = |(name, (concurrency, longest_wait)): (&str, _)| {
        let terms = terms.get(name).copied().unwrap_or(ProviderTerms::plain(concurrency));
        (name.into(), Arc::new(Provider::new(name, terms, longest_wait)))
    };
    found.into_iter().map(provider).collect()
}
