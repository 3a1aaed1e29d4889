//! Tenants: how each fares, and what an operator says about it.

use std::collections::BTreeMap;

use axum::extract::{Request, State};
use axum::response::Response;
use recado_core::fairness::round_robin_priority;
use recado_core::reason::clip;
use recado_core::{CompanyId, RouteName};
use recado_engine::admission::tenant_limits::{TenantTerms, TermsChange};
use recado_store::{DeadLetterFilter, GroupBy, TenantFilter, TenantView};
use recado_wire::components::Name;
use recado_wire::jobs::WaitingFor;
use recado_wire::tenants::{Fares, Tenant, TenantChange, TenantList, TenantQuery, TenantRoute, WEIGHT_MAX};
use recado_wire::{Code, PAGE_ITEMS_DEFAULT, Problem};

use crate::answer::{self, Refused};
use crate::answer_memory::ItemRoom;
use crate::body;
use crate::cursor::{self, List};
use crate::extract::{Actor, Asked, Segment};
use crate::jobs::why_due_and_waiting;
use crate::openapi::{ActorHeader, ReadProblems, WriteProblems};
use crate::providers::waiting_for;
use crate::state::ApiState;

const _: () = assert!(WEIGHT_MAX == recado_engine::admission::tenant_limits::WEIGHT_MAX);

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
    // Jobs of a held receiver are not due before they are looked at again.
    let held_by_receivers = || {
        let route = api.engine().routes().get(view.route.as_str())?;
        api.engine().gate.receivers_hold(&route.provider, Some(&view.company))
    };
    let fares = Fares {
        queued: view.queued,
        delayed: view.delayed,
        delivering: view.leased,
        last_processed_at: view.last_processed_at,
        rounds_without_processing: view.rounds_without_processing,
        current_priority: view.current_priority,
        total_processed: view.total_processed,
        consecutive_batch_count: view.consecutive_batch_count,
        waiting_for: match view.queued {
            0 if view.delayed > 0 => held_by_receivers().map(waiting_for),
            0 => None,
            _ => Some(waiting()),
        },
    };
    TenantRoute { route: view.route, fares }
}

/// Counts are added up; values kept for turns are those of the route where it waits longest.
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

/// The known facts of one company before it is shown.
#[derive(Default)]
struct Known {
    lanes: Vec<TenantView>,
    dead: u64,
}

fn view(api: &ApiState, company_id: CompanyId, known: Known) -> Tenant {
    let TenantTerms { weight, max_per_minute, paused, paused_since, paused_reason, paused_by } =
        api.engine().gate.tenant_terms(company_id.as_str());
    let routes: Vec<_> = known.lanes.into_iter().map(|lane| on_one_route(api, lane)).collect();
    Tenant {
        company_id,
        weight,
        max_per_minute,
        paused,
        paused_since,
        paused_reason,
        paused_by,
        dead: known.dead,
        fares: over_all(&routes),
        routes,
    }
}

/// Companies that something is known of: jobs, dead letters, or terms of their own.
async fn find(
    api: &ApiState,
    company: Option<CompanyId>,
    route: Option<RouteName>,
) -> Result<BTreeMap<CompanyId, Known>, Refused> {
    let engine = api.engine();
    let mut found: BTreeMap<CompanyId, Known> = BTreeMap::new();
    let filter = TenantFilter { company: company.clone(), route: route.clone() };
    for lane in engine.store().tenants(filter, engine.now()).await? {
        found.entry(lane.company.clone()).or_default().lanes.push(lane);
    }
    let terms_matter = route.is_none();
    let filter = DeadLetterFilter { company: company.clone(), route, ..DeadLetterFilter::default() };
    for group in engine.store().dead_letter_groups(GroupBy::Company, filter).await? {
        if let Some(Ok(company)) = group.key.map(CompanyId::new) {
            found.entry(company).or_default().dead = group.count;
        }
    }
    let with_terms = engine.gate.tenants_with_terms().into_iter().filter(|_| terms_matter);
    for name in with_terms.filter(|name| company.as_ref().is_none_or(|wanted| wanted == name)) {
        found.entry(name).or_default();
    }
    Ok(found)
}

async fn find_one(api: &ApiState, company: CompanyId) -> Result<Option<Tenant>, Refused> {
    let found = find(api, Some(company), None).await?.pop_first();
    Ok(found.map(|(company, known)| view(api, company, known)))
}

/// Every tenant: how it fares, what it may, why it waits.
#[utoipa::path(
    get, path = "/v1/tenants", tag = "tenants", operation_id = "listTenants", params(TenantQuery),
    responses((status = 200, body = TenantList), ReadProblems)
)]
pub(crate) async fn list(
    State(api): State<ApiState>,
    Asked(query): Asked<TenantQuery>,
    ItemRoom(room): ItemRoom,
) -> Result<Response, Refused> {
    let after = cursor::read_name(List::Tenants, query.cursor.as_deref())?;
    let limit = query.limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let found = find(&api, query.company_id, query.route).await?;
    let is_later = |company: &CompanyId| after.as_deref().is_none_or(|after| company.as_str() > after);
    let mut later = found.into_iter().filter(|(company, _)| is_later(company));
    let page = later.by_ref().take(limit).map(|(company, known)| view(&api, company, known));
    let items: Vec<_> = page.collect();
    let last = items.last().filter(|_| later.next().is_some());
    let next_cursor = last.map(|last| cursor::write_name(List::Tenants, last.company_id.as_str()));
    Ok(room.ok(&TenantList { items, next_cursor }))
}

/// One tenant.
#[utoipa::path(
    get, path = "/v1/tenants/{companyId}", tag = "tenants", operation_id = "getTenant", params(("companyId" = String, Path)),
    responses(
        (status = 200, body = Tenant),
        (status = 404, description = "Nothing is known of it.", body = Problem, content_type = "application/problem+json"),
        ReadProblems,
    )
)]
pub(crate) async fn show(
    State(api): State<ApiState>,
    Segment(name): Segment,
    Asked(()): Asked<()>,
) -> Result<Response, Refused> {
    let company = CompanyId::new(name.as_str()).map_err(|_| no_such_tenant(&name))?;
    match find_one(&api, company).await? {
        Some(tenant) => Ok(answer::ok(&tenant)),
        None => Err(no_such_tenant(&name)),
    }
}

/// Change a tenant's terms; absent ones stay, also when another operator changes something at the same time.
/// A tenant may have terms before its first job.
#[utoipa::path(
    put, path = "/v1/tenants/{companyId}", tag = "tenants", operation_id = "setTenant",
    params(("companyId" = Name, Path), ActorHeader),
    request_body = TenantChange,
    responses((status = 200, body = Tenant), WriteProblems)
)]
pub(crate) async fn set(
    State(api): State<ApiState>,
    Segment(name): Segment,
    Actor(actor): Actor,
    request: Request,
) -> Result<Response, Refused> {
    let TenantChange { weight, max_per_minute, paused, reason } = body::json(&api, request).await?.read()?;
    let company =
        CompanyId::new(name).map_err(|error| Refused::invalid_at("/companyId", error.to_string()))?;
    let reason = reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    let change = TermsChange { weight, max_per_minute, paused, reason: reason.map(Into::into) };
    api.engine().gate.set_tenant(&company, change, Some(&actor)).await?;
    let found = find_one(&api, company.clone()).await?;
    Ok(answer::ok(&found.unwrap_or_else(|| view(&api, company, Known::default()))))
}
