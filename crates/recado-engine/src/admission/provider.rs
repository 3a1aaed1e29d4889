//! Guards between a lane and a provider: breaker, rate, slots, pause, quiet times.
//!
//! A claimer asks before it claims, so a job that may not go out is not even leased: it waits in its lane,
//! spends no attempt and holds up no other provider. This file answers from what this process knows;
//! [`crate::admission::gate`] asks the store where that is not enough, and records how deliveries end.
//!
//! Breaker, pause, rates and quiet times are shared by all nodes. Slots, the pace of `adaptive` and the budget of
//! retries are each process's own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::breaker::{Admission, Breaker, BreakerState, BreakerTerms};
use recado_core::limit::{Limit, Quiet, Rate};
use recado_core::{Class, CompanyId, Job, Timestamp};
use tokio::sync::Notify;

use crate::admission::breaker::{DeliveryFeedback, PROVIDERS, ProviderControl};
use crate::admission::control::{LIMITS, LimitChange, SharedLimit};
use crate::admission::receivers::Receivers;
use crate::admission::retry_budget::RetryBudget;
use crate::shared::value::SharedValue;

pub use crate::admission::control::Pause;

/// The terms that protect a provider, and others from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProviderTerms {
    pub breaker: Option<BreakerTerms>,
    pub rate: Option<Rate>,
    /// For each company on its own.
    pub company_rate: Option<Rate>,
    /// Deliveries at the same time, over all routes that use it.
    pub concurrency: usize,
    /// Slots of these that one company may have.
    pub company_slots: CompanySlots,
    /// Deliveries at most to one receiver that users choose; `None` is a quarter.
    pub receiver_concurrency: Option<usize>,
    /// Concurrency follows the provider's answers, within the bound above.
    pub adaptive: bool,
}

impl ProviderTerms {
    pub fn plain(concurrency: usize) -> Self {
        ProviderTerms { concurrency, ..ProviderTerms::default() }
    }

    /// Returns the most slots that one company can have; `None` where it can have them all.
    pub fn company_slots_max(&self) -> Option<usize> {
        match self.company_slots {
            CompanySlots::All => None,
            CompanySlots::AtMost(max) => Some(max),
            CompanySlots::AsManyAsFree => Some(self.concurrency.div_ceil(2)),
        }
    }

    /// Returns the most slots that one receiver can have.
    pub fn receiver_slots_max(&self) -> usize {
        self.receiver_concurrency.unwrap_or_else(|| self.concurrency.div_ceil(4)).max(1)
    }
}

/// The number of a provider's slots that one company may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompanySlots {
    #[default]
    All,
    AtMost(usize),
    /// The free slots: half of them for one company alone, a share for each of several, and always some
    /// for the next.
    AsManyAsFree,
}

/// The reason why something may not go out right now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    Breaker {
        state: BreakerState,
        reason: Option<Box<str>>,
    },
    Rate,
    /// The provider asked for quiet, in these words.
    Quiet(Box<str>),
    Paused(Pause),
    /// All slots are taken.
    Busy,
    /// The company has all the slots that it may have.
    CompanyBusy,
    /// The store did not answer, and without it the state is unknown.
    Store,
}

/// The refusal of a delivery: its reason, and its end if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub why: RefusalReason,
    pub until: Option<Timestamp>,
}

impl Refusal {
    /// Refuses for as long as nothing changes.
    pub(crate) fn without_end(why: RefusalReason) -> Self {
        Refusal { why, until: None }
    }
}

/// The answer of this process to a lane that may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admittance {
    /// Up to this many may. They are reserved.
    Granted(usize),
    /// One may, if the store grants it the probe. Nothing is reserved yet.
    ProbeDue,
}

/// The owner of the slots that a delivery takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotOwner {
    ThisProcess,
    /// Started outside this process, which does not limit their number.
    Outside,
}

