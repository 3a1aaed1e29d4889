//! Jobs: enqueue, look at, list, cancel, audit.

use std::time::{Duration, Instant};

use axum::response::Response;
use recado_audit::Query;
use recado_core::{JobId, Status, Timestamp, TraceParent};
use recado_engine::{Accepted, Submission, SubmitRefusal};
use recado_store::{Cancelled, Durability, JobFilter, PageRequest};
use recado_wire::audit::AuditTrail;
use recado_wire::jobs::{
    Attempt, HeldBy, JobAccepted, JobCancelled, JobList, JobQuery, JobRequest, JobTimes, JobView, JobWait,
    WaitingFor,
};
use recado_wire::read::{self, Read};

use crate::handlers::dlq::show_archived;
use crate::handlers::prelude::*;
use crate::handlers::providers::waiting_for;

/// Time that one page of a list looks for matches that are few and far between.
const SEARCH_MAX: Duration = Duration::from_millis(60);

/// Jobs that are asked of the store at a time: its rows come with their payloads, whatever a list shows.
const CHUNK_JOBS: usize = 100;

/// Enqueue a job. Answers once it is durable.
#[utoipa::path(
    post, path = "/v1/jobs", tag = "jobs", operation_id = "enqueueJob", request_body = JobRequest,
    params(("traceparent" = Option<String>, Header, description = "The caller's span, as W3C Trace Context writes it.")),
    responses(
        (status = 202, description = "Taken in.", body = JobAccepted),
        (status = 200, description = "The same job exists already; this is its state.", body = JobAccepted),
        EnqueueConflict,
        WriteProblems,
    )
)]
pub async fn enqueue(api: ApiState, request: Request) -> ApiResult {
    let heard = extract::traceparent(request.headers());
    let received = body::json(&api, request).await?;
    let submission = read_submission(&api, received.text()?, heard)?;
    let accepted = read_outcome(api.engine.intake.submit(vec![submission]).await?.pop())?;
    Ok(show_accepted(&accepted, api.engine.inspect().durability()))
}

/// Reads one job, or says everything that is wrong with it: with its shape, and with what is in it.
/// `heard` is the request's own span, for a job that names none.
pub(crate) fn read_submission(
    api: &ApiState,
    json: &str,
    heard: Option<TraceParent>,
) -> ApiResult<Submission> {
    let Read { value: request, mut faults } = read::body::<JobRequest>(json)?;
    let submission = submission(request, heard);
    if faults.is_empty() {
        return Ok(submission);
    }
    for (pointer, message) in api.engine.intake.faults_of(submission) {
        faults.note_at(pointer, message);
    }
    Err(faults.into_vec().into())
}

fn submission(request: JobRequest, heard: Option<TraceParent>) -> Submission {
    Submission {
        job_id: request.job_id,
        route: request.route,
        company_id: request.company_id,
        data: request.data,
        user_id: request.user_id,
        correlation_id: request.correlation_id,
        traceparent: request.traceparent.or(heard),
        run_at: request.run_at,
        delay: request.delay_ms.map(Duration::from_millis),
        ttl: request.ttl_ms.map(Duration::from_millis),
        priority: request.priority,
    }
}

fn show_accepted(accepted: &Accepted, durability: Durability) -> Response {
    let status = if accepted.duplicate { StatusCode::OK } else { StatusCode::ACCEPTED };
    let job_id = accepted.job_id.as_str();
    let (state, duplicate) = (accepted.status.as_str(), if accepted.duplicate { "true" } else { "false" });
    // None of it holds anything that JSON would escape.
    let json = [
        r#"{"jobId":""#,
        job_id,
        r#"","status":""#,
        state,
        r#"","duplicate":"#,
        duplicate,
        r#","durability":""#,
        durability.as_str(),
        r#""}"#,
    ];
    answer::written(status, json.concat())
}

/// Reads the engine's answer for one job.
pub(crate) fn read_outcome(outcome: Option<Result<Accepted, SubmitRefusal>>) -> ApiResult<Accepted> {
    let missing = || ApiError::new(Code::Internal, "the engine returned no result for this job");
    outcome.ok_or_else(missing)?.map_err(|refusal| match refusal {
        SubmitRefusal::Invalid(faults) => ApiError::faulty(faults),
        SubmitRefusal::NotStored(error) => error.into(),
        SubmitRefusal::Conflict { job_id } => ApiError::conflict(format!(
            "job `{job_id}` exists and asks for something else; use another jobId"
        )),
    })
}

