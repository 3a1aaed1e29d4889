//! JSON over HTTP to a process engine.
//!
//! Deliberately absent: redirects (they would carry credentials to another host), retries (the worker
//! knows what may be repeated), and proxies from the environment.

use std::error::Error;
use std::time::Duration;

use recado_core::reason::clip;
use reqwest::{Client, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::auth::{Auth, Secret};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that the engine may take to answer, on top of the long poll's wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes at most of an answer: the four variables of every job that one request may take.
const ANSWER_MAX_BYTES: usize = 32 << 20;

/// Bytes at most that are repeated of what an engine says about a refusal.
const SAID_MAX_BYTES: usize = 300;

/// The reason why the process engine refused a request.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("{0}")]
    Setup(String),
    #[error("cannot reach {origin}: {cause}; is the process engine running there?")]
    Unreachable { origin: String, cause: String },
    #[error("{origin} is overloaded ({status})")]
    Busy { origin: String, status: StatusCode },
    #[error("{origin} refuses access ({status}); check the token, the user or the OAuth client")]
    NotAllowed { origin: String, status: StatusCode },
    #[error("cannot get a token from {origin}: {cause}")]
    Token { origin: String, cause: String },
    #[error("{origin} answered {status}: {said}")]
    Refused { origin: String, status: StatusCode, said: String },
    #[error("cannot read the answer of {origin}: {cause}; is its REST API at this address?")]
    Garbled { origin: String, cause: String },
}

impl EngineError {
    /// Returns true if the same request would fail the same way again.
    pub fn is_lasting(&self) -> bool {
        matches!(self, EngineError::Refused { status, .. } if status.is_client_error())
    }
}

/// One engine's REST API.
#[derive(Debug)]
pub struct Rest {
    http: Client,
    base: Url,
    auth: Auth,
}

impl Rest {
    pub fn new(base_url: &str, auth: Auth) -> Result<Self, EngineError> {
        let http = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .build()
            .map_err(|error| EngineError::Setup(format!("cannot set up TLS: {error}")))?;
        Ok(Rest { http, base: parse_url(base_url, "http://localhost:8080")?, auth })
    }

    /// Puts `path` below the address, unless the address ends with it already.
    pub(crate) fn below(mut self, path: &str) -> Self {
        let ends_so = self.base.path().trim_end_matches('/').ends_with(&format!("/{path}"));
        if !ends_so && let Ok(mut segments) = self.base.path_segments_mut() {
            segments.pop_if_empty().push(path);
        }
        self
    }

    /// Posts `body`. Any status that the engine's own rules give a meaning to is an answer.
    pub(crate) async fn post(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
        wait: Duration,
    ) -> Result<Answer, EngineError> {
        let (mut answer, token) = self.post_once(path, body, wait).await?;
        if let (StatusCode::UNAUTHORIZED, Some(token)) = (answer.status, token) {
            self.auth.forget(&token).await;
            (answer, _) = self.post_once(path, body, wait).await?;
        }
        let (origin, status) = (origin(&self.base), answer.status);
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(EngineError::NotAllowed { origin, status })
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                Err(EngineError::Busy { origin, status })
            }
            _ => Ok(answer),
        }
    }

    async fn post_once(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
        wait: Duration,
    ) -> Result<(Answer, Option<Secret>), EngineError> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let request = self.http.post(url).timeout(wait + ANSWER_TIMEOUT).json(body);
        let (request, token) = self.auth.sign(&self.http, request).await?;
        let origin = origin(&self.base);
        let lost = |error: reqwest::Error| EngineError::Unreachable {
            origin: origin.clone(),
            cause: root_of(&error.without_url()),
        };
        let response = request.send().await.map_err(lost)?;
        let status = response.status();
        let body = bounded(response).await.map_err(lost)?;
        Ok((Answer { status, body, origin }, token))
    }
}

pub(crate) async fn bounded(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = ANSWER_MAX_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        // What is cut off here is no JSON, and is told as such.
        if chunk.len() > room {
            break;
        }
    }
    Ok(body)
}

/// A status and a body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: StatusCode,
    body: Vec<u8>,
    origin: String,
}

/// A refusal in the words of either engine: problem+json, or Camunda 7's type and message.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    title: Option<String>,
    detail: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
}

impl Answer {
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, EngineError> {
        if !self.status.is_success() {
            return Err(self.refusal());
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| EngineError::Garbled { origin: self.origin.clone(), cause: place_of(&error) })
    }

    pub fn refusal(&self) -> EngineError {
        EngineError::Refused { origin: self.origin.clone(), status: self.status, said: self.said() }
    }

    /// The reason, in the engine's words.
    pub fn said(&self) -> String {
        let said: Said = serde_json::from_slice(&self.body).unwrap_or_default();
        let words: Vec<_> =
            [said.title.or(said.kind), said.detail.or(said.message)].into_iter().flatten().collect();
        if words.is_empty() {
            return "it does not say why".to_owned();
        }
        clip(&words.join(": "), SAID_MAX_BYTES).to_owned()
    }
}

/// The place where reading stopped; a parser's own words may repeat a value.
fn place_of(error: &serde_json::Error) -> String {
    format!("not the JSON that was expected, at line {} column {}", error.line(), error.column())
}

pub(crate) fn parse_url(text: &str, example: &str) -> Result<Url, EngineError> {
    let wrong = |why: &str| EngineError::Setup(format!("`{text}` {why}; write one such as {example}"));
    let url: Url = text.parse().map_err(|_| wrong("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
        return Err(wrong("is not http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(EngineError::Setup(
            "the address holds a user or a password; give them as credentials instead".to_owned(),
        ));
    }
    Ok(url)
}

/// The address of a server, without path or query.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The innermost words: the outer ones only say that sending failed.
pub(crate) fn root_of(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut root: &dyn Error = error;
    while let Some(inner) = root.source() {
        root = inner;
    }
    root.to_string()
}
