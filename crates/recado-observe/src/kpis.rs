//! Retry KPIs, and the flow into the dead letter queue.
//!
//! A job is retried when it was tried more than once. A route without a try in the window has no figure, rather
//! than a perfect one.

use std::time::Duration;

use recado_core::Timestamp;

use crate::aggregate::Aggregate;
use crate::counters::{AddCounts, RouteCounters};
use crate::history::{HOUR, History, Parts};
use crate::ledger::Routes;

/// A KPI: its figure beside its target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure {
    /// Absent when there was nothing to measure.
    pub value: Option<f64>,
    pub target: Target,
    pub verdict: Verdict,
    /// Volume that it was measured on.
    pub volume: u64,
    /// Less than this says nothing.
    pub min_volume: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Met,
    Missed,
    /// It was measured on less than `min_volume`.
    TooFew,
}

/// Below this a share or a mean is chance; the alerts about the same figures keep quiet there, too.
const VOLUME_MIN: u64 = 20;

/// An even jitter looks uneven below this.
const JITTERED_MIN: u64 = 500;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    fn new(value: Option<f64>, volume: u64, min_volume: u64, target: Target) -> Self {
        let met = value.filter(|_| volume >= min_volume).map(|value| match target {
            Target::AtLeast(least) => value >= least,
            Target::AtMost(most) => value <= most,
        });
        let verdict = match met {
            Some(true) => Verdict::Met,
            Some(false) => Verdict::Missed,
            None => Verdict::TooFew,
        };
        Figure { value, target, verdict, volume, min_volume }
    }

    fn share(part: u64, whole: u64, target: Target) -> Self {
        Figure::new(ratio(part, whole), whole, VOLUME_MIN, target)
    }
}

/// Shares are from 0 to 1, times in seconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Kpis {
    /// Share of the retried jobs that were sent, of those that ended.
    pub success_after_retry: Figure,
    /// Attempts of a job that was sent, those before a replay with them.
    pub mean_attempts: Figure,
    /// Share of the retried jobs that spent all their attempts, of those that ended.
    pub lost_share: Figure,
    /// From the first try to success, of retried jobs; the median.
    pub time_to_success_seconds: Figure,
    /// Share of the judged tries that met a permanent error.
    pub permanent_share: Figure,
    /// Share of the retries whose wait was at the policy's cap.
    pub at_cap_share: Figure,
    /// Deviation of the jitter from an even use of its range.
    pub jitter_deviation: Figure,
    pub mean_backoff_seconds: Figure,
    /// By attempt number, over all routes: the success rate by attempt. The last one is for all later
    /// numbers.
    pub by_attempt: Vec<AttemptRate>,
    /// The window in equal parts, oldest first.
    pub series: TimeSeries,
    /// Route by route, busiest first; only those that did something.
    pub by_route: Vec<RouteFlow>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeSeries {
    pub step: Duration,
    pub points: Vec<TimeSeriesPoint>,
}

/// Counts from `at` on until the next part begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeSeriesPoint {
    pub at: Timestamp,
    pub sent: u64,
    /// Failed attempts that are tried again.
    pub retried: u64,
    pub buried: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteFlow {
    pub route: Box<str>,
    pub attempts: u64,
    /// Attempts that failed.
    pub failed: u64,
    pub sent: u64,
    pub buried: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptRate {
    pub attempt: u32,
    pub ended: u64,
    pub sent: u64,
}

/// Flow into the dead letter queue in a window.
#[derive(Clone, PartialEq, Debug)]
pub struct DeadLetterFlow {
    pub entries: u64,
    /// Mean per hour over the part of the window that was counted.
    pub per_hour: f64,
    /// Dead letters as a share of the jobs that ended sent or dead.
    pub share_of_sends: Option<f64>,
    /// Most first; at most the bounded names and `other`.
    pub by_company: Vec<(Box<str>, u64)>,
    pub by_error_code: Vec<(Box<str>, u64)>,
}

/// A window that ends at `now`, of one route or of all.
pub(crate) struct KpiWindow<'a> {
    pub aggregate: &'a Aggregate,
    pub routes: &'a Routes,
    /// The place of the route.
    pub route: Option<usize>,
    pub window: Duration,
    pub now: Timestamp,
}

