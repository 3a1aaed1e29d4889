//! The scene: a real server on a free port, a real engine, and a store of either kind.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_api::{ApiLimits, ApiOptions, ApiState, Hosts, ServeLimits, router, serve};
use recado_client::Client;
use recado_core::decide::Terms;
use recado_core::{AuditEvent, Jitter, Policy, Random, RouteName, rules};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::audit::TrailTerms;
use recado_engine::{Carrier, DeadLetterTerms, Engine, Parts, Route, Routes, Settings, SystemClock};
use recado_store::reference::ReferenceStore;
use recado_store::{AuditSpan, Retention, Store};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};
use recado_transport::Sandbox;
use recado_transport::http::{Http, HttpConfig};
use recado_transport_webhook::{Guard, Webhook, WebhookConfig};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::conformance::AnswerCheck;

/// Longest wait for something that should be there in a moment.
pub const PATIENCE: Duration = Duration::from_secs(10);

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn terms(policy: Policy) -> Terms {
    Terms {
        policy,
        dead_letter_ttl: Duration::from_secs(7 * 24 * 60 * 60),
        crashes_max: 3,
        start_over_after: None,
    }
}

fn route(name: &str, carrier: Carrier, rule_set: &str, policy: Policy) -> Route {
    Route {
        name: RouteName::new(name).unwrap(),
        carrier,
        provider: name.into(),
        others: Vec::new(),
        classifier: rules::named(rule_set).unwrap(),
        terms: terms(policy),
        timeout: Duration::from_secs(5),
        concurrency: 16,
        fallback: recado_engine::Fallback::default(),
    }
}

/// A sandbox route, with a provider of its own name.
pub fn sandbox_route(name: &str) -> Route {
    route(name, Carrier::Transport(Arc::new(Sandbox)), "general", Policy::exponential(ms(20), ms(20), 3))
}

/// A route to a provider that speaks HTTP, and is judged by these rules.
pub fn http_route(name: &str, provider_url: &str, rule_set: &str) -> Route {
    let http = Http::new(HttpConfig::new(provider_url.parse().unwrap())).unwrap();
    route(name, Carrier::Transport(Arc::new(http)), rule_set, Policy::exponential(ms(20), ms(20), 3))
}

/// Adds the route that carries webhooks; receivers on this machine may be reached.
fn with_webhooks(parts: &mut Parts, policy: Policy) {
    let guard = Guard { allowed: vec!["127.0.0.0/8".parse().unwrap()], allow_http: false };
    let config = WebhookConfig { guard, ..WebhookConfig::default() };
    let webhook = Arc::new(Webhook::new(config, parts.endpoints.clone()).unwrap());
    let carried = route("webhook", Carrier::Transport(webhook.clone()), "http", policy);
    parts.routes = Routes::new(parts.routes.iter().map(|route| (**route).clone()).chain([carried]));
    parts.webhook = Some(webhook);
}

/// The policy of insurance claims.
pub fn tiss_policy() -> Policy {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    Policy {
        jitter: Jitter::Symmetric(0.20),
        floor: Some(minutes(5)),
        ceiling: Some(minutes(240)),
        ..Policy::exponential(minutes(5), minutes(240), 6)
    }
}

/// `sandbox` and `patient` deliver here (the second waits an hour before a retry), `work` and `tiss-claims`
/// belong to workers, `email` is not configured.
fn routes() -> Vec<Route> {
    vec![
        sandbox_route("sandbox"),
        route(
            "patient",
            Carrier::Transport(Arc::new(Sandbox)),
            "general",
            Policy::exponential(Duration::from_secs(3_600), Duration::from_secs(3_600), 3),
        ),
        route("work", Carrier::Workers, "general", Policy::exponential(ms(20), ms(20), 3)),
        route("tiss-claims", Carrier::Workers, "tiss", tiss_policy()),
        route(
            "email",
            Carrier::Missing("give it a provider".to_owned()),
            "smtp",
            Policy::exponential(ms(20), ms(20), 3),
        ),
    ]
}

