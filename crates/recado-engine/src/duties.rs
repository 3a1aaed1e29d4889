//! Work in the background.

pub mod alerts;
pub(crate) mod gauges;
pub mod nodes;
pub(crate) mod pruner;
pub(crate) mod rescuer;
