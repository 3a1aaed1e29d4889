//! Resolves a name to the addresses that may be connected to.
//!
//! The HTTP client asks here once for each connection and connects to what it is told, so there is no
//! second lookup that could say something else.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recado_transport::http::FaultError;
use recado_transport::shortage;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

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

impl GuardedLookup {
    async fn permitted(&self, name: &str) -> Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>> {
        let looking = tokio::time::timeout(self.timeout, self.lookup.addresses(name));
        let mut found = looking.await.map_err(|_| FaultError(shortage::no_answer_to_lookup()))??;
        let mut refusal = None;
        found.retain(|address| {
            let judged = self.guard.check_address(address.ip(), Some(name), self.scheme);
            refusal = refusal.or(judged.err());
            judged.is_ok()
        });
        match refusal {
            Some(refusal) if found.is_empty() => Err(FaultError(refusal.into()).into()),
            _ => Ok(found),
        }
    }
}

impl Resolve for GuardedLookup {
    fn resolve(&self, name: Name) -> Resolving {
        let this = self.clone();
        Box::pin(async move { Ok(Box::new(this.permitted(name.as_str()).await?.into_iter()) as Addrs) })
    }
}
