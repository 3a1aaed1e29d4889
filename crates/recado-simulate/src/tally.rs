//! Counts of a simulation, second by second.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::time::millis;
use recado_core::{AttemptResult, Job, JobId, Policy, Timestamp, Transition};
use recado_store::reference::SettlementObserver;
use recado_transport::Delivery;
use recado_wire::routes::RoutePolicy;
use recado_wire::simulations::{PolicySimulation, SimulationStep};
use tokio::time::Instant;

use crate::{Load, STARTED_AT};

/// Steps of the series at most.
const STEPS_MAX: usize = 120;

/// Counts what happens to the jobs of one simulation.
#[derive(Debug)]
pub struct Tally {
    started: Instant,
    /// The end of the last outage, if there is one.
    back_at: Option<Duration>,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    seconds: Vec<Second>,
    attempts: u64,
    /// Jobs whose last attempt ended without a word on whether the provider took them.
    uncertain: HashSet<JobId>,
    duplicates_possible: u64,
    /// Jobs that were accepted and have not ended.
    waiting: u64,
    /// Jobs that were accepted before the provider was back and have not ended.
    backlog: u64,
    /// The time when the last of them ended.
    backlog_ended_at: Duration,
}

/// Counts of one second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    accepted: u32,
    sent: u32,
    dead: u32,
    retries: u32,
}

impl Counts {
    /// Returns the counts of this second; what happens at the very end belongs to the last one.
    fn second(&mut self, now: Duration) -> &mut Second {
        let at = (now.as_secs() as usize).min(self.seconds.len() - 1);
        &mut self.seconds[at]
    }
}

impl Tally {
    pub fn new(load: &Load) -> Self {
        let seconds = load.duration.as_secs_f64().ceil().max(1.0) as usize;
        Tally {
            started: Instant::now(),
            back_at: load.outages.iter().map(|outage| outage.end).max(),
            counts: Mutex::new(Counts { seconds: vec![Second::default(); seconds], ..Counts::default() }),
        }
    }

    fn is_backlog(&self, accepted_at: Duration) -> bool {
        self.back_at.is_some_and(|back_at| accepted_at < back_at)
    }

    pub fn record_accepted(&self) {
        let now = self.started.elapsed();
        let mut counts = self.counts.lock();
        counts.second(now).accepted += 1;
        counts.waiting += 1;
        counts.backlog += u64::from(self.is_backlog(now));
    }

    /// Counts an attempt, and returns the time since the start.
    pub fn record_attempt(&self, delivery: &Delivery<'_>) -> Duration {
        let now = self.started.elapsed();
        let mut counts = self.counts.lock();
        counts.attempts += 1;
        counts.second(now).retries += u32::from(delivery.attempt > 1);
        let repeats_uncertain = counts.uncertain.remove(&delivery.job.id);
        counts.duplicates_possible += u64::from(repeats_uncertain);
        now
    }

    /// Returns the number of jobs that have not ended.
    pub fn waiting(&self) -> u64 {
        self.counts.lock().waiting
    }

    /// Returns the counts as those of a policy.
    pub fn report(&self, name: &str, policy: &Policy) -> PolicySimulation {
        let counts = self.counts.lock();
        let total = |count: fn(&Second) -> u32| counts.seconds.iter().map(|one| u64::from(count(one))).sum();
        let (accepted, sent, dead) =
            (total(|one| one.accepted), total(|one| one.sent), total(|one| one.dead));
        let recovered_at = self.back_at.filter(|_| counts.backlog == 0);
        let step_s = counts.seconds.len().div_ceil(STEPS_MAX);
        PolicySimulation {
            name: name.into(),
            policy: RoutePolicy::from(policy),
            accepted,
            sent,
            dead,
            waiting: accepted - sent - dead,
            attempts: counts.attempts,
            peak_retries_per_second: counts.seconds.iter().map(|one| one.retries).max().unwrap_or(0),
            recovered_at_ms: recovered_at.map(|at| millis(at.max(counts.backlog_ended_at))),
            duplicates_possible: counts.duplicates_possible,
            step_ms: step_s as u64 * 1_000,
            series: series(&counts.seconds, step_s),
        }
    }
}

impl SettlementObserver for Tally {
    fn on_settled(&self, job: &Job, transition: &Transition) {
        let now = self.started.elapsed();
        let mut counts = self.counts.lock();
        let second = counts.second(now);
        match transition {
            Transition::Deliver { .. } => second.sent += 1,
            Transition::Bury(_) => second.dead += 1,
            // The provider may have taken it although the attempt failed.
            Transition::RetryAt { attempt, .. } if attempt.result == AttemptResult::Uncertain => {
                counts.uncertain.insert(job.id.clone());
                return;
            }
            _ => return,
        }
        counts.waiting -= 1;
        counts.uncertain.remove(&job.id);
        if self.is_backlog(since_start(job.enqueued_at)) {
            counts.backlog -= 1;
            counts.backlog_ended_at = now;
        }
    }
}

/// Sums seconds up to steps of the series.
fn series(seconds: &[Second], step_s: usize) -> Vec<SimulationStep> {
    let mut waiting = 0;
    let step = |(nth, seconds): (usize, &[Second])| {
        let sum = |count: fn(&Second) -> u32| seconds.iter().map(|one| u64::from(count(one))).sum::<u64>();
        let (accepted, sent, dead) = (sum(|one| one.accepted), sum(|one| one.sent), sum(|one| one.dead));
        waiting = waiting + accepted - sent - dead;
        SimulationStep {
            at_ms: (nth * step_s) as u64 * 1_000,
            accepted,
            sent,
            dead,
            retries: sum(|one| one.retries),
            waiting,
        }
    };
    seconds.chunks(step_s).enumerate().map(step).collect()
}

fn since_start(at: Timestamp) -> Duration {
    at.since(STARTED_AT)
}
