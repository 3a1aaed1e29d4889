//! Gauges, put together from the store and from what this process knows of providers.
//!
//! They cost a few queries to the store, so they are read when asked for and the last reading is too old: by
//! the alerts, every few seconds, and by scrapes. Where a query takes long because there is much to look at,
//! it is made more seldom, so that it never takes more than a twentieth of the time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{CompanyId, RouteName, Status, Timestamp};
use recado_observe::gauges::{DeadLetters, Depth, Gauges, StoreUse, Tenant};
use recado_store::{DeadLetterFilter, GroupBy, LeftOut, StoreError, TenantFilter, TenantView};
use tokio::time::Instant;

use crate::admission::hold_reason::{HoldCause, LimitKind};
use crate::attempt::Attempts;
use crate::audit::AuditTrail;
use crate::environment::Environment;

/// Duty cycle: reading takes at most 1/20 of the time.
const REST_TIMES: u32 = 20;

/// Age of gauges that is good enough for a scrape.
const SCRAPED_MAX_AGE: Duration = Duration::from_secs(5);

/// Reads gauges. The last reading is kept.
#[derive(Debug)]
pub struct GaugeReader {
    pub(crate) env: Arc<Environment>,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) audit: Arc<AuditTrail>,
    pub(crate) last: LastReading,
}

/// The last reading, and the one in progress.
#[derive(Debug, Default)]
pub(crate) struct LastReading {
    latest: Mutex<Option<GaugeReading>>,
    looking: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
struct GaugeReading {
    gauges: Arc<Gauges>,
    ended: Instant,
    took: Duration,
}

impl GaugeReading {
    fn is_good(&self, max_age: Duration) -> bool {
        self.ended.elapsed() <= max_age.max(self.took * REST_TIMES)
    }
}

impl GaugeReader {
    /// Returns everything in Prometheus's text format. What the store cannot tell right now is left out.
    pub async fn prometheus(&self) -> String {
        let gauges = self.read(SCRAPED_MAX_AGE).await;
        self.env.metrics.ledger.metrics(&gauges, self.env.now())
    }

    /// Returns gauges that are no older than this.
    pub(crate) async fn read(&self, max_age: Duration) -> Arc<Gauges> {
        let latest = || self.last.latest.lock().clone().filter(|look| look.is_good(max_age));
        if let Some(look) = latest() {
            return look.gauges;
        }
        // Others wait for one look instead of all looking at once.
        let _looking = self.last.looking.lock().await;
        if let Some(look) = latest() {
            return look.gauges;
        }
        let began = Instant::now();
        let gauges = Arc::new(self.look().await);
        let look = GaugeReading { gauges: gauges.clone(), ended: Instant::now(), took: began.elapsed() };
        *self.last.latest.lock() = Some(look);
        gauges
    }

    async fn look(&self) -> Gauges {
        let now = self.env.now();
        let tenants =
            known(self.attempts.inspect.tenants(TenantFilter::default(), now).await).unwrap_or_default();
        Gauges {
            version: env!("CARGO_PKG_VERSION"),
            started_at: Some(self.env.metrics.started_at()),
            resident_bytes: resident_bytes(),
            shortages: self.attempts.shortages.count(),
            queue: self.depths(&tenants),
            oldest_due: self.oldest_due(now).await,
            dead_letters: known(self.dead_letters_now(now).await),
            breakers: Some(self.breakers(now)),
            store: known(self.attempts.inspect.report().await)
                .map(|report| StoreUse { bytes: report.used_bytes, max_bytes: report.max_bytes }),
            tenants: tenants.into_iter().map(tenant).collect(),
            trail_late: self.audit.lateness(now).await,
            spans: self.env.traces.spans(),
        }
    }

    fn depths(&self, tenants: &[TenantView]) -> Vec<Depth> {
        let parked = |route: &str| {
            let hold = self.env.routes.get(route).and_then(|route| self.attempts.gate.route_hold(route));
            hold.is_some_and(|hold| hold.by == HoldCause::Breaker)
        };
        let mut depths = Vec::new();
        for of_route in tenants.chunk_by(|one, other| one.route == other.route) {
            let route: Box<str> = of_route[0].route.as_str().into();
            let due = if parked(&route) { Status::Parked } else { Status::Queued };
            let sum = |count: fn(&TenantView) -> u64| of_route.iter().map(count).sum();
            let by_status: [(Status, u64); 3] = [
                (due, sum(|tenant| tenant.queued)),
                (Status::Scheduled, sum(|tenant| tenant.delayed)),
                (Status::Delivering, sum(|tenant| tenant.leased)),
            ];
            depths.extend(by_status.map(|(status, jobs)| Depth { route: route.clone(), status, jobs }));
        }
        depths
    }

