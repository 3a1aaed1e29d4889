//! A provider asked on behalf of a caller who waits for the answer.
//!
//! Same route, slots, timeout and rules as a job, but nothing is kept and nothing is retried: the caller
//! hears the answer, or the last good one, or when to come back. An answer that comes from the cache says
//! so, says how old it is and why, and a job is scheduled that asks again and renews it.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{
    Class, CompanyId, EngineCode, Failure, Job, JobId, Payload, Priority, Progress, Reason, Timestamp,
    TraceParent, Verdict, decide,
};
use recado_store::{KvWrite, Namespace};
use recado_transport::http::ANSWER_KEPT_MAX_BYTES;
use recado_transport::{DataFault, Delivery, Transport, Wanted};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::admission::gate::{NotStarted, Permit, ProviderTarget};
use crate::admission::provider::{Refusal, RefusalReason, SlotOwner};
use crate::admission::receivers::ReceiverWait;
use crate::attempt::Attempts;
use crate::error::{EngineError, Result};
use crate::fallback::Act;
use crate::notify::notices::follow_up;
use crate::route::{Carrier, Route};
use crate::send::send;
use crate::shared::entry::{EntryKey, read_entry, write_of};
use crate::traces::AttemptSummary;

pub const NAMESPACE: Namespace = Namespace::new("answers");

/// Time that an answer is good for as a last resort.
pub const ANSWER_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Prefix of the id of a job that renews an answer; the rest is the answer's key.
pub(crate) const REFRESH: &str = "refresh:";

/// A call that waits for a free slot looks again at least this often.
const BUSY_LOOK: Duration = Duration::from_millis(50);

/// At most one job that renews an answer within this.
const REFRESH_EVERY_MS: i64 = 60_000;

#[derive(Clone, Debug)]
pub struct Call {
    pub route: String,
    pub company_id: CompanyId,
    pub data: Payload,
    /// Timeout, at most the route's own.
    pub timeout: Option<Duration>,
    /// Key of the cached answer, within the company and the route.
    pub cache_key: Option<String>,
    /// The caller's span.
    pub traceparent: Option<TraceParent>,
}

#[derive(Clone, Debug)]
pub enum Called {
    Answered {
        answer: Option<Payload>,
        took: Duration,
    },
    /// The provider failed; the cached answer is returned.
    Cached {
        answer: Payload,
        age: Duration,
        failure: Failure,
        retry: Option<JobId>,
    },
    Unavailable {
        failure: Failure,
        retry_after: Duration,
    },
    /// Permanent failure: a repeat would fail too.
    Refused {
        failure: Failure,
    },
}

impl Called {
    fn as_str(&self) -> &'static str {
        match self {
            Called::Answered { .. } => "answered",
            Called::Cached { .. } => "cached",
            Called::Unavailable { .. } => "unavailable",
            Called::Refused { .. } => "refused",
        }
    }
}

