//! Routes: who carries them, whether their jobs may leave, and pausing one by hand.

use axum::extract::{Request, State};
use axum::response::Response;
use recado_core::reason::clip;
use recado_store::Counts;
use recado_wire::jobs::WaitingFor;
use recado_wire::providers::PauseRequest;
use recado_wire::routes::{Route, RouteList, RoutePolicy};
use recado_wire::{Code, Problem};

use crate::answer::{self, Refused};
use crate::extract::{Actor, Asked, Segment};
use crate::openapi::{ActorHeader, ReadProblems, WriteProblems};
use crate::providers::{millis, show_pause, waiting_for, why};
use crate::state::ApiState;

/// Bytes at most that a message repeats of a name.
const NAME_SHOWN_MAX_BYTES: usize = 128;

fn show_one(api: &ApiState, route: &recado_engine::Route, counts: &Counts) -> Route {
    let engine = api.engine();
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

async fn counts(api: &ApiState) -> Result<Counts, Refused> {
    Ok(api.engine().store().counts(api.engine().now()).await?)
}

/// Every route: its transport, its providers, when it tries again, what waits on it and what holds it back.
#[utoipa::path(
    get, path = "/v1/routes", tag = "routes", operation_id = "listRoutes",
    responses((status = 200, body = RouteList), ReadProblems)
)]
pub(crate) async fn list(State(api): State<ApiState>, Asked(()): Asked<()>) -> Result<Response, Refused> {
    let counts = counts(&api).await?;
    let routes = api.engine().routes().iter();
    Ok(answer::ok(&RouteList { items: routes.map(|route| show_one(&api, route, &counts)).collect() }))
}

/// Pause a route: its jobs wait and spend no attempt. Other routes to the same provider go on.
#[utoipa::path(
    post, path = "/v1/routes/{name}/pause", tag = "routes", operation_id = "pauseRoute",
    params(("name" = String, Path), ActorHeader),
    request_body = Option<PauseRequest>,
    responses(
        (status = 200, body = Route),
        (status = 404, description = "There is no such route.", body = Problem, content_type = "application/problem+json"),
        WriteProblems,
    )
)]
pub(crate) async fn pause(
    State(api): State<ApiState>,
    Segment(name): Segment,
    Actor(actor): Actor,
    request: Request,
) -> Result<Response, Refused> {
    let reason = why(&api, request).await?;
    let known = api.engine().gate.pause_route(&name, reason.as_deref(), Some(&actor)).await?;
    shown_or_unknown(&api, &name, known).await
}

/// Let a paused route go on.
#[utoipa::path(
    post, path = "/v1/routes/{name}/resume", tag = "routes", operation_id = "resumeRoute",
    params(("name" = String, Path), ActorHeader),
    request_body = Option<PauseRequest>,
    responses(
        (status = 200, body = Route),
        (status = 404, description = "There is no such route.", body = Problem, content_type = "application/problem+json"),
        WriteProblems,
    )
)]
pub(crate) async fn resume(
    State(api): State<ApiState>,
    Segment(name): Segment,
    Actor(actor): Actor,
    request: Request,
) -> Result<Response, Refused> {
    let reason = why(&api, request).await?;
    let known = api.engine().gate.resume_route(&name, reason.as_deref(), Some(&actor)).await?;
    shown_or_unknown(&api, &name, known).await
}

/// Shows a route after an act on it, if the act found it.
async fn shown_or_unknown(api: &ApiState, name: &str, known: bool) -> Result<Response, Refused> {
    match api.engine().routes().get(name).filter(|_| known) {
        Some(route) => Ok(answer::ok(&show_one(api, route, &counts(api).await?))),
        None => {
            let name = clip(name, NAME_SHOWN_MAX_BYTES);
            let known = api.engine().routes().names().join(", ");
            let detail = format!("there is no route `{name}`; known routes: {known}");
            Err(Refused::new(Code::NotFound, detail))
        }
    }
}
