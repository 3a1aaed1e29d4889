//! Asking to send, and telling how it went: where one process's knowledge meets that of all.
//!
//! ```text
//! admit ─▶ claim ─▶ start ─▶ take ─▶ send ─▶ heard
//! ```
//!
//! `admit` answers from memory and reserves; only a probe is asked of the store first. `take` spends the rates, in
//! the store, before anything is sent: what another node was faster with is put back untouched. `heard` tells the
//! breaker and the limits. A process that dies after `take` has spent what it did not send; one that dies with a
//! probe leaves it to the next, when the probe's time is over. A store that does not answer grants nothing.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use recado_core::breaker::BreakerState;
use recado_core::classify::HOLD_MAX_DEFAULT;
use recado_core::limit::{Limit, Rate};
use recado_core::{AuditEvent, Blame, Class, CompanyId, Failure, Job, RouteName, Timestamp, Verdict};
use recado_store::StoreError;
use recado_transport::Receiver;

use crate::admission::control::{
    BreakerFeedback, ControlChange, ControlEffect, ControlStep, LimitChange, LimitStep,
};
use crate::admission::provider::{Admittance, DeliveryFeedback, Provider, Refusal, RefusalReason, SlotOwner};
use crate::admission::receivers::{ReceiverId, ReceiverWait};
use crate::engine::Inner;
use crate::notify::endpoints::Endpoint;
use crate::shared::value::{PendingWrite, Replayable, SharedValue, make, make_on_record};

/// Wait before a lane asks again that was refused because the store did not answer, or because another was faster.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// First wait before what is owed is written again; it doubles up to [`WRITE_RETRY_MAX`].
const WRITE_RETRY_MIN: Duration = Duration::from_millis(50);
const WRITE_RETRY_MAX: Duration = Duration::from_secs(2);

/// A company whose limit is reached and whose provider did not say for how long.
const QUIET_DEFAULT: Duration = Duration::from_secs(1);

/// Reservation that a provider granted. Those that are not started go back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    engine: Arc<Inner>,
    provider: Arc<Provider>,
    slots: SlotOwner,
    granted: usize,
    started: usize,
    probe: bool,
}

impl Reservation {
    /// Returns the number of jobs that may be claimed.
    pub fn count(&self) -> usize {
        self.granted
    }

    /// Has a delivery of this job take one of the places, unless its company or its receiver has no slot left or is held.
    pub fn start(&mut self, job: &Job, receiver: Option<ReceiverId>) -> Result<Permit, NotStarted> {
        let sent_at = self.engine.clock.now();
        if self.started == self.granted {
            return Err(NotStarted::CompanyBusy);
        }
        let company = &job.company;
        if let Some(id) = &receiver {
            let bound = |hold: &Arc<SharedValue<Limit>>| {
                self.engine.bound_quiet(hold, self.provider.longest_wait, sent_at);
            };
            let hold_max = self.engine.hold_max(&job.route);
            let started = self.provider.receivers.start(id, hold_max, bound, sent_at);
            started.map_err(NotStarted::Receiver)?;
        }
        if !self.provider.start(company, job.progress.attempts_spent == 0, sent_at) {
            if let Some(id) = &receiver {
                self.provider.receivers.end(id, sent_at, sent_at);
            }
            return Err(NotStarted::CompanyBusy);
        }
        self.started += 1;
        let (engine, provider) = (self.engine.clone(), self.provider.clone());
        let endpoint = receiver.as_ref().and_then(|id| engine.endpoint_of(id));
        Ok(Permit { engine, provider, company: company.clone(), receiver, endpoint, sent_at, open: true })
    }

    /// Gives so many of the places to workers outside this process.
    pub fn leave(&mut self, count: usize) {
        self.started = (self.started + count).min(self.granted);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let unused = self.granted - self.started;
        self.provider.unreserve(self.granted);
        if unused > 0 {
            self.provider.free(unused, self.slots);
        }
        if self.probe && self.started == 0 {
            let now = self.engine.clock.now();
            self.engine.news(&self.provider, BreakerFeedback::Inconclusive, now, now);
        }
    }
}

/// The reason why a delivery that was granted a place does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotStarted {
    CompanyBusy,
    Receiver(ReceiverWait),
}

