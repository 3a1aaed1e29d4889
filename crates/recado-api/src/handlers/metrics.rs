//! Figures for Prometheus, and what the API itself adds to them.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::extract::MatchedPath;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use pin_project_lite::pin_project;
use recado_observe::{Fact, OTHER};
use tower::Service;

use crate::gate::{Gate, Gated};
use crate::handlers::prelude::*;

/// Every figure in Prometheus's text format. Companies are named here, so it asks for the token like the rest.
#[utoipa::path(
    get, path = "/metrics", tag = "alerts", operation_id = "getMetrics",
    responses((status = 200, body = String, content_type = "text/plain"), ReadProblems)
)]
pub async fn metrics(api: ApiState) -> Response {
    let page = api.engine.gauges.prometheus().await;
    ([(CONTENT_TYPE, HeaderValue::from_static(recado_observe::CONTENT_TYPE))], page).into_response()
}

/// Passes requests through the gate and counts every answer, refusals of the gate among them, by the pattern that
/// matched, so that ids do not become labels. Sees that browsers and proxies neither keep nor guess at it. A service of
/// its own: axum's middleware functions box every request.
#[derive(Clone)]
pub(crate) struct MetricsService<S> {
    pub api: ApiState,
    pub gate: Gate,
    pub behind: S,
}

impl<S> Service<Request> for MetricsService<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = MetricsFuture<Gated<S::Future>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.behind.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        MetricsFuture {
            began: Instant::now(),
            method: request.method().clone(),
            path: request.extensions().get::<MatchedPath>().cloned(),
            api: self.api.clone(),
            answering: self.gate.call(request, &mut self.behind),
        }
    }
}

pin_project! {
    pub(crate) struct MetricsFuture<F> {
        began: Instant,
        method: Method,
        path: Option<MatchedPath>,
        api: ApiState,
        #[pin]
        answering: F,
    }
}

impl<F: Future<Output = Result<Response, Infallible>>> Future for MetricsFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Ok(mut response) = ready!(this.answering.poll(cx));
        answer::protect(response.headers_mut());
        this.api.engine.metrics.record(&Fact::Served {
            method: this.method.as_str(),
            path: this.path.as_ref().map_or(OTHER, MatchedPath::as_str),
            status: response.status().as_u16(),
            took: this.began.elapsed(),
        });
        Poll::Ready(Ok(response))
    }
}
