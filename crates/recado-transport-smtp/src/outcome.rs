//! Turns a handover into the outcome of a job that may have been tried before.

use recado_core::outcome::enhanced_code;
use recado_core::reason::clip;
use recado_core::{Fault, Job, Outcome, PartialDelivery, Payload, RecipientResult, RefusedRecipient};
use serde_json::json;

use crate::handover::Handover;
use crate::reply::Reply;
use crate::transaction::refusal_of;

/// Bytes at most of the server's words of acceptance that are kept with the job.
const RESPONSE_KEPT_MAX_BYTES: usize = 1_024;

/// The state of a job's recipients before an attempt.
pub(crate) struct RecipientState<'a> {
    /// The recipients of this attempt.
    pub pending: Vec<&'a str>,
    /// Recipients that refused for good before. They are reported again, so that the job's end includes them.
    refused: Vec<RefusedRecipient>,
    /// True for a single recipient, whose result is the job's result.
    sole: bool,
}

pub(crate) fn split_recipients<'a>(job: &Job, all_recipients: &[&'a str]) -> RecipientState<'a> {
    let mut state =
        RecipientState { pending: Vec::new(), refused: Vec::new(), sole: all_recipients.len() == 1 };
    for &recipient in all_recipients.iter().filter(|recipient| !job.has_reached(recipient)) {
        match job.refused_for_good(recipient) {
            Some(before) => state.refused.push(repeat_refusal(before)),
            None => state.pending.push(recipient),
        }
    }
    state
}

fn repeat_refusal(before: &RecipientResult) -> RefusedRecipient {
    let text = before.error_reason.as_ref().map_or("refused before", |reason| reason.as_str());
    let fault = Fault {
        code: before.error_code.clone(),
        enhanced: enhanced_code(text).map(Into::into),
        text: text.into(),
        ..Fault::default()
    };
    RefusedRecipient { recipient: before.recipient.clone(), fault }
}

impl RecipientState<'_> {
    /// The outcome when no recipient is left to send to.
    pub(crate) fn outcome_without_sending(self) -> Outcome {
        if self.refused.is_empty() {
            Outcome::Accepted { answer: None }
        } else {
            Outcome::Partial(PartialDelivery { accepted: Vec::new(), refused: self.refused })
        }
    }

    pub(crate) fn outcome(self, handover: Handover, message_id: &str) -> Outcome {
        let Handover { accepted, answers, failed, deferred, .. } = handover;
        let mut refused = self.refused;
        refused.extend(handover.refused);
        if let Some((recipients, fault)) = failed {
            if accepted.is_empty() && refused.is_empty() && deferred.is_empty() {
                return Outcome::Failed(fault);
            }
            refused.extend(recipients.iter().map(|recipient| refusal_of(recipient, fault.clone())));
        }
        refused.extend(deferred);
        if refused.is_empty() {
            Outcome::Accepted { answer: Some(receipt(&answers, message_id, accepted.len())) }
        } else if self.sole {
            Outcome::Failed(refused.swap_remove(0).fault)
        } else {
            Outcome::Partial(PartialDelivery { accepted, refused })
        }
    }
}

fn receipt(answers: &[Reply], message_id: &str, recipients: usize) -> Payload {
    let response = answers.iter().map(Reply::quoted).collect::<Vec<_>>().join("; ");
    let response = clip(&response, RESPONSE_KEPT_MAX_BYTES);
    let receipt = json!({ "messageId": message_id, "response": response, "recipients": recipients });
    Payload::trusted(receipt.to_string())
}
