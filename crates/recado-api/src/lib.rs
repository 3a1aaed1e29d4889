//! The HTTP API: axum, a file per resource.
//!
//! | file | what |
//! |---|---|
//! | [`serve`] | accepts connections, with a limit on everything, and lets them go gracefully |
//! | [`connection`] | one connection's clock: how long it may take over a header, how long it may be idle |
//! | [`gate`] | who may come in: token, host, origin |
//! | [`wrong_tokens`] | counts and logs wrong tokens, and answers many of them late |
//! | [`body`] [`extract`] | what a request says: its body, bounded in size and time, and the rest of it |
//! | [`handlers`] | the resources, a file each |
//! | [`dashboard`] | the pages that people work in |
//! | [`csv`] | dead letters as a table |
//! | [`answer`] | answers, and problems as RFC 9457 has them |
//! | [`answer_memory`] | bounds the memory of answers that wait for their readers |
//! | [`detached_acts`] | lets an act end when its caller has hung up |
//! | [`cursor`] | places in a list |
//! | [`openapi`] [`document`] | the document that describes all of it, written from the code |
//!
//! Requests and answers are types of `recado-wire`; what they mean is the engine's business. So a handler
//! reads, asks the engine, and shows what it said.
//!
//! Deliberately absent: TLS, sessions and rate limits of callers with a token (a proxy's work), and payloads in logs.

mod answer;
mod answer_memory;
mod body;
mod connection;
mod connections;
mod csv;
mod cursor;
mod dashboard;
mod detached_acts;
mod document;
mod extract;
mod gate;
mod handlers;
mod openapi;
mod serve;
mod state;
mod wrong_tokens;

use axum::Router;
use axum::http::{Method, Uri};
use recado_wire::Code;
use tower::layer::layer_fn;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::answer::{ApiError, shown_name};
use crate::gate::Gate;
use crate::handlers::metrics::MetricsService;
use crate::handlers::{
    accounts, alerts, archive, audit, batch, bulk, calls, decisions, dlq, endpoints, events, holds, jobs,
    kpis, leases, metrics, nodes, probes, providers, routes as route_handlers, tenants,
};

pub use gate::{EmptyToken, Hosts, Token};
pub use serve::{ServeLimits, serve};
pub use state::{ApiLimits, ApiOptions, ApiState};

/// Every route there is. Each is added with its description, so that none can be missing from the document.
fn described() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(openapi::preface())
        .routes(routes!(jobs::enqueue, jobs::list))
        .routes(routes!(batch::enqueue_batch))
        .routes(routes!(jobs::show, jobs::cancel))
        .routes(routes!(jobs::audit))
        .routes(routes!(leases::lease))
        .routes(routes!(leases::settle))
        .routes(routes!(leases::succeed))
        .routes(routes!(leases::fail))
        .routes(routes!(leases::extend))
        .routes(routes!(decisions::decide))
        .routes(routes!(dlq::list))
        .routes(routes!(dlq::stats))
        .routes(routes!(archive::export))
        .routes(routes!(archive::import))
        .routes(routes!(bulk::replay))
        .routes(routes!(bulk::discard))
        .routes(routes!(bulk::list))
        .routes(routes!(bulk::show, bulk::stop))
        .routes(routes!(dlq::show))
        .routes(routes!(dlq::replay))
        .routes(routes!(dlq::discard))
        .routes(routes!(endpoints::add, endpoints::list))
        .routes(routes!(endpoints::show, endpoints::change, endpoints::remove))
        .routes(routes!(endpoints::enable))
        .routes(routes!(endpoints::test))
        .routes(routes!(events::listen))
        .routes(routes!(calls::call))
        .routes(routes!(accounts::list))
        .routes(routes!(accounts::clear))
        .routes(routes!(providers::list))
        .routes(routes!(providers::show))
        .routes(routes!(providers::turn))
        .routes(routes!(providers::pause))
        .routes(routes!(providers::resume))
        .routes(routes!(providers::permit))
        .routes(routes!(providers::success))
        .routes(routes!(providers::failure))
        .routes(routes!(holds::list))
        .routes(routes!(holds::lift))
        .routes(routes!(route_handlers::list))
        .routes(routes!(route_handlers::pause))
        .routes(routes!(route_handlers::resume))
        .routes(routes!(tenants::list))
        .routes(routes!(tenants::show, tenants::set))
        .routes(routes!(nodes::list))
        .routes(routes!(alerts::list))
        .routes(routes!(audit::list))
        .routes(routes!(audit::erase))
        .routes(routes!(kpis::show))
        .routes(routes!(metrics::metrics))
        .routes(routes!(probes::healthz))
        .routes(routes!(probes::readyz))
        .routes(routes!(probes::openapi_json))
        .routes(routes!(dashboard::index))
        .routes(routes!(dashboard::asset))
}

/// The API's description of itself, as it is served.
pub fn openapi() -> serde_json::Value {
    document::finish(&described().into_openapi())
}

/// The whole API, gate included.
pub fn router(state: ApiState) -> Router {
    let gate = Gate::new(&state.options);
    let api = state.clone();
    // The outermost: what the gate turns away is an answer, too.
    let counted = move |behind| MetricsService { api: api.clone(), gate: gate.clone(), behind };
    let (router, _) = described().split_for_parts();
    router
        .fallback(no_such_path)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(state)
        .layer(axum::middleware::from_fn(detached_acts::finish))
        .layer(layer_fn(counted))
}

async fn no_such_path(uri: Uri) -> ApiError {
    let path = shown_name(uri.path());
    ApiError::not_found(format!("there is nothing at {path}; GET /openapi.json lists what there is"))
}

async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    let path = shown_name(uri.path());
    ApiError::new(Code::MethodNotAllowed, format!("{path} does not take {method}; see the Allow header"))
}
