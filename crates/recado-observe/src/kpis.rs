//! Retry KPIs, and the flow into the dead letter queue.
//!
//! A job is retried when it was tried more than once. A route without a try in the window has no figure, rather
//! than a perfect one.

use std::time::Duration;

use recado_core::Timestamp;
use serde::Serialize;

use crate::aggregate::Book;
use crate::counters::{RouteTally, RouteTotals, Sum};
use crate::history::{HOUR, History, Parts};
use crate::ledger::Routes;

/// A KPI: its figure beside its target.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
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

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
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

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
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
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kpis {
    /// Of the retried jobs that ended: those that were sent.
    pub success_after_retry: Figure,
    /// Attempts of a job that was sent, those before a replay with them.
    pub mean_attempts: Figure,
    /// Of the retried jobs that ended: those that spent all their attempts.
    pub lost_share: Figure,
    /// From the first try to success, of retried jobs; the median.
    pub time_to_success_seconds: Figure,
    /// Of all tries that were judged.
    pub permanent_share: Figure,
    /// Of all retries: those whose wait was at the policy's cap.
    pub at_cap_share: Figure,
    /// Deviation of the jitter from an even use of its range.
    pub jitter_deviation: Figure,
    pub mean_backoff_seconds: Figure,
    /// By attempt number, over all routes: the success rate by attempt. The last one is for all later
    /// numbers.
    pub by_attempt: Vec<AttemptRate>,
    /// The window in equal parts, oldest first.
    pub course: Course,
    /// Route by route, busiest first; only those that did something.
    pub by_route: Vec<RouteFlow>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Course {
    pub part: Duration,
    pub parts: Vec<CoursePart>,
}

/// Counts from `at` on until the next part begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CoursePart {
    pub at: Timestamp,
    pub sent: u64,
    /// Failed attempts that are tried again.
    pub retried: u64,
    pub buried: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteFlow {
    pub route: Box<str>,
    pub attempts: u64,
    /// Of the attempts.
    pub failed: u64,
    pub sent: u64,
    pub buried: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptRate {
    pub attempt: u32,
    pub ended: u64,
    pub sent: u64,
}

/// Flow into the dead letter queue in a window.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterFlow {
    pub entries: u64,
    /// Of the window, the time that was counted.
    pub per_hour: f64,
    /// Of the jobs that ended sent or dead.
    pub share_of_sends: Option<f64>,
    /// Most first; at most the bounded names and `other`.
    pub by_company: Vec<(Box<str>, u64)>,
    pub by_error_code: Vec<(Box<str>, u64)>,
}

pub(crate) fn of(
    book: &Book,
    routes: &Routes,
    route: Option<usize>,
    window: Duration,
    now: Timestamp,
) -> Kpis {
    use Target::{AtLeast, AtMost};
    let tally = tally(book, route, window, now);
    let jittered = tally.jitter.iter().sum();
    let numbers = book.numbers.over(window, now);
    let rate = |(number, (ended, sent)): (u32, (&u64, &u64))| AttemptRate {
        attempt: number,
        ended: *ended,
        sent: *sent,
    };
    Kpis {
        success_after_retry: Figure::share(tally.retried_sent, tally.retried(), AtLeast(0.85)),
        mean_attempts: Figure::share(tally.attempts_of_sent, tally.sent, AtMost(1.2)),
        lost_share: Figure::share(tally.retried_exhausted, tally.retried(), AtMost(0.03)),
        time_to_success_seconds: Figure::new(
            tally.recoveries.quantile(0.5),
            tally.recoveries.count(),
            VOLUME_MIN,
            AtMost(3_600.0),
        ),
        permanent_share: Figure::share(tally.permanent(), tally.judged(), AtMost(0.1)),
        at_cap_share: Figure::share(tally.at_cap, tally.delays.count(), AtMost(0.05)),
        jitter_deviation: Figure::new(tally.jitter_deviation(), jittered, JITTERED_MIN, AtMost(0.3)),
        mean_backoff_seconds: Figure::new(
            tally.delays.mean(),
            tally.delays.count(),
            VOLUME_MIN,
            AtMost(1_800.0),
        ),
        by_attempt: (1..)
            .zip(numbers.ended.iter().zip(&numbers.sent))
            .map(rate)
            .filter(|rate| rate.ended > 0)
            .collect(),
        course: course(book, route, window, now),
        by_route: by_route(book, routes, route, window, now),
    }
}

fn course(book: &Book, route: Option<usize>, window: Duration, now: Timestamp) -> Course {
    let cut = Parts::of(window, now);
    let part = |at_ms: i64| CoursePart { at: Timestamp::from_millis(at_ms), sent: 0, retried: 0, buried: 0 };
    let mut parts: Vec<_> = (0..cut.count as i64).map(|at| part(cut.begin_ms + at * cut.width_ms)).collect();
    for (_, (history, _)) in wanted(book, route) {
        history.each_over(&cut, |at, tally| {
            let part = &mut parts[at];
            part.sent += tally.sent;
            part.retried += tally.delays.count();
            part.buried += tally.buried;
        });
    }
    Course { part: Duration::from_millis(cut.width_ms.unsigned_abs()), parts }
}

fn by_route(
    book: &Book,
    routes: &Routes,
    route: Option<usize>,
    window: Duration,
    now: Timestamp,
) -> Vec<RouteFlow> {
    let names: Vec<&str> = routes.names().collect();
    let flow = |(place, (history, _)): (usize, &(History<RouteTally>, RouteTotals))| {
        let tally = history.over(window, now);
        RouteFlow {
            route: names[place].into(),
            attempts: tally.attempts(),
            failed: tally.failed(),
            sent: tally.sent,
            buried: tally.buried,
        }
    };
    let mut flows: Vec<_> = wanted(book, route).map(flow).collect();
    flows.retain(|flow| flow.attempts + flow.sent + flow.buried > 0);
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.attempts));
    flows
}

pub(crate) fn flow(book: &Book, window: Duration, since: Timestamp, now: Timestamp) -> DeadLetterFlow {
    let tally = tally(book, None, window, now);
    let companies = book.companies.over(window, now).into_iter().map(|(name, tally)| (name, tally.buried));
    // The first minutes are not blown up to an hour.
    let counted = window.min(now.since(since).max(HOUR));
    let codes = book.codes.over(window, now).into_iter().map(|(name, tally)| (name, tally.buried));
    DeadLetterFlow {
        entries: tally.buried,
        per_hour: tally.buried as f64 * HOUR.as_secs_f64() / counted.as_secs_f64().max(1.0),
        share_of_sends: ratio(tally.buried, tally.ended()),
        by_company: most_first(companies),
        by_error_code: most_first(codes),
    }
}

fn most_first<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> Vec<(Box<str>, u64)> {
    let mut counts: Vec<_> =
        counts.filter(|(_, count)| *count > 0).map(|(name, count)| (name.into(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

fn tally(book: &Book, route: Option<usize>, window: Duration, now: Timestamp) -> RouteTally {
    let mut sum = RouteTally::default();
    wanted(book, route).for_each(|(_, (history, _))| sum.add(&history.over(window, now)));
    sum
}

fn wanted(
    book: &Book,
    route: Option<usize>,
) -> impl Iterator<Item = (usize, &(History<RouteTally>, RouteTotals))> {
    book.routes.iter().enumerate().filter(move |(place, _)| route.is_none_or(|route| route == *place))
}

pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
