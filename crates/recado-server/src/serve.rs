//! The server: store, engine and API put together, run, and taken apart in order.
//!
//! A stop goes from the outside in: the API lets go of its connections, then the engine of its
//! deliveries, then the store of its files. What an engine could not finish within its grace comes back
//! after the restart.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use recado_api::{ApiLimits, ApiOptions, ApiState, Hosts, ServeLimits, Token};
use recado_config::fault::Fault;
use recado_config::{Config, Log, batch_body_max_bytes};
use recado_core::{Policy, Random, Timestamp};
use recado_engine::duties::nodes::{self, NodeInfo};
use recado_engine::engine::LAST_STEP_MAX;
use recado_engine::{Clock, Engine, Parts, SteadyClock, SystemClock};
use recado_store::{Store, StoreError};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};
use recado_store_redis::RedisStore;
use recado_store_redis::link::ServerClock;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::logging::{self, Logging};
use crate::wiring::{self, Wiring};
use crate::{descriptors, migrate, traces};

/// Requests are short: those at hand when a stop begins get half of the grace, and never longer than this.
const API_STOP_GRACE_MAX: Duration = Duration::from_secs(5);

/// Time between two looks whether the store is being moved away.
const MOVE_LOOK_EVERY: Duration = Duration::from_secs(5);

/// Serves until a signal or a failure ends it. SIGHUP reads the configuration again for the level of the log; all
/// else of it holds from the start.
pub async fn serve(config: &Config, again: impl Fn() -> Result<Log, String>) -> Result<(), String> {
    let logging = logging::start(config.settings.log.clone(), Arc::new(SystemClock));
    for warning in &config.warnings.list {
        tracing::warn!(setting = warning.path, "Configuration: {}", warning.message);
    }
    let cannot_listen = |error| format!("cannot listen for signals: {error}");
    let mut signals = Signals::new().map_err(cannot_listen)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(cannot_listen)?;
    let listener = bind(config.settings.server.listen).await?;
    let server = start(config, listener).await?;
    loop {
        tokio::select! {
            signal = signals.next() => {
                tracing::info!(signal, "Stopping: running deliveries end first; a second signal stops at once");
                break;
            }
            why = server.broken() => return Err(why),
            why = server.moved_away() => return Err(why),
            _ = hangup.recv() => read_level(&logging, &again),
        }
    }
    tokio::select! {
        stopped = server.stop() => {
            stopped?;
            tracing::info!("Stopped");
            Ok(())
        }
        signal = signals.next() => {
            tracing::warn!(signal, "Stopping at once; deliveries that were running are repeated after the restart");
            Err("stopped at once, with deliveries still running; they are repeated after the restart".to_owned())
        }
    }
}

/// Puts a server together; it serves from now on, and its owner decides when it ends.
pub async fn start(config: &Config, listener: TcpListener) -> Result<Server, String> {
    let address = listener.local_addr().map_err(|error| format!("cannot tell the address: {error}"))?;
    let descriptors = descriptors::raise_limit();
    let random = Arc::new(Random::from_entropy());
    let (store, clock) = open(config, random.clone()).await?;
    let settings = wiring::engine_settings(config, node());
    let info = NodeInfo { host: host().into(), listen: Some(address.to_string().into()) };
    refuse_in_move(config, &*store, &settings.node, &info, clock.now()).await?;
    let Wiring { routes, endpoints, webhook } = Wiring::new(config, store.clone())?;
    let mut parts = Parts::new(store.clone(), routes, settings, clock.clone(), random);
    parts.info = info;
    parts.endpoints = endpoints;
    parts.webhook = webhook;
    parts.providers = config.protection.clone();
    parts.dead_letters = wiring::dead_letter_terms(config);
    parts.alerts = wiring::alert_terms(config);
    parts.trail = Some(wiring::trail_terms(config));
    let traces = traces::start(&config.settings.traces, &parts.settings.node, parts.clock.clone())?;
    let exporting = traces.map(|(exporter, exporting)| {
        parts.tracer = Some(exporter);
        exporting
    });
    parts.read_back().await.map_err(unreadable)?;
    let engine = Engine::start(parts);

    let closing = CancellationToken::new();
    let token = config.settings.server.token.as_ref().map(|token| Token::new(token.reveal()));
    let bytes = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let max_body_bytes = config.settings.server.max_body_bytes;
    let options = ApiOptions {
        token: token.transpose().map_err(|error| error.to_string())?,
        hosts: Hosts::at(address, &config.settings.server.allowed_hosts),
        limits: ApiLimits {
            body_max_bytes: bytes(max_body_bytes),
            batch_body_max_bytes: bytes(batch_body_max_bytes(max_body_bytes)),
            ..ApiLimits::default()
        },
        closing: closing.clone(),
        read_policy: Some(read_policy),
    };
    let router = recado_api::router(ApiState::new(engine.clone(), options));
    let stop_grace = (engine.settings().stop_grace / 2).clamp(LAST_STEP_MAX, API_STOP_GRACE_MAX);
    let limits = ServeLimits { stop_grace, ..descriptors::limits_of_api(descriptors) };
    announce(config, &address.to_string(), &engine);

    let shutdown = closing.clone().cancelled_owned();
    let serving = tokio::spawn(recado_api::serve(listener, router, limits, shutdown));
    let place = place(config);
    Ok(Server { engine, closing, serving, exporting, store, clock, place })
}

/// Reads a policy for a simulation, or says what is wrong with it.
fn read_policy(text: &str, usual: &Policy) -> Result<Policy, Vec<String>> {
    let words = |fault: Fault| match fault.path.as_str() {
        "" => fault.message,
        path => format!("{path}: {}", fault.message),
    };
    recado_config::read_policy("policy", text, usual)
        .map_err(|faults| faults.list.into_iter().map(words).collect())
}

