//! A deterministic simulator: the production engine on several nodes, with one shared in-memory store, in virtual time,
//! from one seed.
//!
//! ```text
//! seed ─▶ plan ─▶ world ─▶ history ─▶ checker ─▶ verdict
//!           ▲                                      │
//!           └────────────── shrink ◀───────────────┘
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`plan`] [`workload`] [`incidents`] | plain lists of timed operations and faults, drawn from a seed |
//! | [`world`] [`node`] [`operations`] [`ending`] | runs a plan: processes, clients, and the look at everything in the end |
//! | [`link`] [`server`] [`provider`] | the outside of a process: where it dies, what is lost on the way, who answers what |
//! | [`history`] | what happened, in plain words and numbers |
//! | [`checker`] | the invariants; it shares no code with the product |
//! | [`shrink`] [`summary`] | the smallest plan that fails; what many seeds saw |
//!
//! The same seed gives the same history: nothing here or in the engine reads a clock, a thread or randomness of its own.
//! Deliberately absent: HTTP, SQLite and Redis themselves, the audit trail's files. See `docs/simulator.md`.
//!
//! Not to be confused with `recado-simulate`, which shows users what a policy does during an outage: one node, no faults
//! but the provider's, nothing checked.

pub mod checker;
pub mod ending;
pub mod history;
pub mod incidents;
pub mod link;
pub mod node;
pub mod operations;
pub mod plan;
pub mod provider;
pub mod server;
pub mod shrink;
pub mod summary;
pub mod workload;
pub mod world;
