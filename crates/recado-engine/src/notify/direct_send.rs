//! Sends a notice that the store does not take.
//!
//! A person has to learn that the store is full, and just then it takes no notice. So the notice is sent at
//! once and tried again on its route's policy, for as long as this process lives. Nothing of it is kept, and
//! no guard is asked: such notices are few, and each may be the last one. Where the store's answer was lost
//! and it has the notice after all, both have one id.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Class, Draw, Job, NewJob, Verdict, decide};
use recado_transport::{Delivery, Transport, Wanted};

use crate::clock::Clock;
use crate::notify::Notifier;
use crate::route::{Carrier, Route};
use crate::send::send;

/// Time between two tries of a notice that met a shortage of our own; such a try spends no attempt.
const SHORTAGE_WAIT: Duration = Duration::from_secs(5);

/// Longest time that the end of the process waits for the alert about a store that failed.
const LAST_WORD_MAX: Duration = Duration::from_secs(2);

impl Notifier {
    /// Sends a notice in the background.
    pub(super) fn send_directly(&self, notice: NewJob) {
        let id = notice.id.clone();
        let Some(sending) = self.sending(notice) else { return };
        let stopping = self.env.lifecycle.stopping.clone();
        self.env.lifecycle.deliveries.spawn(async move {
            tokio::select! {
                biased;
                () = sending => {}
                () = stopping.cancelled() => tracing::error!(jobId = %id, "A notice was not delivered before the stop"),
            }
        });
    }

    /// Sends notices, and waits until their channels have them or [`LAST_WORD_MAX`] is over.
    pub(super) async fn send_before_the_end(&self, notices: Vec<NewJob>) {
        let sending = notices.into_iter().filter_map(|notice| self.sending(notice));
        let sending = futures_util::future::join_all(sending.collect::<Vec<_>>());
        if tokio::time::timeout(LAST_WORD_MAX, sending).await.is_err() {
            tracing::error!("The alert about the failed store was not delivered before the end");
        }
    }

    fn sending(&self, notice: NewJob) -> Option<impl Future<Output = ()> + Send + 'static> {
        let route = self.env.routes.get(notice.route.as_str())?.clone();
        let Carrier::Transport(transport) = route.carrier.clone() else { return None };
        let (clock, draw, job) = (self.env.clock.clone(), self.env.random.next_draw(), Job::from(notice));
        Some(async move { hand_over(&route, &transport, &job, &*clock, draw).await })
    }
}

async fn hand_over(route: &Route, transport: &Arc<dyn Transport>, job: &Job, clock: &dyn Clock, draw: Draw) {
    let policy = &route.terms.policy;
    let mut waited = None;
    let mut attempt = 0;
    while clock.now() < job.expires_at {
        attempt += 1;
        let (now, timeout) = (clock.now(), route.timeout);
        let delivery = Delivery { job, attempt, now, timeout, answer: Wanted::Receipt };
        let outcome = send(transport, delivery).await;
        if let Some(fault) = outcome.shortage() {
            tracing::error!(jobId = %job.id, why = &*fault.text, "A notice waits: this process lacks a resource");
            attempt -= 1;
            tokio::time::sleep(SHORTAGE_WAIT).await;
            continue;
        }
        let failure = match route.classifier.verdict(outcome) {
            Verdict::Delivered { .. } | Verdict::Partial { .. } => {
                return tracing::info!(jobId = %job.id, attempt, route = %route.name, "Notice sent without the store");
            }
            Verdict::Failed(failure) => failure,
        };
        tracing::error!(
            jobId = %job.id,
            attempt,
            route = %route.name,
            errorCode = failure.code.as_deref(),
            errorReason = failure.reason.as_str(),
            "A notice could not be sent without the store"
        );
        if failure.class == Class::Permanent || attempt == policy.max_attempts {
            return;
        }
        let wait = decide::next_delay(policy, attempt - 1, waited, failure.retry_after, draw);
        waited = Some(wait);
        tokio::time::sleep(wait).await;
    }
}
