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
//! | [`providers`] | what stands between a lane and a provider: breaker, rates, slots, quiet times |
//! | [`receivers`] | endpoints and hosts that users choose, each held back on its own |
//! | [`pins`] | keeps a job with the provider that may have taken it |
//! | [`leader`] | the lease that lets one node at a time do a duty |
//! | [`reads`] | records of payloads that were shown |
//! | [`outside_holds`] | holds that answers from outside imposed: listed and lifted |
//! | [`admission`] | asking to send and telling how it went, across all nodes |
//! | [`agreed`] [`values`] | small values that all nodes agree on, and the steps that change them |
//! | [`refresh`] [`copies`] | keeps this process's copies of them fresh |
//! | [`closed_off`] | a route's fallback while every provider of it is closed off |
//! | [`protect`] [`tenants`] | what operators say about providers, routes and companies |
//! | [`holds`] [`held_up`] | why something waits, and whether it had to |
//! | [`heartbeat`] | keeps the leases of running deliveries alive |
//! | [`nodes`] | the processes that share the store |
//! | [`namespaces`] | the notes that move with a store |
//! | [`sweeper`] | takes over leases whose holder vanished, and jobs whose time ran out |
//! | [`janitor`] | forgets what retention no longer keeps |
//! | [`workers`] | the same life for workers outside this process: lease, succeed, fail, extend |
//! | [`operate`] | what a person does: cancel, replay, discard |
//! | [`bulk`] | the same to many at once: counted, paced, with a canary, going on after a restart |
//! | [`archive`] | where dead letters go that are too many, and how they come back |
//! | [`auto_replay`] | replays without a person, where a route asks for it |
//! | [`entries`] | how many dead letters came in each hour |
//! | [`trail`] | the audit trail: from the store to its files, searches, erasures |
//! | [`claims`] | the stateless rule for process engines |
//! | [`calls`] | a provider asked while the caller waits, with the last good answer as a fallback |
//! | [`aftermath`] | what follows from a settled attempt: callbacks, notices, counters, marks |
//! | [`events`] | the live stream |
//! | [`endpoints`] [`accounts`] | small durable state: webhook endpoints, refused credentials |
//! | [`fallback`] [`notices`] | what a route does when it cannot deliver, and who hears of it |
//! | [`past_the_store`] | notices that a full store does not take |
//! | [`traces`] | the spans that jobs and attempts leave |
//! | [`figures`] [`gauges`] [`alerts`] | what is counted, how things stand, and when it rings |
//! | [`clock`] | the one place that reads the time |
//! | [`log`] | the lines an attempt leaves in the log |
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
pub mod engine;
pub mod fallback;
mod metrics;
mod namespaces;
pub mod notify;
pub mod route;
mod shared;
pub mod tiss_decision;
pub mod traces;

pub use accept::{Accepted, Submission, SubmitRefusal};
pub use admission::admin::PermitAnswer;
pub use admission::hold_reason::{HoldCause, HoldReason, LimitKind, PauseScope};
pub use admission::outside_holds::{HeldScope, OutsideHold};
pub use clock::{Chance, Clock, SteadyClock, SystemClock};
pub use engine::{DeadLetterTerms, Engine, EngineError, Parts, Settings, StopError};
pub use fallback::{Act, Fallback};
pub use namespaces::MOVED_NAMESPACES;
pub use recado_transport::Receiver;
pub use route::{Carrier, Route, Routes};
