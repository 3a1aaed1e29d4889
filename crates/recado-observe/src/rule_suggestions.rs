//! Learns from the audit trail which errors deserve a classification rule.
//!
//! ```text
//! records, oldest first ─▶ ErrorHistory ─▶ candidates ─▶ a rule each (candidate)
//! the same records again ─────────────────────────────▶ RuleTrials ─▶ effects
//! ```
//!
//! [`ErrorHistory`] counts, per route and fingerprint, the jobs that were tried again after an error: in vain, or until
//! they arrived. Where nearly all ended the same way, and today's class says otherwise, the error is a [`Candidate`].
//! [`RuleTrials`] then runs the compiled rule of each candidate over the same records, and counts what it would have
//! changed. A rule that does not match its own error, or matches much else, is not suggested.
//!
//! Absent on purpose: failures that Recado names itself (networks, timeouts), because no answer says anything about
//! those; claims, whose outcome Recado does not see; changing any rule.

mod candidate;
mod job_tracker;
mod skeleton;
mod trial;

use std::collections::HashMap;

use indexmap::IndexMap;
use indexmap::map::Entry;
use recado_core::classify::{NO_RULE, recall};
use recado_core::dead_letter::fingerprint;
use recado_core::{AuditEvent, AuditKind, Blame, Class, Classifier, Fault, JobId, Reason, RouteName, Rule};

pub use candidate::{Candidate, RuleText, route_tables};
use job_tracker::{JobTracker, job_key};
pub use skeleton::{Answer, Skeleton};
pub use trial::{Effect, RuleTrials};

/// Errors at most that are told apart. Further ones are not counted.
const ERRORS_MAX: usize = 10_000;

/// Jobs of an error that are kept as its examples: enough to find some of different recipients.
const EXAMPLES_MAX: usize = 8;

/// Jobs at least that were tried again after an error, before anything is learned of it.
pub const JOBS_MIN: u64 = 5;

/// Confidence at least of a candidate.
pub const CONFIDENCE_MIN: f64 = 0.5;

/// Companies at least whose jobs died of an error, before all jobs with its code are given up.
const COMPANIES_MIN: usize = 3;

/// Jobs at most, of a hundred, that may arrive after an error that is called permanent.
const ARRIVED_MAX_PERCENT: u64 = 5;

/// Counts of one error: the failures of a route that share a fingerprint.
#[derive(Clone, Debug)]
pub struct ErrorCounts {
    pub route: RouteName,
    pub fingerprint: Box<str>,
    pub code: Option<Box<str>>,
    /// The class and the rule of its latest failure.
    pub class: Class,
    pub rule: Box<str>,
    /// Attempts that failed with it.
    pub count: u64,
    /// Jobs that were tried again with the same data, and arrived.
    pub retried_to_success: u64,
    /// Jobs that were tried again with the same data, and died of the same error.
    pub retried_in_vain: u64,
    /// Those of them during whose tries the route delivered other jobs, so that the provider was not down.
    pub in_vain_amid_deliveries: u64,
    /// Companies of the jobs that were tried again in vain, [`COMPANIES_MIN`] at most.
    companies_in_vain: Vec<Box<str>>,
    /// Some of its jobs, of several companies where there are.
    pub examples: Vec<Example>,
}

/// A job that failed with an error, and the words of the failure.
#[derive(Clone, Debug)]
pub struct Example {
    pub job: JobId,
    pub company: Box<str>,
    pub reason: Reason,
}

impl ErrorCounts {
    /// Returns the operator's rule that decides it today. `None` where a built-in rule does, or none.
    pub fn own_rule_of<'c>(&self, today: &'c Classifier) -> Option<&'c Rule> {
        let example = self.examples.first()?;
        let fault = recall(self.code.as_deref(), example.reason.as_str())?;
        today.own.iter().find(|rule| rule.when.holds(&fault))
    }

    /// Returns the blame that the error gets today. The trail does not keep it, but the name of the rule that gave it.
    fn blame_by(&self, today: &Classifier) -> Blame {
        let built_in = || today.rules.iter().find(|rule| rule.name == *self.rule);
        self.own_rule_of(today).or_else(built_in).map_or(self.class.usual_blame(), |rule| rule.blame)
    }

    fn add_company(&mut self, company: Option<&str>) {
        let is_known = |company: &&str| self.companies_in_vain.iter().any(|known| **known == **company);
        if self.companies_in_vain.len() < COMPANIES_MIN
            && let Some(new) = company.filter(|company| !is_known(company))
        {
            self.companies_in_vain.push(new.into());
        }
    }

    /// Keeps a job as an example while there is room. A job of a further company takes the place of one whose company
    /// has another example.
    fn add_example(&mut self, example: Example) {
        let is_same = |known: &Example| known.job == example.job && known.company == example.company;
        if self.examples.iter().any(is_same) {
            return;
        }
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example);
            return;
        }
        if self.examples.iter().any(|known| known.company == example.company) {
            return;
        }
        let count = |company: &str| self.examples.iter().filter(|one| &*one.company == company).count();
        if let Some(at) = self.examples.iter().rposition(|known| count(&known.company) > 1) {
            self.examples[at] = example;
        }
    }
}

/// Counts errors and their ends, as records come in, oldest first.
#[derive(Debug, Default)]
pub struct ErrorHistory {
    errors: IndexMap<(RouteName, Box<str>), ErrorCounts>,
    /// Deliveries so far, by route.
    delivered: HashMap<Box<str>, u64>,
    jobs: JobTracker<ErrorLife>,
}

