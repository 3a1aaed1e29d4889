//! One exchange over HTTP: a request goes out, and a 2xx comes back or whatever stood in its way.
//!
//! Shared by every transport that speaks HTTP. It does not ask where a request leads: the transport that makes
//! one answers for its address.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::proxy::matcher::Matcher;
use recado_core::reason::clip;
use recado_core::{Fault, NetworkKind, Payload, Timestamp, retry_after};
use rustls::ClientConfig;
use url::Position;

use super::connection::{Connection, Connector};
use super::pool::Pool;
use super::resolver::{Resolver, SystemResolver, lookup_timeout};
use super::{ANSWER_KEPT_MAX_BYTES, ANSWER_WANTED_MAX_BYTES, FAULT_TEXT_MAX_BYTES, Request, failure};
use crate::{Delivery, Wanted, patience, tls};

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// Connecting is given up this long before the caller's deadline at most. At the deadline the caller drops
/// the future and cannot know whether the request was sent; here it is certain that nothing was.
const CONNECT_MARGIN_MAX: Duration = Duration::from_millis(250);

pub(super) const OUR_NAME: &str = concat!("recado/", env!("CARGO_PKG_VERSION"));

/// A pool of connections, and how long an answer's body is waited for. It follows no redirects, makes no retries and
/// asks no proxies unless told to.
#[derive(Debug)]
pub struct HttpClient {
    connector: Connector,
    pool: Arc<Pool<Connection>>,
    /// Sent with every request that does not have its own of the same name.
    headers: HeaderMap,
    answer_wait: Duration,
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

/// The head of an answer, and the connection that its body comes from.
#[derive(Debug)]
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    connection: Connection,
    origin: Box<str>,
    pool: Arc<Pool<Connection>>,
}

impl Response {
    fn new(
        head: http::Response<Incoming>,
        connection: Connection,
        origin: &str,
        pool: &Arc<Pool<Connection>>,
    ) -> Self {
        let (head, body) = head.into_parts();
        let (origin, pool) = (origin.into(), Arc::clone(pool));
        Response { status: head.status, headers: head.headers, body, connection, origin, pool }
    }

    /// Keeps the connection for the next request, once the body was read to its end. One that the server has ended would
    /// take a place in the pool from those that are of use.
    fn keep_connection(self) {
        if self.connection.is_open() {
            self.pool.put(&self.origin, self.connection);
        }
    }
}

impl HttpClient {
    /// Makes a client. `connect_timeout` bounds name lookup, TCP and TLS together, `answer_wait` the wait for an
    /// answer's body once its status is known.
    pub fn new(connect_timeout: Duration, answer_wait: Duration) -> Result<Self, rustls::Error> {
        let resolver = SystemResolver { timeout: lookup_timeout(connect_timeout) };
        let mut tls = ClientConfig::clone(&*tls::system_config()?);
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let headers =
            [(USER_AGENT, HeaderValue::from_static(OUR_NAME)), (ACCEPT, HeaderValue::from_static("*/*"))];
        let connector = Connector {
            resolver: Arc::new(resolver),
            tls: Arc::new(tls),
            proxies: None,
            timeout: connect_timeout,
        };
        Ok(HttpClient {
            connector,
            pool: Arc::default(),
            headers: headers.into_iter().collect(),
            answer_wait,
        })
    }

    /// With another source of addresses.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.connector.resolver = resolver;
        self
    }

    /// Through the proxies that the environment names, by `CONNECT`.
    #[must_use]
    pub fn with_environment_proxies(mut self) -> Self {
        self.connector.proxies = Some(Matcher::from_env());
        self
    }

    /// With headers for every request.
    #[must_use]
    pub fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Sends one request and returns the head of its answer, whatever the status. The caller gives up after `timeout`.
    pub async fn send(&self, request: Request, timeout: Duration) -> Result<Response, Fault> {
        let connect_timeout = timeout.saturating_sub(CONNECT_MARGIN_MAX.min(timeout / 10));
        let url = request.url.clone();
        let origin = &url[..Position::BeforePath];
        let mut message = self.message(request)?;
        while let Some(mut kept) = self.pool.take(origin) {
            if !kept.is_usable().await {
                continue;
            }
            match kept.send(message).await {
                Ok(head) => return Ok(Response::new(head, kept, origin, &self.pool)),
                Err(mut failed) => match failed.take_message() {
                    // The server closed the connection before the first byte of the request.
                    Some(unsent) => message = unsent,
                    None => return Err(failure::after_hand_over(failed.error())),
                },
            }
        }
        // Boxed: few requests need it, and it would make the future of every delivery larger.
        let mut fresh = Box::pin(self.connector.connect(&url, connect_timeout)).await?;
        match fresh.send(message).await {
            Ok(head) => Ok(Response::new(head, fresh, origin, &self.pool)),
            Err(failed) if failed.message().is_some() => Err(failure::not_connected(&url, failed.error())),
            Err(failed) => Err(failure::after_hand_over(failed.error())),
        }
    }

    fn message(&self, request: Request) -> Result<http::Request<Full<Bytes>>, Fault> {
        let Request { method, url, headers, body } = request;
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]);
        let mut message = http::Request::new(Full::new(Bytes::from(body)));
        *message.method_mut() = method;
        *message.uri_mut() = path.parse::<Uri>().map_err(|_| failure::no_request())?;
        *message.headers_mut() = headers;
        message.headers_mut().insert(HOST, host.map_err(|_| failure::no_request())?);
        for (name, value) in &self.headers {
            message.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        Ok(message)
    }

    /// Returns the longest wait for a body if the exchange has `left` to go. The status has settled it: a body that
    /// dawdles must not turn a yes into a timeout.
    pub fn body_wait(&self, left: Duration) -> Duration {
        self.answer_wait.min(left / 2)
    }

    /// Sends one request and brings back a 2xx answer, or whatever stood in its way.
    pub async fn exchange(&self, request: Request, bounds: Bounds) -> Result<Answer, Fault> {
        let started = tokio::time::Instant::now();
        let response = self.send(request, bounds.timeout).await?;

        let status = response.status;
        let retry_after = retry_after(&response.headers, bounds.now);
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
    let value = |name: &HeaderName| headers.get(name)?.to_str().ok();
    let millis = value(&RETRY_AFTER_MS).and_then(retry_after::parse_millis);
    millis.or_else(|| retry_after::parse(value(&RETRY_AFTER)?, now))
}