fn settings() -> Settings {
    Settings {
        node: "test-node".into(),
        lease: Duration::from_secs(30),
        stop_grace: Duration::from_secs(5),
        retention: Retention { ended_max_age: Duration::from_secs(3_600), ended_max_count: 100_000 },
        job_ttl: Duration::from_secs(24 * 60 * 60),
        dead_letter_ttl: Duration::from_secs(7 * 24 * 60 * 60),
        crashes_max: 3,
        notices: recado_engine::notify::notices::Notices::default(),
        turn_jobs: recado_core::fairness::TURN_JOBS,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Memory,
    Embedded,
}

/// A server's difference from the usual one.
#[derive(Debug)]
pub struct Setup {
    pub kind: Kind,
    pub token: Option<&'static str>,
    pub limits: ApiLimits,
    pub serve: ServeLimits,
    pub store_max_bytes: Option<u64>,
    /// Beside the usual ones.
    pub routes: Vec<Route>,
    /// The policy of route `webhook`, if there is one.
    pub webhooks: Option<Policy>,
    /// Protection of providers.
    pub providers: Vec<(&'static str, ProviderTerms)>,
    /// Terms of the dead letter queue.
    pub dead_letters: DeadLetterTerms,
    /// Archives the audit trail below its directory.
    pub trail: bool,
    /// The directory of an earlier server's jobs.
    pub dir: Option<TempDir>,
}

impl Default for Setup {
    fn default() -> Self {
        let serve = ServeLimits { stop_grace: Duration::from_secs(5), ..ServeLimits::default() };
        Setup {
            kind: Kind::Memory,
            token: None,
            limits: ApiLimits::default(),
            serve,
            store_max_bytes: None,
            routes: Vec::new(),
            webhooks: None,
            providers: Vec::new(),
            dead_letters: DeadLetterTerms::default(),
            trail: false,
            dir: None,
        }
    }
}

/// Reads a policy that is a number of attempts alone: formats of configuration files are not the API's business.
fn read_attempts(text: &str, usual: &Policy) -> Result<Policy, Vec<String>> {
    let attempts = text.parse().map_err(|_| vec!["is not a number of attempts".to_owned()])?;
    Ok(Policy { max_attempts: attempts, ..usual.clone() })
}

#[derive(Debug)]
pub struct Server {
    pub address: SocketAddr,
    pub engine: Engine,
    store: Arc<dyn Store>,
    pub closing: CancellationToken,
    pub http: reqwest::Client,
    _answers: AnswerCheck,
    serving: JoinHandle<()>,
    pub dir: TempDir,
}

impl Server {
    pub async fn start(setup: Setup) -> Server {
        let dir = setup.dir.unwrap_or_else(|| TempDir::new().unwrap());
        let store: Arc<dyn Store> = match setup.kind {
            Kind::Memory => Arc::new(ReferenceStore::default()),
            Kind::Embedded => {
                let options =
                    EmbeddedOptions { max_bytes: setup.store_max_bytes, ..EmbeddedOptions::at(dir.path()) };
                Arc::new(EmbeddedStore::open(&options, Arc::new(Random::from_entropy())).unwrap())
            }
        };
        let routes = Routes::new(routes().into_iter().chain(setup.routes));
        let mut parts =
            Parts::new(store.clone(), routes, settings(), Arc::new(SystemClock), Random::from_seed(7));
        parts.providers = setup.providers.into_iter().map(|(name, terms)| (name.into(), terms)).collect();
        parts.dead_letters = setup.dead_letters;
        parts.trail = setup.trail.then(|| TrailTerms {
            dir: dir.path().join("audit"),
            key: None,
            months_kept: recado_audit::MONTHS_KEPT,
        });
        if let Some(policy) = setup.webhooks {
            with_webhooks(&mut parts, policy);
        }
        parts.read_back().await.unwrap();
        let engine = Engine::start(parts);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let closing = CancellationToken::new();
        let options = ApiOptions {
            token: setup.token.map(|token| recado_api::Token::new(token).unwrap()),
            hosts: Hosts::at(address, &["recado.test".to_owned()]),
            limits: setup.limits,
            closing: closing.clone(),
            read_policy: Some(read_attempts),
        };
        let answers = AnswerCheck::default();
        let router = answers.around(router(ApiState::new(engine.clone(), options)));
        let serving = tokio::spawn(serve(listener, router, setup.serve, closing.clone().cancelled_owned()));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Server { address, engine, store, closing, http, _answers: answers, serving, dir }
    }

    pub async fn plain() -> Server {
        Server::start(Setup::default()).await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url(""), None).unwrap()
    }

    /// Lets the server go, as the binary does: the door first, then the engine.
    pub async fn stop(self) {
        self.stop_and_leave().await;
    }

    /// The same, and what it leaves behind.
    pub async fn stop_and_leave(self) -> TempDir {
        self.closing.cancel();
        self.serving.await.unwrap();
        self.engine.stop().await.unwrap();
        self.dir
    }

    /// All that is on record, oldest first.
    pub async fn records(&self) -> Vec<AuditEvent> {
        let span = AuditSpan { part: 0, after: 0, newest_first: false };
        let records = self.store.audit_records(span, 1_000).await.unwrap();
        records.into_iter().map(|record| record.event).collect()
    }

    /// Waits for the server to have let go of every connection.
    pub async fn served(&mut self) {
        tokio::time::timeout(PATIENCE, &mut self.serving).await.expect("the server does not stop").unwrap();
    }

    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.http.get(self.url(path)).send().await.unwrap()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.http.delete(self.url(path)).send().await.unwrap()).await
    }

    pub async fn patch(&self, path: &str, change: Value) -> Answer {
        let request = self.http.patch(self.url(path)).header("content-type", "application/json");
        Answer::of(request.body(change.to_string()).send().await.unwrap()).await
    }

    pub async fn put(&self, path: &str, change: Value) -> Answer {
        let request = self.http.put(self.url(path)).header("content-type", "application/json");
        Answer::of(request.body(change.to_string()).send().await.unwrap()).await
    }

    /// Posts JSON, well formed or not.
    pub async fn post(&self, path: &str, json: impl Into<reqwest::Body>) -> Answer {
        self.post_as(path, "application/json", json).await
    }

    pub async fn post_as(&self, path: &str, kind: &str, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.http.post(self.url(path)).header("content-type", kind).body(body);
        Answer::of(request.send().await.unwrap()).await
    }

    /// Enqueues a job that has to be taken.
    pub async fn enqueue(&self, job: Value) -> String {
        let answer = self.post("/v1/jobs", job.to_string()).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        answer.body["jobId"].as_str().unwrap().to_owned()
    }

    /// Waits until a job has this status, and shows it.
    pub async fn until(&self, job_id: &str, status: &str) -> Value {
        let started = Instant::now();
        loop {
            let answer = self.get(&format!("/v1/jobs/{job_id}")).await;
            if answer.body["status"] == status {
                return answer.body;
            }
            assert!(started.elapsed() < PATIENCE, "{job_id} is not {status}: {}", answer.body);
            tokio::time::sleep(ms(5)).await;
        }
    }

    /// A connection to speak on by hand.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes as they are and reads until the other side closes.
    pub async fn raw(&self, request: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        read_to_end(&mut stream).await
    }
}

