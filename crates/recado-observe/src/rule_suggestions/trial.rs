//! Suggested rules, run over the records again with the classifier that would have them.

use recado_core::{AuditEvent, AuditKind, Class, Classifier, Rule};

use super::candidate::TRIAL_NAME;
use super::job_tracker::{JobTracker, job_key};
use super::{Candidate, RecordedFailure, RuleText};

/// Failures of its own error, of a hundred, that a rule must match.
const OWN_MIN_PERCENT: u64 = 90;

/// Failures of other errors at most, for a hundred of its own, that a rule may match.
const FOREIGN_MAX_PERCENT: u64 = 10;

/// Jobs at most, of a hundred that a rule would have given up, that arrived.
const LOST_MAX_PERCENT: u64 = 5;

/// The changes that a rule would have made, had it been there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Attempts that would not have been made, or jobs that would have been retried.
    pub changed: u64,
    /// Jobs that arrived and would have gone to the dead letter queue.
    pub lost: u64,
    /// Failures that the rule decides: of its own error, and of others.
    own: u64,
    foreign: u64,
    /// Jobs that would have gone to the dead letter queue sooner.
    given_up: u64,
}

/// One rule on trial.
#[derive(Debug)]
struct Trial {
    candidate: Candidate,
    text: RuleText,
    rule: Rule,
    classifier: Classifier,
    effect: Effect,
}

impl Trial {
    /// Returns true if the rule decides this failure.
    fn decides(&self, failure: &RecordedFailure<'_>) -> bool {
        failure.route == self.text.route
            && self.rule.when.holds(&failure.fault)
            && *self.classifier.classify(failure.fault.clone()).rule == *TRIAL_NAME
    }

    fn is_sound(&self) -> bool {
        let Effect { lost, own, foreign, given_up, .. } = self.effect;
        own * 100 >= self.candidate.error.count * OWN_MIN_PERCENT
            && foreign * 100 <= own * FOREIGN_MAX_PERCENT
            && lost * 100 <= given_up * LOST_MAX_PERCENT
    }
}

/// The rules on trial, which read the same records as the history that they come from, oldest first.
#[derive(Debug, Default)]
pub struct RuleTrials {
    trials: Vec<Trial>,
    /// The rules that would have given a job up, of those jobs.
    given_up: JobTracker<Vec<usize>>,
}

impl RuleTrials {
    /// Puts a rule on trial, before the rules that its route has.
    pub fn add(&mut self, candidate: Candidate, text: RuleText, today: &Classifier) {
        let rule = text.compile();
        let own = [rule.clone()].into_iter().chain(today.own.iter().cloned()).collect();
        let classifier = today.clone().preceded_by(own);
        self.trials.push(Trial { candidate, text, rule, classifier, effect: Effect::default() });
    }

    pub fn record(&mut self, event: &AuditEvent) {
        let is_end = match event.kind {
            AuditKind::RetryScheduled | AuditKind::LeaseLost => false,
            AuditKind::Buried
            | AuditKind::Delivered
            | AuditKind::Replayed
            | AuditKind::Cancelled
            | AuditKind::Discarded => true,
            _ => return,
        };
        let Some(job) = job_key(event) else { return };
        if let Some(given_up_by) = self.given_up.end(job) {
            for &at in &given_up_by {
                let effect = &mut self.trials[at].effect;
                effect.changed += u64::from(event.decision.attempt.is_some());
                effect.lost += u64::from(event.kind == AuditKind::Delivered);
            }
            if !is_end && let Some(life) = self.given_up.open_or_begin(job, Vec::new) {
                *life = given_up_by;
            }
        }
        let Some(failure) = RecordedFailure::of(event) else { return };
        for (at, trial) in self.trials.iter_mut().enumerate() {
            if !trial.decides(&failure) {
                continue;
            }
            let effect = &mut trial.effect;
            match failure.fingerprint == trial.candidate.error.fingerprint {
                true => effect.own += 1,
                false => effect.foreign += 1,
            }
            match (trial.text.class, event.kind) {
                (Class::Permanent, AuditKind::RetryScheduled) => {
                    let life = self.given_up.open_or_begin(job, Vec::new);
                    if let Some(life) = life.filter(|life| !life.contains(&at)) {
                        life.push(at);
                        effect.given_up += 1;
                    }
                }
                (Class::Transient, AuditKind::Buried) if failure.class == Class::Permanent => {
                    effect.changed += 1;
                }
                _ => {}
            }
        }
    }

    /// Returns the rules that passed, those that change most first.
    pub fn sound(self) -> Vec<(Candidate, RuleText, Effect)> {
        let sound = self.trials.into_iter().filter(Trial::is_sound);
        let mut found: Vec<_> = sound.map(|trial| (trial.candidate, trial.text, trial.effect)).collect();
        found
            .sort_by_key(|(candidate, _, effect)| std::cmp::Reverse((effect.changed, candidate.error.count)));
        found
    }
}
