//! A decision turned into what the process engine understands. Pure.

use std::time::Duration;

use recado_core::reason::clip;
use recado_wire::decisions::{Decision, DecisionErrorCode, DecisionRequest};

use crate::engine::{Report, Task};
use crate::source::NoDecision;
use crate::variables;

/// Bytes at most of any text for the engine: Camunda 7 keeps texts in columns of 4,000 characters, and a
/// report that does not fit would fail again and again.
const TEXT_MAX_BYTES: usize = 1_000;

/// Time that a task is left alone when no decision could be made.
const RELEASE_BACKOFF: Duration = Duration::from_secs(10);

/// Retries allowed after the first submission.
pub const MAX_RETRIES_DEFAULT: u32 = 5;

/// The side that waits until the next submission: the worker or the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The process: the task completes at once and a timer event waits until `nextRetryTime`.
    Complete,
    /// The task: it fails with the backoff, so that the engine itself offers it again when the wait is over,
    /// and completes then. No timer is needed.
    Backoff,
}

/// The report for a claim that is not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRefusal {
    /// A boundary event of the process catches it.
    BpmnError,
    /// A person sees it in the engine's own tools.
    Incident,
}

#[derive(Clone, Debug)]
pub struct Rules {
    /// The route whose rules and policy decide; the server's own choice when absent.
    pub route: Option<String>,
    pub mode: Mode,
    /// Retries that the route's policy allows, for what [`Mode::Backoff`] tells the engine.
    pub max_retries: u32,
    pub on_exhausted: OnRefusal,
    pub on_permanent: OnRefusal,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            route: None,
            mode: Mode::Complete,
            max_retries: MAX_RETRIES_DEFAULT,
            on_exhausted: OnRefusal::BpmnError,
            on_permanent: OnRefusal::BpmnError,
        }
    }
}

impl Rules {
    pub(crate) fn report(&self, task: &Task, asked: &DecisionRequest, mut decision: Decision) -> Report {
        decision.retry_reason.truncate(clip(&decision.retry_reason, TEXT_MAX_BYTES).len());
        let Some(code) = decision.error_code else {
            return match self.mode {
                Mode::Complete => Report::Complete(decision),
                Mode::Backoff => self.wait(task, decision),
            };
        };
        let choice = match code {
            DecisionErrorCode::MaxRetriesExceeded => self.on_exhausted,
            DecisionErrorCode::PermanentError => self.on_permanent,
        };
        let code = code_of(code);
        let error = clip(&asked.submission_error, TEXT_MAX_BYTES);
        match choice {
            OnRefusal::BpmnError => Report::Throw { code, message: error.to_owned(), decision },
            OnRefusal::Incident => Report::Incident { message: format!("{code}: {error}") },
        }
    }

    fn wait(&self, task: &Task, decision: Decision) -> Report {
        let minutes = decision.backoff_minutes.unwrap_or(0);
        Report::Wait {
            // None left means an incident to the engine, and the rule has just granted one more.
            retries: self.max_retries.saturating_sub(decision.retry_count).max(1),
            backoff: Duration::from_secs(minutes.saturating_mul(60)),
            message: format!("{}, after {minutes} min", decision.retry_reason),
            note: variables::note(task, &decision),
        }
    }
}

/// The code that a boundary event waits for.
pub(crate) fn code_of(code: DecisionErrorCode) -> &'static str {
    match code {
        DecisionErrorCode::MaxRetriesExceeded => "MAX_RETRIES_EXCEEDED",
        DecisionErrorCode::PermanentError => "PERMANENT_ERROR",
    }
}

pub(crate) fn undecided(why: NoDecision) -> Report {
    match why {
        NoDecision::Refused(faults) => Report::Incident {
            message: clip(&format!("The claim cannot be decided on: {faults}"), TEXT_MAX_BYTES).to_owned(),
        },
        NoDecision::Unavailable(_) => Report::Release {
            why: "Recado did not decide; no retry is spent".to_owned(),
            backoff: RELEASE_BACKOFF,
        },
    }
}
