//! Wiring, start and graceful stop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use recado_core::classify::HOLD_MAX_DEFAULT;
use recado_core::decide::Terms;
use recado_core::{Policy, RouteName};
use recado_observe::Ledger;
use recado_store::{KvEntry, Namespace, Retention, Store, StoreError};
use recado_transport::{Transport, TransportKind};
use recado_transport_webhook::Webhook;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::control::{ROUTES, RouteControl};
use crate::admission::deferrals::Deferrals;
use crate::admission::provider::{Provider, ProviderTerms};
use crate::admission::tenant_limits::Tenants;
use crate::attempt::claimer;
use crate::attempt::leases::{self, HeldLeases};
use crate::attempt::open_breaker_fallback;
use crate::attempt::shortage::Shortages;
use crate::audit::reads::Reads;
use crate::audit::{self, AuditArchive, TrailError, TrailTerms};
use crate::clock::{Chance, Clock};
use crate::dlq::archive;
use crate::dlq::archive::Archive;
use crate::dlq::auto_replay;
use crate::dlq::auto_replay::AutoReplay;
use crate::dlq::bulk;
use crate::dlq::bulk::Bulks;
use crate::duties::alerts;
use crate::duties::alerts::{AlertRunner, AlertTerms};
use crate::duties::gauges::GaugeCache;
use crate::duties::nodes::{self, NodeBeats, NodeInfo};
use crate::duties::pruner;
use crate::duties::rescuer;
use crate::metrics::StoreWatcher;
use crate::metrics::dead_letter_rate;
use crate::metrics::dead_letter_rate::Entries;
use crate::notify::accounts::Accounts;
use crate::notify::direct_send;
use crate::notify::endpoints::EndpointRegistry;
use crate::notify::events::Events;
use crate::notify::notices::Notices;
use crate::route::{Carrier, ProviderTarget, Route, Routes};
use crate::shared::sync;
use crate::shared::sync::Source;
use crate::shared::value::SharedValue;
use crate::traces::Tracer;

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

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine is on its way out.
    #[error("the engine is stopping; ask another node or come back after the restart")]
    Stopping,
    #[error(transparent)]
    Trail(TrailError),
}

/// A stop that left something behind.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "{outcomes} outcomes could not be written down, and {deliveries} deliveries had not ended within the grace; \
         their jobs are taken over when their leases end, and those that were sent are sent again"
    )]
    Unfinished { outcomes: u64, deliveries: u64 },
}

impl From<TrailError> for EngineError {
    fn from(error: TrailError) -> Self {
        match error {
            TrailError::Store(error) => EngineError::Store(error),
            error => EngineError::Trail(error),
        }
    }
}

/// A running engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub store: Arc<dyn Store>,
    pub routes: Routes,
    /// By name.
    pub providers: BTreeMap<Box<str>, Arc<Provider>>,
    pub tenants: Tenants,
    /// Pauses, by route.
    pub doors: BTreeMap<RouteName, Arc<SharedValue<RouteControl>>>,
    /// AlertLease when an operator said something, here or on another node.
    pub said: Notify,
    pub settings: Settings,
    pub events: Events,
    pub endpoints: Arc<EndpointRegistry>,
    pub webhook: Option<Arc<Webhook>>,
    pub accounts: Accounts,
    /// Carries events to subscribed endpoints.
    pub callback_route: Option<RouteName>,
    pub clock: Arc<dyn Clock>,
    pub chance: Chance,
    pub beats: Arc<HeldLeases>,
    pub reads: Reads,
    pub nodes: NodeBeats,
    pub dead_letters: DeadLetterTerms,
    pub bulks: Bulks,
    pub entries: Entries,
    pub ledger: Arc<Ledger>,
    pub standing: GaugeCache,
    pub held_up: Deferrals,
    pub shortages: Shortages,
    pub ringing: AlertRunner,
    pub keeper: AuditArchive,
    /// Takes spans; absent where no traces are recorded.
    pub tracer: Option<Arc<dyn Tracer>>,
    pub deliveries: TaskTracker,
    /// Outcomes that the store did not take yet.
    pub unwritten: AtomicU64,
    /// Deliveries that a stop did not wait for.
    pub abandoned: AtomicU64,
    duties: TaskTracker,
    heartbeat: TaskTracker,
    /// Claim nothing new.
    pub stopping: CancellationToken,
    /// Everything has ended.
    pub stopped: CancellationToken,
    /// The store cannot be trusted any more; the reason is kept.
    pub broken: CancellationToken,
    broken_why: parking_lot::Mutex<Option<String>>,
}

