//! An endpoint that repeats our keys, and what is left of them.

use recado_testkit::far_end::FarEnd;
use recado_testkit::http::raw as http;
use serde_json::json;

use super::far_end::{no, no_in_body, yes};
use super::given::{answer, fault, plain, ses};

#[tokio::test]
async fn keys_that_an_error_repeats_are_masked_wherever_they_stand() {
    let told = "AKIDEXAMPLE may not send; neither SECRET-key nor SECRET%2Dtoken helps";
    let masked = "*** may not send; neither *** nor *** helps";
    let page = format!("<html>{told}</html>");
    let far_end = FarEnd::scripted([
        no(403, "InvalidClientTokenId", told),
        no_in_body(403, "InvalidClientTokenId", told),
        http("403 No", "Content-Type: text/html\r\n", &page),
    ]);
    let ses = ses(far_end.url_of(""));
    for text in [masked, masked, &*format!("<html>{masked}</html>")] {
        let fault = fault(&ses, &plain()).await;
        assert_eq!((fault.status, &*fault.text), (Some(403), text));
    }
    assert_eq!(far_end.ledger().len(), 3);
}

#[tokio::test]
async fn a_key_in_an_errors_name_is_masked() {
    let far_end = FarEnd::scripted([no(403, "Unknown.SECRET-key", "no")]);
    let fault = fault(&ses(far_end.url_of("")), &plain()).await;
    assert_eq!(fault.code.as_deref(), Some("Unknown.***"));
}

#[tokio::test]
async fn a_key_in_a_message_id_is_masked() {
    let far_end = FarEnd::scripted([http("200 OK", "", r#"{"MessageId":"0100-SECRET-token"}"#), yes()]);
    let ses = ses(far_end.url_of(""));
    assert_eq!(answer(&ses, &plain()).await, Some(json!({ "messageId": "0100-***" })));
    assert_eq!(answer(&ses, &plain()).await, Some(json!({ "messageId": "0100018f-ses" })));
}

#[tokio::test]
async fn a_key_that_the_bound_on_a_faults_text_cuts_in_two_is_masked() {
    let far_end = FarEnd::scripted([no(403, "Denied", &format!("{}SECRET-key", "x".repeat(2_040)))]);
    let fault = fault(&ses(far_end.url_of("")), &plain()).await;
    assert_eq!(&*fault.text, format!("{}***", "x".repeat(2_040)));
}
