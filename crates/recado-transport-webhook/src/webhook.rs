//! The transport: the receiver of a job's payload, and the headers that go with it.
//!
//! The receiver sees the payload's own bytes and, in the headers, the job's id (the same on every attempt),
//! the attempt's time and a signature over all three. A 2xx is a yes; a redirect is a no, for it would carry
//! the payload to an address that was never checked.
//!
//! Absent on purpose: judging a 410 or counting failures, which the engine does to switch endpoints off.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::header::HeaderValue;
use recado_core::{CompanyId, EngineCode, Fault, NetworkKind, Outcome, Payload, Timestamp, TraceParent};
use recado_transport::http::{Answer, Bounds, HttpClient, IDEMPOTENCY_KEY, Request, lookup_timeout};
use recado_transport::{DataFault, Delivery, Receiver, Transport, TransportKind, Wanted, data, patience};
use serde_json::json;
use tokio::time::Instant;
use url::Url;

use crate::guard::Scheme;
use crate::lookup::GuardedLookup;
use crate::message::{self, Destination};
use crate::sign::signatures;
use crate::{Guard, Lookup, Secret, SystemLookup};

/// Half of the route's timeout of ten seconds: a connection that fails by then sent nothing.
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
const ANSWER_WAIT_DEFAULT: Duration = Duration::from_secs(2);
const TEST_EVENT: &str = "endpoint.test";

/// The transport's view of an endpoint.
#[derive(Clone, Debug)]
pub struct Target {
    pub url: Url,
    /// The newest first, and at least one. A secret that is being replaced stays until every receiver
    /// knows the new one: each signs.
    pub secrets: Vec<Secret>,
    pub enabled: bool,
}

/// Looks up endpoints. Asked at every attempt, so a change holds from the next one on.
#[async_trait]
pub trait Endpoints: Send + Sync + fmt::Debug {
    /// The company's endpoint of that id. Another company's is none: it must not even be told apart. A fault is a
    /// shortage of our own: nothing is known of the endpoint.
    async fn target(&self, company: &CompanyId, endpoint_id: &str) -> Result<Option<Target>, Fault>;
}

#[derive(Clone, Debug)]
pub struct WebhookConfig {
    pub guard: Guard,
    /// Signs for jobs that name a URL themselves. Without one they are refused.
    pub secret: Option<Secret>,
    /// Bounds name lookup, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Bounds the wait for an answer's body once its status is known.
    pub answer_wait: Duration,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        WebhookConfig {
            guard: Guard::default(),
            secret: None,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            answer_wait: ANSWER_WAIT_DEFAULT,
        }
    }
}

#[derive(Debug)]
pub struct Webhook {
    guard: Arc<Guard>,
    secret: Option<Secret>,
    endpoints: Arc<dyn Endpoints>,
    /// Two clients, because what a name may lead to depends on whether the connection is TLS.
    secure: HttpClient,
    plain: HttpClient,
}

/// The result of an endpoint's test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestResult {
    pub status: u16,
    pub took: Duration,
}

/// One thing to post.
struct Post<'a> {
    id: &'a str,
    event: &'a str,
    body: &'a str,
    traceparent: Option<TraceParent>,
}

impl Webhook {
    pub fn new(config: WebhookConfig, endpoints: Arc<dyn Endpoints>) -> Result<Self, rustls::Error> {
        Webhook::with_lookup(config, endpoints, Arc::new(SystemLookup))
    }

