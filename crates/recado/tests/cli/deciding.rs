//! The claims retry rule, asked by command and over HTTP.

use serde_json::{Value, json};

use super::given::{Place, Server, between_ms};

fn decide(server: &Server, place: &Place, error: &str, retry_count: &str) -> Value {
    server
        .run(
            place,
            &["decide", "--claim-id", "CLM-1", "--error", error, "--retry-count", retry_count, "--json"],
        )
        .json()
}

#[test]
fn t1_t3_t7_t8_t23_a_transient_error_is_retried_within_the_bounds_of_each_count() {
    let place = Place::new();
    let server = place.serve();
    for (count, range) in [("0", 5..=6), ("1", 8..=12), ("2", 16..=24), ("3", 32..=48), ("4", 64..=96)] {
        let decision = decide(&server, &place, "SERVICE_UNAVAILABLE", count);
        assert_eq!(
            (decision["shouldRetry"].as_bool(), decision["errorClassification"].as_str()),
            (Some(true), Some("TRANSIENT"))
        );
        let minutes = decision["backoffMinutes"].as_i64().unwrap();
        assert!(range.contains(&minutes), "retry {count} after {minutes} min");
        let next: i64 = count.parse::<i64>().unwrap() + 1;
        assert_eq!(decision["retryCount"], next);
        assert_eq!(decision["retryReason"], format!("Retry {next} of 5"));
        assert!(decision["errorCode"].is_null());
        let logged = server.logged("Retry scheduled", count.parse::<usize>().unwrap() + 1).pop().unwrap();
        let waits = between_ms(&logged["timestamp"], &decision["nextRetryTime"]);
        assert!((waits - minutes * 60_000).abs() < 5_000, "{waits} ms are not {minutes} min");
    }
}

#[test]
fn t5_t12_after_five_retries_the_answer_is_max_retries_exceeded() {
    let place = Place::new();
    let server = place.serve();
    let decision = decide(&server, &place, "TIMEOUT", "5");
    assert_eq!(
        (decision["shouldRetry"].as_bool(), decision["errorCode"].as_str()),
        (Some(false), Some("MAX_RETRIES_EXCEEDED"))
    );
    assert!(decision["nextRetryTime"].is_null() && decision["backoffMinutes"].is_null());
    let shown = server
        .run(&place, &["decide", "--claim-id", "CLM-1", "--error", "TIMEOUT", "--retry-count", "5"])
        .done();
    assert!(shown.contains("do not retry") && shown.contains("MAX_RETRIES_EXCEEDED"), "{shown}");
}

#[test]
fn t2_t6_t13_a_permanent_error_is_not_retried() {
    let place = Place::new();
    let server = place.serve();
    for error in [
        "INVALID_PATIENT_DATA",
        "INSURANCE_EXPIRED",
        "AUTHORIZATION_DENIED",
        "DUPLICATE_CLAIM",
        "code: INVALID_PROCEDURE_CODE (40101)",
    ] {
        let decision = decide(&server, &place, error, "0");
        assert_eq!(
            (decision["shouldRetry"].as_bool(), decision["errorCode"].as_str()),
            (Some(false), Some("PERMANENT_ERROR")),
            "{error}"
        );
    }
}

#[test]
fn t4_an_unknown_error_is_retried() {
    let place = Place::new();
    let server = place.serve();
    let decision = decide(&server, &place, "the flux is inverted", "0");
    assert_eq!(
        (decision["shouldRetry"].as_bool(), decision["errorClassification"].as_str()),
        (Some(true), Some("UNKNOWN"))
    );
}

#[test]
fn t9_t10_t11_a_negative_count_and_an_empty_error_are_refused() {
    let place = Place::new();
    let server = place.serve();
    let ask = |body: Value| server.ask("POST", "/v1/decisions", &body);
    let (status, problem) =
        ask(json!({"route": "tiss-claims", "claimId": "CLM-1", "submissionError": " ", "retryCount": -1}));
    assert_eq!(status, 422, "{problem}");
    let pointers: Vec<_> =
        problem["errors"].as_array().unwrap().iter().map(|it| it["pointer"].as_str().unwrap()).collect();
    assert!(pointers.contains(&"/submissionError") && pointers.contains(&"/retryCount"), "{problem}");
    let (status, decision) = ask(
        json!({"route": "tiss-claims", "claimId": "CLM-1", "submissionError": "503", "lastSubmissionTime": null}),
    );
    assert_eq!((status, decision["retryCount"].as_i64()), (200, Some(1)), "{decision}");
    server.run(&place, &["decide", "--claim-id", "CLM-1", "--error", "x", "--retry-count=-1"]).failed_with(2);
    server.run(&place, &["decide", "--claim-id", "CLM-1", "--error", ""]).failed_with(1);
}
