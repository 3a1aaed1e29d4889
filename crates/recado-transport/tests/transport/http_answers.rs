//! Answers of the provider, and the fate of their bodies.

use std::time::Duration;

use recado_core::{Fault, FaultKind, Outcome, Payload};
use recado_testkit::far_end::FarEnd;
use recado_testkit::http::{Act, raw as answering};
use recado_transport::{Delivery, Http, HttpConfig, Transport};
use serde_json::{Value, json};

use super::{answer, fault};

fn http_to(far_end: &FarEnd) -> Http {
    // A wait so long that only the bound on size can be what ends a flood.
    Http::new(HttpConfig { answer_wait: Duration::from_secs(60), ..HttpConfig::new(far_end.url_of("/")) })
        .expect("an Http")
}

async fn answered(act: Act) -> Option<Value> {
    let far_end = FarEnd::scripted([act]);
    let answer = answer(&http_to(&far_end), &json!({ "body": 1 })).await;
    far_end.only("");
    answer
}

async fn refused(act: Act) -> Fault {
    let far_end = FarEnd::scripted([act]);
    let fault = fault(&http_to(&far_end), &json!({ "body": 1 })).await;
    far_end.only("");
    assert_eq!(fault.kind, FaultKind::Answer);
    fault
}

#[tokio::test]
async fn a_2xx_is_accepted_and_its_small_json_answer_is_kept() {
    for status in ["200 OK", "201 Created", "202 Accepted", "299 Whatever"] {
        assert_eq!(
            answered(answering(status, "", r#"{"id": "m-1"}"#)).await,
            Some(json!({ "id": "m-1" })),
            "{status}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_is_not_json_or_is_empty_is_accepted_and_not_kept() {
    assert_eq!(answered(answering("200 OK", "", "queued, thank you")).await, None);
    assert_eq!(answered(answering("200 OK", "", "")).await, None);
    assert_eq!(answered(Act::Write("HTTP/1.1 204 No Content\r\n\r\n".into())).await, None);
}

#[tokio::test]
async fn an_answer_is_kept_up_to_16_kib_and_dropped_beyond() {
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let kept = answered(answering("200 OK", "", &text(16 * 1_024))).await;
    assert_eq!(kept.as_ref().and_then(Value::as_str).map(str::len), Some(16 * 1_024 - 2));
    assert_eq!(answered(answering("200 OK", "", &text(16 * 1_024 + 1))).await, None);
}

#[tokio::test]
async fn a_success_body_without_end_is_dropped_without_failing() {
    let far_end = FarEnd::scripted([Act::Flood("HTTP/1.1 200 OK\r\n\r\n".into())]);
    assert_eq!(answer(&http_to(&far_end), &json!({})).await, None);
    far_end.left().await;
}

#[tokio::test]
async fn an_error_body_without_end_is_read_for_2_kib_only() {
    let far_end = FarEnd::scripted([Act::Flood("HTTP/1.1 503 Busy\r\n\r\n".into())]);
    let fault = fault(&http_to(&far_end), &json!({})).await;
    assert_eq!((fault.status, fault.text.len()), (Some(503), 2 * 1_024));
    far_end.left().await;
}

#[tokio::test]
async fn an_error_text_is_cut_between_characters() {
    for (letter, count) in [("é", 1_023), ("€", 682), ("😀", 511)] {
        let fault = refused(answering("500 Oops", "", &format!("x{}", letter.repeat(2_000)))).await;
        assert_eq!(&*fault.text, format!("x{}", letter.repeat(count)));
    }
}

#[tokio::test]
async fn a_success_body_cut_short_is_still_a_yes_and_no_part_of_it_is_taken_for_the_whole() {
    for part in ["{\"id\":", "12", ""] {
        let cut = Act::Cut(format!("HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{part}"));
        assert_eq!(answered(cut).await, None, "{part}");
    }
}

#[tokio::test]
async fn a_success_body_that_the_caller_waits_for_and_that_breaks_off_is_uncertain() {
    let cut = Act::Cut("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":".into());
    let far_end = FarEnd::scripted([cut]);
    let job = super::job(Payload::trusted("{}"));
    let delivery = Delivery {
        job: &job,
        attempt: 1,
        now: super::NOW,
        timeout: Duration::from_secs(30),
        answer: recado_transport::Wanted::Answer,
    };
    let outcome = http_to(&far_end).send(delivery).await;
    let Outcome::Failed(fault) = outcome else { panic!("{outcome:?}") };
    assert!(fault.uncertain && fault.text.contains("broke off"), "{}", fault.text);
    far_end.only("");
}

#[tokio::test]
async fn an_answer_nested_deeper_than_jobs_may_be_is_not_kept() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deepest = recado_core::payload::DEPTH_MAX;
    assert!(answered(answering("200 OK", "", &nested(deepest))).await.is_some());
    for depth in [deepest + 1, 8_000] {
        assert_eq!(answered(answering("200 OK", "", &nested(depth))).await, None);
    }
}

#[tokio::test]
async fn an_error_body_cut_short_keeps_its_status_and_what_was_said() {
    let fault = refused(Act::Cut("HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nback soon".into())).await;
    assert_eq!((fault.status, &*fault.text), (Some(503), "back soon"));
    assert!(!fault.uncertain, "the provider did answer");
}

#[tokio::test]
async fn a_body_that_never_ends_arriving_changes_neither_a_yes_nor_a_no() {
    let hang = |status: &str| Act::Hang(format!("HTTP/1.1 {status}\r\nContent-Length: 100\r\n\r\nwait"));
    let far_end = FarEnd::scripted([hang("200 OK"), hang("503 Busy")]);
    let config =
        HttpConfig { answer_wait: Duration::from_millis(50), ..HttpConfig::new(far_end.url_of("/")) };
    let http = Http::new(config).unwrap();
    assert_eq!(answer(&http, &json!({})).await, None);
    let fault = fault(&http, &json!({})).await;
    assert_eq!((fault.status, &*fault.text), (Some(503), "wait"));
    assert_eq!(far_end.ledger().len(), 2);
}

#[tokio::test]
async fn a_yes_whose_body_dawdles_past_the_routes_timeout_is_still_a_yes() {
    let hang = Act::Hang("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nwait".into());
    let far_end = FarEnd::scripted([hang]);
    let http = http_to(&far_end);
    let (job, timeout) = (super::job(Payload::trusted("{}")), Duration::from_millis(400));
    let delivery = Delivery {
        job: &job,
        attempt: 1,
        now: super::NOW,
        timeout,
        answer: recado_transport::Wanted::Receipt,
    };
    let outcome =
        tokio::time::timeout(timeout, http.send(delivery)).await.expect("an answer within the timeout");
    assert!(matches!(outcome, Outcome::Accepted { answer: None }), "{outcome:?}");
    assert_eq!(far_end.ledger().len(), 1);
}

#[tokio::test]
async fn w1_f7_every_other_status_is_a_fault_with_its_code_and_the_providers_words() {
    for status in [400, 401, 403, 404, 408, 410, 425, 429, 500, 502, 503, 504, 599] {
        let fault = refused(answering(&format!("{status} No"), "", r#"{"error":"because"}"#)).await;
        assert_eq!(fault.status, Some(status));
        assert_eq!(fault.code.as_deref(), Some(&*status.to_string()));
        assert_eq!(&*fault.text, r#"{"error":"because"}"#);
        assert_eq!((fault.retry_after, fault.uncertain), (None, false));
    }
}

#[tokio::test]
async fn f8_retry_after_is_read_as_seconds_or_date_and_garbage_means_nothing() {
    let wish = async |headers: &str| refused(answering("429 Slow Down", headers, "")).await.retry_after;
    assert_eq!(wish("Retry-After: 7\r\n").await, Some(Duration::from_secs(7)));
    assert_eq!(wish("Retry-After: Thu, 01 Jan 2026 00:02:00 GMT\r\n").await, Some(Duration::from_secs(120)));
    assert_eq!(
        wish("Retry-After: Thursday, 01-Jan-26 00:02:00 GMT\r\n").await,
        Some(Duration::from_secs(120))
    );
    assert_eq!(wish("Retry-After: Thu Jan  1 00:02:00 2026\r\n").await, Some(Duration::from_secs(120)));
    assert_eq!(wish("Retry-After: Wed, 31 Dec 2025 00:00:00 GMT\r\n").await, Some(Duration::ZERO));
    for garbage in ["soon", "-3", "", "NaN", "\u{e9}"] {
        assert_eq!(wish(&format!("Retry-After: {garbage}\r\n")).await, None, "{garbage}");
    }
}

#[tokio::test]
async fn f8_retry_after_ms_comes_before_retry_after_unless_it_is_garbage() {
    let wish = async |headers: &str| refused(answering("429 Slow Down", headers, "")).await.retry_after;
    assert_eq!(wish("retry-after-ms: 1529\r\nRetry-After: 2\r\n").await, Some(Duration::from_millis(1_529)));
    assert_eq!(wish("retry-after-ms: 0.2\r\n").await, Some(Duration::from_millis(1)));
    for garbage in ["soon", "-1", "inf", "1e300"] {
        let headers = format!("retry-after-ms: {garbage}\r\nRetry-After: 2\r\n");
        assert_eq!(wish(&headers).await, Some(Duration::from_secs(2)), "{garbage}");
    }
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_its_target_sees_no_connection() {
    let target = FarEnd::scripted([]);
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let fault = refused(answering(
            status,
            &format!("Location: {}\r\n", target.url_of::<String>("/elsewhere")),
            "",
        ))
        .await;
        assert_eq!(fault.code.as_deref(), status.get(..3));
        assert!(fault.text.contains("redirects are not followed"), "{}", fault.text);
    }
    assert_eq!(target.connections(), 0);
    // The target was there to be found.
    fault(&http_to(&target), &json!({})).await;
    assert_eq!(target.connections(), 1);
}

#[tokio::test]
async fn one_connection_serves_one_request_after_another_whatever_was_answered() {
    let far_end = FarEnd::scripted([
        answering("200 OK", "", "{}"),
        answering("503 Busy", "", "later"),
        answering("429 Slow Down", "", ""),
        answering("201 Created", "", ""),
    ]);
    let http = http_to(&far_end);
    answer(&http, &json!({})).await;
    fault(&http, &json!({})).await;
    fault(&http, &json!({})).await;
    answer(&http, &json!({})).await;
    assert_eq!((far_end.ledger().len(), far_end.connections()), (4, 1));
}
