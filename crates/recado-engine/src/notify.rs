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
use recado_store::{Namespace, StoreError};
use serde_json::json;

use crate::environment::Environment;
use crate::notify::accounts::Accounts;
use crate::notify::endpoints::{Endpoint, EndpointRegistry};
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
    pub(crate) env: Arc<Environment>,
}

impl Notifier {
    /// Returns true if an event may have receivers beside the live stream.
    pub(crate) fn has_receivers(&self) -> bool {
        !self.endpoints.cache.is_empty() || !self.notices.channels.is_empty()
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
        let callback = |endpoint: &Arc<Endpoint>| {
            let data = json!({ "endpointId": endpoint.id, "event": event.kind.as_str(), "payload": event });
            let id = format!("{}-{}", event.id, endpoint.id);
            let job = follow_up(&id, route, company, &data.to_string(), now, now.plus(self.job_ttl))?;
            Some(telling_of(event, job))
        };
        subscribers.iter().filter_map(callback).collect()
    }

    /// Tells the stream, endpoints and the default channel of an event that belongs to no settlement.
    pub(crate) async fn announce(&self, event: Event, now: Timestamp) {
        warn_of(&event);
        self.notify(&event, now).await;
        self.events.publish(event);
    }

    /// Sends an event to endpoints and to the default channel.
    pub(crate) async fn notify(&self, event: &Event, now: Timestamp) {
        self.notify_channels(&[], event, now).await;
    }

    /// Sends an event to endpoints and to these channels, or to the default one where none is named.
    pub(crate) async fn notify_channels(&self, channels: &[Box<str>], event: &Event, now: Timestamp) {
        let mut jobs = self.callbacks(event, now);
        jobs.extend(self.channel_notices(channels, event, now));
        if jobs.is_empty() {
            return;
        }
        if let Err(error) = self.env.jobs.enqueue(jobs.clone()).await {
            tracing::warn!(%error, event = event.kind.as_str(), "Cannot enqueue the notices of an event; sending them without the store");
            jobs.into_iter().for_each(|job| self.send_directly(job));
        }
    }

    /// Makes the notices to these channels, or to the default one where none is named.
    fn channel_notices(&self, channels: &[Box<str>], event: &Event, now: Timestamp) -> Vec<NewJob> {
        match channels {
            [] => self.notice(None, event, now).into_iter().collect(),
            named => named.iter().filter_map(|channel| self.notice(Some(channel), event, now)).collect(),
        }
    }

    /// Tells the channels for alerts that the store has failed, as far as they can be reached at once: the process ends
    /// after that, and nothing is left that could be asked.
    pub(crate) async fn tell_that_the_store_failed(&self, node: &str, why: &str) {
        let now = self.env.now();
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
        self.send_before_the_end(self.channel_notices(&self.notices.alerts, &event, now)).await;
    }
}

#[async_trait]
impl Synced for Notifier {
    fn namespaces(&self) -> &'static [Namespace] {
        &[endpoints::NAMESPACE, accounts::NAMESPACE]
    }

    async fn sync(&self, namespace: Namespace) -> Result<SyncResult, StoreError> {
        match namespace {
            endpoints::NAMESPACE => self.endpoints.cache.reload().await?,
            _ => self.accounts.marked.reload().await?,
        }
        Ok(SyncResult::default())
    }
}

/// Writes an event that needs a person to the log.
pub(crate) fn warn_of(event: &Event) {
    tracing::warn!(
        event = event.kind.as_str(),
        companyId = event.company_id.as_ref().map(|company| company.as_str()),
        endpointId = event.data.endpoint_id.as_deref(),
        provider = event.data.provider.as_deref(),
        reason = event.data.reason.as_deref().or(event.data.outcome.last_error.as_deref()),
        "Endpoint or account needs attention"
    );
}