/// All bytes until the other side closes.
pub async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    let _ = read.expect("the connection is still open");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs a test on both stores.
pub async fn on_each_store(test: impl AsyncFn(&Server)) {
    for kind in [Kind::Memory, Kind::Embedded] {
        eprintln!("on {kind:?}");
        let server = Server::start(Setup { kind, ..Setup::default() }).await;
        test(&server).await;
        server.stop().await;
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Answer {
    pub async fn of(response: reqwest::Response) -> Answer {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.unwrap();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { status, headers, body }
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts that this is a problem of that kind and nothing else.
    #[track_caller]
    pub fn is_problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.body);
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["type"], format!("urn:recado:error:{code}"));
        for words in ["title", "detail"] {
            assert!(!self.body[words].as_str().unwrap().is_empty(), "no {words}: {}", self.body);
        }
        self
    }

    /// Asserts that exactly these places are at fault.
    #[track_caller]
    pub fn faults_at(&self, pointers: &[&str]) -> &Self {
        self.is_problem(422, "validation_failed");
        assert_eq!(self.pointers(), pointers, "{}", self.body);
        self
    }

    pub fn pointers(&self) -> Vec<&str> {
        let faults = self.body["errors"].as_array().unwrap();
        faults.iter().map(|fault| fault["pointer"].as_str().unwrap()).collect()
    }

    /// The fault at a place.
    pub fn fault(&self, pointer: &str) -> &str {
        let faults = self.body["errors"].as_array().unwrap();
        let fault = faults.iter().find(|fault| fault["pointer"] == pointer);
        fault.unwrap_or_else(|| panic!("no fault at {pointer}: {}", self.body))["message"].as_str().unwrap()
    }
}
