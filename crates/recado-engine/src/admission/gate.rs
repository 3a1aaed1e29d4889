//! Decides whether deliveries may start, from the state of this process and the values that all nodes share.
//!
//! ```text
//! reserve ─▶ claim ─▶ start ─▶ draw_rates ─▶ send ─▶ record_verdict
//! ```
//!
//! [`Gate::reserve`] answers from memory and reserves slots; only a probe is asked of the store first. A claimed job
//! starts on one of them and has a [`Permit`]. [`Gate::draw_rates`] spends the rates, in the store, before anything is
//! sent: a job whose rate another node used up is released. [`Permit::record_verdict`] informs the breaker and the
//! limits. A process that dies after `draw_rates` has spent what it did not send; one that dies with a probe leaves it to
//! the next, when the probe's time is over. A store that does not answer grants nothing.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::limit::{Limit, Rate};
use recado_core::{CompanyId, Failure, Job, RouteName, Timestamp, Verdict};
use recado_store::{KvEntry, Namespace, StoreError, Turns};
use recado_transport::{Receiver, Transport};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::admission::breaker::{BreakerFeedback, DeliveryFeedback, PROVIDERS, Source};
use crate::admission::control::{
    LIMITS, LimitChange, RECEIVER_HOLDS, ROUTES, RouteControl, SharedLimit, TENANT_LIMITS,
};
use crate::admission::deferrals::Deferrals;
use crate::admission::provider::{Admittance, Provider, Quotas, Refusal, RefusalReason, SlotOwner};
use crate::admission::receivers::{ReceiverId, ReceiverWait};
use crate::admission::tenant_limits::{self, Tenants};
use crate::environment::Environment;
use crate::notify::Notifier;
use crate::notify::endpoints::Endpoint;
use crate::route::{Carrier, Route};
use crate::shared::sync::{Freshness, NamespaceSnapshot, Synced};
use crate::shared::value::{SharedStore, SharedValue, SyncResult};

/// Wait before a lane asks again that was refused because the store did not answer, or because another was faster.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(250);

/// Quiet time after a reached limit whose answer names no `Retry-After`.
pub(super) const QUIET_DEFAULT: Duration = Duration::from_secs(1);

/// Decides for every delivery of this process whether it may start.
#[derive(Debug)]
pub struct Gate {
    pub(crate) env: Arc<Environment>,
    /// By name.
    pub(crate) providers: BTreeMap<Box<str>, Arc<Provider>>,
    pub tenants: Tenants,
    /// Pauses, by route.
    pub(crate) route_controls: BTreeMap<RouteName, Arc<SharedValue<RouteControl>>>,
    pub(crate) deferrals: Deferrals,
    /// Wakes claimers when a pause, a hold, a tenant's terms or a breaker changed, here or on another node.
    pub(crate) changed: Notify,
    pub(crate) shared: Arc<SharedStore>,
    pub(crate) freshness: Arc<Freshness>,
    pub(crate) notifier: Arc<Notifier>,
}

/// A lane whose process may have missed what other nodes wrote looks again after this.
pub(crate) const STALE_LOOK_AFTER: Duration = Duration::from_millis(250);

/// One provider of a route, and the transport that reaches it.
#[derive(Clone, Debug)]
pub(crate) struct ProviderTarget {
    pub provider: Arc<Provider>,
    pub transport: Arc<dyn Transport>,
}

impl ProviderTarget {
    /// Returns the receiver that a job's data names, where users choose it.
    pub fn receiver_of(&self, job: &Job) -> Option<ReceiverId> {
        let receiver = self.transport.receiver(&job.data)?;
        Some(ReceiverId { company: job.company.clone(), receiver })
    }
}

