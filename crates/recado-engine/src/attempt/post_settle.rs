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
use recado_observe::DeadLetterExit;
use recado_transport::TransportKind;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::attempt::Attempts;
use crate::fallback::Act;
use crate::metrics::WaitBy;
use crate::notify::accounts::Account;
use crate::notify::endpoints::EndpointResult;
use crate::notify::notices::NOTICES_COMPANY;
use crate::notify::{Notifier, warn_of};
use crate::route::{Route, Routes};

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
    pub fn plan(
        attempts: &Attempts,
        job: &Job,
        transition: &Transition,
        wait_by: WaitBy,
        now: Timestamp,
    ) -> Self {
        let mut after = PostSettle { wait_by, ..PostSettle::default() };
        let Attempts { routes, notifier, .. } = attempts;
        let route = routes.get(job.route.as_str());
        // The result of a notice is told to no channel, and that of a callback to no endpoint, or it would
        // never end.
        let own = job.company.as_str() == NOTICES_COMPANY;
        let webhook = route.is_some_and(|route| is_webhook(route));
        if notifier.events.are_heard() || notifier.has_receivers() {
            after.events = event::of_transition(job, transition, now);
        }
        if own {
            return after;
        }
        if !webhook {
            after.follow_ups.extend(after.events.iter().flat_map(|event| notifier.callbacks(event, now)));
        }
        if let (Transition::Bury(burial), Some(last)) = (transition, after.events.last()) {
            let fallback =
                route.map(|route| &route.fallback).filter(|fallback| fallback.fires_on(burial.cause));
            let channel = fallback.and_then(|fallback| fallback.notify.as_deref());
            // A channel is for people who look after Recado, not after the job.
            let mut told = last.clone();
            told.data.outcome.last_error = Some(routes.redact(job, &burial.failure.reason).into());
            after.follow_ups.extend(notifier.notice(channel, &told, now));
        }
        if let Some(event) = after.foresee(attempts, route.map(|route| &**route), job, transition, now) {
            warn_of(&event);
            after.follow_ups.extend(notifier.callbacks(&event, now));
            after.follow_ups.extend(notifier.notice(None, &event, now));
            after.events.push(event);
        }
        after.follow_ups.iter_mut().for_each(|follow_up| follow_up.traceparent = job.traceparent);
        after
    }

    /// The consequence of the transition for the endpoint or the account, and its event.
    fn foresee(
        &mut self,
        attempts: &Attempts,
        route: Option<&Route>,
        job: &Job,
        transition: &Transition,
        now: Timestamp,
    ) -> Option<Event> {
        let (route, notifier) = (route?, &attempts.notifier);
        if is_webhook(route) {
            let (endpoint, went) = counted(notifier, job, transition)?;
            self.count = Some((endpoint.clone(), went));
            return notifier.endpoints.foresee(&endpoint, went, now);
        }
        let Transition::Bury(burial) = transition else { return None };
        let failure = Some(&burial.failure).filter(|_| marks(route, burial))?;
        let (account, event) = notifier.accounts.foresee(
            &route.provider,
            job,
            failure,
            &attempts.routes.redact(job, &failure.reason),
            now,
        )?;
        self.mark = Some(account);
        Some(event)
    }

    /// Plans the effects of something that a person did.
    pub fn of_act(notifier: &Notifier, routes: &Routes, job: &Job, event: Event, now: Timestamp) -> Self {
        let webhook = routes.get(job.route.as_str()).is_some_and(|route| is_webhook(route));
        let own = webhook || job.company.as_str() == NOTICES_COMPANY;
        let mut follow_ups = if own { Vec::new() } else { notifier.callbacks(&event, now) };
        follow_ups.iter_mut().for_each(|follow_up| follow_up.traceparent = job.traceparent);
        PostSettle { events: vec![event], follow_ups, ..PostSettle::default() }
    }

    /// Tells the live stream.
    pub fn tell(self, notifier: &Notifier) {
        self.events.into_iter().for_each(|event| notifier.events.tell(event));
    }

    /// Runs once the transition has happened. Listeners that hear of it can see what it led to.
    pub async fn run(mut self, attempts: &Attempts, job: &Job, transition: &Transition, now: Timestamp) {
        let Attempts { routes, notifier, metrics, .. } = attempts;
        let policy = &routes.terms_of(&job.route).policy;
        metrics.record_transition(job, transition, policy, self.wait_by, now);
        if let Some(moved_at) = self.leaves_queue {
            metrics.record_dead_letter_left(DeadLetterExit::Replayed, moved_at);
        }
        if let Some(account) = self.mark.take()
            && let Err(error) = notifier.accounts.mark(&*notifier.kv, account, now).await
        {
            tracing::warn!(%error, "cannot mark an account");
        }
        if let Some((endpoint, went)) = self.count.take() {
            match notifier.endpoints.count(&*notifier.kv, &endpoint, went, now).await {
                // Others counted as well, and it was one more than anybody knew.
                Ok(Some(event)) if !self.events.iter().any(|foreseen| foreseen.id == event.id) => {
                    notifier.announce(event, now).await;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, endpointId = &*endpoint, "cannot count a delivery"),
            }
        } else if let (Transition::Deliver { .. }, Some(route)) = (transition, routes.get(job.route.as_str()))
        {
            attempts.clear_account(route, job, now).await;
        }
        if matches!(transition, Transition::Bury(_)) {
            attempts.dead_letter_rate.count(now);
        }
        self.tell(notifier);
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
    pub(crate) async fn clear_account(&self, route: &Route, job: &Job, now: Timestamp) {
        let Notifier { accounts, kv, .. } = &*self.notifier;
        let cleared = accounts.clear(&**kv, &route.provider, job.company.as_str(), now).await;
        if let Err(error) = cleared {
            tracing::warn!(%error, "cannot take the mark off an account");
        }
    }

    /// Marks the account of a call whose credential was refused, and announces it.
    pub(crate) async fn mark_account(&self, route: &Route, job: &Job, failure: &Failure, now: Timestamp) {
        if failure.blame != Blame::Credential || failure.class != Class::Permanent {
            return;
        }
        let Notifier { accounts, kv, .. } = &*self.notifier;
        let words = self.routes.redact(job, &failure.reason);
        let Some((account, event)) = accounts.foresee(&route.provider, job, failure, &words, now) else {
            return;
        };
        self.notifier.announce(event, now).await;
        if let Err(error) = accounts.mark(&**kv, account, now).await {
            tracing::warn!(%error, "cannot mark an account");
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

/// Which endpoint a delivery went to, and how.
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
