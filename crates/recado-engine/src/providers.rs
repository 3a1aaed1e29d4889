//! What stands between a lane and a provider: breaker, rate, slots, pause, quiet times.
//!
//! A claimer asks before it claims, so a job that may not go out is not even leased: it waits in its lane,
//! spends no attempt and holds up no other provider. What a delivery tells about the provider comes back
//! here, by blame: only the provider's own failures move its breaker, a refused credential or a limit of one
//! company holds back that company alone.
//!
//! The breaker's state is a note in the store, written when it swings: a restart neither closes nor opens it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::breaker::{Admission, Breaker, BreakerState, BreakerTerms, Swing};
use recado_core::limit::{Limit, Rate};
use recado_core::{Blame, Class, CompanyId, Failure, Timestamp, Verdict};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// How a provider is protected, and others from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProviderTerms {
    pub breaker: Option<BreakerTerms>,
    pub rate: Option<Rate>,
    /// For each company on its own.
    pub company_rate: Option<Rate>,
    /// Deliveries at the same time, over all routes that use it.
    pub concurrency: usize,
    /// Of those, at most this many for one company.
    pub company_concurrency: Option<usize>,
    /// Concurrency follows the provider's answers, within the bound above.
    pub adaptive: bool,
}

impl ProviderTerms {
    pub const fn plain(concurrency: usize) -> Self {
        ProviderTerms {
            breaker: None,
            rate: None,
            company_rate: None,
            concurrency,
            company_concurrency: None,
            adaptive: false,
        }
    }
}

/// Somebody stopped it by hand.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    pub since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Box<str>>,
}

/// Why a lane may not claim right now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    Breaker {
        state: BreakerState,
        reason: Option<Box<str>>,
    },
    Rate,
    /// The provider asked for quiet.
    Quiet,
    Paused(Option<Box<str>>),
    /// As many as may be are on their way.
    Busy,
}

/// What a claimer may do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Grant {
    /// Claim up to this many.
    Some(usize),
    /// Claim one; its outcome decides about the breaker.
    Probe,
    /// Nothing before then, or before something changes.
    None { why: Held, until: Option<Timestamp> },
}

/// One provider at run time.
#[derive(Debug)]
pub struct Provider {
    pub name: Box<str>,
    pub terms: ProviderTerms,
    state: Mutex<State>,
    /// Rung when something changed that a held claimer waits for.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    breaker: Breaker,
    limit: Limit,
    companies: HashMap<CompanyId, Company>,
    paused: Option<Pause>,
    running: usize,
    /// What `adaptive` allows at the moment.
    pace: f64,
    retries: RetryBudget,
}

#[derive(Debug, Default)]
struct Company {
    limit: Limit,
    running: usize,
}

/// Keeps retries from drowning first tries while a provider is in trouble: each first try earns a share of
/// a retry, and a trickle is always allowed.
#[derive(Debug)]
struct RetryBudget {
    credit: f64,
    at: Option<Timestamp>,
}

const RETRIES_PER_FIRST_TRY: f64 = 0.2;
const RETRIES_PER_SECOND: f64 = 10.0;
const RETRY_CREDIT_MAX: f64 = 100.0;

impl Default for RetryBudget {
    fn default() -> Self {
        RetryBudget { credit: RETRY_CREDIT_MAX, at: None }
    }
}

impl RetryBudget {
    fn first_try(&mut self) {
        self.credit = (self.credit + RETRIES_PER_FIRST_TRY).min(RETRY_CREDIT_MAX);
    }

    fn retry(&mut self, now: Timestamp) -> bool {
        let passed = self.at.map_or(0.0, |at| now.since(at).as_secs_f64());
        self.at = Some(now);
        self.credit = (self.credit + passed * RETRIES_PER_SECOND).min(RETRY_CREDIT_MAX);
        let allowed = self.credit >= 1.0;
        if allowed {
            self.credit -= 1.0;
        }
        allowed
    }
}

/// While the ramp holds a lane back it looks again after this.
const RAMP_LOOK: Duration = Duration::from_millis(250);

/// Companies whose limits are kept; those with nothing running and nothing to wait for go first.
const COMPANIES_KEPT_MAX: usize = 10_000;

impl Grant {
    pub fn count(&self) -> usize {
        match self {
            Grant::Some(count) => *count,
            Grant::Probe => 1,
            Grant::None { .. } => 0,
        }
    }
}

impl Provider {
    pub fn new(name: &str, terms: ProviderTerms) -> Self {
        Provider {
            name: name.into(),
            terms,
            state: Mutex::new(State { pace: pace_start(terms.concurrency), ..State::default() }),
            changed: Notify::new(),
        }
    }