impl Inner {
    /// Nothing can be written any more: the process must end and start again.
    pub fn store_broke(&self, error: &str) {
        let mut why = self.broken_why.lock();
        if why.is_none() {
            tracing::error!(error, "The store has failed; stopping so that a restart can recover it");
            *why = Some(error.to_owned());
        }
        self.broken.cancel();
    }

    /// Returns true if an event may have receivers beside the live stream.
    pub fn may_tell(&self) -> bool {
        !self.endpoints.is_empty() || self.settings.notices.has_channels()
    }

    pub fn terms_of(&self, route: &RouteName) -> Terms {
        match self.routes.get(route.as_str()) {
            Some(route) => route.terms.clone(),
            None => Terms {
                policy: Policy::exponential(Duration::from_secs(1), Duration::from_secs(60), 5),
                dead_letter_ttl: self.settings.dead_letter_ttl,
                crashes_max: self.settings.crashes_max,
                start_over_after: None,
            },
        }
    }

    /// The ways out of a route, in the order to try them.
    pub fn legs(&self, route: &Route) -> Vec<ProviderTarget> {
        let Carrier::Transport(first) = &route.carrier else { return Vec::new() };
        let others = route.others.iter().map(|(name, transport)| (&**name, transport));
        let ways = [(&*route.provider, first)].into_iter().chain(others);
        let leg = |(name, transport): (&str, &Arc<dyn Transport>)| {
            let provider = self.providers.get(name)?.clone();
            Some(ProviderTarget { provider, transport: transport.clone() })
        };
        ways.filter_map(leg).collect()
    }
}

/// Terms of the dead letter queue.
#[derive(Clone, Debug)]
pub struct DeadLetterTerms {
    /// Entries at most before the oldest are archived, where there is an archive.
    pub max_size: u64,
    pub archive: Option<Arc<dyn Archive>>,
    /// Routes whose dead letters are replayed without a person.
    pub auto_replay: BTreeMap<RouteName, AutoReplay>,
}

impl Default for DeadLetterTerms {
    fn default() -> Self {
        DeadLetterTerms { max_size: archive::SIZE_MAX_DEFAULT, archive: None, auto_replay: BTreeMap::new() }
    }
}

/// The parts of an engine.
#[derive(Debug)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub routes: Routes,
    pub settings: Settings,
    /// Shared with the transport that delivers to endpoints.
    pub endpoints: Arc<EndpointRegistry>,
    /// That transport, if there is one.
    pub webhook: Option<Arc<Webhook>>,
    pub accounts: Accounts,
    pub tenants: Tenants,
    /// Protection of providers; one that is not here has its routes' concurrency and nothing else.
    pub providers: BTreeMap<Box<str>, ProviderTerms>,
    /// The store's values that all nodes share.
    found: Vec<(Namespace, Vec<KvEntry>)>,
    /// This process's description for the others that share the store.
    pub about: NodeInfo,
    /// Terms of the dead letter queue.
    pub dead_letters: DeadLetterTerms,
    /// Rules of alerts.
    pub alerts: AlertTerms,
    /// Place of the audit trail's files, if there are any.
    pub trail: Option<TrailTerms>,
    /// Takes spans; absent where no traces are recorded.
    pub tracer: Option<Arc<dyn Tracer>>,
    pub clock: Arc<dyn Clock>,
    pub chance: Chance,
}

impl Parts {
    pub fn new(
        store: Arc<dyn Store>,
        routes: Routes,
        settings: Settings,
        clock: Arc<dyn Clock>,
        chance: Chance,
    ) -> Self {
        let endpoints = Arc::new(EndpointRegistry::new(clock.clone()));
        Parts {
            store,
            routes,
            settings,
            endpoints,
            webhook: None,
            accounts: Accounts::default(),
            tenants: Tenants::default(),
            providers: BTreeMap::new(),
            found: Vec::new(),
            about: NodeInfo::default(),
            dead_letters: DeadLetterTerms::default(),
            alerts: AlertTerms::default(),
            trail: None,
            tracer: None,
            clock,
            chance,
        }
    }

    /// Reads endpoints, marks on accounts, tenants' terms, breakers, limits and pauses back from the store. Before
    /// the start: no callback must be missed and no broken provider asked because the process is young.
    pub async fn read_back(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.found = sync::read(&*self.store, now).await?;
        self.endpoints.read_again(&*self.store, now).await?;
        self.accounts.read_again(&*self.store, now).await
    }
}

