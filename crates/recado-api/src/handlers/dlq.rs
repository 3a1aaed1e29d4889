//! The dead letter queue: look, count, replay, discard.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use recado_core::{Damage, DeadLetterState, JobId, Status};
use recado_engine::dlq::operator::Replay;
use recado_store::PageRequest;
use recado_wire::dlq::{
    DeadLetter, DeadLetterFilter, DeadLetterGroup, DeadLetterList, DeadLetterQuery, DeadLetterStats,
    DeadLetterStatsQuery, DeadLettersInHour, DiscardRequest, Discarded, GroupBy, ReplayRequest,
    ReplayStarted,
};
use recado_wire::jobs::Archived;
use recado_wire::read::FAULTS_MAX;
use recado_wire::{Code, FieldFault, PAGE_ITEMS_DEFAULT, Problem};

use crate::answer::{self, ApiError};
use crate::answer_memory::{AnswerPermit, ItemPermit};
use crate::body;
use crate::cursor::{self, List};
use crate::extract::{Actor, CheckedQuery, JobIdPath};
use crate::openapi::{ActorHeader, ReadProblems, WriteProblems};
use crate::state::ApiState;

/// The refusal for a missing entry: its place, if it was archived.
async fn no_such_entry(api: &ApiState, id: &JobId) -> ApiError {
    let detail = match api.engine().dlq.archived(id).await {
        Ok(Some(archived)) => {
            let Archived { at, place, bring_back } = show_archived(archived);
            format!(
                "dead letter `{id}` is in the archive since {at}, in {place} on the server: the queue was full; \
                 `{bring_back}` brings it back"
            )
        }
        Ok(None) => format!("there is no dead letter `{id}`"),
        Err(error) => return error.into(),
    };
    ApiError::new(Code::NotFound, detail)
}

pub(crate) fn show_archived(archived: recado_engine::dlq::archive::Archived) -> Archived {
    let recado_engine::dlq::archive::Archived { at, place } = archived;
    Archived { at, bring_back: format!("recado dlq import {place}"), place }
}

/// The store's filter.
pub(crate) fn store_filter(filter: DeadLetterFilter) -> recado_store::DeadLetterFilter {
    recado_store::DeadLetterFilter {
        company: filter.company_id,
        route: filter.route,
        last_failure_code: filter.last_failure_code.map(Into::into),
        reason: filter.reason.map(Into::into),
        fingerprint: filter.fingerprint.map(Into::into),
        since: filter.since,
        until: filter.until,
    }
}

/// Dead letters, newest first. A page may hold fewer than `limit`, because it ends early when it holds 4 MiB of data; it
/// is the last one if it has no `nextCursor`. The read and its reader are put on the audit trail.
#[utoipa::path(
    get, path = "/v1/dlq", tag = "dead letters", operation_id = "listDeadLetters",
    params(DeadLetterFilter, DeadLetterQuery, ActorHeader),
    responses((status = 200, body = DeadLetterList), ReadProblems)
)]
pub(crate) async fn list(
    State(api): State<ApiState>,
    Actor(actor): Actor,
    CheckedQuery(query): CheckedQuery<DeadLetterQuery>,
    permit: AnswerPermit,
) -> Result<Response, ApiError> {
    let limit = query.limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let before = cursor::read(List::DeadLetters, query.cursor.as_deref())?;
    let filter = store_filter(query.filter);
    let page = api.engine().inspect().dead_letters(filter.clone(), PageRequest { before, limit }).await?;
    if !page.items.is_empty() {
        let shown = PageRequest { before, limit: page.items.len() };
        api.engine().audit.record_letters_read(&filter, shown, &actor).await?;
    }
    let next_cursor = page.next.map(|place| cursor::write(List::DeadLetters, place));
    let items = page.items.into_iter().map(DeadLetter::from).collect();
    Ok(permit.ok(&DeadLetterList { items, next_cursor }))
}

/// Counts of dead letters, by what they have in common.
#[utoipa::path(
    get, path = "/v1/dlq/stats", tag = "dead letters", operation_id = "countDeadLetters", params(DeadLetterStatsQuery),
    responses((status = 200, body = DeadLetterStats), ReadProblems)
)]
pub(crate) async fn stats(
    State(api): State<ApiState>,
    CheckedQuery(query): CheckedQuery<DeadLetterStatsQuery>,
) -> Result<Response, ApiError> {
    let by = query.by.unwrap_or_default();
    let filter = recado_store::DeadLetterFilter {
        company: query.company_id,
        route: query.route,
        since: query.since,
        until: query.until,
        ..recado_store::DeadLetterFilter::default()
    };
    let stored_by = match by {
        GroupBy::LastFailureCode => recado_store::GroupBy::LastFailureCode,
        GroupBy::CompanyId => recado_store::GroupBy::Company,
        GroupBy::Route => recado_store::GroupBy::Route,
        GroupBy::Fingerprint => recado_store::GroupBy::Fingerprint,
    };
    let groups = api.engine().inspect().dead_letter_groups(stored_by, filter).await?;
    let total = groups.iter().map(|group| group.count).sum();
    let show = |group: recado_store::DeadLetterGroup| DeadLetterGroup {
        key: group.key,
        count: group.count,
        example_reason: group.example_reason,
    };
    let hours = api.engine().dlq.rate.entries_per_hour().await?.into_iter();
    let per_hour = hours.map(|(hour, count)| DeadLettersInHour { hour, count }).collect();
    let items = groups.into_iter().map(show).collect();
    Ok(answer::ok(&DeadLetterStats { by, total, items, per_hour }))
}

