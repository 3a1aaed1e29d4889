//! Webhook endpoints: add, look at, change, switch on, try out, remove.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use recado_engine::endpoint_admin::{self, EndpointDraft, Tested, is_yes};
use recado_engine::notify::endpoints::{self, EndpointError};
use recado_wire::endpoints::{
    Endpoint, EndpointChange, EndpointList, EndpointQuery, EndpointRequest, EndpointTested, Secret,
};
use recado_wire::read::FAULTS_MAX;
use recado_wire::{Code, FieldFault, PAGE_ITEMS_DEFAULT, Problem};

use crate::answer::{self, ApiError, shown_name};
use crate::body;
use crate::cursor::{self, List};
use crate::extract::{Actor, CheckedQuery, PathSegment};
use crate::openapi::{ActorHeader, ReadProblems, WriteProblems};
use crate::state::ApiState;

/// Shows an endpoint without its secrets.
fn show_endpoint(api: &ApiState, endpoint: &endpoints::Endpoint) -> Endpoint {
    Endpoint {
        id: endpoint.id.clone(),
        company_id: endpoint.company_id.clone(),
        url: endpoint.url.clone(),
        description: endpoint.description.clone(),
        events: endpoint.events.clone(),
        enabled: endpoint.enabled,
        consecutive_failures: endpoint.failures,
        disabled_at: endpoint.disabled_at,
        disabled_reason: endpoint.disabled_reason.clone(),
        secret_rotating_until: endpoint.rotating_until(api.engine().now()),
        created_at: endpoint.created_at,
        updated_at: endpoint.updated_at,
        secret: None,
    }
}

/// The same with its newest secret, for the caller that has just made or changed it.
fn show_with_secret(api: &ApiState, endpoint: &endpoints::Endpoint) -> Endpoint {
    Endpoint { secret: Some(Secret::new(endpoint.newest_secret())), ..show_endpoint(api, endpoint) }
}

fn no_such_endpoint(id: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no endpoint `{}`", shown_name(id)))
}

fn show_refusal(refusal: endpoint_admin::EndpointRefusal, id: &str) -> ApiError {
    match refusal {
        endpoint_admin::EndpointRefusal::Invalid(faults) => {
            let fault = |(pointer, message)| FieldFault { pointer, message };
            ApiError::invalid(faults.into_iter().take(FAULTS_MAX).map(fault).collect())
        }
        endpoint_admin::EndpointRefusal::Endpoint(EndpointError::Unknown) => no_such_endpoint(id),
        endpoint_admin::EndpointRefusal::Endpoint(EndpointError::Store(error)) => error.into(),
        endpoint_admin::EndpointRefusal::Endpoint(error @ EndpointError::TooMany) => {
            ApiError::new(Code::Conflict, error.to_string())
        }
        endpoint_admin::EndpointRefusal::Endpoint(error @ EndpointError::Contended) => {
            ApiError::again_soon(error.to_string())
        }
        endpoint_admin::EndpointRefusal::NoCarrier => ApiError::invalid_at(
            "",
            format!("cannot be used: {}", endpoint_admin::EndpointRefusal::NoCarrier),
        ),
        endpoint_admin::EndpointRefusal::NoRandomness => {
            ApiError::new(Code::Internal, endpoint_admin::EndpointRefusal::NoRandomness.to_string())
        }
    }
}

/// Add an endpoint. Its secret is in the answer, and is never shown again.
#[utoipa::path(
    post, path = "/v1/endpoints", tag = "endpoints", operation_id = "addEndpoint", request_body = EndpointRequest,
    params(ActorHeader),
    responses(
        (status = 201, body = Endpoint),
        (status = 409, description = "The company has the maximum number of endpoints.", body = Problem, content_type = "application/problem+json"),
        WriteProblems,
    )
)]
pub(crate) async fn add(
    State(api): State<ApiState>,
    Actor(actor): Actor,
    request: Request,
) -> Result<Response, ApiError> {
    let asked: EndpointRequest = body::json(&api, request).await?.read()?;
    let draft = EndpointDraft {
        company_id: asked.company_id,
        url: asked.url,
        description: asked.description,
        events: asked.events,
        secret: asked.secret.map(|secret| secret.reveal().to_owned()),
        enabled: None,
    };
    let endpoint =
        api.engine().endpoint_admin.add(draft, &actor).await.map_err(|refusal| show_refusal(refusal, ""))?;
    Ok(answer::json(StatusCode::CREATED, &show_with_secret(&api, &endpoint)))
}

