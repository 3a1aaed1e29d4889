//! Tells the outside what happened: the live stream, subscribed endpoints, channels for people, marked accounts.
//!
//! | file | what |
//! |---|---|
//! | [`events`] | the live stream |
//! | [`endpoints`] | webhook endpoints of companies |
//! | [`notices`] | messages to channels for people |
//! | [`accounts`] | accounts whose credential a provider refused |
//! | [`direct_send`] | notices that a full store does not take |
//!
//! Callbacks and notices are jobs like any other. Those about an attempt are settled together with it: see
//! `attempt::post_settle`.

pub mod accounts;
pub(crate) mod direct_send;
pub mod endpoints;
pub mod events;
pub mod notices;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::{Event, EventAlert, EventData, EventKind, NewJob, RouteName, Timestamp};
use recado_store::{JobStore, KeyValue, Namespace, StoreError};
use serde_json::json;

use crate::clock::Clock;
use crate::notify::accounts::Accounts;
use crate::notify::direct_send::DirectSender;
use crate::notify::endpoints::EndpointRegistry;
use crate::notify::events::Events;
use crate::notify::notices::{Notices, follow_up, telling_of};
use crate::shared::sync::Synced;
use crate::shared::value::SyncResult;

/// Tells endpoints, channels and the live stream of events.
#[derive(Debug)]
pub struct Notifier {
    pub events: Events,
    pub endpoints: Arc<EndpointRegistry>,
    pub accounts: Accounts,
    pub(crate) notices: Notices,
    /// Carries events to subscribed endpoints.
    pub(crate) callback_route: Option<RouteName>,
    pub(crate) job_ttl: Duration,
    pub(crate) jobs: Arc<dyn JobStore>,
    pub(crate) kv: Arc<dyn KeyValue>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) direct: DirectSender,
}

impl Notifier {
    /// Returns true if an event may have receivers beside the live stream.
    pub(crate) fn has_receivers(&self) -> bool {
        !self.endpoints.is_empty() || self.notices.has_channels()
    }

    /// Makes the notice of an event to a channel, or to the default one.
    pub(crate) fn notice(&self, channel: Option<&str>, event: &Event, now: Timestamp) -> Option<NewJob> {
        self.notices.notice(channel, event, now, now.plus(self.job_ttl))
    }

    /// Makes a callback for each endpoint of the company that subscribes to the event.
    pub(crate) fn callbacks(&self, event: &Event, now: Timestamp) -> Vec<NewJob> {
        let (Some(route), Some(company)) = (&self.callback_route, &event.company_id) else {
            return Vec::new();
        };
        let mut subscribers = self.endpoints.subscribers(company, event.kind);
        // It is being switched off: no use telling it so.
        subscribers.retain(|endpoint| event.data.endpoint_id.as_ref() != Some(&endpoint.id));
        let expires_at = now.plus(self.job_ttl);
        let job = |endpoint: &str| callback(route, event, endpoint, now, expires_at);
        subscribers.iter().filter_map(|endpoint| job(&endpoint.id)).collect()
    }

    /// Tells the stream, endpoints and the default channel of an event that belongs to no settlement.
    pub(crate) async fn announce(&self, event: Event, now: Timestamp) {
        warn_of(&event);
        self.notify(&event, now).await;
        self.events.tell(event);
    }

    /// Sends an event to endpoints and to the default channel.
    pub(crate) async fn notify(&self, event: &Event, now: Timestamp) {
        self.enqueue_notices(event, self.channel_notices(&[], event, now), now).await;
    }

    /// Sends an alert's event to endpoints and to the channels for alerts.
    pub(crate) async fn notify_alert(&self, event: &Event, now: Timestamp) {
        self.enqueue_notices(event, self.channel_notices(&self.notices.alerts, event, now), now).await;
    }

    async fn enqueue_notices(&self, event: &Event, notices: Vec<NewJob>, now: Timestamp) {
        let mut jobs = self.callbacks(event, now);
        jobs.extend(notices);
        if jobs.is_empty() {
            return;
        }
        if let Err(error) = self.jobs.enqueue(jobs.clone()).await {
            tracing::warn!(%error, event = event.kind.as_str(), "cannot enqueue the notices of an event; they go out past the store");
            jobs.into_iter().for_each(|job| self.direct.send(job));
        }
    }

    /// Makes the notices to these channels, or to the default one where none is named.
    fn channel_notices(&self, channels: &[Box<str>], event: &Event, now: Timestamp) -> Vec<NewJob> {
        match channels {
            [] => self.notice(None, event, now).into_iter().collect(),
            named => named.iter().filter_map(|channel| self.notice(Some(channel), event, now)).collect(),
        }
    }

    /// Takes the mark off an account for an operator, and returns true when there was one.
    pub async fn clear_account(
        &self,
        provider: &str,
        company: &str,
        actor: &str,
    ) -> Result<bool, StoreError> {
        self.accounts.take_off(&*self.kv, provider, company, actor, self.clock.now()).await
    }

    /// Tells the channels for alerts that the store has failed, as far as they can be reached at once: the process ends
    /// after that, and nothing is left that could be asked.
    pub(crate) async fn tell_that_the_store_failed(&self, node: &str, why: &str) {
        let now = self.clock.now();
        let data = EventData {
            reason: Some(format!("The store has failed and the process ends: {why}").into()),
            alert: EventAlert {
                name: Some("store_broken".into()),
                severity: Some("critical".into()),
                since: Some(now),
                // Stores give their reasons in English alone.
                reason_pt: Some(
                    "O armazenamento falhou e o processo vai encerrar. O log diz o motivo.".into(),
                ),
                ..EventAlert::default()
            },
            ..EventData::default()
        };
        let about = ["store_broken", node, &now.to_string()];
        let event = Event::once(EventKind::AlertFired, None, &about, now, data);
        self.direct.send_before_the_end(self.channel_notices(&self.notices.alerts, &event, now)).await;
    }
}

#[async_trait]
impl Synced for Notifier {
    fn namespaces(&self) -> &'static [Namespace] {
        &[endpoints::NAMESPACE, accounts::NAMESPACE]
    }

    async fn sync(&self, namespace: Namespace) -> Result<SyncResult, StoreError> {
        let now = self.clock.now();
        match namespace {
            endpoints::NAMESPACE => self.endpoints.reload(&*self.kv, now).await?,
            _ => self.accounts.reload(&*self.kv, now).await?,
        }
        Ok(SyncResult::default())
    }
}

fn callback(
    route: &RouteName,
    event: &Event,
    endpoint: &str,
    now: Timestamp,
    expires_at: Timestamp,
) -> Option<NewJob> {
    let data = json!({ "endpointId": endpoint, "event": event.kind.as_str(), "payload": event }).to_string();
    let id = format!("{}-{endpoint}", event.id);
    let job = follow_up(&id, route, event.company_id.as_ref()?, &data, now, expires_at)?;
    Some(telling_of(event, job))
}

/// Writes an event that needs a person to the log.
pub(crate) fn warn_of(event: &Event) {
    tracing::warn!(
        event = event.kind.as_str(),
        companyId = event.company_id.as_ref().map(|company| company.as_str()),
        endpointId = event.data.endpoint_id.as_deref(),
        provider = event.data.provider.as_deref(),
        reason = event.data.reason.as_deref().or(event.data.outcome.last_error.as_deref()),
        "Needs attention"
    );
}
