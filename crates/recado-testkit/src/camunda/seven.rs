//! Camunda 7's words: `/engine-rest/external-task`.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::door::Answered;
use super::{CamundaState, CamundaTask, Engine, TaskStatus};

/// Characters that fit into a column of its tables.
const COLUMN_MAX: usize = 4_000;

pub async fn fetch_and_lock(engine: &Engine, body: &Value) -> Answered {
    let topic = &body["topics"][0];
    let (Some(worker), Some(max), Some(name), Some(lock)) = (
        body["workerId"].as_str(),
        body["maxTasks"].as_u64(),
        topic["topicName"].as_str(),
        topic["lockDuration"].as_u64(),
    ) else {
        return exception(500, "ProcessEngineException", "workerId, maxTasks and topics are needed");
    };
    let wait = Duration::from_millis(body["asyncResponseTimeout"].as_u64().unwrap_or(0));
    let names = topic["variables"].as_array().cloned().unwrap_or_default();
    let take = |state: &mut CamundaState| {
        let now_ms = state.now_ms;
        let due = state.jobs.iter_mut().filter(|(_, job)| job.is_due(name, now_ms)).take(max as usize);
        let tasks: Vec<_> = due
            .map(|(id, job)| {
                job.hand_out(worker, now_ms + lock);
                locked(id, job, &names)
            })
            .collect();
        (!tasks.is_empty()).then_some(tasks)
    };
    (200, json!(engine.long_poll(wait, take).await.unwrap_or_default()))
}

fn locked(id: &str, job: &CamundaTask, names: &[Value]) -> Value {
    let variables: Map<_, _> =
        job.visible(names).into_iter().map(|(name, value)| (name, with_type(value))).collect();
    json!({
        "activityId": "retry",
        "id": id,
        "workerId": job.worker,
        "topicName": job.kind,
        "retries": job.retries,
        "priority": 0,
        "processInstanceId": "aProcessInstanceId",
        "variables": variables,
    })
}

/// A plain value gets the type that Java gives it; `{type, value}` has its own.
fn with_type(value: Value) -> Value {
    if value["type"].is_string() {
        return value;
    }
    let kind = match &value {
        Value::Null => "Null",
        Value::Bool(_) => "Boolean",
        Value::Number(number) if number.is_f64() => "Double",
        Value::Number(_) => "Integer",
        Value::String(_) => "String",
        _ => "Json",
    };
    json!({"type": kind, "value": value, "valueInfo": {}})
}

pub fn report(engine: &Engine, id: &str, verb: &str, body: &Value) -> Answered {
    engine.change(|state| {
        let now_ms = state.now_ms;
        let job = match state.jobs.get_mut(id) {
            Some(job) if matches!(job.status, TaskStatus::Open | TaskStatus::Incident) => job,
            _ => return exception(404, "RestException", "External task does not exist"),
        };
        if verb == "unlock" {
            (job.worker, job.locked_until_ms) = (None, 0);
            return (204, Value::Null);
        }
        if body["workerId"].as_str() != job.worker.as_deref() {
            return exception(400, "RestException", "It is locked by another worker");
        }
        let variables = body["variables"].as_object().cloned().unwrap_or_default();
        let local = body["localVariables"].as_object().cloned().unwrap_or_default();
        if let Some(wrong) = variables.iter().chain(&local).find(|(_, typed)| !is_typed_well(typed)) {
            return exception(400, "InvalidRequestException", &format!("Cannot submit {}", wrong.0));
        }
        if variables.values().any(|typed| typed["value"].as_str().is_some_and(|text| text.len() > COLUMN_MAX))
        {
            return exception(500, "ProcessEngineException", "ENGINE-03004 value too long for column");
        }
        match verb {
            "complete" => {
                job.status = TaskStatus::Completed;
                job.outputs = variables;
            }
            "bpmnError" => {
                job.status = TaskStatus::Thrown;
                job.error_code = body["errorCode"].as_str().map(str::to_owned);
                job.message = body["errorMessage"].as_str().map(str::to_owned);
                job.outputs = variables;
            }
            "failure" => {
                let timeout_ms = body["retryTimeout"].as_u64().unwrap_or(0);
                job.local.extend(local);
                job.fail(body["retries"].as_u64().unwrap_or(0), &body["errorMessage"], now_ms + timeout_ms);
            }
            _ => return exception(404, "RestException", "no such endpoint"),
        }
        (204, Value::Null)
    })
}

fn is_typed_well(typed: &Value) -> bool {
    let value = &typed["value"];
    match typed["type"].as_str() {
        Some("Boolean") => value.is_boolean(),
        Some("Integer") => value.is_i64(),
        Some("String") => value.is_string(),
        Some("Date") => value.as_str().is_some_and(is_java_date),
        Some("Null") => value.is_null(),
        _ => false,
    }
}

/// `yyyy-MM-dd'T'HH:mm:ss.SSSZ`
fn is_java_date(text: &str) -> bool {
    let shape: String = text.chars().map(|it| if it.is_ascii_digit() { '9' } else { it }).collect();
    matches!(shape.as_str(), "9999-99-99T99:99:99.999+9999" | "9999-99-99T99:99:99.999-9999")
}

fn exception(status: u16, kind: &str, message: &str) -> Answered {
    (status, json!({"type": kind, "message": message, "code": 0}))
}
