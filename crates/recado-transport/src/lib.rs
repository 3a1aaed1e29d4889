//! Transports: deliver one job to a provider.
//!
//! A [`Transport`] hands one job to the outside world and brings back an [`Outcome`]: the raw fact,
//! unjudged. It keeps no state about jobs, retries nothing, and knows nothing of policies or stores.

pub mod data;
pub mod http;
pub mod patience;
pub mod sandbox;
mod secrets;
pub mod shortage;
pub mod tls;
pub mod whatsapp;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::{Job, Outcome, Payload, Timestamp, TraceParent};

pub use http::{ConfigError, Http, HttpConfig};
pub use sandbox::Sandbox;
pub use secrets::Secrets;
pub use url::Url;
pub use whatsapp::{Evolution, EvolutionConfig};

/// One try at one job.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    pub job: &'a Job,
    /// Number of the attempt, over the job's whole life; 1 is the first.
    pub attempt: u32,
    /// The time when it started.
    pub now: Timestamp,
    /// Time that it may take before the caller gives up on it.
    pub timeout: Duration,
    pub answer: Wanted,
}

/// The part of a provider's answer that the caller has a use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Only whether it accepted the job. Its answer is kept if it is short and comes at once.
    Receipt,
    /// The whole answer: a caller waits for it.
    Answer,
}

impl Delivery<'_> {
    /// The same on every attempt, so that the provider can tell a repetition from a new message.
    pub fn idempotency_key(&self) -> &str {
        self.job.id.as_str()
    }

    /// The span that whatever the provider does for this attempt stands below, if the job belongs to a trace.
    pub fn traceparent(&self) -> Option<TraceParent> {
        Some(self.job.traceparent?.attempt(self.job.id.as_str(), self.attempt))
    }
}

/// Something wrong with a job's `data`, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFault {
    /// JSON pointer below `data`, such as `/body`.
    pub pointer: String,
    /// The fault and its correction.
    pub message: String,
}

/// The far end that a job's own data names, where users choose it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Receiver {
    /// A registered endpoint, by its id.
    Endpoint(Box<str>),
    /// The host of an address, with its port unless that is the scheme's own.
    Host(Box<str>),
}

/// The protocol that a transport speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportKind {
    Smtp,
    Ses,
    Http,
    WhatsApp,
    Webhook,
    Sandbox,
    /// A transport that Recado does not ship, such as one of a test.
    Custom(&'static str),
}

impl TransportKind {
    /// Returns the word that the configuration uses for it.
    pub fn as_str(self) -> &'static str {
        match self {
            TransportKind::Smtp => "smtp",
            TransportKind::Ses => "ses",
            TransportKind::Http => "http",
            TransportKind::WhatsApp => "whatsapp",
            TransportKind::Webhook => "webhook",
            TransportKind::Sandbox => "sandbox",
            TransportKind::Custom(name) => name,
        }
    }
}

/// A way to reach a provider.
///
/// - `send` is called at most once at a time for a job, under a deadline that the caller enforces by
///   dropping the future; it must be safe to drop at any point.
/// - It never panics on purpose; a panic costs the job one attempt and other jobs nothing.
/// - A payload that passed `check` may still be unusable: that is `Fault::invalid_payload`.
#[async_trait]
pub trait Transport: Send + Sync + fmt::Debug {
    fn kind(&self) -> TransportKind;

    /// Every fault of `data`, found before the job is accepted.
    fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>>;

    /// Returns the receiver that `data` names. `None`: every job goes to the provider itself, and blame, waits and
    /// slowness are the provider's.
    fn receiver(&self, _data: &Payload) -> Option<Receiver> {
        None
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome;
}
