//! Name lookups.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::Fault;

use super::failure;
use crate::{patience, shortage};

/// Share of a lookup in the time that connecting has: a lookup without an answer must be told from a provider
/// that does not answer.
pub fn lookup_timeout(connect_timeout: Duration) -> Duration {
    connect_timeout.mul_f64(0.8)
}

/// Finds the addresses of a name. It is asked once for each connection, and only what it returns is connected to.
#[async_trait]
pub trait Resolver: Send + Sync + fmt::Debug {
    /// Returns every address that may be connected to. Their ports mean nothing: the URL's counts.
    async fn resolve(&self, name: &str) -> Result<Vec<SocketAddr>, Fault>;
}

/// The operating system's resolver, for so long.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemResolver {
    pub timeout: Duration,
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> Result<Vec<SocketAddr>, Fault> {
        let lookup = tokio::net::lookup_host((name, 0));
        match patience::within(self.timeout, lookup).await {
            Ok(found) => Ok(found.map_err(|error| failure::not_resolved(&error))?.collect()),
            Err(_) => Err(shortage::no_answer_to_lookup()),
        }
    }
}
