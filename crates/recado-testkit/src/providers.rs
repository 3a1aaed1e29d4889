//! Providers that speak as the real ones do. Untold, each is well-mannered: it takes what its API takes and answers
//! as that does. Beside its manners each file has the refusals that its provider is known for.
//!
//! The demonstration plays with them, and so do the tests of the five systems, so that both meet the same world.
//! Absent on purpose: TLS, which is tested beside the transports, and an end: they live as long as the process.

pub mod evolution;
pub mod graph;
pub mod openai;
pub mod receiver;
pub mod ses;
pub mod tiktok;
pub mod tiss;
pub mod youtube;
