//! Suggested classification rules, learned from the trail.
//!
//! The trail is read twice, record by record, so memory does not grow with it: once to count
//! ([`ErrorHistory`]), once to try the rules ([`RuleTrials`]). Nothing is changed. One caller at a time reads
//! it. When that caller hangs up, the read stops at its next record; only then may another begin.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use recado_audit::{Order, Query};
use recado_core::{AuditEvent, Class, Fault, Job, RouteName, Timestamp};
use recado_observe::rule_suggestions::{
    Answer, Candidate, Effect, ErrorCounts, ErrorHistory, RuleText, RuleTrials, Skeleton,
};
use recado_store::AuditSpan;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::search::Walk;
use super::{AuditTrail, off_thread};
use crate::error::TrailError;

/// Records at most that one pass reads: some ten seconds.
const RECORDS_MAX: u64 = 500_000;

/// Records that are read of the store at a time.
const FRESH_RECORDS: usize = 1_000;

/// Rules at most that are tried, and so suggested.
const RULES_MAX: usize = 50;

/// A rule that the history supports.
#[derive(Clone, Debug)]
pub struct Suggestion {
    pub candidate: Candidate,
    pub rule: RuleText,
    pub effect: Effect,
    /// The words that its failures share, with `…` for all else; absent unless jobs of at least three recipients or
    /// companies are still kept.
    pub example: Option<String>,
}

/// Suggestions, and the stretch of the trail that they come from.
#[derive(Clone, Debug)]
pub struct Suggestions {
    pub found: Vec<Suggestion>,
    pub records: u64,
    /// The time of the last record that was read, where there were more than one answer may take.
    pub read_until: Option<Timestamp>,
}

/// The lock on reading the trail for suggestions, and a token that is cancelled when the caller hangs up.
#[derive(Clone, Debug)]
struct SuggestionRun {
    _one_at_a_time: Arc<OwnedMutexGuard<()>>,
    gone: CancellationToken,
}

/// One pass over the trail.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    records: u64,
    stopped_at: Option<Timestamp>,
}

impl Pass {
    /// Counts a record; breaks at the last that may be read.
    fn step(&mut self, event: &AuditEvent) -> ControlFlow<()> {
        self.records += 1;
        if self.records < RECORDS_MAX {
            return ControlFlow::Continue(());
        }
        self.stopped_at = Some(event.timestamp);
        ControlFlow::Break(())
    }
}

impl AuditTrail {
    /// Learns which errors since a time deserve a rule, on one route or on all.
    pub async fn suggest_rules(
        &self,
        route: Option<&RouteName>,
        since: Timestamp,
    ) -> Result<Suggestions, TrailError> {
        let one_at_a_time = self.suggesting.clone().try_lock_owned().map_err(|_| TrailError::Busy)?;
        let run = SuggestionRun { _one_at_a_time: Arc::new(one_at_a_time), gone: CancellationToken::new() };
        let _gone_with_caller = run.gone.clone().drop_guard();
        // Records of the second pass that the first did not see would count for the rules and not for the errors.
        let until = Some(self.env.now());
        let query = Query { since: Some(since), until, order: Order::OldestFirst, ..Query::default() };
        let (history, pass) =
            self.fold(&run, &query, route, ErrorHistory::default(), ErrorHistory::record).await?;
        let (mut trials, mut examples) = (RuleTrials::default(), HashMap::new());
        for candidate in history.candidates(|error| self.class_today(error)).into_iter().take(RULES_MAX) {
            let Some(today) = self.env.routes.get(candidate.error.route.as_str()) else { continue };
            let skeleton = self.skeleton(&candidate.error).await?;
            if let Some(rule) = candidate.rule(&skeleton, &today.classifier) {
                examples.insert(candidate.error.fingerprint.clone(), skeleton.example);
                trials.add(candidate, rule, &today.classifier);
            }
        }
        let (trials, _) = self.fold(&run, &query, route, trials, RuleTrials::record).await?;
        let mut found = Vec::new();
        for (candidate, rule, effect) in trials.sound() {
            let example = examples.remove(&candidate.error.fingerprint).flatten();
            found.push(Suggestion { candidate, rule, effect, example });
        }
        Ok(Suggestions { found, records: pass.records, read_until: pass.stopped_at })
    }

