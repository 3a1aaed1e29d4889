//! `POST /v1/decisions`: the claims retry rule, scenario by scenario.

use recado_core::{AuditKind, Timestamp};
use serde_json::{Value, json};

use crate::given::{Answer, Kind, Server, Setup, on_each_store};

async fn decide(server: &Server, body: Value) -> Answer {
    server.post("/v1/decisions", body.to_string()).await
}

async fn ask(server: &Server, error: &str, retry_count: u32) -> Value {
    let answer =
        decide(server, json!({"claimId": "CLM-1", "submissionError": error, "retryCount": retry_count}))
            .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

#[tokio::test]
async fn t11_inputs_and_outputs_have_the_required_names_and_defaults() {
    on_each_store(async |server: &Server| {
        let before = server.engine.now();
        let answer =
            decide(server, json!({"claimId": "CLM-ENC-001", "submissionError": "SERVICE_UNAVAILABLE"})).await;
        assert_eq!(answer.status, 200);
        let body = answer.body.as_object().unwrap();
        let names: Vec<_> = body.keys().map(String::as_str).collect();
        let mut expected = [
            "shouldRetry",
            "nextRetryTime",
            "retryCount",
            "retryReason",
            "backoffMinutes",
            "errorClassification",
        ];
        expected.sort_unstable();
        assert_eq!(names, expected, "errorCode is there only when there is no retry");
        assert_eq!(
            (&body["shouldRetry"], &body["retryCount"]),
            (&json!(true), &json!(1)),
            "retryCount is 0 by default"
        );
        assert_eq!(body["retryReason"], "Retry 1 of 5");
        let at: Timestamp = body["nextRetryTime"].as_str().unwrap().parse().unwrap();
        let minutes = body["backoffMinutes"].as_u64().unwrap();
        let waited = at.since(before).as_secs();
        assert!((minutes * 60..minutes * 60 + 5).contains(&waited), "{minutes} minutes, but {waited} s");
    })
    .await;
}

#[tokio::test]
async fn t11_null_stands_for_what_is_unknown_and_the_route_may_be_named() {
    let server = Server::plain().await;
    let with_nulls = json!({
        "route": "tiss-claims", "claimId": "c", "submissionError": "TIMEOUT", "retryCount": null,
        "lastSubmissionTime": null
    });
    assert_eq!(decide(&server, with_nulls).await.body["retryCount"], 1);
    for time in ["2025-01-12T10:30:00Z", "2025-01-12T10:30:00", "2025-01-12T07:30:00-03:00"] {
        let body = json!({"claimId": "c", "submissionError": "TIMEOUT", "lastSubmissionTime": time});
        assert_eq!(decide(&server, body).await.status, 200, "{time}");
    }
}

#[tokio::test]
async fn t23_a_transient_error_is_retried() {
    let server = Server::plain().await;
    for error in [
        "SERVICE_UNAVAILABLE",
        "TIMEOUT",
        "CONNECTION_ERROR",
        "NETWORK_ERROR",
        "TEMPORARY_ERROR",
        "RATE_LIMIT",
        "SERVER_ERROR",
        "503",
        "504",
        "HTTP 503 from TISS",
    ] {
        let answer = ask(&server, error, 0).await;
        assert_eq!(
            (&answer["shouldRetry"], &answer["errorClassification"]),
            (&json!(true), &json!("TRANSIENT")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn t23_t6_a_permanent_error_is_not_retried_and_says_so() {
    let server = Server::plain().await;
    for error in [
        "INVALID_PROCEDURE_CODE",
        "INVALID_PATIENT_DATA",
        "INSURANCE_EXPIRED",
        "AUTHORIZATION_DENIED",
        "DUPLICATE_CLAIM",
        "E: DUPLICATE_CLAIM 12",
    ] {
        let answer = ask(&server, error, 1).await;
        assert_eq!(answer["shouldRetry"], false, "{error}");
        assert_eq!(
            (&answer["errorCode"], &answer["errorClassification"]),
            (&json!("PERMANENT_ERROR"), &json!("PERMANENT"))
        );
        assert_eq!(
            (&answer["nextRetryTime"], &answer["backoffMinutes"]),
            (&Value::Null, &Value::Null),
            "{error}"
        );
        assert_eq!(answer["retryCount"], 1, "the count stays as it was");
    }
}

#[tokio::test]
async fn t23_t4_an_unknown_error_is_retried_to_be_safe() {
    let server = Server::plain().await;
    let answer = ask(&server, "the moon is in the way", 0).await;
    assert_eq!((&answer["shouldRetry"], &answer["errorClassification"]), (&json!(true), &json!("UNKNOWN")));
}

#[tokio::test]
async fn t23_t7_t8_the_backoff_doubles_within_its_jitter_and_bounds() {
    let server = Server::plain().await;
    for (retry_count, base) in [(0, 5.0), (1, 10.0), (2, 20.0), (3, 40.0), (4, 80.0)] {
        let mut seen = Vec::new();
        for _ in 0..40 {
            seen.push(ask(&server, "TIMEOUT", retry_count).await["backoffMinutes"].as_f64().unwrap());
        }
        // Whole minutes: half of one may be rounded away. Never below five (V3).
        let (low, high) = (f64::max(base * 0.8 - 0.5, 5.0), base * 1.2 + 0.5);
        assert!(seen.iter().all(|minutes| (low..=high).contains(minutes)), "{retry_count}: {seen:?}");
        let distinct = seen.iter().any(|minutes| *minutes != seen[0]);
        assert!(distinct, "forty draws at {base} minutes are all the same: there is no jitter");
    }
}

#[tokio::test]
async fn t23_t5_after_five_retries_there_is_no_sixth() {
    let server = Server::plain().await;
    for retry_count in [5, 6, 2_000_000_000] {
        let answer = ask(&server, "TIMEOUT", retry_count).await;
        assert_eq!(
            (&answer["shouldRetry"], &answer["errorCode"]),
            (&json!(false), &json!("MAX_RETRIES_EXCEEDED"))
        );
        assert_eq!((&answer["nextRetryTime"], &answer["backoffMinutes"]), (&Value::Null, &Value::Null));
        assert_eq!(answer["retryCount"], retry_count);
    }
    assert_eq!(ask(&server, "TIMEOUT", 4).await["shouldRetry"], true, "the fifth retry is still allowed");
    let both = ask(&server, "DUPLICATE_CLAIM", 5).await;
    assert_eq!(both["errorCode"], "MAX_RETRIES_EXCEEDED", "the count is looked at first");
}

#[tokio::test]
async fn t17_the_main_flow_asks_again_with_what_it_was_told() {
    let server = Server::plain().await;
    let mut retry_count = 0;
    for expected in 1..=5 {
        let answer = ask(&server, "SERVICE_UNAVAILABLE", retry_count).await;
        retry_count = u32::try_from(answer["retryCount"].as_u64().unwrap()).unwrap();
        assert_eq!((retry_count, &answer["shouldRetry"]), (expected, &json!(true)));
    }
    assert_eq!(ask(&server, "SERVICE_UNAVAILABLE", retry_count).await["errorCode"], "MAX_RETRIES_EXCEEDED");
}

#[tokio::test]
async fn t9_a_negative_or_broken_count_is_refused() {
    let server = Server::plain().await;
    for count in
        [json!(-1), json!(-5_000), json!(1.5), json!("1"), json!(true), json!([1]), json!(99_999_999_999_i64)]
    {
        let answer =
            decide(&server, json!({"claimId": "c", "submissionError": "TIMEOUT", "retryCount": count})).await;
        answer.faults_at(&["/retryCount"]);
    }
    let negative =
        decide(&server, json!({"claimId": "c", "submissionError": "TIMEOUT", "retryCount": -1})).await;
    assert!(negative.fault("/retryCount").starts_with("is negative"));
}

#[tokio::test]
async fn t10_an_empty_error_is_refused() {
    let server = Server::plain().await;
    for error in [json!(""), json!("   "), json!("\n\t"), Value::Null, json!(503)] {
        decide(&server, json!({"claimId": "c", "submissionError": error}))
            .await
            .faults_at(&["/submissionError"]);
    }
    decide(&server, json!({"claimId": "c"})).await.faults_at(&["/submissionError"]);
}

#[tokio::test]
async fn t9_t10_every_fault_of_a_question_is_listed_at_once() {
    let server = Server::plain().await;
    let body = json!({
        "claimId": " ", "submissionError": "", "retryCount": -1, "lastSubmissionTime": "yesterday", "route": "tis-claims",
        "retries": 1
    });
    let answer = decide(&server, body).await;
    let mut found = answer.pointers();
    found.sort_unstable();
    assert_eq!(
        found,
        ["/claimId", "/lastSubmissionTime", "/retries", "/retryCount", "/route", "/submissionError"]
    );
    assert!(answer.fault("/route").contains("did you mean `tiss-claims`?"));
}

#[tokio::test]
async fn t14_every_decision_is_on_the_audit_trail_with_its_nine_fields() {
    let server = Server::start(Setup { kind: Kind::Embedded, ..Setup::default() }).await;
    ask(&server, "TIMEOUT", 2).await;
    ask(&server, "DUPLICATE_CLAIM", 0).await;
    let records = server.records().await;
    let [retry, refusal] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(
        (retry.kind, &*retry.claim_id, retry.decision.retry_count),
        (AuditKind::ClaimRetry, "CLM-1", Some(3))
    );
    assert_eq!(retry.decision.error_message.as_deref(), Some("TIMEOUT"));
    assert!(
        retry.decision.error_classification.is_some()
            && retry.decision.backoff_minutes.is_some()
            && retry.decision.next_retry_time.is_some()
    );
    assert_eq!(
        (retry.decision.should_retry, retry.decision.retry_reason.as_deref()),
        (Some(true), Some("Retry 3 of 5"))
    );
    assert_eq!((refusal.kind, refusal.decision.should_retry), (AuditKind::ClaimRefused, Some(false)));
}
