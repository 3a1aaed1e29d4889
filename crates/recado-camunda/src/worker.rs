//! The loop: take → read → decide → report.
//!
//! Only take, decide and report do I/O. If the process dies
//!
//! - after take: the lock runs out and the engine offers the task again, with all its retries;
//! - after decide: the same. Recado has one record of a decision that was not used, and decides again;
//! - after report: the engine has it. If only its answer was lost, the report is repeated, and the engine
//!   says that the task is gone.
//!
//! If Recado cannot decide, the task goes back with all its retries instead of being held until the lock
//! runs out: the engine shows why, another worker may have better luck, and the wait is short. Until Recado
//! decides again, one task at a time is taken as a probe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recado_core::Random;
use recado_core::time::millis;
use recado_wire::decisions::{Decision, DecisionErrorCode, DecisionRequest};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::engine::{ProcessEngine, Received, Report, Task};
use crate::rules::{self, Rules};
use crate::source::{DecisionSource, NoDecision};
use crate::unreported::UnreportedDecisions;
use crate::variables;

/// First and longest pause when the engine does not hand out, or Recado does not decide.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// First and longest pause between two tries to report on a task.
const REPORT_PAUSE_FIRST: Duration = Duration::from_millis(100);
const REPORT_PAUSE_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Tasks at most at the same time.
    pub tasks_max: usize,
    /// Time that a report is tried: as long as the task is locked.
    pub lock: Duration,
    /// Time that tasks at hand may still take when a stop begins.
    pub stop_grace: Duration,
}

/// Takes tasks from one process engine and reports on each.
#[derive(Debug)]
pub struct Worker {
    handler: Arc<TaskHandler>,
    slots: Arc<Semaphore>,
    stop_grace: Duration,
}

/// The parts that handling a task needs.
#[derive(Debug)]
struct TaskHandler {
    engine: Box<dyn ProcessEngine>,
    source: Box<dyn DecisionSource>,
    rules: Rules,
    lock: Duration,
    memory: UnreportedDecisions,
    /// True if the last question to Recado got no decision.
    undecided: AtomicBool,
    decides_again: Notify,
    random: Random,
}

impl Worker {
    pub fn new(
        engine: impl ProcessEngine + 'static,
        source: impl DecisionSource + 'static,
        rules: Rules,
        limits: Limits,
        random: Random,
    ) -> Self {
        let handler = TaskHandler {
            engine: Box::new(engine),
            source: Box::new(source),
            rules,
            lock: limits.lock,
            memory: UnreportedDecisions::default(),
            undecided: AtomicBool::new(false),
            decides_again: Notify::new(),
            random,
        };
        Worker {
            handler: Arc::new(handler),
            slots: Arc::new(Semaphore::new(limits.tasks_max.max(1))),
            stop_grace: limits.stop_grace,
        }
    }

    /// Works until `stop`, then finishes what it took. Returns the number of tasks that it had to leave: their locks
    /// run out and the engine offers them again.
    pub async fn run(self, stop: CancellationToken) -> usize {
        let mut tasks = JoinSet::new();
        tokio::select! {
            () = stop.cancelled() => {}
            never = self.take_and_handle(&mut tasks) => never,
        }
        let ended = timeout(self.stop_grace, async { while tasks.join_next().await.is_some() {} }).await;
        let left = if ended.is_err() { tasks.len() } else { 0 };
        tasks.shutdown().await;
        left
    }

    async fn take_and_handle(&self, tasks: &mut JoinSet<()>) -> ! {
        let handler = &self.handler;
        let mut engine_pauses = Backoff::new(PAUSE_FIRST, PAUSE_MAX);
        let mut source_pauses = Backoff::new(PAUSE_FIRST, PAUSE_MAX);
        loop {
            while tasks.try_join_next().is_some() {}
            let probing = handler.undecided.load(Ordering::Relaxed);
            if probing {
                // Ends early once the last probe has its decision.
                let _ = timeout(handler.pause(&mut source_pauses), handler.decides_again.notified()).await;
            } else {
                source_pauses.reset();
            }
            let mut slots = self.free_slots(if probing { 1 } else { usize::MAX }).await;
            match handler.engine.take(slots.num_permits()).await {
                Ok(taken) => {
                    if engine_pauses.reset() {
                        tracing::info!("The process engine answers again");
                    }
                    let locked_until = Instant::now() + handler.lock;
                    for task in taken {
                        // An engine that hands out more than was asked for does not get to break the bound.
                        let Some(slot) = slots.split(1) else { break };
                        let handler = Arc::clone(handler);
                        tasks.spawn(async move {
                            handler.handle(task, locked_until).await;
                            drop(slot);
                        });
                    }
                }
                Err(error) => {
                    let pause = handler.pause(&mut engine_pauses);
                    tracing::warn!(%error, pauseMs = millis(pause), "Cannot fetch jobs from the process engine");
                    sleep(pause).await;
                }
            }
        }
    }

