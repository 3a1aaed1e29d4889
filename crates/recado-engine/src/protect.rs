//! What operators and the product's own code see and do of providers and tenants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recado_core::breaker::{Breaker, BreakerState, Swing};
use recado_core::{CompanyId, Event, EventData, EventKind, Payload, Timestamp};
use recado_store::{NoteWrite, Shelf, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::aftermath;
use crate::engine::{Engine, EngineError, Inner};
use crate::providers::{Grant, Held, Pause, Provider, ProviderView};
use crate::route::Route;
use crate::tenants::TenantTerms;

/// What has to survive a restart of each provider.
const PROVIDERS: Shelf = Shelf::new("providers");

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Kept {
    breaker: Breaker,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<Pause>,
}

/// Answer to whoever wants to ask a provider by code of its own.
#[derive(Clone, Debug)]
pub struct Permit {
    pub permitted: bool,
    pub state: BreakerState,
    /// Why not, in words, and how long to wait if that is known.
    pub reason: Option<String>,
    pub retry_after: Option<Duration>,
}

impl Inner {
    /// A breaker may have changed its state: it is written down, logged and told.
    pub fn swung(self: &Arc<Self>, provider: &Arc<Provider>, swing: Option<Swing>, now: Timestamp) {
        let Some(swing) = swing else { return };
        let kind = match swing {
            Swing::Opened => EventKind::CircuitBreakerOpened,
            Swing::HalfOpened => EventKind::CircuitBreakerHalfOpen,
            Swing::Closed => EventKind::CircuitBreakerClosed,
        };
        let view = provider.view(now);
        let reason = view.breaker.reason.as_deref();
        match swing {
            Swing::Opened => {
                tracing::error!(event = kind.as_str(), provider = %provider.name, reason, nextProbeAt = view.breaker.next_probe_at.map(|at| at.to_string()), "Circuit breaker opened; its jobs wait and spend no attempt");
            }
            Swing::HalfOpened => {
                tracing::info!(event = kind.as_str(), provider = %provider.name, "Circuit breaker half open: one probe goes out");
            }
            Swing::Closed => {
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
        // At once, so that the stream has them in the order they happened.
        self.events.tell(event.clone());
        let (inner, provider) = (self.clone(), provider.clone());
        self.deliveries.spawn(async move {
            if let Err(error) = inner.write_down(&provider, now).await {
                tracing::warn!(%error, provider = %provider.name, "cannot write the breaker's state down; a restart would forget it");
            }
            if kind == EventKind::CircuitBreakerOpened {
                aftermath::notify(&inner, &event, now).await;
            }
        });
    }

    async fn write_down(&self, provider: &Provider, now: Timestamp) -> Result<(), StoreError> {
        let kept = Kept { breaker: provider.breaker(), paused: provider.view(now).paused };
        let value = serde_json::to_string(&kept).ok().map(Payload::trusted);
        let key = provider.name.clone();
        let write = NoteWrite { shelf: PROVIDERS, key, value, expect: None, expires_at: None };
        self.store.write_notes(vec![write], now).await.map(drop)
    }
}

/// What the last process knew of its providers.
pub(crate) async fn kept(store: &dyn Store, now: Timestamp) -> Result<Vec<(Box<str>, Kept)>, StoreError> {
    let notes = store.notes(PROVIDERS, now).await?;
    Ok(notes.into_iter().filter_map(|note| Some((note.key, note.value.parse().ok()?))).collect())
}

pub(crate) fn restore(providers: &BTreeMap<Box<str>, Arc<Provider>>, kept: Vec<(Box<str>, Kept)>) {
    for (name, kept) in kept {
        if let Some(provider) = providers.get(&name) {
            provider.restore(kept.breaker);
            provider.set_pause(kept.paused);
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
        let why = match actor {
            Some(actor) => format!("{reason} ({actor})"),
            None => reason.to_owned(),
        };
        let swing = provider.turn(open, &why, now);
        self.inner.write_down(provider, now).await?;
        self.inner.swung(provider, swing, now);
        tracing::warn!(provider = name, open, reason, actor, "Circuit breaker turned by hand");
        Ok(Some(provider.view(now)))
    }

    pub async fn pause_provider(
        &self,
        name: &str,
        paused: bool,
        reason: Option<&str>,
        actor: Option<&str>,
    ) -> Result<Option<ProviderView>, EngineError> {
        let Some(provider) = self.inner.providers.get(name) else { return Ok(None) };
        let now = self.now();
        provider.set_pause(paused.then(|| Pause {
            since: now,
            reason: reason.map(Into::into),
            actor: actor.map(Into::into),
        }));
        self.inner.write_down(provider, now).await?;
        tracing::warn!(provider = name, paused, reason, actor, "Provider paused or resumed by hand");
        Ok(Some(provider.view(now)))
    }

    /// May the caller's own code ask this provider?
    pub fn permit(&self, name: &str) -> Option<Permit> {
        let provider = self.inner.providers.get(name)?;
        let now = self.now();
        let (grant, swing) = provider.permit(now);
        self.inner.swung(provider, swing, now);
        let state = provider.breaker().state;
        Some(match grant {
            Grant::None { why, until } => Permit {
                permitted: false,
                state,
                reason: Some(words(&why)),
                retry_after: until.map(|until| until.since(now)),
            },
            _ => Permit { permitted: true, state, reason: None, retry_after: None },
        })
    }

    /// How a permitted call went. `None` when there is no such provider.
    pub fn tell_provider(
        &self,
        name: &str,
        well: bool,
        reason: &str,
        took: Duration,
    ) -> Option<ProviderView> {
        let provider = self.inner.providers.get(name)?;
        let now = self.now();
        let swing = provider.told(well, reason, took, now);
        self.inner.swung(provider, swing, now);
        Some(provider.view(now))
    }

    pub fn tenant_terms(&self, company: &str) -> TenantTerms {
        self.inner.tenants.terms(company)
    }

    pub fn tenants_with_terms(&self) -> Vec<(CompanyId, TenantTerms)> {
        self.inner.tenants.all()
    }

    pub async fn set_tenant(&self, company: &CompanyId, terms: TenantTerms) -> Result<(), EngineError> {
        tracing::warn!(companyId = %company, weight = terms.weight, maxPerMinute = terms.max_per_minute, paused = terms.paused, "Tenant's terms set");
        self.inner.tenants.set(&*self.inner.store, company, terms, self.now()).await?;
        Ok(())
    }

    /// What holds this company's jobs of this route back although they are due, if anything does.
    pub fn hold(&self, route: &str, company: &str) -> Option<Hold> {
        let now = self.now();
        if let Some((_, until)) = self.inner.tenants.held(company, now) {
            let (by, why) = match self.inner.tenants.terms(company).paused {
                true => (Holder::Pause, "tenant paused"),
                false => (Holder::Limit, "the tenant's rate is used up"),
            };
            return Some(Hold { by, why: why.to_owned(), until });
        }
        let route = self.routes().get(route)?;
        let company = CompanyId::new(company).ok();
        self.hold_by_providers(route, |provider| {
            provider.view(now).held.or_else(|| provider.company_held(company.as_ref()?, now))
        })
    }

    /// What holds a whole route back, if anything does. Its other providers have to be held, too.
    pub fn route_hold(&self, route: &Route) -> Option<Hold> {
        self.hold_by_providers(route, |provider| provider.view(self.now()).held)
    }

    fn hold_by_providers(
        &self,
        route: &Route,
        held: impl Fn(&Provider) -> Option<(Held, Option<Timestamp>)>,
    ) -> Option<Hold> {
        let now = self.now();
        let mut hold: Option<Hold> = None;
        for name in route.providers() {
            let (why, until) = held(self.inner.providers.get(name)?)?;
            // A probe that is due lets one job through: it waits for its turn, not for the breaker.
            if until.is_some_and(|until| until <= now) {
                return None;
            }
            let earliest =
                |known: Hold| Hold { until: [known.until, until].into_iter().flatten().min(), ..known };
            hold = Some(hold.map_or_else(|| Hold::new(&why, until), earliest));
        }
        hold
    }

    /// Why this company's jobs of this route wait although they are due, and until when, as far as anybody knows.
    pub fn why_waiting(&self, route: &str, company: &str) -> Option<(String, Option<Timestamp>)> {
        self.hold(route, company).map(|hold| (hold.why, hold.until))
    }
}

impl ProviderView {
    /// What holds its lanes back, if anything does.
    pub fn hold(&self) -> Option<Hold> {
        self.held.as_ref().map(|(why, until)| Hold::new(why, *until))
    }
}

/// What keeps jobs that are due from going out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub by: Holder,
    pub why: String,
    /// As far as anybody knows.
    pub until: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Breaker,
    Limit,
    Pause,
}

impl Hold {
    fn new(why: &Held, until: Option<Timestamp>) -> Self {
        let by = match why {
            Held::Breaker { .. } => Holder::Breaker,
            Held::Paused(_) => Holder::Pause,
            Held::Rate | Held::Quiet | Held::Busy => Holder::Limit,
        };
        Hold { by, why: words(why), until }
    }
}

fn words(why: &Held) -> String {
    match why {
        Held::Breaker { state, reason } => {
            format!("circuit breaker {}: {}", state.as_str(), reason.as_deref().unwrap_or("no reason given"))
        }
        Held::Rate => "the provider's rate is used up".to_owned(),
        Held::Quiet => "the provider asked for quiet".to_owned(),
        Held::Paused(reason) => format!("paused: {}", reason.as_deref().unwrap_or("no reason given")),
        Held::Busy => "all slots are taken".to_owned(),
    }
}
