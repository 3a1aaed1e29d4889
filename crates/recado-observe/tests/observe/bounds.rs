//! However many names come from outside, the page and the memory stay small; and many threads may count.

use std::time::Duration;

use recado_core::{Cause, Class};
use recado_observe::{AttemptEnded, Ending, Fact, Judged, NAMED_MAX, Tenant};

use crate::{at, company, failed, gauges, ledger, sent, series};

fn count(page: &str, family: &str) -> usize {
    let start = format!("{family}{{");
    page.lines().filter(|line| line.starts_with(&start)).count()
}

#[test]
fn companies_and_codes_are_bounded_and_no_count_is_lost() {
    let ledger = ledger();
    for one in 0..5_000 {
        let (name, code) = (format!("company-{one}"), format!("E{one}"));
        let failure = Some(Judged { code: Some(&code), class: Class::Unknown });
        let attempt = AttemptEnded { company: &name, failure, ..failed("email", "", Class::Unknown) };
        ledger.record(&Fact::AttemptEnded(attempt), at(one));
        let ending = Ending::Buried { cause: Cause::Permanent, code: Some(&code) };
        let ended = Fact::JobEnded {
            route: "email",
            company: &name,
            ending,
            attempts: 1,
            retried: false,
            since_first_try: None,
        };
        ledger.record(&ended, at(one));
    }
    let page = ledger.metrics(&gauges(), at(5_000));
    let series = series(&page);
    for family in ["tenant_jobs_processed", "recado_errors_total"] {
        assert_eq!(count(&page, family), NAMED_MAX + 1, "{family}");
        let sum: f64 =
            series.iter().filter(|(name, _)| name.starts_with(family)).map(|(_, value)| value).sum();
        assert_eq!(sum, 5_000.0, "{family}");
    }
}

#[test]
fn g6_gauges_are_bounded_to_the_largest_and_the_rest() {
    let mut gauges = gauges();
    let dead = gauges.dead_letters.as_mut().unwrap();
    dead.by_company = (0..500).map(|one| (company(&format!("c{one}")), one)).collect();
    dead.by_error_code = (0..500).map(|one| (format!("E{one}").into(), one)).collect();
    gauges.tenants = (0..500)
        .map(|one| Tenant {
            company: company(&format!("c{one}")),
            current_priority: 1 + u32::try_from(one % 5).unwrap(),
            consecutive_batch: u32::try_from(one % 4).unwrap(),
            rounds_without_processing: one,
        })
        .collect();
    let ledger = ledger();
    ledger.record(&Fact::AttemptEnded(AttemptEnded { company: "c0", ..sent("email") }), at(0));
    let page = ledger.metrics(&gauges, at(0));
    let series = series(&page);
    for family in
        ["dlq_by_company", "dlq_by_error_code", "tenant_current_priority", "tenant_rounds_without_processing"]
    {
        assert_eq!(count(&page, family), NAMED_MAX + 1, "{family}");
    }
    assert_eq!(series[r#"dlq_by_company{company_id="c499"}"#], 499.0);
    assert_eq!(series[r#"dlq_by_company{company_id="other"}"#], 101_025.0);
    assert!(series.contains_key(r#"tenant_current_priority{company_id="c0"}"#), "it has an entry");
    assert!(series.contains_key(r#"tenant_current_priority{company_id="c499"}"#), "it waits longest");
    assert_eq!(series[r#"tenant_current_priority{company_id="other"}"#], 1.0, "the most urgent of the rest");
    assert_eq!(series[r#"tenant_rounds_without_processing{company_id="other"}"#], 450.0);
}

#[test]
fn unknown_routes_methods_and_long_codes_make_no_series_of_their_own() {
    let ledger = ledger();
    for one in 0..1_000 {
        let route = format!("gone-{one}");
        ledger.record(&Fact::AttemptEnded(AttemptEnded { route: &route, ..sent("email") }), at(0));
        let method = format!("M{one}");
        let path = format!("/p{one}");
        let served =
            Fact::Served { method: &method, path: &path, status: 405, took: Duration::from_millis(1) };
        ledger.record(&served, at(0));
    }
    let long = "x".repeat(10_000);
    let failure = Some(Judged { code: Some(&long), class: Class::Unknown });
    ledger
        .record(&Fact::AttemptEnded(AttemptEnded { failure, ..failed("email", "", Class::Unknown) }), at(0));
    let page = ledger.metrics(&gauges(), at(0));
    let series = series(&page);
    assert_eq!(series[r#"recado_attempts_total{route="other",result="sent"}"#], 1_000.0);
    assert!(count(&page, "recado_http_requests_total") <= 201);
    assert!(page.lines().all(|line| line.len() < 300), "a code is clipped");
}

#[test]
fn a_company_called_other_makes_no_second_series() {
    let ledger = ledger();
    ledger.record(&Fact::AttemptEnded(AttemptEnded { company: "other", ..sent("other") }), at(0));
    let mut gauges = gauges();
    let dead = gauges.dead_letters.as_mut().unwrap();
    dead.by_company = (0..60).map(|one| (company(&format!("c{one}")), 1)).collect();
    dead.by_company.push((company("other"), 100));
    gauges.tenants = dead
        .by_company
        .iter()
        .map(|(company, _)| Tenant {
            company: company.clone(),
            current_priority: 5,
            consecutive_batch: 0,
            rounds_without_processing: 0,
        })
        .collect();
    let series = series(&ledger.metrics(&gauges, at(0)));
    assert_eq!(series[r#"dlq_by_company{company_id="other"}"#], 110.0);
    assert_eq!(series[r#"tenant_jobs_processed{company_id="other"}"#], 1.0);
}

#[test]
fn no_fact_is_lost_between_threads_slots_and_readings() {
    const THREADS: u64 = 8;
    const FACTS: u64 = 5_000;
    let ledger = ledger();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let ledger = &ledger;
            scope.spawn(move || {
                for fact in 0..FACTS {
                    // Clocks of threads differ, and go on through hundreds of slots.
                    ledger.record(&Fact::AttemptEnded(sent("email")), at(fact + thread * 7));
                }
            });
        }
        let mut before = 0.0;
        for _ in 0..50 {
            let all = series(&ledger.metrics(&gauges(), at(FACTS)))[r#"retry_attempts_total{attempt="1"}"#];
            assert!(all >= before, "a counter fell from {before} to {all}");
            before = all;
        }
    });
    let series = series(&ledger.metrics(&gauges(), at(FACTS)));
    let all = (THREADS * FACTS) as f64;
    assert_eq!(series[r#"retry_attempts_total{attempt="1"}"#], all);
    assert_eq!(series[r#"tenant_jobs_processed{company_id="acme"}"#], all);
    assert_eq!(series[r#"recado_processing_seconds_count{route="email"}"#], all);
}