/// One job, with every attempt, what it waits for, its payload while it exists, and where its dead letter is archived. The
/// read of the payload and its reader are put on the audit trail.
#[utoipa::path(
    get, path = "/v1/jobs/{jobId}", tag = "jobs", operation_id = "getJob",
    params(("jobId" = String, Path), ActorHeader),
    responses((status = 200, body = JobView), NoSuchJob, ReadProblems)
)]
pub async fn show(
    api: ApiState,
    id: InPath<JobId>,
    actor: Actor,
    _: NoQuery,
    ItemPermit(permit): ItemPermit,
) -> ApiResult {
    let now = api.engine.now();
    let Some(found) = api.engine.inspect().job(&id, now).await? else {
        return Err(ApiError::no_such_job(id.as_str()));
    };
    let data = match found.status {
        // The payload has moved to the dead letter.
        Status::Failed => api.engine.inspect().dead_letter(&id).await?.map(|entry| entry.data().clone()),
        Status::Sent | Status::Cancelled | Status::Discarded => None,
        _ => Some(found.job.data.clone()),
    };
    let archived = match found.status {
        Status::Discarded => api.engine.dlq.archived(&id).await?.map(show_archived),
        _ => None,
    };
    if data.is_some() {
        api.engine.audit.record_payload_read(&found.job, &actor).await?;
    }
    permit.ok(&JobView { data, archived, ..view(&api, found, now) })
}

/// The reason why due jobs are not on their way.
pub(crate) fn why_due_and_waiting(api: &ApiState, route: &str, company: &str) -> WaitingFor {
    if let Some(why) = api.engine.routes().why_undeliverable(route) {
        return WaitingFor::Route { why };
    }
    api.engine.gate.hold(route, company).map_or(WaitingFor::Turn, waiting_for)
}

/// A job as lists show it.
fn view(api: &ApiState, found: recado_store::JobView, now: Timestamp) -> JobView {
    let job = found.job;
    let gate = &api.engine.gate;
    let waits =
        matches!(found.status, Status::Scheduled | Status::Queued | Status::Retrying | Status::Parked);
    let receiver_hold = waits.then(|| gate.receiver_hold(&job)).flatten();
    let held_until = receiver_hold.as_ref().and_then(|hold| hold.until);
    let held = receiver_hold.or_else(|| waits.then(|| gate.hold_by_pin(&job)).flatten());
    let waiting_for = waits.then(|| match (held, job.due_at > now, found.status) {
        (Some(held), ..) => waiting_for(held),
        (None, true, Status::Retrying) => WaitingFor::Retry { until: job.due_at },
        (None, true, _) => WaitingFor::Delay { until: job.due_at },
        (None, false, _) => why_due_and_waiting(api, job.route.as_str(), job.company.as_str()),
    });
    let status = match &waiting_for {
        Some(WaitingFor::Breaker { .. } | WaitingFor::Limit { .. } | WaitingFor::Pause { .. }) => {
            Status::Parked
        }
        _ => found.status,
    };
    JobView {
        job_id: job.id,
        route: job.route,
        company_id: job.company,
        status,
        priority: job.priority.level(),
        user_id: job.user_id,
        correlation_id: job.correlation_id,
        traceparent: job.traceparent,
        times: JobTimes {
            enqueued_at: job.enqueued_at,
            run_at: job.due_at,
            expires_at: job.expires_at,
            ended_at: found.ended_at,
        },
        attempts: job.attempts.iter().map(Attempt::from).collect(),
        wait: JobWait {
            next_attempt_at: waiting_for.as_ref().and_then(|waits| match waits {
                WaitingFor::Breaker { until, .. } | WaitingFor::Limit { until, .. } => {
                    until.map(|until| until.max(job.due_at))
                }
                // Until a person says so.
                WaitingFor::Pause { .. } => None,
                _ => Some(job.due_at),
            }),
            deferrals: match held_until {
                // It counts from the first time that the job was found to be held.
                Some(_) => job.progress.deferrals.max(1),
                None => job.progress.deferrals + u32::from(status == Status::Parked),
            },
            waiting_for,
        },
        replays: job.progress.replays,
        answer: found.answer,
        held_by: found
            .held_by
            .map(|(worker_id, until)| HeldBy { worker_id, until: api.engine.attempts.wall_time_of(until) }),
        archived: None,
        data: None,
    }
}

