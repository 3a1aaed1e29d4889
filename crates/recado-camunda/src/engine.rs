//! Requests to a process engine and reports to it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use recado_wire::decisions::Decision;
use serde_json::value::RawValue;

use crate::rest::EngineError;

/// Process variables by name, each as the JSON that the engine sent.
pub type Variables = BTreeMap<String, Box<RawValue>>;

/// The jobs to take, and how long to lock them.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Camunda 8's job type, Camunda 7's topic.
    pub kind: String,
    /// The worker's name. Camunda 7 accepts reports only from the worker that locked the task, so no two
    /// processes may share a name.
    pub worker: String,
    /// Time that a locked job is hidden from other workers.
    pub lock: Duration,
    /// Time that the engine may hold a request back until there is a job.
    pub poll: Duration,
}

/// One job of Camunda 8 or one external task of Camunda 7, locked for us.
pub struct Task {
    /// The same each time that it is handed out.
    pub key: String,
    pub variables: Variables,
    /// Times that the engine would hand it out again; an external task that never failed has no number.
    pub retries: Option<u32>,
}

/// Shows the variables' names only: their values are other people's data.
impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("key", &self.key)
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("retries", &self.retries)
            .finish()
    }
}

/// The end of a task, as reported to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Done; the process goes on with the decision as variables.
    Complete(Decision),
    /// A BPMN error for a boundary event to catch.
    Throw { code: &'static str, message: String, decision: Decision },
    /// No retry is left: a person has to look.
    Incident { message: String },
    /// The engine offers it again after `backoff`, together with `note`.
    Wait { retries: u32, backoff: Duration, message: String, note: String },
    /// Nothing happened: it is offered again, with all its retries.
    Release { why: String, backoff: Duration },
}

/// The engine's answer to a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    Taken,
    /// The task has ended or belongs to another worker by now: there is nothing left to report. In the
    /// engine's words.
    Gone(String),
}

/// A process engine, reached by its REST API.
///
/// - `take` locks at most `max` tasks and may wait for the first one as long as the subscription says.
///   Dropping the future is safe: what the engine locked meanwhile comes back when the lock runs out.
/// - `report` may be repeated after a lost answer: the engine takes the first and says [`Received::Gone`]
///   to the second.
/// - An error leaves the task locked; [`EngineError::is_lasting`] tells whether trying again can help.
#[async_trait]
pub trait ProcessEngine: Send + Sync + fmt::Debug {
    async fn take(&self, max: usize) -> Result<Vec<Task>, EngineError>;

    async fn report(&self, task: &Task, report: &Report) -> Result<Received, EngineError>;
}
