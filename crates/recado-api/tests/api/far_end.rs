//! The far end of Recado's requests: a receiver of webhooks, or a provider. A real server on a free port that
//! does what it is told and remembers what it got.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use crate::given::PATIENCE;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Got {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Got {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Returns true if a receiver that knows only this secret would believe it.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        standardwebhooks::Webhook::new(secret).unwrap().verify(&self.body, &self.headers).is_ok()
    }
}

#[derive(Clone, Debug)]
struct Says {
    status: StatusCode,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
}

#[derive(Debug)]
struct Inner {
    says: watch::Sender<Says>,
    got: watch::Sender<Vec<Got>>,
    mute: AtomicBool,
    never: Notify,
}

#[derive(Clone, Debug)]
pub struct FarEnd {
    address: SocketAddr,
    inner: Arc<Inner>,
}

impl FarEnd {
    /// Says yes until told otherwise.
    pub async fn start() -> FarEnd {
        let says = Says { status: StatusCode::OK, headers: Vec::new(), body: "{}".to_owned() };
        let inner = Arc::new(Inner {
            says: watch::Sender::new(says),
            got: watch::Sender::new(Vec::new()),
            mute: AtomicBool::new(false),
            never: Notify::new(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(inner.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        FarEnd { address, inner }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on it answers with this.
    pub fn says(&self, status: u16, body: &str) {
        self.says_with(status, Vec::new(), body);
    }

    pub fn says_with(&self, status: u16, headers: Vec<(&'static str, &'static str)>, body: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        self.inner.says.send_replace(Says { status, headers, body: body.to_owned() });
    }

    /// From now on it takes requests and never answers.
    pub fn falls_silent(&self) {
        self.inner.mute.store(true, Ordering::Relaxed);
    }

    /// Waits until it has got at least this many requests, and shows all.
    pub async fn got(&self, count: usize) -> Vec<Got> {
        let mut watching = self.inner.got.subscribe();
        let enough = tokio::time::timeout(PATIENCE, watching.wait_for(|got| got.len() >= count)).await;
        match enough {
            Ok(got) => got.unwrap().clone(),
            Err(_) => panic!("{} of {count} requests arrived", self.so_far().len()),
        }
    }

    pub fn so_far(&self) -> Vec<Got> {
        self.inner.got.borrow().clone()
    }
}

async fn answer(State(inner): State<Arc<Inner>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let says = inner.says.borrow().clone();
    inner.got.send_modify(|got| got.push(Got { path: uri.path().to_owned(), headers, body }));
    if inner.mute.load(Ordering::Relaxed) {
        inner.never.notified().await;
    }
    let mut response = (says.status, says.body).into_response();
    for (name, value) in [("content-type", "application/json")].into_iter().chain(says.headers) {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}
