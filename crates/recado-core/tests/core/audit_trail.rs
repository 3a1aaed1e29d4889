//! The audit record: nine fields, for every analysis, backoff, schedule and decision.

use recado_core::audit::{AuditStep, whole_minutes};
use recado_core::decide::{self, Terms};
use recado_core::{AuditEvent, AuditKind, Fault, Job, LostLease};
use serde_json::{Value, json};

use crate::delays::tiss_policy;
use crate::given::{NOW, TOOK, after, attempts, job, judged, middle, secs, smtp, terms};

const NINE: [&str; 9] = [
    "timestamp",
    "claimId",
    "errorMessage",
    "retryCount",
    "errorClassification",
    "backoffMinutes",
    "nextRetryTime",
    "shouldRetry",
    "retryReason",
];

fn nine_of(event: &AuditEvent) -> Value {
    let whole = serde_json::to_value(event).unwrap();
    NINE.iter()
        .map(|&field| (field.to_owned(), whole[field].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn said(error: &str) -> Fault {
    Fault { text: error.into(), ..Fault::default() }
}

fn tried(spent: u32) -> Job {
    let mut job = job();
    job.progress.attempts_spent = spent;
    job.progress.attempts_started = spent;
    job
}

#[test]
fn t14_a_scheduled_retry_records_all_nine_fields() {
    let (_, audit) = after(job(), judged("tiss", said("SERVICE_UNAVAILABLE")), &terms(tiss_policy()));
    let expected = json!({
        "timestamp": "2025-01-12T10:30:00.040Z",
        "claimId": "123e4567-e89b-12d3-a456-426614174000",
        "errorMessage": "SERVICE_UNAVAILABLE",
        "retryCount": 1,
        "errorClassification": "TRANSIENT",
        "backoffMinutes": 5,
        "nextRetryTime": "2025-01-12T10:35:00.040Z",
        "shouldRetry": true,
        "retryReason": "Retry 1 of 5",
    });
    assert_eq!(nine_of(&audit), expected);
    assert_eq!(audit.decision.rule.as_deref(), Some("tiss/SERVICE_UNAVAILABLE"));
    assert_eq!((audit.kind, audit.decision.attempt), (AuditKind::RetryScheduled, Some(1)));
}

#[test]
fn t14_a_burial_records_the_nine_fields_with_no_backoff_and_no_next_time() {
    let (_, audit) = after(job(), judged("tiss", said("INVALID_PROCEDURE_CODE")), &terms(tiss_policy()));
    let expected = json!({
        "timestamp": "2025-01-12T10:30:00.040Z",
        "claimId": "123e4567-e89b-12d3-a456-426614174000",
        "errorMessage": "INVALID_PROCEDURE_CODE",
        "retryCount": 0,
        "errorClassification": "PERMANENT",
        "backoffMinutes": null,
        "nextRetryTime": null,
        "shouldRetry": false,
        "retryReason": "Permanent error: INVALID_PROCEDURE_CODE",
    });
    assert_eq!(nine_of(&audit), expected);
}

#[test]
fn t14_an_exhausted_claim_is_recorded_after_its_five_retries() {
    let (_, audit) = after(tried(5), judged("tiss", said("TIMEOUT")), &terms(tiss_policy()));
    assert_eq!(
        (audit.kind, audit.decision.retry_count, audit.decision.should_retry),
        (AuditKind::Buried, Some(5), Some(false))
    );
    assert_eq!(audit.decision.retry_reason.as_deref(), Some("All 6 attempts failed"));
}

#[test]
fn t14_every_way_to_be_buried_says_what_failed_how_often_and_why_it_is_given_up() {
    let late = Job { expires_at: NOW.plus(TOOK), ..tried(2) };
    let poisoned = {
        let mut job = tried(2);
        job.progress.crashes = 9;
        job
    };
    let lost = LostLease { attempt: 3, claimed_at: NOW, worker: "node-b".into(), provider: None };
    let five: Terms = attempts(5);
    let burials = [
        ("permanent", after(tried(2), judged("smtp", smtp("550", "no")), &five).1),
        ("exhausted", after(tried(2), judged("smtp", smtp("421", "no")), &attempts(3)).1),
        ("unreadable", after(tried(2), judged("smtp", Fault::invalid_payload("no")), &five).1),
        ("too late to retry", after(late, judged("smtp", smtp("421", "no")), &five).1),
        ("expired in line", decide::bury_expired(&tried(3), None, &five, NOW).1),
        ("poison", decide::decide_after_crash(&poisoned, &lost, &five, NOW, middle()).1),
    ];
    for (how, audit) in burials {
        assert_eq!((audit.kind, audit.decision.should_retry), (AuditKind::Buried, Some(false)), "{how}");
        let record = nine_of(&audit);
        for field in ["timestamp", "claimId", "errorMessage", "errorClassification", "retryReason"] {
            assert!(record[field].as_str().is_some_and(|text| !text.is_empty()), "{how}: no {field}");
        }
        let retries = if how == "poison" { 1 } else { 2 };
        assert_eq!(record["retryCount"], retries, "{how}");
        assert_eq!((audit.decision.backoff_minutes, audit.decision.next_retry_time), (None, None), "{how}");
        assert!(audit.decision.rule.is_some(), "{how}: no rule");
    }
}

#[test]
fn t14_one_record_stands_for_analysis_backoff_schedule_and_decision() {
    use AuditStep::{BackoffCalculated, ErrorAnalysed, Named, RetryDecided};
    let four = [ErrorAnalysed, BackoffCalculated, Named(AuditKind::RetryScheduled), RetryDecided];
    assert_eq!(AuditKind::RetryScheduled.events(), four);
    assert_eq!(AuditKind::ClaimRetry.events(), four);
    assert_eq!(AuditKind::Buried.events(), [ErrorAnalysed, RetryDecided, Named(AuditKind::Buried)]);
    assert_eq!(AuditKind::ClaimRefused.events(), [ErrorAnalysed, RetryDecided]);
}

#[test]
fn an_audit_record_names_the_job_its_company_and_its_route_and_reads_back() {
    let (_, audit) = after(job(), judged("smtp", smtp("421", "busy")), &attempts(5));
    assert_eq!(audit.job_id.as_deref(), Some("123e4567-e89b-12d3-a456-426614174000"));
    assert_eq!(audit.company_id.as_deref(), Some("789e4567-e89b-12d3-a456-426614174999"));
    assert_eq!(&*audit.route, "email");
    assert_eq!((audit.user_id.as_deref(), audit.correlation_id.as_deref()), (Some("user-7"), Some("corr-9")));
    let text = serde_json::to_string(&audit).unwrap();
    assert_eq!(serde_json::from_str::<AuditEvent>(&text).unwrap(), audit);
    let of_an_earlier_version = text.replace(r#""userId":"user-7","correlationId":"corr-9","#, "");
    assert_ne!(of_an_earlier_version, text);
    assert_eq!(serde_json::from_str::<AuditEvent>(&of_an_earlier_version).unwrap().user_id, None);
}

#[test]
fn a_record_is_written_as_older_versions_wrote_it_but_for_its_code_and_its_bulk_act() {
    let (_, audit) = after(job(), judged("smtp", smtp("421", "busy")), &attempts(5));
    let mut audit = audit.by(Some("ana"));
    audit.provider = Some("ses".into());
    let written = concat!(
        r#"{"timestamp":"2025-01-12T10:30:00.040Z","kind":"RETRY_SCHEDULED","#,
        r#""claimId":"123e4567-e89b-12d3-a456-426614174000","jobId":"123e4567-e89b-12d3-a456-426614174000","#,
        r#""companyId":"789e4567-e89b-12d3-a456-426614174999","userId":"user-7","correlationId":"corr-9","#,
        r#""route":"email","provider":"ses","attempt":1,"errorCode":"421","errorMessage":"busy","retryCount":1,"#,
        r#""errorClassification":"TRANSIENT","backoffMinutes":0,"nextRetryTime":"2025-01-12T10:30:01.040Z","#,
        r#""shouldRetry":true,"retryReason":"Retry 1 of 4","rule":"smtp/421","actor":"ana""#
    );
    assert_eq!(serde_json::to_string(&audit).unwrap(), format!("{written}}}"));
    assert_eq!(serde_json::from_str::<AuditEvent>(&format!("{written}}}")).unwrap(), audit);
    let of_an_earlier_version = format!("{written}}}").replace(r#""errorCode":"421","#, "");
    let read: AuditEvent = serde_json::from_str(&of_an_earlier_version).unwrap();
    assert_eq!((read.decision.error_code, read.data_changed), (None, None));
    audit.bulk_id = Some("bulk_1".into());
    let with_bulk = format!(r#"{written},"bulkId":"bulk_1"}}"#);
    assert_eq!(serde_json::to_string(&audit).unwrap(), with_bulk);
    assert_eq!(serde_json::from_str::<AuditEvent>(&with_bulk).unwrap(), audit);
}

#[test]
fn every_kind_has_one_word_everywhere() {
    for kind in AuditKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), json!(kind.as_str()));
        assert!(!kind.events().is_empty(), "{kind:?} stands for nothing");
    }
    let words: std::collections::BTreeSet<_> = AuditKind::ALL.map(AuditKind::as_str).into();
    assert_eq!(words.len(), AuditKind::ALL.len());
    for step in AuditStep::all() {
        let written = serde_json::to_value(step).unwrap();
        assert_eq!(serde_json::from_value::<AuditStep>(written).unwrap(), step);
    }
}

#[test]
fn backoff_minutes_are_rounded_to_the_nearest() {
    for (seconds, minutes) in [(0, 0), (29, 0), (30, 1), (89, 1), (90, 2), (300, 5), (14_400, 240)] {
        assert_eq!(whole_minutes(secs(seconds)), minutes, "{seconds} s");
    }
}

#[test]
fn what_a_person_does_to_a_provider_a_route_or_a_company_says_to_which_and_why() {
    let acts = [
        (AuditEvent::about_provider("ses", AuditKind::BreakerOpened, NOW), "provider", "ses"),
        (AuditEvent::about_route("email", AuditKind::RoutePaused, NOW), "route", "email"),
        (AuditEvent::about_company("acme", AuditKind::TenantTermsSet, NOW), "companyId", "acme"),
    ];
    for (act, field, name) in acts {
        let act = act.by(Some("ana")).reason("maintenance".to_owned());
        assert_eq!(act.kind.events(), [AuditStep::Named(act.kind)]);
        let written = serde_json::to_value(&act).unwrap();
        assert_eq!((&written[field], &written["actor"]), (&json!(name), &json!("ana")), "{written}");
        assert_eq!(written["retryReason"], "maintenance");
        assert_eq!(serde_json::from_value::<AuditEvent>(written).unwrap(), act);
    }
}
