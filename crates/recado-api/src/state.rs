//! State shared by all handlers.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use recado_engine::Engine;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::answer_memory::Answers;
use crate::gate::{Gate, Hosts, Token};

/// Settings of the API, apart from the engine behind it.
#[derive(Clone, Debug, Default)]
pub struct ApiOptions {
    /// Asked of every caller, as `Authorization: Bearer …`, when there is one.
    pub token: Option<Token>,
    /// Names by which callers without a token may address this server.
    pub hosts: Hosts,
    pub limits: ApiLimits,
    /// Cancelled when the server begins to stop: long polls end with what they have.
    pub closing: CancellationToken,
}

/// Bounds of one request, and of all of them together.
#[derive(Clone, Debug)]
pub struct ApiLimits {
    /// One job, and everything else that is not a batch.
    pub body_max_bytes: usize,
    pub batch_body_max_bytes: usize,
    /// From the end of the header to the end of the body.
    pub body_timeout: Duration,
    /// Bodies held at the same time that did not come in one piece.
    pub bodies_in_flight_max_bytes: usize,
    /// Listeners to events at the same time.
    pub listeners_max: usize,
    /// Silence on a stream of events before a sign of life. Below the idle time of connections, and of
    /// whatever stands between.
    pub keep_alive: Duration,
}

impl Default for ApiLimits {
    fn default() -> Self {
        ApiLimits {
            body_max_bytes: 1 << 20,
            batch_body_max_bytes: 32 << 20,
            body_timeout: Duration::from_secs(30),
            bodies_in_flight_max_bytes: 256 << 20,
            listeners_max: 256,
            keep_alive: Duration::from_secs(15),
        }
    }
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct ApiState {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    options: ApiOptions,
    document: OnceLock<Bytes>,
    bodies_in_flight_bytes: AtomicUsize,
    answers: Arc<Answers>,
    batch_turns: Arc<Semaphore>,
    listeners: Arc<Semaphore>,
}

impl ApiState {
    pub fn new(engine: Engine, options: ApiOptions) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
        let inner = Inner {
            listeners: Arc::new(Semaphore::new(options.limits.listeners_max)),
            engine,
            options,
            document: OnceLock::new(),
            bodies_in_flight_bytes: AtomicUsize::new(0),
            answers: Arc::default(),
            batch_turns: Arc::new(Semaphore::new(cores)),
        };
        ApiState { inner: Arc::new(inner) }
    }

    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn limits(&self) -> &ApiLimits {
        &self.inner.options.limits
    }

    pub(crate) fn token(&self) -> Option<&Token> {
        self.inner.options.token.as_ref()
    }

    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.inner.options.closing
    }

    pub(crate) fn gate(&self) -> Gate {
        Gate::new(self.inner.options.token.clone(), self.inner.options.hosts.clone())
    }

    pub(crate) fn keep_document(&self, document: &serde_json::Value) {
        let _ = self.inner.document.set(document.to_string().into());
    }

    pub(crate) fn document(&self) -> Bytes {
        self.inner.document.get().cloned().unwrap_or_default()
    }

    pub(crate) fn answers(&self) -> &Arc<Answers> {
        &self.inner.answers
    }

    /// The right to work on a large batch. There are as many as cores, so that a caller that sends batches
    /// without end competes with the others for a fair share of them and not for all.
    pub(crate) async fn batch_turn(&self) -> Option<OwnedSemaphorePermit> {
        self.inner.batch_turns.clone().acquire_owned().await.ok()
    }

    /// A place among the listeners; `None` when there is none left.
    pub(crate) fn place_to_listen(&self) -> Option<OwnedSemaphorePermit> {
        self.inner.listeners.clone().try_acquire_owned().ok()
    }

    /// Reserves room for bodies; `None` when there is none left.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<Reserved> {
        let reserved = Reserved { state: self.clone(), bytes };
        let before = self.inner.bodies_in_flight_bytes.fetch_add(bytes, Ordering::Relaxed);
        (before.saturating_add(bytes) <= self.limits().bodies_in_flight_max_bytes).then_some(reserved)
    }
}

/// Room for a body, given back when dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    state: ApiState,
    bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.state.inner.bodies_in_flight_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