#[derive(Debug)]
pub enum CallRefused {
    /// The route is unknown, has no carrier, or is carried by workers: the reason, in words.
    Route(String),
    Data(Vec<DataFault>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Remembered {
    at: Timestamp,
    answer: Payload,
}

impl Attempts {
    pub async fn call(&self, mut call: Call) -> Result<Result<Called, CallRefused>> {
        if self.env.lifecycle.is_stopping() {
            return Err(EngineError::Stopping);
        }
        let (route, transport) = match self.callable(&call.route) {
            Ok(found) => found,
            Err(why) => return Ok(Err(CallRefused::Route(why))),
        };
        if let Err(faults) = transport.check(&call.data) {
            return Ok(Err(CallRefused::Data(faults)));
        }
        let started_at = self.env.now();
        let timeout = call.timeout.unwrap_or(route.timeout).min(route.timeout);
        let mut job = self.ephemeral(&route, &call, started_at, timeout);
        let about = (&job.id, &job.route, &job.company);
        let span = self.env.traces.open("call", &mut job.traceparent, about, started_at);
        call.traceparent = job.traceparent;
        let mut called = self.ask(&route, &job, call, timeout).await?;
        if let Called::Unavailable { failure, .. } = &mut called {
            // The caller hears of it by a problem, and problems end up in logs.
            failure.reason = Reason::or(&self.env.routes.redact(&job, &failure.reason), format_args!("***"));
        }
        let result = ("result", called.as_str().into());
        match called {
            Called::Answered { .. } => self.env.traces.close(span, result),
            _ => self.env.traces.close_failed(span, result),
        }
        Ok(Ok(called))
    }

    async fn ask(&self, route: &Route, job: &Job, call: Call, timeout: Duration) -> Result<Called> {
        let started_at = job.enqueued_at;
        let (target, permit) = match self.permit_call(route, job, timeout).await {
            Ok(permitted) => permitted,
            Err(failure) => return self.fall_back_call(route, call, failure).await,
        };
        let (sent_at, began) = (self.env.now(), Instant::now());
        let left = timeout.saturating_sub(sent_at.since(started_at));
        let delivery = Delivery { job, attempt: 1, now: started_at, timeout: left, answer: Wanted::Answer };
        let outcome = send(&target.transport, delivery).await;
        let lasted = (sent_at, began.elapsed());
        let now = self.env.now();
        let verdict = route.classifier.verdict(outcome);
        let took = now.since(started_at);
        let _ = permit.record_verdict(job, &verdict, now);
        self.env.traces.record(job, 1, &target.provider.name, AttemptSummary::from(&verdict), lasted);
        let failure = match verdict {
            Verdict::Delivered { answer } => {
                tracing::info!(route = %route.name, companyId = %call.company_id, tookMs = took.as_millis() as u64, "Call answered");
                if let (Some(key), Some(answer)) = (&call.cache_key, &answer) {
                    let key = key_of(&call.route, &call.company_id, key);
                    self.remember_answer(&key, answer.clone(), now);
                }
                self.clear_account(route, job).await;
                return Ok(Called::Answered { answer, took });
            }
            Verdict::Partial { mut refused, .. } => match refused.pop() {
                Some((_, failure)) => failure,
                None => return Ok(Called::Answered { answer: None, took }),
            },
            Verdict::Failed(failure) => failure,
        };
        tracing::warn!(
            route = %route.name,
            companyId = %call.company_id,
            tookMs = took.as_millis() as u64,
            errorCode = failure.code.as_deref(),
            errorReason = self.env.routes.redact(job, &failure.reason),
            errorClassification = failure.class.as_str(),
            rule = &*failure.rule,
            "Call failed"
        );
        self.mark_account(route, job, &failure, now).await;
        self.fall_back_call(route, call, failure).await
    }

    fn callable(&self, name: &str) -> Result<(Arc<Route>, Arc<dyn Transport>), String> {
        if let Some(why) = self.env.routes.why_undeliverable(name) {
            return Err(why);
        }
        let route = self.env.routes.get(name).cloned().ok_or_else(|| self.env.routes.unknown_route(name))?;
        match &route.carrier {
            Carrier::Transport(transport) => Ok((route.clone(), transport.clone())),
            _ => Err(format!(
                "route `{name}` is delivered by workers; enqueue a job instead, or call your worker"
            )),
        }
    }

    /// Gets a permit of the first provider that admits the call. A busy one is waited for as long as the caller waits; one
    /// whose breaker is open is not.
    async fn permit_call(
        &self,
        route: &Route,
        job: &Job,
        timeout: Duration,
    ) -> Result<(ProviderTarget, Permit), Failure> {
        let deadline = Instant::now() + timeout;
        loop {
            let mut held: Option<(Refusal, ProviderTarget)> = None;
            for target in self.gate.targets(route) {
                match self.admit_call(route, &target, job).await {
                    Ok(permit) => return Ok((target, permit)),
                    Err(refusal) => held = held.or(Some((refusal, target))),
                }
            }
            let now = self.env.now();
            match held {
                Some((Refusal { why: RefusalReason::Busy, .. }, target)) if Instant::now() < deadline => {
                    let freed = tokio::time::timeout(BUSY_LOOK, target.provider.changed.notified());
                    let _ = tokio::time::timeout_at(deadline, freed).await;
                }
                Some((refusal, target)) => return Err(held_back(&refusal, &target.provider.name, now)),
                None => {
                    return Err(held_back(&Refusal::without_end(RefusalReason::Busy), &route.provider, now));
                }
            }
        }
    }

    /// Everything that holds a job back holds a call back.
    async fn admit_call(&self, route: &Route, target: &ProviderTarget, job: &Job) -> Result<Permit, Refusal> {
        let (now, company) = (self.env.now(), &job.company);
        if let Some(pause) = self.gate.pause_of(&route.name) {
            return Err(Refusal::without_end(RefusalReason::Paused(pause)));
        }
        let by_company = || {
            let everywhere = self.gate.tenants.held(company.as_str(), now);
            everywhere.or_else(|| target.provider.company_held(company, route.hold_max(), now))
        };
        if let Some(refusal) = by_company() {
            return Err(refusal);
        }
        let reserving = self.gate.reserve(&target.provider, 1, SlotOwner::ThisProcess, route.hold_max());
        let mut reservation = reserving.await?;
        let permit = reservation.start(job, target.receiver_of(job)).map_err(|why| match why {
            NotStarted::NoSlot | NotStarted::CompanyBusy => Refusal::without_end(RefusalReason::CompanyBusy),
            NotStarted::Receiver(ReceiverWait::Busy { .. }) => Refusal::without_end(RefusalReason::Busy),
            NotStarted::Receiver(ReceiverWait::Held { quiet, .. }) => {
                Refusal { why: RefusalReason::Quiet(quiet.reason), until: Some(quiet.until) }
            }
        })?;
        match self.gate.draw_rates(Some(&target.provider), &[Some(company)]).await.as_deref() {
            Ok([true]) => Ok(permit),
            // Another caller was faster.
            Ok(_) => Err(by_company().unwrap_or(Refusal::without_end(RefusalReason::Rate))),
            Err(error) => {
                tracing::warn!(provider = %target.provider.name, %error, "Cannot spend a rate; the call is refused");
                Err(Refusal::without_end(RefusalReason::Store))
            }
        }
    }

    async fn fall_back_call(&self, route: &Route, call: Call, failure: Failure) -> Result<Called> {
        let now = self.env.now();
        let wanted = call.cache_key.as_deref().filter(|_| route.fallback.act != Act::Unavailable);
        let key = wanted.map(|key| key_of(&call.route, &call.company_id, key));
        if let Some(key) = &key
            && let Some(entry) = self.kv.kv_get(NAMESPACE, key, now).await?
            && let Some(Remembered { at, answer }) = read_entry(&entry)
        {
            let retry = match failure.class {
                Class::Permanent => None,
                _ => self.schedule_refresh(route, &call, key, &failure, now).await,
            };
            return Ok(Called::Cached { answer, age: now.since(at), failure, retry });
        }
        if failure.class == Class::Permanent {
            return Ok(Called::Refused { failure });
        }
        let retry_after = decide::next_delay(
            &route.terms.policy,
            0,
            None,
            failure.retry_after,
            self.env.random.next_draw(),
        );
        Ok(Called::Unavailable { failure, retry_after })
    }

    /// Schedules a job that asks again after the policy's wait, and whose answer is cached.
    async fn schedule_refresh(
        &self,
        route: &Route,
        call: &Call,
        key: &str,
        failure: &Failure,
        now: Timestamp,
    ) -> Option<JobId> {
        let id = format!("{REFRESH}{key}:{}", now.as_millis() / REFRESH_EVERY_MS);
        let expires_at = now.plus(self.notifier.job_ttl);
        let mut job = follow_up(&id, &route.name, &call.company_id, call.data.as_str(), now, expires_at)?;
        let draw = self.env.random.next_draw();
        job.correlation_id = call.cache_key.as_deref().map(Into::into);
        job.traceparent = call.traceparent;
        job.due_at = now.plus(decide::next_delay(&route.terms.policy, 0, None, failure.retry_after, draw));
        let id = job.id.clone();
        match self.env.jobs.enqueue(vec![job]).await {
            Ok(_) => Some(id),
            Err(error) => {
                tracing::warn!(%error, route = %route.name, "Cannot schedule the retry of a call");
                None
            }
        }
    }
}

/// The reason why a call did not go out, in the shape of a failure.
fn held_back(Refusal { why, until }: &Refusal, provider: &str, now: Timestamp) -> Failure {
    let (code, words) = match why {
        RefusalReason::Breaker { .. } => (EngineCode::CircuitOpen, "its circuit breaker is open"),
        RefusalReason::Rate => (EngineCode::RateLimited, "the rate is used up"),
        RefusalReason::Quiet(_) => (EngineCode::RateLimited, "it asked for quiet"),
        RefusalReason::Paused(_) => (EngineCode::Paused, "the provider, the route or the company is paused"),
        RefusalReason::Busy => (EngineCode::Busy, "all its slots are taken"),
        RefusalReason::CompanyBusy => (EngineCode::Busy, "all slots of the company are taken"),
        RefusalReason::Store => (EngineCode::StoreUnavailable, "the store does not say whether it may be"),
    };
    let words = format!("provider {provider} was not asked: {words}");
    Failure {
        blame: recado_core::Blame::Provider,
        retry_after: until.map(|until| until.since(now)),
        ..Failure::of_engine(Class::Transient, code, &words, "recado/held-back")
    }
}

/// Returns the key of the cached answer that this job renews, if it renews one.
pub(crate) fn refreshed_key(job: &Job) -> Option<&str> {
    let (key, _) = job.id.as_str().strip_prefix(REFRESH)?.rsplit_once(':')?;
    // Only the answer that its own route, company and key lead to.
    let own = key_of(job.route.as_str(), &job.company, job.correlation_id.as_deref()?);
    (own == key).then_some(key)
}

/// Removes an answer that is too long for the job's history.
pub(crate) fn drop_long_answer(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Delivered { answer } => Verdict::Delivered {
            answer: answer.filter(|answer| answer.as_str().len() <= ANSWER_KEPT_MAX_BYTES),
        },
        other => other,
    }
}

fn key_of(route: &str, company: &CompanyId, key: &str) -> String {
    format!("{:032x}", recado_core::payload::digest_of(&[route, company.as_str(), key]))
}

impl Attempts {
    /// Writes an answer down. The caller does not wait for it: a crash costs at most an older last resort.
    pub(crate) fn remember_answer(&self, key: &str, answer: Payload, now: Timestamp) {
        let key = EntryKey { namespace: NAMESPACE, key };
        let Ok(write) = write_of(key, Some(&Remembered { at: now, answer }), None) else { return };
        let write = KvWrite { expires_at: Some(now.plus(ANSWER_TTL)), ..write };
        let kv = self.kv.clone();
        self.env.lifecycle.deliveries.spawn(async move {
            if let Err(error) = kv.kv_write(vec![write], now).await {
                tracing::warn!(%error, "Cannot remember an answer");
            }
        });
    }

    /// Makes a job of a call, for its transport. It is never stored.
    fn ephemeral(&self, route: &Route, call: &Call, now: Timestamp, timeout: Duration) -> Job {
        Job {
            id: JobId::trusted(format!("call-{}", self.env.random.uuid_v7(now))),
            route: route.name.clone(),
            company: call.company_id.clone(),
            data: call.data.clone(),
            user_id: None,
            correlation_id: None,
            traceparent: call.traceparent,
            priority: Priority::default(),
            enqueued_at: now,
            due_at: now,
            expires_at: now.plus(timeout),
            progress: Progress::default(),
            attempts: Vec::new(),
            checksum: None,
        }
    }
}
