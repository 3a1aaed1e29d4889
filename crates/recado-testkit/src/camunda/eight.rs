//! Camunda 8's words: `/v2/jobs`.

use std::time::Duration;

use serde_json::{Value, json};

use super::door::Answered;
use super::{CamundaState, CamundaTask, Engine, TaskStatus};

/// Retries of a job for which the model says nothing else.
const RETRIES_DEFAULT: u64 = 3;

pub async fn activate(engine: &Engine, body: &Value) -> Answered {
    let known = ["type", "worker", "timeout", "maxJobsToActivate", "requestTimeout", "fetchVariable"];
    if let Some(problem) = unknown_field(body, &known) {
        return problem;
    }
    let (Some(kind), Some(timeout), Some(max)) =
        (body["type"].as_str(), body["timeout"].as_u64(), body["maxJobsToActivate"].as_u64())
    else {
        return problem(400, "INVALID_ARGUMENT", "type, timeout and maxJobsToActivate are needed");
    };
    let wait = Duration::from_millis(body["requestTimeout"].as_u64().unwrap_or(10_000));
    let worker = body["worker"].as_str().unwrap_or("default");
    let names = body["fetchVariable"].as_array().cloned().unwrap_or_default();
    let take = |state: &mut CamundaState| {
        let (now_ms, numeric) = (state.now_ms, state.numeric_keys);
        let due = state.jobs.iter_mut().filter(|(_, job)| job.is_due(kind, now_ms)).take(max as usize);
        let jobs: Vec<_> = due
            .map(|(key, job)| {
                job.hand_out(worker, now_ms + timeout);
                job.retries.get_or_insert(RETRIES_DEFAULT);
                activated(key, job, &names, numeric)
            })
            .collect();
        (!jobs.is_empty()).then_some(jobs)
    };
    let jobs = engine.long_poll(wait, take).await.unwrap_or_default();
    (200, json!({ "jobs": jobs }))
}

fn activated(key: &str, job: &CamundaTask, names: &[Value], numeric: bool) -> Value {
    json!({
        "type": job.kind,
        "jobKey": if numeric { json!(key.parse::<u64>().expect("a number")) } else { json!(key) },
        "processInstanceKey": "2251799813685000",
        "processDefinitionId": "SUB_06",
        "elementId": "retry",
        "customHeaders": {},
        "worker": job.worker,
        "retries": job.retries,
        "deadline": job.locked_until_ms,
        "variables": job.visible(names),
        "tenantId": "<default>",
        "kind": "BPMN_ELEMENT",
    })
}

pub fn report(engine: &Engine, key: &str, verb: &str, body: &Value) -> Answered {
    let known: &[&str] = match verb {
        "completion" => &["variables"],
        "failure" => &["retries", "errorMessage", "retryBackOff", "variables"],
        "error" => &["errorCode", "errorMessage", "variables"],
        _ => return problem(404, "NOT_FOUND", "no such endpoint"),
    };
    if let Some(problem) = unknown_field(body, known) {
        return problem;
    }
    engine.change(|state| {
        let now_ms = state.now_ms;
        let job = match state.jobs.get_mut(key) {
            Some(job) if job.status == TaskStatus::Open => job,
            Some(job) if job.status == TaskStatus::Incident => {
                return problem(409, "INVALID_STATE", "the job is in state 'FAILED'");
            }
            _ => return problem(404, "NOT_FOUND", "no such job was found"),
        };
        let variables = body["variables"].as_object().cloned().unwrap_or_default();
        match verb {
            "completion" => {
                job.status = TaskStatus::Completed;
                job.outputs = variables;
            }
            "failure" => {
                let backoff_ms = body["retryBackOff"].as_u64().unwrap_or(0);
                job.local.extend(variables);
                job.fail(body["retries"].as_u64().unwrap_or(0), &body["errorMessage"], now_ms + backoff_ms);
            }
            _ => {
                let Some(code) = body["errorCode"].as_str() else {
                    return problem(400, "INVALID_ARGUMENT", "no errorCode provided");
                };
                job.status = TaskStatus::Thrown;
                job.error_code = Some(code.to_owned());
                job.message = body["errorMessage"].as_str().map(str::to_owned);
                job.outputs = variables;
            }
        }
        (204, Value::Null)
    })
}

/// Requests may have no other fields than these.
fn unknown_field(body: &Value, known: &[&str]) -> Option<Answered> {
    let fields = body.as_object()?;
    let unknown = fields.keys().find(|name| !known.contains(&name.as_str()))?;
    Some(problem(400, "Bad CamundaRequest", &format!("CamundaRequest property [{unknown}] cannot be parsed")))
}

fn problem(status: u16, title: &str, detail: &str) -> Answered {
    (status, json!({"type": "about:blank", "title": title, "status": status, "detail": detail}))
}
