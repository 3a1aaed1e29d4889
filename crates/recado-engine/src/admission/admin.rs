//! Acts of operators and of the product's own code on providers, routes and companies.
//!
//! An operator's act is done when the store has it, on every node. The record of its actor and reason is
//! written in the same step, so neither is there without the other.

use std::sync::Arc;
use std::time::Duration;

use recado_core::breaker::{BreakerChange, BreakerState};
use recado_core::{AuditEvent, AuditKind, CompanyId, Event, EventData, EventKind, RouteName, Timestamp};

use recado_observe::Fact;

use crate::admission::control::{BreakerFeedback, ControlChange, Pause};
use crate::admission::hold_reason::words;
use crate::admission::provider::{Provider, ProviderView, Refusal, RefusalReason, SlotOwner};
use crate::admission::tenant_limits::{TenantTerms, TermsChange, TermsStep};
use crate::attempt::post_settle;
use crate::engine::{Engine, EngineError, Inner};
use crate::shared::value::make_on_record;

/// Admittance to code of the user's own that wants to ask a provider.
#[derive(Clone, Debug)]
pub struct PermitAnswer {
    pub permitted: bool,
    pub state: BreakerState,
    /// The reason of a no, in words, and the time to wait if that is known.
    pub reason: Option<String>,
    pub retry_after: Option<Duration>,
}

/// The actor of an act, and the reason.
#[derive(Clone, Copy)]
struct By<'a> {
    actor: Option<&'a str>,
    reason: Option<&'a str>,
}

impl By<'_> {
    fn record(self, audit: AuditEvent) -> AuditEvent {
        let audit = audit.by(self.actor);
        match self.reason {
            Some(reason) => audit.reason(reason.to_owned()),
            None => audit,
        }
    }

    fn pause(self, paused: bool, now: Timestamp) -> Option<Pause> {
        let (reason, actor) = (self.reason.map(Into::into), self.actor.map(Into::into));
        paused.then_some(Pause { since: now, reason, actor })
    }
}

impl Inner {
    /// A breaker's change of state, by this node's doing, is in the store: it is logged and told.
    pub fn swung(self: &Arc<Self>, provider: &Arc<Provider>, swing: Option<BreakerChange>, now: Timestamp) {
        let Some(swing) = swing else { return };
        self.ledger.record(&Fact::BreakerChanged { provider: &provider.name, change: swing }, now);
        let kind = match swing {
            BreakerChange::Opened => EventKind::CircuitBreakerOpened,
            BreakerChange::HalfOpened => EventKind::CircuitBreakerHalfOpen,
            BreakerChange::Closed => EventKind::CircuitBreakerClosed,
        };
        let view = provider.view(now);
        let reason = view.breaker.reason.as_deref();
        match swing {
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
            provider: Some(provider.name.clone()),
            status: Some(view.breaker.state.as_str().into()),
            failures: u32::try_from(view.failures_in_window).ok(),
            reason: view.breaker.reason.clone(),
            next_retry_time: view.breaker.next_probe_at,
            ..EventData::default()
        };
        let event = Event::new(kind, None, &[&provider.name], now, data);
        self.events.tell(event.clone());
        if kind == EventKind::CircuitBreakerOpened {
            let inner = self.clone();
            self.deliveries.spawn(async move { post_settle::notify(&inner, &event, now).await });
        }
    }
}

impl Engine {
    pub fn providers(&self) -> Vec<ProviderView> {
        let now = self.now();
        self.inner.providers.values().map(|provider| provider.view(now)).collect()
    }

    pub fn provider(&self, name: &str) -> Option<ProviderView> {
        self.inner.providers.get(name).map(|provider| provider.view(self.now()))
    }

    /// Opens or closes a breaker by hand. `None` when there is no such provider.
    pub async fn turn_breaker(
        &self,
        name: &str,
        open: bool,
        reason: &str,
        actor: Option<&str>,
    ) -> Result<Option<ProviderView>, EngineError> {
        let Some(provider) = self.inner.providers.get(name) else { return Ok(None) };
        let now = self.now();
        let why = actor.map_or_else(|| reason.to_owned(), |actor| format!("{reason} ({actor})"));
        let kind = if open { AuditKind::BreakerOpened } else { AuditKind::BreakerClosed };
        let by = By { actor, reason: Some(reason) };
        let audit = [by.record(AuditEvent::about_provider(name, kind, now))];
        let turn = ControlChange::Turn { open, why: why.into() };
        self.inner.change_valve_on_record(provider, turn, &audit, now).await?;
        tracing::warn!(provider = name, open, reason, actor, "Circuit breaker turned by hand");
        Ok(Some(provider.view(now)))
    }

    /// `None` when there is no such provider.
    pub async fn pause_provider(
        &self,
        name: &str,
        paused: bool,
        reason: Option<&str>,
        actor: Option<&str>,
    ) -> Result<Option<ProviderView>, EngineError> {
        let Some(provider) = self.inner.providers.get(name) else { return Ok(None) };
        let (now, by) = (self.now(), By { actor, reason });
        let kind = if paused { AuditKind::ProviderPaused } else { AuditKind::ProviderResumed };
        let audit = [by.record(AuditEvent::about_provider(name, kind, now))];
        let pause = ControlChange::Pause(by.pause(paused, now));
        self.inner.change_valve_on_record(provider, pause, &audit, now).await?;
        self.inner.said.notify_waiters();
        tracing::warn!(provider = name, paused, reason, actor, "Provider paused or resumed by hand");
        Ok(Some(provider.view(now)))
    }

