//! Decides whether a delivery may start, and learns from how deliveries end.

pub mod admin;
pub(crate) mod control;
pub(crate) mod deferrals;
pub(crate) mod gate;
pub mod hold_reason;
pub mod outside_holds;
pub mod provider;
pub(crate) mod receivers;
pub(crate) mod retry_budget;
pub mod tenant_limits;
