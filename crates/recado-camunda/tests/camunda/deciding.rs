//! Decisions of the claims rule in both engines' words.

use recado_camunda::{OnRefusal, Rules};
use recado_testkit::camunda::{FakeCamunda, TaskStatus};
use serde_json::{Value, json};

use super::given::{BOTH, Given, Setup, Version, claim, outputs};

fn with_rules(version: Version, rules: Rules) -> Given {
    Given::with(version, FakeCamunda::start(), Setup { rules, ..Setup::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_a_retry_completes_the_job_with_the_decision_as_variables() {
    for version in BOTH {
        let given = Given::usual(version);
        let job = given.fake.ended(&given.fake.add(claim("SERVICE_UNAVAILABLE", 0)));
        assert_eq!(job.status, TaskStatus::Completed, "{version:?}");
        let next = match version {
            Version::Eight => "2025-01-12T10:37:00.000Z",
            Version::Seven => "2025-01-12T10:37:00.000+0000",
        };
        assert_eq!(
            outputs(&job),
            json!({
                "shouldRetry": true, "nextRetryTime": next, "retryCount": 1, "retryReason": "Retry 1 of 5",
                "backoffMinutes": 7, "errorClassification": "TRANSIENT",
            })
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_camunda_7_gets_its_variables_with_javas_types() {
    let given = Given::usual(Version::Seven);
    let job = given.fake.ended(&given.fake.add(claim("TIMEOUT", 1)));
    let types: Vec<_> = job.outputs.iter().map(|(name, typed)| (name.as_str(), &typed["type"])).collect();
    assert_eq!(
        json!(types),
        json!([
            ["backoffMinutes", "Integer"],
            ["errorClassification", "String"],
            ["nextRetryTime", "Date"],
            ["retryCount", "Integer"],
            ["retryReason", "String"],
            ["shouldRetry", "Boolean"],
        ])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_refused_claims_are_bpmn_errors_with_the_error_as_message() {
    for version in BOTH {
        let given = Given::usual(version);
        let exhausted = given.fake.add(claim("TIMEOUT at gateway", 5));
        let permanent = given.fake.add(claim("INVALID_PROCEDURE_CODE", 0));
        for (key, code, message) in [
            (exhausted, "MAX_RETRIES_EXCEEDED", "TIMEOUT at gateway"),
            (permanent, "PERMANENT_ERROR", "INVALID_PROCEDURE_CODE"),
        ] {
            let job = given.fake.ended(&key);
            assert_eq!((job.status.clone(), job.error_code.as_deref()), (TaskStatus::Thrown, Some(code)));
            assert_eq!(job.message.as_deref(), Some(message));
            let outputs = outputs(&job);
            assert_eq!((&outputs["shouldRetry"], &outputs["nextRetryTime"]), (&json!(false), &Value::Null));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_refused_claims_are_incidents_where_the_model_wants_them() {
    for version in BOTH {
        let given = with_rules(
            version,
            Rules {
                on_exhausted: OnRefusal::Incident,
                on_permanent: OnRefusal::BpmnError,
                ..Rules::default()
            },
        );
        let job = given.fake.ended(&given.fake.add(claim("TIMEOUT", 5)));
        assert_eq!((job.status, job.retries), (TaskStatus::Incident, Some(0)), "{version:?}");
        assert_eq!(job.message.as_deref(), Some("MAX_RETRIES_EXCEEDED: TIMEOUT"));
        let job = given.fake.ended(&given.fake.add(claim("INVALID_PATIENT_DATA", 0)));
        assert_eq!(job.status, TaskStatus::Thrown, "each refusal has its own choice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t10_t11_t19_invalid_variables_are_an_incident_that_names_every_fault() {
    for version in BOTH {
        let given = Given::usual(version);
        let key = given.fake.add(json!({
            "submissionError": "  ", "retryCount": -1, "lastSubmissionTime": "yesterday, says Ana",
        }));
        let job = given.fake.ended(&key);
        assert_eq!((job.status, job.retries), (TaskStatus::Incident, Some(0)));
        let message = job.message.expect("a message");
        for fault in
            ["claimId is missing", "submissionError is empty", "retryCount is negative", "lastSubmissionTime"]
        {
            assert!(message.contains(fault), "{fault} is not in {message}");
        }
        assert!(!message.contains("Ana"), "{message}");
        assert_eq!(given.asked(), 0, "no decision is needed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_variables_are_read_as_process_engines_write_them() {
    for version in BOTH {
        let given = Given::usual(version);
        let date = match version {
            Version::Eight => json!("2025-01-12T10:30:00"),
            Version::Seven => json!({"type": "Date", "value": "2025-01-12T10:30:00.000+0000"}),
        };
        let key = given.fake.add(json!({
            "claimId": "CLM-2", "submissionError": "503", "retryCount": 2.0, "lastSubmissionTime": date,
        }));
        assert_eq!(outputs(&given.fake.ended(&key))["retryCount"], 3);
        let key = given.fake.add(json!({"claimId": "CLM-3", "submissionError": "503", "retryCount": null}));
        assert_eq!(outputs(&given.fake.ended(&key))["retryCount"], 1);
        let asked = given.rule.asked.lock();
        assert_eq!(asked[0].last_submission_time.map(|at| at.as_millis()), Some(1_736_677_800_000));
        assert_eq!(asked[1].last_submission_time, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_error_fits_into_the_engines_tables() {
    for version in BOTH {
        let given = Given::usual(version);
        let long = format!("INVALID_PATIENT_DATA {}", "não ".repeat(5_000));
        let job = given.fake.ended(&given.fake.add(claim(&long, 0)));
        assert_eq!((job.status, job.handed_out), (TaskStatus::Thrown, 1), "{version:?}");
        let message = job.message.expect("a message");
        assert!(message.starts_with("INVALID_PATIENT_DATA") && message.len() <= 1_000, "{}", message.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_variables_that_are_needed_are_asked_for() {
    for version in BOTH {
        let given = Given::usual(version);
        given.fake.ended(&given.fake.add(claim("503", 0)));
        let body = &given.fake.requests(version.taking())[0].body;
        let names = match version {
            Version::Eight => &body["fetchVariable"],
            Version::Seven => &body["topics"][0]["variables"],
        };
        let due = ["claimId", "submissionError", "retryCount", "lastSubmissionTime", "recadoDecision"];
        assert_eq!(names, &json!(due));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_may_be_numbers_as_they_were_before_8_8() {
    let given = Given::usual(Version::Eight);
    given.fake.write_keys_as_numbers();
    let job = given.fake.ended(&given.fake.add(claim("503", 0)));
    assert_eq!(job.status, TaskStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_no_parser_likes_stops_no_other_job() {
    for version in BOTH {
        let given = Given::usual(version);
        let mut deep = json!("CLM");
        for _ in 0..110 {
            deep = json!([deep]);
        }
        let poison = given.fake.add(json!({"claimId": deep, "submissionError": "503"}));
        let sound = given.fake.add(claim("503", 0));
        assert_eq!(given.fake.ended(&sound).status, TaskStatus::Completed, "{version:?}");
        assert_eq!(given.fake.ended(&poison).status, TaskStatus::Incident, "{version:?}");
    }
}
