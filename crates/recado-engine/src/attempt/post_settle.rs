//! Effects of a transition, beside the job's own new state.
//!
//! Two kinds, for two promises. Effects that must not be lost (callbacks to subscribed endpoints, notices to
//! a person) are computed before the transition is settled and go into the store with it, as follow-up jobs:
//! they happen exactly if the transition does. The rest (the live stream, counters on endpoints, marks on
//! accounts) is done after, and a crash in between costs a count or a mark, which the next failure makes up
//! for, never a message.

use std::borrow::Cow;

use recado_core::event;
use recado_core::{
    AttemptResult, Blame, Burial, Cause, Class, EngineCode, Event, Failure, Job, NewJob, RouteName,
    Timestamp, Transition,
};
use recado_observe::DeadLetterExit;
use recado_transport::TransportKind;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::engine::Inner;
use crate::fallback::Act;
use crate::metrics::WaitBy;
use crate::notify::accounts::Account;
use crate::notify::direct_send;
use crate::notify::endpoints::EndpointResult;
use crate::notify::notices::{NOTICES_COMPANY, follow_up, telling_of};
use crate::route::Route;

#[derive(Debug, Default)]
pub(crate) struct PostSettle {
    events: Vec<Event>,
    /// To be taken in together with the transition.
    pub follow_ups: Vec<NewJob>,
    mark: Option<Account>,
    count: Option<(Box<str>, EndpointResult)>,
    /// The time when the dead letter that the transition removes came to the queue.
    pub leaves_queue: Option<Timestamp>,
    wait_by: WaitBy,
}

impl PostSettle {
    pub fn of(engine: &Inner, job: &Job, transition: &Transition, wait_by: WaitBy, now: Timestamp) -> Self {
        let mut after = PostSettle { wait_by, ..PostSettle::default() };
        let route = engine.routes.get(job.route.as_str());
        // The result of a notice is told to no channel, and that of a callback to no endpoint, or it would
        // never end.
        let own = job.company.as_str() == NOTICES_COMPANY;
        let webhook = route.is_some_and(|route| is_webhook(route));
        if engine.events.are_heard() || engine.may_tell() {
            after.events = event::of_transition(job, transition, now);
        }
        if own {
            return after;
        }
        if !webhook {
            after.follow_ups.extend(after.events.iter().flat_map(|event| callbacks(engine, event, now)));
        }
        if let (Transition::Bury(burial), Some(last)) = (transition, after.events.last()) {
            let fallback =
                route.map(|route| &route.fallback).filter(|fallback| fallback.fires_on(burial.cause));
            let channel = fallback.and_then(|fallback| fallback.notify.as_deref());
            // A channel is for people who look after Recado, not after the job.
            let mut told = last.clone();
            told.data.last_error = Some(engine.redact(job, &burial.failure.reason).into());
            after.follow_ups.extend(notice(engine, channel, &told, now));
        }
        if let Some(event) = after.foresee(engine, route.map(|route| &**route), job, transition, now) {
            warn_of(&event);
            after.follow_ups.extend(callbacks(engine, &event, now));
            after.follow_ups.extend(notice(engine, None, &event, now));
            after.events.push(event);
        }
        after.follow_ups.iter_mut().for_each(|follow_up| follow_up.traceparent = job.traceparent);
        after
    }

    /// The consequence of the transition for the endpoint or the account, and its event.
    fn foresee(
        &mut self,
        engine: &Inner,
        route: Option<&Route>,
        job: &Job,
        transition: &Transition,
        now: Timestamp,
    ) -> Option<Event> {
        let route = route?;
        if is_webhook(route) {
            let (endpoint, went) = counted(engine, job, transition)?;
            self.count = Some((endpoint.clone(), went));
            return engine.endpoints.foresee(&endpoint, went, now);
        }
        let Transition::Bury(burial) = transition else { return None };
        let failure = Some(&burial.failure).filter(|_| marks(route, burial))?;
        let (account, event) = engine.accounts.foresee(
            &route.provider,
            job,
            failure,
            &engine.redact(job, &failure.reason),
            now,
        )?;
        self.mark = Some(account);
        Some(event)
    }

    /// The same for something that a person did.
    pub fn of_act(engine: &Inner, job: &Job, event: Event, now: Timestamp) -> Self {
        let webhook = engine.routes.get(job.route.as_str()).is_some_and(|route| is_webhook(route));
        let own = webhook || job.company.as_str() == NOTICES_COMPANY;
        let mut follow_ups = if own { Vec::new() } else { callbacks(engine, &event, now) };
        follow_ups.iter_mut().for_each(|follow_up| follow_up.traceparent = job.traceparent);
        PostSettle { events: vec![event], follow_ups, ..PostSettle::default() }
    }

