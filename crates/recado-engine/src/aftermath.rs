//! What follows from a transition, beside the job's own new state.
//!
//! Two kinds, for two promises. What must not be lost (callbacks to subscribed endpoints, notices to a
//! person) is computed before the transition is settled and goes into the store with it, as follow-up jobs:
//! it happens exactly if the transition does. The rest (the live stream, counters on endpoints, marks on
//! accounts) is done after, and a crash in between costs a count, never a message.

use recado_core::event;
use recado_core::{Blame, Class, Event, Failure, Job, NewJob, RouteName, Timestamp, Transition};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::endpoints::Went;
use crate::engine::Inner;
use crate::fallback::Act;
use crate::notices::{NOTICES_COMPANY, follow_up};
use crate::route::Route;

#[derive(Debug, Default)]
pub(crate) struct Aftermath {
    events: Vec<Event>,
    /// To be taken in together with the transition.
    pub follow_ups: Vec<NewJob>,
}

impl Aftermath {
    pub fn of(engine: &Inner, job: &Job, transition: &Transition, now: Timestamp) -> Self {
        let route = engine.routes.get(job.route.as_str());
        let notify = matches!(transition, Transition::Bury(_)) && engine.settings.notices.has_channels();
        if !notify && !engine.events.are_heard() && engine.endpoints.is_empty() {
            return Aftermath::default();
        }
        let events = event::of_transition(job, transition, now);
        let mut follow_ups = Vec::new();
        // What becomes of a callback or a notice is told to nobody, or it would never end.
        if job.company.as_str() != NOTICES_COMPANY {
            if !route.is_some_and(|route| is_webhook(route)) {
                follow_ups.extend(events.iter().flat_map(|event| callbacks(engine, event, now)));
            }
            if let (true, Some(last)) = (notify, events.last()) {
                let fallback = route.map(|route| &route.fallback).filter(|fallback| fallback.on_dead);
                let channel = fallback.and_then(|fallback| fallback.notify.as_deref());
                let expires_at = now.plus(engine.settings.job_ttl);
                follow_ups.extend(engine.settings.notices.notice(channel, last, now, expires_at));
            }
        }
        Aftermath { events, follow_ups }
    }

    /// The same for something that a person did.
    pub fn of_act(engine: &Inner, job: &Job, event: Event, now: Timestamp) -> Self {
        let webhook = engine.routes.get(job.route.as_str()).is_some_and(|route| is_webhook(route));
        let own = webhook || job.company.as_str() == NOTICES_COMPANY;
        let follow_ups = if own { Vec::new() } else { callbacks(engine, &event, now) };
        Aftermath { events: vec![event], follow_ups }
    }

    /// To the live stream.
    pub fn tell(self, engine: &Inner) {
        self.events.into_iter().for_each(|event| engine.events.tell(event));
    }

    /// Once the transition has happened.
    pub async fn happened(self, engine: &Inner, job: &Job, transition: &Transition, now: Timestamp) {
        self.tell(engine);
        let Some(route) = engine.routes.get(job.route.as_str()) else { return };
        if is_webhook(route) {
            return count(engine, job, transition, now).await;
        }
        if job.company.as_str() == NOTICES_COMPANY {
            return;
        }
        if let Some(failure) = attempt_failure(transition)
            && wants_mark(route, &failure, transition)
        {
            match engine.accounts.mark(&*engine.store, &route.provider, job, &failure, now).await {
                Ok(event) => tell_all(engine, event, now).await,
                Err(error) => tracing::warn!(%error, "cannot mark an account"),
            }
        }
        if matches!(transition, Transition::Deliver { .. }) {
            let cleared = engine.accounts.clear(&*engine.store, &route.provider, job.company.as_str(), now);
            if let Err(error) = cleared.await {
                tracing::warn!(%error, "cannot take the mark off an account");
            }
        }
    }
}

fn is_webhook(route: &Route) -> bool {
    route.transport_name() == "webhook"
}

/// The failure that a transition puts on record for a try that was made.
fn attempt_failure(transition: &Transition) -> Option<Failure> {
    match transition {
        Transition::Bury(burial) if burial.attempt.is_some() => Some(burial.failure.clone()),
        _ => None,
    }
}

fn wants_mark(route: &Route, failure: &Failure, transition: &Transition) -> bool {
    let refused = failure.blame == Blame::Credential && failure.class == Class::Permanent;
    let dead = matches!(transition, Transition::Bury(_));
    refused || (dead && route.fallback.on_dead && route.fallback.act == Act::MarkAccount)
}

/// An event for each endpoint of the company that subscribes to it.
fn callbacks(engine: &Inner, event: &Event, now: Timestamp) -> Vec<NewJob> {
    let (Some(route), Some(company)) = (&engine.callback_route, &event.company_id) else { return Vec::new() };
    let subscribers = engine.endpoints.subscribers(company, event.kind);
    let job = |endpoint: &str| callback(route, event, endpoint, now, now.plus(engine.settings.job_ttl));
    subscribers.iter().filter_map(|endpoint| job(&endpoint.id)).collect()
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
    follow_up(&id, route, event.company_id.as_ref()?, &data, now, expires_at)
}

/// Tells of an event that belongs to no settlement: to the stream, to endpoints and, if it calls for a
/// person, to the default channel.
pub(crate) async fn tell_all(engine: &Inner, event: Option<Event>, now: Timestamp) {
    let Some(event) = event else { return };
    tracing::warn!(
        event = event.kind.as_str(),
        companyId = event.company_id.as_ref().map(|company| company.as_str()),
        endpointId = event.data.endpoint_id.as_deref(),
        provider = event.data.provider.as_deref(),
        reason = event.data.reason.as_deref().or(event.data.last_error.as_deref()),
        "Needs attention"
    );
    let mut jobs = callbacks(engine, &event, now);
    jobs.extend(engine.settings.notices.notice(None, &event, now, now.plus(engine.settings.job_ttl)));
    if !jobs.is_empty()
        && let Err(error) = engine.store.enqueue(jobs).await
    {
        tracing::warn!(%error, "cannot enqueue the callbacks of an event");
    }
    engine.events.tell(event);
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WebhookData<'a> {
    endpoint_id: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, rename = "payload")]
    _payload: Option<&'a RawValue>,
}

/// Failures that are not the endpoint's: it was never asked.
const NOT_ASKED: [&str; 3] = ["ENDPOINT_UNKNOWN", "ENDPOINT_DISABLED", "INVALID_PAYLOAD"];

/// Keeps the endpoint's count of failures in a row.
async fn count(engine: &Inner, job: &Job, transition: &Transition, now: Timestamp) {
    let Ok(WebhookData { endpoint_id: Some(endpoint), .. }) = job.data.parse() else { return };
    // Naming somebody else's endpoint must not do it any harm.
    if engine.endpoints.get(&endpoint).is_none_or(|known| known.company_id != job.company) {
        return;
    }
    let Some(attempt) = transition.attempt() else { return };
    let went = match (transition, attempt.error_code.as_deref()) {
        (Transition::Deliver { .. }, _) => Went::Well,
        (_, Some("410")) => Went::Gone,
        (_, Some(code)) if NOT_ASKED.contains(&code) => return,
        _ => Went::Badly,
    };
    match engine.endpoints.count(&*engine.store, &endpoint, went, now).await {
        Ok(event) => tell_all(engine, event, now).await,
        Err(error) => tracing::warn!(%error, endpointId = &*endpoint, "cannot count a delivery"),
    }
}
