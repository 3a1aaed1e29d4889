//! Camunda 7: external tasks over its REST API.
//!
//! Variables have types here, and a report counts only from the worker that locked the task last. Needs
//! 7.10 or newer; for [`crate::rules::Mode::Backoff`] 7.16, the first that takes variables with a failure.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::Timestamp;
use recado_core::time::millis;
use recado_wire::decisions::Decision;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::engine::{ProcessEngine, Received, Report, Subscription, Task};
use crate::rest::{EngineError, Rest};
use crate::variables;

#[derive(Debug)]
pub struct Camunda7 {
    rest: Rest,
    subscription: Subscription,
}

#[derive(Deserialize)]
struct Locked {
    id: String,
    retries: Option<u32>,
    #[serde(default)]
    variables: BTreeMap<String, Typed>,
}

/// The type is for Java's sake; the value's JSON says all that is needed here.
#[derive(Deserialize)]
struct Typed {
    value: Box<RawValue>,
}

impl Camunda7 {
    /// `rest` is the address of the REST API, which usually ends in `/engine-rest`.
    pub fn new(rest: Rest, subscription: Subscription) -> Self {
        Camunda7 { rest, subscription }
    }
}

#[async_trait]
impl ProcessEngine for Camunda7 {
    async fn take(&self, max: usize) -> Result<Vec<Task>, EngineError> {
        let Subscription { kind, worker, lock, poll } = &self.subscription;
        let body = json!({
            "workerId": worker,
            "maxTasks": max,
            "usePriority": true,
            "asyncResponseTimeout": millis(*poll),
            "topics": [{
                "topicName": kind,
                "lockDuration": millis(*lock),
                "variables": variables::requested_variables(),
            }],
        });
        let answer = self.rest.post(&["external-task", "fetchAndLock"], &body, *poll).await?;
        let locked: Vec<Locked> = answer.read()?;
        let task = |locked: Locked| Task {
            key: locked.id,
            variables: locked.variables.into_iter().map(|(name, typed)| (name, typed.value)).collect(),
            retries: locked.retries,
        };
        Ok(locked.into_iter().map(task).collect())
    }

    async fn report(&self, task: &Task, report: &Report) -> Result<Received, EngineError> {
        let worker = &self.subscription.worker;
        let (verb, body) = match report {
            Report::Complete(decision) => {
                ("complete", json!({"workerId": worker, "variables": typed(decision)}))
            }
            Report::Throw { code, message, decision } => (
                "bpmnError",
                json!({
                    "workerId": worker,
                    "errorCode": code,
                    "errorMessage": message,
                    "variables": typed(decision),
                }),
            ),
            Report::Incident { message } => ("failure", failure(worker, 0, message, Duration::ZERO)),
            Report::Wait { retries, backoff, message, note } => {
                let mut body = failure(worker, *retries, message, *backoff);
                body["localVariables"] =
                    json!({ variables::DECISION_VARIABLE: {"value": note, "type": "String"} });
                ("failure", body)
            }
            // A task that never failed has no number of retries, and a failure would give it one.
            Report::Release { .. } => ("unlock", json!({})),
        };
        let answer = self.rest.post(&["external-task", &task.key, verb], &body, Duration::ZERO).await?;
        match answer.status {
            status if status.is_success() => Ok(Received::Taken),
            // 400: another worker has locked it since.
            StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => Ok(Received::Gone(answer.said())),
            _ => Err(answer.refusal()),
        }
    }
}

fn failure(worker: &str, retries: u32, message: &str, timeout: Duration) -> Value {
    json!({
        "workerId": worker,
        "errorMessage": message,
        "errorDetails": message,
        "retries": retries,
        "retryTimeout": millis(timeout),
    })
}

/// A decision as variables with Java's types.
fn typed(decision: &Decision) -> Value {
    json!({
        "shouldRetry": {"value": decision.should_retry, "type": "Boolean"},
        "nextRetryTime": or_null(decision.next_retry_time.map(java_date), "Date"),
        "retryCount": {"value": decision.retry_count, "type": "Integer"},
        "retryReason": {"value": decision.retry_reason, "type": "String"},
        "backoffMinutes": or_null(decision.backoff_minutes, "Integer"),
        "errorClassification": {"value": decision.error_classification.as_str(), "type": "String"},
    })
}

fn or_null(value: Option<impl Into<Value>>, kind: &str) -> Value {
    match value {
        Some(value) => json!({"value": value.into(), "type": kind}),
        None => json!({"value": null, "type": "Null"}),
    }
}

/// `yyyy-MM-dd'T'HH:mm:ss.SSSZ`, whose `Z` is an offset without a colon.
fn java_date(time: Timestamp) -> String {
    time.to_string().replace('Z', "+0000")
}