impl Engine {
    /// Starts the duties: a claimer per route that this process carries, sweepers, heartbeat, janitor.
    pub fn start(parts: Parts) -> Engine {
        let Parts {
            store,
            routes,
            settings,
            endpoints,
            accounts,
            tenants,
            providers,
            found,
            about,
            dead_letters,
            alerts,
            trail: trail_terms,
            tracer,
            webhook,
            clock,
            chance,
        } = parts;
        let ledger = Arc::new(Ledger::new(routes.names()));
        store.watch(Arc::new(StoreWatcher { ledger: ledger.clone(), clock: clock.clone() }));
        endpoints.shares(&store);
        let providers = providers_of(&routes, &providers);
        let doors = routes.iter().map(|route| &route.name);
        let doors =
            doors.map(|name| (name.clone(), Arc::new(SharedValue::new(ROUTES, name.as_str())))).collect();
        let webhooks = routes.iter().filter(|route| route.has_transport(TransportKind::Webhook));
        let inner = Arc::new(Inner {
            providers,
            tenants,
            doors,
            said: Notify::new(),
            callback_route: webhooks
                .min_by_key(|route| route.name.as_str() != "webhook")
                .map(|route| route.name.clone()),
            store,
            routes,
            settings,
            events: Events::default(),
            endpoints,
            webhook,
            accounts,
            nodes: NodeBeats::new(about, clock.now()),
            keeper: AuditArchive::new(trail_terms.clone()),
            clock,
            chance,
            beats: Arc::default(),
            reads: Reads::default(),
            dead_letters,
            bulks: Bulks::default(),
            entries: Entries::default(),
            ledger,
            standing: GaugeCache::default(),
            held_up: Deferrals::default(),
            shortages: Shortages::default(),
            ringing: AlertRunner::new(alerts),
            tracer,
            deliveries: TaskTracker::new(),
            unwritten: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            duties: TaskTracker::new(),
            heartbeat: TaskTracker::new(),
            stopping: CancellationToken::new(),
            stopped: CancellationToken::new(),
            broken: CancellationToken::new(),
            broken_why: parking_lot::Mutex::new(None),
        });
        for (namespace, notes) in &found {
            // No task writes yet that could be too busy to listen.
            let _ = inner.learn(*namespace, notes, Instant::now(), Source::Ourselves);
        }
        for route in inner.routes.iter().filter(|route| matches!(route.carrier, Carrier::Transport(_))) {
            inner.duties.spawn(claimer::run(inner.clone(), route.clone()));
        }
        for route in inner.routes.iter().filter(|route| route.fallback.acts_on_open()) {
            inner.duties.spawn(open_breaker_fallback::run(inner.clone(), route.clone()));
        }
        if let Some(bell) = inner.store.kv_changes() {
            inner.duties.spawn(sync::run(inner.clone(), bell));
        }
        inner.duties.spawn(rescuer::run_orphaned(inner.clone()));
        inner.duties.spawn(rescuer::run_overdue(inner.clone()));
        inner.duties.spawn(warn_of_stranded_jobs(Engine { inner: inner.clone() }));
        inner.heartbeat.spawn(leases::run(inner.clone()));
        inner.heartbeat.spawn(nodes::run(inner.clone()));
        if let Some(terms) = trail_terms {
            inner.heartbeat.spawn(audit::archiver::run(inner.clone(), terms));
        }
        inner.duties.spawn(pruner::run(inner.clone()));
        inner.duties.spawn(dead_letter_rate::run(inner.clone()));
        inner.duties.spawn(alerts::run(inner.clone()));
        inner.duties.spawn(bulk::run(Engine { inner: inner.clone() }));
        if let Some(archive) = inner.dead_letters.archive.clone() {
            inner.duties.spawn(archive::run(Engine { inner: inner.clone() }, archive));
        }
        if !inner.dead_letters.auto_replay.is_empty() {
            inner.duties.spawn(auto_replay::run(Engine { inner: inner.clone() }));
        }
        Engine { inner }
    }

    /// Stops within the grace; see [`Engine::stop_by`].
    pub async fn stop(&self) -> Result<(), StopError> {
        self.stop_by(Instant::now() + self.inner.settings.stop_grace).await
    }

