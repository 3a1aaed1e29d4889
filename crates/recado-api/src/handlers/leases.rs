//! Leases: workers outside Recado take jobs and report the results.

use std::collections::HashSet;
use std::time::Duration;

use recado_core::{LeaseToken, RouteName};
use recado_engine::attempt::worker_leases::{self, Report, Reported};
use recado_wire::SETTLE_REPORTS_MAX;
use recado_wire::leases::{
    ExtendRequest, FailRequest, LEASE_DEFAULT_MS, LeaseExtended, LeaseRequest, LeaseSettled, Leases,
    SettleAnswer, SettleItem, SettleRequest, SucceedRequest,
};
use recado_wire::read::{self, Faults, Read};

use crate::handlers::batch::split;
use crate::handlers::prelude::*;

/// Lease jobs of routes that workers deliver, waiting for the first if asked to.
#[utoipa::path(
    post, path = "/v1/leases", tag = "leases", operation_id = "leaseJobs", request_body = LeaseRequest,
    responses((status = 200, description = "Empty when no job came in time.", body = Leases), WriteProblems)
)]
pub async fn lease(api: ApiState, reader: Reader, request: Request) -> ApiResult {
    let received = body::json(&api, request).await?;
    let Read { value: asked, mut faults } = read::body::<LeaseRequest>(received.text()?)?;
    drop(received);
    let wanted = read_lease_request(&api, asked, &mut faults);
    if !faults.is_empty() {
        return Err(faults.into_vec().into());
    }
    let leases = tokio::select! {
        leases = api.engine.attempts.lease(&wanted) => leases?,
        // A waiting request would keep the server from stopping.
        () = api.options.closing.cancelled() => Vec::new(),
    };
    // The jobs are leased: a refusal would only make them late.
    reader.ok(&api, &Leases { leases: leases.into_iter().map(Into::into).collect() })
}

fn read_lease_request(
    api: &ApiState,
    asked: LeaseRequest,
    faults: &mut Faults,
) -> worker_leases::LeaseRequest {
    // A name that cannot be one is unknown like any other.
    let mut routes: Vec<_> = asked.routes.into_iter().map(RouteName::trusted).collect();
    for (index, message) in api.engine.attempts.check_worker_routes(&routes) {
        faults.note_at(format!("/routes/{index}"), message);
    }
    let mut seen = HashSet::new();
    routes.retain(|name| seen.insert(name.clone()));
    worker_leases::LeaseRequest {
        routes,
        max: asked.max.unwrap_or(1) as usize,
        wait: Duration::from_millis(asked.wait_ms.unwrap_or(0)),
        lease: Duration::from_millis(asked.lease_ms.unwrap_or(LEASE_DEFAULT_MS)),
        worker_id: asked.worker_id.into(),
    }
}

/// The job is done.
#[utoipa::path(
    post, path = "/v1/leases/{leaseToken}/succeed", tag = "leases", operation_id = "succeedLease",
    params(("leaseToken" = String, Path)), request_body = Option<SucceedRequest>,
    responses((status = 200, body = LeaseSettled), NotALeaseToken, LeaseLost, WriteProblems)
)]
pub async fn succeed(
    api: ApiState,
    InPath(token): InPath<LeaseToken>,
    OptionalJson(said): OptionalJson<SucceedRequest>,
) -> ApiResult {
    report(&api, token, succeeded(said)).await
}

/// The job failed; the route's rules and policy decide what happens next.
#[utoipa::path(
    post, path = "/v1/leases/{leaseToken}/fail", tag = "leases", operation_id = "failLease",
    params(("leaseToken" = String, Path)), request_body = FailRequest,
    responses((status = 200, body = LeaseSettled), NotALeaseToken, LeaseLost, WriteProblems)
)]
pub async fn fail(
    api: ApiState,
    InPath(token): InPath<LeaseToken>,
    Json(said): Json<FailRequest>,
) -> ApiResult {
    report(&api, token, failed(said)).await
}

