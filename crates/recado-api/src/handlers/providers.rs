//! Providers: their health, their breaker and pause by hand, and the breaker for callers' own code.

use std::collections::BTreeMap;
use std::time::Duration;

use recado_core::RouteName;
use recado_core::breaker::BreakerState;
use recado_core::limit::Rate;
use recado_core::time::millis;
use recado_engine::admission::admin::PermitAnswer;
use recado_engine::admission::provider::{CompanySlots, Pause, ProviderTerms, ProviderView};
use recado_engine::{HoldCause, HoldReason, ProviderAct};
use recado_store::TenantFilter;
use recado_wire::jobs::WaitingFor;
use recado_wire::providers::{
    BreakerAction, BreakerLimits, BreakerRequest, CallPermit, FailureReport, PauseRequest, Paused, Provider,
    ProviderLimits, ProviderList, RateLimit, SuccessReport,
};

use crate::handlers::prelude::*;

fn no_such_provider(api: &ApiState, name: &str) -> ApiError {
    let name = shown_name(name);
    let known: Vec<_> = api.engine.gate.provider_views().iter().map(|known| known.name.to_string()).collect();
    ApiError::not_found(format!("there is no provider `{name}`; known ones: {}", known.join(", ")))
}

pub(crate) fn waiting_for(hold: HoldReason) -> WaitingFor {
    let HoldReason { by, why, said, until } = hold;
    match by {
        HoldCause::Breaker => WaitingFor::Breaker { why, said, until },
        HoldCause::Limit(code) => WaitingFor::Limit { code, why, said, until },
        HoldCause::Pause(code, Pause { since, actor, .. }) => {
            WaitingFor::Pause { code, why, said, since: Some(since), actor }
        }
    }
}

fn limits(terms: &ProviderTerms) -> ProviderLimits {
    let rate = |rate: Rate| RateLimit { max: rate.max, per_ms: millis(rate.per) };
    let bounds_receivers =
        terms.company_slots == CompanySlots::AsManyAsFree || terms.receiver_concurrency.is_some();
    ProviderLimits {
        breaker: terms.breaker.map(|breaker| BreakerLimits {
            failures: breaker.failures,
            within_ms: millis(breaker.within),
            reset_ms: millis(breaker.reset),
        }),
        rate: terms.rate.map(rate),
        concurrency: terms.concurrency as u64,
        company_rate: terms.company_rate.map(rate),
        company_concurrency: terms.company_slots_max().map(|max| max as u64),
        endpoint_concurrency: bounds_receivers.then(|| terms.receiver_slots_max() as u64),
        adaptive: terms.adaptive,
    }
}

pub(crate) fn show_pause(Pause { since, reason, actor }: Pause) -> Paused {
    Paused { since, reason, actor }
}

/// Jobs that are due and wait, of each route that is held back as a whole.
async fn parked_by_route(api: &ApiState) -> ApiResult<BTreeMap<RouteName, u64>> {
    let engine = &api.engine;
    let mut parked = BTreeMap::new();
    for route in engine.routes().iter().filter(|route| engine.gate.route_hold(route).is_some()) {
        let filter = TenantFilter { route: Some(route.name.clone()), company: None };
        let tenants = engine.inspect().tenants(filter, engine.now()).await?;
        parked.insert(route.name.clone(), tenants.iter().map(|tenant| tenant.queued).sum());
    }
    Ok(parked)
}

fn show_one(api: &ApiState, view: ProviderView, parked: &BTreeMap<RouteName, u64>) -> Provider {
    let named = |name: &str| name == &*view.name;
    let routes = api.engine.routes().iter().filter(|route| route.providers().any(named));
    let routes: Vec<RouteName> = routes.map(|route| route.name.clone()).collect();
    let undeliverable = |route: &RouteName| api.engine.routes().why_undeliverable(route.as_str());
    let reasons: Option<Vec<String>> = routes.iter().map(undeliverable).collect();
    // An unreachable provider would look healthy otherwise: it is never tried.
    let unreachable = reasons.and_then(|reasons| reasons.into_iter().next());
    let waiting_for = unreachable.map(|why| WaitingFor::Route { why }).or_else(|| {
        view.hold().or_else(|| api.engine.gate.receivers_hold(&view.name, None)).map(waiting_for)
    });
    Provider {
        state: view.breaker.state,
        failures_in_window: view.failures_in_window as u64,
        since: view.breaker.since,
        reason: view.breaker.reason,
        held_open: view.breaker.held_open,
        // Older versions kept that of a breaker that has closed since.
        next_probe_at: view.breaker.next_probe_at.filter(|_| view.breaker.state == BreakerState::Open),
        paused: view.paused.map(show_pause),
        quiet_until: view.quiet_until,
        running: view.running as u64,
        concurrency: view.bound as u64,
        limits: limits(&view.terms),
        parked: routes.iter().filter_map(|route| parked.get(route)).sum(),
        waiting_for,
        routes,
        name: view.name,
    }
}

async fn show_or_refuse(api: &ApiState, name: &str, view: Option<ProviderView>) -> ApiResult {
    let view = view.ok_or_else(|| no_such_provider(api, name))?;
    answer::ok(&show_one(api, view, &parked_by_route(api).await?))
}

