//! Runs the alerts: measures every few seconds, and tells of each that began or is over.
//!
//! The state is an entry in the store, so that a restart neither fires an alert again nor forgets to say that it is
//! over. Where several nodes share the store, one of them runs the alerts for all: the entry is its leader lease
//! ([`crate::shared::leader`]). The others show what the entry says. A node that takes it over goes on from there at its
//! next round.
//!
//! A change is told first and saved after: when the process dies in between it is told again, as the same event, which
//! the store knows already.
//!
//! Shares are of what the node that runs the alerts saw. For figures of all nodes together, ask Prometheus.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{CompanyId, Event, EventAlert, EventData, EventJob, EventKind, EventOutcome, Timestamp};
use recado_observe::alerts::{AlertChange, Change, Subject};
use recado_observe::{AlertConfig, Alerts, AlertsState, Firing, Rule, Severity};
use recado_store::{KeyValue, Namespace, StoreError};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::duties::gauges::GaugeReader;
use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::shared::entry::read_entry;
use crate::shared::leader::{FoundLease, LeaderLease, LeaderState, LeaderTerms, LeaseWatch};

pub(crate) const NAMESPACE: Namespace = Namespace::new("alerts");
const KEY: &str = "rung";

/// Between two measurements, unless configured otherwise.
pub const EVERY_DEFAULT: Duration = Duration::from_secs(10);

/// Rounds that a node may miss before another runs the alerts in its place.
const MISSED_MAX: u32 = 3;

/// The rules of alerts, and the interval of measurements.
#[derive(Clone, Debug)]
pub struct AlertTerms {
    pub config: AlertConfig,
    pub every: Duration,
}

impl Default for AlertTerms {
    fn default() -> Self {
        AlertTerms { config: AlertConfig::default(), every: EVERY_DEFAULT }
    }
}

/// Runs the alerts, or shows what the node that runs them has found.
#[derive(Debug)]
pub struct AlertRunner {
    terms: AlertTerms,
    lease: LeaderTerms,
    alerts: Mutex<Alerts>,
    gauges: Arc<GaugeReader>,
    metrics: Arc<Metrics>,
    notifier: Arc<Notifier>,
    clock: Arc<dyn Clock>,
    lifecycle: Arc<Lifecycle>,
}

/// The state of the alerts, and the node that runs them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AlertLease {
    node: Box<str>,
    /// Read by earlier versions alone, which do not take over before this time.
    until: Timestamp,
    state: AlertsState,
}

impl LeaderState for AlertLease {
    fn holder(&self) -> Option<&str> {
        Some(&self.node)
    }

    fn set_holder(&mut self, node: Option<&str>, until: Timestamp) {
        (self.node, self.until) = (node.unwrap_or_default().into(), until);
    }
}

/// Whose turn it is to run the alerts.
enum Turn {
    Ours,
    /// This node runs the alerts from its next round on: until then the node before it may still be at it.
    OursNextRound,
    Theirs,
}

impl AlertRunner {
    pub(crate) fn new(
        terms: AlertTerms,
        kv: Arc<dyn KeyValue>,
        node: Box<str>,
        gauges: Arc<GaugeReader>,
        notifier: Arc<Notifier>,
        lifecycle: Arc<Lifecycle>,
    ) -> Self {
        let (metrics, clock) = (gauges.metrics.clone(), gauges.clock.clone());
        let alerts = Mutex::new(Alerts::new(terms.config.clone()));
        let lease = LeaderTerms { kv, node, namespace: NAMESPACE, length: terms.every * MISSED_MAX };
        AlertRunner { terms, lease, alerts, gauges, metrics, notifier, clock, lifecycle }
    }

    /// Measures until the engine stops.
    pub(crate) async fn run(self: Arc<Self>) {
        let (mut held, mut watch) = (None, LeaseWatch::default());
        loop {
            tokio::select! {
                () = self.lifecycle.stopping.cancelled() => return,
                () = tokio::time::sleep(self.terms.every) => {}
            }
            match self.round(&mut held, &mut watch).await {
                Ok(()) => {}
                Err(StoreError::Broken(error)) => return self.lifecycle.fail_store(&error),
                Err(error) => tracing::warn!(%error, "cannot look after the alerts; trying again"),
            }
        }
    }