fn succeeded(said: SucceedRequest) -> Report {
    Report::Succeeded { result: said.result }
}

fn failed(said: FailRequest) -> Report {
    Report::Failed {
        code: said.code.map(Into::into),
        message: said.message.into(),
        stack_trace: said.stack_trace.map(Into::into),
        retry_after: said.retry_after_ms.map(Duration::from_millis),
    }
}

async fn report(api: &ApiState, token: LeaseToken, report: Report) -> ApiResult {
    match api.engine.attempts.report(vec![(token, report)]).await?.pop() {
        Some(Reported::Done) => answer::ok(&LeaseSettled { lease_token: token.to_string(), settled: true }),
        Some(Reported::Stale) | None => Err(ApiError::stale()),
    }
}

/// Keep the job for longer.
#[utoipa::path(
    post, path = "/v1/leases/{leaseToken}/extend", tag = "leases", operation_id = "extendLease",
    params(("leaseToken" = String, Path)), request_body = ExtendRequest,
    responses((status = 200, body = LeaseExtended), NotALeaseToken, LeaseLost, WriteProblems)
)]
pub async fn extend(
    api: ApiState,
    InPath(token): InPath<LeaseToken>,
    Json(asked): Json<ExtendRequest>,
) -> ApiResult {
    match api.engine.attempts.extend(token, Duration::from_millis(asked.lease_ms)).await? {
        Some(expires_at) => answer::ok(&LeaseExtended { lease_token: token.to_string(), expires_at }),
        None => Err(ApiError::stale()),
    }
}

/// Report on up to 1,000 leases, each on its own.
#[utoipa::path(
    post, path = "/v1/leases/settle", tag = "leases", operation_id = "settleLeases",
    request_body = Vec<SettleRequest>,
    responses(
        (status = 200, description = "The result of each item, in the order given.", body = SettleAnswer),
        WriteProblems,
    )
)]
pub async fn settle(api: ApiState, reader: Reader, request: Request) -> ApiResult {
    let received = body::list(&api, request).await?;
    let mut reports = Vec::new();
    let mut places: Vec<ApiResult<LeaseToken>> = Vec::new();
    for item in split(Format::Json, &received.bytes, SETTLE_REPORTS_MAX)? {
        places.push(read_report(&api, item).map(|(token, report)| {
            reports.push((token, report));
            token
        }));
    }
    let mut reported = api.engine.attempts.report(reports).await?.into_iter();
    let mut answer = SettleAnswer { settled: 0, refused: 0, items: Vec::with_capacity(places.len()) };
    for (index, place) in (0..).zip(places) {
        let lease_token = place.as_ref().ok().map(LeaseToken::to_string);
        let error = match place {
            Ok(_) if reported.next() == Some(Reported::Done) => None,
            Ok(_) => Some(ApiError::stale().into_problem()),
            Err(refused) => Some(refused.into_problem()),
        };
        let settled = error.is_none();
        answer.settled += u64::from(settled);
        answer.refused += u64::from(!settled);
        answer.items.push(SettleItem { index, lease_token, settled, error });
    }
    reader.ok(&api, &answer)
}

fn read_report(api: &ApiState, item: &[u8]) -> ApiResult<(LeaseToken, Report)> {
    let json = body::item_text(api, item, "report")?;
    let Read { value: said, mut faults } = read::body::<SettleRequest>(json)?;
    let token = said.lease_token.parse::<LeaseToken>();
    if let Err(error) = &token {
        faults.note("leaseToken", format!("is {error}"));
    }
    match (token, said.succeed, said.fail) {
        (Ok(token), Some(said), None) if faults.is_empty() => Ok((token, succeeded(said))),
        (Ok(token), None, Some(said)) if faults.is_empty() => Ok((token, failed(said))),
        _ => Err(faults.into_vec().into()),
    }
}
