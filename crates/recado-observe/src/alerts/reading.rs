//! Readings of the rules, from the book and the gauges.

use std::time::Duration;

use recado_core::Timestamp;
use recado_core::breaker::BreakerState;

use crate::aggregate::Book;
use crate::alerts::Subject;
use crate::alerts::rule::{Measure, Rule};
use crate::counters::RouteTally;
use crate::gauges::{Gauges, largest};
use crate::history::DAY;
use crate::kpis::ratio;
use crate::ledger::Routes;
use crate::{NAMED_MAX, OTHER};

/// A jump to less than this share of all attempts is not worth anybody's time.
pub(crate) const JUMP_FLOOR: f64 = 0.05;

/// The share of attempts that [`Measure::ProcessingTime`] speaks for.
pub(crate) const PROCESSING_QUANTILE: f64 = 0.95;

type Readings = Vec<(Subject, Option<f64>)>;

/// A value for each subject, or none where too little happened. Nothing at all when it cannot be told now.
pub(super) fn read(
    rule: &Rule,
    book: &Book,
    routes: &Routes,
    gauges: &Gauges,
    now: Timestamp,
) -> Option<Readings> {
    let by_route = |measure: &dyn Fn(&RouteTally) -> (Option<f64>, u64)| -> Readings {
        let each = routes.names().zip(&book.routes);
        each.map(|(route, (history, _))| {
            let (value, volume) = measure(&history.over(rule.window, now));
            (Subject::Route(route.into()), value.filter(|_| volume >= rule.min_volume.max(1)))
        })
        .collect()
    };
    let of_all = |value: f64| vec![(Subject::All, Some(value))];
    let incidents = || book.incidents.over(rule.window, now);
    let readings = match rule.measure {
        Measure::FailureRate => by_route(&|tally| share(tally.failed(), tally.attempts())),
        Measure::DeadLetterRate => by_route(&|tally| share(tally.buried, tally.ended())),
        Measure::PermanentRate => by_route(&|tally| share(tally.permanent(), tally.judged())),
        Measure::AtCapRate => by_route(&|tally| share(tally.at_cap, tally.delays.count())),
        Measure::JitterDeviation => by_route(&|tally| (tally.jitter_deviation(), tally.jitter.iter().sum())),
        Measure::MeanBackoff => by_route(&|tally| (tally.delays.mean(), tally.delays.count())),
        Measure::ProcessingTime => {
            by_route(&|tally| (tally.processing.quantile(PROCESSING_QUANTILE), tally.processing.count()))
        }
        Measure::FailureJump => failure_jumps(rule, book, routes, now),
        Measure::CodeJump => code_jumps(rule, book, now),
        Measure::RejectedWrites => of_all(incidents().writes_rejected as f64),
        Measure::ArchivedDeadLetters => of_all(incidents().archived as f64),
        Measure::DeadLetters => of_all(gauges.dead_letters.as_ref()?.size as f64),
        Measure::DeadLettersOfCompany => companies(gauges)?,
        Measure::QueueAge => queue_ages(routes, gauges.oldest_due.as_ref()?),
        Measure::StoreUse => of_all(gauges.store?.share()?),
        Measure::TrailLateness => of_all(gauges.trail_late?.as_secs_f64()),
        Measure::BreakerOpen => breakers(gauges.breakers.as_ref()?),
    };
    Some(readings)
}

fn share(part: u64, whole: u64) -> (Option<f64>, u64) {
    (ratio(part, whole), whole)
}

fn companies(gauges: &Gauges) -> Option<Readings> {
    let all = &gauges.dead_letters.as_ref()?.by_company;
    let largest = largest(all.iter().map(|(company, count)| (company.as_str(), *count)));
    let named = largest.into_iter().filter(|(company, _)| *company != OTHER);
    let known = |name: &str| {
        all.iter().find(|(company, _)| company.as_str() == name).map(|(company, _)| company.clone())
    };
    Some(
        named
            .filter_map(|(name, count)| Some((Subject::Company(known(name)?), Some(count as f64))))
            .collect(),
    )
}

fn queue_ages(routes: &Routes, oldest_due: &[(Box<str>, Duration)]) -> Readings {
    let age = |route: &str| {
        let ages = oldest_due.iter().filter(|(name, _)| routes.label(name) == route).map(|(_, age)| *age);
        ages.max().unwrap_or_default()
    };
    routes.names().map(|route| (Subject::Route(route.into()), Some(age(route).as_secs_f64()))).collect()
}

fn breakers(states: &[(Box<str>, BreakerState)]) -> Readings {
    let open = |state: BreakerState| f64::from(u8::from(state != BreakerState::Closed));
    let providers = states.iter().take(NAMED_MAX);
    providers.map(|(provider, state)| (Subject::Provider(provider.clone()), Some(open(*state)))).collect()
}

/// The rate of an event now, as a multiple of its rate over the day. A day that knows nothing but the window
/// says nothing: then the two are alike.
fn jump(now: Option<f64>, day: Option<f64>) -> Option<f64> {
    let (now, day) = (now?, day?);
    Some(if now < JUMP_FLOOR || day <= 0.0 { 0.0 } else { now / day })
}

fn failure_jumps(rule: &Rule, book: &Book, routes: &Routes, now: Timestamp) -> Readings {
    let rate = |tally: &RouteTally| ratio(tally.failed(), tally.attempts());
    let each = routes.names().zip(&book.routes);
    each.map(|(route, (history, _))| {
        let recent = history.over(rule.window, now);
        let enough = recent.attempts() >= rule.min_volume.max(1);
        let value = jump(rate(&recent), rate(&history.over(DAY, now))).filter(|_| enough);
        (Subject::Route(route.into()), value)
    })
    .collect()
}

fn code_jumps(rule: &Rule, book: &Book, now: Timestamp) -> Readings {
    let attempts = |window| book.numbers.over(window, now).ended.iter().sum::<u64>();
    let (recent, day) = (attempts(rule.window), attempts(DAY));
    let enough = recent >= rule.min_volume.max(1);
    let each = book.codes.named().into_iter();
    each.map(|(code, history)| {
        let errors = |window| history.over(window, now).errors;
        let value = jump(ratio(errors(rule.window), recent), ratio(errors(DAY), day)).filter(|_| enough);
        (Subject::ErrorCode(code.into()), value)
    })
    .collect()
}
