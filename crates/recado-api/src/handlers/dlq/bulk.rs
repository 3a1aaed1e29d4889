//! Many dead letters at once: replay, discard, look, stop.

use recado_core::DeadLetter;
use recado_engine::dlq::bulk::{self, BulkOrder, Chosen, RUNNING_MAX, TooMany};
use recado_wire::bulk::{
    Bulk, BulkAct, BulkCount, BulkFailure, BulkFilter, BulkList, BulkProgress, BulkRequest, BulkSample,
    Canary,
};
use recado_wire::dlq::DeadLetterFilter;

use crate::handlers::dlq::store_filter;
use crate::handlers::prelude::*;

/// Entries that a dry run shows.
const SAMPLE_ENTRIES: usize = 10;

/// Replay every dead letter that a filter chooses: paced, with a canary first if asked. A dry run only counts.
#[utoipa::path(
    post, path = "/v1/dlq/replay", tag = "dead letters", operation_id = "replayDeadLetters", params(ActorHeader),
    request_body = BulkRequest,
    responses(
        (status = 202, description = "Counted and started; `GET /v1/replays/{id}` shows the progress.", body = Bulk),
        (status = 200, description = "A dry run: counted, nothing touched.", body = BulkCount),
        TooManyBulkActs,
        WriteProblems,
    )
)]
pub async fn replay(api: ApiState, actor: Actor, Json(asked): Json<BulkRequest>) -> ApiResult {
    begin(api, BulkAct::Replay, actor, asked).await
}

/// Give up every dead letter that a filter chooses, for a reason. A dry run only counts.
#[utoipa::path(
    post, path = "/v1/dlq/discard", tag = "dead letters", operation_id = "discardDeadLetters",
    params(ActorHeader), request_body = BulkRequest,
    responses(
        (status = 202, description = "Counted and started; `GET /v1/replays/{id}` shows the progress.", body = Bulk),
        (status = 200, description = "A dry run: counted, nothing touched.", body = BulkCount),
        TooManyBulkActs,
        WriteProblems,
    )
)]
pub async fn discard(api: ApiState, actor: Actor, Json(asked): Json<BulkRequest>) -> ApiResult {
    begin(api, BulkAct::Discard, actor, asked).await
}

async fn begin(api: ApiState, act: BulkAct, actor: Actor, asked: BulkRequest) -> ApiResult {
    let words = asked.words().map(Into::into);
    let filter = read_filter(asked.filter);
    if asked.dry_run == Some(true) {
        let (total, sample) = api.engine.dlq.choose(&filter, SAMPLE_ENTRIES).await?;
        let sample = sample.into_iter().map(show_sample).collect();
        return answer::ok(&BulkCount { act, dry_run: true, total, sample });
    }
    if act == BulkAct::Discard {
        if words.is_none() {
            return Err(ApiError::invalid_at("/reason", "is missing; say in words why they are given up"));
        }
        if asked.canary.is_some() {
            return Err(ApiError::invalid_at("/canary", "is for replays; leave it out"));
        }
    }
    let order = BulkOrder {
        act,
        filter,
        rate_per_second: asked.rate_per_second,
        canary: asked.canary,
        words,
        actor: Some(actor.0.into()),
    };
    match api.engine.dlq.start_bulk(order).await? {
        Ok(bulk) => answer::json(StatusCode::ACCEPTED, &show_bulk(bulk)),
        Err(TooMany) => {
            let detail = format!(
                "{RUNNING_MAX} bulk acts are running, which is the most there may be; let one end, or stop one with \
                 DELETE /v1/replays/{{id}}"
            );
            Err(ApiError::conflict(detail))
        }
    }
}

/// Bulk acts, newest first: those that run and those that ended lately.
#[utoipa::path(
    get, path = "/v1/replays", tag = "dead letters", operation_id = "listBulkActs",
    responses((status = 200, body = BulkList), ReadProblems)
)]
pub async fn list(api: ApiState, _: NoQuery, permit: AnswerPermit) -> ApiResult {
    let items = api.engine.dlq.bulks().await?.into_iter().map(show_bulk).collect();
    permit.ok(&BulkList { items })
}