/// One dead letter. The read and its reader are put on the audit trail.
#[utoipa::path(
    get, path = "/v1/dlq/{jobId}", tag = "dead letters", operation_id = "getDeadLetter",
    params(("jobId" = String, Path), ActorHeader),
    responses(
        (status = 200, body = DeadLetter),
        (status = 404, description = "There is no such dead letter.", body = Problem, content_type = "application/problem+json"),
        ReadProblems,
    )
)]
pub(crate) async fn show(
    State(api): State<ApiState>,
    JobIdPath(id): JobIdPath,
    Actor(actor): Actor,
    CheckedQuery(()): CheckedQuery<()>,
    ItemPermit(permit): ItemPermit,
) -> Result<Response, ApiError> {
    match api.engine().inspect().dead_letter(&id).await? {
        Some(entry) => {
            api.engine().audit.record_letter_read(&entry, &actor).await?;
            Ok(permit.ok(&DeadLetter::from(entry)))
        }
        None => Err(no_such_entry(&api, &id).await),
    }
}

/// Put a dead letter back in line with a fresh budget of attempts, corrected if data is given. What it was corrected to
/// before goes out again, unless the original is asked for.
#[utoipa::path(
    post, path = "/v1/dlq/{jobId}/replay", tag = "dead letters", operation_id = "replayDeadLetter",
    params(("jobId" = String, Path), ActorHeader),
    request_body = Option<ReplayRequest>,
    responses(
        (status = 202, description = "It is on its way.", body = ReplayStarted),
        (status = 200, description = "It was on its way already; nothing changed.", body = ReplayStarted),
        (status = 404, description = "There is no such dead letter.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is on its way with other data, or what would be sent is damaged in the store.", body = Problem, content_type = "application/problem+json"),
        WriteProblems,
    )
)]
pub(crate) async fn replay(
    State(api): State<ApiState>,
    JobIdPath(id): JobIdPath,
    Actor(actor): Actor,
    request: Request,
) -> Result<Response, ApiError> {
    let asked: ReplayRequest = body::optional_json(&api, request).await?.read_or_default()?;
    let note = asked.note.as_deref().map(str::trim).filter(|note| !note.is_empty());
    let wants_original = asked.original == Some(true);
    let wants_data = wants_original || asked.data.is_some();
    let replay = match wants_original {
        true => api.engine().dlq.replay_original(&id, note, Some(&actor)).await?,
        false => api.engine().dlq.replay(&id, asked.data, note, Some(&actor)).await?,
    };
    let status = match replay {
        Replay::Started => StatusCode::ACCEPTED,
        Replay::AlreadyReplaying if wants_data => {
            let detail = format!("`{id}` is on its way with other data; cancel that first, or let it end");
            return Err(ApiError::new(Code::Conflict, detail));
        }
        Replay::AlreadyReplaying => StatusCode::OK,
        Replay::Undeliverable(why) => return Err(ApiError::new(Code::ValidationFailed, why)),
        Replay::Damaged(damage) => {
            let way_out = match damage {
                Damage::Identity => "submit it again as a new job",
                Damage::Data | Damage::OriginalData => "replay it with corrected data",
            };
            let detail = format!("{damage} changed in the store after `{id}` was accepted; {way_out}");
            return Err(ApiError::new(Code::Conflict, detail));
        }
        Replay::Unknown => return Err(no_such_entry(&api, &id).await),
        Replay::InvalidData(faults) => {
            let pointed = faults.into_iter().take(FAULTS_MAX).map(|fault| FieldFault {
                pointer: format!("/data{}", fault.pointer),
                message: fault.message,
            });
            return Err(ApiError::invalid(pointed.collect()));
        }
    };
    Ok(answer::json(status, &ReplayStarted { job_id: id, state: DeadLetterState::Replaying }))
}

/// Give a dead letter up for good.
#[utoipa::path(
    post, path = "/v1/dlq/{jobId}/discard", tag = "dead letters", operation_id = "discardDeadLetter",
    params(("jobId" = String, Path), ActorHeader),
    request_body = DiscardRequest,
    responses(
        (status = 200, body = Discarded),
        (status = 404, description = "There is no such dead letter.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is being replayed, or it failed for good again just now.", body = Problem, content_type = "application/problem+json"),
        WriteProblems,
    )
)]
pub(crate) async fn discard(
    State(api): State<ApiState>,
    JobIdPath(id): JobIdPath,
    Actor(actor): Actor,
    request: Request,
) -> Result<Response, ApiError> {
    let asked: DiscardRequest = body::json(&api, request).await?.read()?;
    match api.engine().dlq.discard(&id, asked.reason.trim(), Some(&actor)).await? {
        recado_store::Discarded::Done => Ok(answer::ok(&Discarded { job_id: id, status: Status::Discarded })),
        recado_store::Discarded::Replaying => {
            let detail = format!("dead letter `{id}` is being replayed; cancel the job or let it end");
            Err(ApiError::new(Code::Conflict, detail))
        }
        recado_store::Discarded::DiedAgain => {
            let detail = format!(
                "dead letter `{id}` was replayed and failed for good again just now; look at it, then try again"
            );
            Err(ApiError::new(Code::Conflict, detail))
        }
        recado_store::Discarded::Unknown => Err(no_such_entry(&api, &id).await),
    }
}