/// Refuses a store that is an end of a move.
async fn refuse_in_move(
    config: &Config,
    store: &dyn Store,
    node: &str,
    about: &NodeInfo,
    now: Timestamp,
) -> Result<(), String> {
    nodes::register(store, node, about, now).await;
    let in_move = migrate::in_move(store, now).await;
    if !matches!(in_move, Ok(None)) {
        nodes::deregister(store, node, now).await;
    }
    match in_move.map_err(unreadable)? {
        Some(in_move) => Err(in_move.refusal(&place(config))),
        None => Ok(()),
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    closing: CancellationToken,
    serving: JoinHandle<()>,
    exporting: Option<traces::Exporting>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The store's name.
    place: String,
}

impl Server {
    /// Resolves when the store is being moved away: this server stood still for so long that it was taken for dead. It
    /// must not deliver what is delivered elsewhere.
    pub async fn moved_away(&self) -> String {
        loop {
            tokio::time::sleep(MOVE_LOOK_EVERY).await;
            if self.store.is_shared()
                && let Ok(Some(in_move)) = migrate::in_move(&*self.store, self.clock.now()).await
            {
                self.closing.cancel();
                return in_move.refusal(&self.place);
            }
        }
    }

    /// Resolves when its store has failed, with the reason; there is nothing left to stop then.
    pub async fn broken(&self) -> String {
        let why = self.engine.broken().await;
        self.closing.cancel();
        self.engine.tell_that_it_broke(&why).await;
        format!("the store has failed: {why}")
    }

    /// Lets requests and deliveries that run end first, and what is left of the traces go.
    pub async fn stop(self) -> Result<(), String> {
        let deadline = Instant::now() + self.engine.settings().stop_grace;
        self.closing.cancel();
        let _ = self.serving.await;
        let stopped = self.engine.stop_by(deadline).await;
        if let Some(exporting) = self.exporting {
            exporting.stop().await;
        }
        stopped.map_err(|error| format!("the stop was not clean: {error}"))
    }
}

fn read_level(logging: &Logging, again: &impl Fn() -> Result<Log, String>) {
    let set = |log: Log| logging.set_level(log.level).map(|()| log.level).map_err(|error| error.to_string());
    match again().and_then(set) {
        Ok(level) => tracing::warn!(logLevel = level.as_str(), "Log level reloaded"),
        Err(error) => tracing::error!(error, "Cannot reload the log level; it stays as it is"),
    }
}

pub async fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address}: another process does; stop it, or choose another address with --listen"
        ),
        std::io::ErrorKind::PermissionDenied => {
            format!("cannot listen on {address}: not permitted; choose a port above 1023 with --listen")
        }
        std::io::ErrorKind::AddrNotAvailable => {
            format!("cannot listen on {address}: this machine has no such address; choose another with --listen")
        }
        _ => format!("cannot listen on {address}: {error}"),
    })
}

fn unreadable(error: StoreError) -> String {
    format!("cannot read the store: {error}")
}

/// The store, and the clock that its leases go by.
pub async fn open(config: &Config, random: Arc<Random>) -> Result<(Arc<dyn Store>, Arc<dyn Clock>), String> {
    fn cannot_open(error: impl Display) -> String {
        format!("cannot open the store: {error}")
    }
    if let Some(options) = &config.redis {
        let store = RedisStore::open(options, random).await.map_err(cannot_open)?;
        let clock = RedisClock(store.link().clock());
        return Ok((Arc::new(store), Arc::new(clock)));
    }
    let clock = SteadyClock::start();
    let options = EmbeddedOptions { now: Some(clock.steady_now()), ..wiring::embedded_options(config) };
    // Reading a large store back takes a while, and signals should not wait for it.
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(&options, random)).await;
    let store = opened.map_err(cannot_open)?.map_err(cannot_open)?;
    Ok((Arc::new(store), Arc::new(clock)))
}

/// Nodes that share a store share its time.
#[derive(Debug)]
struct RedisClock(ServerClock);

impl Clock for RedisClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// This process, for the record of who holds a lease. Containers may all be process 1 of a host of the same
/// name: a few random digits tell them apart.
pub fn node() -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{}/{}-{}", host(), std::process::id(), &random[..4])
}

/// This machine's name.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The place of the jobs, in words that show no password.
/// Names the store of a configuration, without its password.
pub fn place(config: &Config) -> String {
    match &config.redis {
        Some(options) => options.name(),
        None => config.settings.store.data_dir.display().to_string(),
    }
}

/// Lines for the operator who starts a server.
fn announce(config: &Config, address: &str, engine: &Engine) {
    if config.environment_by_default {
        tracing::info!(
            "No environment was chosen, so this is development: the sandbox is on; choose with --env production"
        );
    }
    let usable = engine.routes().usable_names();
    let missing: Vec<_> = engine.routes().names().into_iter().filter(|name| !usable.contains(name)).collect();
    tracing::info!(routes = usable.join(", "), "Routes that take jobs");
    if !missing.is_empty() {
        tracing::info!(
            routes = missing.join(", "),
            "Routes that need configuration; `recado config show` says what"
        );
    }
    tracing::info!(
        address = format!("http://{address}"),
        environment = config.environment.as_str(),
        config = config.file.as_deref(),
        store = place(config),
        token = config.settings.server.token.is_some(),
        version = env!("CARGO_PKG_VERSION"),
        "Recado is ready"
    );
}

/// The two ways to ask a process to end.
#[derive(Debug)]
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    pub fn new() -> std::io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