/// Progress of a bulk act.
#[utoipa::path(
    get, path = "/v1/replays/{id}", tag = "dead letters", operation_id = "getBulkAct",
    params(("id" = String, Path)),
    responses((status = 200, body = Bulk), NoSuchBulkAct, ReadProblems)
)]
pub async fn show(api: ApiState, id: InPath<String>, _: NoQuery) -> ApiResult {
    let bulk = api.engine.dlq.bulk(&id).await?.ok_or_else(|| no_such_bulk(&id))?;
    answer::ok(&show_bulk(bulk))
}

/// Stop a bulk act. What it has done stays done; one that has ended is left as it is.
#[utoipa::path(
    delete, path = "/v1/replays/{id}", tag = "dead letters", operation_id = "stopBulkAct",
    params(("id" = String, Path), ActorHeader),
    responses((status = 200, body = Bulk), NoSuchBulkAct, ReadProblems)
)]
pub async fn stop(api: ApiState, id: InPath<String>, actor: Actor) -> ApiResult {
    let bulk = api.engine.dlq.stop_bulk(&id, Some(&actor)).await?.ok_or_else(|| no_such_bulk(&id))?;
    answer::ok(&show_bulk(bulk))
}

fn no_such_bulk(id: &str) -> ApiError {
    let id = shown_name(id);
    ApiError::not_found(format!(
        "there is no bulk act `{id}`; `recado dlq bulk` or /v1/replays lists those that are remembered"
    ))
}

fn read_filter(filter: BulkFilter) -> Chosen {
    let BulkFilter { entries, job_ids } = filter;
    Chosen { entries: store_filter(entries), job_ids: job_ids.unwrap_or_default() }.without_repetitions()
}

fn show_filter(Chosen { entries, job_ids }: Chosen) -> BulkFilter {
    let entries = DeadLetterFilter {
        company_id: entries.company,
        route: entries.route,
        last_failure_code: entries.last_failure_code.map(Into::into),
        reason: entries.reason.map(Into::into),
        fingerprint: entries.fingerprint.map(Into::into),
        since: entries.since,
        until: entries.until,
    };
    BulkFilter { entries, job_ids: (!job_ids.is_empty()).then_some(job_ids) }
}

fn show_sample(entry: DeadLetter) -> BulkSample {
    BulkSample {
        job_id: entry.job_id,
        company_id: entry.company,
        route: entry.route,
        last_failure_code: entry.failure.code,
        last_failure_reason: entry.failure.reason.as_str().to_owned(),
        moved_to_dlq_at: entry.moved_at,
    }
}

fn show_bulk(bulk: bulk::Bulk) -> Bulk {
    let canary = |canary: bulk::Canary| Canary {
        wanted: canary.wanted,
        job_ids: canary.job_ids,
        state: canary.state,
        waiting_for: canary.waiting_for,
    };
    let failure = |failure: bulk::BulkFailure| BulkFailure { job_id: failure.job_id, reason: failure.reason };
    let progress = BulkProgress {
        total: bulk.figures.total,
        done: bulk.figures.done,
        skipped: bulk.figures.skipped,
        failed: bulk.figures.failed,
        left: bulk.figures.left(),
    };
    Bulk {
        act: bulk.act,
        state: bulk.state,
        filter: show_filter(bulk.filter),
        progress,
        failures: bulk.figures.failures.into_iter().map(failure).collect(),
        rate_per_second: bulk.rate_per_second,
        canary: bulk.canary.map(canary),
        started_at: bulk.started_at,
        ended_at: bulk.ended_at,
        actor: bulk.actor,
        reason: bulk.words,
        stopped_because: bulk.stopped_because,
        id: bulk.id,
    }
}