/// The errors of a job since it was accepted or last replayed, by their places in the history.
#[derive(Debug, Default)]
struct ErrorLife {
    retried: Vec<usize>,
    last: Option<usize>,
    /// The error that it had died of before it was replayed with the same data.
    replayed_after: Option<usize>,
    delivered_before: u64,
}

impl ErrorHistory {
    pub fn record(&mut self, event: &AuditEvent) {
        let delivered = self.delivered.get(&event.route).copied().unwrap_or_default();
        let begin = || ErrorLife { delivered_before: delivered, ..ErrorLife::default() };
        match event.kind {
            AuditKind::RetryScheduled => {
                let error = self.count(event);
                let life = job_key(event).and_then(|job| self.jobs.open_or_begin(job, begin));
                if let (Some(life), Some(error)) = (life, error) {
                    life.last = Some(error);
                    if !life.retried.contains(&error) {
                        life.retried.push(error);
                    }
                }
            }
            AuditKind::Buried => {
                let error = self.count(event);
                let Some(job) = job_key(event) else { return };
                let mut life = self.jobs.end(job).unwrap_or_else(begin);
                life.last = error.or(life.last);
                self.record_death(&life, event.company_id.as_deref(), delivered);
                self.jobs.keep_buried(job, life);
            }
            AuditKind::Delivered => {
                match self.delivered.get_mut(&event.route) {
                    Some(count) => *count += 1,
                    None => drop(self.delivered.insert(event.route.clone(), 1)),
                }
                let Some(life) = job_key(event).and_then(|job| self.jobs.end(job)) else { return };
                let before = life.replayed_after.filter(|error| !life.retried.contains(error));
                for error in life.retried.into_iter().chain(before) {
                    self.errors[error].retried_to_success += 1;
                }
            }
            AuditKind::Replayed => {
                let Some(job) = job_key(event) else { return };
                let buried = self.jobs.take_buried(job).and_then(|life| life.last);
                if event.data_changed == Some(false)
                    && let Some(life) = self.jobs.open_or_begin(job, begin)
                {
                    life.replayed_after = buried;
                }
            }
            AuditKind::Cancelled | AuditKind::Discarded => {
                job_key(event).map(|job| self.jobs.end(job));
            }
            _ => {}
        }
    }

    /// Counts a job that died for the error that it died of, if it had been tried again after the same one.
    fn record_death(&mut self, life: &ErrorLife, company: Option<&str>, delivered: u64) {
        let Some(at) = life.last else { return };
        if life.retried.contains(&at) || life.replayed_after == Some(at) {
            let error = &mut self.errors[at];
            error.retried_in_vain += 1;
            error.in_vain_amid_deliveries += u64::from(delivered > life.delivered_before);
            error.add_company(company);
        }
    }

    /// Counts a failure, and returns the place of its error.
    fn count(&mut self, event: &AuditEvent) -> Option<usize> {
        let failure = RecordedFailure::of(event)?;
        let is_full = self.errors.len() >= ERRORS_MAX;
        let entry = self.errors.entry((failure.route.clone(), failure.fingerprint.clone()));
        let at = entry.index();
        let error = match entry {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full => return None,
            Entry::Vacant(new) => new.insert(ErrorCounts {
                route: failure.route,
                fingerprint: failure.fingerprint,
                code: failure.fault.code,
                class: failure.class,
                rule: failure.rule.into(),
                count: 0,
                retried_to_success: 0,
                retried_in_vain: 0,
                in_vain_amid_deliveries: 0,
                companies_in_vain: Vec::new(),
                examples: Vec::new(),
            }),
        };
        error.count += 1;
        (error.class, error.rule) = (failure.class, failure.rule.into());
        let job = event.job_id.as_deref().and_then(|id| JobId::new(id).ok());
        if let Some((job, company)) = job.zip(event.company_id.clone()) {
            error.add_example(Example { job, company, reason: failure.reason });
        }
        Some(at)
    }

    /// Returns the errors whose jobs ended differently from what their class of today predicts, those with most evidence
    /// first. `today` is asked for the class that an error would get by the rules of today.
    pub fn candidates(&self, today: impl Fn(&ErrorCounts) -> Option<Class>) -> Vec<Candidate> {
        let judged = self.errors.values().filter_map(|error| Candidate::of(error, today(error)?));
        let mut found: Vec<Candidate> = judged.collect();
        found.sort_by_key(|candidate| std::cmp::Reverse(candidate.error.count));
        found
    }
}

/// A failure as its record tells of it.
struct RecordedFailure<'e> {
    route: RouteName,
    fingerprint: Box<str>,
    fault: Fault,
    reason: Reason,
    class: Class,
    rule: &'e str,
}

impl<'e> RecordedFailure<'e> {
    /// `None` where the record is of no provider's answer. One without a code may be an older version's of a network
    /// failure, unless no rule knew it: every rule set knows those.
    fn of(event: &'e AuditEvent) -> Option<Self> {
        let decision = &event.decision;
        let rule = decision.rule.as_deref()?;
        let code = decision.error_code.as_deref();
        if code.is_none() && rule != NO_RULE {
            return None;
        }
        let reason = Reason::new(decision.error_message.as_deref()?).ok()?;
        let route = RouteName::new(&*event.route).ok()?;
        Some(RecordedFailure {
            fingerprint: fingerprint(&route, code, &reason),
            fault: recall(code, reason.as_str())?,
            class: decision.error_classification?,
            route,
            reason,
            rule,
        })
    }
}
