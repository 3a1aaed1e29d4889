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
    AttemptResult, Blame, Burial, Cause, Class, EngineCode, Event, Failure, Job, NewJob, Timestamp,
    Transition,
};
use recado_observe::{DeadLetterExit, DelaySource};
use recado_store::Settlement;
use recado_transport::TransportKind;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::attempt::Attempts;
use crate::environment::Environment;
use crate::fallback::Act;
use crate::notify::accounts::Account;
use crate::notify::endpoints::EndpointResult;
use crate::notify::notices::NOTICES_COMPANY;
use crate::notify::{Notifier, warn_of};
use crate::route::Route;

#[derive(Debug, Default)]
pub(crate) struct PostSettle {
    events: Vec<Event>,
    mark: Option<Account>,
    count: Option<(Box<str>, EndpointResult)>,
    /// The time when the dead letter that the transition removes came to the queue.
    pub leaves_queue: Option<Timestamp>,
    delay_source: DelaySource,
}

impl PostSettle {
    /// Plans the effects of a settlement, and adds the follow-up jobs that are to be taken in together with it.
    pub fn plan(
        attempts: &Attempts,
        job: &Job,
        settlement: &mut Settlement,
        delay_source: DelaySource,
    ) -> Self {
        let mut after = PostSettle { delay_source, ..PostSettle::default() };
        let Attempts { env, notifier, .. } = attempts;
        let Settlement { transition, follow_ups, now, .. } = settlement;
        let (route, now) = (env.routes.get(job.route.as_str()), *now);
        if notifier.events.had_listener() || notifier.has_receivers() {
            after.events = event::of_transition(job, transition, now);
        }
        // The result of a notice is told to no channel, and that of a callback to no endpoint, or it would
        // never end.
        if job.company.as_str() == NOTICES_COMPANY {
            return after;
        }
        if !route.is_some_and(|route| is_webhook(route)) {
            follow_ups.extend(after.events.iter().flat_map(|event| notifier.callbacks(event, now)));
        }
        if let (Transition::Bury(burial), Some(last)) = (&*transition, after.events.last()) {
            let fallback =
                route.map(|route| &route.fallback).filter(|fallback| fallback.fires_on(burial.cause));
            let channel = fallback.and_then(|fallback| fallback.notify.as_deref());
            // A channel is for people who look after Recado, not after the job.
            let mut redacted = last.clone();
            redacted.data.outcome.last_error = Some(env.routes.redact(job, &burial.failure.reason).into());
            follow_ups.extend(notifier.notice(channel, &redacted, now));
        }
        if let Some(event) = after.plan_consequence(attempts, route.map(|route| &**route), job, transition) {
            warn_of(&event);
            follow_ups.extend(notifier.callbacks(&event, now));
            follow_ups.extend(notifier.notice(None, &event, now));
            after.events.push(event);
        }
        follow_ups.iter_mut().for_each(|follow_up| follow_up.traceparent = job.traceparent);
        after
    }

    /// Plans the consequence of a transition for the endpoint or the account, and returns its event.
    fn plan_consequence(
        &mut self,
        Attempts { env, notifier, .. }: &Attempts,
        route: Option<&Route>,
        job: &Job,
        transition: &Transition,
    ) -> Option<Event> {
        let route = route?;
        if is_webhook(route) {
            let (endpoint, result) = self.count.insert(counted(notifier, job, transition)?);
            return notifier.endpoints.event_if_counted(endpoint, *result);
        }
        let Transition::Bury(burial) = transition else { return None };
        let failure = Some(&burial.failure).filter(|_| marks(route, burial))?;
        let words = env.routes.redact(job, &failure.reason);
        let (account, event) = notifier.accounts.planned_mark(&route.provider, job, failure, &words)?;
        self.mark = Some(account);
        Some(event)
    }

    /// Plans the effects of something that a person did, and the follow-up jobs to be taken in together with it.
    pub fn of_act(env: &Environment, notifier: &Notifier, job: &Job, event: Event) -> (Self, Vec<NewJob>) {
        let webhook = env.routes.get(job.route.as_str()).is_some_and(|route| is_webhook(route));
        let own = webhook || job.company.as_str() == NOTICES_COMPANY;
        let mut follow_ups = if own { Vec::new() } else { notifier.callbacks(&event, event.timestamp) };
        follow_ups.iter_mut().for_each(|follow_up| follow_up.traceparent = job.traceparent);
        (PostSettle { events: vec![event], ..PostSettle::default() }, follow_ups)
    }