    /// Whether up to `wanted` deliveries may start now. What is granted is reserved: it must be started, or
    /// given back by [`Provider::unused`].
    pub(crate) fn admit(&self, wanted: usize, now: Timestamp) -> (Grant, Option<Swing>) {
        self.ask(wanted, true, now)
    }

    /// The same for deliveries that happen outside this process, whose number at the same time is not our
    /// business.
    pub(crate) fn admit_elsewhere(&self, wanted: usize, now: Timestamp) -> (Grant, Option<Swing>) {
        self.ask(wanted, false, now)
    }

    fn ask(&self, wanted: usize, counted: bool, now: Timestamp) -> (Grant, Option<Swing>) {
        let mut state = self.state.lock();
        if let Some(pause) = &state.paused {
            return (Grant::None { why: Held::Paused(pause.reason.clone()), until: None }, None);
        }
        if let Some(until) = state.limit.quiet_at(now) {
            return (Grant::None { why: Held::Quiet, until: Some(until) }, None);
        }
        let mut wanted = wanted;
        if let Some(rate) = self.terms.rate {
            wanted = state.limit.free(rate, u32::try_from(wanted).unwrap_or(u32::MAX), now) as usize;
            if wanted == 0 {
                return (Grant::None { why: Held::Rate, until: state.limit.free_at(rate, now) }, None);
            }
        }
        let (strength, swing) = match &self.terms.breaker {
            None => (1.0, None),
            Some(terms) => match state.breaker.admit(terms, now) {
                (Admission::Open(strength), swing) => (strength, swing),
                (Admission::Probe, swing) => {
                    self.reserve(&mut state, 1, counted, now);
                    return (Grant::Probe, swing);
                }
                (Admission::Refused { until }, swing) => {
                    let Breaker { state, reason, .. } = &state.breaker;
                    let why = Held::Breaker { state: *state, reason: reason.clone() };
                    return (Grant::None { why, until }, swing);
                }
            },
        };
        let room = match counted {
            true => self.bound(&state, strength).saturating_sub(state.running).min(wanted),
            false => wanted,
        };
        if room == 0 {
            // The ramp grows by itself; deliveries that end ring as well.
            let until = (strength < 1.0).then(|| now.plus(RAMP_LOOK));
            return (Grant::None { why: Held::Busy, until }, swing);
        }
        self.reserve(&mut state, room, counted, now);
        (Grant::Some(room), swing)
    }

    fn reserve(&self, state: &mut State, count: usize, counted: bool, now: Timestamp) {
        if counted {
            state.running += count;
        }
        if let Some(rate) = self.terms.rate {
            state.limit.take(rate, u32::try_from(count).unwrap_or(u32::MAX), now);
        }
    }

    /// Gives back what was granted and not used.
    pub(crate) fn unused(&self, grant: &Grant, count: usize, now: Timestamp) {
        self.give_back(grant, count, true, now);
    }

    pub(crate) fn unused_elsewhere(&self, grant: &Grant, count: usize, now: Timestamp) {
        self.give_back(grant, count, false, now);
    }

