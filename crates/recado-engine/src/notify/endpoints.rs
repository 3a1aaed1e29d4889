//! Webhook endpoints: a company's receivers, and the results of their deliveries.
//!
//! The store has the truth, by compare-and-set; this registry is what a delivery reads. An endpoint that fails
//! ten times in a row is switched off, one that says 410 at once; an operator switches it on again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::RwLock;
use recado_core::random::UuidV7;
use recado_core::{AuditEvent, AuditKind, CompanyId, Event, EventData, EventKind, Fault, Timestamp};
use recado_store::{KeyValue, Namespace, StoreError};
use recado_transport::Url;
use recado_transport_webhook::{Endpoints, Secret, Target};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::notify::notices::{NOTICES_COMPANY, OURSELVES};
use crate::shared::cache::{BelongsToCompany, NamespaceCache};

pub const NAMESPACE: Namespace = Namespace::new("endpoints");

/// Failures in a row after which an endpoint is switched off.
pub const FAILURES_MAX: u32 = 10;

/// Time for which the secret before the newest one still signs.
pub const ROTATION: Duration = Duration::from_secs(24 * 60 * 60);

/// Secrets of an endpoint that are valid at a time at most: the newest, and the one before it while it is rotated out.
const SECRETS_MAX: usize = 2;

/// Endpoints that one company may have.
pub const PER_COMPANY_MAX: usize = 100;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    pub id: Box<str>,
    pub company_id: CompanyId,
    pub url: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Box<str>>,
    /// Events that it subscribes to; all when empty.
    #[serde(default)]
    pub events: Vec<EventKind>,
    /// Newest first.
    secrets: Vec<Signing>,
    pub enabled: bool,
    /// In a row.
    #[serde(default)]
    pub failures: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<Box<str>>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Time at which it was last switched on by hand; absent since it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    enabled_at: Option<Timestamp>,
}

impl BelongsToCompany for Endpoint {
    fn company(&self) -> &CompanyId {
        &self.company_id
    }
}

/// A secret that signs, for ever or until it has been rotated out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signing {
    secret: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
}

impl std::fmt::Debug for Signing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signing").field("until", &self.until).finish_non_exhaustive()
    }
}

/// A change of an endpoint, or what a new one is made of; `None` stays.
#[derive(Clone, Debug, Default)]
pub struct EndpointChange {
    pub url: Option<Box<str>>,
    pub description: Option<Box<str>>,
    pub events: Option<Vec<EventKind>>,
    /// Signs from now on, beside the last one for a day.
    pub secret: Option<Secret>,
    pub enabled: Option<bool>,
}

impl Endpoint {
    pub fn subscribes_to(&self, kind: EventKind) -> bool {
        self.enabled && (self.events.is_empty() || self.events.contains(&kind))
    }

    /// Handed out when it is made or changed, and never again.
    pub fn newest_secret(&self) -> &str {
        self.secrets.first().map_or("", |signing| &signing.secret)
    }

