//! Any stream of facts: the page agrees with a ledger kept by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use recado_core::{AttemptResult, Cause, Class};
use recado_observe::{AttemptEnded, Backoff, Decided, Ending, Fact, Judged};

use crate::{at, gauges, ledger, series};

const ROUTES: [&str; 4] = ["email", "whatsapp", "tiss-claims", "gone"];
const COMPANIES: [&str; 3] = ["acme", "blue", "other"];
const CODES: [&str; 3] = ["421", "550", "Throttling"];
const RESULTS: [(AttemptResult, &str); 4] = [
    (AttemptResult::Sent, "sent"),
    (AttemptResult::Partial, "partial"),
    (AttemptResult::Failed, "failed"),
    (AttemptResult::Uncertain, "uncertain"),
];
const CLASSES: [Class; 4] = [Class::Transient, Class::Permanent, Class::RateLimit, Class::Unknown];

/// Families that the hand-kept ledger speaks of, whole: what it does not name is zero.
const FAMILIES: [&str; 17] = [
    "retry_attempts_total",
    "retry_backoff_delay_seconds",
    "retry_success_rate",
    "dlq_entries_total",
    "tenant_jobs_processed",
    "submission_retry_total",
    "submission_retry_backoff_minutes_count",
    "submission_retry_max_exceeded",
    "error_classification_distribution",
    "recado_jobs_accepted_total",
    "recado_attempts_total",
    "recado_jobs_ended_total",
    "recado_errors_total",
    "recado_retried_jobs_ended_total",
    "recado_sent_job_attempts_total",
    "recado_decisions_total",
    "recado_dead_letters_total",
];

#[derive(Clone, Debug)]
enum Any {
    Accepted {
        route: usize,
        jobs: u64,
    },
    Attempt {
        route: usize,
        company: usize,
        number: u32,
        result: usize,
        class: usize,
        code: usize,
        delay_ms: Option<u64>,
    },
    Ended {
        route: usize,
        company: usize,
        cause: Option<usize>,
        attempts: u32,
    },
    Decided {
        route: usize,
        class: usize,
        delay_ms: Option<u64>,
    },
}

fn any_fact() -> impl Strategy<Value = Any> {
    let delay = || proptest::option::of(0_u64..20_000_000);
    prop_oneof![
        (0..4_usize, 1..50_u64).prop_map(|(route, jobs)| Any::Accepted { route, jobs }),
        (0..4_usize, 0..3_usize, 1..20_u32, 0..4_usize, 0..4_usize, 0..3_usize, delay()).prop_map(
            |(route, company, number, result, class, code, delay_ms)| Any::Attempt {
                route,
                company,
                number,
                result,
                class,
                code,
                delay_ms
            }
        ),
        (0..4_usize, 0..3_usize, proptest::option::of(0..5_usize), 1..6_u32)
            .prop_map(|(route, company, cause, attempts)| Any::Ended { route, company, cause, attempts }),
        (0..4_usize, 0..4_usize, delay()).prop_map(|(route, class, delay_ms)| Any::Decided {
            route,
            class,
            delay_ms
        }),
    ]
}

fn backoff(delay_ms: u64) -> Backoff {
    Backoff { delay: Duration::from_millis(delay_ms), at_cap: false, position: None }
}

/// The expected counts, computed the slow way.
#[derive(Default)]
struct ByHand {
    series: BTreeMap<String, f64>,
    rates: BTreeMap<String, (f64, f64)>,
}

impl ByHand {
    fn add(&mut self, name: String, amount: f64) {
        *self.series.entry(name).or_default() += amount;
    }

    fn retry(&mut self, route: &str, delay_ms: u64) {
        self.add(format!("submission_retry_total{{route=\"{route}\"}}"), 1.0);
        self.add(format!("submission_retry_backoff_minutes_count{{route=\"{route}\"}}"), 1.0);
        self.add("retry_backoff_delay_seconds_count".to_owned(), 1.0);
        self.add("retry_backoff_delay_seconds_sum".to_owned(), delay_ms as f64 / 1e3);
        for border in [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 28_800] {
            if delay_ms <= border * 1_000 {
                self.add(format!("retry_backoff_delay_seconds_bucket{{le=\"{border}\"}}"), 1.0);
            }
        }
        self.add("retry_backoff_delay_seconds_bucket{le=\"+Inf\"}".to_owned(), 1.0);
    }

