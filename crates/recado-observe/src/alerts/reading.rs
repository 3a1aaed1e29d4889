//! Readings of the rules, from the aggregate and the gauges.

use std::time::Duration;

use recado_core::Timestamp;
use recado_core::breaker::BreakerState;

use crate::aggregate::Aggregate;
use crate::alerts::{Measure, Rule, Subject};
use crate::counters::RouteCounters;
use crate::gauges::{Gauges, take_largest};
use crate::history::{DAY, History};
use crate::kpis::ratio;
use crate::ledger::Routes;
use crate::{NAMED_MAX, OTHER};

/// A jump to less than this share of all attempts is too small to alert on.
pub(crate) const JUMP_FLOOR: f64 = 0.05;

/// The share of attempts that [`Measure::ProcessingTime`] speaks for.
pub(crate) const PROCESSING_QUANTILE: f64 = 0.95;

type Readings = Vec<(Subject, Option<f64>)>;

/// A figure of a route, and the volume that it was measured on.
type Measured = (Option<f64>, u64);

/// Returns a value for each subject, or none where too little happened. `None` when it cannot be measured now.
pub(super) fn read_subjects(
    rule: &Rule,
    aggregate: &Aggregate,
    routes: &Routes,
    gauges: &Gauges,
    now: Timestamp,
) -> Option<Readings> {
    let each_route = |measure: &dyn Fn(&History<RouteCounters>) -> Measured| -> Readings {
        let each = routes.names().zip(&aggregate.routes);
        each.map(|(route, (history, _))| {
            let (value, volume) = measure(history);
            (Subject::Route(route.into()), value.filter(|_| volume >= rule.min_volume.max(1)))
        })
        .collect()
    };
    let by_route = |measure: &dyn Fn(&RouteCounters) -> Measured| {
        each_route(&|history| measure(&history.sum_over(rule.window, now)))
    };
    let of_all = |value: f64| vec![(Subject::All, Some(value))];
    let incidents = || aggregate.incidents.sum_over(rule.window, now);
    let readings = match rule.measure {
        Measure::FailureRate => by_route(&|counters| share(counters.failed(), counters.attempts())),
        Measure::DeadLetterRate => by_route(&|counters| share(counters.buried, counters.ended())),
        Measure::PermanentRate => by_route(&|counters| share(counters.permanent(), counters.judged())),
        Measure::AtCapRate => by_route(&|counters| share(counters.at_cap, counters.delays.count())),
        Measure::JitterDeviation => {
            by_route(&|counters| (counters.jitter_deviation(), counters.jitter.iter().sum()))
        }
        Measure::MeanBackoff => by_route(&|counters| (counters.delays.mean(), counters.delays.count())),
        Measure::ProcessingTime => by_route(&|counters| {
            (counters.processing.quantile(PROCESSING_QUANTILE), counters.processing.count())
        }),
        Measure::FailureJump => each_route(&|history| {
            let [recent, day] = [rule.window, DAY].map(|window| history.sum_over(window, now));
            let rate = |counters: &RouteCounters| ratio(counters.failed(), counters.attempts());
            (compare_with_day(rate(&recent), rate(&day)), recent.attempts())
        }),
        Measure::CodeJump => read_code_jumps(rule, aggregate, now),
        Measure::RejectedWrites => of_all(incidents().writes_rejected as f64),
        Measure::ArchivedDeadLetters => of_all(incidents().archived as f64),
        Measure::DeadLetters => of_all(gauges.dead_letters.as_ref()?.size as f64),
        Measure::DeadLettersOfCompany => read_companies(gauges)?,
        Measure::QueueAge => read_queue_ages(routes, gauges.oldest_due.as_ref()?),
        Measure::StoreUse => of_all(gauges.store?.share()?),
        Measure::TrailLateness => of_all(gauges.trail_late?.as_secs_f64()),
        Measure::BreakerOpen => read_breakers(gauges.breakers.as_ref()?),
    };
    Some(readings)
}

fn share(part: u64, whole: u64) -> Measured {
    (ratio(part, whole), whole)
}

fn read_companies(gauges: &Gauges) -> Option<Readings> {
    let all = &gauges.dead_letters.as_ref()?.by_company;
    let known = |name: &str| all.iter().map(|(company, _)| company).find(|company| company.as_str() == name);
    let largest = take_largest(all.iter().map(|(company, count)| (company.as_str(), *count)));
    let named = largest.into_iter().filter(|(company, _)| *company != OTHER);
    let reading = |(name, count)| Some((Subject::Company(known(name)?.clone()), Some(count as f64)));
    Some(named.filter_map(reading).collect())
}

fn read_queue_ages(routes: &Routes, oldest_due: &[(Box<str>, Duration)]) -> Readings {
    let age = |route: &str| {
        let ages = oldest_due.iter().filter(|(name, _)| routes.label(name) == route).map(|(_, age)| *age);
        ages.max().unwrap_or_default()
    };
    routes.names().map(|route| (Subject::Route(route.into()), Some(age(route).as_secs_f64()))).collect()
}

fn read_breakers(states: &[(Box<str>, BreakerState)]) -> Readings {
    let open = |state: BreakerState| f64::from(u8::from(state != BreakerState::Closed));
    let providers = states.iter().take(NAMED_MAX);
    providers.map(|(provider, state)| (Subject::Provider(provider.clone()), Some(open(*state)))).collect()
}

/// The rate of an event now, as a multiple of its rate over the day. Where the day
/// holds nothing but the window, the two are alike and the result is 1.
fn compare_with_day(now: Option<f64>, day: Option<f64>) -> Option<f64> {
    let (now, day) = (now?, day?);
    Some(if now < JUMP_FLOOR || day <= 0.0 { 0.0 } else { now / day })
}

fn read_code_jumps(rule: &Rule, aggregate: &Aggregate, now: Timestamp) -> Readings {
    let attempts = |window| aggregate.numbers.sum_over(window, now).ended.iter().sum::<u64>();
    let (recent, day) = (attempts(rule.window), attempts(DAY));
    let enough = recent >= rule.min_volume.max(1);
    let each = aggregate.codes.named().into_iter();
    each.map(|(code, history)| {
        let errors = |window| history.sum_over(window, now).errors;
        let value =
            compare_with_day(ratio(errors(rule.window), recent), ratio(errors(DAY), day)).filter(|_| enough);
        (Subject::ErrorCode(code.into()), value)
    })
    .collect()
}