/// One provider at run time.
#[derive(Debug)]
pub struct Provider {
    pub name: Box<str>,
    pub terms: ProviderTerms,
    pub(crate) control: Arc<SharedValue<ProviderControl>>,
    pub(crate) limit: SharedLimit,
    pub(crate) receivers: Receivers,
    /// The longest wait that an answer or a rule of its routes can impose.
    pub(crate) longest_wait: Duration,
    here: Mutex<LocalState>,
    /// Wakes when something changed that a held claimer waits for.
    pub(crate) changed: Notify,
    /// Wakes when a delivery of a bounded company ended: it has a slot again. Not when a lane gives back what it did
    /// not use, or lanes that hold the same company back would wake each other for ever.
    pub(crate) freed: Notify,
}

/// State that is this process's own.
#[derive(Debug, Default)]
struct LocalState {
    companies: HashMap<CompanyId, CompanyState>,
    /// Slots that are granted, whether their deliveries have started or not.
    granted: usize,
    started: usize,
    /// Granted, and not taken from the rate yet.
    reserved: u32,
    /// Deliveries that `adaptive` allows at the moment.
    pace: f64,
    retries: RetryBudget,
}

#[derive(Debug)]
struct CompanyState {
    limit: SharedLimit,
    running: usize,
}

impl CompanyState {
    /// Returns true if it equals a fresh entry, so that it can be dropped from memory.
    fn is_at_rest(&self, now: Timestamp) -> bool {
        self.running == 0
            && !self.limit.has_pending_writes()
            && self.limit.read(|limit| limit.expires_at() <= now)
    }
}

/// While the ramp or a company's slots hold a lane back it looks again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Companies whose limits are kept in memory; the store has them all.
const COMPANIES_KEPT_MAX: usize = 10_000;

impl Provider {
    pub fn new(name: &str, terms: ProviderTerms, longest_wait: Duration) -> Self {
        let pace = (terms.concurrency as f64 / 4.0).max(1.0);
        Provider {
            name: name.into(),
            terms,
            control: Arc::new(SharedValue::new(PROVIDERS, name)),
            limit: Arc::new(SharedValue::new(LIMITS, format!("{name}/"))),
            receivers: Receivers::new(name, terms.receiver_slots_max()),
            longest_wait,
            here: Mutex::new(LocalState { pace, ..LocalState::default() }),
            changed: Notify::new(),
            freed: Notify::new(),
        }
    }

    /// Tells whether up to `wanted` deliveries may start now, of a route that waits `hold_max` at most for a quiet.
    pub(crate) fn ask(
        &self,
        wanted: usize,
        slots: SlotOwner,
        hold_max: Duration,
        now: Timestamp,
    ) -> Result<Admittance, Refusal> {
        let mut here = self.here.lock();
        let admission = self.control.read(|control| match (&control.paused, &self.terms.breaker) {
            (Some(pause), _) => Err(Refusal::without_end(RefusalReason::Paused(pause.clone()))),
            (None, None) => Ok(Admission::Allowed(1.0)),
            (None, Some(terms)) => match control.breaker.peek_admission(terms, now) {
                Admission::Refused { until } => {
                    Err(Refusal { why: breaker_refusal(&control.breaker), until })
                }
                admission => Ok(admission),
            },
        })?;
        let mut wanted = wanted;
        if let Some((why, until)) = self.limit.read(|limit| quiet(limit, hold_max, now)) {
            return Err(Refusal { why, until: Some(until) });
        }
        if let Some(rate) = self.terms.rate {
            let most = u32::try_from(wanted).unwrap_or(u32::MAX).saturating_add(here.reserved);
            let free = self.limit.read(|limit| limit.available(rate, most, now));
            wanted = free.saturating_sub(here.reserved) as usize;
            if wanted == 0 {
                let until = self.limit.read(|limit| limit.available_at(rate, now));
                return Err(Refusal { why: RefusalReason::Rate, until });
            }
        }
        let Admission::Allowed(strength) = admission else { return Ok(Admittance::ProbeDue) };
        if slots == SlotOwner::ThisProcess {
            let free = self.bound(&here, strength).saturating_sub(here.granted);
            wanted = wanted.min(match self.terms.company_slots {
                // All that is granted may be claimed of one company that has nothing on its way yet.
                CompanySlots::AsManyAsFree => free.div_ceil(2),
                CompanySlots::All | CompanySlots::AtMost(_) => free,
            });
        }
        if wanted == 0 {
            // The ramp grows by itself; deliveries that end wake it as well.
            let until = (strength < 1.0).then(|| now.plus(LOOK_AGAIN));
            return Err(Refusal { why: RefusalReason::Busy, until });
        }
        self.reserve(&mut here, wanted, slots);
        Ok(Admittance::Granted(wanted))
    }