    /// The class that an error gets today: its latest, unless a rule was written since. `None` when its route is gone.
    fn class_today(&self, error: &ErrorCounts) -> Option<Class> {
        let classifier = &self.env.routes.get(error.route.as_str())?.classifier;
        Some(error.own_rule_of(classifier).map_or(error.class, |rule| rule.class))
    }

    /// Makes the skeleton of an error, which holds nothing personal. Only its jobs tell what is personal, so jobs that are
    /// forgotten show nothing.
    async fn skeleton(&self, error: &ErrorCounts) -> Result<Skeleton, TrailError> {
        let mut kept = Vec::new();
        for example in &error.examples {
            let fault = recado_core::classify::recall(error.code.as_deref(), example.reason.as_str());
            let view = self.store.job(&example.job, self.env.now()).await?;
            let job = view.map(|view| view.job).filter(|job| job.company.as_str() == &*example.company);
            kept.extend(job.zip(fault));
        }
        let answers: Vec<_> = kept
            .iter()
            .map(|(job, fault): &(Job, Fault)| Answer {
                company: job.company.as_str(),
                user_id: job.user_id.as_deref(),
                correlation_id: job.correlation_id.as_deref(),
                data: &job.data,
                speaker: self.env.routes.speaker(job),
                text: &fault.text,
            })
            .collect();
        Ok(Skeleton::of(error.code.as_deref(), &answers))
    }

    /// Hands the records that match to `take`, those of a job in their order: first from the files, then what only the
    /// store has.
    async fn fold<T: Send + 'static>(
        &self,
        run: &SuggestionRun,
        query: &Query,
        route: Option<&RouteName>,
        mut state: T,
        take: fn(&mut T, &AuditEvent),
    ) -> Result<(T, Pass), TrailError> {
        let terms = self.archive.terms.as_ref().ok_or(TrailError::None)?;
        let walk = Walk::begin(self, terms, query.clone()).await?;
        let (dir, files_query, split) = (terms.dir.clone(), query.clone(), walk.end);
        let only: Option<Box<str>> = route.map(|route| route.as_str().into());
        let is_asked_for = move |event: &AuditEvent| only.as_deref().is_none_or(|only| *event.route == *only);
        let (of_files, run) = (is_asked_for.clone(), run.clone());
        let (state, mut pass) = off_thread(move || {
            let mut pass = Pass::default();
            if dir.is_dir() {
                recado_audit::walk(&dir, &files_query, |record| {
                    if record.sequence > split || run.gone.is_cancelled() {
                        return ControlFlow::Break(());
                    }
                    let event = record.event();
                    if of_files(&event) {
                        take(&mut state, &event);
                    }
                    pass.step(&event)
                })?;
            }
            Ok::<_, TrailError>((state, pass))
        })
        .await??;
        let mut state = state;
        for part in 0..self.store.audit_parts() {
            let after = walk.archived.get(&part).copied().unwrap_or(0);
            let mut span = AuditSpan { part, after, newest_first: false };
            while pass.stopped_at.is_none() {
                let records = self.store.audit_records(span, FRESH_RECORDS).await?;
                let Some(last) = records.last() else { break };
                span.after = last.number;
                for record in records.iter().filter(|record| query.matches_event(&record.event)) {
                    if is_asked_for(&record.event) {
                        take(&mut state, &record.event);
                    }
                    if pass.step(&record.event).is_break() {
                        break;
                    }
                }
            }
        }
        Ok((state, pass))
    }
}