    /// All slots that are free, up to `max`; waits for the first one.
    async fn free_slots(&self, max: usize) -> OwnedSemaphorePermit {
        let (slots, closed) = (&self.slots, "the slots are never closed");
        let mut free = Arc::clone(slots).acquire_owned().await.expect(closed);
        // Only this loop takes slots, so those that are free now stay free.
        let more = slots.available_permits().min(max - 1);
        if let Ok(more) = Arc::clone(slots).try_acquire_many_owned(u32::try_from(more).unwrap_or(u32::MAX)) {
            free.merge(more);
        }
        free
    }
}

impl TaskHandler {
    async fn handle(&self, task: Task, locked_until: Instant) {
        let report = self.judge(&task).await;
        if self.tell(&task, &report, locked_until).await {
            self.memory.forget(&task.key);
        }
    }

    async fn judge(&self, task: &Task) -> Report {
        if let Some(decision) = variables::read_decision(task) {
            tracing::info!(
                task = task.key,
                retryCount = decision.retry_count,
                "Backoff over; completing the task"
            );
            return Report::Complete(decision);
        }
        let asked = match variables::read_question(task, self.rules.route.as_deref()) {
            Ok(asked) => asked,
            Err(faults) => {
                let faults = variables::describe_faults(&faults);
                tracing::warn!(task = task.key, faults, "A claim that cannot be decided on");
                return rules::report_undecided(NoDecision::Refused(faults));
            }
        };
        match self.decide(task, &asked).await {
            Ok(decision) => self.rules.report(task, &asked, decision),
            Err(why) => rules::report_undecided(why),
        }
    }

    async fn decide(&self, task: &Task, asked: &DecisionRequest) -> Result<Decision, NoDecision> {
        if let Some(decision) = self.memory.recall(&task.key, asked) {
            return Ok(decision);
        }
        let decided = self.source.decide(asked).await;
        let unavailable = matches!(decided, Err(NoDecision::Unavailable(_)));
        if self.undecided.swap(unavailable, Ordering::Relaxed) && !unavailable {
            tracing::info!("Recado answers again");
            self.decides_again.notify_one();
        }
        match &decided {
            Ok(decision) => {
                self.memory.keep(&task.key, asked, decision);
                log_decision(task, asked, decision);
            }
            Err(NoDecision::Refused(faults)) => {
                tracing::warn!(task = task.key, claimId = asked.claim_id, faults, "Recado refuses the claim");
            }
            Err(NoDecision::Unavailable(error)) => tracing::warn!(
                task = task.key,
                claimId = asked.claim_id,
                error,
                "No decision; the job goes back with all its retries"
            ),
        }
        decided
    }

    /// Reports until the engine takes it or the lock runs out. Returns true if the engine has taken it.
    async fn tell(&self, task: &Task, report: &Report, locked_until: Instant) -> bool {
        let mut backoff = Backoff::new(REPORT_PAUSE_FIRST, REPORT_PAUSE_MAX);
        loop {
            let error = match self.engine.report(task, report).await {
                Ok(Received::Taken) => return true,
                Ok(Received::Gone(said)) => {
                    tracing::info!(task = task.key, said, "The job is gone; its report is forgotten");
                    return true;
                }
                Err(error) => error,
            };
            let pause = self.pause(&mut backoff);
            if error.is_lasting() || Instant::now() + pause >= locked_until {
                let key = &task.key;
                tracing::error!(task = key, %error, "Cannot report to the engine; the job comes back when its lock runs out");
                return false;
            }
            tracing::warn!(task = task.key, %error, pauseMs = millis(pause), "Reporting again");
            sleep(pause).await;
        }
    }

    fn pause(&self, backoff: &mut Backoff) -> Duration {
        backoff.next(&self.random)
    }
}

/// The structured log line of a decision. The error's own words stay with the engine and in Recado's records.
fn log_decision(task: &Task, asked: &DecisionRequest, decision: &Decision) {
    if let (true, Some(at)) = (decision.should_retry, decision.next_retry_time) {
        tracing::info!(
            event = "submission_retry_scheduled",
            claimId = asked.claim_id,
            retryCount = decision.retry_count,
            errorClassification = decision.error_classification.as_str(),
            backoffMinutes = decision.backoff_minutes,
            nextRetryTime = %at,
            task = task.key,
            "Retry scheduled"
        );
    } else {
        tracing::warn!(
            event = "submission_retry_refused",
            claimId = asked.claim_id,
            retryCount = decision.retry_count,
            errorClassification = decision.error_classification.as_str(),
            errorCode = decision.error_code.map(DecisionErrorCode::as_str),
            task = task.key,
            "Claim needs a person"
        );
    }
}