impl KpiWindow<'_> {
    pub fn kpis(&self) -> Kpis {
        use Target::{AtLeast, AtMost};
        let counters = self.sum_counters();
        let jittered = counters.jitter.iter().sum();
        let (waits, recovered) = (counters.delays.count(), counters.recoveries.count());
        let to_success = counters.recoveries.quantile(0.5);
        let numbers = self.aggregate.numbers.sum_over(self.window, self.now);
        let rates = (1..).zip(numbers.ended.into_iter().zip(numbers.sent));
        Kpis {
            success_after_retry: Figure::share(counters.retried_sent, counters.retried(), AtLeast(0.85)),
            mean_attempts: Figure::share(counters.attempts_of_sent, counters.sent, AtMost(1.2)),
            lost_share: Figure::share(counters.retried_exhausted, counters.retried(), AtMost(0.03)),
            time_to_success_seconds: Figure::new(to_success, recovered, VOLUME_MIN, AtMost(3_600.0)),
            permanent_share: Figure::share(counters.permanent(), counters.judged(), AtMost(0.1)),
            at_cap_share: Figure::share(counters.at_cap, waits, AtMost(0.05)),
            jitter_deviation: Figure::new(counters.jitter_deviation(), jittered, JITTERED_MIN, AtMost(0.3)),
            mean_backoff_seconds: Figure::new(counters.delays.mean(), waits, VOLUME_MIN, AtMost(1_800.0)),
            by_attempt: rates
                .map(|(attempt, (ended, sent))| AttemptRate { attempt, ended, sent })
                .filter(|rate| rate.ended > 0)
                .collect(),
            series: self.time_series(),
            by_route: self.route_flows(),
        }
    }

    fn time_series(&self) -> TimeSeries {
        let cut = Parts::new(self.window, self.now);
        let begins = (0..cut.count as i64).map(|at| Timestamp::from_millis(cut.begin_ms + at * cut.width_ms));
        let mut points: Vec<_> =
            begins.map(|at| TimeSeriesPoint { at, sent: 0, retried: 0, buried: 0 }).collect();
        for (_, history) in self.chosen_routes() {
            history.for_each_slot(&cut, |at, counters| {
                let part = &mut points[at];
                part.sent += counters.sent;
                part.retried += counters.delays.count();
                part.buried += counters.buried;
            });
        }
        TimeSeries { step: Duration::from_millis(cut.width_ms.unsigned_abs()), points }
    }

    fn route_flows(&self) -> Vec<RouteFlow> {
        let flow = |(route, history): (&str, &History<RouteCounters>)| {
            let counters = history.sum_over(self.window, self.now);
            RouteFlow {
                route: route.into(),
                attempts: counters.attempts(),
                failed: counters.failed(),
                sent: counters.sent,
                buried: counters.buried,
            }
        };
        let mut flows: Vec<_> = self.chosen_routes().map(flow).collect();
        flows.retain(|flow| flow.attempts + flow.sent + flow.buried > 0);
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.attempts));
        flows
    }

    /// The flow into the dead letter queue; it is counted since `since`.
    pub fn dead_letter_flow(&self, since: Timestamp) -> DeadLetterFlow {
        let counters = self.sum_counters();
        // The first minutes are not blown up to an hour.
        let counted = self.window.min(self.now.since(since).max(HOUR));
        let companies = self.aggregate.companies.sums_over(self.window, self.now).into_iter();
        let codes = self.aggregate.codes.sums_over(self.window, self.now).into_iter();
        DeadLetterFlow {
            entries: counters.buried,
            per_hour: counters.buried as f64 * HOUR.as_secs_f64() / counted.as_secs_f64().max(1.0),
            share_of_sends: ratio(counters.buried, counters.ended()),
            by_company: sort_by_count(companies.map(|(name, counters)| (name, counters.buried))),
            by_error_code: sort_by_count(codes.map(|(name, counters)| (name, counters.buried))),
        }
    }

    fn sum_counters(&self) -> RouteCounters {
        let mut sum = RouteCounters::default();
        let each = self.chosen_routes();
        each.for_each(|(_, history)| sum.add(&history.sum_over(self.window, self.now)));
        sum
    }

    fn chosen_routes(&self) -> impl Iterator<Item = (&str, &History<RouteCounters>)> {
        let each = self.routes.names().zip(&self.aggregate.routes).enumerate();
        let chosen = each.filter(|(place, _)| self.route.is_none_or(|route| route == *place));
        chosen.map(|(_, (name, (history, _)))| (name, history))
    }
}

fn sort_by_count<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> Vec<(Box<str>, u64)> {
    let mut counts: Vec<_> =
        counts.filter(|(_, count)| *count > 0).map(|(name, count)| (name.into(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