/// A provider's slots, set aside for a claim before its jobs are known. `probe` is true for the one delivery
/// that tests a half-open breaker. The same number of sends is set aside from the provider's rate, in this
/// process only; [`Gate::draw_rates`] spends them in the store. Dropping the reservation frees the slots that
/// no delivery used.
#[derive(Debug)]
pub(crate) struct Reservation {
    gate: Arc<Gate>,
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

    /// Starts a delivery of this job on one of the slots, if one is left, unless its company or its receiver has none
    /// left or is held.
    pub fn start(&mut self, job: &Job, receiver: Option<ReceiverId>) -> Result<Permit, NotStarted> {
        let sent_at = self.gate.env.now();
        if self.started == self.granted {
            return Err(NotStarted::NoSlot);
        }
        let company = &job.company;
        if let Some(id) = &receiver {
            let bound = |hold: &SharedLimit| {
                self.gate.bound_quiet(hold, self.provider.longest_wait, sent_at);
            };
            let hold_max = self.gate.env.routes.hold_max(&job.route);
            let started = self.provider.receivers.start(id, hold_max, bound, sent_at);
            started.map_err(NotStarted::Receiver)?;
        }
        if !self.provider.start(job, sent_at) {
            if let Some(id) = &receiver {
                self.provider.receivers.end(id, sent_at, sent_at);
            }
            return Err(NotStarted::CompanyBusy);
        }
        self.started += 1;
        let (gate, provider) = (self.gate.clone(), self.provider.clone());
        let endpoint = receiver.as_ref().and_then(|id| gate.endpoint_of(id));
        Ok(Permit {
            gate,
            provider,
            company: company.clone(),
            receiver,
            endpoint,
            sent_at,
            is_recorded: false,
        })
    }

    /// Gives so many of the slots to workers outside this process.
    pub fn hand_out(&mut self, count: usize) {
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
            let now = self.gate.env.now();
            self.gate.record_breaker_feedback(&self.provider, BreakerFeedback::Inconclusive, now, now);
        }
    }
}

/// The reason why a delivery that was granted a slot does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotStarted {
    /// The reservation has no slot left.
    NoSlot,
    /// The company has all the slots that it may have.
    CompanyBusy,
    Receiver(ReceiverWait),
}

/// The right of one delivery to be sent to its provider. However the delivery ends, its slot is free again.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    provider: Arc<Provider>,
    company: CompanyId,
    /// The far end that users chose, where they do.
    receiver: Option<ReceiverId>,
    /// The receiver's endpoint as it was when the delivery started, if it is one.
    endpoint: Option<Arc<Endpoint>>,
    sent_at: Timestamp,
    /// False until the delivery's end was recorded.
    is_recorded: bool,
}

impl Permit {
    /// Records the verdict of the delivery and frees its slot. Returns the hold that the answer placed on its receiver,
    /// if it did.
    pub fn record_verdict(mut self, job: &Job, verdict: &Verdict, now: Timestamp) -> Option<ReceiverHold> {
        self.end(DeliveryFeedback::of(job, verdict), now)
    }

    fn end(&mut self, feedback: DeliveryFeedback<'_>, now: Timestamp) -> Option<ReceiverHold> {
        self.is_recorded = true;
        // The delivery that takes the freed slot must know what this one found out.
        let hold = match &self.receiver {
            Some(id) => {
                // An answer from an address that the endpoint no longer has must not hold the new one.
                let feedback = match feedback {
                    DeliveryFeedback::Failed(..) if self.has_moved(id) => DeliveryFeedback::NotAsked,
                    feedback => feedback,
                };
                let hold =
                    self.gate.record_receiver_feedback(&self.provider, id, feedback, self.sent_at, now);
                self.provider.receivers.end(id, self.sent_at, now);
                hold
            }
            None => {
                self.gate.record_feedback(&self.provider, &self.company, feedback, self.sent_at, now);
                None
            }
        };
        self.provider.end(&self.company);
        hold
    }

