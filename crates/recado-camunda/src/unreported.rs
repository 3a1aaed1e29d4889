//! Decisions whose report the engine has not taken yet.
//!
//! A task that comes back because its report was lost gets the decision that was made, not a second one:
//! one claim with one count has one decision and one audit record. Lost with the process, which costs no
//! more than that second record: the engine takes one report only.

use std::collections::HashMap;

use parking_lot::Mutex;
use recado_wire::decisions::{Decision, DecisionRequest};

/// Decisions at most. Only an engine that is gone for long lets them pile up.
const KEPT_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<HashMap<String, (DecisionRequest, Decision)>>);

impl Memory {
    pub fn keep(&self, task: &str, asked: &DecisionRequest, decision: &Decision) {
        let mut kept = self.0.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(task.to_owned(), (asked.clone(), decision.clone()));
    }

    /// Only for the same question: a person may have corrected the claim meanwhile.
    pub fn recall(&self, task: &str, asked: &DecisionRequest) -> Option<Decision> {
        let kept = self.0.lock();
        kept.get(task).filter(|(question, _)| question == asked).map(|(_, decision)| decision.clone())
    }

    pub fn forget(&self, task: &str) {
        self.0.lock().remove(task);
    }
}
