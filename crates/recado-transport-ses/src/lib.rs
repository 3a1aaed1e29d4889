//! E-mail by AWS SES v2: signed requests of our own, with the credential chain of the official SDK.
//!
//! One client with one pool of connections serves all jobs of an account. It is made when it is first
//! needed: construction opens no connection, and a chain that fails once is asked again.
//!
//! **The idempotency key.** SES writes its own Message-ID over any that it is given, in raw messages as
//! in those that it composes. So the job's id travels where SES leaves it alone: in the header
//! `X-Recado-Job`, for the message's receiver, and in the message tag `jobId`, for readers of
//! the events of a configuration set. SES does not look for repetitions by either. A raw message still
//! carries the Message-ID that every attempt shares, because stand-ins and relays keep it. Since nothing
//! is lost by letting SES compose, it does so whenever it can ([`Content::Auto`]).
//!
//! **Yes and no.** The status line decides. A body is read within bounds of size and time, and one that
//! never arrives changes nothing; one that arrives whole without a message id was not written by SES,
//! and what became of the e-mail is then uncertain. The keys that sign are masked in whatever is said.
//!
//! Absent on purpose: the SDK's client of SES, whose hundred other operations took a tenth of a build and whose
//! retries had to be turned off; templates; results for single recipients, which SES does not give; and a deadline
//! for the whole exchange, which is the caller's to enforce by dropping the future.

mod answer;
mod client;
mod config;
mod connector;
mod endpoint;
mod keys;
mod request;

use std::fmt;

use async_trait::async_trait;
use recado_core::{Fault, Outcome, Payload};
use recado_transport::{DataFault, Delivery, Transport, TransportKind, data};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use client::Client;
pub use config::{ConfigError, Content, SesConfig, SesCredentials};
use keys::KnownKeys;

pub struct Ses {
    config: SesConfig,
    client: OnceCell<Client>,
    keys: KnownKeys,
}

impl Ses {
    /// Checks the configuration. Region and credentials are looked up by the first delivery.
    pub fn new(config: SesConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Ses { config, client: OnceCell::new(), keys: KnownKeys::default() })
    }

    async fn exchange(&self, delivery: Delivery<'_>) -> Result<Option<Payload>, Fault> {
        let started = Instant::now();
        let email = request::read(&delivery.job.data, self.config.content);
        let email = email.map_err(|faults| data::unusable(&faults))?;
        let client = self.client.get_or_try_init(|| Client::connect(&self.config)).await?;
        let keys = client.keys.get(delivery.now, &self.keys).await?;
        let body = request::build(&self.config, &email, delivery.job).to_string().into_bytes();
        let mut request = client.request(body, keys, delivery.now)?;
        request.trace(delivery.traceparent());
        let left = || delivery.timeout.saturating_sub(started.elapsed());
        let response = client.http.send(request, left()).await?;
        answer::read(response, client.http.body_wait(left()), delivery.now).await
    }
}

#[async_trait]
impl Transport for Ses {
    fn kind(&self) -> TransportKind {
        TransportKind::Ses
    }

    fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>> {
        request::read(data, self.config.content).map(drop)
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        match self.exchange(delivery).await {
            Ok(answer) => Outcome::Accepted { answer: answer.map(|json| self.keys.redact_json(json)) },
            Err(mut fault) => {
                self.keys.redact_fault(&mut fault);
                Outcome::Failed(fault)
            }
        }
    }
}

impl fmt::Debug for Ses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ses").field(&self.config).finish()
    }
}
