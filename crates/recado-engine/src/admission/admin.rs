//! Acts of operators and of the product's own code on providers, routes and companies.
//!
//! An operator's act is done when the store has it, on every node. The record of its actor and reason is
//! written in the same step, so neither is there without the other.

use std::sync::Arc;
use std::time::Duration;

use recado_core::breaker::BreakerState;
use recado_core::{AuditEvent, AuditKind, CompanyId, Timestamp};

use crate::admission::breaker::{BreakerFeedback, ControlChange};
use crate::admission::control::Pause;
use crate::admission::gate::Gate;
use crate::admission::hold_reason::HoldReason;
use crate::admission::provider::{Provider, ProviderView, Refusal, RefusalReason, SlotOwner};
use crate::admission::tenant_limits::{TenantTerms, TermsChange, TermsStep};
use crate::error::Result;

/// The answer to a user's program that asks whether it may call a provider.
#[derive(Clone, Debug)]
pub struct PermitAnswer {
    pub permitted: bool,
    pub state: BreakerState,
    /// The reason of a no, in words, and the time to wait if that is known.
    pub reason: Option<String>,
    pub retry_after: Option<Duration>,
}

/// An operator's act on a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderAct {
    OpenBreaker,
    CloseBreaker,
    Pause,
    Resume,
}

/// An operator's act on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAct {
    Pause,
    Resume,
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

    /// The reason and the actor in words, for a breaker.
    fn words(self) -> Box<str> {
        let reason = self.reason.unwrap_or_default();
        self.actor.map_or_else(|| reason.into(), |actor| format!("{reason} ({actor})").into())
    }

    fn pause(self, now: Timestamp) -> Pause {
        Pause { since: now, reason: self.reason.map(Into::into), actor: self.actor.map(Into::into) }
    }
}

impl Gate {
    pub fn provider_views(&self) -> Vec<ProviderView> {
        let now = self.env.now();
        self.providers.values().map(|provider| provider.view(now)).collect()
    }

    pub fn provider_view(&self, name: &str) -> Option<ProviderView> {
        self.providers.get(name).map(|provider| provider.view(self.env.now()))
    }

    /// Acts on a provider for an operator. `None` when there is no such provider.
    pub async fn act_on_provider(
        self: &Arc<Self>,
        name: &str,
        act: ProviderAct,
        reason: Option<&str>,
        actor: Option<&str>,
    ) -> Result<Option<ProviderView>> {
        let Some(provider) = self.providers.get(name) else { return Ok(None) };
        let (now, by) = (self.env.now(), By { actor, reason });
        let (kind, change) = match act {
            ProviderAct::OpenBreaker => {
                (AuditKind::BreakerOpened, ControlChange::Open { reason: by.words() })
            }
            ProviderAct::CloseBreaker => {
                (AuditKind::BreakerClosed, ControlChange::Close { reason: by.words() })
            }
            ProviderAct::Pause => (AuditKind::ProviderPaused, ControlChange::Pause(Some(by.pause(now)))),
            ProviderAct::Resume => (AuditKind::ProviderResumed, ControlChange::Pause(None)),
        };
        let audit = [by.record(AuditEvent::about_provider(name, kind, now))];
        self.save_control_change(provider, change, &audit).await?;
        match act {
            ProviderAct::OpenBreaker | ProviderAct::CloseBreaker => {
                let open = act == ProviderAct::OpenBreaker;
                tracing::warn!(
                    provider = name,
                    open,
                    reason,
                    actor,
                    "Circuit breaker opened or closed by hand"
                );
            }
            ProviderAct::Pause | ProviderAct::Resume => {
                self.changed.notify_waiters();
                let paused = act == ProviderAct::Pause;
                tracing::warn!(provider = name, paused, reason, actor, "Provider paused or resumed by hand");
            }
        }
        Ok(Some(provider.view(now)))
    }