/// Every provider: its breaker, its limits, what waits for it.
#[utoipa::path(
    get, path = "/v1/providers", tag = "providers", operation_id = "listProviders",
    responses((status = 200, body = ProviderList), ReadProblems)
)]
pub async fn list(api: ApiState, _: NoQuery) -> ApiResult {
    let parked = parked_by_route(&api).await?;
    let views = api.engine.gate.provider_views().into_iter();
    answer::ok(&ProviderList { items: views.map(|view| show_one(&api, view, &parked)).collect() })
}

/// One provider.
#[utoipa::path(
    get, path = "/v1/providers/{name}", tag = "providers", operation_id = "getProvider",
    params(("name" = String, Path)),
    responses((status = 200, body = Provider), NoSuchProvider, ReadProblems)
)]
pub async fn show(api: ApiState, name: InPath<String>, _: NoQuery) -> ApiResult {
    let view = api.engine.gate.provider_view(&name);
    show_or_refuse(&api, &name, view).await
}

/// Open or close a provider's breaker by hand. Opened by hand it stays open until it is closed by hand.
#[utoipa::path(
    post, path = "/v1/providers/{name}/breaker", tag = "providers", operation_id = "setBreaker",
    params(("name" = String, Path), ActorHeader), request_body = BreakerRequest,
    responses((status = 200, body = Provider), NoSuchProvider, BreakerMissing, WriteProblems)
)]
pub async fn turn(
    api: ApiState,
    name: InPath<String>,
    actor: Actor,
    Json(asked): Json<BreakerRequest>,
) -> ApiResult {
    let known = api.engine.gate.provider_view(&name).ok_or_else(|| no_such_provider(&api, &name))?;
    if known.terms.breaker.is_none() {
        let detail = format!("provider `{}` has no breaker; pause it, or configure a breaker for it", *name);
        return Err(ApiError::conflict(detail));
    }
    let (gate, reason) = (&api.engine.gate, asked.reason.trim());
    let act = match asked.action {
        BreakerAction::Open => ProviderAct::OpenBreaker,
        BreakerAction::Close => ProviderAct::CloseBreaker,
    };
    let view = gate.act_on_provider(&name, act, Some(reason), Some(&actor)).await?;
    show_or_refuse(&api, &name, view).await
}

/// Pause a provider: its jobs wait and spend no attempt.
#[utoipa::path(
    post, path = "/v1/providers/{name}/pause", tag = "providers", operation_id = "pauseProvider",
    params(("name" = String, Path), ActorHeader), request_body = Option<PauseRequest>,
    responses((status = 200, body = Provider), NoSuchProvider, WriteProblems)
)]
pub async fn pause(api: ApiState, name: InPath<String>, actor: Actor, Reason(reason): Reason) -> ApiResult {
    let view =
        api.engine.gate.act_on_provider(&name, ProviderAct::Pause, reason.as_deref(), Some(&actor)).await?;
    show_or_refuse(&api, &name, view).await
}

/// Resume a paused provider.
#[utoipa::path(
    post, path = "/v1/providers/{name}/resume", tag = "providers", operation_id = "resumeProvider",
    params(("name" = String, Path), ActorHeader), request_body = Option<PauseRequest>,
    responses((status = 200, body = Provider), NoSuchProvider, WriteProblems)
)]
pub async fn resume(api: ApiState, name: InPath<String>, actor: Actor, Reason(reason): Reason) -> ApiResult {
    let view =
        api.engine.gate.act_on_provider(&name, ProviderAct::Resume, reason.as_deref(), Some(&actor)).await?;
    show_or_refuse(&api, &name, view).await
}

/// Ask for a permit to call this provider from the caller's own code. After a yes, report the result, by
/// success or failure.
#[utoipa::path(
    post, path = "/v1/providers/{name}/permit", tag = "providers", operation_id = "askForPermit",
    params(("name" = String, Path)),
    responses((status = 200, description = "Granted or refused.", body = CallPermit), NoSuchProvider, ReadProblems)
)]
pub async fn permit(api: ApiState, name: InPath<String>) -> ApiResult {
    let permit = api.engine.gate.permit(&name).await.ok_or_else(|| no_such_provider(&api, &name))?;
    let PermitAnswer { permitted, state, reason, retry_after } = permit;
    answer::ok(&CallPermit { permitted, state, reason, retry_after_ms: retry_after.map(millis) })
}

/// A permitted call went well.
#[utoipa::path(
    post, path = "/v1/providers/{name}/success", tag = "providers", operation_id = "reportSuccess",
    params(("name" = String, Path)), request_body = Option<SuccessReport>,
    responses((status = 200, body = Provider), NoSuchProvider, WriteProblems)
)]
pub async fn success(
    api: ApiState,
    name: InPath<String>,
    OptionalJson(report): OptionalJson<SuccessReport>,
) -> ApiResult {
    let took = Duration::from_millis(report.took_ms.unwrap_or(0));
    let view = api.engine.gate.record_call(&name, Ok(took));
    show_or_refuse(&api, &name, view).await
}

/// A permitted call failed, and the provider is to blame.
#[utoipa::path(
    post, path = "/v1/providers/{name}/failure", tag = "providers", operation_id = "reportFailure",
    params(("name" = String, Path)), request_body = Option<FailureReport>,
    responses((status = 200, body = Provider), NoSuchProvider, WriteProblems)
)]
pub async fn failure(
    api: ApiState,
    name: InPath<String>,
    OptionalJson(report): OptionalJson<FailureReport>,
) -> ApiResult {
    let reason = given(report.reason.as_deref()).unwrap_or("a call reported to have failed");
    let view = api.engine.gate.record_call(&name, Err(reason));
    show_or_refuse(&api, &name, view).await
}
