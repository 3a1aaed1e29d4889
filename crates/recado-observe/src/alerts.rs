//! The states of an alert.
//!
//! ```text
//!            above the threshold            for long enough
//!   quiet ───────────────────────▶ pending ─────────────────▶ firing
//!     ▲  ▲                            │                         │
//!     │  └──── below it again ────────┘                         │
//!     └──────── well below it, or nothing to measure, for long enough
//! ```
//!
//! A share is only believed when enough was measured, so that one failure at night wakes no person. A firing
//! alert stays firing until the figure is well below its threshold for a while; when there is nothing left to
//! measure, for as long as its whole window, so that a restart, which forgets the window, ends nothing by
//! itself. Each change is reported once. The caller stores the state, and restores it after a restart.

mod measure;
pub(crate) mod reading;
mod rule;
mod text;

use std::collections::BTreeMap;

use recado_core::{CompanyId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::gauges::Gauges;
use crate::ledger::Ledger;

pub use measure::Measure;
pub use recado_core::alert::{Severity, Unit};
pub use rule::{AlertConfig, Rule};
pub use text::AlertText;

/// The subject of an alert.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Subject {
    All,
    Route(Box<str>),
    Company(CompanyId),
    ErrorCode(Box<str>),
    Provider(Box<str>),
}

impl Subject {
    /// The name of its subject, unless it is about the whole server.
    pub fn name(&self) -> Option<&str> {
        match self {
            Subject::All => None,
            Subject::Route(name) | Subject::ErrorCode(name) | Subject::Provider(name) => Some(name),
            Subject::Company(company) => Some(company.as_str()),
        }
    }
}

/// A firing alert.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Firing {
    /// The rule's name.
    pub alert: Box<str>,
    pub subject: Subject,
    pub severity: Severity,
    /// The figure when it was last above the threshold: a share from 0 to 1, a count, or seconds.
    pub value: f64,
    pub threshold: f64,
    /// Since when the figure has been above its threshold.
    pub since: Timestamp,
    pub text: AlertText,
    pub runbook: Box<str>,
    /// Present while the figure is well below its threshold, or there is nothing to measure, and the alert waits to
    /// see that this lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm: Option<Clearing>,
}

/// The wait for the end of an alert.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Clearing {
    pub since: Timestamp,
    /// The alert is over then, if it stays so.
    pub clears_at: Timestamp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    Fired,
    Resolved,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertChange {
    pub change: Change,
    pub at: Timestamp,
    pub alert: Firing,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Pending {
        since: Timestamp,
    },
    Firing {
        alert: Firing,
        /// Since when it would be over, if it stays so.
        #[serde(skip_serializing_if = "Option::is_none")]
        calm_since: Option<Timestamp>,
    },
}

/// The state that outlives the process, so that a restart neither fires an alert again nor forgets to resolve one.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertsState {
    known: Vec<(Box<str>, Subject, State)>,
}

#[derive(Debug)]
pub struct Alerts {
    config: AlertConfig,
    states: BTreeMap<(Box<str>, Subject), State>,
}

impl Alerts {
    pub fn new(config: AlertConfig) -> Self {
        Alerts::restore(config, AlertsState::default())
    }

    pub fn restore(config: AlertConfig, state: AlertsState) -> Self {
        let states =
            state.known.into_iter().map(|(alert, subject, state)| ((alert, subject), state)).collect();
        Alerts { config, states }
    }

    pub fn state(&self) -> AlertsState {
        let known = self.states.iter();
        AlertsState {
            known: known
                .map(|((alert, subject), state)| (alert.clone(), subject.clone(), state.clone()))
                .collect(),
        }
    }

    pub fn config(&self) -> &AlertConfig {
        &self.config
    }

    /// Firing alerts, by name and subject.
    pub fn firing(&self) -> Vec<&Firing> {
        let each = self.states.values().filter_map(|state| match state {
            State::Firing { alert, .. } => Some(alert),
            State::Pending { .. } => None,
        });
        each.collect()
    }

