//! The life of an attempt when the sending is done by a worker outside this process.
//!
//! Same steps as [`crate::attempt::deliver`], cut at the wire: the worker leases, sends on its own, and says how it
//! went; classification, policy and settling stay here.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Fault, Lease, LeaseToken, Outcome, Payload, RouteName, Timestamp, decide};
use recado_observe::DelaySource;
use recado_store::{Claim, Claimed, Extended, PAGE_MAX_BYTES, Pick, Settled};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::admission::breaker::DeliveryFeedback;
use crate::admission::gate::Reservation;
use crate::admission::provider::{Provider, SlotOwner};
use crate::attempt::claimer::CLAIM_RETRY;
use crate::attempt::post_settle::PostSettle;
use crate::attempt::settle::settlement;
use crate::attempt::{Attempts, log};
use crate::clock::sleep_until;
use crate::error::{EngineError, Result};
use crate::metrics::delay_source_of;
use crate::route::Carrier;

/// Leases that one request may ask for.
pub const LEASES_MAX: usize = 1_000;

/// Leases that are claimed or read at a time: each comes with a payload of up to 1 MiB.
const PIECE_LEASES: usize = 32;

/// Longest wait of one long poll.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub struct LeaseRequest {
    pub routes: Vec<RouteName>,
    pub max: usize,
    pub wait: Duration,
    pub lease: Duration,
    pub worker_id: Box<str>,
}

/// A worker's report on an attempt.
#[derive(Clone, Debug)]
pub enum Report {
    Succeeded {
        result: Option<Payload>,
    },
    Failed {
        code: Option<Box<str>>,
        message: Box<str>,
        stack_trace: Option<Box<str>>,
        retry_after: Option<Duration>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    Done,
    /// The lease ran out or was settled before; nothing changed.
    Stale,
}

impl Attempts {
    /// The reasons why these routes cannot be leased, if they cannot.
    pub fn check_worker_routes(&self, routes: &[RouteName]) -> Vec<(usize, String)> {
        let mut faults = Vec::new();
        for (at, name) in routes.iter().enumerate() {
            match self.env.routes.get(name.as_str()).map(|route| &route.carrier) {
                None => faults.push((at, self.env.routes.unknown_route(name.as_str()))),
                Some(Carrier::Workers) => {}
                Some(_) => faults.push((
                    at,
                    format!("route `{name}` is delivered by Recado itself; only routes of transport \"worker\" can be leased"),
                )),
            }
        }
        faults
    }

