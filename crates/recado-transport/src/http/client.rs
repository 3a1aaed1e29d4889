//! One exchange over HTTP: a request goes out, and a 2xx comes back or whatever stood in its way.
//!
//! Shared by every transport that speaks HTTP. It does not ask where a request leads: the transport that makes
//! one answers for its address.

use std::time::Duration;

use recado_core::reason::clip;
use recado_core::{Fault, NetworkKind, Payload, Timestamp, retry_after};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, StatusCode};
use rustls::ClientConfig;

use super::{
    ANSWER_KEPT_MAX_BYTES, ANSWER_WANTED_MAX_BYTES, FAULT_TEXT_MAX_BYTES, FaultError, Request, failure,
};
use crate::tls;
use crate::{Delivery, Wanted, shortage};

const POOL_IDLE_MAX: usize = 64;
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const USER_AGENT: &str = concat!("recado/", env!("CARGO_PKG_VERSION"));

/// A pool of connections, and how long an answer's body is waited for.
#[derive(Debug)]
pub struct HttpClient {
    client: Client,
    answer_wait: Duration,
}

/// Share of a lookup in the time that connecting has: a lookup without an answer must be told from a provider
/// that does not answer.
pub fn lookup_timeout(connect_timeout: Duration) -> Duration {
    connect_timeout.mul_f64(0.8)
}

/// The operating system's resolver, for so long.
#[derive(Clone, Copy, Debug)]
struct SystemResolver {
    timeout: Duration,
}

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let timeout = self.timeout;
        Box::pin(async move {
            let lookup = tokio::net::lookup_host((name.as_str(), 0));
            match tokio::time::timeout(timeout, lookup).await {
                Ok(found) => Ok(Box::new(found?.collect::<Vec<_>>().into_iter()) as Addrs),
                Err(_) => Err(FaultError(shortage::no_answer_to_lookup()).into()),
            }
        })
    }
}

/// Limits of one exchange, and the part of its answer that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The time when it started.
    pub now: Timestamp,
    /// Time that it may take before the caller gives up on it.
    pub timeout: Duration,
    pub answer: Wanted,
}

impl From<Delivery<'_>> for Bounds {
    fn from(delivery: Delivery<'_>) -> Self {
        Bounds { now: delivery.now, timeout: delivery.timeout, answer: delivery.answer }
    }
}

/// A 2xx answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    /// Only if it is JSON, whole and small.
    pub json: Option<Payload>,
    pub body_end: BodyEnd,
    pub retry_after: Option<Duration>,
}

/// The point up to which a body was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// Its end: there is no more of it than is known.
    Whole,
    /// The bound on its size.
    TooLong,
    /// The connection was lost or the time was over before its end.
    BrokenOff,
}

impl HttpClient {
    /// Makes a client without redirects, retries and proxies. `connect_timeout` bounds name lookup, TCP and TLS
    /// together.
    pub fn builder(connect_timeout: Duration) -> ClientBuilder {
        Self::proxied_builder(connect_timeout).no_proxy()
    }

    /// Makes the same client, with the proxies that the environment names.
    pub fn proxied_builder(connect_timeout: Duration) -> ClientBuilder {
        let builder = match tls::system_config() {
            Ok(config) => {
                let mut config = ClientConfig::clone(&config);
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                Client::builder().tls_backend_preconfigured(config)
            }
            // The client reads the authorities itself, and says what is wrong with them.
            Err(_) => Client::builder(),
        };
        builder
            .user_agent(USER_AGENT)
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(connect_timeout)
            .dns_resolver(SystemResolver { timeout: lookup_timeout(connect_timeout) })
            .pool_max_idle_per_host(POOL_IDLE_MAX)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
    }

    /// `answer_wait` bounds the wait for an answer's body once its status is known.
    pub fn new(builder: ClientBuilder, answer_wait: Duration) -> Result<Self, reqwest::Error> {
        Ok(HttpClient { client: builder.build()?, answer_wait })
    }

