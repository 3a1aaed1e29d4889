//! The binary's parts: configuration, wiring, server and command line.
//!
//! Only this crate names a concrete store and reads the environment, files and arguments.

pub mod catalogue;
pub mod config;