/// Endpoints, oldest first.
#[utoipa::path(
    get, path = "/v1/endpoints", tag = "endpoints", operation_id = "listEndpoints", params(EndpointQuery),
    responses((status = 200, body = EndpointList), ReadProblems)
)]
pub(crate) async fn list(
    State(api): State<ApiState>,
    CheckedQuery(query): CheckedQuery<EndpointQuery>,
) -> Result<Response, ApiError> {
    let after = cursor::read_name(List::Endpoints, query.cursor.as_deref())?;
    let limit = query.limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let company = query.company_id.as_ref().map(|company| company.as_str());
    let found = api.engine().notifier.endpoints.list(company, after.as_deref(), limit + 1);
    let items: Vec<_> = found.iter().take(limit).map(|endpoint| show_endpoint(&api, endpoint)).collect();
    let last = items.last().filter(|_| found.len() > limit);
    let next_cursor = last.map(|last| cursor::write_name(List::Endpoints, &last.id));
    Ok(answer::ok(&EndpointList { items, next_cursor }))
}

/// One endpoint.
#[utoipa::path(
    get, path = "/v1/endpoints/{id}", tag = "endpoints", operation_id = "getEndpoint", params(("id" = String, Path)),
    responses(
        (status = 200, body = Endpoint),
        (status = 404, description = "There is no such endpoint.", body = Problem, content_type = "application/problem+json"),
        ReadProblems,
    )
)]
pub(crate) async fn show(
    State(api): State<ApiState>,
    PathSegment(id): PathSegment,
    CheckedQuery(()): CheckedQuery<()>,
) -> Result<Response, ApiError> {
    match api.engine().notifier.endpoints.get(&id) {
        Some(endpoint) => Ok(answer::ok(&show_endpoint(&api, &endpoint))),
        None => Err(no_such_endpoint(&id)),
    }
}

/// Change an endpoint; what is absent stays. A new secret is in the answer, and is never shown again.
#[utoipa::path(
    patch, path = "/v1/endpoints/{id}", tag = "endpoints", operation_id = "changeEndpoint",
    params(("id" = String, Path), ActorHeader),
    request_body = EndpointChange,
    responses(
        (status = 200, body = Endpoint),
        (status = 404, description = "There is no such endpoint.", body = Problem, content_type = "application/problem+json"),
        WriteProblems,
    )
)]
pub(crate) async fn change(
    State(api): State<ApiState>,
    PathSegment(id): PathSegment,
    Actor(actor): Actor,
    request: Request,
) -> Result<Response, ApiError> {
    let asked: EndpointChange = body::json(&api, request).await?.read()?;
    let rotates = asked.secret.is_some();
    let draft = EndpointDraft {
        company_id: None,
        url: asked.url,
        description: asked.description,
        events: asked.events,
        secret: asked.secret.map(|secret| secret.reveal().to_owned()),
        enabled: asked.enabled,
    };
    let changed = api.engine().endpoint_admin.change(&id, draft, &actor).await;
    let endpoint = changed.map_err(|refusal| show_refusal(refusal, &id))?;
    let shown = if rotates { show_with_secret(&api, &endpoint) } else { show_endpoint(&api, &endpoint) };
    Ok(answer::ok(&shown))
}

