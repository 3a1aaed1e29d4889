//! The life of an attempt: claim, deliver, settle, and what follows.
//!
//! Read [`deliver`] first: it is the whole life of an attempt, top to bottom.
//!
//! | file | what |
//! |---|---|
//! | [`claimer`] | one loop a route: free slots → leases → deliveries |
//! | [`deliver`] | one attempt at one job |
//! | [`settle`] | writes an outcome down until the store takes it |
//! | [`post_settle`] | what follows from a settled attempt: callbacks, notices, counters, marks |
//! | [`leases`] | the leases that this process holds, and their heartbeat |
//! | [`pins`] | keeps a job with the provider that may have taken it |
//! | [`worker_leases`] | the same life for workers outside this process |
//! | [`calls`] | a provider asked while the caller waits |
//! | [`open_breaker_fallback`] | a route's fallback while all its breakers are open |
//! | [`shortage`] [`log`] | shortages of this process; the log lines of an attempt |

pub mod calls;
pub(crate) mod claimer;
pub(crate) mod deliver;
pub(crate) mod leases;
pub(crate) mod log;
pub(crate) mod open_breaker_fallback;
pub(crate) mod pins;
pub(crate) mod post_settle;
pub(crate) mod settle;
pub(crate) mod shortage;
pub mod worker_leases;

use std::sync::Arc;

use recado_store::{Inspect, KeyValue};

use crate::admission::gate::Gate;
use crate::attempt::leases::HeldLeases;
use crate::attempt::shortage::Shortages;
use crate::environment::Environment;
use crate::metrics::dead_letter_rate::DeadLetterRate;
use crate::notify::Notifier;

/// Makes attempts at jobs, and settles them.
#[derive(Debug)]
pub struct Attempts {
    pub(crate) env: Arc<Environment>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) leases: Arc<HeldLeases>,
    pub(crate) inspect: Arc<dyn Inspect>,
    pub(crate) kv: Arc<dyn KeyValue>,
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) dead_letter_rate: Arc<DeadLetterRate>,
    pub(crate) shortages: Shortages,
    /// Consecutive jobs of one company before the next one's turn.
    pub(crate) turn_jobs: u32,
}