    fn give_back(&self, grant: &Grant, count: usize, counted: bool, now: Timestamp) {
        if count == 0 {
            return;
        }
        let mut state = self.state.lock();
        if counted {
            state.running = state.running.saturating_sub(count);
        }
        if self.terms.rate.is_some() {
            state.limit.give_back(u32::try_from(count).unwrap_or(u32::MAX));
        }
        if *grant == Grant::Probe {
            state.breaker.inconclusive(now);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn bound(&self, state: &State, strength: f64) -> usize {
        let full = self.terms.concurrency as f64;
        let pace = if self.terms.adaptive { state.pace.min(full) } else { full };
        ((pace * strength).ceil() as usize).max(1)
    }

    /// How many jobs of each company may be claimed now, for those that are bounded (0 holds one back), and
    /// when the first of those is free again, as far as time alone frees it.
    pub(crate) fn quotas(&self, now: Timestamp) -> (HashMap<CompanyId, u32>, Option<Timestamp>) {
        let state = self.state.lock();
        let mut free_at: Option<Timestamp> = None;
        let mut quotas = HashMap::new();
        for (name, company) in &state.companies {
            let mut quota = u32::MAX;
            if let Some(until) = company.limit.quiet_at(now) {
                quota = 0;
                free_at = [free_at, Some(until)].into_iter().flatten().min();
            }
            if let Some(rate) = self.terms.company_rate {
                quota = quota.min(company.limit.free(rate, u32::MAX, now));
                free_at = [free_at, company.limit.free_at(rate, now)].into_iter().flatten().min();
            }
            if let Some(max) = self.terms.company_concurrency {
                quota = quota.min(u32::try_from(max.saturating_sub(company.running)).unwrap_or(u32::MAX));
                // Freed by a delivery that ends; looked at again soon in case its news is missed.
                free_at = [free_at, (quota == 0).then(|| now.plus(RAMP_LOOK))].into_iter().flatten().min();
            }
            if quota < u32::MAX {
                quotas.insert(name.clone(), quota);
            }
        }
        (quotas, free_at)
    }
}

fn pace_start(concurrency: usize) -> f64 {
    (concurrency as f64 / 4.0).max(1.0)
}

impl Provider {
    /// A delivery that was granted starts.
    pub(crate) fn started(&self, company: &CompanyId, first_try: bool, now: Timestamp) {
        let mut state = self.state.lock();
        if first_try {
            state.retries.first_try();
        }
        // Only bounds that exist are worth remembering companies for.
        if self.terms.company_rate.is_none() && self.terms.company_concurrency.is_none() {
            return;
        }
        let known = state.companies.entry(company.clone()).or_default();
        known.running += 1;
        if let Some(rate) = self.terms.company_rate {
            known.limit.take(rate, 1, now);
        }
        if state.companies.len() > COMPANIES_KEPT_MAX {
            let idle = |company: &Company| company.running == 0 && company.limit.quiet_at(now).is_none();
            state.companies.retain(|_, company| !idle(company));
        }
    }

    /// Whether a retry may go out now; while the provider is well they all may.
    pub(crate) fn admits_retry(&self, now: Timestamp) -> bool {
        let mut state = self.state.lock();
        let in_trouble =
            self.terms.breaker.as_ref().is_some_and(|terms| state.breaker.failures_in_window(terms, now) > 0);
        !in_trouble || state.retries.retry(now)
    }

    /// A delivery ended: its slot is free, and what it told about the provider is taken in.
    pub(crate) fn ended(
        &self,
        company: &CompanyId,
        outcome: Told<'_>,
        took: Duration,
        probe: bool,
        now: Timestamp,
    ) -> Option<Swing> {
        let mut state = self.state.lock();
        state.running = state.running.saturating_sub(1);
        if let Some(company) = state.companies.get_mut(company) {
            company.running = company.running.saturating_sub(1);
        }
        // Whoever was sent before it opened says nothing about now: while it is half open only the probe does.
        let straggler = !probe && state.breaker.state == BreakerState::HalfOpen;
        let swing = match straggler {
            true => None,
            false => self.learn(&mut state, company, outcome, took, now),
        };
        drop(state);
        self.changed.notify_waiters();
        swing
    }

    /// The same for a delivery that happened outside this process.
    pub(crate) fn learned(
        &self,
        company: &CompanyId,
        outcome: Told<'_>,
        took: Duration,
        now: Timestamp,
    ) -> Option<Swing> {
        let swing = self.learn(&mut self.state.lock(), company, outcome, took, now);
        self.changed.notify_waiters();
        swing
    }

    fn learn(
        &self,
        state: &mut State,
        company: &CompanyId,
        outcome: Told<'_>,
        took: Duration,
        now: Timestamp,
    ) -> Option<Swing> {
        let full = self.terms.concurrency as f64;
        match outcome {
            Told::Nothing => {
                state.breaker.inconclusive(now);
                None
            }
            Told::Well => {
                state.pace = (state.pace + 1.0 / state.pace.max(1.0)).min(full);
                self.terms.breaker.as_ref().and_then(|terms| state.breaker.succeeded(terms, took, now))
            }
            Told::Failed(failure) => {
                if failure.class == Class::RateLimit {
                    state.pace = (state.pace / 2.0).max(1.0);
                    let until = now.plus(failure.retry_after.unwrap_or(QUIET_DEFAULT));
                    match failure.blame {
                        Blame::Provider if failure.retry_after.is_some() => state.limit.quiet_until(until),
                        Blame::Provider => {}
                        Blame::Credential | Blame::Message => {
                            state.companies.entry(company.clone()).or_default().limit.quiet_until(until);
                        }
                    }
                }
                match (&self.terms.breaker, failure.blame) {
                    // A provider that says "slower" is alive.
                    (Some(terms), Blame::Provider) if failure.class == Class::RateLimit => {
                        state.breaker.succeeded(terms, Duration::ZERO, now)
                    }
                    (Some(terms), Blame::Provider) => {
                        state.breaker.failed(terms, failure.reason.as_str(), now)
                    }
                    _ => {
                        state.breaker.inconclusive(now);
                        None
                    }
                }
            }
        }
    }
}

/// What a delivery tells about its provider.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told<'a> {
    Well,
    Failed(&'a Failure),
    /// It was never asked.
    Nothing,
}

impl<'a> Told<'a> {
    pub fn by(verdict: &'a Verdict) -> Self {
        match verdict {
            Verdict::Delivered { .. } => Told::Well,
            // The one to blame the provider for, if there is one.
            Verdict::Partly { refused, .. } => {
                let blamed = refused.iter().find(|(_, failure)| failure.blame == Blame::Provider);
                blamed.map_or(Told::Well, |(_, failure)| Told::Failed(failure))
            }
            Verdict::Failed(failure) => Told::Failed(failure),
        }
    }
}

/// A company whose limit is reached and whose provider did not say for how long.
const QUIET_DEFAULT: Duration = Duration::from_secs(1);

/// A provider as people see it.
#[derive(Clone, Debug)]
pub struct ProviderView {
    pub name: Box<str>,
    pub terms: ProviderTerms,
    pub breaker: Breaker,
    pub failures_in_window: usize,
    pub paused: Option<Pause>,
    pub quiet_until: Option<Timestamp>,
    pub running: usize,
    /// Deliveries that it may have at the same time right now.
    pub bound: usize,
    /// Why its lanes may not claim, if they may not, and until when.
    pub held: Option<(Held, Option<Timestamp>)>,
}

impl Provider {
    pub fn view(&self, now: Timestamp) -> ProviderView {
        let state = self.state.lock();
        let strength = self.terms.breaker.as_ref().map_or(1.0, |terms| state.breaker.strength(terms, now));
        ProviderView {
            name: self.name.clone(),
            terms: self.terms,
            breaker: state.breaker.clone(),
            failures_in_window: self
                .terms
                .breaker
                .as_ref()
                .map_or(0, |terms| state.breaker.failures_in_window(terms, now)),
            paused: state.paused.clone(),
            quiet_until: state.limit.quiet_at(now),
            running: state.running,
            bound: self.bound(&state, strength),
            held: self.held(&state, now),
        }
    }

    /// The same question as [`Provider::admit`], without asking for anything.
    fn held(&self, state: &State, now: Timestamp) -> Option<(Held, Option<Timestamp>)> {
        if let Some(pause) = &state.paused {
            return Some((Held::Paused(pause.reason.clone()), None));
        }
        if self.terms.breaker.is_some() && state.breaker.state != BreakerState::Closed {
            let Breaker { state: word, reason, next_probe_at, held_open, .. } = &state.breaker;
            let why = Held::Breaker { state: *word, reason: reason.clone() };
            return Some((why, next_probe_at.filter(|_| !held_open)));
        }
        if let Some(until) = state.limit.quiet_at(now) {
            return Some((Held::Quiet, Some(until)));
        }
        let rate = self.terms.rate.filter(|rate| state.limit.free(*rate, 1, now) == 0)?;
        Some((Held::Rate, state.limit.free_at(rate, now)))
    }

    /// Why one company's jobs are held back here, if they are.
    pub fn company_held(&self, company: &CompanyId, now: Timestamp) -> Option<(Held, Option<Timestamp>)> {
        let state = self.state.lock();
        let known = state.companies.get(company)?;
        if let Some(until) = known.limit.quiet_at(now) {
            return Some((Held::Quiet, Some(until)));
        }
        let rate = self.terms.company_rate.filter(|rate| known.limit.free(*rate, 1, now) == 0)?;
        Some((Held::Rate, known.limit.free_at(rate, now)))
    }

    pub(crate) fn set_pause(&self, pause: Option<Pause>) {
        self.state.lock().paused = pause;
        self.changed.notify_waiters();
    }

    /// A person opens or closes the breaker.
    pub(crate) fn turn(&self, open: bool, why: &str, now: Timestamp) -> Option<Swing> {
        let swing = {
            let mut state = self.state.lock();
            if open { state.breaker.hold_open(why, now) } else { state.breaker.close(why, now) }
        };
        self.changed.notify_waiters();
        swing
    }

    /// What is to be written down.
    pub(crate) fn breaker(&self) -> Breaker {
        self.state.lock().breaker.clone()
    }

    pub(crate) fn restore(&self, breaker: Breaker) {
        self.state.lock().breaker = breaker;
    }

    /// May the caller's own code ask the provider now? It says how it went by [`Provider::told`].
    pub(crate) fn permit(&self, now: Timestamp) -> (Grant, Option<Swing>) {
        self.admit_elsewhere(1, now)
    }

    pub(crate) fn told(&self, well: bool, why: &str, took: Duration, now: Timestamp) -> Option<Swing> {
        let terms = self.terms.breaker.as_ref()?;
        let swing = {
            let mut state = self.state.lock();
            if well {
                state.breaker.succeeded(terms, took, now)
            } else {
                state.breaker.failed(terms, why, now)
            }
        };
        self.changed.notify_waiters();
        swing
    }
}
