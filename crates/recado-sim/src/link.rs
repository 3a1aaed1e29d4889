//! The link between one process and the outside: where a process dies, stands still or is cut off.
//!
//! Seen from the outside, a process that dies at an await is one that is never heard of again from there on. So a killed
//! process goes on in memory, and none of its calls reaches anything or returns.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::{Random, Timestamp, Transition};
use recado_store::{
    Cancelled, Discarded, Enqueued, Extended, Pick, Redriven, Settled, StoreError, StoreResult,
};
use recado_store_conformance::intercepted::{Call, Done, Interceptor};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::history::{Event, History, Lease, NodeChange, Settlement};
use crate::node::EPOCH;
use crate::plan::{CallSide, Moment, between, chance};
use crate::server::{Server, ms};

/// A client of the server waits this long for an answer that was lost.
const ANSWER_TIMEOUT_MS: u64 = 1_000;

/// A node gets expired leases only after it has reached the server for this long without interruption, as in the Redis
/// store.
const ORPHAN_GRACE: Duration = Duration::from_secs(5);

/// One process's way to the outside. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Link(Arc<LinkState>);

#[derive(Debug)]
pub struct LinkState {
    pub name: String,
    pub life: u32,
    pub server: Arc<Server>,
    pub history: History,
    pub random: Random,
    pub latency_ms: u64,
    condition: Mutex<Condition>,
    changed: Notify,
    /// The first and the last answer without a break.
    answers: Mutex<Option<(Instant, Instant)>>,
}

#[derive(Debug)]
struct Condition {
    killed: bool,
    still_until: Instant,
    cut_until: Instant,
    /// It dies at the next call of this kind, before or after the far end has it.
    dies_at: Option<(Moment, CallSide)>,
}

impl std::ops::Deref for Link {
    type Target = LinkState;

    fn deref(&self) -> &LinkState {
        &self.0
    }
}

impl Link {
    pub fn new(
        name: String,
        life: u32,
        server: Arc<Server>,
        history: History,
        random: Random,
        latency_ms: u64,
    ) -> Self {
        let now = Instant::now();
        let condition = Condition { killed: false, still_until: now, cut_until: now, dies_at: None };
        Link(Arc::new(LinkState {
            name,
            life,
            server,
            history,
            random,
            latency_ms,
            condition: Mutex::new(condition),
            changed: Notify::new(),
            answers: Mutex::default(),
        }))
    }
}

impl LinkState {
    /// Kills the process.
    pub fn kill(&self) {
        self.cut_off();
        self.history.add(Event::Node { node: self.name.clone(), life: self.life, what: NodeChange::Killed });
    }

    /// Cuts the process off for good: it has ended.
    pub fn cut_off(&self) {
        self.condition.lock().killed = true;
        self.changed.notify_waiters();
    }

    pub fn is_killed(&self) -> bool {
        self.condition.lock().killed
    }

