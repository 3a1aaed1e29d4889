//! The binary's parts: configuration, wiring, server and command line.
//!
//! Only this crate names a concrete store and reads the environment, files and arguments.
//!
//! | module | what |
//! |---|---|
//! | [`demo`] | everything alive in one process, with providers that fail on a timetable |
//! | [`cli`] | the commands |

pub mod cli;
pub mod demo;
