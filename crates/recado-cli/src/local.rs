//! Commands about this machine: serve, configure, check, measure, demonstrate, simulate.

pub mod bench;
pub mod configure;
pub mod demo;
pub mod doctor;
pub mod plot;
pub mod policy;
pub mod serve;
pub mod simulate;
pub mod store;
