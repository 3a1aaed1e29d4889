//! Runs the alerts: measures every few seconds, and tells of each that began or is over.
//!
//! The state is a note, so that a restart neither rings again nor forgets to say that it is over. Where several
//! nodes share the store, one of them rings for all: the note is its leader lease ([`crate::shared::leader`]). The others show
//! what the note says. A node that takes it over goes on from there at its next round.
//!
//! A change is told first and noted after: when the process dies in between it is told again, as the same event,
//! which the store knows already.
//!
//! Shares are of what the node that runs the alerts saw. For figures of all nodes together, ask Prometheus.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{CompanyId, Event, EventData, EventKind, Payload, Timestamp};
use recado_observe::alerts::{AlertChange, Change, Subject};
use recado_observe::{AlertConfig, Alerts, AlertsState, Firing, Rule, Severity};
use recado_store::{KvEntry, KvWrite, KvWritten, Namespace, StoreError};
use serde::{Deserialize, Serialize};

use crate::attempt::post_settle;
use crate::engine::{Engine, Inner};
use crate::shared::leader::LeaseWatch;

pub const NAMESPACE: Namespace = Namespace::new("alerts");
const KEY: &str = "rung";

/// Between two measurements, unless configured otherwise.
pub const EVERY_DEFAULT: Duration = Duration::from_secs(10);

/// Rounds that a node may miss before another rings in its place.
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

/// The alerts known to fire, here or by the note of the node that runs them.
#[derive(Debug)]
pub(crate) struct AlertRunner {
    terms: AlertTerms,
    alerts: Mutex<Alerts>,
}

impl AlertRunner {
    pub fn new(terms: AlertTerms) -> Self {
        let alerts = Mutex::new(Alerts::new(terms.config.clone()));
        AlertRunner { terms, alerts }
    }

    fn restore(&self, state: AlertsState) {
        *self.alerts.lock() = Alerts::restore(self.terms.config.clone(), state);
    }
}

/// The note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AlertLease {
    /// The node that rings.
    node: Box<str>,
    /// Read by earlier versions alone, which do not ring before this time.
    until: Timestamp,
    state: AlertsState,
}

/// The note as this process wrote it last, while no other node has.
#[derive(Debug)]
struct HeldLease {
    version: u64,
    rung: AlertLease,
}