    /// The store granted the probe.
    pub(crate) fn reserve_probe(&self, slots: SlotOwner) {
        self.reserve(&mut self.here.lock(), 1, slots);
    }

    fn reserve(&self, here: &mut LocalState, count: usize, slots: SlotOwner) {
        if slots == SlotOwner::ThisProcess {
            here.granted += count;
        }
        if self.terms.rate.is_some() {
            here.reserved = here.reserved.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    /// Removes `count` sends from those set aside here for the rate: the store counts them now, or they are
    /// not needed.
    pub(crate) fn unreserve(&self, count: usize) {
        let mut here = self.here.lock();
        here.reserved = here.reserved.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Frees granted slots that are not used.
    pub(crate) fn free(&self, count: usize, slots: SlotOwner) {
        if slots == SlotOwner::ThisProcess {
            let mut here = self.here.lock();
            here.granted = here.granted.saturating_sub(count);
        }
        self.changed.notify_waiters();
    }

    fn bound(&self, here: &LocalState, strength: f64) -> usize {
        let full = self.terms.concurrency as f64;
        let pace = if self.terms.adaptive { here.pace.min(full) } else { full };
        ((pace * strength).ceil() as usize).max(1)
    }

    /// Bounds the claims of each company here. Companies at rest are forgotten on the way: a claim walks past
    /// active ones only, however many there are.
    pub(crate) fn bound_companies(&self, quotas: &mut Quotas, hold_max: Duration, now: Timestamp) {
        let mut here = self.here.lock();
        let free = self.unstarted(&here, now);
        here.companies.retain(|name, company| {
            let slots = self.slots_of(company, free);
            // Freed by a delivery that ends; looked at again soon in case its signal is missed.
            quotas.bound(name, slots, (slots == 0).then(|| now.plus(LOOK_AGAIN)));
            quotas.limit(name, &company.limit, self.terms.company_rate, hold_max, now);
            if company.limit.read(|limit| limit.quiet_exceeds(self.longest_wait, now)) {
                quotas.corrections.push((company.limit.clone(), LimitChange::BoundQuiet(self.longest_wait)));
            }
            !company.is_at_rest(now)
        });
    }

    /// Returns the slots without a started delivery, granted or not.
    fn unstarted(&self, here: &LocalState, now: Timestamp) -> usize {
        let ramp = |terms| self.control.read(|control| control.breaker.ramp_share(terms, now));
        let strength = self.terms.breaker.as_ref().map_or(1.0, ramp);
        self.bound(here, strength).saturating_sub(here.started)
    }

    /// Returns the slots that a company has left, while `free` have no started delivery.
    fn slots_of(&self, company: &CompanyState, free: usize) -> u32 {
        let left = match self.terms.company_slots {
            CompanySlots::All => return u32::MAX,
            CompanySlots::AtMost(max) => max.saturating_sub(company.running),
            // Each one that it starts leaves one less to be compared with.
            CompanySlots::AsManyAsFree => free.saturating_sub(company.running).div_ceil(2),
        };
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// Returns the limit of a company at this provider, shared with all nodes.
    pub(crate) fn company_limit(&self, company: &CompanyId, now: Timestamp) -> SharedLimit {
        let mut here = self.here.lock();
        self.company(&mut here, company, now).limit.clone()
    }

    /// Its own limit, and those of the companies in memory, by key.
    pub(crate) fn limits(&self) -> Vec<SharedLimit> {
        let here = self.here.lock();
        let companies = here.companies.values().map(|company| company.limit.clone());
        let mut limits: Vec<SharedLimit> = [self.limit.clone()].into_iter().chain(companies).collect();
        limits.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        limits
    }

    fn company<'a>(
        &self,
        here: &'a mut LocalState,
        name: &CompanyId,
        now: Timestamp,
    ) -> &'a mut CompanyState {
        if here.companies.len() >= COMPANIES_KEPT_MAX && !here.companies.contains_key(name) {
            let needed = |limit: &Limit| limit.quiet_at(now).is_some();
            let idle = |one: &CompanyState| {
                one.running == 0 && !one.limit.has_pending_writes() && !one.limit.read(needed)
            };
            here.companies.retain(|_, one| !idle(one));
        }
        here.companies.entry(name.clone()).or_insert_with(|| {
            let key = format!("{}/{name}", self.name);
            CompanyState { limit: Arc::new(SharedValue::new(LIMITS, key)), running: 0 }
        })
    }

    /// A delivery that was granted starts, unless its company has no slot left.
    pub(crate) fn start(&self, job: &Job, now: Timestamp) -> bool {
        let mut here = self.here.lock();
        if self.terms.company_slots != CompanySlots::All {
            let free = self.unstarted(&here, now);
            let known = self.company(&mut here, &job.company, now);
            if self.slots_of(known, free) == 0 {
                return false;
            }
            known.running += 1;
        }
        here.started += 1;
        if job.progress.attempts_spent == 0 {
            here.retries.first_try();
        }
        true
    }

    /// Returns true when a retry may go out now; while the provider is well they all may.
    pub(crate) fn admits_retry(&self, now: Timestamp) -> bool {
        let Some(terms) = &self.terms.breaker else { return true };
        let in_trouble = self.control.read(|control| control.breaker.failures_in_window(terms, now) > 0);
        !in_trouble || self.here.lock().retries.retry(now)
    }

    /// A delivery ended: its slot is free.
    pub(crate) fn end(&self, company: &CompanyId) {
        let mut here = self.here.lock();
        here.granted = here.granted.saturating_sub(1);
        here.started = here.started.saturating_sub(1);
        if let Some(company) = here.companies.get_mut(company) {
            company.running = company.running.saturating_sub(1);
        }
        drop(here);
        self.changed.notify_waiters();
        if self.terms.company_slots != CompanySlots::All {
            self.freed.notify_waiters();
        }
    }

    /// Adapts the pace of `adaptive` to the result of a delivery.
    pub(crate) fn adapt_pace(&self, feedback: DeliveryFeedback<'_>) {
        let mut here = self.here.lock();
        match feedback {
            DeliveryFeedback::Delivered => {
                here.pace = (here.pace + 1.0 / here.pace.max(1.0)).min(self.terms.concurrency as f64);
            }
            DeliveryFeedback::Failed(_, failure) if failure.class == Class::RateLimit => {
                here.pace = (here.pace / 2.0).max(1.0);
            }
            _ => {}
        }
    }
}

/// Number of jobs of each bounded company that may be claimed now; 0 holds one back.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    pub of: HashMap<CompanyId, u32>,
    /// Time at which the first that is bounded may have more, as far as time alone decides.
    pub free_at: Option<Timestamp>,
    /// Changes that correct limits: times in the future, quiets that are too long.
    pub corrections: Vec<(SharedLimit, LimitChange)>,
}

impl Quotas {
    pub fn bound(&mut self, company: &CompanyId, quota: u32, free_at: Option<Timestamp>) {
        self.free_at = self.free_at.into_iter().chain(free_at).min();
        if quota < u32::MAX {
            let known = self.of.entry(company.clone()).or_insert(quota);
            *known = quota.min(*known);
        }
    }

