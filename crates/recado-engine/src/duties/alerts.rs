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

use crate::duties::gauges::GaugeReader;
use crate::environment::Environment;
use crate::notify::Notifier;
use crate::shared::entry::{read_entry, version_of};
use crate::shared::leader::{LeaderLease, LeaderState, LeaderTerms, LeaseWatch};

pub(crate) const NAMESPACE: Namespace = Namespace::new("alerts");
/// Key of the entry. Stored in data directories: do not change it.
const KEY: &str = "rung";

/// Time between two measurements, unless configured otherwise.
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
    notifier: Arc<Notifier>,
    env: Arc<Environment>,
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

/// The lease of the alerts, while this node holds it.
type HeldAlerts = Option<LeaderLease<AlertLease>>;

impl LeaderState for AlertLease {
    fn holder(&self) -> Option<&str> {
        Some(&self.node)
    }

    fn set_holder(&mut self, node: Option<&str>, until: Timestamp) {
        (self.node, self.until) = (node.unwrap_or_default().into(), until);
    }
}

impl AlertRunner {
    pub(crate) fn new(
        terms: AlertTerms,
        kv: Arc<dyn KeyValue>,
        gauges: Arc<GaugeReader>,
        notifier: Arc<Notifier>,
    ) -> Self {
        let (env, node) = (gauges.env.clone(), gauges.env.node.clone());
        let alerts = Mutex::new(Alerts::new(terms.config.clone()));
        let lease = LeaderTerms { kv, node, namespace: NAMESPACE, length: terms.every * MISSED_MAX };
        AlertRunner { terms, lease, alerts, gauges, notifier, env }
    }

    /// Measures until the engine stops.
    pub(crate) async fn run(self: Arc<Self>) {
        let (mut held, mut watch, every) = (None, LeaseWatch::default(), self.terms.every);
        let mut goes_on = self.env.lifecycle.rest(every).await;
        while goes_on {
            let round = self.round(&mut held, &mut watch).await.map(|()| every);
            let complaint = "Cannot look after the alerts; trying again";
            goes_on = self.env.lifecycle.rest_after(round, every, complaint).await;
        }
    }

    /// Measures once, if it is this node's turn.
    async fn round(&self, held: &mut HeldAlerts, watch: &mut LeaseWatch) -> Result<(), StoreError> {
        let shared = self.lease.kv.is_shared();
        if (shared || held.is_none()) && !self.take(held, watch).await? {
            return Ok(());
        }
        let Some(lease) = held else { return Ok(()) };
        let gauges = self.gauges.read(self.terms.every / 2).await;
        let now = self.env.now();
        let changes = self.alerts.lock().evaluate(&self.env.metrics.ledger, &gauges, now);
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

    /// Returns true when it is this node's turn. What another node wrote is taken in.
    async fn take(&self, held: &mut HeldAlerts, watch: &mut LeaseWatch) -> Result<bool, StoreError> {
        let now = self.env.now();
        let entry = self.lease.kv.kv_get(NAMESPACE, KEY, now).await?;
        let new = || AlertLease { node: Box::default(), until: now, state: AlertsState::default() };
        let state: AlertLease = entry.as_ref().and_then(read_entry).unwrap_or_else(new);
        let version = version_of(entry.as_ref());
        if held.as_ref().is_some_and(|held| held.version == version) {
            return Ok(true);
        }
        *self.alerts.lock() = Alerts::restore(self.terms.config.clone(), state.state.clone());
        *held = None;
        let Some(mut lease) = self.lease.take(KEY, version, state, watch) else { return Ok(false) };
        // Where no other node competes, nothing is written before there is something to save.
        let shared = self.lease.kv.is_shared();
        if !shared || lease.save(now).await? {
            *held = Some(lease);
        }
        // Where one does, it may still be at it: this node's turn begins with its next round.
        Ok(!shared)
    }

    /// Tells the log, the stream and the channels for alerts, and a company's endpoints of what is about the company.
    async fn tell(&self, change: &AlertChange, now: Timestamp) {
        let event = event(change);
        log(change);
        self.notifier.notify_channels(&self.notifier.notices.alerts, &event, now).await;
        self.notifier.events.publish(event);
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
    macro_rules! fired {
        ($level:ident) => {
            tracing::$level!(
                event = "AlertFired",
                alert = &**alert,
                subject,
                severity = severity.as_str(),
                value,
                threshold,
                runbook = &**runbook,
                "{}",
                text.en
            )
        };
    }
    match (change.change, severity) {
        (Change::Fired, Severity::Critical) => fired!(error),
        (Change::Fired, Severity::Warning) => fired!(warn),
        (Change::Resolved, _) => {
            let event = "AlertResolved";
            tracing::info!(event, alert = &**alert, subject, value, threshold, "{}", text.en);
        }
    }
}
