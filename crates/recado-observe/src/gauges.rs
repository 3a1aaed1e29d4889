//! Gauges: current values as their owners report them. A value that could not be read is absent, and an alert
//! on it stays as it was.

use std::collections::BTreeMap;
use std::time::Duration;

use recado_core::breaker::BreakerState;
use recado_core::{CompanyId, Status, Timestamp};

use crate::{NAMED_MAX, OTHER};

#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// Version of the program.
    pub version: &'static str,
    pub started_at: Option<Timestamp>,
    /// Memory of the process.
    pub resident_bytes: Option<u64>,
    /// Deliveries postponed since the start because the process lacked a resource.
    pub shortages: u64,
    pub queue: Vec<Depth>,
    /// By route: time since the oldest unclaimed job fell due that no pause and no hold keeps back. Zero where none
    /// waits.
    pub oldest_due: Option<Vec<(Box<str>, Duration)>>,
    pub dead_letters: Option<DeadLetters>,
    /// One for each company and route, or for each company; they are brought together here.
    pub tenants: Vec<Tenant>,
    pub breakers: Option<Vec<(Box<str>, BreakerState)>>,
    pub store: Option<StoreUse>,
    /// Lag of the audit trail's files behind the store, on whichever node writes them; absent where no trail
    /// is kept.
    pub trail_late: Option<Duration>,
    /// Absent where no traces are recorded.
    pub spans: Option<Spans>,
}

/// Counts of trace spans by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    pub exported: u64,
    pub dropped: u64,
}

/// Jobs of a route that stand alike.
#[derive(Clone, Debug)]
pub struct Depth {
    pub route: Box<str>,
    pub status: Status,
    pub jobs: u64,
}

/// The queue as it is now, counted over all entries.
#[derive(Clone, Debug, Default)]
pub struct DeadLetters {
    pub size: u64,
    pub by_error_code: Vec<(Box<str>, u64)>,
    /// The largest at least.
    pub by_company: Vec<(CompanyId, u64)>,
    pub oldest: Option<Duration>,
}

/// The gauges of `TenantFairnessMetrics`; its counts live elsewhere.
#[derive(Clone, Debug)]
pub struct Tenant {
    pub company: CompanyId,
    pub current_priority: u32,
    pub consecutive_batch: u32,
    pub rounds_without_processing: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct StoreUse {
    pub bytes: u64,
    /// The size it may grow to: Redis's `maxmemory`, or the room on the disk.
    pub max_bytes: Option<u64>,
}

impl StoreUse {
    pub fn share(&self) -> Option<f64> {
        let max = self.max_bytes.filter(|max| *max > 0)?;
        Some(self.bytes as f64 / max as f64)
    }
}

/// The largest by name, and the rest together.
pub(crate) fn take_largest<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> Vec<(&'a str, u64)> {
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    counts.for_each(|(name, count)| *by_name.entry(name).or_default() += count);
    let mut rest = by_name.remove(OTHER).unwrap_or_default();
    let mut largest: Vec<_> = by_name.into_iter().collect();
    largest.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    rest += largest.drain(NAMED_MAX.min(largest.len())..).map(|(_, count)| count).sum::<u64>();
    if rest > 0 {
        largest.push((OTHER, rest));
    }
    largest
}

/// Tenants by company: those in `named` first, then those that wait longest, up to the bound; the worst of
/// all others as one.
pub(crate) fn select_tenants<'a>(all: &'a [Tenant], named: &[&str]) -> Vec<(&'a str, Fairness)> {
    let mut by_company: BTreeMap<&str, Fairness> = BTreeMap::new();
    for tenant in all {
        let figures = (tenant.current_priority, tenant.consecutive_batch, tenant.rounds_without_processing);
        let known = by_company.entry(tenant.company.as_str()).or_insert(figures);
        *known = worst(*known, figures);
    }
    let mut ranked: Vec<_> = by_company.into_iter().collect();
    ranked.sort_by_key(|(company, figures)| {
        (*company == OTHER, !named.contains(company), std::cmp::Reverse(figures.2))
    });
    let named = ranked.iter().take_while(|(company, _)| *company != OTHER).count().min(NAMED_MAX);
    let rest = ranked.split_off(named).into_iter().map(|(_, figures)| figures).reduce(worst);
    ranked.extend(rest.map(|figures| (OTHER, figures)));
    ranked
}

/// Priority, jobs in a row, and rounds waited.
type Fairness = (u32, u32, u64);

/// Most urgent, longest run, longest wait.
fn worst(one: Fairness, other: Fairness) -> Fairness {
    (one.0.min(other.0), one.1.max(other.1), one.2.max(other.2))
}
