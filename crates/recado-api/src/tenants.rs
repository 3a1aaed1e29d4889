//! Tenants: how each fares, and what an operator says about it.

use std::collections::BTreeMap;

use axum::extract::{Request, State};
use axum::response::Response;
use recado_core::CompanyId;
use recado_core::fair::round_robin_priority;
use recado_core::reason::clip;
use recado_engine::tenants::TenantTerms;
use recado_store::{DeadLetterFilter, GroupBy, TenantFilter, TenantView};
use recado_wire::jobs::WaitingFor;
use recado_wire::tenants::{Fares, Tenant, TenantChange, TenantList, TenantQuery, TenantRoute, WEIGHT_MAX};
use recado_wire::{Code, Problem};

use crate::answer::{self, Refused};
use crate::body;
use crate::extract::{Asked, Segment};
use crate::jobs::why_due_and_waiting;
use crate::openapi::{ReadProblems, WriteProblems};
use crate::state::ApiState;

const _: () = assert!(WEIGHT_MAX == recado_engine::tenants::WEIGHT_MAX);

/// Bytes at most that a message repeats of a name.
const NAME_SHOWN_MAX_BYTES: usize = 128;

fn no_such_tenant(company: &str) -> Refused {
    let company = clip(company, NAME_SHOWN_MAX_BYTES);
    Refused::new(Code::NotFound, format!("nothing is known of company `{company}`"))
}

fn untouched() -> Fares {
    Fares {
        queued: 0,
        delayed: 0,
        delivering: 0,
        last_processed_at: None,
        rounds_without_processing: 0,
        current_priority: round_robin_priority(0),
        total_processed: 0,
        consecutive_batch_count: 0,
        waiting_for: None,
    }
}

fn on_one_route(api: &ApiState, view: TenantView) -> TenantRoute {
    let waiting = || why_due_and_waiting(api, view.route.as_str(), view.company.as_str());
    let fares = Fares {
        queued: view.queued,
        delayed: view.delayed,
        delivering: view.leased,
        last_processed_at: view.last_processed_at,
        rounds_without_processing: view.rounds_without_processing,
        current_priority: view.current_priority,
        total_processed: view.total_processed,
        consecutive_batch_count: view.consecutive_batch_count,
        waiting_for: (view.queued > 0).then(waiting),
    };
    TenantRoute { route: view.route, fares }
}

/// What was counted is added up; what is kept for turns is that of the route where it fares worst.
fn over_all(routes: &[TenantRoute]) -> Fares {
    routes.iter().fold(untouched(), |sum, TenantRoute { fares, .. }| Fares {
        queued: sum.queued + fares.queued,
        delayed: sum.delayed + fares.delayed,
        delivering: sum.delivering + fares.delivering,
        last_processed_at: sum.last_processed_at.max(fares.last_processed_at),
        rounds_without_processing: sum.rounds_without_processing.max(fares.rounds_without_processing),
        current_priority: sum.current_priority.min(fares.current_priority),
        total_processed: sum.total_processed + fares.total_processed,
        consecutive_batch_count: sum.consecutive_batch_count.max(fares.consecutive_batch_count),
        // Whatever holds one of its routes back says more than that another waits for its turn.
        waiting_for: match (sum.waiting_for, &fares.waiting_for) {
            (None | Some(WaitingFor::Turn), Some(why)) => Some(why.clone()),
            (known, _) => known,
        },
    })
}

/// What is known of one company before it is shown.
#[derive(Default)]
struct Known {
    routes: Vec<TenantRoute>,
    dead: u64,
}

fn view(api: &ApiState, company_id: CompanyId, known: Known) -> Tenant {
    let TenantTerms { weight, max_per_minute, paused, paused_since } =
        api.engine().tenant_terms(company_id.as_str());
    Tenant {
        company_id,
        weight,
        max_per_minute,
        paused,
        paused_since,
        dead: known.dead,
        fares: over_all(&known.routes),
        routes: known.routes,
    }
}

