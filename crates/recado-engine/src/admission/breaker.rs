//! The circuit breaker's path: a delivery fails, the breaker counts it, it opens, all nodes know.
//!
//! 1. A delivery ends, and its [`Permit`](super::gate::Permit) calls [`Gate::record_feedback`].
//!    (Of deliveries to a receiver that users choose only a success counts:
//!    `Gate::record_receiver_feedback`.)
//! 2. [`Gate::record_breaker_feedback`] makes a [`ControlChange`] of it.
//! 3. [`ProviderControl::apply`] has the pure [`Breaker`] count the failure. The copy of this process changes at once, so
//!    the next delivery here sees it.
//! 4. [`SharedStore::enqueue_write`](crate::shared::value::SharedStore::enqueue_write) saves the step in the background, by
//!    compare-and-set, replayed on what other nodes wrote meanwhile.
//! 5. Once the store has a change of state, [`Gate::on_breaker_change`] logs it and publishes the event; only the node
//!    whose write made the change does.
//! 6. The other nodes read the namespace [`PROVIDERS`] again when the store hints at a change, and within
//!    about a second anyway ([`sync::run`](crate::shared::sync), `Gate::take_in`): [`Gate::sync_control`]
//!    takes the new state in and wakes their claimers.
//!
//! The way back is the same: when the reset time is over one claimer asks for the probe ([`Gate::take_probe`]), which
//! the store grants once over all nodes; the probe's feedback closes the breaker or opens it again.

use std::sync::Arc;
use std::time::Duration;

use recado_core::breaker::{Admission, Breaker, BreakerChange, BreakerState, BreakerTerms};
use recado_core::{
    AuditEvent, Blame, Class, CompanyId, Event, EventData, EventKind, EventOutcome, Failure, Job, Timestamp,
    Verdict,
};
use recado_observe::Fact;
use recado_store::{Namespace, StoreError};
use serde::{Deserialize, Serialize};

use crate::admission::control::Pause;
use crate::admission::gate::{ASK_AGAIN, Gate, QUIET_DEFAULT};
use crate::admission::provider::{Admittance, Provider, Refusal, RefusalReason, SlotOwner};
use crate::shared::sync::NamespaceSnapshot;
use crate::shared::value::{Replayable, SyncResult};

/// Controls of providers, by the provider's name.
pub(crate) const PROVIDERS: Namespace = Namespace::new("providers");

/// A provider's breaker and pause, shared by all nodes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProviderControl {
    pub breaker: Breaker,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

/// A change of a provider's control.
#[derive(Clone, Debug)]
pub(crate) enum ControlChange {
    /// A delivery asks for the probe.
    TakeProbe(BreakerTerms),
    /// A delivery that was sent at this time ended.
    Feedback { sent_at: Timestamp, terms: BreakerTerms, feedback: BreakerFeedback },
    /// The clock was set back since this was written.
    ClockSetBack(BreakerTerms),
    /// An operator opens the breaker.
    Open { reason: Box<str> },
    /// An operator closes the breaker.
    Close { reason: Box<str> },
    /// An operator pauses the provider, or resumes it.
    Pause(Option<Pause>),
}

/// The evidence of one delivery about its provider.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeliveryFeedback<'a> {
    Delivered,
    /// The failure, and the job that it was about.
    Failed(&'a Job, &'a Failure),
    /// The provider was never asked.
    NotAsked,
}

impl<'a> DeliveryFeedback<'a> {
    pub fn of(job: &'a Job, verdict: &'a Verdict) -> Self {
        match verdict {
            Verdict::Delivered { .. } => DeliveryFeedback::Delivered,
            Verdict::Partial { refused, .. } => {
                // A failure that blames the provider, if there is one.
                let mut failures = refused.iter().map(|(_, failure)| failure);
                let blamed = failures.find(|failure| failure.blame == Blame::Provider);
                blamed.map_or(DeliveryFeedback::Delivered, |failure| DeliveryFeedback::Failed(job, failure))
            }
            Verdict::Failed(failure) => DeliveryFeedback::Failed(job, failure),
        }
    }
}

/// The result of a delivery, as a breaker counts it.
#[derive(Clone, Debug)]
pub(crate) enum BreakerFeedback {
    /// It answered after this time.
    Succeeded(Duration),
    Failed(Box<str>),
    /// It says nothing about the provider.
    Inconclusive,
}

/// The result of a [`ControlChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlEffect {
    pub change: Option<BreakerChange>,
    /// The caller that asked for the probe has it.
    pub has_probe: bool,
}

impl Replayable for ProviderControl {
    /// A change, and its time.
    type Step = (ControlChange, Timestamp);
    type Effect = ControlEffect;

