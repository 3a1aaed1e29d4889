//! Transitions: the only changes of a leased job's state.
//!
//! A store executes a transition, in one atomic step with the attempt, the audit event and the dead letter,
//! and only for the lease's current token. It never chooses one: the module `decide` does.

use std::time::Duration;

use crate::classify::Failure;
use crate::dead_letter::Cause;
use crate::job::{Attempt, AttemptResult, Progress};
use crate::values::payload::Payload;
use crate::values::time::Timestamp;

#[derive(Clone, Debug)]
pub enum Transition {
    /// The provider took it: the job has ended well.
    Deliver { attempt: Attempt, answer: Option<Payload> },
    /// It failed, and is worth another try at `at`.
    RetryAt { at: Timestamp, attempt: Attempt },
    /// It was held back before anything was sent. Spends no attempt.
    Postpone { until: Timestamp },
    /// Moves the job to the dead letter queue.
    Bury(Burial),
    /// Given back. With an attempt, its holder vanished and may have sent it; without, nothing was sent.
    Release { at: Timestamp, lost: Option<Attempt> },
}

#[derive(Clone, Debug)]
pub struct Burial {
    pub cause: Cause,
    pub failure: Failure,
    /// Absent when nothing was tried this time (expired while waiting).
    pub attempt: Option<Attempt>,
    /// It waited for a breaker, a limit or a pause to the end. An attempt says so itself.
    pub held_up: bool,
    pub at: Timestamp,
    /// Time that the entry is kept.
    pub ttl: Duration,
}

impl Transition {
    /// Records on the attempt which provider served it.
    pub fn set_provider(&mut self, provider: &str) {
        if let Some(attempt) = self.attempt_made() {
            attempt.provider = Some(provider.into());
        }
    }

    /// Records on the attempt that its job had been held up although it was due.
    pub fn mark_deferred(&mut self) {
        if let Some(attempt) = self.attempt_made() {
            attempt.held_up = true;
        }
    }

    fn attempt_made(&mut self) -> Option<&mut Attempt> {
        match self {
            Transition::Deliver { attempt, .. } | Transition::RetryAt { attempt, .. } => Some(attempt),
            Transition::Bury(burial) => burial.attempt.as_mut(),
            Transition::Postpone { .. } | Transition::Release { .. } => None,
        }
    }

    /// The attempt that this transition puts on record, if it does.
    pub fn attempt(&self) -> Option<&Attempt> {
        match self {
            Transition::Deliver { attempt, .. } | Transition::RetryAt { attempt, .. } => Some(attempt),
            Transition::Bury(burial) => burial.attempt.as_ref(),
            Transition::Release { lost, .. } => lost.as_ref(),
            Transition::Postpone { .. } => None,
        }
    }

    /// Returns the progress after this transition. Every store steps its jobs with this.
    pub fn step(&self, before: Progress) -> Progress {
        let mut after = before;
        match self.attempt() {
            Some(attempt) if attempt.result == AttemptResult::Lost => {
                after.attempts_started = attempt.number;
                after.crashes += 1;
            }
            Some(attempt) => {
                after.attempts_started = attempt.number;
                after.attempts_spent += 1;
                after.crashes = 0;
                after.deferrals += u32::from(attempt.held_up);
            }
            None => {
                let held_up = match self {
                    Transition::Postpone { .. } => true,
                    Transition::Bury(burial) => burial.held_up,
                    _ => false,
                };
                after.deferrals += u32::from(held_up);
            }
        }
        after
    }
}