/// A delivery's place at its provider. However the delivery ends, the place is free again.
#[derive(Debug)]
pub(crate) struct Permit {
    engine: Arc<Inner>,
    provider: Arc<Provider>,
    company: CompanyId,
    /// The far end that users chose, where they do.
    receiver: Option<ReceiverId>,
    /// The receiver's endpoint as it was when the delivery started, if it is one.
    endpoint: Option<Arc<Endpoint>>,
    sent_at: Timestamp,
    open: bool,
}

impl Permit {
    /// Records the verdict of the delivery and frees its place. Returns the hold that the answer placed on its receiver, if it did.
    pub fn told(mut self, job: &Job, verdict: &Verdict, now: Timestamp) -> Option<ReceiverHold> {
        self.end(DeliveryFeedback::by(job, verdict), now)
    }

    fn end(&mut self, told: DeliveryFeedback<'_>, now: Timestamp) -> Option<ReceiverHold> {
        self.open = false;
        // The delivery that takes the freed place must know what this one found out.
        let hold = match &self.receiver {
            Some(id) => {
                // An answer from an address that the endpoint no longer has must not hold the new one.
                let told = match told {
                    DeliveryFeedback::Failed(..) if self.has_moved(id) => DeliveryFeedback::Nothing,
                    told => told,
                };
                let hold = self.engine.heard_of_receiver(&self.provider, id, told, self.sent_at, now);
                self.provider.receivers.end(id, self.sent_at, now);
                hold
            }
            None => {
                self.engine.heard(&self.provider, &self.company, told, self.sent_at, now);
                None
            }
        };
        self.provider.end(&self.company);
        hold
    }

    /// Returns true if the endpoint is gone or has another address since the delivery started.
    fn has_moved(&self, id: &ReceiverId) -> bool {
        let now = self.engine.endpoint_of(id);
        now.as_ref().map(|endpoint| &endpoint.url) != self.endpoint.as_ref().map(|endpoint| &endpoint.url)
    }
}

/// The hold on a receiver, and the end that the latest answer asked for.
#[derive(Debug)]
pub(crate) struct ReceiverHold {
    pub hold: Arc<SharedValue<Limit>>,
    pub until: Timestamp,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.open {
            self.end(DeliveryFeedback::Nothing, self.engine.clock.now());
        }
    }
}

impl Inner {
    /// Returns a receiver's endpoint; `None` for a host, and for an endpoint that is gone.
    fn endpoint_of(&self, id: &ReceiverId) -> Option<Arc<Endpoint>> {
        match &id.receiver {
            Receiver::Endpoint(id) => self.endpoints.get(id),
            Receiver::Host(_) => None,
        }
    }

    /// Returns the longest wait that an answer may impose on a route's jobs.
    pub fn hold_max(&self, route: &RouteName) -> Duration {
        self.routes.get(route.as_str()).map_or(HOLD_MAX_DEFAULT, |route| route.hold_max())
    }

    /// Reserves places for up to `wanted` deliveries to this provider that may start now, of a route that waits
    /// `hold_max` at most for a quiet.
    pub async fn admit(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        wanted: usize,
        slots: SlotOwner,
        hold_max: Duration,
    ) -> Result<Reservation, Refusal> {
        let now = self.clock.now();
        self.mind_the_clock(provider, now);
        let (granted, probe) = match provider.ask(wanted, slots, hold_max, now) {
            Admittance::Granted(count) => (count, false),
            Admittance::Refused(refusal) => return Err(refusal),
            Admittance::ProbeDue => {
                self.ask_for_probe(provider, hold_max, now).await?;
                provider.reserve_probe(slots);
                (1, true)
            }
        };
        let (engine, provider) = (self.clone(), provider.clone());
        Ok(Reservation { engine, provider, slots, granted, started: 0, probe })
    }

    async fn ask_for_probe(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        hold_max: Duration,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let Some(terms) = provider.terms.breaker else { return Ok(()) };
        let again = Some(now.plus(ASK_AGAIN));
        match self.change_valve(provider, ControlChange::Probe(terms), now).await {
            Ok(ControlEffect { probe: true, .. }) => Ok(()),
            Ok(_) => Err(match provider.ask(1, SlotOwner::Outside, hold_max, now) {
                Admittance::Refused(refusal) => refusal,
                // It closed meanwhile, or the faster one is done already.
                Admittance::Granted(count) => {
                    provider.unreserve(count);
                    Refusal { why: RefusalReason::Busy, until: again }
                }
                Admittance::ProbeDue => Refusal { why: RefusalReason::Busy, until: again },
            }),
            Err(error) => {
                tracing::warn!(provider = %provider.name, %error, "cannot ask the store for a probe; trying again");
                Err(Refusal { why: RefusalReason::Store, until: again })
            }
        }
    }

