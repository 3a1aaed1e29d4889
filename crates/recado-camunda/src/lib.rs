//! The claims retry rule as a job worker for Camunda 8 and an external-task worker for Camunda 7.
//!
//! ```text
//!                take                  decide
//! process engine ────▶ Worker ───────────────────▶ Recado (POST /v1/decisions, on record)
//!                ◀────        ◀───────────────────
//!                report        retry or not, when
//! ```
//!
//! The engine keeps the state, Recado keeps the rule, the worker keeps nothing that cannot be lost: a job
//! that it took and did not report on is offered again when its lock runs out, with all its retries.
//!
//! | file | what |
//! |---|---|
//! | [`worker`] | the loop: take, read, decide, report (read this first) |
//! | [`engine`] | what a process engine can be asked, and told |
//! | [`camunda8`], [`camunda7`] | the two engines' own words for it |
//! | [`variables`] | process variables in and out |
//! | [`rules`] | a decision turned into a report |
//! | [`source`] | who decides |
//! | [`rest`], [`auth`] | HTTP and credentials |
//!
//! Deliberately absent: submitting claims (the process's own work), deploying processes, timers, gRPC, and
//! any reading of the environment.

pub mod auth;
mod backoff;
pub mod camunda7;
pub mod camunda8;
pub mod engine;
pub mod rest;
pub mod rules;
pub mod source;
mod unreported;
pub mod variables;
pub mod worker;

pub use auth::{Auth, OAuth, Secret};
pub use camunda7::Camunda7;
pub use camunda8::Camunda8;
pub use engine::{ProcessEngine, Received, Report, Subscription, Task};
pub use rest::{EngineError, Rest};
pub use rules::{Mode, OnRefusal, Rules};
pub use source::{DecisionSource, NoDecision};
pub use worker::{Limits, Worker};

/// The job type of Camunda 8 and the topic of Camunda 7.
pub const TYPE_DEFAULT: &str = "retry-submission-backoff";
