//! Answers as the transport reads them: whole, without a name, late, endless, and of other origin.

use std::time::Duration;

use recado_core::Class::{RateLimit, Transient};
use recado_core::{Blame, FaultKind, NetworkKind};
use recado_testkit::far_end::FarEnd;
use recado_testkit::http::{Act, raw as http};
use recado_transport_ses::Ses;
use serde_json::json;

use super::far_end::{no, yes};
use super::given::{answer, config, fault, judged, plain, ses};

const NO_BODY_YET: &str = "Content-Type: application/json\r\nContent-Length: 60\r\n\r\n";

/// An account that waits for a body no longer than it has to.
fn hasty(far_end: &FarEnd) -> Ses {
    let mut config = config(far_end.url_of(""));
    config.answer_wait = Duration::from_millis(50);
    Ses::new(config).expect("a Ses")
}

#[tokio::test]
async fn a_yes_brings_the_message_id_back() {
    let far_end = FarEnd::scripted([yes()]);
    let answer = answer(&ses(far_end.url_of("")), &plain()).await;
    assert_eq!(answer, Some(json!({ "messageId": "0100018f-ses" })));
    assert_eq!(far_end.only("").line, "POST /v2/email/outbound-emails HTTP/1.1");
}

#[tokio::test]
async fn connections_are_used_again() {
    let far_end = FarEnd::scripted([yes(), no(429, "TooManyRequestsException", "slow"), yes()]);
    let ses = ses(far_end.url_of(""));
    answer(&ses, &plain()).await;
    fault(&ses, &plain()).await;
    answer(&ses, &plain()).await;
    assert_eq!((far_end.ledger().len(), far_end.connections()), (3, 1));
}