    /// Returns the time at which the secret before the newest one stops signing, if there is one.
    pub fn rotating_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.secrets.iter().filter_map(|signing| signing.until).filter(|until| *until > now).max()
    }

    pub fn target(&self, now: Timestamp) -> Option<Target> {
        let current = self.secrets.iter().filter(|signing| signing.until.is_none_or(|until| until > now));
        let current = current.take(SECRETS_MAX);
        let secrets: Vec<_> = current.filter_map(|signing| signing.secret.parse().ok()).collect();
        let url = self.url.parse().ok().filter(|_| !secrets.is_empty())?;
        Some(Target { url, secrets, enabled: self.enabled })
    }

    fn change(&mut self, change: EndpointChange, now: Timestamp) {
        if let Some(secret) = change.secret {
            for signing in &mut self.secrets {
                signing.until = signing.until.or(Some(now.plus(ROTATION)));
            }
            self.secrets.retain(|signing| signing.until.is_none_or(|until| until > now));
            // The newest and the one before it sign, and no third.
            self.secrets.truncate(SECRETS_MAX - 1);
            self.secrets.insert(0, Signing { secret: secret.reveal().into(), until: None });
        }
        if let Some(url) = change.url {
            self.url = url;
        }
        if let Some(description) = change.description {
            self.description = Some(description).filter(|text| !text.is_empty());
        }
        if let Some(events) = change.events {
            self.events = events;
        }
        match change.enabled {
            Some(true) => {
                (self.enabled, self.failures, self.enabled_at) = (true, 0, Some(now));
                (self.disabled_at, self.disabled_reason) = (None, None);
            }
            Some(false) => self.disable("switched off by hand", now),
            None => {}
        }
        self.updated_at = now;
    }

    fn act(&self, kind: AuditKind, actor: &str, now: Timestamp) -> AuditEvent {
        AuditEvent::about_endpoint(&self.id, &self.company_id, kind, now).by(Some(actor))
    }

    /// The records of a change: one for its fields, one for its secret, one for its switch. They name what changed and
    /// repeat nothing of it: an address may hold a token.
    fn acts(&self, change: &EndpointChange, actor: &str, now: Timestamp) -> Vec<AuditEvent> {
        let fields = [
            ("url", change.url.is_some()),
            ("description", change.description.is_some()),
            ("events", change.events.is_some()),
        ];
        let fields: Vec<_> = fields.into_iter().filter_map(|(name, is_new)| is_new.then_some(name)).collect();
        let mut acts = Vec::new();
        if !fields.is_empty() {
            let words = format!("Changed: {}", fields.join(", "));
            acts.push(self.act(AuditKind::EndpointChanged, actor, now).reason(words));
        }
        if change.secret.is_some() {
            acts.push(self.act(AuditKind::EndpointSecretRotated, actor, now));
        }
        acts.extend(change.enabled.map(|enabled| match enabled {
            true => self.act(AuditKind::EndpointEnabled, actor, now),
            false => self.act(AuditKind::EndpointDisabled, actor, now),
        }));
        acts
    }

    fn disable(&mut self, why: &str, now: Timestamp) {
        self.enabled = false;
        self.disabled_at = Some(now);
        self.disabled_reason = Some(why.into());
    }

    fn disabled_event(&self, now: Timestamp) -> Event {
        let data = EventData {
            endpoint_id: Some(self.id.clone()),
            failures: Some(self.failures),
            reason: self.disabled_reason.clone(),
            ..EventData::default()
        };
        let since = self.enabled_at.unwrap_or(self.created_at).as_millis().to_string();
        let company = Some(self.company_id.clone());
        Event::once(EventKind::EndpointDisabled, company, &[&self.id, &since], now, data)
    }

    /// A delivery to it ended. Others may have failed at the same time: the first one's words stay.
    fn count(&mut self, result: EndpointResult, now: Timestamp) {
        if !self.enabled {
            return;
        }
        self.failures = if result == EndpointResult::Delivered { 0 } else { self.failures.saturating_add(1) };
        match result {
            EndpointResult::Gone => self.disable("it answered 410 Gone", now),
            EndpointResult::Failed if self.failures >= FAILURES_MAX => {
                self.disable(&format!("{} deliveries in a row failed", self.failures), now);
            }
            _ => {}
        }
    }
}

/// The result of a delivery to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointResult {
    Delivered,
    Failed,
    /// The endpoint answered 410 Gone.
    Gone,
}

#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no such endpoint")]
    Unknown,
    #[error("the company has {PER_COMPANY_MAX} endpoints; remove one first")]
    TooMany,
    #[error("the endpoint kept changing while this was written; try again")]
    Contended,
}

/// All endpoints, as this process knows them.
#[derive(Debug)]
pub struct EndpointRegistry {
    pub(crate) cache: NamespaceCache<Endpoint>,
    /// The operator's own, for notices: no company's job can name them.
    fixed: RwLock<HashMap<Box<str>, Target>>,
}

impl EndpointRegistry {
    pub fn new(kv: Arc<dyn KeyValue>, clock: Arc<dyn Clock>) -> Self {
        EndpointRegistry { cache: NamespaceCache::new(NAMESPACE, kv, clock), fixed: RwLock::default() }
    }

    /// An endpoint that the configuration names, for notices alone.
    pub fn fix(&self, id: &str, url: Url, secret: Secret) {
        let target = Target { url, secrets: vec![secret], enabled: true };
        self.fixed.write().insert(id.into(), target);
    }

    pub fn get(&self, id: &str) -> Option<Arc<Endpoint>> {
        self.cache.get(id)
    }

    /// Lists endpoints, all or one company's, from the first one after an id on: oldest first, for ids begin with the time.
    pub fn list(&self, company: Option<&str>, after: Option<&str>, max: usize) -> Vec<Arc<Endpoint>> {
        self.cache.list(company, after, max)
    }

    /// Returns the endpoints of a company that subscribe to this event.
    pub(crate) fn subscribers(&self, company: &CompanyId, kind: EventKind) -> Vec<Arc<Endpoint>> {
        let mut list = self.list(Some(company.as_str()), None, PER_COMPANY_MAX);
        list.retain(|one| one.subscribes_to(kind));
        list
    }

