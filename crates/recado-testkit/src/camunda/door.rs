//! The way in: credentials, moods, and which of the two APIs is meant.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request as HttpRequest;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;

use super::{Engine, eight, seven};

/// The misbehaviour that a request gets instead of its answer.
#[derive(Clone, Copy, Debug)]
pub enum CamundaAct {
    /// Nothing happens but this status.
    Refuse(u16),
    /// It happens, and a proxy in between loses the answer.
    LoseAnswer,
}

/// The credentials that are accepted.
#[derive(Clone, Debug, Default)]
pub enum Guard {
    #[default]
    Open,
    /// Accepts this `Authorization`.
    Exactly(String),
    /// Accepts a token from `/oauth/token` that is younger than these many grants.
    OAuth { secret: String, lives_seconds: u64, revoked: u64 },
}

impl Guard {
    pub(super) fn revoke(&mut self, granted: u64) {
        if let Guard::OAuth { revoked, .. } = self {
            *revoked = granted;
        }
    }

    fn lets_in(&self, authorization: Option<&str>) -> bool {
        match self {
            Guard::Open => authorization.is_none(),
            Guard::Exactly(due) => authorization == Some(due),
            Guard::OAuth { revoked, .. } => {
                let number = authorization.and_then(|it| it.strip_prefix("Bearer granted-"));
                number.and_then(|it| it.parse::<u64>().ok()).is_some_and(|number| number > *revoked)
            }
        }
    }
}

/// A request as it arrived, and its answer; 0 when the server was gone.
#[derive(Clone, Debug)]
pub struct CamundaRequest {
    pub path: String,
    pub body: Value,
    pub status: u16,
}

pub type Answered = (u16, Value);

pub fn app(engine: Arc<Engine>) -> Router {
    Router::new().fallback(move |request: HttpRequest| answer(Arc::clone(&engine), request))
}

/// Hangs up on every caller, once it has read the request.
pub async fn refuse_all(listener: TcpListener, engine: Arc<Engine>) {
    while let Ok((stream, _)) = listener.accept().await {
        let mut line = String::new();
        if BufReader::new(stream).read_line(&mut line).await.is_ok() {
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            engine.change(|state| state.requests.push(CamundaRequest { path, body: Value::Null, status: 0 }));
        }
    }
}

async fn answer(engine: Arc<Engine>, request: HttpRequest) -> Response {
    let path = request.uri().path().to_owned();
    let (head, body) = request.into_parts();
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let authorization = header(AUTHORIZATION);
    let is_json = header(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
    let bytes = to_bytes(body, 1 << 20).await.expect("a body");
    if path == "/oauth/token" {
        return respond(grant(&engine, &String::from_utf8_lossy(&bytes)));
    }
    let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let act = engine.change(|state| {
        let wanted = state.acts.iter().position(|(path_end, _)| path.ends_with(path_end));
        wanted.map(|position| state.acts.remove(position).1)
    });
    let let_in = engine.state().guard.lets_in(authorization.as_deref());
    let (status, said) = match act {
        _ if !let_in => (401, json!({"title": "Unauthorized", "status": 401})),
        _ if !is_json || body.is_null() => (415, json!({"title": "Unsupported Media Type"})),
        Some(CamundaAct::Refuse(status)) => {
            (status, json!({"title": "RESOURCE_EXHAUSTED", "detail": "as the test wants it"}))
        }
        Some(CamundaAct::LoseAnswer) => {
            by_api(&engine, &path, &body).await;
            (502, Value::Null)
        }
        None => by_api(&engine, &path, &body).await,
    };
    engine.change(|state| state.requests.push(CamundaRequest { path, body, status }));
    respond((status, said))
}

async fn by_api(engine: &Engine, path: &str, body: &Value) -> Answered {
    let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
    match parts[..] {
        ["v2", "jobs", "activation"] => eight::activate(engine, body).await,
        ["v2", "jobs", key, verb] => eight::report(engine, key, verb, body),
        ["engine-rest", "external-task", "fetchAndLock"] => seven::fetch_and_lock(engine, body).await,
        ["engine-rest", "external-task", id, verb] => seven::report(engine, id, verb, body),
        _ => (404, json!({"title": "No static resource"})),
    }
}

/// OAuth 2 client credentials. Tokens are numbered.
fn grant(engine: &Engine, form: &str) -> Answered {
    engine.change(|state| {
        let Guard::OAuth { secret, lives_seconds, .. } = &state.guard else { return (404, Value::Null) };
        let due = format!(
            "grant_type=client_credentials&client_id=recado&client_secret={secret}&audience=zeebe-api"
        );
        if form != due {
            return (401, json!({"error": "invalid_client"}));
        }
        state.tokens_granted += 1;
        let token = format!("granted-{}", state.tokens_granted);
        (200, json!({"access_token": token, "token_type": "Bearer", "expires_in": lives_seconds}))
    })
}

fn respond((status, body): Answered) -> Response {
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    Response::builder().status(status).header(CONTENT_TYPE, "application/json").body(body).expect("an answer")
}
