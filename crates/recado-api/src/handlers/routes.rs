//! Routes: how they deliver, whether their jobs may leave, and pausing one by hand.

use recado_core::time::millis;
use recado_engine::RouteAct;
use recado_store::Counts;
use recado_wire::jobs::WaitingFor;
use recado_wire::providers::PauseRequest;
use recado_wire::routes::{Route, RouteList, RoutePolicy};

use crate::handlers::prelude::*;
use crate::handlers::providers::{show_pause, waiting_for};

fn show_one(api: &ApiState, route: &recado_engine::Route, counts: &Counts) -> Route {
    let engine = &api.engine;
    let undeliverable =
        engine.routes().why_undeliverable(route.name.as_str()).map(|why| WaitingFor::Route { why });
    Route {
        name: route.name.clone(),
        transport: route.transport_name().into(),
        providers: route.providers().map(Into::into).collect(),
        timeout_ms: millis(route.timeout),
        policy: RoutePolicy::from(&route.terms.policy),
        paused: engine.gate.pause_of(&route.name).map(show_pause),
        waiting: counts.waiting_by_route.get(&route.name).copied().unwrap_or(0),
        waiting_for: undeliverable.or_else(|| {
            let by_receivers = || engine.gate.receivers_hold(&route.provider, None);
            engine.gate.route_hold(route).or_else(by_receivers).map(waiting_for)
        }),
    }
}

async fn counts(api: &ApiState) -> ApiResult<Counts> {
    Ok(api.engine.inspect().counts(api.engine.now()).await?)
}

/// Every route: its transport, its providers, when it tries again, what waits on it and what holds it back.
#[utoipa::path(
    get, path = "/v1/routes", tag = "routes", operation_id = "listRoutes",
    responses((status = 200, body = RouteList), ReadProblems)
)]
pub async fn list(api: ApiState, _: NoQuery) -> ApiResult {
    let counts = counts(&api).await?;
    let routes = api.engine.routes().iter();
    answer::ok(&RouteList { items: routes.map(|route| show_one(&api, route, &counts)).collect() })
}

/// Pause a route: its jobs wait and spend no attempt. Other routes to the same provider continue.
#[utoipa::path(
    post, path = "/v1/routes/{name}/pause", tag = "routes", operation_id = "pauseRoute",
    params(("name" = String, Path), ActorHeader), request_body = Option<PauseRequest>,
    responses((status = 200, body = Route), NoSuchRoute, WriteProblems)
)]
pub async fn pause(api: ApiState, name: InPath<String>, actor: Actor, Reason(reason): Reason) -> ApiResult {
    api.engine.gate.act_on_route(&name, RouteAct::Pause, reason.as_deref(), Some(&actor)).await?;
    show_or_refuse(&api, &name).await
}

/// Resume a paused route.
#[utoipa::path(
    post, path = "/v1/routes/{name}/resume", tag = "routes", operation_id = "resumeRoute",
    params(("name" = String, Path), ActorHeader), request_body = Option<PauseRequest>,
    responses((status = 200, body = Route), NoSuchRoute, WriteProblems)
)]
pub async fn resume(api: ApiState, name: InPath<String>, actor: Actor, Reason(reason): Reason) -> ApiResult {
    api.engine.gate.act_on_route(&name, RouteAct::Resume, reason.as_deref(), Some(&actor)).await?;
    show_or_refuse(&api, &name).await
}

/// Shows a route after an act on it, or says that there is none.
async fn show_or_refuse(api: &ApiState, name: &str) -> ApiResult {
    let Some(route) = api.engine.routes().get(name) else {
        return Err(ApiError::no_such_route(api.engine.routes(), name));
    };
    answer::ok(&show_one(api, route, &counts(api).await?))
}
