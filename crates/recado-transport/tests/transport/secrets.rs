//! Providers that repeat our credentials, and what is left of them.

use recado_core::{Fault, Payload};
use recado_testkit::far_end::FarEnd;
use recado_testkit::http::raw as answering;
use recado_transport::{Evolution, EvolutionConfig, Http, HttpConfig, Secrets, Transport};
use serde_json::{Value, json};

use super::{answer, fault};

/// As keys are: letters, and signs that get escaped.
const KEY: &str = r#"sk/L"é\+7=x"#;

fn redacted(text: &str) -> String {
    Secrets::new([KEY, "EVOKEY123"]).redact(text).into_owned()
}

fn redacted_json(secrets: &[&str], json: &str) -> Value {
    let clean = Secrets::new(secrets).redact_json(Payload::new(json).expect("JSON"));
    serde_json::from_str(clean.as_str()).unwrap_or_else(|error| panic!("{error} in {clean:?}"))
}

fn http_to(far_end: &FarEnd, header: &str, value: &str) -> Http {
    Http::new(HttpConfig::new(far_end.url_of("/")).with_header(header, value)).expect("an Http")
}

/// The fault of a refusal whose body repeats the credential.
async fn echoed(value: &str, body: &str) -> Fault {
    let far_end = FarEnd::scripted([answering("401 Unauthorized", "", body)]);
    let fault = fault(&http_to(&far_end, "Authorization", value), &json!({ "body": 1 })).await;
    assert_eq!(far_end.only("").header_values("authorization").as_deref(), Some(value));
    assert_eq!((fault.status, fault.code.as_deref()), (Some(401), Some("401")));
    fault
}

#[test]
fn a_text_without_a_secret_is_left_as_it_is() {
    for text in ["", "no", "100% of \\ and \\u12 and %zz", "EVOKEY 123", "{\"error\":\"EVOKEY12\\u0034\"}"] {
        assert_eq!(redacted(text), text);
    }
}

#[test]
fn every_secret_is_masked_wherever_it_stands() {
    assert_eq!(redacted("EVOKEY123"), "***");
    assert_eq!(redacted("Unauthorized EVOKEY123, EVOKEY123!"), "Unauthorized ***, ***!");
    assert_eq!(redacted(&format!("é{KEY}é EVOKEY123EVOKEY123 100%")), "é***é ****** 100%");
}

#[test]
fn a_secret_within_a_longer_one_leaves_nothing_of_either() {
    let secrets = Secrets::new(["middle", "begin-middle-end", "end-and-more"]);
    assert_eq!(secrets.redact("<begin-middle-end>, <begin-middle-end-and-more>"), "<***>, <***>");
}

#[test]
fn what_is_shorter_than_six_bytes_is_an_ordinary_word() {
    let secrets = Secrets::new(["", "of", "12345", "123456"]);
    assert_eq!(secrets.redact("one of 12345"), "one of 12345");
    assert_eq!(secrets.redact("one of 123456"), "one of ***");
}

#[test]
fn a_secret_is_known_behind_json_escapes_and_percent_encoding() {
    let json = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    for written in [
        json(KEY),
        json(&json(KEY)),
        json(&json(&json(KEY))),
        r#"sk\/L\"\u00e9\\+7=x"#.to_owned(),
        r#"sk\u002FL\u0022\u00E9\u005c\u002b7\u003dx"#.to_owned(),
        "sk%2FL%22%C3%A9%5C%2B7%3Dx".to_owned(),
        "sk%2fL%22%c3%a9%5c+7=x".to_owned(),
        "%73%6B%2F%4C%22%C3%A9%5C%2B%37%3D%78".to_owned(),
        r"\u0073k%2FL%22%C3%A9\u00255C%2B7%3Dx".to_owned(),
    ] {
        let text = format!("\"é{written}é\\n\"%20");
        assert_eq!(redacted(&text), "\"é***é\\n\"%20", "{written}");
    }
}

#[test]
fn a_secret_that_looks_like_an_escape_is_known_as_it_is() {
    let secrets = Secrets::new([r"C:\new%41\u0041"]);
    assert_eq!(secrets.redact(r"at C:\new%41\u0041!"), "at ***!");
    assert_eq!(secrets.redact("at C%3A%5Cnew%2541%5Cu0041!"), "at ***!");
}