/// Remove an endpoint. What is on its way to it goes to the dead letter queue.
#[utoipa::path(
    delete, path = "/v1/endpoints/{id}", tag = "endpoints", operation_id = "removeEndpoint",
    params(("id" = String, Path), ActorHeader),
    responses(
        (status = 204, description = "It is gone."),
        (status = 404, description = "There is no such endpoint.", body = Problem, content_type = "application/problem+json"),
        ReadProblems,
    )
)]
pub(crate) async fn remove(
    State(api): State<ApiState>,
    PathSegment(id): PathSegment,
    Actor(actor): Actor,
) -> Result<Response, ApiError> {
    api.engine().endpoint_admin.remove(&id, &actor).await.map_err(|refusal| show_refusal(refusal, &id))?;
    Ok(answer::done())
}

/// Switch an endpoint on again, with no failures to its name.
#[utoipa::path(
    post, path = "/v1/endpoints/{id}/enable", tag = "endpoints", operation_id = "enableEndpoint",
    params(("id" = String, Path), ActorHeader),
    responses(
        (status = 200, body = Endpoint),
        (status = 404, description = "There is no such endpoint.", body = Problem, content_type = "application/problem+json"),
        ReadProblems,
    )
)]
pub(crate) async fn enable(
    State(api): State<ApiState>,
    PathSegment(id): PathSegment,
    Actor(actor): Actor,
) -> Result<Response, ApiError> {
    let draft = EndpointDraft { enabled: Some(true), ..EndpointDraft::default() };
    let changed = api.engine().endpoint_admin.change(&id, draft, &actor).await;
    let endpoint = changed.map_err(|refusal| show_refusal(refusal, &id))?;
    Ok(answer::ok(&show_endpoint(&api, &endpoint)))
}

/// Post a signed test to an endpoint at once. It neither counts nor is repeated.
#[utoipa::path(
    post, path = "/v1/endpoints/{id}/test", tag = "endpoints", operation_id = "testEndpoint",
    params(("id" = String, Path), ActorHeader),
    responses(
        (status = 200, description = "The result of the delivery, successful or not.", body = EndpointTested),
        (status = 404, description = "There is no such endpoint.", body = Problem, content_type = "application/problem+json"),
        ReadProblems,
    )
)]
pub(crate) async fn test(
    State(api): State<ApiState>,
    PathSegment(id): PathSegment,
    Actor(actor): Actor,
) -> Result<Response, ApiError> {
    let tested =
        api.engine().endpoint_admin.test(&id, &actor).await.map_err(|refusal| show_refusal(refusal, &id))?;
    Ok(answer::ok(&show_tested(tested)))
}

fn show_tested(tested: Tested) -> EndpointTested {
    let ok = is_yes(&tested);
    match tested {
        Ok(result) => EndpointTested {
            ok,
            status: Some(result.status),
            took_ms: u64::try_from(result.took.as_millis()).ok(),
            error_code: None,
            error_reason: None,
        },
        Err(fault) => EndpointTested {
            ok,
            status: fault.status,
            took_ms: None,
            error_code: fault.code.map(Into::into),
            error_reason: Some(fault.text.into()).filter(|text: &String| !text.is_empty()),
        },
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::RETRY_AFTER;
    use axum::response::IntoResponse;
    use recado_store::StoreError;

    use super::*;

    #[test]
    fn a_refusal_says_whether_the_same_again_may_work() {
        let rows = [
            (endpoint_admin::EndpointRefusal::Endpoint(EndpointError::Unknown), 404, false),
            (endpoint_admin::EndpointRefusal::Endpoint(EndpointError::TooMany), 409, false),
            (endpoint_admin::EndpointRefusal::Endpoint(EndpointError::Contended), 503, true),
            (
                endpoint_admin::EndpointRefusal::Endpoint(StoreError::Unavailable("x".to_owned()).into()),
                503,
                true,
            ),
            (endpoint_admin::EndpointRefusal::NoCarrier, 422, false),
            (endpoint_admin::EndpointRefusal::NoRandomness, 500, false),
        ];
        for (refusal, status, again) in rows {
            let words = refusal.to_string();
            let response = show_refusal(refusal, "ep_1").into_response();
            assert_eq!(response.status(), status, "{words}");
            assert_eq!(response.headers().contains_key(RETRY_AFTER), again, "{words}");
        }
    }
}
