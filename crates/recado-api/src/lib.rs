//! The HTTP API: axum, a file per resource.
//!
//! | file | what |
//! |---|---|
//! | [`serve`] | accepts connections, with a limit on everything, and lets them go gracefully |
//! | [`connection`] | one connection's clock: how long it may take over a header, how long it may be idle |
//! | [`connections`] | bounds connections: in all, per address, and of callers not let in yet |
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
//! | [`state`] | what all handlers share |
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

use crate::answer::{ApiError, shown_name};
use crate::gate::Gate;
use crate::handlers::described;
use crate::handlers::metrics::MetricsService;

pub use gate::{EmptyToken, Hosts, Token};
pub use serve::{ServeLimits, serve};
pub use state::{ApiLimits, ApiOptions, ApiState, ReadPolicy};

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