    /// Adds an endpoint of a company, as the change describes it.
    pub(crate) async fn add(
        &self,
        company_id: CompanyId,
        change: EndpointChange,
        actor: &str,
        id: UuidV7,
    ) -> Result<Arc<Endpoint>, EndpointError> {
        if self.list(Some(company_id.as_str()), None, PER_COMPANY_MAX).len() >= PER_COMPANY_MAX {
            return Err(EndpointError::TooMany);
        }
        let now = self.cache.now();
        let mut endpoint = Endpoint {
            id: format!("ep_{}", id.to_simple()).into(),
            company_id,
            url: Box::default(),
            description: None,
            events: Vec::new(),
            secrets: Vec::new(),
            enabled: true,
            failures: 0,
            disabled_at: None,
            disabled_reason: None,
            created_at: now,
            updated_at: now,
            enabled_at: None,
        };
        endpoint.change(change, now);
        let audit = vec![endpoint.act(AuditKind::EndpointAdded, actor, now)];
        self.cache.add(&endpoint.id.clone(), endpoint, audit).await?.ok_or(EndpointError::Contended)
    }

    pub(crate) async fn change(
        &self,
        id: &str,
        change: EndpointChange,
        actor: &str,
    ) -> Result<Arc<Endpoint>, EndpointError> {
        let changing = self.cache.update(id, |endpoint, now| {
            endpoint.change(change.clone(), now);
            endpoint.acts(&change, actor, now)
        });
        changing.await?.ok_or(EndpointError::Unknown)
    }

    /// Removes an endpoint and returns the company that had it.
    pub(crate) async fn remove(&self, id: &str, actor: &str) -> Result<CompanyId, EndpointError> {
        let record = |endpoint: &Endpoint, now| endpoint.act(AuditKind::EndpointRemoved, actor, now);
        let removed = self.cache.remove(id, record).await?.ok_or(EndpointError::Unknown)?;
        Ok(removed.company_id)
    }

    /// Counts a delivery; an event when that switched the endpoint off.
    pub(crate) async fn count(
        &self,
        id: &str,
        result: EndpointResult,
    ) -> Result<Option<Event>, EndpointError> {
        let Some(known) = self.get(id) else { return Ok(None) };
        if !known.enabled || (result == EndpointResult::Delivered && known.failures == 0) {
            return Ok(None);
        }
        let mut switched_off = false;
        let counting = self.cache.update(id, |endpoint, now| {
            let was_enabled = endpoint.enabled;
            endpoint.count(result, now);
            switched_off = was_enabled && !endpoint.enabled;
            let act = endpoint.act(AuditKind::EndpointDisabled, OURSELVES, now);
            let why = endpoint.disabled_reason.as_deref().unwrap_or_default().to_owned();
            switched_off.then(|| act.reason(why)).into_iter().collect()
        });
        let endpoint = counting.await?.ok_or(EndpointError::Unknown)?;
        Ok(switched_off.then(|| endpoint.disabled_event(self.cache.now())))
    }

    /// Returns the event that counting this delivery will bring about, as far as this process knows.
    pub(crate) fn event_if_counted(&self, id: &str, result: EndpointResult) -> Option<Event> {
        let now = self.cache.now();
        let mut endpoint = (*self.get(id).filter(|known| known.enabled)?).clone();
        endpoint.count(result, now);
        (!endpoint.enabled).then(|| endpoint.disabled_event(now))
    }
}

#[async_trait]
impl Endpoints for EndpointRegistry {
    async fn target(&self, company: &CompanyId, endpoint_id: &str) -> Result<Option<Target>, Fault> {
        if company.as_str() == NOTICES_COMPANY {
            return Ok(self.fixed.read().get(endpoint_id).cloned());
        }
        let now = self.cache.now();
        let of_company = |one: &Endpoint| one.company_id == *company;
        let copy = self.get(endpoint_id).filter(|one| of_company(one)).and_then(|one| one.target(now));
        if copy.as_ref().is_some_and(|target| target.enabled) {
            return Ok(copy);
        }
        // A copy is a moment old: another node may just have made it or switched it on.
        let asked = self.cache.read_shared(endpoint_id).await.map_err(|error| {
            Fault::shortage(&format!("the store does not tell where the endpoint is: {error}"))
        })?;
        Ok(asked.filter(of_company).and_then(|one| one.target(now)).or(copy))
    }
}
