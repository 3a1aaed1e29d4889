//! Camunda 8: jobs over the Orchestration Cluster REST API, version 2.
//!
//! A job cannot be handed back, so [`Report::Release`] is a failure that leaves its retries as they are.

use std::time::Duration;

use async_trait::async_trait;
use recado_core::time::millis;
use recado_wire::decisions::Decision;
use reqwest::StatusCode;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::engine::{ProcessEngine, Received, Report, Subscription, Task, Variables};
use crate::rest::{EngineError, Rest};
use crate::variables;

#[derive(Debug)]
pub struct Camunda8 {
    rest: Rest,
    subscription: Subscription,
}

#[derive(Deserialize)]
struct Activated {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    #[serde(deserialize_with = "key")]
    job_key: String,
    retries: u32,
    #[serde(default)]
    variables: Variables,
}

/// A string since 8.8, a number before.
fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Key {
        Text(String),
        Number(u64),
    }
    Ok(match Key::deserialize(deserializer)? {
        Key::Text(text) => text,
        Key::Number(number) => number.to_string(),
    })
}

impl Camunda8 {
    /// `rest` is the cluster's address, with or without `/v2`.
    pub fn new(rest: Rest, subscription: Subscription) -> Self {
        Camunda8 { rest: rest.below("v2"), subscription }
    }
}

#[async_trait]
impl ProcessEngine for Camunda8 {
    async fn take(&self, max: usize) -> Result<Vec<Task>, EngineError> {
        let Subscription { kind, worker, lock, poll } = &self.subscription;
        let body = json!({
            "type": kind,
            "worker": worker,
            "timeout": millis(*lock),
            "maxJobsToActivate": max,
            "requestTimeout": millis(*poll),
            "fetchVariable": variables::requested_variables(),
        });
        let activated: Activated = self.rest.post(&["jobs", "activation"], &body, *poll).await?.read()?;
        let task = |job: Job| Task { key: job.job_key, variables: job.variables, retries: Some(job.retries) };
        Ok(activated.jobs.into_iter().map(task).collect())
    }

    async fn report(&self, task: &Task, report: &Report) -> Result<Received, EngineError> {
        let (verb, body) = match report {
            Report::Complete(decision) => ("completion", json!({ "variables": outputs(decision) })),
            Report::Throw { code, message, decision } => {
                ("error", json!({"errorCode": code, "errorMessage": message, "variables": outputs(decision)}))
            }
            Report::Incident { message } => ("failure", failure(0, message, Duration::ZERO, json!({}))),
            Report::Wait { retries, backoff, message, note } => (
                "failure",
                failure(*retries, message, *backoff, json!({ variables::DECISION_VARIABLE: note })),
            ),
            Report::Release { why, backoff } => {
                ("failure", failure(task.retries.unwrap_or(1).max(1), why, *backoff, json!({})))
            }
        };
        let answer = self.rest.post(&["jobs", &task.key, verb], &body, Duration::ZERO).await?;
        match answer.status {
            status if status.is_success() => Ok(Received::Taken),
            StatusCode::NOT_FOUND | StatusCode::CONFLICT => Ok(Received::Gone(answer.said())),
            _ => Err(answer.refusal()),
        }
    }
}

/// A decision as variables. Its code is none of them: the boundary event that caught it knows.
fn outputs(decision: &Decision) -> Decision {
    Decision { error_code: None, ..decision.clone() }
}

/// `variables` of a failure are the task's own: they end with it.
fn failure(retries: u32, message: &str, backoff: Duration, variables: Value) -> Value {
    json!({
        "retries": retries,
        "errorMessage": message,
        "retryBackOff": millis(backoff),
        "variables": variables,
    })
}
