//! Fallbacks of routes that cannot deliver, as data.

use std::time::Duration;

use recado_core::Cause;

/// The fallback of an operation that failed for good, or whose provider's breaker is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    pub act: Act,
    /// Acts while every provider's breaker is open. Only where that is asked for: otherwise jobs wait, and calls fall
    /// back anyway.
    pub on_open: bool,
    /// Acts when a job failed for good.
    pub on_dead: bool,
    /// The channel that tells a person, beside the event.
    pub notify: Option<Box<str>>,
}

impl Default for Fallback {
    fn default() -> Self {
        Fallback { act: Act::default(), on_open: false, on_dead: true, notify: None }
    }
}

impl Fallback {
    /// Returns true if it acts on a burial.
    pub(crate) fn fires_on(&self, cause: Cause) -> bool {
        if cause == Cause::Fallback { self.on_open } else { self.on_dead }
    }

    /// Returns true if jobs do anything but wait while every provider's breaker is open.
    pub fn acts_on_open(&self) -> bool {
        self.on_open && matches!(self.act, Act::MarkFailed | Act::Reschedule(_) | Act::MarkAccount)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Act {
    /// Moves the job to the dead letter queue; the event tells the company.
    #[default]
    MarkFailed,
    /// Answers a call with the last good answer, and schedules a job that asks again.
    Cached,
    /// Tries the job again after this time, until it expires.
    Reschedule(Duration),
    /// Marks the account as `token_expired`.
    MarkAccount,
    /// Changes nothing: every endpoint is switched off after ten failures in a row, whatever its route's
    /// fallback. Jobs wait while the breaker is open.
    DisableEndpoint,
    /// Answers a call with 503.
    Unavailable,
}

impl Act {
    pub const NAMES: [&str; 6] =
        ["mark_failed", "cached", "reschedule", "mark_account", "disable_endpoint", "unavailable"];

    pub fn as_str(self) -> &'static str {
        match self {
            Act::MarkFailed => "mark_failed",
            Act::Cached => "cached",
            Act::Reschedule(_) => "reschedule",
            Act::MarkAccount => "mark_account",
            Act::DisableEndpoint => "disable_endpoint",
            Act::Unavailable => "unavailable",
        }
    }
}