    pub fn limit(
        &mut self,
        company: &CompanyId,
        shared: &SharedLimit,
        rate: Option<Rate>,
        hold_max: Duration,
        now: Timestamp,
    ) {
        let (quota, free_at, is_ahead) = shared.read(|limit| match (quiet(limit, hold_max, now), rate) {
            (Some((_, until)), _) => (0, Some(until), false),
            (None, None) => (u32::MAX, None, false),
            (None, Some(rate)) => (
                limit.available(rate, u32::MAX, now),
                limit.available_at(rate, now),
                limit.has_future_times(rate, now),
            ),
        });
        self.bound(company, quota, free_at);
        self.corrections
            .extend(rate.filter(|_| is_ahead).map(|rate| (shared.clone(), LimitChange::ClockSetBack(rate))));
    }
}

fn breaker_refusal(breaker: &Breaker) -> RefusalReason {
    RefusalReason::Breaker { state: breaker.state, reason: breaker.reason.clone() }
}

fn quiet(limit: &Limit, hold_max: Duration, now: Timestamp) -> Option<(RefusalReason, Timestamp)> {
    limit.quiet(now)?.at_most(hold_max, now).map(|quiet| (RefusalReason::Quiet(quiet.reason), quiet.until))
}

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
    /// The refusal that its lanes get, if they may not claim.
    pub held: Option<Refusal>,
}