    /// Waits until the process is killed.
    pub async fn wait_until_killed(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.is_killed() {
                return;
            }
            changed.await;
        }
    }

    pub fn stand_still(&self, until: Instant) {
        self.condition.lock().still_until = until;
    }

    pub fn cut(&self, until: Instant) {
        self.condition.lock().cut_until = until;
    }

    pub fn die_at(&self, moment: Moment, side: CallSide) {
        self.condition.lock().dies_at = Some((moment, side));
    }

    /// Cancels a planned kill.
    pub fn cancel_planned_kill(&self) {
        self.condition.lock().dies_at = None;
    }

    /// Returns when the process runs; never for one that was killed.
    pub async fn wait_until_running(&self) {
        loop {
            let (killed, until) = {
                let condition = self.condition.lock();
                (condition.killed, condition.still_until)
            };
            if killed {
                std::future::pending::<()>().await;
            }
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// Kills the process here if that is planned; returns when it runs.
    pub async fn die_if_planned(&self, moment: Moment, side: CallSide) {
        let dies = self.condition.lock().dies_at.take_if(|planned| *planned == (moment, side)).is_some();
        if dies {
            self.history.add(Event::Fault {
                kind: match side {
                    CallSide::Before => "kill before a call",
                    CallSide::After => "kill after a call",
                },
                node: Some(self.name.clone()),
                until: None,
            });
            self.kill();
        }
        self.wait_until_running().await;
    }

    fn reaches_server(&self) -> bool {
        !self.server.is_away() && Instant::now() >= self.condition.lock().cut_until
    }

    async fn travel(&self) -> StoreResult<()> {
        let bad = self.server.bad_per_mille();
        let mut way_ms = between(&self.random, 0, self.latency_ms);
        if chance(&self.random, bad) {
            self.fired("late call");
            way_ms += between(&self.random, 100, 900);
        }
        if way_ms > 0 {
            tokio::time::sleep(ms(way_ms)).await;
        }
        self.wait_until_running().await;
        if self.reaches_server() {
            return Ok(());
        }
        tokio::time::sleep(ms(between(&self.random, 1, 500))).await;
        self.wait_until_running().await;
        Err(StoreError::Unavailable("the server is away".to_owned()))
    }

    async fn lose(&self, kind: &'static str) -> StoreResult<()> {
        self.fired(kind);
        tokio::time::sleep(ms(ANSWER_TIMEOUT_MS)).await;
        self.wait_until_running().await;
        Err(StoreError::Unavailable("no answer came".to_owned()))
    }

    fn fired(&self, kind: &'static str) {
        self.history.add(Event::Fault { kind, node: Some(self.name.clone()), until: None });
    }

    /// Returns true if the network loses or repeats this call.
    fn draws_network_fault(&self) -> bool {
        chance(&self.random, self.server.bad_per_mille())
    }
}

fn moment_of(call: Call) -> Option<Moment> {
    match call {
        Call::Claim => Some(Moment::Claim),
        Call::Settle => Some(Moment::Settle),
        Call::KvWrite => Some(Moment::KvWrite),
        _ => None,
    }
}

/// Milliseconds of steady time since the run began.
fn steady(at: Timestamp) -> u64 {
    u64::try_from(at.as_millis() - EPOCH.as_millis()).unwrap_or_default()
}

#[async_trait]
impl Interceptor for Link {
    async fn before(&self, call: Call) -> StoreResult<()> {
        self.wait_until_running().await;
        if let Some(moment) = moment_of(call) {
            self.die_if_planned(moment, CallSide::Before).await;
        }
        self.travel().await?;
        if self.draws_network_fault() {
            return self.lose("lost request").await;
        }
        if call == Call::Enqueue && self.server.is_full() {
            self.fired("full");
            return Err(StoreError::Full("no room".to_owned()));
        }
        Ok(())
    }

    async fn after(&self, call: Call) -> StoreResult<()> {
        if let Some(moment) = moment_of(call) {
            self.die_if_planned(moment, CallSide::After).await;
        }
        self.server.wait_for_stall_to_end().await;
        if self.draws_network_fault() {
            return self.lose("lost answer").await;
        }
        self.travel().await?;
        let now = Instant::now();
        let mut answers = self.answers.lock();
        let unbroken = answers.filter(|(_, last)| now - *last <= ORPHAN_GRACE);
        *answers = Some((unbroken.map_or(now, |(since, _)| since), now));
        Ok(())
    }

    fn repeats(&self, call: Call) -> bool {
        let repeats =
            matches!(call, Call::Enqueue | Call::Extend | Call::Settle) && self.draws_network_fault();
        if repeats {
            self.fired("repeated request");
        }
        repeats
    }

    fn keeps_orphans(&self) -> bool {
        let unbroken = self.answers.lock().filter(|(_, last)| last.elapsed() <= ORPHAN_GRACE);
        self.server.kv_wakes.is_some() && unbroken.is_none_or(|(since, _)| since.elapsed() < ORPHAN_GRACE)
    }

    fn observe(&self, done: Done<'_>) {
        let add = |event| self.history.add(event);
        match done {
            Done::Enqueued(jobs, answers) => {
                for (job, answer) in jobs.iter().zip(answers) {
                    if matches!(answer, Enqueued::Accepted { .. }) {
                        add(Event::Stored {
                            job: job.id.to_string(),
                            company: job.company.to_string(),
                            route: job.route.to_string(),
                            data: job.data.as_str().to_owned(),
                            delay_ms: recado_core::time::millis(job.due_at.since(job.enqueued_at)),
                        });
                    }
                }
            }
            Done::Claimed(claim, claimed) => {
                let route = match &claim.pick {
                    Pick::Ready(route) => route.to_string(),
                    Pick::Overdue => "(overdue)".to_owned(),
                    Pick::Orphaned => "(orphaned)".to_owned(),
                };
                let mut held: Vec<String> =
                    claim.turns.quota.keys().map(|company| company.to_string()).collect();
                held.sort_unstable();
                let lease = |lease: &recado_core::Lease| {
                    self.server.remember_lease(lease.token.0, lease.job.id.as_str());
                    Lease {
                        job: lease.job.id.to_string(),
                        company: lease.job.company.to_string(),
                        token: lease.token.to_string(),
                        until: steady(lease.expires_at),
                        provider: claim.provider.as_deref().map(str::to_owned),
                        takes_over: lease.lost.is_some(),
                    }
                };
                let leases: Vec<Lease> = claimed.leases.iter().map(lease).collect();
                if !leases.is_empty() {
                    let (node, asked) = (self.name.clone(), steady(claim.now));
                    add(Event::Leased { route, node, asked, held, leases });
                }
            }
            Done::Extended(tokens, _, answers) => {
                for (token, answer) in tokens.iter().zip(answers) {
                    if let Extended::Until(until) = answer {
                        add(Event::Extended { token: token.to_string(), until: steady(*until) });
                    }
                }
            }
            Done::Settled(settlements, answers) => {
                for (settlement, answer) in settlements.iter().zip(answers) {
                    let what = match &settlement.transition {
                        Transition::Deliver { .. } => Settlement::Deliver,
                        Transition::RetryAt { .. } => Settlement::Retry,
                        Transition::Postpone { .. } => Settlement::Postpone,
                        Transition::Bury(_) => Settlement::Bury,
                        Transition::Release { lost: Some(_), .. } => Settlement::Lost,
                        Transition::Release { lost: None, .. } => Settlement::Release,
                    };
                    add(Event::Settled {
                        job: self.server.job_of(settlement.token.0),
                        token: settlement.token.to_string(),
                        node: self.name.clone(),
                        what,
                        done: *answer == Settled::Done,
                    });
                }
            }
            Done::Cancelled(id, _, Cancelled::Done) => add(Event::Cancelled { job: id.to_string() }),
            Done::Redriven(redrive, Redriven::Done) => add(Event::Replayed {
                job: redrive.id.to_string(),
                data: redrive.data.as_ref().map(|data| data.as_str().to_owned()),
                bulk: redrive.audit.bulk_id.as_deref().map(str::to_owned),
            }),
            Done::Discarded(discard, Discarded::Done) => add(Event::Discarded {
                job: discard.id.to_string(),
                bulk: discard.audit.bulk_id.as_deref().map(str::to_owned),
            }),
            _ => {}
        }
    }
}
