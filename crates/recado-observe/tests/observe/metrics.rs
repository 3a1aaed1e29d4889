//! Every required metric is on the page, with its type and its labels.

use recado_core::breaker::BreakerChange;
use recado_core::{Cause, Class};
use recado_observe::{DeadLetterExit, Decided, Fact, HoldKind, Ledger, StoreWork};

use crate::{at, failed, gauges, job_buried, job_sent, ledger, seconds_of, sent, series, waits};

/// A ledger with at least one fact of each kind.
pub fn lived() -> Ledger {
    let ledger = ledger();
    let retry = recado_observe::Backoff { at_cap: true, position: Some(0.25), ..waits(600) };
    let second = recado_observe::AttemptEnded { number: 2, ..sent("email") };
    let facts = [
        Fact::Accepted { route: "email", jobs: 3 },
        Fact::AttemptEnded(recado_observe::AttemptEnded {
            retry: Some(retry),
            ..failed("email", "421", Class::Transient)
        }),
        Fact::AttemptEnded(second),
        job_sent("email", 2, Some(seconds_of(600))),
        job_buried("email", 5, Cause::Exhausted),
        Fact::DeadLetterLeft { how: DeadLetterExit::Discarded, moved_at: at(0) },
        Fact::Decided { route: "tiss-claims", class: Class::Unknown, decided: Decided::Retry(waits(420)) },
        Fact::Decided { route: "tiss-claims", class: Class::Permanent, decided: Decided::PermanentError },
        Fact::BreakerChanged { provider: "instagram", change: BreakerChange::Opened },
        Fact::HeldBack { route: "email", why: HoldKind::Rate, lasted: seconds_of(2) },
        Fact::StoreWorked { work: StoreWork::Fsync, took: std::time::Duration::from_micros(700) },
        Fact::Committed { requests: 40 },
        Fact::WritesRejected { writes: 2 },
        Fact::Served {
            method: "GET",
            path: "/v1/jobs/{jobId}",
            status: 200,
            took: std::time::Duration::from_millis(2),
        },
    ];
    facts.iter().for_each(|fact| ledger.record(fact, at(30)));
    ledger
}

fn page() -> String {
    lived().metrics(&gauges(), at(60))
}

fn has(page: &str, name: &str, kind: &str, samples: &[(&str, f64)]) {
    assert!(page.contains(&format!("# TYPE {name} {kind}\n")), "{name} is not a {kind}");
    let help = format!("# HELP {name} ");
    assert_eq!(page.matches(&help).count(), 1, "{name} is explained once");
    let series = series(page);
    for (sample, value) in samples {
        assert_eq!(series.get(*sample), Some(value), "{sample}");
    }
}