    /// Stops claiming, waits until the deadline for running deliveries, then closes the store. It returns
    /// within [`LAST_STEP_MAX`] of the deadline, or twice that with a store that does not answer.
    ///
    /// A delivery that has not ended by then keeps its lease and comes back as an orphan at the next start:
    /// it may have been sent, so it is not thrown away and not called delivered, and the stop is an error.
    pub async fn stop_by(&self, deadline: Instant) -> Result<(), StopError> {
        let inner = &self.inner;
        inner.stopping.cancel();
        let work_ends = async {
            inner.duties.close();
            inner.duties.wait().await;
            inner.deliveries.close();
            inner.deliveries.wait().await;
        };
        if tokio::time::timeout_at(deadline, work_ends).await.is_err() {
            tracing::warn!(
                running = inner.beats.running_count(),
                "Work is still running after the grace; its deliveries will be repeated after the restart"
            );
        }
        inner.stopped.cancel();
        let rest_ends = async {
            inner.duties.wait().await;
            inner.deliveries.close();
            inner.deliveries.wait().await;
            inner.heartbeat.close();
            inner.heartbeat.wait().await;
        };
        if tokio::time::timeout_at(last_step(deadline), rest_ends).await.is_err() {
            tracing::warn!(
                "The store did not take all that a stop writes down; other nodes find out by themselves"
            );
        }
        match tokio::time::timeout_at(last_step(deadline), inner.store.close()).await {
            Ok(closed) => closed?,
            Err(_) => return Err(StoreError::Unavailable("it was not closed in time".to_owned()).into()),
        }
        match (inner.unwritten.load(Ordering::Relaxed), inner.abandoned.load(Ordering::Relaxed)) {
            (0, 0) => Ok(()),
            (outcomes, deliveries) => Err(StopError::Unfinished { outcomes, deliveries }),
        }
    }

    /// Resolves when the store has failed for good, with the reason.
    pub async fn broken(&self) -> String {
        self.inner.broken.cancelled().await;
        self.inner.broken_why.lock().clone().unwrap_or_default()
    }

    /// Tells the channels for alerts that the store has failed, as far as they can be reached at once.
    pub async fn tell_that_it_broke(&self, why: &str) {
        direct_send::tell_that_the_store_broke(&self.inner, why).await;
    }

    pub fn is_stopping(&self) -> bool {
        self.inner.stopping.is_cancelled()
    }

    pub fn routes(&self) -> &Routes {
        &self.inner.routes
    }

    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub fn events(&self) -> &Events {
        &self.inner.events
    }

    pub fn endpoints(&self) -> &EndpointRegistry {
        &self.inner.endpoints
    }

    pub fn accounts(&self) -> &Accounts {
        &self.inner.accounts
    }

    /// The read side, for API and command line.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    pub fn now(&self) -> recado_core::Timestamp {
        self.inner.clock.now()
    }
}

/// The deadline of a step of a stop that begins now.
fn last_step(deadline: Instant) -> Instant {
    deadline.max(Instant::now() + LAST_STEP_MAX)
}

/// One of each provider that a route names, however many do.
fn providers_of(
    routes: &Routes,
    terms: &BTreeMap<Box<str>, ProviderTerms>,
) -> BTreeMap<Box<str>, Arc<Provider>> {
    let mut concurrency: BTreeMap<&str, usize> = BTreeMap::new();
    let mut longest_waits: BTreeMap<&str, Duration> = BTreeMap::new();
    for route in routes.iter() {
        for name in route.providers() {
            let known = concurrency.entry(name).or_default();
            *known = (*known).max(route.concurrency);
            let wait = longest_waits.entry(name).or_default();
            *wait = (*wait).max(route.classifier.longest_wait());
        }
    }
    // Some are for calls alone that the product makes by itself.
    for (name, known) in terms {
        concurrency.entry(name).or_insert(known.concurrency);
    }
    let provider = |(name, concurrency): (&str, usize)| {
        let terms = terms.get(name).copied().unwrap_or(ProviderTerms::plain(concurrency));
        let longest_wait = longest_waits.get(name).copied().unwrap_or(HOLD_MAX_DEFAULT);
        (name.into(), Arc::new(Provider::new(name, terms, longest_wait)))
    };
    concurrency.into_iter().map(provider).collect()
}

/// Jobs that were taken in when their route could still deliver wait in vain now: that must not pass unseen.
async fn warn_of_stranded_jobs(engine: Engine) {
    let Ok(counts) = engine.store().counts(engine.now()).await else { return };
    for (route, jobs) in counts.waiting_by_route {
        if let Some(why) = engine.why_undeliverable(route.as_str()) {
            tracing::warn!(route = %route, jobs, why, "Jobs wait for a route that cannot deliver; they go to the dead letter queue when they expire");
        }
    }
}
