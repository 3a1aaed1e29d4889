//! E-mail by AWS SES v2, with the official SDK and its credential chain.
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
//! Absent on purpose: the SDK's retries and its watch over slow streams (see `client`), templates,
//! results for single recipients, which SES does not give, and a deadline for the whole exchange, which
//! is the caller's to enforce by dropping the future.

mod answer;
mod client;
mod config;
mod failure;
mod keys;
mod request;

use std::fmt;

use async_trait::async_trait;
use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::error::SdkError;
use aws_sdk_sesv2::operation::send_email::{SendEmailError, SendEmailOutput};
use recado_core::trace::TRACEPARENT;
use recado_core::{Fault, Outcome, Payload, Timestamp};
use recado_transport::{DataFault, Delivery, Transport, TransportKind, data};
use serde_json::json;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use answer::{Head, RequestProgress, Stage};
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
        let client = self.client.get_or_try_init(|| client::connect(&self.config, &self.keys)).await?;

        let (listener, heard) = answer::listener();
        let request = request::build(client, &self.config, &email, delivery.job)
            .map_err(|_| Fault::invalid_payload("no request can be made of this data"))?;
        let traceparent = delivery.traceparent().map(|parent| parent.to_string());
        let sending = request.customize().interceptor(listener).mutate_request(move |request| {
            if let Some(parent) = &traceparent {
                request.headers_mut().insert(TRACEPARENT, parent.clone());
            }
        });
        let sending = sending.send();
        let head_only = async {
            let head = heard.head().await;
            // The status has settled it: a body that dawdles must not turn a yes into a timeout.
            let left = delivery.timeout.saturating_sub(started.elapsed());
            sleep(self.config.answer_wait.min(left / 2)).await;
            head
        };
        tokio::select! {
            biased;
            answer = sending => match answer {
                Ok(answer) => receipt(&answer),
                Err(error) => self.judge(&heard, &error, delivery.now),
            },
            head = head_only => by_status(&head, None, delivery.now),
        }
    }

    /// Judges an error of the SDK by how far the request had come.
    fn judge(
        &self,
        heard: &RequestProgress,
        error: &SdkError<SendEmailError>,
        now: Timestamp,
    ) -> Result<Option<Payload>, Fault> {
        match heard.stage() {
            Stage::Preparing => Err(failure::unsigned(error)),
            Stage::Transmitting => Err(failure::unanswered(error, self.scheme())),
            Stage::Answered(head) if head.is_yes() && error.as_service_error().is_some() => {
                Err(failure::not_ses())
            }
            Stage::Answered(head) => by_status(&head, Some(error), now),
        }
    }

    fn scheme(&self) -> failure::Scheme {
        let url = self.config.endpoint_url.as_ref();
        if url.is_none_or(|url| url.scheme() == "https") {
            failure::Scheme::Https
        } else {
            failure::Scheme::Http
        }
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

/// SES's own id of the message, by which its events and its support know it.
fn receipt(answer: &SendEmailOutput) -> Result<Option<Payload>, Fault> {
    let id = answer.message_id().ok_or_else(failure::not_ses)?;
    Ok(Payload::new(&json!({ "messageId": id }).to_string()).ok())
}

/// The body was lost or says no.
fn by_status(
    head: &Head,
    error: Option<&SdkError<SendEmailError>>,
    now: Timestamp,
) -> Result<Option<Payload>, Fault> {
    if head.is_yes() { Ok(None) } else { Err(failure::refusal(head, error, now)) }
}