#[test]
fn g18_every_gateway_metric_is_there_with_its_type_and_labels() {
    let page = page();
    has(
        &page,
        "retry_attempts_total",
        "counter",
        &[(r#"retry_attempts_total{attempt="1"}"#, 1.0), (r#"retry_attempts_total{attempt="2"}"#, 1.0)],
    );
    has(
        &page,
        "retry_backoff_delay_seconds",
        "histogram",
        &[
            (r#"retry_backoff_delay_seconds_bucket{le="300"}"#, 0.0),
            (r#"retry_backoff_delay_seconds_bucket{le="600"}"#, 2.0),
            (r#"retry_backoff_delay_seconds_bucket{le="+Inf"}"#, 2.0),
            ("retry_backoff_delay_seconds_sum", 1_020.0),
            ("retry_backoff_delay_seconds_count", 2.0),
        ],
    );
    has(
        &page,
        "retry_success_rate",
        "gauge",
        &[(r#"retry_success_rate{attempt="1"}"#, 0.0), (r#"retry_success_rate{attempt="2"}"#, 1.0)],
    );
    has(&page, "dlq_entries_total", "counter", &[("dlq_entries_total", 1.0)]);
    has(&page, "dlq_size", "gauge", &[("dlq_size", 3.0)]);
    has(
        &page,
        "dlq_age_seconds",
        "histogram",
        &[
            (r#"dlq_age_seconds_bucket{le="60"}"#, 1.0),
            ("dlq_age_seconds_sum", 30.0),
            ("dlq_age_seconds_count", 1.0),
        ],
    );
    has(&page, "dlq_by_error_code", "gauge", &[(r#"dlq_by_error_code{error_code="550"}"#, 2.0)]);
    has(&page, "dlq_by_company", "gauge", &[(r#"dlq_by_company{company_id="acme"}"#, 3.0)]);
    has(&page, "tenant_jobs_processed", "untyped", &[(r#"tenant_jobs_processed{company_id="acme"}"#, 2.0)]);
    has(&page, "tenant_current_priority", "gauge", &[(r#"tenant_current_priority{company_id="acme"}"#, 5.0)]);
    has(
        &page,
        "tenant_consecutive_batch",
        "gauge",
        &[(r#"tenant_consecutive_batch{company_id="acme"}"#, 2.0)],
    );
    has(
        &page,
        "tenant_rounds_without_processing",
        "gauge",
        &[(r#"tenant_rounds_without_processing{company_id="acme"}"#, 0.0)],
    );
}

#[test]
fn t21_every_claim_metric_is_there_with_its_type_and_labels() {
    let page = page();
    has(
        &page,
        "submission_retry_total",
        "counter",
        &[
            (r#"submission_retry_total{route="tiss-claims"}"#, 1.0),
            (r#"submission_retry_total{route="email"}"#, 1.0),
            (r#"submission_retry_total{route="whatsapp"}"#, 0.0),
        ],
    );
    has(
        &page,
        "submission_retry_backoff_minutes",
        "histogram",
        &[
            (r#"submission_retry_backoff_minutes_bucket{route="tiss-claims",le="5"}"#, 0.0),
            (r#"submission_retry_backoff_minutes_bucket{route="tiss-claims",le="10"}"#, 1.0),
            (r#"submission_retry_backoff_minutes_sum{route="tiss-claims"}"#, 7.0),
            (r#"submission_retry_backoff_minutes_count{route="tiss-claims"}"#, 1.0),
        ],
    );
    has(
        &page,
        "submission_retry_max_exceeded",
        "untyped",
        &[
            (r#"submission_retry_max_exceeded{route="email"}"#, 1.0),
            (r#"submission_retry_max_exceeded{route="tiss-claims"}"#, 0.0),
        ],
    );
    has(
        &page,
        "error_classification_distribution",
        "untyped",
        &[
            (r#"error_classification_distribution{route="email",classification="TRANSIENT"}"#, 1.0),
            (r#"error_classification_distribution{route="tiss-claims",classification="UNKNOWN"}"#, 1.0),
            (r#"error_classification_distribution{route="tiss-claims",classification="PERMANENT"}"#, 1.0),
            (r#"error_classification_distribution{route="tiss-claims",classification="RATE_LIMIT"}"#, 0.0),
        ],
    );
}

#[test]
fn e9_success_by_attempt_waits_codes_and_the_queue_are_on_the_page() {
    let series = series(&page());
    assert_eq!(series[r#"retry_success_rate{attempt="2"}"#], 1.0);
    let mean = series["retry_backoff_delay_seconds_sum"] / series["retry_backoff_delay_seconds_count"];
    assert_eq!(mean, 510.0);
    assert_eq!(series[r#"recado_errors_total{error_code="421"}"#], 1.0);
    assert_eq!(series["dlq_size"], 3.0);
}

#[test]
fn the_engine_s_own_metrics_are_there() {
    let page = page();
    has(&page, "recado_build_info", "gauge", &[(r#"recado_build_info{version="1.2.3"}"#, 1.0)]);
    has(
        &page,
        "recado_jobs_accepted_total",
        "counter",
        &[(r#"recado_jobs_accepted_total{route="email"}"#, 3.0)],
    );
    has(
        &page,
        "recado_attempts_total",
        "counter",
        &[
            (r#"recado_attempts_total{route="email",result="sent"}"#, 1.0),
            (r#"recado_attempts_total{route="email",result="failed"}"#, 1.0),
        ],
    );
    has(
        &page,
        "recado_processing_seconds",
        "histogram",
        &[(r#"recado_processing_seconds_bucket{route="email",le="0.05"}"#, 2.0)],
    );
    has(
        &page,
        "recado_jobs_ended_total",
        "counter",
        &[(r#"recado_jobs_ended_total{route="email",status="failed"}"#, 1.0)],
    );
    has(
        &page,
        "recado_recovery_seconds",
        "histogram",
        &[(r#"recado_recovery_seconds_sum{route="email"}"#, 600.0)],
    );
    has(
        &page,
        "recado_retries_at_cap_total",
        "counter",
        &[(r#"recado_retries_at_cap_total{route="email"}"#, 1.0)],
    );
    has(
        &page,
        "recado_retry_jitter_total",
        "counter",
        &[
            (r#"recado_retry_jitter_total{route="email",decile="3"}"#, 1.0),
            (r#"recado_retry_jitter_total{route="email",decile="10"}"#, 0.0),
        ],
    );
    has(
        &page,
        "recado_dead_letters_total",
        "counter",
        &[(r#"recado_dead_letters_total{route="email",cause="EXHAUSTED"}"#, 1.0)],
    );
    has(
        &page,
        "recado_dead_letters_left_total",
        "counter",
        &[(r#"recado_dead_letters_left_total{how="discarded"}"#, 1.0)],
    );
    has(&page, "recado_queue_jobs", "gauge", &[(r#"recado_queue_jobs{route="email",status="queued"}"#, 7.0)]);
    has(
        &page,
        "recado_lane_held_seconds_total",
        "counter",
        &[(r#"recado_lane_held_seconds_total{route="email",reason="rate"}"#, 2.0)],
    );
    has(
        &page,
        "recado_breaker_state",
        "gauge",
        &[
            (r#"recado_breaker_state{provider="smtp-main",state="CLOSED"}"#, 1.0),
            (r#"recado_breaker_state{provider="smtp-main",state="OPEN"}"#, 0.0),
        ],
    );
    has(
        &page,
        "recado_breaker_swings_total",
        "counter",
        &[(r#"recado_breaker_swings_total{provider="instagram",to="OPEN"}"#, 1.0)],
    );
    has(
        &page,
        "recado_store_operation_seconds",
        "histogram",
        &[
            (r#"recado_store_operation_seconds_bucket{operation="fsync",le="0.0005"}"#, 0.0),
            (r#"recado_store_operation_seconds_bucket{operation="fsync",le="0.001"}"#, 1.0),
        ],
    );
    has(
        &page,
        "recado_store_commit_requests",
        "histogram",
        &[(r#"recado_store_commit_requests_bucket{le="50"}"#, 1.0)],
    );
    has(&page, "recado_store_size_bytes", "gauge", &[("recado_store_size_bytes", 100.0)]);
    has(
        &page,
        "recado_store_rejected_writes_total",
        "counter",
        &[("recado_store_rejected_writes_total", 2.0)],
    );
    has(
        &page,
        "recado_http_requests_total",
        "counter",
        &[(r#"recado_http_requests_total{method="GET",path="/v1/jobs/{jobId}",status="200"}"#, 1.0)],
    );
    has(
        &page,
        "recado_http_request_duration_seconds",
        "histogram",
        &[(r#"recado_http_request_duration_seconds_count{path="/v1/jobs/{jobId}"}"#, 1.0)],
    );
    has(&page, "recado_audit_late_seconds", "gauge", &[("recado_audit_late_seconds", 1.5)]);
    for (name, count) in
        [("recado_trace_spans_exported_total", 41.0), ("recado_trace_spans_dropped_total", 1.0)]
    {
        has(&page, name, "counter", &[(name, count)]);
    }
}

#[test]
fn a_lost_lease_is_no_failure_of_the_provider() {
    let ledger = ledger();
    let lost = recado_observe::AttemptEnded {
        result: recado_core::AttemptResult::Lost,
        ..failed("email", "LEASE_LOST", Class::Unknown)
    };
    ledger.record(&Fact::AttemptEnded(lost), at(0));
    let series = series(&ledger.metrics(&gauges(), at(1)));
    assert_eq!(series[r#"recado_leases_lost_total{route="email"}"#], 1.0);
    assert_eq!(series[r#"recado_attempts_total{route="email",result="failed"}"#], 0.0);
    assert_eq!(series[r#"error_classification_distribution{route="email",classification="UNKNOWN"}"#], 0.0);
}

#[test]
fn what_could_not_be_found_out_is_not_on_the_page() {
    let page = ledger().metrics(&recado_observe::Gauges::default(), at(0));
    let series = series(&page);
    assert!(!series.keys().any(|name| name.starts_with("dlq_size") || name.starts_with("recado_store_size")));
    assert_eq!(
        series[r#"recado_attempts_total{route="whatsapp",result="sent"}"#], 0.0,
        "routes are there from the start"
    );
}

#[test]
fn the_rate_of_success_forgets_what_is_over_an_hour_old() {
    let ledger = ledger();
    ledger.record(&Fact::AttemptEnded(failed("email", "421", Class::Transient)), at(0));
    ledger.record(&Fact::AttemptEnded(sent("email")), at(1_800));
    let rate =
        |now| series(&ledger.metrics(&gauges(), now)).get(r#"retry_success_rate{attempt="1"}"#).copied();
    assert_eq!(rate(at(1_800)), Some(0.5));
    assert_eq!(rate(at(3_600)), Some(1.0));
    assert_eq!(rate(at(9_000)), None);
}