    /// Returns true if the endpoint is gone or has another address since the delivery started.
    fn has_moved(&self, id: &ReceiverId) -> bool {
        let now = self.gate.endpoint_of(id);
        now.as_ref().map(|endpoint| &endpoint.url) != self.endpoint.as_ref().map(|endpoint| &endpoint.url)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_recorded {
            self.end(DeliveryFeedback::NotAsked, self.gate.env.now());
        }
    }
}

/// The hold on a receiver, and the end that the latest answer asked for.
#[derive(Debug)]
pub(crate) struct ReceiverHold {
    pub hold: SharedLimit,
    pub until: Timestamp,
}

impl Gate {
    /// Returns a receiver's endpoint; `None` for a host, and for an endpoint that is gone.
    fn endpoint_of(&self, id: &ReceiverId) -> Option<Arc<Endpoint>> {
        match &id.receiver {
            Receiver::Endpoint(id) => self.notifier.endpoints.get(id),
            Receiver::Host(_) => None,
        }
    }

    /// Returns the providers of a route that this process can send to, in the order to try them.
    pub(crate) fn targets(&self, route: &Route) -> Vec<ProviderTarget> {
        let Carrier::Transport(first) = &route.carrier else { return Vec::new() };
        let others = route.others.iter().map(|(name, transport)| (&**name, transport));
        let all = [(&*route.provider, first)].into_iter().chain(others);
        let target = |(name, transport): (&str, &Arc<dyn Transport>)| {
            let provider = self.providers.get(name)?.clone();
            Some(ProviderTarget { provider, transport: transport.clone() })
        };
        all.filter_map(target).collect()
    }

    /// Returns true while this process, because it stood still or was cut off, may not know a pause, a hold or a breaker
    /// that another node wrote.
    pub(crate) fn may_have_missed_changes(&self) -> bool {
        self.freshness.is_stale()
    }

    /// Returns the first provider of a route.
    pub(crate) fn provider_of(&self, route: &RouteName) -> Option<&Arc<Provider>> {
        self.providers.get(&self.env.routes.get(route.as_str())?.provider)
    }

