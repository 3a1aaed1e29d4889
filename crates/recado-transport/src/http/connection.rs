//! One connection of HTTP/1.1.
//!
//! The task that asks drives it: a connection has no task of its own, so an exchange wakes no other thread. While it is
//! idle it is not watched either; [`Connection::is_usable`] looks before it is used again.

use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, poll_fn, ready};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use recado_core::Fault;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tower_service::Service;
use url::Url;

use super::failure;
use super::resolver::Resolver;
use super::stream::ReadableToTheEnd;
use crate::patience;

type Stream = TokioIo<ReadableToTheEnd<Either<TcpStream, TlsStream<TcpStream>>>>;
type SendResult = Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>>;

pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// None once the connection has ended. On the heap: it is some hundred bytes, and a connection is moved into the pool
    /// and out of it for every request.
    driver: Option<Box<Driver>>,
}

impl Connection {
    /// Sends a request and returns the head of its answer.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> SendResult {
        let sending = self.sender.try_send_request(request);
        drive(&mut self.driver, sending).await
    }

    /// Reads the next part of an answer's body.
    pub async fn read(&mut self, body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
        loop {
            match drive(&mut self.driver, body.frame()).await? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    // Trailers are not looked at.
                    Err(_) => continue,
                },
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Returns true until the connection has ended, as far as it was driven.
    pub fn is_open(&self) -> bool {
        self.driver.is_some()
    }

    /// Returns true when the connection can take another request: the server has not closed it, and the last answer was
    /// read to its end.
    pub async fn is_usable(&mut self) -> bool {
        poll_fn(|cx| {
            poll_driver(&mut self.driver, cx);
            Poll::Ready(self.driver.is_some() && matches!(self.sender.poll_ready(cx), Poll::Ready(Ok(()))))
        })
        .await
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}

type Driver = http1::Connection<Stream, Full<Bytes>>;

/// Runs `work`, which waits for the connection, and the connection itself.
async fn drive<T>(driver: &mut Option<Box<Driver>>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(done);
        }
        poll_driver(driver, cx);
        work.as_mut().poll(cx)
    })
    .await
}

/// Moves the connection on. Its end or failure reaches the request that waits for it.
fn poll_driver(driver: &mut Option<Box<Driver>>, cx: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|driver| Pin::new(&mut **driver).poll(cx).is_ready()) {
        *driver = None;
    }
}

/// Everything that is needed to connect.
#[derive(Debug)]
pub(super) struct Connector {
    pub resolver: Arc<dyn Resolver>,
    pub tls: Arc<ClientConfig>,
    /// Proxies that are asked to connect; none by default.
    pub proxies: Option<Matcher>,
    /// Bounds name lookup, TCP and TLS together.
    pub timeout: Duration,
}

impl Connector {
    /// Connects to the origin of a URL, within `timeout` if that is shorter than its own. Nothing was handed over where
    /// it fails.
    pub async fn connect(&self, url: &Url, timeout: Duration) -> Result<Connection, Fault> {
        let connecting = self.connect_patiently(url);
        patience::within(self.timeout.min(timeout), connecting)
            .await
            .unwrap_or_else(|_| Err(failure::connect_timed_out()))
    }

    async fn connect_patiently(&self, url: &Url) -> Result<Connection, Fault> {
        let host = url.host_str().ok_or_else(failure::no_request)?;
        let port = url.port_or_known_default().ok_or_else(failure::no_request)?;
        // With its port: a proxy would take 443 for granted.
        let uri = format!("{}://{host}:{port}/", url.scheme());
        let uri: Uri = uri.parse().map_err(|_| failure::no_request())?;
        let proxy = self.proxies.as_ref().and_then(|proxies| proxies.intercept(&uri));
        let stream = match proxy {
            Some(proxy) => self.connect_through(&proxy, url, uri).await?,
            None => self.connect_directly(url, uri).await?,
        };
        let stream = if url.scheme() == "https" {
            let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let name = ServerName::try_from(name).map_err(|_| failure::no_request())?;
            let secured = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
            Either::Right(secured.map_err(|error| failure::not_connected(url, &error))?)
        } else {
            Either::Left(stream)
        };
        let shaken = http1::handshake(TokioIo::new(ReadableToTheEnd::new(stream))).await;
        let (sender, driver) = shaken.map_err(|error| failure::not_connected(url, &error))?;
        Ok(Connection { sender, driver: Some(Box::new(driver)) })
    }

    async fn connect_directly(&self, url: &Url, uri: Uri) -> Result<TcpStream, Fault> {
        let found = match url.domain() {
            Some(name) => self.resolver.resolve(name).await?,
            // The address stands in the URL.
            None => Vec::new(),
        };
        let stream = self.tcp(Found(found)).call(uri).await;
        Ok(stream.map_err(|error| failure::not_connected(url, &error))?.into_inner())
    }

    async fn connect_through(&self, proxy: &Intercept, url: &Url, uri: Uri) -> Result<TcpStream, Fault> {
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tcp(GaiResolver::new()));
        if let Some(login) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(login.clone());
        }
        let stream = tunnel.call(uri).await;
        Ok(stream.map_err(|error| failure::not_connected(url, &error))?.into_inner())
    }

    fn tcp<R>(&self, resolver: R) -> HttpConnector<R> {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(self.timeout));
        tcp
    }
}

/// Addresses that a lookup found already.
#[derive(Clone)]
struct Found(Vec<SocketAddr>);

impl Service<Name> for Found {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Name) -> Self::Future {
        ready(Ok(self.0.clone().into_iter()))
    }
}
