//! Reading requests: the fast way and the thorough way agree, and the thorough one misses nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

use std::fmt::Debug;

use recado_core::Payload;
use recado_core::payload::{DEPTH_MAX, deeper_than};
use recado_wire::bulk::{BulkFilter, BulkRequest};
use recado_wire::calls::CallRequest;
use recado_wire::decisions::DecisionRequest;
use recado_wire::dlq::{DeadLetterQuery, DiscardRequest, ReplayRequest};
use recado_wire::endpoints::{EndpointChange, EndpointRequest};
use recado_wire::events::{EventKind, EventQuery};
use recado_wire::jobs::{JobQuery, JobRequest};
use recado_wire::leases::{ExtendRequest, FailRequest, LeaseRequest, SettleRequest, SucceedRequest};
use recado_wire::providers::{BreakerRequest, FailureReport, PauseRequest, SuccessReport};
use recado_wire::read::{self, Body, FAULTS_MAX};
use recado_wire::tenants::TenantChange;
use serde::Serialize;
use serde_json::{Value, json};

/// A whole request reads the same both ways, writes itself back, and has exactly the fields it says it has.
fn agrees<T: Body + Serialize + PartialEq + Debug>(whole: Value) {
    let json = whole.to_string();
    let fast = read::body::<T>(&json).unwrap().into_result().unwrap();
    let thorough = read::by_field::<T>(&json).unwrap().into_result().unwrap();
    assert_eq!(fast, thorough);
    assert_eq!(serde_json::to_value(&fast).unwrap(), whole);
    let mut given: Vec<&str> = whole.as_object().unwrap().keys().map(String::as_str).collect();
    let mut known = read::names_of::<T>().to_vec();
    given.sort_unstable();
    known.sort_unstable();
    assert_eq!(given, known, "the example is to have every field");
}

#[test]
fn both_ways_of_reading_agree_on_every_field() {
    agrees::<JobRequest>(json!({
        "jobId": "a", "route": "r", "companyId": "c", "data": {"x": [1, null]}, "userId": "u", "correlationId": "é\n",
        "runAt": "2026-01-31T08:30:00.000Z", "delayMs": 5, "ttlMs": 18_446_744_073_709_551_615_u64, "priority": 9,
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    }));
    agrees::<LeaseRequest>(
        json!({"routes": ["a", "b"], "max": 5, "waitMs": 0, "leaseMs": 1_000, "workerId": "w"}),
    );
    agrees::<SucceedRequest>(json!({"result": [1, 2]}));
    agrees::<FailRequest>(json!({"code": "503", "message": "m", "stackTrace": "s", "retryAfterMs": 1}));
    agrees::<ExtendRequest>(json!({"leaseMs": 43_200_000}));
    agrees::<DecisionRequest>(json!({
        "route": "r", "claimId": "c", "submissionError": "e", "retryCount": 4, "lastSubmissionTime": "2026-01-31T08:30:00.000Z"
    }));
    agrees::<ReplayRequest>(json!({"data": 1, "original": false, "note": "n"}));
    agrees::<DiscardRequest>(json!({"reason": "r"}));
    agrees::<BulkRequest>(json!({
        "filter": {"companyId": "c"}, "dryRun": false, "ratePerSecond": 1_000, "canary": 1, "reason": "r", "note": "n"
    }));
    agrees::<BulkFilter>(json!({
        "companyId": "c", "route": "r", "lastFailureCode": "550", "reason": "full", "fingerprint": "f",
        "since": "2026-01-31T08:30:00.000Z", "until": "2026-02-01T08:30:00.000Z", "jobIds": ["a", "b"]
    }));
    agrees::<CallRequest>(
        json!({"route": "r", "companyId": "c", "data": [null], "timeoutMs": 300_000, "cacheKey": "k",
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}),
    );
    agrees::<EndpointRequest>(
        json!({"companyId": "c", "url": "u", "events": ["JobSent"], "secret": "s", "description": "d"}),
    );
    agrees::<EndpointChange>(
        json!({"url": "u", "events": [], "secret": "s", "description": "", "enabled": false}),
    );
    agrees::<BreakerRequest>(json!({"action": "close", "reason": "r"}));
    agrees::<PauseRequest>(json!({"reason": "r"}));
    agrees::<SuccessReport>(json!({"tookMs": 0}));
    agrees::<FailureReport>(json!({"reason": "r", "tookMs": 31_622_400_000_u64}));
    agrees::<TenantChange>(json!({"weight": 100, "maxPerMinute": 1, "paused": false, "reason": "r"}));
    agrees::<TenantChange>(json!({"weight": 1, "maxPerMinute": null, "paused": true, "reason": "r"}));
}

