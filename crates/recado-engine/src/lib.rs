//! Takes jobs from the store to their providers, and what comes back into the store.
//!
//! Read [`attempt::deliver`] first: it is the whole life of an attempt, top to bottom. Around it are rooms. Each owns its
//! state and takes what it needs; a room uses those above it in this table, and none in its own
//! row or below (`cargo xtask tidy` reads this table and checks that):
//!
//! | room | duty |
//! |---|---|
//! | [`clock`] [`error`] [`fallback`] [`lifecycle`] | time; errors; fallbacks as data; start and stop, file work |
//! | [`route`] [`send`] | what a route is; one call to a transport |
//! | [`shared`] | state that all nodes share |
//! | [`metrics`] [`traces`] | what is counted and traced |
//! | [`environment`] | what all rooms below use and none owns |
//! | [`notify`] | events, callbacks, notices, marked accounts |
//! | [`admission`] | whether a delivery may start: breaker, limits, pauses, tenants, receivers |
//! | [`attempt`] | claim, deliver, settle |
//! | [`accept`] [`tiss_decision`] [`endpoint_admin`] | jobs on their way in; retry decisions for insurance claims; acts on endpoints |
//! | [`dlq`] | the dead letter queue |
//! | [`audit`] | the audit trail: archived, searched, learned from, erased from |
//! | [`duties`] | work in the background |
//! | [`namespaces`] | the namespaces that move with a store |
//! | [`engine`] | wiring, start and stop |
//!
//! Deliberately absent: HTTP, configuration files, SQL. Stores and transports are handed in; the one that
//! signs webhooks is known by name, because endpoints are the engine's own business.

pub mod accept;
pub mod admission;
pub mod attempt;
pub mod audit;
pub mod clock;
pub mod dlq;
pub mod duties;
pub mod endpoint_admin;
pub mod engine;
mod environment;
pub mod error;
pub mod fallback;
mod lifecycle;
mod metrics;
mod namespaces;
pub mod notify;
pub mod route;
mod send;
mod shared;
pub mod tiss_decision;
pub mod traces;

pub use accept::{Accepted, Submission, SubmitRefusal};
pub use admission::admin::{PermitAnswer, ProviderAct, RouteAct};
pub use admission::hold_reason::{HoldCause, HoldReason, LimitKind, PauseScope};
pub use admission::outside_holds::{HeldScope, OutsideHold};
pub use clock::{Clock, SteadyClock, SystemClock};
pub use dlq::DeadLetterTerms;
pub use engine::{Engine, Parts, Settings};
pub use error::{EngineError, StopError, TrailError};
pub use fallback::{Act, Fallback};
pub use namespaces::MOVED_NAMESPACES;
pub use recado_core::Random;
pub use recado_transport::Receiver;
pub use route::{Carrier, Route, Routes};