    /// Evaluates every rule at `now`, and returns the changes since the last call. Call it every few seconds.
    pub fn evaluate(&mut self, ledger: &Ledger, gauges: &Gauges, now: Timestamp) -> Vec<AlertChange> {
        let mut changes = Vec::new();
        let mut before = std::mem::take(&mut self.states);
        let aggregate = ledger.flush();
        for rule in self.config.rules.iter().filter(|rule| rule.enabled) {
            let of_rule: Vec<_> = before.keys().filter(|(name, _)| **name == *rule.name).cloned().collect();
            let Some(readings) = reading::read_subjects(rule, &aggregate, ledger.routes(), gauges, now)
            else {
                // It cannot be measured now: all stays as it is.
                self.states.extend(of_rule.into_iter().filter_map(|key| before.remove_entry(&key)));
                continue;
            };
            let mut readings: BTreeMap<Subject, Option<f64>> =
                readings.into_iter().filter(|(subject, _)| !rule.excepts(subject)).collect();
            for (_, subject) in of_rule.into_iter().filter(|(_, subject)| !rule.excepts(subject)) {
                // A subject without a reading has calmed down.
                readings.entry(subject).or_insert(Some(0.0));
            }
            for (subject, value) in readings {
                let key = (rule.name.into(), subject);
                let state = before.remove(&key);
                let (state, change) = advance_state(rule, &self.config.runbooks, &key.1, state, value, now);
                self.states.extend(state.map(|state| (key, state)));
                changes.extend(change);
            }
        }
        // What is left belongs to rules that were switched off or no longer exist.
        for state in before.into_values() {
            if let State::Firing { alert, .. } = state {
                changes.push(resolve_alert(alert, now));
            }
        }
        changes
    }
}

fn advance_state(
    rule: &Rule,
    runbooks: &str,
    subject: &Subject,
    state: Option<State>,
    value: Option<f64>,
    now: Timestamp,
) -> (Option<State>, Option<AlertChange>) {
    let firing = |value, since| Firing {
        alert: rule.name.into(),
        subject: subject.clone(),
        severity: rule.severity,
        value,
        threshold: rule.threshold,
        since,
        text: AlertText::new(rule, subject, value),
        runbook: rule.runbook(runbooks).into(),
        calm: None,
    };
    match state {
        Some(State::Firing { alert, calm_since }) => {
            let measured = firing(value.unwrap_or(alert.value), alert.since);
            if value.is_some_and(|value| value > rule.threshold * rule.resolve_share) {
                return (Some(State::Firing { alert: measured, calm_since: None }), None);
            }
            // A clock that was set back must not hold it up.
            let since = calm_since.unwrap_or(now).min(now);
            let needed = if value.is_some() { rule.clear } else { rule.clear.max(rule.window) };
            if now.since(since) >= needed {
                return (None, Some(resolve_alert(measured, now)));
            }
            let calm = Some(Clearing { since, clears_at: since.plus(needed) });
            // A current value is shown as it is. A count over a window, which a restart forgets, stays what it fired for.
            let shown = if rule.measure.is_state() { measured } else { firing(alert.value, alert.since) };
            let alert = Firing { calm, ..shown };
            (Some(State::Firing { alert, calm_since: Some(since) }), None)
        }
        earlier => {
            let Some(value) = value.filter(|value| *value > rule.threshold) else { return (None, None) };
            let since = match earlier {
                Some(State::Pending { since }) => since.min(now),
                _ => now,
            };
            if now.since(since) < rule.pending {
                return (Some(State::Pending { since }), None);
            }
            let alert = firing(value, since);
            let change = AlertChange { change: Change::Fired, at: now, alert: alert.clone() };
            (Some(State::Firing { alert, calm_since: None }), Some(change))
        }
    }
}

fn resolve_alert(mut alert: Firing, now: Timestamp) -> AlertChange {
    alert.text = alert.text.resolved();
    AlertChange { change: Change::Resolved, at: now, alert }
}
