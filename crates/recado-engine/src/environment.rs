//! The environment of the rooms: what all of them use and none of them owns.

use std::sync::Arc;

use recado_core::{Random, Timestamp};

use crate::clock::Clock;
use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;
use crate::metrics::instrumented_store::InstrumentedStore;
use crate::route::Routes;
use crate::traces::Traces;

#[derive(Debug)]
pub(crate) struct Environment {
    /// This process, for the record of who holds a lease.
    pub node: Box<str>,
    pub routes: Routes,
    /// Writes of jobs, counted.
    pub jobs: InstrumentedStore,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<Random>,
    pub lifecycle: Arc<Lifecycle>,
    pub metrics: Arc<Metrics>,
    pub traces: Traces,
}

impl Environment {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
