//! The HTTP client of AWS's credential chain: the one of all transports, in the form that the chain takes.

use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use recado_transport::http;

/// Bounds connecting where the chain does not say how long it may take.
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(3);

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
        let request = request.map(|body| body.bytes().unwrap_or_default().to_vec());
        let request = request.try_into().map_err(of_reqwest)?;
        let client = http::HttpClient::proxied_builder(self.connect_timeout).build().map_err(of_reqwest)?;
        let sending = client.execute(request);
        let response = match self.read_timeout {
            Some(limit) => {
                let answered = tokio::time::timeout(limit, sending).await;
                answered.map_err(|late| ConnectorError::timeout(late.into()))?
            }
            None => sending.await,
        };
        let response = hyper::http::Response::from(response.map_err(of_reqwest)?);
        HttpResponse::try_from(response.map(SdkBody::from_body_1_x))
            .map_err(|error| ConnectorError::other(error.into(), None))
    }
}

impl HttpConnector for ChainConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.exchange(request))
    }
}

fn of_reqwest(error: reqwest::Error) -> ConnectorError {
    match error {
        error if error.is_timeout() => ConnectorError::timeout(error.into()),
        error if error.is_builder() => ConnectorError::user(error.into()),
        error => ConnectorError::io(error.into()),
    }
}