    /// To the live stream.
    pub fn tell(self, engine: &Inner) {
        self.events.into_iter().for_each(|event| engine.events.tell(event));
    }

    /// Runs once the transition has happened. Listeners that hear of it can see what it led to.
    pub async fn happened(mut self, engine: &Inner, job: &Job, transition: &Transition, now: Timestamp) {
        engine.transited(job, transition, self.wait_by, now);
        if let Some(moved_at) = self.leaves_queue {
            engine.left_queue(DeadLetterExit::Replayed, moved_at);
        }
        if let Some(account) = self.mark.take()
            && let Err(error) = engine.accounts.mark(&*engine.store, account, now).await
        {
            tracing::warn!(%error, "cannot mark an account");
        }
        if let Some((endpoint, went)) = self.count.take() {
            match engine.endpoints.count(&*engine.store, &endpoint, went, now).await {
                // Others counted as well, and it was one more than anybody knew.
                Ok(Some(event)) if !self.events.iter().any(|foreseen| foreseen.id == event.id) => {
                    tell_all(engine, event, now).await;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, endpointId = &*endpoint, "cannot count a delivery"),
            }
        } else if let (Transition::Deliver { .. }, Some(route)) =
            (transition, engine.routes.get(job.route.as_str()))
        {
            let cleared = engine.accounts.clear(&*engine.store, &route.provider, job.company.as_str(), now);
            if let Err(error) = cleared.await {
                tracing::warn!(%error, "cannot take the mark off an account");
            }
        }
        if matches!(transition, Transition::Bury(_)) {
            engine.entries.count(now);
        }
        self.tell(engine);
    }
}

fn is_webhook(route: &Route) -> bool {
    route.has_transport(TransportKind::Webhook)
}

/// Returns true if a burial marks the account: its credential was refused in an attempt that was made, or the
/// route's fallback asks for it.
fn marks(route: &Route, burial: &Burial) -> bool {
    let Failure { blame, class, .. } = burial.failure;
    let told = burial.attempt.is_some() || burial.cause == Cause::Fallback;
    let refused = blame == Blame::Credential && class == Class::Permanent;
    let falls_back = route.fallback.act == Act::MarkAccount && route.fallback.fires_on(burial.cause);
    told && (refused || falls_back)
}

fn notice(engine: &Inner, channel: Option<&str>, event: &Event, now: Timestamp) -> Option<NewJob> {
    engine.settings.notices.notice(channel, event, now, now.plus(engine.settings.job_ttl))
}

/// An event for each endpoint of the company that subscribes to it.
fn callbacks(engine: &Inner, event: &Event, now: Timestamp) -> Vec<NewJob> {
    let (Some(route), Some(company)) = (&engine.callback_route, &event.company_id) else { return Vec::new() };
    let mut subscribers = engine.endpoints.subscribers(company, event.kind);
    // It is being switched off: no use telling it so.
    subscribers.retain(|endpoint| event.data.endpoint_id.as_ref() != Some(&endpoint.id));
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
    let job = follow_up(&id, route, event.company_id.as_ref()?, &data, now, expires_at)?;
    Some(telling_of(event, job))
}

/// The consequence of a call for its account.
pub(crate) async fn of_call(
    engine: &Inner,
    route: &Route,
    job: &Job,
    failure: Option<&Failure>,
    now: Timestamp,
) {
    let done = match failure {
        None => engine.accounts.clear(&*engine.store, &route.provider, job.company.as_str(), now).await,
        Some(failure) if failure.blame == Blame::Credential && failure.class == Class::Permanent => {
            let words = engine.redact(job, &failure.reason);
            match engine.accounts.foresee(&route.provider, job, failure, &words, now) {
                Some((account, event)) => {
                    tell_all(engine, event, now).await;
                    engine.accounts.mark(&*engine.store, account, now).await
                }
                None => Ok(()),
            }
        }
        Some(_) => Ok(()),
    };
    if let Err(error) = done {
        tracing::warn!(%error, "cannot keep the mark of an account");
    }
}

/// Tells of an event that belongs to no settlement: to the stream, to endpoints and to the default channel.
pub(crate) async fn tell_all(engine: &Inner, event: Event, now: Timestamp) {
    warn_of(&event);
    notify(engine, &event, now).await;
    engine.events.tell(event);
}

/// The notices that tell the channels for alerts of an event.
pub(crate) fn alert_notices(engine: &Inner, event: &Event, now: Timestamp) -> Vec<NewJob> {
    notices(engine, &engine.settings.notices.alerts, event, now)
}

