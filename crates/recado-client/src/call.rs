//! Sending, retrying, reading the answer.

use std::time::Duration;

use bytes::Bytes;
use recado_wire::Problem;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ClientError;

/// Waits between the tries of a request whose connection failed.
const RETRY_WAITS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// The condition for repeating a request after its connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetrySafety {
    /// Sending it twice does the same as sending it once.
    Safe,
    /// Only if the first one never left.
    IfUnsent,
}

/// One request, ready to be sent any number of times.
#[derive(Debug)]
pub(crate) struct Call {
    pub method: Method,
    pub url: Url,
    pub body: Option<(&'static str, Bytes)>,
    pub repeat: RetrySafety,
    pub timeout: Duration,
}

impl Call {
    /// Sends a value along: as the query with `GET`, as the body with any other method.
    pub fn with<T: Serialize + ?Sized>(self, http: &reqwest::Client, value: &T) -> Result<Self, ClientError> {
        if self.method == Method::GET { self.query(http, value) } else { self.json(value) }
    }

    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Result<Self, ClientError> {
        let json = serde_json::to_vec(value)
            .map_err(|error| ClientError::Setup(format!("cannot write the request: {error}")))?;
        self.body = Some(("application/json", json.into()));
        Ok(self)
    }

    pub fn query<T: Serialize + ?Sized>(
        mut self,
        http: &reqwest::Client,
        query: &T,
    ) -> Result<Self, ClientError> {
        let written = http.get(self.url).query(query).build();
        self.url = written
            .map_err(|error| ClientError::Setup(format!("cannot write the query: {error}")))?
            .url()
            .clone();
        Ok(self)
    }
}

/// An answer: a status and a body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: StatusCode,
    url: String,
    body: Bytes,
}

impl Answer {
    /// Reads the answer, or the problem that came instead.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        self.succeeded()?;
        self.read_any()
    }

    /// Checks that the call succeeded, or returns the problem.
    pub fn succeeded(&self) -> Result<(), ClientError> {
        if self.status.is_success() { Ok(()) } else { Err(self.problem()) }
    }

    fn problem(&self) -> ClientError {
        match serde_json::from_slice::<Problem>(&self.body) {
            Ok(problem) => ClientError::Problem(Box::new(problem)),
            Err(_) => {
                let cause = format!("status {} without a problem that says why", self.status);
                ClientError::Decode { url: self.url.clone(), cause }
            }
        }
    }

    /// Reads the answer, whatever the status.
    pub fn read_any<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ClientError::Decode { url: self.url.clone(), cause: error.to_string() })
    }
}

/// Sends a call, more than once if its connection fails and that is safe.
pub(crate) async fn send(
    call: &Call,
    prepare: impl Fn(Method, Url) -> RequestBuilder,
) -> Result<Answer, ClientError> {
    let mut waits = RETRY_WAITS.into_iter();
    loop {
        let mut request = prepare(call.method.clone(), call.url.clone()).timeout(call.timeout);
        if let Some((kind, body)) = &call.body {
            request = request.header(CONTENT_TYPE, *kind).body(body.clone());
        }
        let error = match once(request).await {
            Ok((status, body)) => return Ok(Answer { status, url: origin(&call.url), body }),
            Err(error) => error,
        };
        let may_repeat = !error.is_timeout() && (call.repeat == RetrySafety::Safe || error.is_connect());
        match waits.next().filter(|_| may_repeat) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => return Err(ClientError::of(&error, &origin(&call.url), call.timeout)),
        }
    }
}

/// Sends a call whose answer has no end, and brings back its beginning.
pub(crate) async fn open(call: &Call, request: RequestBuilder) -> Result<Response, ClientError> {
    let url = origin(&call.url);
    let sent = tokio::time::timeout(call.timeout, request.send()).await;
    let response = match sent {
        Ok(response) => response.map_err(|error| ClientError::of(&error, &url, call.timeout))?,
        Err(_) => return Err(ClientError::Timeout { url, after: call.timeout }),
    };
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = tokio::time::timeout(call.timeout, response.bytes()).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    Err(Answer { status, url, body }.problem())
}

async fn once(request: RequestBuilder) -> Result<(StatusCode, Bytes), reqwest::Error> {
    let response = request.send().await?;
    let status = response.status();
    Ok((status, response.bytes().await?))
}

/// The address of the server, without path, query or credentials.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}
