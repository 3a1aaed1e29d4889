//! A claim as process variables, in and out.

use recado_wire::decisions::{Decision, DecisionRequest};
use recado_wire::problem::FieldFault;
use recado_wire::read::{self, NotJson};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::engine::Task;

/// The variables that are read.
pub const INPUTS: [&str; 4] = ["claimId", "submissionError", "retryCount", "lastSubmissionTime"];

/// The task's own variable that carries a decision over the wait; see [`crate::rules::Mode::Backoff`].
pub const NOTE: &str = "recadoDecision";

/// Every variable that the engine is asked for.
pub(crate) fn wanted() -> Vec<&'static str> {
    INPUTS.into_iter().chain([NOTE]).collect()
}

/// The question that a task puts, or everything that is wrong with it.
///
/// The server reads it with the same code, so what passes here passes there.
pub(crate) fn question(task: &Task, route: Option<&str>) -> Result<DecisionRequest, Vec<FieldFault>> {
    let whole = |fault: String| vec![FieldFault { pointer: String::new(), message: fault }];
    let mut members = Vec::new();
    for (name, value) in task.variables.iter().filter(|(name, _)| INPUTS.contains(&name.as_str())) {
        members.push(format!("\"{name}\":{}", whole_number(value)));
    }
    let json = format!("{{{}}}", members.join(","));
    let asked = read::body::<DecisionRequest>(&json).map_err(|NotJson(why)| whole(why))?.sound()?;
    Ok(DecisionRequest { route: route.map(str::to_owned), ..asked })
}

/// Expressions of process engines make `2.0` of a count; it is 2 all the same.
fn whole_number(value: &RawValue) -> String {
    let text = value.get();
    match text.split_once('.') {
        Some((whole, zeros)) if !text.starts_with('"') && zeros.bytes().all(|byte| byte == b'0') => {
            whole.to_owned()
        }
        _ => text.to_owned(),
    }
}

/// All faults in one text, each with the variable's name.
pub(crate) fn faults_in_words(faults: &[FieldFault]) -> String {
    let one = |fault: &FieldFault| {
        let name = fault.pointer.trim_start_matches('/');
        let name = if name.is_empty() { "the variables" } else { name };
        format!("{name} {}", fault.message)
    };
    faults.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A decision that waits with its task.
#[derive(Serialize, Deserialize)]
struct Note {
    task: String,
    decision: Decision,
}

pub(crate) fn note(task: &Task, decision: &Decision) -> String {
    let note = Note { task: task.key.clone(), decision: decision.clone() };
    // Plain values cannot fail to be written; a note that is lost only means deciding once more.
    serde_json::to_string(&note).unwrap_or_default()
}

/// The decision that this very task has waited for. Another task's note may be visible here, too: Camunda 7
/// has no scope of its own for a task without boundary events.
pub(crate) fn noted(task: &Task) -> Option<Decision> {
    let text: String = serde_json::from_str(task.variables.get(NOTE)?.get()).ok()?;
    let note: Note = serde_json::from_str(&text).ok()?;
    (note.task == task.key).then_some(note.decision)
}