pub(crate) async fn run(engine: Arc<Inner>) {
    let every = engine.ringing.terms.every;
    let (mut held, mut watch) = (None, LeaseWatch::default());
    loop {
        tokio::select! {
            () = engine.stopping.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        match round(&engine, &mut held, &mut watch).await {
            Ok(()) => {}
            Err(StoreError::Broken(error)) => return engine.store_broke(&error),
            Err(error) => tracing::warn!(%error, "cannot look after the alerts; trying again"),
        }
    }
}

/// One measurement, if it is this node's turn.
async fn round(
    engine: &Inner,
    held: &mut Option<HeldLease>,
    watch: &mut LeaseWatch,
) -> Result<(), StoreError> {
    let shared = engine.store.is_shared();
    if shared || held.is_none() {
        match take(engine, held.as_ref().map(|held| held.version), watch).await? {
            LeaseTaken::Mine(mine) => *held = Some(mine),
            LeaseTaken::JustNow(mine) => {
                *held = Some(mine);
                return Ok(());
            }
            LeaseTaken::Theirs => {
                *held = None;
                return Ok(());
            }
        }
    }
    let gauges = engine.gauges(engine.ringing.terms.every / 2).await;
    let now = engine.clock.now();
    let changes = engine.ringing.alerts.lock().evaluate(&engine.ledger, &gauges, now);
    for change in &changes {
        tell(engine, change, now).await;
    }
    let state = engine.ringing.alerts.lock().state();
    keep(engine, held, state, shared, now).await
}

enum LeaseTaken {
    /// It was, and is.
    Mine(HeldLease),
    /// This node runs the alerts from its next round on: until then the node before it may still be at it.
    JustNow(HeldLease),
    Theirs,
}

async fn take(
    engine: &Inner,
    version: Option<u64>,
    watch: &mut LeaseWatch,
) -> Result<LeaseTaken, StoreError> {
    let now = engine.clock.now();
    let note = engine.store.kv_get(NAMESPACE, KEY, now).await?;
    let found: Option<AlertLease> = note.as_ref().and_then(|note| note.value.parse().ok());
    let at = note.as_ref().map_or(0, |note: &KvEntry| note.version);
    if let Some(rung) = &found
        && version == Some(at)
    {
        return Ok(LeaseTaken::Mine(HeldLease { version: at, rung: rung.clone() }));
    }
    let state = found.as_ref().map(|rung| rung.state.clone()).unwrap_or_default();
    engine.ringing.restore(state.clone());
    let holder = found.as_ref().map(|rung| &*rung.node);
    if !watch.may_take(engine, holder, at, lease(engine)) {
        return Ok(LeaseTaken::Theirs);
    }
    let rung = AlertLease { node: engine.settings.node.clone(), until: now.plus(lease(engine)), state };
    if !engine.store.is_shared() {
        // No other node competes, so nothing is written before there is something to note.
        return Ok(LeaseTaken::Mine(HeldLease { version: at, rung }));
    }
    let written = write_note(engine, &rung, at, now).await?;
    Ok(written.map_or(LeaseTaken::Theirs, |version| LeaseTaken::JustNow(HeldLease { version, rung })))
}

/// Time that the node that runs alerts may be silent.
fn lease(engine: &Inner) -> Duration {
    engine.ringing.terms.every * MISSED_MAX
}

/// Keeps the state, and the right to ring.
async fn keep(
    engine: &Inner,
    held: &mut Option<HeldLease>,
    state: AlertsState,
    shared: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    let Some(HeldLease { version, rung }) = held else { return Ok(()) };
    if rung.state == state && !shared {
        return Ok(());
    }
    let rung = AlertLease { until: now.plus(lease(engine)), state, node: rung.node.clone() };
    let written = write_note(engine, &rung, *version, now).await?;
    *held = written.map(|version| HeldLease { version, rung });
    Ok(())
}

/// Writes the note and returns its new version; `None` when another node was faster.
async fn write_note(
    engine: &Inner,
    rung: &AlertLease,
    expect: u64,
    now: Timestamp,
) -> Result<Option<u64>, StoreError> {
    let value = serde_json::to_string(rung)
        .map_err(|error| StoreError::Unavailable(format!("cannot write a note: {error}")))?;
    let write = KvWrite {
        namespace: NAMESPACE,
        key: KEY.into(),
        value: Some(Payload::trusted(value)),
        expect: Some(expect),
        expires_at: None,
        audit: Vec::new(),
    };
    let noted = engine.store.kv_write(vec![write], now).await?;
    Ok(noted.first().and_then(|noted| match noted {
        KvWritten::Done { version } => Some(*version),
        KvWritten::Conflict { .. } => None,
    }))
}

/// To the log, to the stream, to the channel for alerts, and what is about a company to its endpoints.
async fn tell(engine: &Inner, change: &AlertChange, now: Timestamp) {
    let event = event(change);
    log(change);
    post_settle::notify_channels(engine, &engine.settings.notices.alerts, &event, now).await;
    engine.events.tell(event);
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
    let data = EventData {
        alert: Some(alert.alert.clone()),
        severity: Some(alert.severity.as_str().into()),
        route: named(matches!(alert.subject, Subject::Route(_))),
        provider: named(matches!(alert.subject, Subject::Provider(_))),
        error_code: named(matches!(alert.subject, Subject::ErrorCode(_))),
        since: Some(alert.since),
        reason: Some(alert.text.en.clone()),
        reason_pt: Some(alert.text.pt.clone()),
        runbook: Some(alert.runbook.clone()),
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

impl Engine {
    /// Firing alerts, by name and subject.
    pub fn firing(&self) -> Vec<Firing> {
        self.inner.ringing.alerts.lock().firing().into_iter().cloned().collect()
    }

    pub fn alert_rules(&self) -> &[Rule] {
        &self.inner.ringing.terms.config.rules
    }
}