    /// Leases jobs for a worker, waiting up to `wait` for the first.
    pub async fn lease(self: &Arc<Self>, request: &LeaseRequest) -> Result<Vec<Lease>> {
        let deadline = Instant::now() + request.wait.min(WAIT_MAX);
        let mut wakers: Vec<_> = request.routes.iter().map(|route| self.env.jobs.waker(route)).collect();
        loop {
            if self.env.lifecycle.is_stopping() {
                return Err(EngineError::Stopping);
            }
            for waker in &mut wakers {
                waker.reset();
            }
            let mut changed = std::pin::pin!(self.gate.changed.notified());
            changed.as_mut().enable();
            let Claimed { leases, next_at } = self.claim_whole(request).await?;
            if !leases.is_empty() || Instant::now() >= deadline {
                return Ok(leases.into_iter().map(|lease| self.shown(lease)).collect());
            }
            let woken =
                futures_util::future::select_all(wakers.iter_mut().map(|waker| Box::pin(waker.wait())));
            tokio::select! {
                biased;
                () = self.env.lifecycle.stopping.cancelled() => {}
                _ = woken => {}
                () = &mut changed => {}
                () = sleep_until(&*self.env.clock, next_at) => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// Claims on a task of its own. The caller's future goes away when its worker hangs up, and that must not
    /// tear a claim apart: leases that are not taken go back at once instead of running out.
    async fn claim_whole(self: &Arc<Self>, request: &LeaseRequest) -> Result<Claimed> {
        let (hand_over, taken) = oneshot::channel();
        let (attempts, request) = (self.clone(), request.clone());
        self.env.lifecycle.deliveries.spawn(async move {
            let claimed = attempts.claim_pieces(&request).await;
            if let Err(Ok(Claimed { leases, .. })) = hand_over.send(claimed) {
                for lease in &leases {
                    attempts.release(lease).await;
                }
            }
        });
        taken.await.unwrap_or(Err(EngineError::Stopping))
    }

    /// Claims piece by piece, until there are enough or they hold as much data as a page may.
    async fn claim_pieces(self: &Arc<Self>, request: &LeaseRequest) -> Result<Claimed> {
        let max = request.max.min(LEASES_MAX);
        let (mut leases, mut data_bytes) = (Vec::new(), 0);
        loop {
            let wanted = PIECE_LEASES.min(max - leases.len());
            let piece = self.claim_for_worker(&LeaseRequest { max: wanted, ..request.clone() }).await;
            let Claimed { leases: piece, next_at } = match piece {
                // What is leased already is worth more than the error.
                Err(_) if !leases.is_empty() => return Ok(Claimed { leases, next_at: None }),
                piece => piece?,
            };
            let is_full = piece.len() >= wanted;
            data_bytes += piece.iter().map(|lease| lease.job.data.as_str().len()).sum::<usize>();
            leases.extend(piece);
            if !is_full || leases.len() >= max || data_bytes >= PAGE_MAX_BYTES {
                return Ok(Claimed { leases, next_at });
            }
        }
    }

    async fn claim_for_worker(self: &Arc<Self>, request: &LeaseRequest) -> Result<Claimed> {
        let mut leases = Vec::new();
        let mut next_at: Option<Timestamp> = None;
        for route in &request.routes {
            if self.gate.pause_of(route).is_some() {
                self.gate.deferrals.record_held_lane(route, self.env.now());
                continue;
            }
            let hold_max = self.env.routes.hold_max(route);
            // Workers' slots are their own; breaker, rate and pause apply to workers too.
            let wanted = request.max - leases.len();
            let provider = self.gate.provider_of(route);
            let mut reservation = None;
            if let Some(provider) = provider {
                let reserving = self.gate.reserve(provider, wanted, SlotOwner::Outside, hold_max);
                match reserving.await {
                    Ok(granted) => reservation = Some(granted),
                    Err(refusal) => {
                        self.gate.deferrals.record_held_lane(route, self.env.now());
                        next_at = next_at.into_iter().chain(refusal.until).min();
                        continue;
                    }
                }
            }
            let (turns, free_at) = self.gate.turns(provider, hold_max, wanted, self.turn_jobs);
            next_at = next_at.into_iter().chain(free_at).min();
            let now = self.env.now();
            self.gate.deferrals.record_free_lane(route, now);
            self.gate.deferrals.record_companies(route, &turns.quota, now);
            let claim = Claim {
                pick: Pick::Ready(route.clone()),
                max: reservation.as_ref().map_or(wanted, Reservation::count),
                now,
                lease_until: self.env.clock.steady_now().plus(request.lease),
                worker: request.worker_id.clone(),
                provider: provider.map(|provider| provider.name.clone()),
                outlives_process: true,
                turns,
            };
            let claimed = match self.claim_for_outside(claim, request.lease).await {
                Ok(claimed) => claimed,
                // What is leased already is worth more than the error.
                Err(_) if !leases.is_empty() => break,
                Err(error) => return Err(error.into()),
            };
            next_at = next_at.into_iter().chain(claimed.next_at).min();
            let (due, expired): (Vec<_>, Vec<_>) =
                claimed.leases.into_iter().partition(|lease| lease.job.expires_at > now);
            for lease in expired {
                self.give_up_expired(lease, now).await;
            }
            let due = self.keep_deliverable(route, due);
            let taken = self.take_for_worker(provider, due).await;
            if let Some(reservation) = &mut reservation {
                reservation.hand_out(taken.len());
            }
            leases.extend(taken);
            if leases.len() >= request.max {
                break;
            }
        }
        Ok(Claimed { leases, next_at })
    }

    /// Those that the rates have room for; the others go back.
    async fn take_for_worker(
        self: &Arc<Self>,
        provider: Option<&Arc<Provider>>,
        leases: Vec<Lease>,
    ) -> Vec<Lease> {
        let companies: Vec<_> = leases.iter().map(|lease| Some(&lease.job.company)).collect();
        let taken = self.gate.draw_rates(provider, &companies).await;
        if let Err(error) = &taken {
            tracing::warn!(%error, "Cannot spend a rate; its jobs go back");
            tokio::time::sleep(CLAIM_RETRY).await;
        }
        let taken = taken.unwrap_or_else(|_| vec![false; leases.len()]);
        let mut go = taken.into_iter();
        let (taken, back): (Vec<_>, Vec<_>) = leases.into_iter().partition(|_| go.next().unwrap_or(false));
        self.release_all(back.into_iter().map(|lease| self.leases.hold(lease)));
        taken
    }

    fn shown(&self, lease: Lease) -> Lease {
        Lease { expires_at: self.wall_time_of(lease.expires_at), ..lease }
    }

    /// A lease's end by the wall clock, as people and workers read it. Steps of that clock count in whole seconds, so that
    /// the same end is always told as the same time.
    pub fn wall_time_of(&self, end: Timestamp) -> Timestamp {
        let step_ms = self.env.now().as_millis() - self.env.clock.steady_now().as_millis();
        Timestamp::from_millis(end.as_millis() + (step_ms + 500).div_euclid(1_000) * 1_000)
    }

    /// Settles a job whose time is over. When the store cannot take that now the job goes back, and the rescuer settles
    /// it: the other leases of the request are still the worker's.
    async fn give_up_expired(self: &Arc<Self>, lease: Lease, now: Timestamp) {
        let terms = self.env.routes.terms_of(&lease.job.route);
        let (transition, audit) = decide::bury_expired(&lease.job, None, terms, now);
        log::attempt(&self.env.routes, &lease, &transition);
        let mut settlement = settlement(&lease, transition.clone(), Some(audit), now);
        let post_settle = PostSettle::plan(self, &lease.job, &mut settlement, DelaySource::Policy);
        match self.env.jobs.settle(vec![settlement]).await {
            Ok(settled) if settled.first() == Some(&Settled::Done) => {
                post_settle.run(self, &lease.job, &transition, now).await;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(jobId = %lease.job.id, %error, "Cannot settle a job whose time is over yet; it goes back");
                self.release_all([self.leases.hold(lease)]);
            }
        }
    }

    /// Settles what workers report, each on its own, in order.
    pub async fn report(self: &Arc<Self>, reports: Vec<(LeaseToken, Report)>) -> Result<Vec<Reported>> {
        let mut settlements = Vec::with_capacity(reports.len());
        // In the order of the reports; `None` where the lease is not known.
        let mut planned = Vec::with_capacity(reports.len());
        let tokens: Vec<_> = reports.iter().map(|(token, _)| *token).collect();
        let mut leases = Vec::with_capacity(tokens.len());
        for piece in tokens.chunks(PIECE_LEASES) {
            leases.extend(self.env.jobs.leases(piece).await?);
        }
        for (lease, (_, report)) in leases.into_iter().zip(reports) {
            let Some(lease) = lease else {
                planned.push(None);
                continue;
            };
            let now = self.env.now();
            let terms = self.env.routes.terms_of(&lease.job.route);
            let verdict = match self.env.routes.get(lease.job.route.as_str()) {
                Some(route) => route.classifier.verdict(outcome(report)),
                None => recado_core::Classifier::default().verdict(outcome(report)),
            };
            let provider = self.gate.provider_of(&lease.job.route);
            if let Some(provider) = provider {
                let feedback = DeliveryFeedback::of(&lease.job, &verdict);
                self.gate.record_feedback(provider, &lease.job.company, feedback, lease.claimed_at, now);
            }
            let (delay_source, draw) = (delay_source_of(&verdict), self.env.random.next_draw());
            let (mut transition, audit) =
                decide::decide_after_attempt(&lease, verdict, terms, lease.claimed_at, now, draw);
            let provider = provider.map_or("", |provider| &provider.name);
            if !provider.is_empty() {
                transition.set_provider(provider);
                if self.gate.deferrals.was_deferred(&lease.job, lease.claimed_at) {
                    transition.mark_deferred();
                }
            }
            log::attempt(&self.env.routes, &lease, &transition);
            let lasted = (lease.claimed_at, now.since(lease.claimed_at));
            self.env.traces.record_attempt(&lease, provider, &transition, lasted);
            let mut settlement = settlement(&lease, transition.clone(), Some(audit), now);
            let mut post_settle = PostSettle::plan(self, &lease.job, &mut settlement, delay_source);
            post_settle.leaves_queue = self.leaves_queue(&lease.job, &transition).await;
            planned.push(Some((post_settle, lease, transition)));
            settlements.push(settlement);
        }
        let settled =
            if settlements.is_empty() { Vec::new() } else { self.env.jobs.settle(settlements).await? };
        let mut settled = settled.into_iter();
        let mut reported = Vec::with_capacity(planned.len());
        for planned in planned {
            match planned.map(|planned| (planned, settled.next())) {
                Some(((post_settle, lease, transition), Some(Settled::Done))) => {
                    post_settle.run(self, &lease.job, &transition, self.env.now()).await;
                    reported.push(Reported::Done);
                }
                _ => reported.push(Reported::Stale),
            }
        }
        Ok(reported)
    }

    /// Extends a worker's lease and returns its new end by the wall clock; `None` when the worker no longer
    /// holds it.
    pub async fn extend(&self, token: LeaseToken, lease: Duration) -> Result<Option<Timestamp>> {
        let end = self.env.clock.steady_now().plus(lease);
        let extended = self.env.jobs.extend(vec![token], end).await?;
        Ok(match extended.first() {
            Some(Extended::Until(at)) => Some(self.wall_time_of(*at)),
            Some(Extended::Stale) | None => None,
        })
    }
}

fn outcome(report: Report) -> Outcome {
    match report {
        Report::Succeeded { result } => Outcome::Accepted { answer: result },
        Report::Failed { code, message, stack_trace, retry_after } => {
            let status = code
                .as_deref()
                .and_then(|code| code.parse().ok())
                .filter(|status| (100..600).contains(status));
            let enhanced = recado_core::outcome::enhanced_code(&message).map(Into::into);
            Outcome::Failed(Fault {
                code,
                enhanced,
                status,
                text: message,
                stack_trace,
                retry_after,
                ..Fault::default()
            })
        }
    }
}
