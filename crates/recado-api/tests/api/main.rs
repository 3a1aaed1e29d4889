//! The API over real connections, on both stores that need no other process. Test names begin with the
//! requirement's id where there is one.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

mod abuse;
mod accounts;
mod acts;
mod archive;
mod batch;
mod bulk;
mod calls;
mod client;
mod conformance;
mod decisions;
mod dlq;
mod documents;
mod ear;
mod endpoints;
mod enqueue;
mod events;
mod faults;
mod gate;
mod given;
mod grouped;
mod holds;
mod leases;
mod limits;
mod look;
mod metrics;
mod nodes;
mod providers;
mod routes;
mod rules;
mod simulations;
mod stopping;
mod tenants;
mod traces;
mod webhooks;
