//! Webhook endpoints: add, look at, change, switch on, try out, remove.

use recado_engine::endpoint_admin::{EndpointDraft, EndpointRefusal, Tested, is_success};
use recado_engine::notify::endpoints::{self, EndpointError};
use recado_wire::endpoints::{
    Endpoint, EndpointChange, EndpointList, EndpointQuery, EndpointRequest, EndpointTested, Secret,
};

use crate::handlers::prelude::*;

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
        secret_rotating_until: endpoint.rotating_until(api.engine.now()),
        created_at: endpoint.created_at,
        updated_at: endpoint.updated_at,
        secret: None,
    }
}

/// Shows an endpoint with its newest secret, for the caller that has just made or changed it.
fn show_with_secret(api: &ApiState, endpoint: &endpoints::Endpoint) -> Endpoint {
    Endpoint { secret: Some(Secret::new(endpoint.newest_secret())), ..show_endpoint(api, endpoint) }
}

fn no_such_endpoint(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no endpoint `{}`", shown_name(id)))
}

/// Shows a refusal of an act on this endpoint.
fn refusal_of(id: &str) -> impl FnOnce(EndpointRefusal) -> ApiError {
    move |refusal| match refusal {
        EndpointRefusal::Invalid(faults) => ApiError::faulty(faults),
        EndpointRefusal::Endpoint(EndpointError::Unknown) => no_such_endpoint(id),
        EndpointRefusal::Endpoint(EndpointError::Store(error)) => error.into(),
        EndpointRefusal::Endpoint(EndpointError::TooMany) => ApiError::conflict(refusal.to_string()),
        EndpointRefusal::Endpoint(EndpointError::Contended) => ApiError::again_soon(refusal.to_string()),
        EndpointRefusal::NoCarrier => ApiError::invalid_at("", format!("cannot be used: {refusal}")),
        EndpointRefusal::NoRandomness => ApiError::new(Code::Internal, refusal.to_string()),
    }
}

/// Add an endpoint. Its secret is in the answer, and is never shown again.
#[utoipa::path(
    post, path = "/v1/endpoints", tag = "endpoints", operation_id = "addEndpoint",
    request_body = EndpointRequest, params(ActorHeader),
    responses((status = 201, body = Endpoint), TooManyEndpoints, WriteProblems)
)]
pub async fn add(api: ApiState, actor: Actor, Json(asked): Json<EndpointRequest>) -> ApiResult {
    let draft = EndpointDraft {
        company_id: asked.company_id,
        url: asked.url,
        description: asked.description,
        events: asked.events,
        secret: asked.secret.map(|secret| secret.reveal().to_owned()),
        enabled: None,
    };
    let endpoint = api.engine.endpoint_admin.add(draft, &actor).await.map_err(refusal_of(""))?;
    answer::json(StatusCode::CREATED, &show_with_secret(&api, &endpoint))
}

/// Endpoints, oldest first.
#[utoipa::path(
    get, path = "/v1/endpoints", tag = "endpoints", operation_id = "listEndpoints", params(EndpointQuery),
    responses((status = 200, body = EndpointList), ReadProblems)
)]
pub async fn list(api: ApiState, CheckedQuery(query): CheckedQuery<EndpointQuery>) -> ApiResult {
    let after = cursor::read_name(List::Endpoints, query.cursor.as_deref())?;
    let limit = query.limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let company = query.company_id.as_ref().map(|company| company.as_str());
    let found = api.engine.notifier.endpoints.list(company, after.as_deref(), limit + 1).into_iter();
    let (page, next_cursor) = cursor::take_page(List::Endpoints, found, limit, |last| last.id.to_string());
    let items = page.iter().map(|endpoint| show_endpoint(&api, endpoint)).collect();
    answer::ok(&EndpointList { items, next_cursor })
}

/// One endpoint.
#[utoipa::path(
    get, path = "/v1/endpoints/{id}", tag = "endpoints", operation_id = "getEndpoint",
    params(("id" = String, Path)),
    responses((status = 200, body = Endpoint), NoSuchEndpoint, ReadProblems)
)]
pub async fn show(api: ApiState, id: InPath<String>, _: NoQuery) -> ApiResult {
    let endpoint = api.engine.notifier.endpoints.get(&id).ok_or_else(|| no_such_endpoint(&id))?;
    answer::ok(&show_endpoint(&api, &endpoint))
}

