//! The audit trail: everything on record, and erasures of one person's data.

use axum::extract::{Request, State};
use axum::response::Response;
use recado_audit::{Identity, Order, Query, Subject};
use recado_core::words::counted;
use recado_engine::audit::{Erasing, ErasureOrder, TrailPlace, TrailRecord};
use recado_wire::audit::{
    ArchivedRecord, AuditItem, AuditList, AuditOrder, AuditQuery, AuditSubject, ErasureDone, ErasureRequest,
};
use recado_wire::{Code, PAGE_ITEMS_DEFAULT, Problem, read};

use crate::answer::{self, ApiError};
use crate::answer_memory::AnswerPermit;
use crate::body;
use crate::cursor::{self, List};
use crate::extract::{Actor, CheckedQuery};
use crate::openapi::{ActorHeader, ReadProblems, WriteProblems};
use crate::state::ApiState;

/// Steps at most that one record is read as.
const STEPS_MAX: usize = 4;

/// The audit trail: analyses, delays, schedules, decisions and acts of people, archived or not yet. A query for one person's
/// records, by `userId`, `correlationId`, `claimId` or `jobId`, is put on the trail itself. A page may hold fewer items
/// than `limit`, because the steps of a record stay together; it is the last one if it has no `nextCursor`.
#[utoipa::path(
    get, path = "/v1/audit", tag = "audit", operation_id = "listAudit",
    params(AuditQuery, ActorHeader),
    responses((status = 200, body = AuditList), ReadProblems)
)]
pub(crate) async fn list(
    State(api): State<ApiState>,
    Actor(actor): Actor,
    CheckedQuery(asked): CheckedQuery<AuditQuery>,
    permit: AnswerPermit,
) -> Result<Response, ApiError> {
    let order = match asked.order.unwrap_or_default() {
        AuditOrder::Newest => Order::NewestFirst,
        AuditOrder::Oldest => Order::OldestFirst,
    };
    let newest_first = order == Order::NewestFirst;
    let mut place = read_place(asked.cursor.as_deref(), order)?;
    let limit = asked.limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let query = Query {
        job: asked.job_id.map(Into::into),
        claim: asked.claim_id.map(Into::into),
        correlation: asked.correlation_id.map(Into::into),
        company: asked.company_id.map(Into::into),
        user: asked.user_id.map(Into::into),
        actor: asked.actor.map(Into::into),
        kind: asked.kind,
        since: asked.since,
        until: asked.until,
        order,
        beyond: None,
        limit: 0,
    };
    let mut items = Vec::new();
    loop {
        // A record's steps stay together: as many records as fit however many steps each has.
        let records = (limit.saturating_sub(items.len()) / STEPS_MAX).max(1);
        let page = api.engine().audit.search(Query { limit: records, ..query.clone() }, place).await?;
        for found in &page.found {
            let mut steps = steps(found);
            if newest_first {
                steps.reverse();
            }
            items.extend(steps);
        }
        place = page.next;
        if place.is_none() || page.found.is_empty() || items.len() + STEPS_MAX > limit {
            break;
        }
    }
    if !items.is_empty() {
        api.engine().audit.record_person_read(&query, &actor).await?;
    }
    let next_cursor = place.and_then(|place| serde_json::to_string(&(newest_first, place)).ok());
    let next_cursor = next_cursor.map(|place| cursor::write_name(List::Audit, &place));
    Ok(permit.ok(&AuditList { items, next_cursor }))
}

/// The end of the page before. A walk goes on in the direction that it began in.
fn read_place(cursor: Option<&str>, order: Order) -> Result<Option<TrailPlace>, ApiError> {
    let Some(text) = cursor::read_name(List::Audit, cursor)? else { return Ok(None) };
    match serde_json::from_str::<(bool, TrailPlace)>(&text) {
        Ok((newest_first, place)) if newest_first == (order == Order::NewestFirst) => Ok(Some(place)),
        _ => Err(cursor::not_a_cursor()),
    }
}

fn steps(found: &TrailRecord) -> Vec<AuditItem> {
    let archived = found.seal.as_ref().map(|seal| ArchivedRecord {
        sequence: seal.sequence,
        recorded_at: seal.recorded_at,
        hash: seal.hash.to_string(),
        erased_by: seal.erased_by,
    });
    AuditItem::steps(&found.event, archived.as_ref())
}

/// Remove one person's data: from the trail, dead letters and jobs. It is put on record who asked, and when.
#[utoipa::path(
    post, path = "/v1/audit/erasures", tag = "audit", operation_id = "erasePerson", request_body = ErasureRequest,
    params(ActorHeader),
    responses(
        (status = 200, body = ErasureDone),
        (status = 409, description = "Jobs of the person wait or are being delivered, or another node writes the trail: nothing was touched.", body = Problem, content_type = "application/problem+json"),
        WriteProblems,
    )
)]
pub(crate) async fn erase(
    State(api): State<ApiState>,
    Actor(actor): Actor,
    request: Request,
) -> Result<Response, ApiError> {
    let received = body::json(&api, request).await?;
    let request = read::body::<ErasureRequest>(received.text()?)?.into_result()?;
    let order = ErasureOrder {
        subject: subject(request.subject),
        reason: request.reason.into(),
        actor: actor.into(),
        with_jobs: request.with_jobs,
    };
    let refused = |detail: String| Err(ApiError::new(Code::Conflict, detail));
    match api.engine().audit.erase(order).await? {
        Erasing::Done(erased) => Ok(answer::ok(&ErasureDone {
            records: erased.records,
            recorded_as: erased.recorded_as,
            jobs_cancelled: erased.jobs_cancelled,
            dead_letters_discarded: erased.dead_letters_discarded,
            jobs_forgotten: erased.jobs_forgotten,
            follow_ups_erased: erased.follow_ups,
        })),
        Erasing::JobsWait(count) => refused(format!(
            "this person has {} waiting to be sent; ask again with `withJobs` (`--with-jobs`) to cancel what waits, or let it end",
            counted(count, "job", "jobs")
        )),
        Erasing::JobsUnderWay(count) => {
            let jobs = counted(count, "job", "jobs");
            refused(format!("this person has {jobs} on the way; ask again in a moment"))
        }
        Erasing::Elsewhere { node } => refused(format!(
            "node {node} writes the audit trail; ask that one, `recado nodes` says where it listens"
        )),
    }
}

fn subject(asked: AuditSubject) -> Subject {
    let AuditSubject { user_id, correlation_id, claim_id, job_id, company_id } = asked;
    let identity = user_id
        .map(|id| Identity::User(id.into()))
        .or_else(|| correlation_id.map(|id| Identity::Correlation(id.into())))
        .or_else(|| claim_id.map(|id| Identity::Claim(id.into())))
        .unwrap_or_else(|| Identity::Job(job_id.unwrap_or_default().into()));
    Subject { identity, company: company_id.map(Into::into) }
}
