//! The binary's parts: configuration, wiring, server and command line.
//!
//! Only this crate names a concrete store and reads the environment, files and arguments.
//!
//! | module | what |
//! |---|---|
//! | [`archive`] | where dead letters go that are too many |
//! | [`serve`] | store, engine and API put together, run, and taken apart in order |
//! | [`logging`] | one line for each event on standard output |
//! | [`traces`] | spans on their way to a collector |
//! | [`migrate`] | everything from one store into another, checked |
//! | [`demo`] | everything alive in one process, with providers that fail on a timetable |
//! | [`bench`] | what this build does on this machine |
//! | [`cli`] | the commands |

pub mod archive;
pub mod bench;
pub mod cli;
pub mod demo;
pub mod descriptors;
pub mod logging;
pub mod migrate;
pub mod serve;
pub mod traces;