#[test]
fn a_report_reads_the_same_both_ways() {
    for (verb, body) in [("succeed", json!({"result": 1})), ("fail", json!({"message": "m"}))] {
        let json = json!({"leaseToken": "t", verb: body}).to_string();
        let fast = read::body::<SettleRequest>(&json).unwrap().into_result().unwrap();
        assert_eq!(fast, read::by_field::<SettleRequest>(&json).unwrap().into_result().unwrap());
    }
}

#[test]
fn null_counts_as_left_out() {
    let json = r#"{"route":"r","companyId":"c","data":null,"jobId":null,"runAt":null,"delayMs":null,"priority":null}"#;
    let expected = JobRequest::new("r", "c", Payload::new("null").unwrap());
    assert_eq!(read::body::<JobRequest>(json).unwrap().into_result().unwrap(), expected);
    assert_eq!(read::by_field::<JobRequest>(json).unwrap().into_result().unwrap(), expected);
}

#[test]
fn nesting_is_counted_exactly_and_without_a_stack() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(!deeper_than(&nested(DEPTH_MAX), DEPTH_MAX));
    assert!(deeper_than(&nested(DEPTH_MAX + 1), DEPTH_MAX));
    assert!(deeper_than(&"{\"a\":".repeat(10_000_000), DEPTH_MAX));
    let wide = format!("[{}]", vec!["[[]]"; 1_000].join(","));
    assert!(!deeper_than(&wide, 3) && deeper_than(&wide, 2));
    let in_text = format!(r#"["{}", "\"{}", "\\"]"#, "[".repeat(500), "{".repeat(500));
    assert!(!deeper_than(&in_text, 1));
    let after_an_escaped_backslash = format!(r#"["\\", {}]"#, nested(500));
    assert!(deeper_than(&after_an_escaped_backslash, DEPTH_MAX));
}

#[test]
fn faults_are_bounded_and_one_a_place() {
    let unknown: String = (0..500).map(|n| format!("\"u{n}\":0,")).collect();
    let read = read::body::<JobRequest>(&format!("{{{unknown}\"route\":5}}")).unwrap();
    assert_eq!(read.into_result().unwrap_err().len(), FAULTS_MAX);
    let twice = read::body::<DiscardRequest>(r#"{"reason": 5, "reason": ""}"#).unwrap();
    let faults = twice.into_result().unwrap_err();
    assert_eq!((faults.len(), faults[0].pointer.as_str()), (1, "/reason"));
}

#[test]
fn strange_names_are_escaped_and_cut() {
    let json = json!({"reason": "r", "a/b~c": 1, "x".repeat(10_000): 1}).to_string();
    let faults = read::body::<DiscardRequest>(&json).unwrap().into_result().unwrap_err();
    assert_eq!(faults[0].pointer, "/a~1b~0c");
    assert!(faults[1].pointer.len() < 100 && faults[1].message.len() < 200);
}

fn pairs(query: &[(&str, &str)]) -> Vec<(String, String)> {
    query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_query_is_read_whole_or_refused_whole() {
    let query: JobQuery =
        read::query(pairs(&[("status", "sent"), ("companyId", "acme"), ("limit", "1000")])).unwrap();
    assert_eq!(query.company_id.unwrap().as_str(), "acme");
    assert_eq!((query.limit, query.cursor), (Some(1_000), None));
    let wrong = pairs(&[("since", "soon"), ("until", "2026-01-01"), ("limit", "9999"), ("companyId", "")]);
    let faults = read::query::<DeadLetterQuery>(wrong).unwrap_err();
    let places: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(places, ["/companyId", "/since", "/until", "/limit"], "a date alone has no offset");
}

#[test]
fn names_of_events_are_read_one_by_one_and_all_together() {
    let query: EventQuery = read::query(pairs(&[("event", "JobSent, token_expired")])).unwrap();
    assert_eq!(query.events, [EventKind::JobSent, EventKind::TokenExpired]);
    let faults =
        read::query::<EventQuery>(pairs(&[("event", "JobSent,JobSend"), ("jobId", "a b")])).unwrap_err();
    let said: Vec<_> = faults.iter().map(|fault| (fault.pointer.as_str(), fault.message.as_str())).collect();
    assert_eq!(said[0], ("/event", "names no event; did you mean `JobSent`?"));
    assert_eq!(said[1].0, "/jobId");
}

#[test]
fn a_secret_is_not_shown_by_accident() {
    let request = r#"{"companyId": "c", "url": "u", "secret": "whsec_hidden"}"#;
    let request = read::body::<EndpointRequest>(request).unwrap().into_result().unwrap();
    assert_eq!(request.secret.as_ref().unwrap().reveal(), "whsec_hidden");
    assert!(!format!("{request:?}").contains("hidden"), "{request:?}");
}

#[test]
fn every_fault_of_a_call_and_of_a_change_is_named() {
    let call = r#"{"route": 1, "data": {}, "timeoutMs": 0, "cacheKey": "", "wait": 5}"#;
    let faults = read::body::<CallRequest>(call).unwrap().into_result().unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(places, ["/wait", "/route", "/companyId", "/timeoutMs", "/cacheKey"]);
    let change = r#"{"enabled": "yes", "events": ["JobSent", 5], "url": 1}"#;
    let faults = read::body::<EndpointChange>(change).unwrap().into_result().unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(places, ["/url", "/events/1", "/enabled"]);
}

#[test]
fn a_bulk_act_says_what_it_is_about_and_every_fault_is_named() {
    let places = |json: &str| {
        let faults = read::body::<BulkRequest>(json).unwrap().into_result().unwrap_err();
        faults.into_iter().map(|fault| fault.pointer).collect::<Vec<_>>()
    };
    assert_eq!(places("{}"), ["/filter"], "an empty request must not mean every entry");
    assert_eq!(places(r#"{"filter": null}"#), ["/filter"]);
    assert!(read::body::<BulkRequest>(r#"{"filter": {}}"#).unwrap().into_result().is_ok());
    let wrong = r#"{"filter": {"companyId": "a b", "jobIds": ["x", 5, "y z"], "code": "550", "since": "now"},
                    "canary": 0, "ratePerSecond": 1001, "dryRun": "yes"}"#;
    let expected = [
        "/filter/code",
        "/filter/companyId",
        "/filter/since",
        "/filter/jobIds/1",
        "/filter/jobIds/2",
        "/dryRun",
        "/ratePerSecond",
        "/canary",
    ];
    assert_eq!(places(wrong), expected);
    assert_eq!(places(r#"{"filter": {"jobIds": [], "reason": ""}}"#), ["/filter/reason", "/filter/jobIds"]);
}

/// A filter that is misread chooses every entry.
#[test]
fn a_word_that_is_no_filter_is_refused_and_never_left_out() {
    for wrong in [json!({"compnayId": "c"}), json!({"companyId": "c", "jobIDs": ["a"]})] {
        let body = json!({"filter": wrong, "reason": "r"}).to_string();
        let faults = read::body::<BulkRequest>(&body).unwrap().into_result().unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(
            faults[0].pointer.starts_with("/filter/") && faults[0].message.contains("did you mean"),
            "{faults:?}"
        );
    }
}
