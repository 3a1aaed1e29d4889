//! Holds that answers from outside imposed: listed, and lifted by an operator.

use axum::extract::{Request, State};
use axum::response::Response;
use recado_engine::{HeldScope, OutsideHold, Receiver};
use recado_wire::holds::{Hold, HoldList, HoldQuery, HoldScope};
use recado_wire::providers::PauseRequest;
use recado_wire::{Code, PAGE_ITEMS_DEFAULT, Problem};

use crate::answer::{self, ApiError, shown_name};
use crate::cursor::{self, List};
use crate::extract::{Actor, CheckedQuery, PathSegment};
use crate::handlers::providers::read_reason;
use crate::openapi::{ActorHeader, ReadProblems, WriteProblems};
use crate::state::ApiState;

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
pub(crate) async fn list(
    State(api): State<ApiState>,
    CheckedQuery(query): CheckedQuery<HoldQuery>,
) -> Result<Response, ApiError> {
    let after = cursor::read_name(List::Holds, query.cursor.as_deref())?;
    let limit = query.limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let is_later = |hold: &OutsideHold| after.as_deref().is_none_or(|after| *hold.place() > *after);
    let mut later = api.engine().gate.outside_holds().into_iter().filter(is_later);
    let page: Vec<_> = later.by_ref().take(limit).collect();
    let last = page.last().filter(|_| later.next().is_some());
    let next_cursor = last.map(|last| cursor::write_name(List::Holds, &last.place()));
    Ok(answer::ok(&HoldList { items: page.into_iter().map(show).collect(), next_cursor }))
}

/// Lift a hold on every node. Jobs that it kept back go out soon; see the documentation for how soon.
#[utoipa::path(
    delete, path = "/v1/holds/{id}", tag = "providers", operation_id = "liftHold",
    params(("id" = String, Path), ActorHeader),
    request_body = Option<PauseRequest>,
    responses(
        (status = 200, description = "The hold as it was.", body = Hold),
        (status = 404, description = "There is no such hold; it may be over.", body = Problem, content_type = "application/problem+json"),
        WriteProblems,
    )
)]
pub(crate) async fn lift(
    State(api): State<ApiState>,
    PathSegment(id): PathSegment,
    Actor(actor): Actor,
    request: Request,
) -> Result<Response, ApiError> {
    let reason = read_reason(&api, request).await?;
    match api.engine().gate.lift_hold(&id, reason.as_deref(), Some(&actor)).await? {
        Some(hold) => Ok(answer::ok(&show(hold))),
        None => {
            let id = shown_name(&id);
            Err(ApiError::new(Code::NotFound, format!("there is no hold `{id}`; it may be over")))
        }
    }
}
