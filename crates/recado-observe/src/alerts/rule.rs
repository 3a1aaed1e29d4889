//! The rules, as data. The requirements set the thresholds; windows, volumes and waits are Recado's own.

use std::time::Duration;

use recado_core::alert::Severity;
use recado_core::time::show_duration;

use crate::alerts::{Measure, Subject};
use crate::history::{DAY, HOUR, WINDOW_MAX};

const MINUTE: Duration = Duration::from_secs(60);

/// Address of the runbooks by default.
const RUNBOOKS: &str = "docs/operating/alerts.md";

#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    pub name: &'static str,
    pub measure: Measure,
    pub enabled: bool,
    /// The alert fires above this: a share from 0 to 1, a count, seconds, or a multiple.
    pub threshold: f64,
    /// Window of the measurement; zero for a current value.
    pub window: Duration,
    /// Volume in the window below which nothing is measured.
    pub min_volume: u64,
    /// Time above the threshold before the alert fires.
    pub pending: Duration,
    /// The alert begins to clear at or below this share of the threshold …
    pub resolve_share: f64,
    /// … and resolves after this long.
    pub clear: Duration,
    pub severity: Severity,
    /// Routes, companies, codes or providers that the rule ignores.
    pub except: Vec<Box<str>>,
}

impl Rule {
    fn new(name: &'static str, measure: Measure, threshold: f64, severity: Severity) -> Self {
        Rule {
            name,
            measure,
            enabled: true,
            threshold,
            window: Duration::ZERO,
            min_volume: 0,
            pending: Duration::ZERO,
            resolve_share: 0.9,
            clear: 5 * MINUTE,
            severity,
            except: Vec::new(),
        }
    }

    fn over(self, window: Duration, min_volume: u64) -> Self {
        Rule { window, min_volume, ..self }
    }

    fn after(self, pending: Duration) -> Self {
        Rule { pending, ..self }
    }

    pub(crate) fn excepts(&self, subject: &Subject) -> bool {
        subject.name().is_some_and(|name| self.except.iter().any(|except| **except == *name))
    }

    pub(crate) fn runbook(&self, base: &str) -> String {
        format!("{base}#{}", self.name)
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct AlertConfig {
    pub rules: Vec<Rule>,
    /// Address of the page with a section for each rule.
    pub runbooks: Box<str>,
}

impl Default for AlertConfig {
    fn default() -> Self {
        use Measure::*;
        use Severity::{Critical, Warning};
        let rules = vec![
            Rule::new("failure_rate", FailureRate, 0.1, Critical).over(10 * MINUTE, 20).after(2 * MINUTE),
            Rule::new("dlq_size", DeadLetters, 100.0, Warning),
            Rule::new("dlq_rate", DeadLetterRate, 0.02, Warning).over(HOUR, 50).after(2 * MINUTE),
            Rule::new("dlq_company", DeadLettersOfCompany, 50.0, Warning),
            Rule::new("processing_time", ProcessingTime, 300.0, Warning)
                .over(15 * MINUTE, 20)
                .after(2 * MINUTE),
            Rule::new("queue_age", QueueAge, 300.0, Critical).after(MINUTE),
            Rule::new("permanent_rate", PermanentRate, 0.1, Warning).over(HOUR, 20).after(5 * MINUTE),
            Rule::new("max_backoff_rate", AtCapRate, 0.05, Warning).over(HOUR, 20).after(5 * MINUTE),
            // With 500 waits an even jitter deviates by 11 %, give or take 3.
            Rule::new("jitter_deviation", JitterDeviation, 0.3, Warning).over(DAY, 500).after(5 * MINUTE),
            Rule::new("mean_backoff", MeanBackoff, 1_800.0, Warning).over(HOUR, 20).after(5 * MINUTE),
            Rule::new("store_80", StoreUse, 0.8, Warning).after(MINUTE),
            Rule::new("store_90", StoreUse, 0.9, Critical).after(MINUTE),
            Rule::new("rejected_writes", RejectedWrites, 0.0, Critical).over(5 * MINUTE, 0),
            Rule::new("dlq_overflow", ArchivedDeadLetters, 0.0, Warning).over(HOUR, 0),
            // They are a minute behind at most in a flood.
            Rule::new("audit_late", TrailLateness, 300.0, Warning).after(MINUTE),
            Rule { clear: MINUTE, ..Rule::new("breaker_open", BreakerOpen, 0.0, Warning) },
            Rule::new("failure_jump", FailureJump, 3.0, Warning).over(10 * MINUTE, 50).after(5 * MINUTE),
            Rule::new("code_jump", CodeJump, 3.0, Warning).over(10 * MINUTE, 50).after(5 * MINUTE),
        ];
        AlertConfig { rules, runbooks: RUNBOOKS.into() }
    }
}

impl AlertConfig {
    pub fn rule(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.name == name)
    }

    pub fn rule_mut(&mut self, name: &str) -> Option<&mut Rule> {
        self.rules.iter_mut().find(|rule| rule.name == name)
    }

    /// Returns every fault, each with what to write instead.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for rule in &self.rules {
            let mut fault = |words: String| faults.push(format!("alert {}: {words}", rule.name));
            if !(rule.threshold.is_finite() && rule.threshold >= 0.0) {
                fault(format!("threshold is {}; write 0 or more", rule.threshold));
            } else if rule.measure.is_share() && rule.threshold > 1.0 {
                fault(format!(
                    "threshold is {}, and this is a share; write 0 to 1, such as 0.1",
                    rule.threshold
                ));
            }
            if !(0.0..=1.0).contains(&rule.resolve_share) {
                fault(format!("resolve_share is {}; write 0 to 1", rule.resolve_share));
            }
            let looks_back = !rule.measure.is_state();
            if looks_back && !(WINDOW_MIN..=WINDOW_MAX).contains(&rule.window) {
                let (least, most) = (show_duration(WINDOW_MIN), show_duration(WINDOW_MAX));
                fault(format!("window is {}; write {least} to {most}", show_duration(rule.window)));
            }
            if !looks_back && !rule.window.is_zero() {
                fault("window has no meaning for a current value; leave it out".to_owned());
            }
        }
        faults
    }
}

/// Below this the slots of the history are too coarse.
const WINDOW_MIN: Duration = Duration::from_secs(20);
