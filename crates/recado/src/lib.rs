//! The binary's parts: configuration, wiring, server and command line.
//!
//! Only this crate names a concrete store and reads the environment, files and arguments.
//!
//! | module | what |
//! |---|---|
//! | [`cli`] | the commands |

pub mod cli;