/// The notices to these channels, or to the default one where none is named.
fn notices(engine: &Inner, channels: &[Box<str>], event: &Event, now: Timestamp) -> Vec<NewJob> {
    match channels {
        [] => notice(engine, None, event, now).into_iter().collect(),
        named => named.iter().filter_map(|channel| notice(engine, Some(channel), event, now)).collect(),
    }
}

/// To endpoints and to the default channel.
pub(crate) async fn notify(engine: &Inner, event: &Event, now: Timestamp) {
    notify_channels(engine, &[], event, now).await;
}

/// To endpoints and to these channels, or the default one where none is named.
pub(crate) async fn notify_channels(engine: &Inner, channels: &[Box<str>], event: &Event, now: Timestamp) {
    let mut jobs = callbacks(engine, event, now);
    jobs.extend(notices(engine, channels, event, now));
    if jobs.is_empty() {
        return;
    }
    if let Err(error) = engine.enqueue(jobs.clone()).await {
        tracing::warn!(%error, event = event.kind.as_str(), "cannot enqueue the notices of an event; they go out past the store");
        jobs.into_iter().for_each(|job| direct_send::send(engine, job));
    }
}

fn warn_of(event: &Event) {
    tracing::warn!(
        event = event.kind.as_str(),
        companyId = event.company_id.as_ref().map(|company| company.as_str()),
        endpointId = event.data.endpoint_id.as_deref(),
        provider = event.data.provider.as_deref(),
        reason = event.data.reason.as_deref().or(event.data.last_error.as_deref()),
        "Needs attention"
    );
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WebhookData<'a> {
    #[serde(borrow)]
    endpoint_id: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "payload")]
    _payload: Option<&'a RawValue>,
}

/// Failures that are not the endpoint's: it was never asked.
const NOT_ASKED: [EngineCode; 3] =
    [EngineCode::EndpointUnknown, EngineCode::EndpointDisabled, EngineCode::InvalidPayload];

/// The HTTP status of an endpoint that is gone for good.
const HTTP_GONE: u16 = 410;

/// The result of a delivery for its endpoint, if it counts.
fn went(transition: &Transition) -> Option<EndpointResult> {
    let attempt = transition.attempt()?;
    match transition {
        Transition::Deliver { .. } => Some(EndpointResult::Delivered),
        // We went away, not the endpoint.
        _ if attempt.result == AttemptResult::Lost => None,
        _ if attempt.answer_code() == Some(HTTP_GONE) => Some(EndpointResult::Gone),
        _ if attempt.engine_code().is_some_and(|code| NOT_ASKED.contains(&code)) => None,
        _ => Some(EndpointResult::Failed),
    }
}

/// Which endpoint a delivery went to, and how.
fn counted(engine: &Inner, job: &Job, transition: &Transition) -> Option<(Box<str>, EndpointResult)> {
    let went = went(transition)?;
    let WebhookData { endpoint_id, .. } = job.data.parse().ok()?;
    let endpoint: Box<str> = endpoint_id?.into();
    // Naming an endpoint of another company must not do it any harm.
    let known = engine.endpoints.get(&endpoint)?;
    (known.company_id == job.company).then_some((endpoint, went))
}

#[cfg(test)]
mod tests {
    use recado_core::Attempt;

    use super::*;

    fn retried(result: AttemptResult, code: &str) -> Transition {
        let at = Timestamp::from_millis(0);
        let mut attempt = Attempt::ended(1, at, at, result);
        attempt.error_code = Some(code.into());
        match result {
            AttemptResult::Lost => Transition::Release { at, lost: Some(attempt) },
            _ => Transition::RetryAt { at, attempt },
        }
    }

    #[test]
    fn an_endpoint_answers_for_its_own_failures_only() {
        assert_eq!(went(&retried(AttemptResult::Failed, "500")), Some(EndpointResult::Failed));
        assert_eq!(went(&retried(AttemptResult::Uncertain, "TIMEOUT")), Some(EndpointResult::Failed));
        assert_eq!(went(&retried(AttemptResult::Failed, "410")), Some(EndpointResult::Gone));
        assert_eq!(went(&retried(AttemptResult::Lost, "LEASE_LOST")), None, "our own crash");
        for code in NOT_ASKED {
            assert_eq!(went(&retried(AttemptResult::Failed, code.as_str())), None, "{code:?}");
        }
        assert_eq!(went(&Transition::Postpone { until: Timestamp::from_millis(0) }), None);
    }
}
