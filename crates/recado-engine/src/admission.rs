//! Decides whether a delivery may start, and learns from how deliveries end.
//!
//! | file | what |
//! |---|---|
//! | [`gate`] | [`Gate`](gate::Gate): reserves slots, spends rates, gives out permits, records verdicts |
//! | [`breaker`] | the circuit breaker's path from a failed delivery to all nodes |
//! | [`provider`] | a provider as this process knows it: slots, pace, companies |
//! | [`receivers`] | endpoints and hosts that users choose, each held back on its own |
//! | [`tenant_limits`] | operators' terms for companies: weight, limit, pause |
//! | [`control`] | limits and pauses that all nodes share |
//! | [`retry_budget`] | keeps retries from drowning first tries |
//! | [`hold_reason`] | why a job, a route or a provider waits |
//! | [`outside_holds`] | holds that answers from outside imposed: listed and lifted |
//! | [`deferrals`] | remembers what was held back, for the record of attempts |
//! | [`admin`] | acts of operators on providers, routes and companies |

pub mod admin;
pub(crate) mod breaker;
pub(crate) mod control;
pub(crate) mod deferrals;
pub mod gate;
pub mod hold_reason;
pub mod outside_holds;
pub mod provider;
pub(crate) mod receivers;
pub(crate) mod retry_budget;
pub mod tenant_limits;
