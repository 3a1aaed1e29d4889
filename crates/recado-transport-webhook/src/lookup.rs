//! Resolves a name to the addresses that may be connected to.
//!
//! The HTTP client asks here once for each connection and connects to what it is told, so there is no
//! second lookup that could say something else.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::Fault;
use recado_transport::http::{Resolver, not_resolved};
use recado_transport::{patience, shortage};

use crate::guard::{Guard, Scheme};

/// Resolves a name to addresses.
#[async_trait]
pub trait Lookup: Send + Sync + fmt::Debug {
    /// Every address of `name`. Their ports mean nothing: the URL's counts.
    async fn addresses(&self, name: &str) -> io::Result<Vec<SocketAddr>>;
}

/// The operating system's resolver.
#[derive(Clone, Copy, Debug)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.collect())
    }
}

/// A lookup without the addresses that the guard refuses.
#[derive(Clone, Debug)]
pub(crate) struct GuardedLookup {
    pub guard: Arc<Guard>,
    pub lookup: Arc<dyn Lookup>,
    /// True if the connection will be TLS.
    pub scheme: Scheme,
    /// Time that it may take.
    pub timeout: Duration,
}

#[async_trait]
impl Resolver for GuardedLookup {
    async fn resolve(&self, name: &str) -> Result<Vec<SocketAddr>, Fault> {
        let looking = patience::within(self.timeout, self.lookup.addresses(name));
        let found = looking.await.map_err(|_| shortage::no_answer_to_lookup())?;
        let mut found = found.map_err(|error| not_resolved(&error))?;
        let mut refusal = None;
        found.retain(|address| {
            let judged = self.guard.check_address(address.ip(), Some(name), self.scheme);
            refusal = refusal.or(judged.err());
            judged.is_ok()
        });
        match refusal {
            Some(refusal) if found.is_empty() => Err(refusal.into()),
            _ => Ok(found),
        }
    }
}
