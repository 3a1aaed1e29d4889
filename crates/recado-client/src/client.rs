//! The client: its settings, the calls that need more than a row, and the way every call takes.

use std::time::Duration;

use recado_wire::audit::{ErasureDone, ErasureRequest};
use recado_wire::calls::{self, CallAnswer, CallRequest};
use recado_wire::events::{EVENT_STREAM, EventQuery, LAST_EVENT_ID_HEADER};
use recado_wire::health::Readiness;
use recado_wire::jobs::{BatchAnswer, JobAccepted, JobRequest};
use recado_wire::leases::{LeaseRequest, Leases};
use recado_wire::rules::{SuggestionList, SuggestionQuery};
use recado_wire::simulations::{Simulation, SimulationRequest, WORK_MAX};
use recado_wire::{ACTOR_HEADER, NDJSON};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde::de::DeserializeOwned;

use crate::call::{Answer, Call, RetrySafety, open, origin, send};
use crate::error::ClientError;
use crate::events::EventStream;

/// Longest time of a call by default. A long poll gets its wait on top.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Much of the trail is read, or written anew.
const TRAIL_TIMEOUT: Duration = Duration::from_secs(10 * 60);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Speaks to one server. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    headers: HeaderMap,
    timeout: Duration,
}

impl Client {
    pub fn new(base_url: &str, token: Option<&str>) -> Result<Self, ClientError> {
        let base: Url = base_url.parse().map_err(|error| {
            ClientError::Setup(format!(
                "`{base_url}` is not a URL ({error}); write one such as http://127.0.0.1:7400"
            ))
        })?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(ClientError::Setup(format!(
                "`{base_url}` is not http or https; write one such as http://127.0.0.1:7400"
            )));
        }
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, secret_header(token)?);
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            // Below the server's own idle time, so that it does not hang up on a request on its way.
            .pool_idle_timeout(Duration::from_secs(60))
            .redirect(reqwest::redirect::Policy::none())
            // Libraries do not read the environment; to use a proxy, name it as the server.
            .no_proxy()
            .build()
            .map_err(|error| ClientError::Setup(format!("cannot set up TLS: {error}")))?;
        Ok(Client { http, base, headers, timeout: TIMEOUT_DEFAULT })
    }

    /// Names who acts, for the audit trail.
    pub fn with_actor(mut self, actor: &str) -> Result<Self, ClientError> {
        let value = HeaderValue::from_bytes(actor.as_bytes())
            .map_err(|_| ClientError::Setup("an actor's name fits on one line".to_owned()))?;
        self.headers.insert(ACTOR_HEADER, value);
        Ok(self)
    }

    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Enqueues one job. Makes its id when there is none.
    pub async fn enqueue(&self, mut job: JobRequest) -> Result<JobAccepted, ClientError> {
        assign_id(&mut job);
        self.answer(self.post(&["v1", "jobs"], RetrySafety::Safe).json(&job)?).await
    }

    /// Enqueues many jobs, each on its own merits; answers in order.
    pub async fn enqueue_batch(
        &self,
        jobs: impl IntoIterator<Item = JobRequest>,
    ) -> Result<BatchAnswer, ClientError> {
        let mut lines = Vec::new();
        for mut job in jobs {
            assign_id(&mut job);
            lines.extend(encode_line(&job)?);
        }
        self.enqueue_lines(lines).await
    }

    pub(crate) async fn enqueue_lines(&self, lines: Vec<u8>) -> Result<BatchAnswer, ClientError> {
        let mut call = self.post(&["v1", "jobs", "batch"], RetrySafety::Safe);
        call.body = Some((NDJSON, lines.into()));
        self.answer(call).await
    }

    /// Removes one person's data from the trail, dead letters and jobs.
    pub async fn erase(&self, request: &ErasureRequest) -> Result<ErasureDone, ClientError> {
        let mut call = self.post(&["v1", "audit", "erasures"], RetrySafety::Safe).json(request)?;
        call.timeout = call.timeout.max(TRAIL_TIMEOUT);
        self.answer(call).await
    }

    /// Lists errors that deserve a classification rule, learned from the audit trail.
    pub async fn rule_suggestions(&self, query: &SuggestionQuery) -> Result<SuggestionList, ClientError> {
        let call = self.call(Method::GET, &["v1", "rules", "suggestions"], RetrySafety::Safe);
        let mut call = call.with(self.http(), query)?;
        call.timeout = call.timeout.max(TRAIL_TIMEOUT);
        self.answer(call).await
    }

    /// Leases jobs, waiting as long as the request says.
    pub async fn lease(&self, request: &LeaseRequest) -> Result<Leases, ClientError> {
        let mut call = self.post(&["v1", "leases"], RetrySafety::IfUnsent).json(request)?;
        call.timeout += Duration::from_millis(request.wait_ms.unwrap_or(0));
        self.answer(call).await
    }

    /// Asks a provider and waits, as long as the request or else its route says.
    pub async fn call_provider(&self, request: &CallRequest) -> Result<CallAnswer, ClientError> {
        let mut call = self.post(&["v1", "calls"], RetrySafety::IfUnsent).json(request)?;
        call.timeout += Duration::from_millis(request.timeout_ms.unwrap_or(calls::TIMEOUT_MAX_MS));
        self.answer(call).await
    }

    /// Simulates a route while its provider is down.
    pub async fn simulate(&self, request: &SimulationRequest) -> Result<Simulation, ClientError> {
        let mut call = self.post(&["v1", "simulations"], RetrySafety::IfUnsent).json(request)?;
        call.timeout += WORK_MAX;
        self.answer(call).await
    }

    pub async fn remove_endpoint(&self, id: &str) -> Result<(), ClientError> {
        self.delete(&["v1", "endpoints", id]).await
    }

    /// Takes the mark off an account.
    pub async fn clear_account(&self, provider: &str, company_id: &str) -> Result<(), ClientError> {
        self.delete(&["v1", "accounts", provider, company_id]).await
    }

    /// Streams events from now on, or after the query's last one.
    pub async fn events(&self, query: EventQuery) -> Result<EventStream, ClientError> {
        EventStream::open(self.clone(), query).await
    }

    /// Asks whether the server is ready; a no is an answer, too.
    pub async fn ready(&self) -> Result<Readiness, ClientError> {
        let answer = self.send(&self.get(&["readyz"])).await?;
        if answer.status == reqwest::StatusCode::SERVICE_UNAVAILABLE {
            answer.read_any()
        } else {
            answer.read()
        }
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    pub(crate) fn request(&self, method: Method, url: reqwest::Url) -> reqwest::RequestBuilder {
        self.http.request(method, url).headers(self.headers.clone())
    }

    pub(crate) fn get(&self, path: &[&str]) -> Call {
        self.call(Method::GET, path, RetrySafety::Safe)
    }

    pub(crate) fn post(&self, path: &[&str], repeat: RetrySafety) -> Call {
        self.call(Method::POST, path, repeat)
    }

    pub(crate) fn call(&self, method: Method, path: &[&str], repeat: RetrySafety) -> Call {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        Call { method, url, body: None, repeat, timeout: self.timeout }
    }

    async fn send(&self, call: &Call) -> Result<Answer, ClientError> {
        send(call, |method, url| self.request(method, url)).await
    }

    /// Begins to listen, after the last event heard if there is one.
    pub(crate) async fn listen(
        &self,
        query: &EventQuery,
        last_event_id: Option<&str>,
    ) -> Result<reqwest::Response, ClientError> {
        let call = self.get(&["v1", "events"]).query(&self.http, query)?;
        let mut request = self.request(Method::GET, call.url.clone()).header(ACCEPT, EVENT_STREAM);
        if let Some(id) = last_event_id {
            request = request.header(LAST_EVENT_ID_HEADER, id);
        }
        open(&call, request).await
    }

    /// The address of the server, for messages.
    pub(crate) fn origin(&self) -> String {
        origin(&self.base)
    }

    /// Deletes a thing; nothing is left to answer with.
    async fn delete(&self, path: &[&str]) -> Result<(), ClientError> {
        self.send(&self.call(Method::DELETE, path, RetrySafety::IfUnsent)).await?.succeeded()
    }

    pub(crate) async fn answer<T: DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        self.send(&call).await?.read()
    }
}

fn secret_header(token: &str) -> Result<HeaderValue, ClientError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
        .map_err(|_| ClientError::Setup("the token holds characters that no header can carry".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// With an id of its own a job can be sent twice and is enqueued once.
pub(crate) fn assign_id(job: &mut JobRequest) {
    job.job_id.get_or_insert_with(|| uuid::Uuid::now_v7().to_string());
}

/// A job as a line of NDJSON.
pub(crate) fn encode_line(job: &JobRequest) -> Result<Vec<u8>, ClientError> {
    let mut line = serde_json::to_vec(job)
        .map_err(|error| ClientError::Setup(format!("`data` is not JSON: {error}")))?;
    // Data is passed on as it was written. Line ends in JSON are only ever layout: in texts they are escaped.
    for byte in line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
    line.push(b'\n');
    Ok(line)
}