    /// Changes what all nodes know of a provider, and returns when the store has it.
    pub async fn change_valve(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        what: ControlChange,
        now: Timestamp,
    ) -> Result<ControlEffect, StoreError> {
        self.change_valve_on_record(provider, what, &[], now).await
    }

    /// Does the same, together with what an operator's act puts on the audit trail.
    pub async fn change_valve_on_record(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        what: ControlChange,
        audit: &[AuditEvent],
        now: Timestamp,
    ) -> Result<ControlEffect, StoreError> {
        let step = ControlStep { at: now, what };
        let asked = [(&*provider.valve, Some(step))];
        let made = make_on_record(&*self.store, &asked, &|_| audit.to_vec(), now).await;
        let made = made.map_err(|error| self.unless_broken(error))?.pop();
        provider.changed.notify_waiters();
        let Some(made) = made else { return Err(StoreError::Unavailable("it did not say".to_owned())) };
        let asked = made.asked.unwrap_or(ControlEffect { swing: None, probe: false });
        for effect in made.owed.into_iter().chain([asked]) {
            self.swung(provider, effect.swing, now);
        }
        Ok(asked)
    }

    /// Takes each of these deliveries from every rate that bounds it; which of them may go.
    pub async fn take(
        self: &Arc<Self>,
        provider: Option<&Arc<Provider>>,
        companies: &[Option<&CompanyId>],
    ) -> Result<Vec<bool>, StoreError> {
        let now = self.clock.now();
        let (mut purses, of) = self.purses(provider, companies, now);
        if purses.is_empty() {
            return Ok(vec![true; companies.len()]);
        }
        let take =
            |purse: &RateDraw| LimitStep { at: now, what: LimitChange::Take(purse.rate, purse.wanted) };
        let asked: Vec<_> = purses.iter().map(|purse| (&*purse.limit, Some(take(purse)))).collect();
        let made = make(&*self.store, &asked, now).await.map_err(|error| self.unless_broken(error))?;
        drop(asked);
        for (purse, made) in purses.iter_mut().zip(made) {
            purse.got = made.asked.unwrap_or(0);
        }
        let everybodys = 0..usize::from(purses[0].is_everybodys);
        let goes = companies.iter().map(|company| {
            let own = company.and_then(|company| of.get(company)).cloned().unwrap_or(0..0);
            let goes = everybodys.clone().chain(own.clone()).all(|at| purses[at].used < purses[at].got);
            everybodys.clone().chain(own).for_each(|at| purses[at].used += u32::from(goes));
            goes
        });
        let goes = goes.collect();
        let then = self.clock.now();
        for RateDraw { limit, rate, got, used, .. } in purses {
            if got > used {
                self.owe_limit(&limit, LimitChange::GiveBack(rate, got - used, now), then);
            }
            if used > 0 && Limit::needs_postdating(rate, now, then) {
                self.owe_limit(&limit, LimitChange::Postdate(rate, used, now), then);
            }
        }
        Ok(goes)
    }

    /// Every rate that bounds one of these deliveries, the provider's own first; and which are each company's.
    fn purses<'a>(
        &self,
        provider: Option<&Arc<Provider>>,
        companies: &[Option<&'a CompanyId>],
        now: Timestamp,
    ) -> (Vec<RateDraw>, HashMap<&'a CompanyId, Range<usize>>) {
        let (mut purses, mut of) = (Vec::new(), HashMap::new());
        if let Some((provider, rate)) = provider.and_then(|provider| Some((provider, provider.terms.rate?))) {
            let wanted = u32::try_from(companies.len()).unwrap_or(u32::MAX);
            purses.push(RateDraw::new(provider.limit.clone(), rate, true, wanted));
        }
        let company_rate = provider.and_then(|provider| Some((provider, provider.terms.company_rate?)));
        if company_rate.is_none() && !self.tenants.are_bounded() {
            return (purses, of);
        }
        let mut counts: HashMap<&CompanyId, u32> = HashMap::new();
        companies.iter().flatten().for_each(|company| *counts.entry(company).or_default() += 1);
        for (company, wanted) in counts {
            let first = purses.len();
            let here = company_rate.map(|(provider, rate)| (provider.company_limit(company, now), rate));
            let everywhere = self.tenants.limit(company);
            let own = here.into_iter().chain(everywhere);
            purses.extend(own.map(|(limit, rate)| RateDraw::new(limit, rate, false, wanted)));
            of.insert(company, first..purses.len());
        }
        (purses, of)
    }

