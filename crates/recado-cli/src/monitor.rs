//! Commands that show how a server does: live, by events, alerts, indicators and the audit trail.

pub mod alerts;
pub mod audit;
pub mod events;
pub mod kpis;
pub mod nodes;
pub mod top;