    fn record(&mut self, fact: &Any) {
        let label = |route: usize| if ROUTES[route] == "gone" { "other" } else { ROUTES[route] };
        match *fact {
            Any::Accepted { route, jobs } => {
                self.add(format!("recado_jobs_accepted_total{{route=\"{}\"}}", label(route)), jobs as f64);
            }
            Any::Attempt { route, company, number, result, class, code, delay_ms } => {
                let (route, company) = (label(route), COMPANIES[company]);
                let number = if number < 16 { number.to_string() } else { "16+".to_owned() };
                self.add(format!("retry_attempts_total{{attempt=\"{number}\"}}"), 1.0);
                let (sent, ended) =
                    self.rates.entry(format!("retry_success_rate{{attempt=\"{number}\"}}")).or_default();
                *ended += 1.0;
                *sent += f64::from(u8::from(result == 0));
                self.add(format!("tenant_jobs_processed{{company_id=\"{company}\"}}"), 1.0);
                self.add(
                    format!("recado_attempts_total{{route=\"{route}\",result=\"{}\"}}", RESULTS[result].1),
                    1.0,
                );
                if result > 0 {
                    self.class(route, class);
                    self.add(format!("recado_errors_total{{error_code=\"{}\"}}", CODES[code]), 1.0);
                    if let Some(delay_ms) = delay_ms {
                        self.retry(route, delay_ms);
                    }
                }
            }
            Any::Ended { route, cause, attempts, .. } => {
                let route = label(route);
                let status = if cause.is_some() { "failed" } else { "sent" };
                self.add(format!("recado_jobs_ended_total{{route=\"{route}\",status=\"{status}\"}}"), 1.0);
                let retried =
                    |end: &str| format!("recado_retried_jobs_ended_total{{route=\"{route}\",end=\"{end}\"}}");
                let Some(cause) = cause else {
                    self.add(format!("recado_sent_job_attempts_total{{route=\"{route}\"}}"), attempts.into());
                    if attempts > 1 {
                        self.add(retried("sent"), 1.0);
                    }
                    return;
                };
                let cause = Cause::ALL[cause];
                self.add("dlq_entries_total".to_owned(), 1.0);
                self.add(
                    format!("recado_dead_letters_total{{route=\"{route}\",cause=\"{}\"}}", cause.as_str()),
                    1.0,
                );
                if attempts > 1 {
                    self.add(retried("failed"), 1.0);
                }
                if cause == Cause::Exhausted {
                    self.add(format!("submission_retry_max_exceeded{{route=\"{route}\"}}"), 1.0);
                    if attempts > 1 {
                        self.add(retried("exhausted"), 1.0);
                    }
                }
            }
            Any::Decided { route, class, delay_ms } => {
                let route = label(route);
                self.add(format!("recado_decisions_total{{route=\"{route}\"}}"), 1.0);
                self.class(route, class);
                match delay_ms {
                    Some(delay_ms) => self.retry(route, delay_ms),
                    None => self.add(format!("submission_retry_max_exceeded{{route=\"{route}\"}}"), 1.0),
                }
            }
        }
    }

    fn class(&mut self, route: &str, class: usize) {
        let class = CLASSES[class].as_str();
        self.add(
            format!("error_classification_distribution{{route=\"{route}\",classification=\"{class}\"}}"),
            1.0,
        );
    }

    fn all(mut self) -> BTreeMap<String, f64> {
        self.series.extend(self.rates.into_iter().map(|(name, (sent, ended))| (name, sent / ended)));
        self.series
    }
}

fn as_fact(fact: &Any) -> Fact<'static> {
    match *fact {
        Any::Accepted { route, jobs } => Fact::Accepted { route: ROUTES[route], jobs },
        Any::Attempt { route, company, number, result, class, code, delay_ms } => {
            let bad = result > 0;
            Fact::AttemptEnded(AttemptEnded {
                route: ROUTES[route],
                company: COMPANIES[company],
                number,
                result: RESULTS[result].0,
                failure: bad.then_some(Judged { code: Some(CODES[code]), class: CLASSES[class] }),
                retry: delay_ms.filter(|_| bad).map(backoff),
                lag: Duration::ZERO,
                took: Duration::ZERO,
            })
        }
        Any::Ended { route, company, cause, attempts } => Fact::JobEnded {
            route: ROUTES[route],
            company: COMPANIES[company],
            ending: match cause {
                Some(cause) => Ending::Buried { cause: Cause::ALL[cause], code: None },
                None => Ending::Sent,
            },
            attempts,
            retried: attempts > 1,
            since_first_try: None,
        },
        Any::Decided { route, class, delay_ms } => Fact::Decided {
            route: ROUTES[route],
            class: CLASSES[class],
            decided: delay_ms.map_or(Decided::MaxRetriesExceeded, |delay| Decided::Retry(backoff(delay))),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn g18_every_value_agrees_with_a_ledger_kept_by_hand(
        facts in proptest::collection::vec((any_fact(), 0..30_u64), 0..200),
        readings in 0..3_u32,
    ) {
        let (ledger, mut by_hand) = (ledger(), ByHand::default());
        let mut now = 0;
        for (index, (fact, step)) in facts.iter().enumerate() {
            now += step; // at most 100 minutes in all, but the rates look back on one hour
            if now >= 3_590 {
                break;
            }
            ledger.record(&as_fact(fact), at(now));
            by_hand.record(fact);
            if readings > 0 && index % 50 == 0 {
                ledger.metrics(&gauges(), at(now)); // reading changes nothing
            }
        }
        let page = series(&ledger.metrics(&gauges(), at(now.min(3_590))));
        let by_hand = by_hand.all();
        for (name, value) in &by_hand {
            let shown = page.get(name).copied();
            prop_assert!(
                shown.is_some_and(|shown| (shown - value).abs() < 1e-6 * value.max(1.0)),
                "{name} is {shown:?}, and should be {value}"
            );
        }
        for (name, value) in &page {
            let spoken_of = FAMILIES.iter().any(|family| name.starts_with(family));
            prop_assert!(!spoken_of || *value == 0.0 || by_hand.contains_key(name), "{name} is {value} for nothing");
        }
    }
}
