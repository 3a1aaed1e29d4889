//! One method per call.

use std::time::Duration;

use recado_core::Payload;
use recado_wire::accounts::{AccountList, AccountQuery};
use recado_wire::alerts::AlertList;
use recado_wire::audit::{AuditList, AuditQuery, AuditTrail, ErasureDone, ErasureRequest};
use recado_wire::calls::{self, CallAnswer, CallRequest};
use recado_wire::decisions::{Decision, DecisionRequest};
use recado_wire::dlq::{
    DeadLetter, DeadLetterList, DeadLetterQuery, DeadLetterStats, DeadLetterStatsQuery, DiscardRequest,
    Discarded, ReplayRequest, ReplayStarted,
};
use recado_wire::endpoints::{
    Endpoint, EndpointChange, EndpointList, EndpointQuery, EndpointRequest, EndpointTested,
};
use recado_wire::events::{EVENT_STREAM, EventQuery, LAST_EVENT_ID_HEADER};
use recado_wire::health::{Health, Readiness};
use recado_wire::holds::{Hold, HoldList, HoldQuery};
use recado_wire::jobs::{BatchAnswer, JobAccepted, JobCancelled, JobList, JobQuery, JobRequest, JobView};
use recado_wire::kpis::{KpiQuery, Kpis};
use recado_wire::leases::{
    ExtendRequest, FailRequest, LeaseExtended, LeaseRequest, LeaseSettled, Leases, SettleAnswer,
    SettleRequest, SucceedRequest,
};
use recado_wire::nodes::NodeList;
use recado_wire::providers::{
    BreakerRequest, FailureReport, PauseRequest, Permit, Provider, ProviderList, SuccessReport,
};
use recado_wire::routes::{Route, RouteList};
use recado_wire::tenants::{Tenant, TenantChange, TenantList, TenantQuery};
use recado_wire::{ACTOR_HEADER, NDJSON};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde::de::DeserializeOwned;

use crate::call::{Answer, Call, RetrySafety, open, origin, send};
use crate::error::ClientError;
use crate::events::EventStream;