    /// Takes in what a delivery that was sent then tells about its provider.
    pub fn heard(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        company: &CompanyId,
        told: DeliveryFeedback<'_>,
        sent_at: Timestamp,
        now: Timestamp,
    ) {
        provider.pace(told);
        let took = now.since(sent_at);
        let news = match told {
            DeliveryFeedback::Well => BreakerFeedback::Succeeded(took),
            DeliveryFeedback::Failed(job, failure) => match (failure.blame, failure.class) {
                // A provider that says "slower" is alive.
                (Blame::Provider, Class::RateLimit) => BreakerFeedback::Succeeded(Duration::ZERO),
                (Blame::Provider, _) => BreakerFeedback::Failed(self.redact(job, &failure.reason).into()),
                _ => BreakerFeedback::Inconclusive,
            },
            DeliveryFeedback::Nothing => BreakerFeedback::Inconclusive,
        };
        self.news(provider, news, sent_at, now);
        if let DeliveryFeedback::Failed(job, failure) = told
            && failure.class == Class::RateLimit
        {
            let until = now.plus(failure.retry_after.unwrap_or(QUIET_DEFAULT));
            let quiet = self.quiet(job, failure, until);
            match failure.blame {
                Blame::Provider if failure.retry_after.is_some() => {
                    self.owe_limit(&provider.limit, quiet, now);
                }
                Blame::Provider => {}
                Blame::Credential | Blame::Message => {
                    self.owe_limit(&provider.company_limit(company, now), quiet, now);
                }
            }
        }
    }

    /// Takes in what a delivery tells about a receiver that users chose: it says nothing about the provider, which
    /// all other receivers share. Returns the hold that its answer asked for.
    fn heard_of_receiver(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        id: &ReceiverId,
        told: DeliveryFeedback<'_>,
        sent_at: Timestamp,
        now: Timestamp,
    ) -> Option<ReceiverHold> {
        let news = match told {
            DeliveryFeedback::Well => BreakerFeedback::Succeeded(Duration::ZERO),
            DeliveryFeedback::Failed(..) | DeliveryFeedback::Nothing => BreakerFeedback::Inconclusive,
        };
        self.news(provider, news, sent_at, now);
        let DeliveryFeedback::Failed(job, failure) = told else { return None };
        let asked = failure.retry_after.filter(|asked| !asked.is_zero() && failure.class.is_retryable())?;
        let hold = provider.receivers.hold_of(id, now)?;
        let until = now.plus(asked);
        self.owe_limit(&hold, self.quiet(job, failure, until), now);
        Some(ReceiverHold { hold, until })
    }

    /// Writes the quiet that an answer asks for: its code, the wait, whether `hold_max` cut it, and its words.
    fn quiet(&self, job: &Job, failure: &Failure, until: Timestamp) -> LimitChange {
        // Without a wish of the answer, a wait is a rule's.
        let max = (failure.asked_wait.is_some() || failure.retry_after.is_none())
            .then(|| self.hold_max(&job.route));
        let mut why = failure.code.as_deref().unwrap_or("no code").to_owned();
        if let Some(asked) = failure.asked_wait {
            why += &format!(", Retry-After {} s", asked.as_millis().div_ceil(1_000));
            if let Some(given) = failure.retry_after.filter(|given| *given < asked) {
                why += &format!(" cut to {} by hold_max", recado_core::time::show_duration(given));
            }
        }
        let words = self.redact(job, &failure.reason);
        LimitChange::Quiet { until, why: format!("{why}: {words}").into(), max }
    }

    /// Shortens a quiet that ends later than any answer can ask for.
    pub fn bound_quiet(self: &Arc<Self>, limit: &Arc<SharedValue<Limit>>, max: Duration, now: Timestamp) {
        if limit.read(|limit| limit.quiet_exceeds(max, now)) {
            self.owe_limit(limit, LimitChange::BoundQuiet(max), now);
        }
    }

