//! Facts in, figures out, all in virtual time.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

mod alerts;
mod bounds;
mod kpis;
mod metrics;
mod promtool;
mod rule_skeletons;
mod rule_suggestions;
mod rules;
mod series;
mod stream;
mod transitions;

use std::collections::BTreeMap;
use std::time::Duration;

use recado_core::breaker::BreakerState;
use recado_core::{AttemptResult, Cause, Class, CompanyId, Status, Timestamp};
use recado_observe::{
    AttemptEnded, Backoff, DeadLetters, Depth, Ending, Fact, Gauges, Judged, Ledger, StoreUse, Tenant,
};

pub const ROUTES: [&str; 3] = ["email", "whatsapp", "tiss-claims"];

pub fn ledger() -> Ledger {
    Ledger::new(ROUTES)
}

/// So many seconds into the story.
pub fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_400_000).plus(seconds_of(seconds))
}

pub fn seconds_of(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn sent(route: &'static str) -> AttemptEnded<'static> {
    AttemptEnded {
        route,
        company: "acme",
        number: 1,
        result: AttemptResult::Sent,
        failure: None,
        retry: None,
        lag: Duration::from_millis(10),
        took: Duration::from_millis(30),
    }
}

pub fn failed(route: &'static str, code: &'static str, class: Class) -> AttemptEnded<'static> {
    AttemptEnded {
        result: AttemptResult::Failed,
        failure: Some(Judged { code: Some(code), class }),
        ..sent(route)
    }
}

pub fn waits(seconds: u64) -> Backoff {
    Backoff { delay: seconds_of(seconds), at_cap: false, position: None }
}

pub fn job_sent(route: &'static str, attempts: u32, since_first_try: Option<Duration>) -> Fact<'static> {
    Fact::JobEnded {
        route,
        company: "acme",
        ending: Ending::Sent,
        attempts,
        retried: attempts > 1,
        since_first_try,
    }
}

pub fn job_buried(route: &'static str, attempts: u32, cause: Cause) -> Fact<'static> {
    let ending = Ending::Buried { cause, code: Some("550") };
    Fact::JobEnded { route, company: "acme", ending, attempts, retried: attempts > 1, since_first_try: None }
}

pub fn company(name: &str) -> CompanyId {
    CompanyId::new(name).unwrap()
}

/// Everything is known, and nothing is wrong.
pub fn gauges() -> Gauges {
    Gauges {
        version: "1.2.3",
        started_at: Some(at(0)),
        resident_bytes: Some(12_345_678),
        shortages: 0,
        queue: vec![Depth { route: "email".into(), status: Status::Queued, jobs: 7 }],
        oldest_due: Some(vec![("email".into(), Duration::ZERO)]),
        dead_letters: Some(DeadLetters {
            size: 3,
            by_error_code: vec![("550".into(), 2), ("421".into(), 1)],
            by_company: vec![(company("acme"), 3)],
            oldest: Some(seconds_of(60)),
        }),
        tenants: vec![Tenant {
            company: company("acme"),
            current_priority: 5,
            consecutive_batch: 2,
            rounds_without_processing: 0,
        }],
        breakers: Some(vec![("smtp-main".into(), BreakerState::Closed)]),
        store: Some(StoreUse { bytes: 100, max_bytes: Some(1_000) }),
        trail_late: Some(Duration::from_millis(1_500)),
        spans: Some(recado_observe::gauges::Spans { exported: 41, dropped: 1 }),
    }
}

/// The page as a reader sees it: a value for each series.
pub fn series(page: &str) -> BTreeMap<String, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let mut series = BTreeMap::new();
    for line in lines {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let known = series.insert(name.to_owned(), value.parse().unwrap());
        assert_eq!(known, None, "{name} is there twice");
    }
    series
}
