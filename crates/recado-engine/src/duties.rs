//! Work in the background, each in a task of its own.
//!
//! | file | what |
//! |---|---|
//! | [`rescuer`] | takes over leases whose holder vanished, and jobs whose time ran out |
//! | [`pruner`] | forgets what retention no longer keeps |
//! | [`nodes`] | the processes that share the store |
//! | [`gauges`] | gauges, read from the store now and then |
//! | [`alerts`] | measures, and tells of alerts that fire or are over |
//!
//! The heartbeat of leases is [`crate::attempt::leases`]; the archiver is [`crate::audit`]'s.

pub mod alerts;
pub mod gauges;
pub mod nodes;
pub(crate) mod pruner;
pub(crate) mod rescuer;
