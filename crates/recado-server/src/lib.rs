//! The wiring of a server: store, engine and API put together on a configuration.
//!
//! | module | what |
//! |---|---|
//! | [`serve`] | store, engine and API put together, run, and taken apart in order |
//! | [`wiring`] | transports, routes and terms, built from a configuration |
//! | [`archive`] | where dead letters go that are too many |
//! | [`descriptors`] | file descriptors, shared by callers of the API and deliveries |
//! | [`logging`] | one line for each event on standard output |
//! | [`traces`] | spans on their way to a collector |
//! | [`migrate`] | everything from one store into another, checked |

pub mod archive;
pub mod descriptors;
pub mod logging;
pub mod migrate;
pub mod serve;
pub mod traces;
pub mod wiring;
