//! Any provider that takes a request over HTTP and says yes with a 2xx.
//!
//! One client with one pool of connections serves all jobs of a provider. Every attempt carries the
//! job's id as `Idempotency-Key`. The status line alone decides between accepted and failed; a body is
//! read within bounds of size and time, and whatever goes wrong with it afterwards changes nothing.
//!
//! Absent on purpose: following redirects (a 3xx is a failure, for it would carry credentials to
//! another host), retries of our own, cookies, decompression, proxies from the environment, and a
//! deadline for the whole exchange, which is the caller's to enforce by dropping the future.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::reason::clip;
use recado_core::{Fault, Outcome, Payload, Timestamp, retry_after};
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};

use crate::data;
use crate::{DataFault, Delivery, Transport, Wanted};

mod config;
mod failure;
mod request;

pub use config::{ConfigError, HttpConfig};
pub(crate) use request::Request;

/// Bytes at most of a provider's answer that are kept with the job.
pub const ANSWER_KEPT_MAX_BYTES: usize = 16 * 1_024;
/// Bytes at most of an answer that somebody waits for.
pub const ANSWER_WANTED_MAX_BYTES: usize = 1_024 * 1_024;
/// Bytes at most that are read of what a provider says about a failure.
pub const FAULT_TEXT_MAX_BYTES: usize = 2 * 1_024;

/// A hundred years: what asks for more is garbage.
const RETRY_AFTER_MAX_MS: f64 = 3.2e12;
const POOL_IDLE_MAX: usize = 64;
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const USER_AGENT: &str = concat!("recado/", env!("CARGO_PKG_VERSION"));

pub struct Http {
    client: Client,
    base: Url,
    own_headers: HeaderMap,
    answer_wait: Duration,
}

/// A yes, and what came with it.
pub(crate) struct Answer {
    pub status: StatusCode,
    /// Only if it is JSON, whole and small.
    pub json: Option<Payload>,
    pub retry_after: Option<Duration>,
}

impl Http {
    pub fn new(config: HttpConfig) -> Result<Self, ConfigError> {
        let base = config.checked_base()?;
        let own_headers = config.checked_headers()?;
        let client = Client::builder()
            .user_agent(USER_AGENT)
            .default_headers(own_headers.clone())
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .connect_timeout(config.connect_timeout)
            .pool_max_idle_per_host(POOL_IDLE_MAX)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .build()?;
        Ok(Http { client, base, own_headers, answer_wait: config.answer_wait })
    }

    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// Sends one request and brings back a 2xx answer, or whatever stood in its way.
    pub(crate) async fn exchange(&self, request: Request, delivery: Delivery<'_>) -> Result<Answer, Fault> {
        let Request { method, url, mut headers, body } = request;
        let key = HeaderValue::from_str(delivery.idempotency_key())
            .map_err(|_| Fault::invalid_payload("the job's id cannot be sent as a header"))?;
        headers.insert(request::IDEMPOTENCY_KEY, key);
        let started = tokio::time::Instant::now();
        let sending = self.client.request(method, url).headers(headers).body(body).send();
        let response = sending.await.map_err(|error| failure::fault_of(&error))?;

        let status = response.status();
        let retry_after = retry_after(response.headers(), delivery.now);
        // The status has settled it: a body that dawdles must not turn a yes into a timeout.
        let left = delivery.timeout.saturating_sub(started.elapsed());
        let wait = self.answer_wait.min(left / 2);
        if status.is_success() {
            let body = match delivery.answer {
                Wanted::Receipt => Body::read(response, ANSWER_KEPT_MAX_BYTES, wait).await,
                Wanted::Answer => Body::read(response, ANSWER_WANTED_MAX_BYTES, left).await,
            };
            return Ok(Answer { status, json: body.json(), retry_after });
        }
        let body = Body::read(response, FAULT_TEXT_MAX_BYTES, wait).await;
        Err(Fault { retry_after, ..refusal(status, &body.text()) })
    }
}

#[async_trait]
impl Transport for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>> {
        request::read(data, &self.base, &self.own_headers).map(drop)
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        let request = match request::read(&delivery.job.data, &self.base, &self.own_headers) {
            Ok(request) => request,
            Err(faults) => return Outcome::Failed(data::unusable(&faults)),
        };
        match self.exchange(request, delivery).await {
            Ok(answer) => Outcome::Accepted { answer: answer.json },
            Err(fault) => Outcome::Failed(fault),
        }
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

/// A no with this status. A redirect often comes without a word, so it gets one.
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
    let millis = value("retry-after-ms").and_then(|value| value.trim().parse::<f64>().ok());
    match millis.filter(|millis| (0.0..=RETRY_AFTER_MAX_MS).contains(millis)) {
        Some(millis) => Some(Duration::from_millis(millis.ceil() as u64)),
        None => retry_after::parse(value(RETRY_AFTER.as_str())?, now),
    }
}

/// What could be read of a body within its bounds.
struct Body {
    bytes: Vec<u8>,
    whole: bool,
}

impl Body {
    async fn read(mut response: Response, max_bytes: usize, wait: Duration) -> Body {
        let mut bytes = Vec::new();
        let reading = async {
            loop {
                match response.chunk().await {
                    Ok(Some(chunk)) => {
                        let room = max_bytes - bytes.len();
                        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                        if chunk.len() > room {
                            return false;
                        }
                    }
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
        };
        let whole = tokio::time::timeout(wait, reading).await.unwrap_or(false);
        Body { bytes, whole }
    }

    fn json(&self) -> Option<Payload> {
        let text = str::from_utf8(&self.bytes).ok().filter(|_| self.whole)?;
        Payload::new(text).ok()
    }

    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        // The cut may have gone through a character.
        let end = if self.whole { &*text } else { text.trim_end_matches(char::REPLACEMENT_CHARACTER) };
        end.trim().to_owned()
    }
}
