//! Calls: a provider asked while the caller waits.

use std::time::Duration;

use recado_core::Failure;
use recado_engine::Submission;
use recado_engine::attempt::calls::{Call, CallRefused, Called};
use recado_wire::calls::{CallAnswer, CallError, CallFallback, CallRequest};
use recado_wire::read::{self, Faults, Read};

use crate::handlers::prelude::*;
use recado_core::time::millis;

/// Ask a provider and wait: its answer, or the last good one, or when to come back.
#[utoipa::path(
    post, path = "/v1/calls", tag = "calls", operation_id = "callProvider", request_body = CallRequest,
    params(("traceparent" = Option<String>, Header, description = "The caller's span, as W3C Trace Context writes it.")),
    responses(
        (status = 200, description = "The provider's answer; or, with `fallback`, its last good one.", body = CallAnswer),
        CallProblems,
    )
)]
pub async fn call(api: ApiState, reader: Reader, request: Request) -> ApiResult {
    let heard = extract::traceparent(request.headers());
    let received = body::json(&api, request).await?;
    let mut call = read_call(&api, received.text()?)?;
    call.traceparent = call.traceparent.or(heard);
    drop(received);
    match api.engine.attempts.call(call).await? {
        // The provider was asked: a refusal would only have it asked again.
        Ok(called) => reader.ok(&api, &show_call(called)?),
        Err(CallRefused::Route(why)) => Err(ApiError::invalid_at("/route", why)),
        Err(CallRefused::Data(faults)) => {
            let within = faults.into_iter().map(|fault| (format!("/data{}", fault.pointer), fault.message));
            Err(ApiError::faulty(within))
        }
    }
}

/// Reads a call, or says everything that is wrong with it.
fn read_call(api: &ApiState, json: &str) -> ApiResult<Call> {
    let Read { value: request, mut faults } = read::body::<CallRequest>(json)?;
    match recado_engine::notify::notices::caller_company(&request.company_id) {
        Ok(company_id) if faults.is_empty() => Ok(Call {
            route: request.route,
            company_id,
            data: request.data,
            timeout: request.timeout_ms.map(Duration::from_millis),
            cache_key: request.cache_key,
            traceparent: request.traceparent,
        }),
        _ => {
            note_job_faults(api, request, &mut faults);
            Err(faults.into_vec().into())
        }
    }
}

/// The faults of a job that asks for the same.
fn note_job_faults(api: &ApiState, request: CallRequest, faults: &mut Faults) {
    let job = Submission::new(request.route, request.company_id, request.data);
    for (pointer, message) in api.engine.intake.faults_of(job) {
        faults.note_at(pointer, message);
    }
}

fn show_call(called: Called) -> ApiResult<CallAnswer> {
    let nothing = CallAnswer {
        answer: None,
        took_ms: None,
        fallback: None,
        age_ms: None,
        retry_job_id: None,
        error: None,
    };
    match called {
        Called::Answered { answer, took } => {
            Ok(CallAnswer { answer, took_ms: Some(millis(took)), ..nothing })
        }
        Called::Cached { answer, age, failure, retry } => Ok(CallAnswer {
            answer: Some(answer),
            fallback: Some(CallFallback::Cached),
            age_ms: Some(millis(age)),
            retry_job_id: retry,
            error: Some(CallError {
                error_code: failure.code,
                error_reason: failure.reason.as_str().to_owned(),
                error_classification: failure.class,
                rule: failure.rule,
            }),
            ..nothing
        }),
        Called::Unavailable { failure, retry_after } => {
            Err(ApiError::after(problem(Code::ProviderUnavailable, &failure), retry_after))
        }
        Called::Refused { failure } => Err(problem(Code::ProviderRefused, &failure).into()),
    }
}

fn problem(kind: Code, failure: &Failure) -> Problem {
    let code = failure.code.as_deref().map(|code| format!("{code} ")).unwrap_or_default();
    let class = failure.class.as_str();
    let detail = format!("{code}{} ({class} by rule {})", failure.reason, failure.rule);
    Problem {
        error_code: failure.code.as_deref().map(str::to_owned),
        error_classification: Some(failure.class),
        rule: Some(failure.rule.to_string()),
        ..Problem::new(kind, detail)
    }
}
