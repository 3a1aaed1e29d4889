//! Takes jobs from the store to their providers, and what comes back into the store.
//!
//! Read [`deliver`] first: it is the whole life of an attempt, top to bottom. Around it:
//!
//! | file | duty |
//! |---|---|
//! | [`route`] | what a route is: transport, policy, classifier, limits |
//! | [`engine`] | wiring, start and graceful stop |
//! | [`accept`] | jobs on their way in |
//! | [`claimer`] | one loop a route: free slots → leases → deliveries |
//! | [`heartbeat`] | keeps the leases of running deliveries alive |
//! | [`sweeper`] | takes over leases whose holder vanished, and jobs whose time ran out |
//! | [`janitor`] | forgets what retention no longer keeps |
//! | [`workers`] | the same life for workers outside this process: lease, succeed, fail, extend |
//! | [`operate`] | what a person does: cancel, replay, discard |
//! | [`claims`] | the stateless rule for process engines |
//! | [`clock`] | the one place that reads the time |
//! | [`log`] | the lines an attempt leaves in the log |
//!
//! Deliberately absent: HTTP, configuration files, SQL. Stores and transports are handed in.

pub mod accept;
pub mod claimer;
pub mod claims;
pub mod clock;
pub mod deliver;
pub mod engine;
mod heartbeat;
mod janitor;
mod log;
pub mod operate;
pub mod route;
mod sweeper;
pub mod workers;

pub use accept::{Accepted, Refusal, Submission};
pub use clock::{Chance, Clock, SystemClock};
pub use engine::{Engine, EngineError, Settings};
pub use route::{Carrier, Route, Routes};