#[tokio::test]
async fn a_status_without_a_name_decides_alone() {
    for (status, class) in [(500, Transient), (502, Transient), (503, Transient), (429, RateLimit)] {
        let page = "<html>Bad Gateway</html>";
        let far_end = FarEnd::scripted([
            http(&format!("{status} No"), "Content-Type: text/html\r\n", page),
            http(&format!("{status} No"), "", ""),
            http(&format!("{status} No"), "", r#"{"message":null}"#),
        ]);
        let ses = ses(far_end.url_of(""));
        for text in [page, "", r#"{"message":null}"#] {
            let fault = fault(&ses, &plain()).await;
            assert_eq!((fault.kind, fault.uncertain), (FaultKind::Answer, false));
            assert_eq!((&fault.code, fault.status, &*fault.text), (&None, Some(status), text));
            assert_eq!(judged(&fault), (class, Blame::Provider));
        }
        assert_eq!(far_end.ledger().len(), 3, "the SDK tried again by itself");
    }
}

#[tokio::test]
async fn a_name_in_the_header_counts_however_broken_the_body_is() {
    for body in ["", "{\"message\":", "\u{1}\u{2}", "<html>", "[]"] {
        let far_end =
            FarEnd::scripted([http("400 No", "x-amzn-errortype: SendingPausedException\r\n", body)]);
        let fault = fault(&ses(far_end.url_of("")), &plain()).await;
        assert_eq!(
            (fault.code.as_deref(), fault.status),
            (Some("SendingPausedException"), Some(400)),
            "{body}"
        );
    }
}

#[tokio::test]
async fn f8_retry_after_is_read_as_seconds_and_as_a_date() {
    for (value, seconds) in
        [("7", Some(7)), ("Thu, 01 Jan 2026 00:02:00 GMT", Some(120)), ("soon", None), ("-1", None)]
    {
        let headers = format!("x-amzn-errortype: TooManyRequestsException\r\nRetry-After: {value}\r\n");
        let far_end = FarEnd::scripted([http("429 No", &headers, "{}")]);
        let fault = fault(&ses(far_end.url_of("")), &plain()).await;
        assert_eq!(fault.retry_after, seconds.map(Duration::from_secs), "{value}");
        assert_eq!(judged(&fault).0, RateLimit);
    }
}

#[tokio::test]
async fn a_yes_whose_body_never_comes_is_a_yes() {
    let far_end = FarEnd::scripted([
        Act::Hang(format!("HTTP/1.1 200 OK\r\n{NO_BODY_YET}")),
        Act::Hang(format!("HTTP/1.1 200 OK\r\n{NO_BODY_YET}{{\"Mess")),
        Act::Cut(format!("HTTP/1.1 200 OK\r\n{NO_BODY_YET}{{\"Mess")),
    ]);
    let ses = hasty(&far_end);
    for _ in 0..3 {
        assert_eq!(answer(&ses, &plain()).await, None);
    }
    assert_eq!(far_end.ledger().len(), 3);
}

#[tokio::test]
async fn a_no_whose_body_never_comes_keeps_its_name_and_its_wish() {
    let head = format!(
        "HTTP/1.1 429 No\r\nx-amzn-errortype: TooManyRequestsException\r\nRetry-After: 3\r\n{NO_BODY_YET}"
    );
    let far_end = FarEnd::scripted([Act::Hang(head.clone()), Act::Cut(head)]);
    let ses = hasty(&far_end);
    for _ in 0..2 {
        let fault = fault(&ses, &plain()).await;
        assert_eq!((fault.kind, fault.uncertain), (FaultKind::Answer, false));
        assert_eq!((fault.code.as_deref(), fault.status), (Some("TooManyRequestsException"), Some(429)));
        assert_eq!(fault.retry_after, Some(Duration::from_secs(3)));
    }
}

#[tokio::test]
async fn a_body_without_end_is_refused_and_the_status_stands() {
    let far_end = FarEnd::scripted([
        Act::Flood("HTTP/1.1 200 OK\r\n\r\n".into()),
        Act::Flood("HTTP/1.1 503 No\r\n\r\n".into()),
    ]);
    let ses = ses(far_end.url_of(""));
    assert_eq!(answer(&ses, &plain()).await, None);
    far_end.left().await;
    let fault = fault(&ses, &plain()).await;
    assert_eq!((&fault.code, fault.status), (&None, Some(503)));
    far_end.left().await;
}

#[tokio::test]
async fn a_yes_without_a_message_id_is_not_from_ses_and_uncertain() {
    for body in ["<html>Welcome</html>", "", "{}", "[]", r#"{"MessageId":7}"#] {
        let far_end = FarEnd::scripted([http("200 OK", "", body)]);
        let fault = fault(&ses(far_end.url_of("")), &plain()).await;
        assert_eq!(
            (fault.kind, fault.uncertain),
            (FaultKind::Network(NetworkKind::Protocol), true),
            "{body}"
        );
        assert_eq!(far_end.ledger().len(), 1);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = FarEnd::scripted([yes()]);
    let far_end = FarEnd::scripted([http("302 Found", &format!("Location: {}\r\n", elsewhere.url()), "")]);
    let fault = fault(&ses(far_end.url_of("")), &plain()).await;
    assert_eq!(fault.status, Some(302));
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn long_words_are_cut_and_the_request_that_aws_repeats_is_left_out() {
    let told = "The request signature we calculated does not match the signature you provided.";
    let repeated = format!(
        "{told}\n\nThe Canonical String for this request should have been\n'POST\n/v2\nx-amz-security-token:SECRET-token'"
    );
    let far_end = FarEnd::scripted([
        no(403, "SignatureDoesNotMatch", &repeated),
        no(400, "BadRequestException", &"á".repeat(100_000 / 8)),
    ]);
    let ses = ses(far_end.url_of(""));
    assert_eq!(&*fault(&ses, &plain()).await.text, told);
    let long = fault(&ses, &plain()).await.text;
    assert_eq!(&*long, "á".repeat(long.len() / 2));
    assert!((1_000..=4_096).contains(&long.len()), "{}", long.len());
}
