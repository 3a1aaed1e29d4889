//! Tenants: their counts and turns, and the terms that an operator sets.

use std::collections::BTreeMap;

use recado_core::fairness::round_robin_priority;
use recado_core::{CompanyId, RouteName};
use recado_engine::admission::tenant_limits::{TenantTerms, TermsChange};
use recado_store::{DeadLetterFilter, GroupBy, TenantFilter, TenantView};
use recado_wire::components::Name;
use recado_wire::jobs::WaitingFor;
use recado_wire::tenants::{
    Tenant, TenantChange, TenantList, TenantQuery, TenantRoute, TenantStats, WEIGHT_MAX,
};

use crate::handlers::jobs::why_due_and_waiting;
use crate::handlers::prelude::*;
use crate::handlers::providers::waiting_for;

const _: () = assert!(WEIGHT_MAX == recado_engine::admission::tenant_limits::WEIGHT_MAX);

fn no_such_tenant(company: &str) -> ApiError {
    let company = shown_name(company);
    ApiError::not_found(format!("there is no company `{company}` with jobs, dead letters or terms"))
}

fn empty_stats() -> TenantStats {
    TenantStats { current_priority: round_robin_priority(0), ..TenantStats::default() }
}

fn show_route_stats(api: &ApiState, view: TenantView) -> TenantRoute {
    let waiting = || why_due_and_waiting(api, view.route.as_str(), view.company.as_str());
    // Jobs of a held receiver are not due before they are looked at again.
    let held_by_receivers = || {
        let route = api.engine.routes().get(view.route.as_str())?;
        api.engine.gate.receivers_hold(&route.provider, Some(&view.company))
    };
    let stats = TenantStats {
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
    TenantRoute { route: view.route, stats }
}

/// Counts are added up; values kept for turns are those of the route where it waits longest.
fn sum_routes(routes: &[TenantRoute]) -> TenantStats {
    routes.iter().fold(empty_stats(), |sum, TenantRoute { stats, .. }| TenantStats {
        queued: sum.queued + stats.queued,
        delayed: sum.delayed + stats.delayed,
        delivering: sum.delivering + stats.delivering,
        last_processed_at: sum.last_processed_at.max(stats.last_processed_at),
        rounds_without_processing: sum.rounds_without_processing.max(stats.rounds_without_processing),
        current_priority: sum.current_priority.min(stats.current_priority),
        total_processed: sum.total_processed + stats.total_processed,
        consecutive_batch_count: sum.consecutive_batch_count.max(stats.consecutive_batch_count),
        // Whatever holds one of its routes back says more than that another waits for its turn.
        waiting_for: match (sum.waiting_for, &stats.waiting_for) {
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

fn show_tenant(api: &ApiState, company_id: CompanyId, known: Known) -> Tenant {
    let TenantTerms { weight, max_per_minute, paused, paused_since, paused_reason, paused_by } =
        api.engine.gate.tenants.terms(company_id.as_str());
    let routes: Vec<_> = known.lanes.into_iter().map(|lane| show_route_stats(api, lane)).collect();
    Tenant {
        company_id,
        weight,
        max_per_minute,
        paused,
        paused_since,
        paused_reason,
        paused_by,
        dead: known.dead,
        stats: sum_routes(&routes),
        routes,
    }
}

/// Companies that something is known of: jobs, dead letters, or terms of their own.
async fn find(
    api: &ApiState,
    company: Option<CompanyId>,
    route: Option<RouteName>,
) -> ApiResult<BTreeMap<CompanyId, Known>> {
    let engine = &api.engine;
    let mut found: BTreeMap<CompanyId, Known> = BTreeMap::new();
    let filter = TenantFilter { company: company.clone(), route: route.clone() };
    for lane in engine.inspect().tenants(filter, engine.now()).await? {
        found.entry(lane.company.clone()).or_default().lanes.push(lane);
    }
    let terms_matter = route.is_none();
    let filter = DeadLetterFilter { company: company.clone(), route, ..DeadLetterFilter::default() };
    for group in engine.inspect().dead_letter_groups(GroupBy::Company, filter).await? {
        if let Some(Ok(company)) = group.key.map(CompanyId::new) {
            found.entry(company).or_default().dead = group.count;
        }
    }
    let with_terms = engine.gate.tenants.all().into_iter().filter(|_| terms_matter);
    for name in with_terms.filter(|name| company.as_ref().is_none_or(|wanted| wanted == name)) {
        found.entry(name).or_default();
    }
    Ok(found)
}

async fn find_one(api: &ApiState, company: CompanyId) -> ApiResult<Option<Tenant>> {
    let found = find(api, Some(company), None).await?.pop_first();
    Ok(found.map(|(company, known)| show_tenant(api, company, known)))
}

/// Every tenant: its counts, its terms, and why it waits.
#[utoipa::path(
    get, path = "/v1/tenants", tag = "tenants", operation_id = "listTenants", params(TenantQuery),
    responses((status = 200, body = TenantList), ReadProblems)
)]
pub async fn list(
    api: ApiState,
    CheckedQuery(query): CheckedQuery<TenantQuery>,
    ItemPermit(permit): ItemPermit,
) -> ApiResult {
    let after = cursor::read_name(List::Tenants, query.cursor.as_deref())?;
    let limit = query.limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let found = find(&api, query.company_id, query.route).await?;
    let is_later = |company: &CompanyId| after.as_deref().is_none_or(|after| company.as_str() > after);
    let later = found.into_iter().filter(|(company, _)| is_later(company));
    let (page, next_cursor) = cursor::take_page(List::Tenants, later, limit, |(last, _)| last.to_string());
    let items = page.into_iter().map(|(company, known)| show_tenant(&api, company, known)).collect();
    permit.ok(&TenantList { items, next_cursor })
}

/// One tenant.
#[utoipa::path(
    get, path = "/v1/tenants/{companyId}", tag = "tenants", operation_id = "getTenant",
    params(("companyId" = String, Path)),
    responses((status = 200, body = Tenant), UnknownCompany, ReadProblems)
)]
pub async fn show(api: ApiState, name: InPath<String>, _: NoQuery) -> ApiResult {
    let company = CompanyId::new(name.as_str()).map_err(|_| no_such_tenant(&name))?;
    answer::ok(&find_one(&api, company).await?.ok_or_else(|| no_such_tenant(&name))?)
}

/// Change a tenant's terms; absent ones stay, also when another operator changes something at the same time.
/// A tenant may have terms before its first job.
#[utoipa::path(
    put, path = "/v1/tenants/{companyId}", tag = "tenants", operation_id = "setTenant",
    params(("companyId" = Name, Path), ActorHeader), request_body = TenantChange,
    responses((status = 200, body = Tenant), WriteProblems)
)]
pub async fn set(
    api: ApiState,
    InPath(name): InPath<String>,
    actor: Actor,
    Json(asked): Json<TenantChange>,
) -> ApiResult {
    let company =
        CompanyId::new(name).map_err(|error| ApiError::invalid_at("/companyId", error.to_string()))?;
    let TenantChange { weight, max_per_minute, paused, reason } = asked;
    let reason = given(reason.as_deref()).map(Into::into);
    let change = TermsChange { weight, max_per_minute, paused, reason };
    api.engine.gate.set_tenant(&company, change, Some(&actor)).await?;
    let found = find_one(&api, company.clone()).await?;
    answer::ok(&found.unwrap_or_else(|| show_tenant(&api, company, Known::default())))
}