    /// Makes the transport with another source of addresses. Whatever that answers passes the guard.
    pub fn with_lookup(
        config: WebhookConfig,
        endpoints: Arc<dyn Endpoints>,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self, rustls::Error> {
        let guard = Arc::new(config.guard);
        let client = |scheme| {
            let timeout = lookup_timeout(config.connect_timeout);
            let (guard, lookup) = (Arc::clone(&guard), Arc::clone(&lookup));
            let lookup = GuardedLookup { guard, lookup, scheme, timeout };
            let client = HttpClient::new(config.connect_timeout, config.answer_wait)?;
            Ok::<_, rustls::Error>(client.with_resolver(Arc::new(lookup)))
        };
        let (secure, plain) = (client(Scheme::Https)?, client(Scheme::Http)?);
        Ok(Webhook { guard, secret: config.secret, endpoints, secure, plain })
    }

    /// The guard, for a caller that accepts an endpoint's address and refuses a bad one at once.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Posts a signed `endpoint.test` at once, switched on or not, and gives up after `timeout`.
    pub async fn test(
        &self,
        target: &Target,
        id: &str,
        now: Timestamp,
        timeout: Duration,
    ) -> Result<TestResult, Fault> {
        let body = json!({ "type": TEST_EVENT, "timestamp": now, "data": {} }).to_string();
        let post = Post { id, event: TEST_EVENT, body: &body, traceparent: None };
        let started = Instant::now();
        let posting = self.post(target, post, Bounds { now, timeout, answer: Wanted::Receipt });
        match patience::within(timeout, posting).await {
            Ok(answer) => Ok(TestResult { status: answer?.status.as_u16(), took: started.elapsed() }),
            Err(_) => {
                let words = format!("no answer within {}", recado_core::time::show_duration(timeout));
                Err(Fault { uncertain: true, ..Fault::network(NetworkKind::Timeout, &words) })
            }
        }
    }

    async fn deliver(&self, delivery: Delivery<'_>) -> Result<Answer, Fault> {
        let job = delivery.job;
        let message = message::read(&job.data, &self.guard, self.secret.as_ref())
            .map_err(|faults| data::unusable(&faults))?;
        let target = match message.to {
            Destination::Url(target) => target,
            Destination::Endpoint(id) => self.endpoint(&job.company, &id).await?,
        };
        let traceparent = delivery.traceparent();
        let post = Post { id: job.id.as_str(), event: &message.event, body: message.body, traceparent };
        self.post(&target, post, delivery.into()).await
    }

    async fn endpoint(&self, company: &CompanyId, id: &str) -> Result<Target, Fault> {
        let unknown = "the company has no endpoint of this id; create it, and replay the job with its id";
        let disabled =
            "the endpoint is switched off; repair the receiver, switch the endpoint on and replay the job";
        // The route's classifier judges both as permanent: such a job goes to the dead letter queue at once.
        match self.endpoints.target(company, id).await? {
            None => Err(Fault::answer(EngineCode::EndpointUnknown.as_str(), unknown)),
            Some(target) if !target.enabled => {
                Err(Fault::answer(EngineCode::EndpointDisabled.as_str(), disabled))
            }
            Some(target) => Ok(target),
        }
    }

    async fn post(&self, target: &Target, post: Post<'_>, bounds: Bounds) -> Result<Answer, Fault> {
        self.guard.check_url(&target.url)?;
        let request = request(target, post, bounds.now)?;
        let client = if target.url.scheme() == "https" { &self.secure } else { &self.plain };
        client.exchange(request, bounds).await
    }
}

#[async_trait]
impl Transport for Webhook {
    fn kind(&self) -> TransportKind {
        TransportKind::Webhook
    }

    fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>> {
        message::read(data, &self.guard, self.secret.as_ref()).map(drop)
    }

    fn receiver(&self, data: &Payload) -> Option<Receiver> {
        message::receiver(data)
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        self.deliver(delivery).await.map(|answer| answer.json).into()
    }
}

fn request(target: &Target, post: Post<'_>, now: Timestamp) -> Result<Request, Fault> {
    let Post { id, event, body, traceparent } = post;
    let timestamp = now.as_millis().div_euclid(1_000).to_string();
    let signature = signatures(&target.secrets, id, &timestamp, body.as_bytes());
    if signature.is_empty() {
        return Err(Fault::invalid_payload("the endpoint has no secret to sign with; give it one"));
    }
    let headers = [
        ("webhook-id", id),
        ("webhook-timestamp", &timestamp),
        ("webhook-signature", &signature),
        ("webhook-event", event),
        (IDEMPOTENCY_KEY, id),
    ];
    let mut request = Request::json(target.url.clone(), body.as_bytes().to_vec());
    for (name, value) in headers {
        let value = HeaderValue::from_str(value)
            .map_err(|_| Fault::invalid_payload("the job's id or event cannot be sent as a header"))?;
        request.headers.insert(name, value);
    }
    request.trace(traceparent);
    Ok(request)
}