/// Jobs, newest first. A page may hold fewer than `limit`; it is the last one if it has no `nextCursor`. A query for one
/// person's jobs, by `correlationId`, is put on the audit trail.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "jobs", operation_id = "listJobs", params(JobQuery, ActorHeader),
    responses((status = 200, body = JobList), ReadProblems)
)]
pub async fn list(
    api: ApiState,
    actor: Actor,
    CheckedQuery(query): CheckedQuery<JobQuery>,
    permit: AnswerPermit,
) -> ApiResult {
    let now = api.engine.now();
    let limit = query.limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let filter = JobFilter {
        // No store knows the status `parked`: such a job is queued or retrying there while something holds it
        // back.
        status: query.status.filter(|status| *status != Status::Parked),
        company: query.company_id,
        route: query.route,
        correlation_id: query.correlation_id.map(Into::into),
        user_id: None,
    };
    let mut before = cursor::read(List::Jobs, query.cursor.as_deref())?;
    let started = Instant::now();
    let mut items = Vec::new();
    loop {
        let wanted = CHUNK_JOBS.min(limit - items.len());
        let page =
            api.engine.inspect().jobs(filter.clone(), PageRequest { before, limit: wanted }, now).await?;
        let shown = page.items.into_iter().map(|found| view(&api, found, now));
        let had = items.len();
        items.extend(shown.filter(|job| query.status.is_none_or(|wanted| job.status == wanted)));
        before = page.next;
        // Rare matches in a long list: after a while the caller decides whether to go on.
        let is_sparse = items.len() - had < wanted;
        if before.is_none() || items.len() >= limit || (is_sparse && started.elapsed() > SEARCH_MAX) {
            break;
        }
    }
    if !items.is_empty() {
        let person = Query {
            correlation: filter.correlation_id,
            company: filter.company.map(|company| company.as_str().into()),
            ..Query::default()
        };
        api.engine.audit.record_person_read(&person, &actor).await?;
    }
    let next_cursor = before.map(|place| cursor::write(List::Jobs, place));
    permit.ok(&JobList { items, next_cursor })
}

/// Cancel a job that has not been sent.
#[utoipa::path(
    delete, path = "/v1/jobs/{jobId}", tag = "jobs", operation_id = "cancelJob",
    params(("jobId" = String, Path), ActorHeader),
    responses(
        (status = 200, description = "Cancelled, now or before.", body = JobCancelled),
        NoSuchJob,
        TooLateToCancel,
        ReadProblems,
    )
)]
pub async fn cancel(api: ApiState, id: InPath<JobId>, actor: Actor) -> ApiResult {
    let (InPath(id), engine) = (id, &api.engine);
    match engine.dlq.cancel(&id, Some(&actor)).await? {
        Cancelled::Done => {
            // A replay that is called off is a dead letter again.
            let found = engine.inspect().job(&id, engine.now()).await?;
            let status = found.map_or(Status::Cancelled, |found| found.status);
            answer::ok(&JobCancelled { job_id: id, status })
        }
        Cancelled::Already => answer::ok(&JobCancelled { job_id: id, status: Status::Cancelled }),
        Cancelled::Refused(status) => {
            let detail = format!("job `{id}` is {status}; only a job that waits can be cancelled");
            Err(ApiError::conflict(detail))
        }
        Cancelled::Unknown => Err(ApiError::no_such_job(id.as_str())),
    }
}

/// A job's audit trail, oldest first; from the archive once the job is forgotten. The read and its reader are put
/// on the audit trail.
#[utoipa::path(
    get, path = "/v1/jobs/{jobId}/audit", tag = "jobs", operation_id = "getJobAudit",
    params(("jobId" = String, Path), ActorHeader),
    responses((status = 200, body = AuditTrail), NothingOnRecord, ReadProblems)
)]
pub async fn audit(
    api: ApiState,
    id: InPath<JobId>,
    actor: Actor,
    _: NoQuery,
    permit: AnswerPermit,
) -> ApiResult {
    match api.engine.audit.job_trail(&id).await? {
        Some(records) => {
            let person = Query { job: Some(id.as_str().into()), ..Query::default() };
            api.engine.audit.record_person_read(&person, &actor).await?;
            permit.ok(&AuditTrail::of(&records))
        }
        None => Err(ApiError::no_such_job(id.as_str())),
    }
}
