//! Holds that answers from outside imposed: listed, and lifted by an operator.

use recado_engine::{HeldScope, OutsideHold, Receiver};
use recado_wire::holds::{Hold, HoldList, HoldQuery, HoldScope};
use recado_wire::providers::PauseRequest;

use crate::handlers::prelude::*;

fn show(hold: OutsideHold) -> Hold {
    let (scope, company_id, endpoint_id, host) = match hold.scope {
        HeldScope::Provider => (HoldScope::Provider, None, None, None),
        HeldScope::Company(company) => (HoldScope::Company, Some(company), None, None),
        HeldScope::Receiver(company, Receiver::Endpoint(id)) => {
            (HoldScope::Endpoint, Some(company), Some(id), None)
        }
        HeldScope::Receiver(company, Receiver::Host(host)) => {
            (HoldScope::Host, Some(company), None, Some(host))
        }
    };
    let OutsideHold { id, provider, reason, since, until, .. } = hold;
    Hold { id, scope, provider, company_id, endpoint_id, host, reason, since, until }
}

/// Every hold that an answer from outside imposed: a `Retry-After`, or a limit that is reached.
#[utoipa::path(
    get, path = "/v1/holds", tag = "providers", operation_id = "listHolds", params(HoldQuery),
    responses((status = 200, body = HoldList), ReadProblems)
)]
pub async fn list(api: ApiState, CheckedQuery(query): CheckedQuery<HoldQuery>) -> ApiResult {
    let after = cursor::read_name(List::Holds, query.cursor.as_deref())?;
    let limit = query.limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let is_later = |hold: &OutsideHold| after.as_deref().is_none_or(|after| *hold.place() > *after);
    let later = api.engine.gate.outside_holds().into_iter().filter(is_later);
    let (page, next_cursor) = cursor::take_page(List::Holds, later, limit, OutsideHold::place);
    answer::ok(&HoldList { items: page.into_iter().map(show).collect(), next_cursor })
}

/// Lift a hold on every node. Jobs that it kept back go out soon; see the documentation for how soon.
#[utoipa::path(
    delete, path = "/v1/holds/{id}", tag = "providers", operation_id = "liftHold",
    params(("id" = String, Path), ActorHeader), request_body = Option<PauseRequest>,
    responses((status = 200, description = "The hold as it was.", body = Hold), NoSuchHold, WriteProblems)
)]
pub async fn lift(api: ApiState, id: InPath<String>, actor: Actor, Reason(reason): Reason) -> ApiResult {
    let Some(hold) = api.engine.gate.lift_hold(&id, reason.as_deref(), Some(&actor)).await? else {
        let id = shown_name(&id);
        return Err(ApiError::not_found(format!("there is no hold `{id}`; it may be over")));
    };
    answer::ok(&show(hold))
}
