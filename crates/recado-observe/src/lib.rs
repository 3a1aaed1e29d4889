//! Metrics, KPIs and alerts.
//!
//! ```text
//! facts ─▶ Ledger ─▶ metrics (Prometheus text)
//!            │  └──▶ kpis, flow of dead letters (windows up to a week)
//!            ▼
//! Gauges ─▶ Alerts.step ─▶ fired, resolved
//!
//! audit records ─▶ ErrorHistory ─▶ RuleTrials ─▶ suggested rules
//! ```
//!
//! Nothing in this crate waits, reads a clock, opens a socket or starts a thread: facts and `now` come in,
//! figures and changes go out, so that a day of traffic is tested in a moment. The engine decides
//! who is notified of an alert and where its state is kept.
//!
//! Reading order: [`fact`] → [`ledger`] → [`history`] → [`metrics`](Ledger::metrics) → [`kpis`] → [`alerts`]
//! → [`prometheus`]; [`rule_suggestions`] stands apart.

mod aggregate;
pub mod alerts;
mod counters;
mod exposition;
pub mod fact;
pub mod gauges;
mod histogram;
pub mod history;
pub mod kpis;
pub mod ledger;
mod metrics;
pub mod prometheus;
pub mod rule_suggestions;
mod shard_counters;
mod top_k;

pub use alerts::{AlertChange, AlertConfig, Alerts, AlertsState, Change, Firing, Rule, Severity, Subject};
pub use exposition::CONTENT_TYPE;
pub use fact::{
    AttemptEnded, Backoff, DeadLetterExit, Decided, DelaySource, Ending, Fact, HoldKind, Judged, StoreWork,
    facts_of_transition,
};
pub use gauges::{DeadLetters, Depth, Gauges, StoreUse, Tenant};
pub use kpis::{DeadLetterFlow, Figure, Kpis, Target, Verdict};
pub use ledger::Ledger;

/// The name under which everything beyond the bounded names is counted.
pub const OTHER: &str = "other";

/// Companies at most, and error codes at most, that are counted apart.
pub const NAMED_MAX: usize = 50;
