//! Delivers to any provider that takes an HTTP request and accepts it with a 2xx.
//!
//! One client with one pool of connections serves all jobs of a provider. Every attempt carries the
//! job's id as `Idempotency-Key`. The status line alone decides between accepted and failed; a body is
//! read within bounds of size and time, and whatever goes wrong with it afterwards changes nothing, unless
//! the caller waits for it: then a body that breaks off makes the attempt uncertain. The values of the
//! configured headers are masked in whatever the provider says.
//!
//! Absent on purpose: following redirects (a 3xx is a failure, for it would carry credentials to
//! another host), retries of our own, cookies, decompression, proxies from the environment, and a
//! deadline for the whole exchange, which is the caller's to enforce by dropping the future.

use std::fmt;

use async_trait::async_trait;
use http::header::{HeaderMap, HeaderValue};
use recado_core::{Fault, Outcome, Payload};
use url::Url;

use crate::data;
use crate::{DataFault, Delivery, Secrets, Transport, TransportKind};

mod client;
mod config;
mod connection;
mod failure;
mod pool;
mod request;
mod resolver;
mod stream;

pub use client::{Answer, Body, BodyEnd, Bounds, HttpClient, Response};
pub(crate) use client::{answer_lost, refusal};
pub use config::{ConfigError, HttpConfig};
pub use failure::not_resolved;
pub use request::{IDEMPOTENCY_KEY, Request};
pub use resolver::{Resolver, lookup_timeout};

/// Bytes at most of a provider's answer that are kept with the job.
pub const ANSWER_KEPT_MAX_BYTES: usize = 16 * 1_024;
/// Bytes at most of an answer that the caller wants.
pub const ANSWER_WANTED_MAX_BYTES: usize = 1_024 * 1_024;
/// Bytes at most that are read of what a provider says about a failure.
pub const FAULT_TEXT_MAX_BYTES: usize = 2 * 1_024;

pub struct Http {
    client: HttpClient,
    base: Url,
    own_headers: HeaderMap,
    secrets: Secrets,
}

impl Http {
    pub fn new(config: HttpConfig) -> Result<Self, ConfigError> {
        let own_headers = config.checked_headers()?;
        let client = HttpClient::new(config.connect_timeout, config.answer_wait)?;
        let client = client.with_headers(own_headers.clone());
        Ok(Http { client, secrets: config.secrets(), base: config.base_url, own_headers })
    }

    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// Sends one request under the job's key and returns the 2xx answer or the fault.
    pub(crate) async fn exchange(
        &self,
        mut request: Request,
        delivery: Delivery<'_>,
    ) -> Result<Answer, Fault> {
        let key = HeaderValue::from_str(delivery.idempotency_key())
            .map_err(|_| Fault::invalid_payload("the job's id cannot be sent as a header"))?;
        request.headers.insert(IDEMPOTENCY_KEY, key);
        request.trace(delivery.traceparent());
        let mut answer = self.client.exchange(request, delivery.into()).await;
        match &mut answer {
            Ok(answer) => answer.json = answer.json.take().map(|json| self.secrets.redact_json(json)),
            Err(fault) => self.secrets.redact_fault(fault),
        }
        answer
    }
}

#[async_trait]
impl Transport for Http {
    fn kind(&self) -> TransportKind {
        TransportKind::Http
    }

    fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>> {
        request::read(data, &self.base, &self.own_headers).map(drop)
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        let request = match request::read(&delivery.job.data, &self.base, &self.own_headers) {
            Ok(request) => request,
            Err(faults) => return Outcome::Failed(data::unusable(&faults)),
        };
        self.exchange(request, delivery).await.map(|answer| answer.json).into()
    }
}

/// Shows the headers' names only: their values are credentials.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.own_headers.keys().collect();
        f.debug_struct("Http")
            .field("host", &self.base.host_str())
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}