/// Companies that something is known of: jobs, dead letters, or terms of their own.
async fn find(api: &ApiState, query: TenantQuery) -> Result<Vec<Tenant>, Refused> {
    let (engine, TenantQuery { company_id: company, route }) = (api.engine(), query);
    let mut found: BTreeMap<CompanyId, Known> = BTreeMap::new();
    let filter = TenantFilter { company: company.clone(), route: route.clone() };
    for lane in engine.store().tenants(filter, engine.now()).await? {
        found.entry(lane.company.clone()).or_default().routes.push(on_one_route(api, lane));
    }
    let terms_matter = route.is_none();
    let filter = DeadLetterFilter { company: company.clone(), route, ..DeadLetterFilter::default() };
    for group in engine.store().dead_letter_groups(GroupBy::Company, filter).await? {
        if let Some(Ok(company)) = group.key.map(CompanyId::new) {
            found.entry(company).or_default().dead = group.count;
        }
    }
    let with_terms = engine.tenants_with_terms().into_iter().filter(|_| terms_matter);
    for (name, _) in with_terms.filter(|(name, _)| company.as_ref().is_none_or(|wanted| wanted == name)) {
        found.entry(name).or_default();
    }
    Ok(found.into_iter().map(|(company, known)| view(api, company, known)).collect())
}

/// Every tenant: how it fares, what it may, why it waits.
#[utoipa::path(
    get, path = "/v1/tenants", tag = "tenants", params(TenantQuery),
    responses((status = 200, body = TenantList), ReadProblems)
)]
pub(crate) async fn list(
    State(api): State<ApiState>,
    Asked(query): Asked<TenantQuery>,
) -> Result<Response, Refused> {
    Ok(answer::ok(&TenantList { items: find(&api, query).await? }))
}

/// One tenant.
#[utoipa::path(
    get, path = "/v1/tenants/{companyId}", tag = "tenants", params(("companyId" = String, Path)),
    responses(
        (status = 200, body = Tenant),
        (status = 404, description = "Nothing is known of it.", body = Problem, content_type = "application/problem+json"),
        ReadProblems,
    )
)]
pub(crate) async fn show(State(api): State<ApiState>, Segment(name): Segment) -> Result<Response, Refused> {
    let company = CompanyId::new(name.as_str()).map_err(|_| no_such_tenant(&name))?;
    let query = TenantQuery { company_id: Some(company), route: None };
    match find(&api, query).await?.pop() {
        Some(tenant) => Ok(answer::ok(&tenant)),
        None => Err(no_such_tenant(&name)),
    }
}

/// Say how a tenant is treated; what is absent stays. A tenant may be treated before its first job.
#[utoipa::path(
    put, path = "/v1/tenants/{companyId}", tag = "tenants", params(("companyId" = String, Path)),
    request_body = TenantChange,
    responses((status = 200, body = Tenant), WriteProblems)
)]
pub(crate) async fn set(
    State(api): State<ApiState>,
    Segment(name): Segment,
    request: Request,
) -> Result<Response, Refused> {
    let change: TenantChange = body::json(&api, request).await?.read()?;
    let company =
        CompanyId::new(name).map_err(|error| Refused::invalid_at("/companyId", error.to_string()))?;
    let before = api.engine().tenant_terms(company.as_str());
    let paused = change.paused.unwrap_or(before.paused);
    let terms = TenantTerms {
        weight: change.weight.unwrap_or(before.weight),
        max_per_minute: change.max_per_minute.unwrap_or(before.max_per_minute),
        paused,
        paused_since: paused.then(|| before.paused_since.unwrap_or_else(|| api.engine().now())),
    };
    api.engine().set_tenant(&company, terms).await?;
    let query = TenantQuery { company_id: Some(company.clone()), route: None };
    let found = find(&api, query).await?.pop();
    Ok(answer::ok(&found.unwrap_or_else(|| view(&api, company, Known::default()))))
}