/// Change an endpoint; what is absent stays. A new secret is in the answer, and is never shown again.
#[utoipa::path(
    patch, path = "/v1/endpoints/{id}", tag = "endpoints", operation_id = "changeEndpoint",
    params(("id" = String, Path), ActorHeader), request_body = EndpointChange,
    responses((status = 200, body = Endpoint), NoSuchEndpoint, WriteProblems)
)]
pub async fn change(
    api: ApiState,
    id: InPath<String>,
    actor: Actor,
    Json(asked): Json<EndpointChange>,
) -> ApiResult {
    let rotates = asked.secret.is_some();
    let draft = EndpointDraft {
        company_id: None,
        url: asked.url,
        description: asked.description,
        events: asked.events,
        secret: asked.secret.map(|secret| secret.reveal().to_owned()),
        enabled: asked.enabled,
    };
    let changed = api.engine.endpoint_admin.change(&id, draft, &actor).await;
    let endpoint = changed.map_err(refusal_of(&id))?;
    let shown = if rotates { show_with_secret(&api, &endpoint) } else { show_endpoint(&api, &endpoint) };
    answer::ok(&shown)
}

/// Remove an endpoint. What is on its way to it goes to the dead letter queue.
#[utoipa::path(
    delete, path = "/v1/endpoints/{id}", tag = "endpoints", operation_id = "removeEndpoint",
    params(("id" = String, Path), ActorHeader),
    responses((status = 204, description = "It is gone."), NoSuchEndpoint, ReadProblems)
)]
pub async fn remove(api: ApiState, id: InPath<String>, actor: Actor) -> ApiResult {
    api.engine.endpoint_admin.remove(&id, &actor).await.map_err(refusal_of(&id))?;
    answer::done()
}

/// Enable an endpoint again and reset its failure count.
#[utoipa::path(
    post, path = "/v1/endpoints/{id}/enable", tag = "endpoints", operation_id = "enableEndpoint",
    params(("id" = String, Path), ActorHeader),
    responses((status = 200, body = Endpoint), NoSuchEndpoint, ReadProblems)
)]
pub async fn enable(api: ApiState, id: InPath<String>, actor: Actor) -> ApiResult {
    let draft = EndpointDraft { enabled: Some(true), ..EndpointDraft::default() };
    let changed = api.engine.endpoint_admin.change(&id, draft, &actor).await;
    let endpoint = changed.map_err(refusal_of(&id))?;
    answer::ok(&show_endpoint(&api, &endpoint))
}

/// Send a signed test event to an endpoint at once. It neither counts nor is repeated.
#[utoipa::path(
    post, path = "/v1/endpoints/{id}/test", tag = "endpoints", operation_id = "testEndpoint",
    params(("id" = String, Path), ActorHeader),
    responses(
        (status = 200, description = "The result of the delivery, successful or not.", body = EndpointTested),
        NoSuchEndpoint,
        ReadProblems,
    )
)]
pub async fn test(api: ApiState, id: InPath<String>, actor: Actor) -> ApiResult {
    let tested = api.engine.endpoint_admin.test(&id, &actor).await.map_err(refusal_of(&id))?;
    answer::ok(&show_tested(tested))
}

fn show_tested(tested: Tested) -> EndpointTested {
    let ok = is_success(&tested);
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
            (EndpointRefusal::Endpoint(EndpointError::Unknown), 404, false),
            (EndpointRefusal::Endpoint(EndpointError::TooMany), 409, false),
            (EndpointRefusal::Endpoint(EndpointError::Contended), 503, true),
            (EndpointRefusal::Endpoint(StoreError::Unavailable("x".to_owned()).into()), 503, true),
            (EndpointRefusal::NoCarrier, 422, false),
            (EndpointRefusal::NoRandomness, 500, false),
        ];
        for (refusal, status, again) in rows {
            let words = refusal.to_string();
            let response = refusal_of("ep_1")(refusal).into_response();
            assert_eq!(response.status(), status, "{words}");
            assert_eq!(response.headers().contains_key(RETRY_AFTER), again, "{words}");
        }
    }
}