    /// By route, how long the oldest job has been due that nothing holds on purpose: no pause, no breaker
    /// that a person opened, and no hold that a provider asked for. Zero where only such jobs wait.
    async fn oldest_due(&self, now: Timestamp) -> Option<Vec<(Box<str>, Duration)>> {
        let mut left_out: LeftOut =
            self.attempts.gate.tenants.paused().into_keys().map(|company| (None, company)).collect();
        for route in self.env.routes.iter() {
            // Where another provider is open to it, a company is not held.
            if let [provider] = route.providers().collect::<Vec<_>>()[..]
                && let Some(provider) = self.attempts.gate.providers.get(provider)
            {
                let held = provider.held_companies(now).into_iter();
                left_out.extend(held.map(|(company, ..)| (Some(route.name.clone()), company)));
            }
        }
        let oldest = known(self.attempts.inspect.oldest_due(&left_out, now).await)?;
        let on_purpose = |route: &RouteName| {
            let Some(route) = self.env.routes.get(route.as_str()) else { return false };
            match self.attempts.gate.route_hold(route).map(|hold| hold.by) {
                Some(HoldCause::Pause(..) | HoldCause::Limit(LimitKind::Quiet)) => true,
                Some(HoldCause::Breaker) => route.providers().all(|name| self.is_opened_by_hand(name)),
                _ => false,
            }
        };
        let age = |(route, due_at): (RouteName, Timestamp)| {
            let age = if on_purpose(&route) { Duration::ZERO } else { now.since(due_at) };
            (route.as_str().into(), age)
        };
        Some(oldest.into_iter().map(age).collect())
    }

    fn is_opened_by_hand(&self, provider: &str) -> bool {
        let provider = self.attempts.gate.providers.get(provider);
        provider.is_some_and(|provider| provider.control.read(|control| control.breaker.held_open))
    }

    async fn dead_letters_now(&self, now: Timestamp) -> Result<DeadLetters, StoreError> {
        let size = self.attempts.inspect.counts(now).await?.dead_letters;
        if size == 0 {
            return Ok(DeadLetters::default());
        }
        let groups =
            async |by| self.attempts.inspect.dead_letter_groups(by, DeadLetterFilter::default()).await;
        let by_error_code = groups(GroupBy::LastFailureCode).await?.into_iter();
        let by_company = groups(GroupBy::Company).await?.into_iter();
        let oldest = self.attempts.inspect.oldest_dead_letters(1).await?;
        Ok(DeadLetters {
            size,
            by_error_code: by_error_code
                .map(|group| (group.key.unwrap_or_else(|| "none".into()), group.count))
                .collect(),
            by_company: by_company
                .filter_map(|group| Some((CompanyId::new(group.key?).ok()?, group.count)))
                .collect(),
            oldest: oldest.first().map(|entry| now.since(entry.moved_at)),
        })
    }

    fn breakers(&self, now: Timestamp) -> Vec<(Box<str>, recado_core::breaker::BreakerState)> {
        let guarded =
            self.attempts.gate.providers.values().filter(|provider| provider.terms.breaker.is_some());
        guarded.map(|provider| (provider.name.clone(), provider.view(now).breaker.state)).collect()
    }
}

/// Returns a figure, or logs that the store cannot give it right now.
fn known<T>(answer: Result<T, StoreError>) -> Option<T> {
    answer.map_err(|error| tracing::debug!(%error, "Cannot read gauges")).ok()
}

fn tenant(view: TenantView) -> Tenant {
    Tenant {
        company: view.company,
        current_priority: view.current_priority,
        consecutive_batch: view.consecutive_batch_count,
        rounds_without_processing: view.rounds_without_processing,
    }
}

/// Memory of this process, where the system tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
