//! Finishes acts even if their caller does not wait for the answer.
//!
//! A server drops a handler's future when its client hangs up. An act that was cut off there could have changed the
//! store without its events, or have done half of its work. So each act runs on a task of its own.

use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use recado_wire::Code;

use crate::answer::ApiError;

/// Requests of programs and not of operators. Each is one step of the store, or must end when its caller is gone: a
/// worker that hung up takes no leases, and the answer of a call or a simulation has no reader any more.
const NO_ACTS: [&str; 5] = ["/v1/jobs", "/v1/leases", "/v1/calls", "/v1/decisions", "/v1/simulations"];

fn is_act(method: &Method, path: &str) -> bool {
    match *method {
        Method::GET | Method::HEAD | Method::OPTIONS => false,
        Method::POST => !NO_ACTS.iter().any(|prefix| path.starts_with(prefix)),
        _ => true,
    }
}

pub(crate) async fn finish(request: Request, next: Next) -> Response {
    if !is_act(request.method(), request.uri().path()) {
        return next.run(request).await;
    }
    match tokio::spawn(next.run(request)).await {
        Ok(response) => response,
        Err(error) => {
            tracing::error!(%error, "An act ended without an answer");
            ApiError::new(Code::Internal, "the act was cut off; the log says more").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_operators_ask_for_is_an_act_and_what_programs_ask_for_is_not() {
        for (method, path) in [
            (Method::DELETE, "/v1/jobs/a"),
            (Method::POST, "/v1/dlq/a/replay"),
            (Method::POST, "/v1/endpoints"),
            (Method::PATCH, "/v1/endpoints/ep_1"),
            (Method::PUT, "/v1/tenants/acme"),
            (Method::POST, "/v1/audit/erasures"),
        ] {
            assert!(is_act(&method, path), "{method} {path}");
        }
        for (method, path) in [
            (Method::GET, "/v1/dlq"),
            (Method::POST, "/v1/jobs"),
            (Method::POST, "/v1/jobs/batch"),
            (Method::POST, "/v1/leases"),
            (Method::POST, "/v1/leases/1/succeed"),
            (Method::POST, "/v1/simulations"),
        ] {
            assert!(!is_act(&method, path), "{method} {path}");
        }
    }
}