    fn apply(&mut self, (change, at): &Self::Step) -> ControlEffect {
        let breaker = &mut self.breaker;
        let mut has_probe = false;
        let change = match change {
            ControlChange::TakeProbe(terms) => {
                let (admission, change) = breaker.admit(terms, *at);
                has_probe = admission == Admission::Probe;
                change
            }
            ControlChange::Feedback { sent_at, .. } if !breaker.counts_result_sent_at(*sent_at) => None,
            ControlChange::Feedback { terms, feedback, .. } => match feedback {
                BreakerFeedback::Succeeded(took) => breaker.record_success(terms, *took, *at),
                BreakerFeedback::Failed(why) => breaker.record_failure(terms, why, *at),
                BreakerFeedback::Inconclusive => {
                    breaker.record_inconclusive_probe(*at);
                    None
                }
            },
            ControlChange::ClockSetBack(terms) => {
                breaker.clamp_future_times(terms, *at);
                None
            }
            ControlChange::Open { reason } => breaker.hold_open(reason, *at),
            ControlChange::Close { reason } => breaker.close(reason, *at),
            ControlChange::Pause(pause) => {
                self.paused.clone_from(pause);
                None
            }
        };
        ControlEffect { change, has_probe }
    }
}

/// The origin of a state that the store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// It was there before this process started.
    BeforeStart,
    AnotherNode,
}

impl Gate {
    /// Records what a delivery that was sent at `sent_at` says about its provider: for the breaker, for the pace of
    /// `adaptive`, and for the limit of the provider or of the company.
    pub(crate) fn record_feedback(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        company: &CompanyId,
        feedback: DeliveryFeedback<'_>,
        sent_at: Timestamp,
        now: Timestamp,
    ) {
        provider.adapt_pace(feedback);
        let took = now.since(sent_at);
        let for_breaker = match feedback {
            DeliveryFeedback::Delivered => BreakerFeedback::Succeeded(took),
            DeliveryFeedback::Failed(job, failure) => match (failure.blame, failure.class) {
                // A provider that says "slower" is alive.
                (Blame::Provider, Class::RateLimit) => BreakerFeedback::Succeeded(Duration::ZERO),
                (Blame::Provider, _) => {
                    BreakerFeedback::Failed(self.env.routes.redact(job, &failure.reason).into())
                }
                _ => BreakerFeedback::Inconclusive,
            },
            DeliveryFeedback::NotAsked => BreakerFeedback::Inconclusive,
        };
        self.record_breaker_feedback(provider, for_breaker, sent_at, now);
        if let DeliveryFeedback::Failed(job, failure) = feedback
            && failure.class == Class::RateLimit
        {
            let until = now.plus(failure.retry_after.unwrap_or(QUIET_DEFAULT));
            let quiet = self.quiet(job, failure, until);
            match failure.blame {
                Blame::Provider if failure.retry_after.is_some() => {
                    self.change_limit(&provider.limit, quiet, now);
                }
                Blame::Provider => {}
                Blame::Credential | Blame::Message => {
                    self.change_limit(&provider.company_limit(company, now), quiet, now);
                }
            }
        }
    }

    /// Has the breaker count a result: here at once, in the store in the background.
    pub(crate) fn record_breaker_feedback(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        feedback: BreakerFeedback,
        sent_at: Timestamp,
        now: Timestamp,
    ) {
        let Some(terms) = provider.terms.breaker else { return };
        // The hot path: a provider that is well and answers in time.
        if let BreakerFeedback::Succeeded(took) = feedback
            && terms.slow.is_none_or(|slow| took < slow)
            && provider.control.read(|control| control.breaker.state != BreakerState::HalfOpen)
        {
            return;
        }
        self.enqueue_control_change(provider, ControlChange::Feedback { sent_at, terms, feedback }, now);
    }

    /// Corrects times that lie in the future after the clock was set back.
    pub(super) fn correct_breaker_clock(self: &Arc<Self>, provider: &Arc<Provider>, now: Timestamp) {
        if let Some(terms) = provider.terms.breaker
            && provider.control.read(|control| control.breaker.has_future_times(&terms, now))
        {
            self.enqueue_control_change(provider, ControlChange::ClockSetBack(terms), now);
        }
    }

    /// Changes a provider's control here at once, and saves the change in the background.
    fn enqueue_control_change(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        change: ControlChange,
        at: Timestamp,
    ) {
        let (gate, about) = (self.clone(), provider.clone());
        let on_saved = move |effect: ControlEffect| gate.on_breaker_change(&about, effect.change);
        if self.shared.enqueue_write(&provider.control, (change, at), on_saved) {
            provider.changed.notify_waiters();
        }
    }