impl Provider {
    pub fn view(&self, now: Timestamp) -> ProviderView {
        self.view_of(self.longest_wait, now)
    }

    /// Returns the provider as a route sees it that waits `hold_max` at most for a quiet.
    pub(crate) fn view_of(&self, hold_max: Duration, now: Timestamp) -> ProviderView {
        let control = self.control.read(ProviderControl::clone);
        let held = self.held(&control, hold_max, now);
        let ProviderControl { breaker, paused } = control;
        let terms = self.terms.breaker.as_ref();
        let strength = terms.map_or(1.0, |terms| breaker.ramp_share(terms, now));
        let here = self.here.lock();
        ProviderView {
            name: self.name.clone(),
            terms: self.terms,
            failures_in_window: terms.map_or(0, |terms| breaker.failures_in_window(terms, now)),
            held,
            breaker,
            paused,
            quiet_until: self.limit.read(|limit| limit.quiet_at(now).map(|(until, _)| until)),
            running: here.granted,
            bound: self.bound(&here, strength),
        }
    }

    /// Returns what holds back every delivery to this provider, without reserving anything.
    fn held(&self, control: &ProviderControl, hold_max: Duration, now: Timestamp) -> Option<Refusal> {
        let ProviderControl { breaker, paused } = control;
        if let Some(pause) = paused {
            return Some(Refusal::without_end(RefusalReason::Paused(pause.clone())));
        }
        if self.terms.breaker.is_some() && breaker.state != BreakerState::Closed {
            let until = breaker.next_probe_at.filter(|_| !breaker.held_open);
            return Some(Refusal { why: breaker_refusal(breaker), until });
        }
        self.limit.read(|limit| limited(limit, self.terms.rate, hold_max, now))
    }

    /// Returns what holds a company's jobs back here, of a route that waits `hold_max` at most for a quiet.
    pub fn company_held(&self, company: &CompanyId, hold_max: Duration, now: Timestamp) -> Option<Refusal> {
        let here = self.here.lock();
        let known = here.companies.get(company)?;
        let free = self.unstarted(&here, now);
        let busy = || Refusal::without_end(RefusalReason::CompanyBusy);
        let by_slots = || (self.slots_of(known, free) == 0).then(busy);
        known.limit.read(|limit| limited(limit, self.terms.company_rate, hold_max, now)).or_else(by_slots)
    }

    /// Returns every company that is held here at `now`, with what holds it.
    pub(crate) fn held_companies(&self, now: Timestamp) -> Vec<(CompanyId, Quiet, SharedLimit)> {
        let here = self.here.lock();
        let held = here.companies.iter().filter_map(|(name, company)| {
            Some((name.clone(), company.limit.read(|limit| limit.quiet(now))?, company.limit.clone()))
        });
        held.collect()
    }

    /// Returns true while the breaker is open and no probe is due.
    pub(crate) fn is_open_without_probe(&self, now: Timestamp) -> bool {
        let Some(terms) = &self.terms.breaker else { return false };
        self.control.read(|control| {
            let refused = matches!(control.breaker.peek_admission(terms, now), Admission::Refused { .. });
            refused && control.breaker.state == BreakerState::Open
        })
    }
}

/// Returns what a limit holds back: a quiet, or a rate that is used up.
pub(super) fn limited(
    limit: &Limit,
    rate: Option<Rate>,
    hold_max: Duration,
    now: Timestamp,
) -> Option<Refusal> {
    if let Some((why, until)) = quiet(limit, hold_max, now) {
        return Some(Refusal { why, until: Some(until) });
    }
    let rate = rate.filter(|rate| limit.available(*rate, 1, now) == 0)?;
    Some(Refusal { why: RefusalReason::Rate, until: limit.available_at(rate, now) })
}