/// Longest time of a call by default. A long poll gets its wait on top.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Whole months of the trail are written anew.
const ERASURE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

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

    pub async fn job(&self, job_id: &str) -> Result<JobView, ClientError> {
        self.answer(self.get(&["v1", "jobs", job_id])).await
    }

    pub async fn jobs(&self, query: &JobQuery) -> Result<JobList, ClientError> {
        self.answer(self.get(&["v1", "jobs"]).query(&self.http, query)?).await
    }

    /// Cancels a job that has not been sent.
    pub async fn cancel(&self, job_id: &str) -> Result<JobCancelled, ClientError> {
        self.answer(self.call(Method::DELETE, &["v1", "jobs", job_id], RetrySafety::Safe)).await
    }

    pub async fn audit(&self, job_id: &str) -> Result<AuditTrail, ClientError> {
        self.answer(self.get(&["v1", "jobs", job_id, "audit"])).await
    }

    /// Reads the audit trail, archived or not yet.
    pub async fn audit_trail(&self, query: &AuditQuery) -> Result<AuditList, ClientError> {
        self.answer(self.get(&["v1", "audit"]).query(&self.http, query)?).await
    }

    /// Removes one person's data from the trail, dead letters and jobs.
    pub async fn erase(&self, request: &ErasureRequest) -> Result<ErasureDone, ClientError> {
        let mut call = self.post(&["v1", "audit", "erasures"], RetrySafety::Safe).json(request)?;
        call.timeout = call.timeout.max(ERASURE_TIMEOUT);
        self.answer(call).await
    }

    /// Leases jobs, waiting as long as the request says.
    pub async fn lease(&self, request: &LeaseRequest) -> Result<Leases, ClientError> {
        let mut call = self.post(&["v1", "leases"], RetrySafety::IfUnsent).json(request)?;
        call.timeout += Duration::from_millis(request.wait_ms.unwrap_or(0));
        self.answer(call).await
    }

    pub async fn succeed(
        &self,
        lease_token: &str,
        result: Option<Payload>,
    ) -> Result<LeaseSettled, ClientError> {
        let call = self.post(&["v1", "leases", lease_token, "succeed"], RetrySafety::IfUnsent);
        self.answer(call.json(&SucceedRequest { result })?).await
    }

    pub async fn fail(&self, lease_token: &str, failure: &FailRequest) -> Result<LeaseSettled, ClientError> {
        self.answer(self.post(&["v1", "leases", lease_token, "fail"], RetrySafety::IfUnsent).json(failure)?)
            .await
    }

    pub async fn extend(&self, lease_token: &str, lease_ms: u64) -> Result<LeaseExtended, ClientError> {
        let call = self.post(&["v1", "leases", lease_token, "extend"], RetrySafety::Safe);
        self.answer(call.json(&ExtendRequest { lease_ms })?).await
    }

    /// Reports on many leases, each on its own; answers in order.
    pub async fn settle(&self, reports: &[SettleRequest]) -> Result<SettleAnswer, ClientError> {
        self.answer(self.post(&["v1", "leases", "settle"], RetrySafety::IfUnsent).json(&reports)?).await
    }

    /// Asks whether to retry a failed submission, and when.
    pub async fn decide(&self, request: &DecisionRequest) -> Result<Decision, ClientError> {
        self.answer(self.post(&["v1", "decisions"], RetrySafety::IfUnsent).json(request)?).await
    }

    pub async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<DeadLetterList, ClientError> {
        self.answer(self.get(&["v1", "dlq"]).query(&self.http, query)?).await
    }

    pub async fn dead_letter(&self, job_id: &str) -> Result<DeadLetter, ClientError> {
        self.answer(self.get(&["v1", "dlq", job_id])).await
    }

    pub async fn dead_letter_stats(
        &self,
        query: &DeadLetterStatsQuery,
    ) -> Result<DeadLetterStats, ClientError> {
        self.answer(self.get(&["v1", "dlq", "stats"]).query(&self.http, query)?).await
    }

    /// Puts a dead letter back in line; the same again while it is on its way changes nothing.
    pub async fn replay(&self, job_id: &str, request: &ReplayRequest) -> Result<ReplayStarted, ClientError> {
        self.answer(self.post(&["v1", "dlq", job_id, "replay"], RetrySafety::IfUnsent).json(request)?).await
    }

    /// Gives a dead letter up for good.
    pub async fn discard(&self, job_id: &str, reason: &str) -> Result<Discarded, ClientError> {
        let call = self.post(&["v1", "dlq", job_id, "discard"], RetrySafety::IfUnsent);
        self.answer(call.json(&DiscardRequest { reason: reason.to_owned() })?).await
    }

    /// Adds an endpoint; its secret is in the answer, and is never shown again.
    pub async fn add_endpoint(&self, request: &EndpointRequest) -> Result<Endpoint, ClientError> {
        self.answer(self.post(&["v1", "endpoints"], RetrySafety::IfUnsent).json(request)?).await
    }

    pub async fn endpoints(&self, query: &EndpointQuery) -> Result<EndpointList, ClientError> {
        self.answer(self.get(&["v1", "endpoints"]).query(&self.http, query)?).await
    }

    pub async fn endpoint(&self, id: &str) -> Result<Endpoint, ClientError> {
        self.answer(self.get(&["v1", "endpoints", id])).await
    }

    /// Changes what is given. A new secret is in the answer, and is never shown again.
    pub async fn change_endpoint(&self, id: &str, change: &EndpointChange) -> Result<Endpoint, ClientError> {
        let call = self.call(Method::PATCH, &["v1", "endpoints", id], RetrySafety::IfUnsent);
        self.answer(call.json(change)?).await
    }

    pub async fn remove_endpoint(&self, id: &str) -> Result<(), ClientError> {
        self.done(self.call(Method::DELETE, &["v1", "endpoints", id], RetrySafety::IfUnsent)).await
    }

    /// Switches an endpoint on again, with no failures to its name.
    pub async fn enable_endpoint(&self, id: &str) -> Result<Endpoint, ClientError> {
        self.answer(self.post(&["v1", "endpoints", id, "enable"], RetrySafety::Safe)).await
    }

    /// Posts a signed test to an endpoint. A refusal by the receiver is a result, not an error.
    pub async fn test_endpoint(&self, id: &str) -> Result<EndpointTested, ClientError> {
        self.answer(self.post(&["v1", "endpoints", id, "test"], RetrySafety::IfUnsent)).await
    }

    /// Asks a provider and waits, as long as the request or else its route says.
    pub async fn call_provider(&self, request: &CallRequest) -> Result<CallAnswer, ClientError> {
        let mut call = self.post(&["v1", "calls"], RetrySafety::IfUnsent).json(request)?;
        call.timeout += Duration::from_millis(request.timeout_ms.unwrap_or(calls::TIMEOUT_MAX_MS));
        self.answer(call).await
    }

    /// Accounts whose credential a provider no longer takes.
    pub async fn accounts(&self, query: &AccountQuery) -> Result<AccountList, ClientError> {
        self.answer(self.get(&["v1", "accounts"]).query(&self.http, query)?).await
    }

    /// Takes the mark off an account.
    pub async fn clear_account(&self, provider: &str, company_id: &str) -> Result<(), ClientError> {
        self.done(self.call(Method::DELETE, &["v1", "accounts", provider, company_id], RetrySafety::IfUnsent))
            .await
    }

    /// Every provider: its breaker, its limits, what waits for it.
    pub async fn providers(&self) -> Result<ProviderList, ClientError> {
        self.answer(self.get(&["v1", "providers"])).await
    }

    pub async fn provider(&self, name: &str) -> Result<Provider, ClientError> {
        self.answer(self.get(&["v1", "providers", name])).await
    }

    /// Opens or closes a provider's breaker by hand.
    pub async fn turn_breaker(&self, name: &str, request: &BreakerRequest) -> Result<Provider, ClientError> {
        self.answer(self.post(&["v1", "providers", name, "breaker"], RetrySafety::IfUnsent).json(request)?)
            .await
    }

    pub async fn pause_provider(&self, name: &str, request: &PauseRequest) -> Result<Provider, ClientError> {
        self.answer(self.post(&["v1", "providers", name, "pause"], RetrySafety::IfUnsent).json(request)?)
            .await
    }

    pub async fn resume_provider(&self, name: &str) -> Result<Provider, ClientError> {
        self.answer(self.post(&["v1", "providers", name, "resume"], RetrySafety::IfUnsent)).await
    }

    /// Lists the holds that answers from outside imposed.
    pub async fn holds(&self, query: &HoldQuery) -> Result<HoldList, ClientError> {
        self.answer(self.get(&["v1", "holds"]).query(&self.http, query)?).await
    }

    /// Lifts a hold on every node.
    pub async fn lift_hold(&self, id: &str, request: &PauseRequest) -> Result<Hold, ClientError> {
        self.answer(self.call(Method::DELETE, &["v1", "holds", id], RetrySafety::IfUnsent).json(request)?)
            .await
    }

    /// Asks whether the caller's own code may call a provider now; a no is an answer, too. After a yes,
    /// report the result by [`Client::report_success`] or [`Client::report_failure`].
    pub async fn permit(&self, name: &str) -> Result<Permit, ClientError> {
        self.answer(self.post(&["v1", "providers", name, "permit"], RetrySafety::IfUnsent)).await
    }

    pub async fn report_success(&self, name: &str, report: &SuccessReport) -> Result<Provider, ClientError> {
        self.answer(self.post(&["v1", "providers", name, "success"], RetrySafety::IfUnsent).json(report)?)
            .await
    }

    /// Only what the provider is to blame for is worth reporting.
    pub async fn report_failure(&self, name: &str, report: &FailureReport) -> Result<Provider, ClientError> {
        self.answer(self.post(&["v1", "providers", name, "failure"], RetrySafety::IfUnsent).json(report)?)
            .await
    }

    /// Every route: who carries it, what waits on it, what holds it back.
    pub async fn routes(&self) -> Result<RouteList, ClientError> {
        self.answer(self.get(&["v1", "routes"])).await
    }

    pub async fn pause_route(&self, name: &str, request: &PauseRequest) -> Result<Route, ClientError> {
        self.answer(self.post(&["v1", "routes", name, "pause"], RetrySafety::IfUnsent).json(request)?).await
    }

    pub async fn resume_route(&self, name: &str, request: &PauseRequest) -> Result<Route, ClientError> {
        self.answer(self.post(&["v1", "routes", name, "resume"], RetrySafety::IfUnsent).json(request)?).await
    }

    /// The nodes that share the store: their health, their share of the work.
    pub async fn nodes(&self) -> Result<NodeList, ClientError> {
        self.answer(self.get(&["v1", "nodes"])).await
    }

    /// Reads the firing alerts, and every rule.
    pub async fn alerts(&self) -> Result<AlertList, ClientError> {
        self.answer(self.get(&["v1", "alerts"])).await
    }

    /// Reads the retry KPIs of the node that answers.
    pub async fn kpis(&self, query: &KpiQuery) -> Result<Kpis, ClientError> {
        self.answer(self.get(&["v1", "kpis"]).query(&self.http, query)?).await
    }

    /// Lists tenants by company: counts, terms, and why each waits.
    pub async fn tenants(&self, query: &TenantQuery) -> Result<TenantList, ClientError> {
        self.answer(self.get(&["v1", "tenants"]).query(&self.http, query)?).await
    }

    pub async fn tenant(&self, company_id: &str) -> Result<Tenant, ClientError> {
        self.answer(self.get(&["v1", "tenants", company_id])).await
    }

    /// Changes a tenant's terms; absent ones stay.
    pub async fn set_tenant(&self, company_id: &str, change: &TenantChange) -> Result<Tenant, ClientError> {
        let call = self.call(Method::PUT, &["v1", "tenants", company_id], RetrySafety::IfUnsent);
        self.answer(call.json(change)?).await
    }

    /// Streams events from now on, or after the query's last one.
    pub async fn events(&self, query: EventQuery) -> Result<EventStream, ClientError> {
        EventStream::open(self.clone(), query).await
    }

    pub async fn health(&self) -> Result<Health, ClientError> {
        self.answer(self.get(&["healthz"])).await
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

    /// The server's description of itself.
    pub async fn openapi(&self) -> Result<serde_json::Value, ClientError> {
        self.answer(self.get(&["openapi.json"])).await
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
        last_heard: Option<&str>,
    ) -> Result<reqwest::Response, ClientError> {
        let call = self.get(&["v1", "events"]).query(&self.http, query)?;
        let mut request = self.http.get(call.url.clone()).headers(self.headers.clone());
        request = request.header(ACCEPT, EVENT_STREAM);
        if let Some(id) = last_heard {
            request = request.header(LAST_EVENT_ID_HEADER, id);
        }
        open(&call, request).await
    }

    /// The address of the server, for messages.
    pub(crate) fn origin(&self) -> String {
        origin(&self.base)
    }

    async fn done(&self, call: Call) -> Result<(), ClientError> {
        self.send(&call).await?.succeeded()
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
