//! The HTTP client of AWS's credential chain: the one of all transports, in the form that the chain takes.

use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use recado_core::{Fault, FaultKind, NetworkKind};
use recado_transport::http::{self, Body, BodyEnd, Request};
use recado_transport::{Url, patience};

/// Bounds connecting where the chain does not say how long it may take.
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(3);
/// Bounds an answer where the chain does not.
const READ_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Bytes at most of an answer with credentials.
const ANSWER_MAX_BYTES: usize = 1_024 * 1_024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainClient;

impl HttpClient for ChainClient {
    /// Makes a connector for one request. The chain asks about once an hour, so none is kept.
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        _components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(ChainConnector {
            connect_timeout: settings.connect_timeout().unwrap_or(CONNECT_TIMEOUT_DEFAULT),
            read_timeout: settings.read_timeout(),
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct ChainConnector {
    connect_timeout: Duration,
    read_timeout: Option<Duration>,
}

impl ChainConnector {
    async fn exchange(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let request = request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string()).map_err(|error| ConnectorError::user(error.into()))?;
        let body = body.bytes().unwrap_or_default().to_vec();
        let request = Request { method: head.method, url, headers: head.headers, body };
        let limit = self.read_timeout.unwrap_or(READ_TIMEOUT_DEFAULT);
        let client = http::HttpClient::new(self.connect_timeout, limit)
            .map_err(|error| ConnectorError::other(error.into(), None))?
            .with_environment_proxies();
        let answered = patience::within(limit, client.send(request, limit)).await;
        let response = answered.map_err(|late| ConnectorError::timeout(late.into()))?.map_err(failed)?;
        let (status, headers) = (response.status, response.headers.clone());
        let body = Body::read(response, ANSWER_MAX_BYTES, limit).await;
        if body.end != BodyEnd::Whole {
            return Err(ConnectorError::io("the answer broke off".into()));
        }
        let mut response = ::http::Response::new(SdkBody::from(body.bytes));
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        HttpResponse::try_from(response).map_err(|error| ConnectorError::other(error.into(), None))
    }
}

impl HttpConnector for ChainConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.exchange(request))
    }
}

/// A fault of our client, as the chain passes it on.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.text)]
pub(crate) struct ChainFault(pub Fault);

fn failed(fault: Fault) -> ConnectorError {
    if fault.kind == FaultKind::Network(NetworkKind::Timeout) {
        ConnectorError::timeout(ChainFault(fault).into())
    } else {
        ConnectorError::io(ChainFault(fault).into())
    }
}