    /// The same, in the words of the breaker.
    pub fn news(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        news: BreakerFeedback,
        sent_at: Timestamp,
        now: Timestamp,
    ) {
        let Some(terms) = provider.terms.breaker else { return };
        // The hot path: a provider that is well and answers in time.
        if let BreakerFeedback::Succeeded(took) = news
            && terms.slow.is_none_or(|slow| took < slow)
            && provider.valve.read(|valve| valve.breaker.state != BreakerState::HalfOpen)
        {
            return;
        }
        self.owe_valve(provider, ControlChange::Heard { sent_at, terms, news }, now);
    }

    /// Corrects times that lie in the future after the clock was set back, so that no job waits longer for
    /// them.
    fn mind_the_clock(self: &Arc<Self>, provider: &Arc<Provider>, now: Timestamp) {
        if let Some(terms) = provider.terms.breaker
            && provider.valve.read(|valve| valve.breaker.has_future_times(&terms, now))
        {
            self.owe_valve(provider, ControlChange::SetBack(terms), now);
        }
        if let Some(rate) = provider.terms.rate
            && provider.limit.read(|limit| limit.has_future_times(rate, now))
        {
            self.owe_limit(&provider.limit, LimitChange::SetBack(rate), now);
        }
        self.bound_quiet(&provider.limit, provider.longest_wait, now);
    }

    fn owe_valve(self: &Arc<Self>, provider: &Arc<Provider>, what: ControlChange, now: Timestamp) {
        let about = provider.clone();
        let owed =
            self.owe(&provider.valve, ControlStep { at: now, what }, move |engine, effect: ControlEffect| {
                engine.swung(&about, effect.swing, engine.clock.now());
            });
        if owed {
            provider.changed.notify_waiters();
        }
    }

    pub fn owe_limit(self: &Arc<Self>, limit: &Arc<SharedValue<Limit>>, what: LimitChange, now: Timestamp) {
        self.owe(limit, LimitStep { at: now, what }, |_, _| {});
    }

    /// Makes a step here and sees to it that the store hears of it, however long that takes. Whether it changed
    /// anything.
    fn owe<T: Replayable>(
        self: &Arc<Self>,
        agreed: &Arc<SharedValue<T>>,
        step: T::Step,
        told: impl Fn(&Arc<Inner>, T::Effect) + Send + Sync + 'static,
    ) -> bool {
        let owed = agreed.owe(step);
        if owed == PendingWrite::Unattended {
            let (engine, agreed) = (self.clone(), agreed.clone());
            self.deliveries.spawn(async move { engine.pay(&agreed, told).await });
        }
        owed != PendingWrite::Nothing
    }

    async fn pay<T: Replayable>(
        self: &Arc<Self>,
        agreed: &SharedValue<T>,
        told: impl Fn(&Arc<Inner>, T::Effect),
    ) {
        let mut wait = WRITE_RETRY_MIN;
        while !agreed.is_even() {
            match make(&*self.store, &[(agreed, None)], self.clock.now()).await {
                Ok(made) => made.into_iter().flat_map(|made| made.owed).for_each(|effect| told(self, effect)),
                Err(error) => {
                    if let StoreError::Broken(_) = self.unless_broken(error) {
                        return;
                    }
                    tracing::warn!("cannot write down what a provider told; trying again");
                    tokio::select! {
                        () = self.stopped.cancelled() => return,
                        () = tokio::time::sleep(wait) => {}
                    }
                    wait = (wait * 2).min(WRITE_RETRY_MAX);
                }
            }
        }
    }

    fn unless_broken(&self, error: StoreError) -> StoreError {
        if let StoreError::Broken(why) = &error {
            self.store_broke(why);
        }
        error
    }
}

/// One rate, and what a batch of deliveries wants of it.
struct RateDraw {
    limit: Arc<SharedValue<Limit>>,
    rate: Rate,
    /// It bounds all of them, and not those of one company.
    is_everybodys: bool,
    wanted: u32,
    got: u32,
    used: u32,
}

impl RateDraw {
    fn new(limit: Arc<SharedValue<Limit>>, rate: Rate, is_everybodys: bool, wanted: u32) -> Self {
        RateDraw { limit, rate, is_everybodys, wanted, got: 0, used: 0 }
    }
}