/// The part of a body that was read within its bounds.
#[derive(Debug)]
pub struct Body {
    pub bytes: Vec<u8>,
    pub end: BodyEnd,
}

impl Body {
    /// Reads a body. Its connection is kept when the body was read to its end.
    pub async fn read(mut response: Response, max_bytes: usize, wait: Duration) -> Body {
        let mut bytes = Vec::new();
        let reading = async {
            while let Some(read) = response.connection.read(&mut response.body).await {
                let Ok(chunk) = read else { return BodyEnd::BrokenOff };
                let room = max_bytes - bytes.len();
                bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return BodyEnd::TooLong;
                }
            }
            BodyEnd::Whole
        };
        let end = patience::within(wait, reading).await.unwrap_or(BodyEnd::BrokenOff);
        if end == BodyEnd::Whole {
            response.keep_connection();
        }
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

#[cfg(test)]
mod tests {
    use http::Method;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use url::Url;

    use super::*;

    /// Gives each answer after a whole head of a request, and returns the heads.
    async fn answer(listener: TcpListener, answers: &[&str]) -> Vec<String> {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut heads = Vec::new();
        for answer in answers {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut head).await.expect("a request"), 0, "the client hung up");
            }
            stream.write_all(answer.as_bytes()).await.expect("the client reads");
            heads.push(String::from_utf8(head).expect("a head is text"));
        }
        heads
    }

    #[tokio::test]
    async fn a_proxy_is_asked_to_connect_and_looks_the_name_up_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let proxy = format!("http://ana:word@{}", listener.local_addr().expect("an address"));
        let answers = ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"];
        let proxying = tokio::spawn(async move { answer(listener, &answers).await });
        let patience = Duration::from_secs(5);
        let mut client = HttpClient::new(patience, patience).expect("a client");
        client.connector.proxies = Some(Matcher::builder().http(proxy).build());
        let url = "http://ses.invalid/v2?x=1".parse().expect("a URL");
        let request = Request { method: Method::GET, url, headers: HeaderMap::new(), body: Vec::new() };
        assert_eq!(client.send(request, patience).await.expect("an answer").status, StatusCode::NO_CONTENT);
        let heads = proxying.await.expect("the proxy ends");
        assert!(heads[0].starts_with("CONNECT ses.invalid:80 HTTP/1.1\r\n"), "{}", heads[0]);
        assert!(heads[0].to_lowercase().contains("proxy-authorization: basic "), "{}", heads[0]);
        assert!(heads[1].starts_with("GET /v2?x=1 HTTP/1.1\r\n"), "{}", heads[1]);
        assert!(heads[1].contains("host: ses.invalid\r\n"), "{}", heads[1]);
    }

    #[tokio::test]
    async fn only_a_connection_that_the_server_keeps_open_takes_a_place_in_the_pool() {
        for (words, is_kept) in [("", true), ("Connection: close\r\n", false)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url: Url =
                format!("http://{}/", listener.local_addr().expect("an address")).parse().expect("a URL");
            let words = format!("HTTP/1.1 204 No Content\r\n{words}\r\n");
            let (patience, origin) = (Duration::from_secs(5), url[..Position::BeforePath].to_owned());
            let client = HttpClient::new(patience, patience).expect("a client");
            let request = Request { method: Method::GET, url, headers: HeaderMap::new(), body: Vec::new() };
            let bounds = Bounds { now: Timestamp::MAX, timeout: patience, answer: Wanted::Receipt };
            let answering = async {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                assert_ne!(stream.read(&mut [0; 512]).await.expect("a request"), 0);
                stream.write_all(words.as_bytes()).await.expect("the client reads");
                stream
            };
            let (answer, _held) = tokio::join!(client.exchange(request, bounds), answering);
            answer.expect("an answer");
            assert_eq!(client.pool.take(&origin).is_some(), is_kept, "after {words}");
        }
    }
}