    /// Reserves slots for up to `wanted` deliveries to this provider that may start now, of a route that waits
    /// `hold_max` at most for a quiet.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        wanted: usize,
        slots: SlotOwner,
        hold_max: Duration,
    ) -> Result<Reservation, Refusal> {
        let now = self.env.now();
        if self.may_have_missed_changes() {
            return Err(Refusal { why: RefusalReason::Store, until: Some(now.plus(STALE_LOOK_AFTER)) });
        }
        self.correct_clock(provider, now);
        let (granted, probe) = match provider.ask(wanted, slots, hold_max, now)? {
            Admittance::Granted(count) => (count, false),
            Admittance::ProbeDue => {
                self.take_probe(provider, hold_max).await?;
                provider.reserve_probe(slots);
                (1, true)
            }
        };
        let (gate, provider) = (self.clone(), provider.clone());
        Ok(Reservation { gate, provider, slots, granted, started: 0, probe })
    }

    /// Makes the terms of turns for a claim, and returns the time when the first held company is free again.
    pub(crate) fn turns(
        self: &Arc<Self>,
        provider: Option<&Arc<Provider>>,
        hold_max: Duration,
        granted: usize,
        turn_jobs: u32,
    ) -> (Turns, Option<Timestamp>) {
        let now = self.env.now();
        let mut quotas = Quotas::default();
        if let Some(provider) = provider {
            provider.bound_companies(&mut quotas, hold_max, now);
        }
        self.tenants.bound(&mut quotas, now);
        let Quotas { mut of, free_at, mut corrections } = quotas;
        corrections.sort_by(|(one, _), (other, _)| one.key.cmp(&other.key));
        for (limit, change) in corrections {
            self.change_limit(&limit, change, now);
        }
        let unbounded = u32::try_from(granted).unwrap_or(u32::MAX);
        of.retain(|_, quota| *quota < unbounded);
        let turns = Turns { batch: turn_jobs, weights: self.tenants.weights(), quota: Arc::new(of) };
        (turns, free_at)
    }

    /// Takes each of these deliveries from every rate that bounds it, and returns for each whether it may go.
    pub(crate) async fn draw_rates(
        self: &Arc<Self>,
        provider: Option<&Arc<Provider>>,
        companies: &[Option<&CompanyId>],
    ) -> Result<Vec<bool>, StoreError> {
        let now = self.env.now();
        let (mut draws, of) = self.rate_draws(provider, companies, now);
        if draws.is_empty() {
            return Ok(vec![true; companies.len()]);
        }
        let take = |draw: &RateDraw| (LimitChange::Take(draw.rate, draw.wanted), now);
        let asked: Vec<_> = draws.iter().map(|draw| (&*draw.limit, Some(take(draw)))).collect();
        let saved = self.shared.save(&asked).await?;
        drop(asked);
        for (draw, saved) in draws.iter_mut().zip(saved) {
            draw.got = saved.asked.unwrap_or(0);
        }
        let for_all = 0..usize::from(provider.is_some_and(|provider| provider.terms.rate.is_some()));
        let goes = companies.iter().map(|company| {
            let own = company.and_then(|company| of.get(company)).cloned().unwrap_or(0..0);
            let goes = for_all.clone().chain(own.clone()).all(|at| draws[at].used < draws[at].got);
            for_all.clone().chain(own).for_each(|at| draws[at].used += u32::from(goes));
            goes
        });
        let goes = goes.collect();
        let then = self.env.now();
        for RateDraw { limit, rate, got, used, .. } in draws {
            if got > used {
                self.change_limit(&limit, LimitChange::GiveBack(rate, got - used, now), then);
            }
            if used > 0 && Limit::needs_postdating(rate, now, then) {
                self.change_limit(&limit, LimitChange::Postdate(rate, used, now), then);
            }
        }
        Ok(goes)
    }

    /// Returns one draw for each rate that bounds these deliveries, the provider's first, and the range of draws of each
    /// company.
    fn rate_draws<'a>(
        &self,
        provider: Option<&Arc<Provider>>,
        companies: &[Option<&'a CompanyId>],
        now: Timestamp,
    ) -> (Vec<RateDraw>, HashMap<&'a CompanyId, Range<usize>>) {
        let (mut draws, mut of) = (Vec::new(), HashMap::new());
        if let Some((provider, rate)) = provider.and_then(|provider| Some((provider, provider.terms.rate?))) {
            let wanted = u32::try_from(companies.len()).unwrap_or(u32::MAX);
            draws.push(RateDraw::new(provider.limit.clone(), rate, wanted));
        }
        let company_rate = provider.and_then(|provider| Some((provider, provider.terms.company_rate?)));
        if company_rate.is_none() && !self.tenants.are_bounded() {
            return (draws, of);
        }
        let mut counts: BTreeMap<&CompanyId, u32> = BTreeMap::new();
        companies.iter().flatten().for_each(|company| *counts.entry(company).or_default() += 1);
        for (company, wanted) in counts {
            let first = draws.len();
            let here = company_rate.map(|(provider, rate)| (provider.company_limit(company, now), rate));
            let everywhere = self.tenants.limit(company);
            let own = here.into_iter().chain(everywhere);
            draws.extend(own.map(|(limit, rate)| RateDraw::new(limit, rate, wanted)));
            of.insert(company, first..draws.len());
        }
        (draws, of)
    }

    /// Records the result of a delivery to a receiver that users chose. A success also counts for the
    /// provider's breaker; a failure does not, because other receivers share the provider. Returns the hold
    /// that its answer asked for.
    fn record_receiver_feedback(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        id: &ReceiverId,
        feedback: DeliveryFeedback<'_>,
        sent_at: Timestamp,
        now: Timestamp,
    ) -> Option<ReceiverHold> {
        let for_breaker = match feedback {
            DeliveryFeedback::Delivered => BreakerFeedback::Succeeded(Duration::ZERO),
            DeliveryFeedback::Failed(..) | DeliveryFeedback::NotAsked => BreakerFeedback::Inconclusive,
        };
        self.record_breaker_feedback(provider, for_breaker, sent_at, now);
        let DeliveryFeedback::Failed(job, failure) = feedback else { return None };
        let asked = failure.retry_after.filter(|asked| !asked.is_zero() && failure.class.is_retryable())?;
        let hold = provider.receivers.hold_of(id, now)?;
        let until = now.plus(asked);
        self.change_limit(&hold, self.quiet(job, failure, until), now);
        Some(ReceiverHold { hold, until })
    }

    /// Writes the quiet that an answer asks for: its code, the wait, whether `hold_max` cut it, and its words.
    pub(super) fn quiet(&self, job: &Job, failure: &Failure, until: Timestamp) -> LimitChange {
        // Without a wish of the answer, a wait is a rule's.
        let max = (failure.asked_wait.is_some() || failure.retry_after.is_none())
            .then(|| self.env.routes.hold_max(&job.route));
        let mut why = failure.code.as_deref().unwrap_or("no code").to_owned();
        if let Some(asked) = failure.asked_wait {
            why += &format!(", Retry-After {} s", asked.as_millis().div_ceil(1_000));
            if let Some(given) = failure.retry_after.filter(|given| *given < asked) {
                why += &format!(" cut to {} by hold_max", recado_core::time::show_duration(given));
            }
        }
        let words = self.env.routes.redact(job, &failure.reason);
        LimitChange::Quiet { until, why: format!("{why}: {words}").into(), max }
    }

    /// Shortens a quiet that ends later than any answer can ask for.
    pub(crate) fn bound_quiet(self: &Arc<Self>, limit: &SharedLimit, max: Duration, now: Timestamp) {
        if limit.read(|limit| limit.quiet_exceeds(max, now)) {
            self.change_limit(limit, LimitChange::BoundQuiet(max), now);
        }
    }

    /// Saves the hold that an answer placed on a receiver; returns true when the store has it and it lasts.
    pub(crate) async fn save_receiver_hold(
        &self,
        asked: &ReceiverHold,
        hold_max: Duration,
        now: Timestamp,
    ) -> bool {
        self.shared.save(&[(&*asked.hold, None)]).await.is_ok()
            && asked
                .hold
                .read(|hold| hold.quiet(now))
                .and_then(|quiet| quiet.at_most(hold_max, now))
                .is_some()
    }

    /// Corrects times that lie in the future after the clock was set back, so that no job waits longer for them.
    fn correct_clock(self: &Arc<Self>, provider: &Arc<Provider>, now: Timestamp) {
        self.correct_breaker_clock(provider, now);
        if let Some(rate) = provider.terms.rate
            && provider.limit.read(|limit| limit.has_future_times(rate, now))
        {
            self.change_limit(&provider.limit, LimitChange::ClockSetBack(rate), now);
        }
        self.bound_quiet(&provider.limit, provider.longest_wait, now);
    }

    /// Changes a limit here at once, and saves the change in the background.
    pub(crate) fn change_limit(self: &Arc<Self>, limit: &SharedLimit, change: LimitChange, at: Timestamp) {
        self.shared.enqueue_write(limit, (change, at), |_| {});
    }

    /// Takes in what a read that began at `read_at` found in a namespace, and wakes the tasks that wait for changes.
    pub(crate) fn take_in(
        self: &Arc<Self>,
        namespace: Namespace,
        entries: &[KvEntry],
        read_at: Instant,
        source: Source,
    ) -> SyncResult {
        let found = NamespaceSnapshot::new(entries, read_at);
        let synced: SyncResult = match namespace {
            PROVIDERS => {
                return self.providers.values().map(|one| self.sync_control(one, &found, source)).collect();
            }
            LIMITS | RECEIVER_HOLDS => return self.sync_limits(namespace, &found),
            ROUTES => self.route_controls.values().map(|control| found.sync(control)).collect(),
            tenant_limits::NAMESPACE => self.tenants.sync(&found),
            TENANT_LIMITS => self.tenants.sync_limits(&found),
            _ => SyncResult::default(),
        };
        if synced.changed {
            self.changed.notify_waiters();
        }
        synced
    }

    /// Takes in the limits of providers and companies, or the holds on receivers.
    fn sync_limits(self: &Arc<Self>, namespace: Namespace, found: &NamespaceSnapshot<'_>) -> SyncResult {
        let now = self.env.now();
        // A company or a receiver that only the store knows is made known first.
        for key in found.keys() {
            if namespace == RECEIVER_HOLDS {
                if let Some((name, id)) = ReceiverId::read(key)
                    && let Some(provider) = self.providers.get(name)
                {
                    provider.receivers.hold_of(&id, now);
                }
            } else if let Some((name, company)) = key.rsplit_once('/')
                && let (Some(provider), Ok(company)) = (self.providers.get(name), CompanyId::new(company))
            {
                provider.company_limit(&company, now);
            }
        }
        let sync = |provider: &Arc<Provider>| {
            let limits =
                if namespace == RECEIVER_HOLDS { provider.receivers.holds() } else { provider.limits() };
            let synced: SyncResult =
                limits.iter().map(|limit| self.sync_limit(found, limit, provider, now)).collect();
            if synced.changed {
                provider.changed.notify_waiters();
            }
            synced
        };
        self.providers.values().map(sync).collect()
    }

    /// Has a limit take in what was found of it, and bounds the hold that comes with it.
    fn sync_limit(
        self: &Arc<Self>,
        found: &NamespaceSnapshot<'_>,
        limit: &SharedLimit,
        provider: &Provider,
        now: Timestamp,
    ) -> SyncResult {
        let is_held = |limit: &Limit| limit.quiet_at(now).is_some();
        let was_held = limit.read(is_held);
        let synced = found.sync(limit);
        if synced.changed {
            self.bound_quiet(limit, provider.longest_wait, now);
            // Claimers may sleep until the end of a hold that another node lifted.
            if was_held && !limit.read(is_held) {
                self.changed.notify_waiters();
            }
        }
        synced
    }
}

