//! State shared by all handlers.

use std::num::NonZero;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use recado_core::Policy;
use recado_engine::Engine;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::answer_memory::AnswerMemory;
use crate::gate::{Hosts, Token};

/// Settings of the API, apart from the engine behind it.
#[derive(Clone, Debug, Default)]
pub struct ApiOptions {
    /// Required of every caller, as `Authorization: Bearer …`, when there is one.
    pub token: Option<Token>,
    /// Names by which callers without a token may address this server.
    pub hosts: Hosts,
    pub limits: ApiLimits,
    /// Cancelled when the server begins to stop: long polls end with what they have.
    pub closing: CancellationToken,
    /// Reads the policies of simulations; without it they take the route's own alone.
    pub read_policy: Option<ReadPolicy>,
}

/// Reads a policy as the configuration writes it, laid over another, or tells every fault.
pub type ReadPolicy = fn(&str, &Policy) -> Result<Policy, Vec<String>>;

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
    shared: Arc<SharedState>,
}

#[derive(Debug)]
pub struct SharedState {
    pub(crate) engine: Engine,
    pub(crate) options: ApiOptions,
    pub(crate) answers: Arc<AnswerMemory>,
    /// A permit for each byte.
    bodies_in_flight: Arc<Semaphore>,
    batch_turns: Arc<Semaphore>,
    listeners: Arc<Semaphore>,
    simulation_turn: Arc<Semaphore>,
}

impl Deref for ApiState {
    type Target = SharedState;

    fn deref(&self) -> &SharedState {
        &self.shared
    }
}

impl ApiState {
    pub fn new(engine: Engine, options: ApiOptions) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
        let permits = |max: usize| Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
        let shared = SharedState {
            answers: Arc::default(),
            bodies_in_flight: permits(options.limits.bodies_in_flight_max_bytes),
            batch_turns: permits(cores),
            listeners: permits(options.limits.listeners_max),
            simulation_turn: permits(1),
            engine,
            options,
        };
        ApiState { shared: Arc::new(shared) }
    }
}

impl SharedState {
    pub(crate) fn limits(&self) -> &ApiLimits {
        &self.options.limits
    }

    /// The right to work on a large batch. There are as many as cores, so that a caller that sends batches
    /// without end competes with the others for a fair share of them and not for all.
    pub(crate) async fn batch_turn(&self) -> Option<OwnedSemaphorePermit> {
        self.batch_turns.clone().acquire_owned().await.ok()
    }

    /// The right to simulate; `None` while another simulation has it. One alone takes enough of a processor and of
    /// memory away from deliveries.
    pub(crate) fn simulation_turn(&self) -> Option<OwnedSemaphorePermit> {
        self.simulation_turn.clone().try_acquire_owned().ok()
    }

    /// A place among the listeners; `None` when there is none left.
    pub(crate) fn listener_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.listeners.clone().try_acquire_owned().ok()
    }

    /// Reserves room for bodies; `None` when there is none left.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.bodies_in_flight.clone().try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }
}