    /// Measures once, if it is this node's turn.
    async fn round(
        &self,
        held: &mut Option<LeaderLease<AlertLease>>,
        watch: &mut LeaseWatch,
    ) -> Result<(), StoreError> {
        let shared = self.lease.kv.is_shared();
        if (shared || held.is_none()) && !matches!(self.take(held, watch).await?, Turn::Ours) {
            return Ok(());
        }
        let Some(lease) = held else { return Ok(()) };
        let gauges = self.gauges.read(self.terms.every / 2).await;
        let now = self.clock.now();
        let changes = self.metrics.step_alerts(&mut self.alerts.lock(), &gauges, now);
        for change in &changes {
            self.tell(change, now).await;
        }
        let state = self.alerts.lock().state();
        if lease.state.state == state && !shared {
            return Ok(());
        }
        let before = std::mem::replace(&mut lease.state.state, state);
        match lease.save(now).await {
            Ok(true) => {}
            Ok(false) => *held = None,
            Err(error) => {
                // It is still to be written.
                lease.state.state = before;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Finds out whose turn it is. What another node wrote is taken in.
    async fn take(
        &self,
        held: &mut Option<LeaderLease<AlertLease>>,
        watch: &mut LeaseWatch,
    ) -> Result<Turn, StoreError> {
        let now = self.clock.now();
        let entry = self.lease.kv.kv_get(NAMESPACE, KEY, now).await?;
        let new = || AlertLease { node: Box::default(), until: now, state: AlertsState::default() };
        let state = entry.as_ref().and_then(read_entry).unwrap_or_else(new);
        let found = FoundLease::new(KEY, entry.as_ref(), state);
        if held.as_ref().is_some_and(|held| held.version() == found.version()) {
            return Ok(Turn::Ours);
        }
        *self.alerts.lock() = Alerts::restore(self.terms.config.clone(), found.state.state.clone());
        *held = None;
        let Ok(mut lease) = found.take(&self.lease, watch) else { return Ok(Turn::Theirs) };
        // Where no other node competes, nothing is written before there is something to save.
        let turn = match self.lease.kv.is_shared() {
            false => Turn::Ours,
            true if lease.save(now).await? => Turn::OursNextRound,
            true => return Ok(Turn::Theirs),
        };
        *held = Some(lease);
        Ok(turn)
    }

    /// Tells the log, the stream and the channels for alerts, and a company's endpoints of what is about the company.
    async fn tell(&self, change: &AlertChange, now: Timestamp) {
        let event = event(change);
        log(change);
        self.notifier.notify_alert(&event, now).await;
        self.notifier.events.tell(event);
    }

    /// Returns firing alerts, by name and subject.
    pub fn firing(&self) -> Vec<Firing> {
        self.alerts.lock().firing().into_iter().cloned().collect()
    }

    pub fn rules(&self) -> &[Rule] {
        &self.terms.config.rules
    }
}

fn event(change: &AlertChange) -> Event {
    let AlertChange { alert, at, .. } = change;
    let kind = match change.change {
        Change::Fired => EventKind::AlertFired,
        Change::Resolved => EventKind::AlertResolved,
    };
    let named = |is: bool| alert.subject.name().filter(|_| is).map(Into::into);
    let company: Option<CompanyId> = match &alert.subject {
        Subject::Company(company) => Some(company.clone()),
        _ => None,
    };
    let route = named(matches!(alert.subject, Subject::Route(_)));
    let error_code = named(matches!(alert.subject, Subject::ErrorCode(_)));
    let data = EventData {
        job: EventJob { route, ..EventJob::default() },
        outcome: EventOutcome { error_code, ..EventOutcome::default() },
        provider: named(matches!(alert.subject, Subject::Provider(_))),
        reason: Some(alert.text.en.clone()),
        alert: EventAlert {
            name: Some(alert.alert.clone()),
            severity: Some(alert.severity.as_str().into()),
            since: Some(alert.since),
            reason_pt: Some(alert.text.pt.clone()),
            runbook: Some(alert.runbook.clone()),
        },
        ..EventData::default()
    };
    let about = [&*alert.alert, alert.subject.name().unwrap_or_default(), &alert.since.to_string()];
    Event::once(kind, company, &about, *at, data)
}

fn log(change: &AlertChange) {
    let Firing { alert, subject, severity, value, threshold, text, runbook, .. } = &change.alert;
    let subject = subject.name();
    match (change.change, severity) {
        (Change::Fired, Severity::Critical) => {
            tracing::error!(
                event = "AlertFired",
                alert = &**alert,
                subject,
                severity = severity.as_str(),
                value,
                threshold,
                runbook = &**runbook,
                "{}",
                text.en
            );
        }
        (Change::Fired, Severity::Warning) => {
            tracing::warn!(
                event = "AlertFired",
                alert = &**alert,
                subject,
                severity = severity.as_str(),
                value,
                threshold,
                runbook = &**runbook,
                "{}",
                text.en
            );
        }
        (Change::Resolved, _) => {
            tracing::info!(
                event = "AlertResolved",
                alert = &**alert,
                subject,
                value,
                threshold,
                "{}",
                text.en
            );
        }
    }
}