#[test]
fn the_beginning_of_a_secret_that_the_texts_end_cut_off_is_masked() {
    assert_eq!(redacted("wrong key EVOKEY12"), "wrong key ***");
    assert_eq!(redacted("wrong key EVOKEY"), "wrong key ***");
    assert_eq!(redacted("wrong key EVOKE"), "wrong key EVOKE", "an ordinary word");
    assert_eq!(redacted(r#"wrong key sk\/L\"\u00e9"#), "wrong key ***");
    assert_eq!(redacted("wrong key sk%2FL%22%C3"), "wrong key ***");
}

#[test]
fn a_long_text_of_near_misses_is_read_in_one_go() {
    let secret = format!("{}b", "a".repeat(4_000));
    let secrets = Secrets::new([&secret]);
    for written in ["a", "%61", "\\u0061", "\\\\u0061"] {
        let text = written.repeat(1_024 * 1_024 / written.len());
        assert_eq!(secrets.redact(&format!("{text}!")), format!("{text}!"));
        let clean = secrets.redact_json(Payload::trusted(format!("\"{text}b\"")));
        assert_eq!(clean.as_str().len(), 2 + 3 + text.len() - 4_000 * written.len());
    }
}

#[test]
fn json_remains_json_and_its_other_digits_and_spaces_remain_as_written() {
    let json =
        r#"{ "a": "x EVOKEY123", "EVOKEY123":[1.50,12345678901234567890,true,null], "n":"\nEVOKEY12" }"#;
    let clean = Secrets::new(["EVOKEY123"]).redact_json(Payload::new(json).expect("JSON"));
    let expected = r#"{ "a": "x ***", "***":[1.50,12345678901234567890,true,null], "n":"\nEVOKEY12" }"#;
    assert_eq!(clean.as_str(), expected);
}

#[test]
fn no_secret_breaks_the_json_around_it() {
    assert_eq!(redacted_json(&["nabcdef"], r#"["\nabcdef","nabcdef"]"#), json!(["\nabcdef", "***"]));
    assert_eq!(redacted_json(&["abcdef\""], r#"["abcdef","abcdef\"!"]"#), json!(["abcdef", "***!"]));
    assert_eq!(redacted_json(&["abcdef\\"], r#"["abcdef\\","abcdef\n"]"#), json!(["***", "abcdef\n"]));
    assert_eq!(redacted_json(&["abc\",\"def"], r#"["abc","def"]"#), json!(["abc", "def"]));
    assert_eq!(redacted_json(&["123456"], r#"[123456,1234567, "1234567"]"#), json!(["***", 1234567, "***7"]));
    assert_eq!(redacted_json(&["123456"], "123456"), json!("***"));
    assert_eq!(redacted_json(&[KEY], r#"["sk\/L\"\u00e9\\+7=x%20"]"#), json!(["***%20"]));
    assert_eq!(redacted_json(&[KEY], r#"["sk%2FL%22%C3%A9%5C%2B7%3Dx"]"#), json!(["***"]));
}

#[test]
fn debug_output_shows_nothing() {
    assert_eq!(format!("{:?}", Secrets::new([KEY])), format!("{:?}", Secrets::default()));
    let http =
        Http::new(HttpConfig::new("https://x.example".parse().unwrap()).with_header("apikey", "EVOKEY123"));
    assert!(!format!("{:?}", http.unwrap()).contains("EVOKEY123"));
}

#[tokio::test]
async fn an_authorization_that_a_provider_repeats_is_masked_with_or_without_its_scheme() {
    let fault = echoed("Bearer sk-9/x+Y", r#"{"error":"Bearer sk-9\/x+Y (sk-9/x+Y) is no Bearer"}"#).await;
    assert_eq!(&*fault.text, r#"{"error":"Bearer *** (***) is no Bearer"}"#);
    let fault = echoed("Bearer sk-9/x+Y", "start it with Bearer").await;
    assert_eq!(&*fault.text, "start it with Bearer");
    let fault = echoed("hunter22", "hunter22 is wrong").await;
    assert_eq!(&*fault.text, "*** is wrong");
    let fault = echoed("Key ab", "Key ab is wrong").await;
    assert_eq!(&*fault.text, "*** is wrong");
}

#[tokio::test]
async fn the_password_inside_basic_is_masked_too() {
    // ana:hunter:22
    let fault = echoed("Basic YW5hOmh1bnRlcjoyMg==", "YW5hOmh1bnRlcjoyMg== says ana, hunter:22").await;
    assert_eq!(&*fault.text, "*** says ana, ***");
}

#[tokio::test]
async fn a_secret_in_a_kept_answer_is_masked() {
    let body = r#"{"id":"m-1","request":{"headers":{"x-token":"EVOKEY123"}},"url":"/?t=%45VOKEY123"}"#;
    let far_end = FarEnd::scripted([answering("200 OK", "", body)]);
    let kept = answer(&http_to(&far_end, "X-Token", "EVOKEY123"), &json!({ "body": 1 })).await;
    assert_eq!(far_end.only("").header_values("x-token").as_deref(), Some("EVOKEY123"));
    let request = json!({ "headers": { "x-token": "***" } });
    assert_eq!(kept, Some(json!({ "id": "m-1", "request": request, "url": "/?t=***" })));
}

#[tokio::test]
async fn a_secret_that_the_bound_on_a_faults_text_cuts_in_two_is_masked() {
    let body = format!("{}hunter22-and-the-rest", " x".repeat(1_020));
    let fault = echoed("hunter22-and-the-rest", &body).await;
    assert!(fault.text.ends_with(" x x***"), "{}", fault.text);
}

#[tokio::test]
async fn an_api_key_that_evolution_repeats_is_masked_in_refusals_of_either_kind() {
    let body = r#"{"error":"Unauthorized EVOKEY123"}"#;
    let far_end =
        FarEnd::scripted([answering("401 Unauthorized", "", body), answering("201 Created", "", body)]);
    let mut config = EvolutionConfig::new(far_end.url_of("/"), "EVOKEY123");
    config.instance = Some("loja".to_owned());
    let evolution = Evolution::new(config).expect("an Evolution");
    for status in [401, 201] {
        let fault =
            fault(&evolution as &dyn Transport, &json!({ "number": "5511987654321", "text": "Oi" })).await;
        assert_eq!((fault.status, &*fault.text), (Some(status), r#"{"error":"Unauthorized ***"}"#));
    }
    assert!(far_end.ledger().iter().all(|seen| seen.header_values("apikey").as_deref() == Some("EVOKEY123")));
}
