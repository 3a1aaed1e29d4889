//! The dead letter queue: look, count, replay, discard.

pub mod archive;
pub mod bulk;

use recado_core::{Damage, DeadLetterState, JobId, Status};
use recado_engine::dlq::operator::Replay;
use recado_store::PageRequest;
use recado_wire::dlq::{
    DeadLetter, DeadLetterFilter, DeadLetterGroup, DeadLetterList, DeadLetterQuery, DeadLetterStats,
    DeadLetterStatsQuery, DeadLettersInHour, DiscardRequest, Discarded, ReplayRequest, ReplayStarted,
};
use recado_wire::jobs::Archived;

use crate::handlers::prelude::*;

/// The refusal for a missing entry: its place, if it was archived.
async fn no_such_entry(api: &ApiState, id: &JobId) -> ApiError {
    let detail = match api.engine.dlq.archived(id).await {
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
    ApiError::not_found(detail)
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
pub async fn list(
    api: ApiState,
    actor: Actor,
    CheckedQuery(query): CheckedQuery<DeadLetterQuery>,
    permit: AnswerPermit,
) -> ApiResult {
    let limit = query.limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let before = cursor::read(List::DeadLetters, query.cursor.as_deref())?;
    let filter = store_filter(query.filter);
    let page = api.engine.inspect().dead_letters(filter.clone(), PageRequest { before, limit }).await?;
    if !page.items.is_empty() {
        let shown = PageRequest { before, limit: page.items.len() };
        api.engine.audit.record_letters_read(&filter, shown, &actor).await?;
    }
    let next_cursor = page.next.map(|place| cursor::write(List::DeadLetters, place));
    let items = page.items.into_iter().map(DeadLetter::from).collect();
    permit.ok(&DeadLetterList { items, next_cursor })
}

/// Counts of dead letters, by what they have in common.
#[utoipa::path(
    get, path = "/v1/dlq/stats", tag = "dead letters", operation_id = "countDeadLetters",
    params(DeadLetterStatsQuery),
    responses((status = 200, body = DeadLetterStats), ReadProblems)
)]
pub async fn stats(api: ApiState, CheckedQuery(query): CheckedQuery<DeadLetterStatsQuery>) -> ApiResult {
    let by = query.by.unwrap_or_default();
    let filter = recado_store::DeadLetterFilter {
        company: query.company_id,
        route: query.route,
        since: query.since,
        until: query.until,
        ..recado_store::DeadLetterFilter::default()
    };
    let groups = api.engine.inspect().dead_letter_groups(by, filter).await?;
    let total = groups.iter().map(|group| group.count).sum();
    let show = |group: recado_store::DeadLetterGroup| {
        let recado_store::DeadLetterGroup { key, count, example_reason } = group;
        DeadLetterGroup { key, count, example_reason }
    };
    let hours = api.engine.dlq.rate.entries_per_hour().await?.into_iter();
    let per_hour = hours.map(|(hour, count)| DeadLettersInHour { hour, count }).collect();
    let items = groups.into_iter().map(show).collect();
    answer::ok(&DeadLetterStats { by, total, items, per_hour })
}

/// One dead letter. The read and its reader are put on the audit trail.
#[utoipa::path(
    get, path = "/v1/dlq/{jobId}", tag = "dead letters", operation_id = "getDeadLetter",
    params(("jobId" = String, Path), ActorHeader),
    responses((status = 200, body = DeadLetter), NoSuchDeadLetter, ReadProblems)
)]
pub async fn show(
    api: ApiState,
    id: InPath<JobId>,
    actor: Actor,
    _: NoQuery,
    ItemPermit(permit): ItemPermit,
) -> ApiResult {
    match api.engine.inspect().dead_letter(&id).await? {
        Some(entry) => {
            api.engine.audit.record_letter_read(&entry, &actor).await?;
            permit.ok(&DeadLetter::from(entry))
        }
        None => Err(no_such_entry(&api, &id).await),
    }
}

/// Put a dead letter back in line with a fresh budget of attempts, corrected if data is given. What it was corrected to
/// before goes out again, unless the original is asked for.
#[utoipa::path(
    post, path = "/v1/dlq/{jobId}/replay", tag = "dead letters", operation_id = "replayDeadLetter",
    params(("jobId" = String, Path), ActorHeader), request_body = Option<ReplayRequest>,
    responses(
        (status = 202, description = "It is on its way.", body = ReplayStarted),
        (status = 200, description = "It was on its way already; nothing changed.", body = ReplayStarted),
        NoSuchDeadLetter,
        ReplayConflict,
        WriteProblems,
    )
)]
pub async fn replay(
    api: ApiState,
    id: InPath<JobId>,
    actor: Actor,
    OptionalJson(asked): OptionalJson<ReplayRequest>,
) -> ApiResult {
    let InPath(id) = id;
    let note = given(asked.note.as_deref());
    let wants_original = asked.original == Some(true);
    let wants_data = wants_original || asked.data.is_some();
    let replay = match wants_original {
        true => api.engine.dlq.replay_original(&id, note, Some(&actor)).await?,
        false => api.engine.dlq.replay(&id, asked.data, note, Some(&actor)).await?,
    };
    let status = match replay {
        Replay::Started => StatusCode::ACCEPTED,
        Replay::AlreadyReplaying if wants_data => {
            let detail = format!("`{id}` is on its way with other data; cancel that first, or let it end");
            return Err(ApiError::conflict(detail));
        }
        Replay::AlreadyReplaying => StatusCode::OK,
        Replay::Undeliverable(why) => return Err(ApiError::new(Code::ValidationFailed, why)),
        Replay::Damaged(damage) => {
            let way_out = match damage {
                Damage::Identity => "submit it again as a new job",
                Damage::Data | Damage::OriginalData => "replay it with corrected data",
            };
            let detail = format!("{damage} changed in the store after `{id}` was accepted; {way_out}");
            return Err(ApiError::conflict(detail));
        }
        Replay::Unknown => return Err(no_such_entry(&api, &id).await),
        Replay::InvalidData(faults) => {
            let within = faults.into_iter().map(|fault| (format!("/data{}", fault.pointer), fault.message));
            return Err(ApiError::faulty(within));
        }
    };
    answer::json(status, &ReplayStarted { job_id: id, state: DeadLetterState::Replaying })
}

/// Give a dead letter up for good.
#[utoipa::path(
    post, path = "/v1/dlq/{jobId}/discard", tag = "dead letters", operation_id = "discardDeadLetter",
    params(("jobId" = String, Path), ActorHeader), request_body = DiscardRequest,
    responses((status = 200, body = Discarded), NoSuchDeadLetter, DiscardConflict, WriteProblems)
)]
pub async fn discard(
    api: ApiState,
    id: InPath<JobId>,
    actor: Actor,
    Json(asked): Json<DiscardRequest>,
) -> ApiResult {
    let InPath(id) = id;
    match api.engine.dlq.discard(&id, asked.reason.trim(), Some(&actor)).await? {
        recado_store::Discarded::Done => answer::ok(&Discarded { job_id: id, status: Status::Discarded }),
        recado_store::Discarded::Replaying => Err(ApiError::conflict(format!(
            "dead letter `{id}` is being replayed; cancel the job or let it end"
        ))),
        recado_store::Discarded::DiedAgain => Err(ApiError::conflict(format!(
            "dead letter `{id}` was replayed and failed for good again just now; look at it, then try again"
        ))),
        recado_store::Discarded::Unknown => Err(no_such_entry(&api, &id).await),
    }
}