    /// Sends one request and returns the head of its answer, whatever the status.
    pub async fn send(&self, request: Request) -> Result<Response, Fault> {
        let Request { method, url, headers, body } = request;
        let sending = self.client.request(method, url).headers(headers).body(body).send();
        sending.await.map_err(|error| failure::fault_of(&error))
    }

    /// Returns the longest wait for a body if the exchange has `left` to go. The status has settled it: a body that
    /// dawdles must not turn a yes into a timeout.
    pub fn body_wait(&self, left: Duration) -> Duration {
        self.answer_wait.min(left / 2)
    }

    /// Sends one request and brings back a 2xx answer, or whatever stood in its way.
    pub async fn exchange(&self, request: Request, bounds: Bounds) -> Result<Answer, Fault> {
        let started = tokio::time::Instant::now();
        let response = self.send(request).await?;

        let status = response.status();
        let retry_after = retry_after(response.headers(), bounds.now);
        let left = bounds.timeout.saturating_sub(started.elapsed());
        let wait = self.body_wait(left);
        if status.is_success() {
            let body = match bounds.answer {
                Wanted::Receipt => Body::read(response, ANSWER_KEPT_MAX_BYTES, wait).await,
                Wanted::Answer => Body::read(response, ANSWER_WANTED_MAX_BYTES, left).await,
            };
            if bounds.answer == Wanted::Answer && body.end == BodyEnd::BrokenOff {
                return Err(answer_lost(status));
            }
            return Ok(Answer { status, json: body.json(), body_end: body.end, retry_after });
        }
        let body = Body::read(response, FAULT_TEXT_MAX_BYTES, wait).await;
        Err(Fault { retry_after, ..refusal(status, &body.text()) })
    }
}

/// Describes a 2xx answer whose body broke off, where the body was needed.
pub(crate) fn answer_lost(status: StatusCode) -> Fault {
    let text =
        format!("the provider answered {status}, and the body of its answer broke off; it may have taken it");
    Fault { uncertain: true, ..Fault::network(NetworkKind::Protocol, &text) }
}

/// Describes a refusal with this status. A redirect often has no text, so it gets one.
pub(crate) fn refusal(status: StatusCode, text: &str) -> Fault {
    let text = if text.trim().is_empty() && status.is_redirection() {
        "redirects are not followed; configure the address that it leads to"
    } else {
        text
    };
    let text = clip(text, FAULT_TEXT_MAX_BYTES);
    Fault { status: Some(status.as_u16()), ..Fault::answer(status.as_str(), text) }
}

/// Milliseconds where the provider gives them, as OpenAI does, for they are the finer wish.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = |name: &str| headers.get(name)?.to_str().ok();
    let millis = value("retry-after-ms").and_then(retry_after::parse_millis);
    millis.or_else(|| retry_after::parse(value(RETRY_AFTER.as_str())?, now))
}

/// The part of a body that was read within its bounds.
#[derive(Debug)]
pub struct Body {
    pub bytes: Vec<u8>,
    pub end: BodyEnd,
}

impl Body {
    pub async fn read(mut response: Response, max_bytes: usize, wait: Duration) -> Body {
        let mut bytes = Vec::new();
        let reading = async {
            loop {
                match response.chunk().await {
                    Ok(Some(chunk)) => {
                        let room = max_bytes - bytes.len();
                        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                        if chunk.len() > room {
                            return BodyEnd::TooLong;
                        }
                    }
                    Ok(None) => return BodyEnd::Whole,
                    Err(_) => return BodyEnd::BrokenOff,
                }
            }
        };
        let end = tokio::time::timeout(wait, reading).await.unwrap_or(BodyEnd::BrokenOff);
        Body { bytes, end }
    }

    fn json(&self) -> Option<Payload> {
        let text = str::from_utf8(&self.bytes).ok().filter(|_| self.end == BodyEnd::Whole)?;
        Payload::new(text).ok()
    }

    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        // The cut may have gone through a character.
        let end = if self.end == BodyEnd::Whole {
            &*text
        } else {
            text.trim_end_matches(char::REPLACEMENT_CHARACTER)
        };
        end.trim().to_owned()
    }
}