/// The namespaces of the gate, in the order to read them: a company's limit means nothing without its terms.
pub(crate) const NAMESPACES: [Namespace; 6] =
    [PROVIDERS, ROUTES, tenant_limits::NAMESPACE, LIMITS, RECEIVER_HOLDS, TENANT_LIMITS];

#[async_trait]
impl Synced for Arc<Gate> {
    fn namespaces(&self) -> &'static [Namespace] {
        &NAMESPACES
    }

    async fn sync(&self, namespace: Namespace) -> Result<SyncResult, StoreError> {
        let (read_at, now) = (Instant::now(), self.env.now());
        let entries = self.shared.kv.kv_list(namespace, now).await?;
        let synced = self.take_in(namespace, &entries, read_at, Source::AnotherNode);
        if namespace == tenant_limits::NAMESPACE && synced.changed {
            // Limits of companies that have terms only now were not taken in before.
            let limits = self.sync(TENANT_LIMITS).await?;
            return Ok([synced, limits].into_iter().collect());
        }
        Ok(synced)
    }
}

/// One rate, and what a batch of deliveries wants of it.
struct RateDraw {
    limit: SharedLimit,
    rate: Rate,
    wanted: u32,
    got: u32,
    used: u32,
}

impl RateDraw {
    fn new(limit: SharedLimit, rate: Rate, wanted: u32) -> Self {
        RateDraw { limit, rate, wanted, got: 0, used: 0 }
    }
}
