//! Keeps retries from drowning first tries while a provider is in trouble.
//!
//! Each first try earns a share of a retry, and a trickle is always allowed. Each process has a budget of its own.

use recado_core::Timestamp;

const RETRIES_PER_FIRST_TRY: f64 = 0.2;
const RETRIES_PER_SECOND: f64 = 10.0;
const RETRY_CREDIT_MAX: f64 = 100.0;

#[derive(Debug)]
pub(crate) struct RetryBudget {
    credit: f64,
    at: Option<Timestamp>,
}

impl Default for RetryBudget {
    fn default() -> Self {
        RetryBudget { credit: RETRY_CREDIT_MAX, at: None }
    }
}

impl RetryBudget {
    pub fn first_try(&mut self) {
        self.credit = (self.credit + RETRIES_PER_FIRST_TRY).min(RETRY_CREDIT_MAX);
    }

    pub fn retry(&mut self, now: Timestamp) -> bool {
        let passed = self.at.map_or(0.0, |at| now.since(at).as_secs_f64());
        self.at = Some(now);
        self.credit = (self.credit + passed * RETRIES_PER_SECOND).min(RETRY_CREDIT_MAX);
        let allowed = self.credit >= 1.0;
        if allowed {
            self.credit -= 1.0;
        }
        allowed
    }
}