    /// Changes a provider's control, together with what an operator's act puts on the audit trail, and returns when the
    /// store has it.
    pub(super) async fn save_control_change(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        change: ControlChange,
        audit: &[AuditEvent],
    ) -> Result<ControlEffect, StoreError> {
        let asked = [(&*provider.control, Some((change, self.env.now())))];
        let saved = self.shared.save_with_audit(&asked, &|_| audit.to_vec()).await?.pop();
        provider.changed.notify_waiters();
        let Some(saved) = saved else {
            return Err(StoreError::Unavailable("the store answered no result".to_owned()));
        };
        let asked = saved.asked.unwrap_or(ControlEffect { change: None, has_probe: false });
        for effect in saved.pending.into_iter().chain([asked]) {
            self.on_breaker_change(provider, effect.change);
        }
        Ok(asked)
    }

    /// Logs and announces a breaker's change of state that this node made and the store has.
    fn on_breaker_change(self: &Arc<Self>, provider: &Arc<Provider>, change: Option<BreakerChange>) {
        let Some(change) = change else { return };
        let now = self.env.now();
        self.env.metrics.record(&Fact::BreakerChanged { provider: &provider.name, change });
        let kind = match change {
            BreakerChange::Opened => EventKind::CircuitBreakerOpened,
            BreakerChange::HalfOpened => EventKind::CircuitBreakerHalfOpen,
            BreakerChange::Closed => EventKind::CircuitBreakerClosed,
        };
        let view = provider.view(now);
        let reason = view.breaker.reason.as_deref();
        match change {
            BreakerChange::Opened => {
                tracing::error!(event = kind.as_str(), provider = %provider.name, reason, nextProbeAt = view.breaker.next_probe_at.map(|at| at.to_string()), "Circuit breaker opened; its jobs wait and spend no attempt");
            }
            BreakerChange::HalfOpened => {
                tracing::info!(event = kind.as_str(), provider = %provider.name, "Circuit breaker half open: one probe goes out");
            }
            BreakerChange::Closed => {
                tracing::info!(event = kind.as_str(), provider = %provider.name, "Circuit breaker closed: the provider is back");
            }
        }
        let data = EventData {
            status: Some(view.breaker.state.as_str().into()),
            outcome: EventOutcome { next_retry_time: view.breaker.next_probe_at, ..EventOutcome::default() },
            provider: Some(provider.name.clone()),
            failures: u32::try_from(view.failures_in_window).ok(),
            reason: view.breaker.reason.clone(),
            ..EventData::default()
        };
        let event = Event::new(kind, None, &[&provider.name], now, data);
        self.notifier.events.publish(event.clone());
        if kind == EventKind::CircuitBreakerOpened {
            let notifier = self.notifier.clone();
            self.env.lifecycle.deliveries.spawn(async move { notifier.notify(&event, now).await });
        }
    }

    /// Takes in a provider's control as the store has it, and wakes the claimers that wait for changes.
    pub(super) fn sync_control(
        &self,
        provider: &Provider,
        found: &NamespaceSnapshot<'_>,
        source: Source,
    ) -> SyncResult {
        let state = || provider.control.read(|control| control.breaker.state);
        let before = state();
        let synced = found.sync(&provider.control);
        if !synced.changed {
            return synced;
        }
        // The node that caused the change tells of it.
        if state() != before {
            let message = match source {
                Source::BeforeStart => "Circuit breaker state restored from the store",
                Source::AnotherNode => "Circuit breaker changed on another node",
            };
            tracing::info!(provider = %provider.name, state = state().as_str(), "{message}");
        }
        provider.changed.notify_waiters();
        self.changed.notify_waiters();
        synced
    }

    /// Takes the probe of a half-open breaker, which the store grants once over all nodes.
    pub(super) async fn take_probe(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        hold_max: Duration,
    ) -> Result<(), Refusal> {
        let Some(terms) = provider.terms.breaker else { return Ok(()) };
        let now = self.env.now();
        let again = Some(now.plus(ASK_AGAIN));
        match self.save_control_change(provider, ControlChange::TakeProbe(terms), &[]).await {
            Ok(ControlEffect { has_probe: true, .. }) => Ok(()),
            Ok(_) => Err(match provider.ask(1, SlotOwner::Outside, hold_max, now) {
                Err(refusal) => refusal,
                // The breaker closed, or another node's probe has already ended.
                Ok(admittance) => {
                    if let Admittance::Granted(count) = admittance {
                        provider.unreserve(count);
                    }
                    Refusal { why: RefusalReason::Busy, until: again }
                }
            }),
            Err(error) => {
                tracing::warn!(provider = %provider.name, %error, "Cannot ask the store for a probe; trying again");
                Err(Refusal { why: RefusalReason::Store, until: again })
            }
        }
    }
}