    /// Pauses a route; returns false if there is none of that name.
    pub async fn pause_route(
        &self,
        name: &str,
        paused: bool,
        reason: Option<&str>,
        actor: Option<&str>,
    ) -> Result<bool, EngineError> {
        let Some(door) = self.inner.doors.get(name) else { return Ok(false) };
        let (now, by) = (self.now(), By { actor, reason });
        let kind = if paused { AuditKind::RoutePaused } else { AuditKind::RouteResumed };
        let audit = by.record(AuditEvent::about_route(name, kind, now));
        let asked = [(&**door, Some(by.pause(paused, now)))];
        make_on_record(&*self.inner.store, &asked, &|_| vec![audit.clone()], now).await?;
        self.inner.said.notify_waiters();
        tracing::warn!(route = name, paused, reason, actor, "Route paused or resumed by hand");
        Ok(true)
    }

    /// The pause of a route, if there is one.
    pub fn pause_of(&self, route: &RouteName) -> Option<Pause> {
        self.inner.pause_of(route)
    }

    pub fn tenant_terms(&self, company: &str) -> TenantTerms {
        self.inner.tenants.terms(company)
    }

    /// Companies that are treated in a way of their own.
    pub fn tenants_with_terms(&self) -> Vec<CompanyId> {
        self.inner.tenants.all()
    }

    /// Changes the named terms and nothing else, also when another operator changes something at the same
    /// time.
    pub async fn set_tenant(
        &self,
        company: &CompanyId,
        change: TermsChange,
        actor: Option<&str>,
    ) -> Result<TenantTerms, EngineError> {
        let (now, reason) = (self.now(), change.reason.as_deref());
        let by = By { actor, reason };
        let agreed = self.inner.tenants.agreed(company);
        let step = TermsStep { change: change.clone(), actor: actor.map(Into::into), at: now };
        let audit = |terms: &TenantTerms| terms_acts(company, &change, terms, by, now);
        make_on_record(&*self.inner.store, &[(&*agreed, Some(step))], &audit, now).await?;
        self.inner.tenants.said();
        self.inner.said.notify_waiters();
        let terms = agreed.read(TenantTerms::clone);
        tracing::warn!(companyId = %company, weight = terms.weight, maxPerMinute = terms.max_per_minute, paused = terms.paused, reason, actor, "Tenant's terms set");
        Ok(terms)
    }

    /// May the caller's own code ask this provider? `None` when there is no such provider.
    pub async fn permit(&self, name: &str) -> Option<PermitAnswer> {
        let provider = self.inner.providers.get(name)?;
        let admitted = self.admit_elsewhere(provider).await;
        let state = provider.valve.read(|valve| valve.breaker.state);
        let now = self.now();
        Some(match admitted {
            Ok(()) => PermitAnswer { permitted: true, state, reason: None, retry_after: None },
            Err(Refusal { why, until }) => PermitAnswer {
                permitted: false,
                state,
                reason: Some(words(&why)),
                retry_after: until.map(|until| until.since(now)),
            },
        })
    }

    async fn admit_elsewhere(&self, provider: &Arc<Provider>) -> Result<(), Refusal> {
        let mut places = self.inner.admit(provider, 1, SlotOwner::Outside, provider.longest_wait).await?;
        match self.inner.take(Some(provider), &[None]).await.as_deref() {
            Ok([true]) => {
                places.leave(1);
                Ok(())
            }
            Ok(_) => Err(Refusal { why: RefusalReason::Rate, until: None }),
            Err(error) => {
                tracing::warn!(provider = %provider.name, %error, "cannot spend a rate; the permit is refused");
                Err(Refusal { why: RefusalReason::Store, until: None })
            }
        }
    }

    /// Records the result of a permitted call. `None` when there is no such provider.
    pub fn tell_provider(
        &self,
        name: &str,
        well: bool,
        reason: &str,
        took: Duration,
    ) -> Option<ProviderView> {
        let provider = self.inner.providers.get(name)?;
        let now = self.now();
        let news =
            if well { BreakerFeedback::Succeeded(took) } else { BreakerFeedback::Failed(reason.into()) };
        self.inner.news(provider, news, now, now);
        Some(provider.view(now))
    }
}

/// The records of a change of a company's terms.
fn terms_acts(
    company: &CompanyId,
    change: &TermsChange,
    terms: &TenantTerms,
    by: By<'_>,
    now: Timestamp,
) -> Vec<AuditEvent> {
    let about = |kind| by.record(AuditEvent::about_company(company.as_str(), kind, now));
    let mut acts = Vec::new();
    if change.weight.is_some() || change.max_per_minute.is_some() {
        acts.push(about(AuditKind::TenantTermsSet).reason(told(terms, by.reason)));
    }
    acts.extend(change.paused.map(|paused| match paused {
        true => about(AuditKind::TenantPaused),
        false => about(AuditKind::TenantResumed),
    }));
    acts
}

/// A company's terms now, in words for the record.
fn told(terms: &TenantTerms, reason: Option<&str>) -> String {
    let bound = terms.max_per_minute.map_or_else(|| "no bound".to_owned(), |max| format!("{max} a minute"));
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("weight {}, {bound}{reason}", terms.weight)
}
