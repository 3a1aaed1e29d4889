//! Tells the outside of what happened: live stream, endpoints, channels, marked accounts.

pub mod accounts;
pub(crate) mod direct_send;
pub mod endpoints;
pub mod events;
pub mod notices;