    /// Publishes the events on the live stream.
    pub fn publish(self, notifier: &Notifier) {
        self.events.into_iter().for_each(|event| notifier.events.publish(event));
    }

    /// Runs once the transition has happened. Listeners that hear of it can see what it led to.
    ///
    /// Writes that few transitions need are boxed: they would make the future of every delivery larger.
    pub async fn run(mut self, attempts: &Attempts, job: &Job, transition: &Transition, now: Timestamp) {
        let Attempts { env, notifier, .. } = attempts;
        let policy = &env.routes.terms_of(&job.route).policy;
        env.metrics.record_transition(job, transition, policy, self.delay_source, now);
        if let Some(moved_at) = self.leaves_queue {
            env.metrics.record_dead_letter_left(DeadLetterExit::Replayed, moved_at);
        }
        if let Some(account) = self.mark.take()
            && let Err(error) = Box::pin(notifier.accounts.mark(account)).await
        {
            tracing::warn!(%error, "Cannot mark an account");
        }
        if let Some((endpoint, result)) = self.count.take() {
            match Box::pin(notifier.endpoints.count(&endpoint, result)).await {
                // Another delivery was counted meanwhile, so this one switched the endpoint off, which was
                // not planned.
                Ok(Some(event)) if !self.events.iter().any(|planned| planned.id == event.id) => {
                    Box::pin(notifier.announce(event, now)).await;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, endpointId = &*endpoint, "Cannot count a delivery"),
            }
        } else if let (Transition::Deliver { .. }, Some(route)) =
            (transition, env.routes.get(job.route.as_str()))
        {
            attempts.clear_account(route, job).await;
        }
        if matches!(transition, Transition::Bury(_)) {
            attempts.dead_letter_rate.count(now);
        }
        self.publish(notifier);
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

impl Attempts {
    /// Takes the mark off an account because a delivery was accepted.
    pub(crate) async fn clear_account(&self, route: &Route, job: &Job) {
        if let Err(error) = self.notifier.accounts.clear(&route.provider, job.company.as_str()).await {
            tracing::warn!(%error, "Cannot remove the mark of an account");
        }
    }

    /// Marks the account of a call whose credential was refused, and announces it.
    pub(crate) async fn mark_account(&self, route: &Route, job: &Job, failure: &Failure, now: Timestamp) {
        if failure.blame != Blame::Credential || failure.class != Class::Permanent {
            return;
        }
        let (accounts, words) = (&self.notifier.accounts, self.env.routes.redact(job, &failure.reason));
        if let Some((account, event)) = accounts.planned_mark(&route.provider, job, failure, &words) {
            self.notifier.announce(event, now).await;
            if let Err(error) = accounts.mark(account).await {
                tracing::warn!(%error, "Cannot mark an account");
            }
        }
    }
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
fn endpoint_result(transition: &Transition) -> Option<EndpointResult> {
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

/// Returns the endpoint of a delivery and the result to count, if it counts.
fn counted(notifier: &Notifier, job: &Job, transition: &Transition) -> Option<(Box<str>, EndpointResult)> {
    let result = endpoint_result(transition)?;
    let WebhookData { endpoint_id, .. } = job.data.parse().ok()?;
    let endpoint: Box<str> = endpoint_id?.into();
    // Naming an endpoint of another company must not do it any harm.
    let known = notifier.endpoints.get(&endpoint)?;
    (known.company_id == job.company).then_some((endpoint, result))
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
        assert_eq!(endpoint_result(&retried(AttemptResult::Failed, "500")), Some(EndpointResult::Failed));
        assert_eq!(
            endpoint_result(&retried(AttemptResult::Uncertain, "TIMEOUT")),
            Some(EndpointResult::Failed)
        );
        assert_eq!(endpoint_result(&retried(AttemptResult::Failed, "410")), Some(EndpointResult::Gone));
        assert_eq!(endpoint_result(&retried(AttemptResult::Lost, "LEASE_LOST")), None, "our own crash");
        for code in NOT_ASKED {
            assert_eq!(endpoint_result(&retried(AttemptResult::Failed, code.as_str())), None, "{code:?}");
        }
        assert_eq!(endpoint_result(&Transition::Postpone { until: Timestamp::from_millis(0) }), None);
    }
}