    /// Pauses or resumes a route; returns false if there is none of that name.
    pub async fn act_on_route(
        &self,
        name: &str,
        act: RouteAct,
        reason: Option<&str>,
        actor: Option<&str>,
    ) -> Result<bool> {
        let Some(control) = self.route_controls.get(name) else { return Ok(false) };
        let (now, by, paused) = (self.env.now(), By { actor, reason }, act == RouteAct::Pause);
        let kind = if paused { AuditKind::RoutePaused } else { AuditKind::RouteResumed };
        let audit = by.record(AuditEvent::about_route(name, kind, now));
        let pause = paused.then(|| by.pause(now));
        self.shared.save_with_audit(&[(&**control, Some(pause))], &|_| vec![audit.clone()]).await?;
        self.changed.notify_waiters();
        tracing::warn!(route = name, paused, reason, actor, "Route paused or resumed by hand");
        Ok(true)
    }

    /// Changes the named terms and nothing else, also when another operator changes something at the same
    /// time.
    pub async fn set_tenant(
        &self,
        company: &CompanyId,
        change: TermsChange,
        actor: Option<&str>,
    ) -> Result<TenantTerms> {
        let (now, reason) = (self.env.now(), change.reason.as_deref());
        let by = By { actor, reason };
        let shared = self.tenants.shared_terms(company);
        let step = TermsStep { change: change.clone(), actor: actor.map(Into::into), at: now };
        let audit = |terms: &TenantTerms| terms_acts(company, &change, terms, by, now);
        self.shared.save_with_audit(&[(&*shared, Some(step))], &audit).await?;
        self.tenants.refresh();
        self.changed.notify_waiters();
        let terms = shared.read(TenantTerms::clone);
        tracing::warn!(companyId = %company, weight = terms.weight, maxPerMinute = terms.max_per_minute, paused = terms.paused, reason, actor, "Tenant's terms set");
        Ok(terms)
    }

    /// Tells whether the caller's own code may call this provider now. `None` when there is no such provider.
    pub async fn permit(self: &Arc<Self>, name: &str) -> Option<PermitAnswer> {
        let provider = self.providers.get(name)?;
        let admitted = self.admit_elsewhere(provider).await;
        let state = provider.control.read(|control| control.breaker.state);
        let now = self.env.now();
        let hold = admitted.err().map(|refusal| HoldReason::new(&refusal));
        Some(PermitAnswer {
            permitted: hold.is_none(),
            state,
            retry_after: hold.as_ref().and_then(|hold| hold.until).map(|until| until.since(now)),
            reason: hold.map(|hold| hold.why),
        })
    }

    async fn admit_elsewhere(self: &Arc<Self>, provider: &Arc<Provider>) -> Result<(), Refusal> {
        let mut reservation = self.reserve(provider, 1, SlotOwner::Outside, provider.longest_wait).await?;
        match self.draw_rates(Some(provider), &[None]).await.as_deref() {
            Ok([true]) => {
                reservation.hand_out(1);
                Ok(())
            }
            Ok(_) => Err(Refusal::without_end(RefusalReason::Rate)),
            Err(error) => {
                tracing::warn!(provider = %provider.name, %error, "Cannot spend a rate; the permit is refused");
                Err(Refusal::without_end(RefusalReason::Store))
            }
        }
    }

    /// Records the result of a permitted call: the time that it took, or the reason why it failed. `None` when there is
    /// no such provider.
    pub fn record_call(self: &Arc<Self>, name: &str, result: Result<Duration, &str>) -> Option<ProviderView> {
        let provider = self.providers.get(name)?;
        let now = self.env.now();
        let failed = |reason: &str| BreakerFeedback::Failed(reason.into());
        let feedback = result.map_or_else(failed, BreakerFeedback::Succeeded);
        self.record_breaker_feedback(provider, feedback, now, now);
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
        acts.push(about(AuditKind::TenantTermsSet).reason(terms_in_words(terms, by.reason)));
    }
    acts.extend(change.paused.map(|paused| match paused {
        true => about(AuditKind::TenantPaused),
        false => about(AuditKind::TenantResumed),
    }));
    acts
}

/// A company's terms now, in words for the record.
fn terms_in_words(terms: &TenantTerms, reason: Option<&str>) -> String {
    let bound = terms.max_per_minute.map_or_else(|| "no bound".to_owned(), |max| format!("{max} a minute"));
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("weight {}, {bound}{reason}", terms.weight)
}
