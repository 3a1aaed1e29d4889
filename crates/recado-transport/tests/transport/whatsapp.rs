//! Evolution API: the right endpoint for each message, and no yes where there is a no inside.

use std::time::Duration;

use recado_core::{Fault, FaultKind, NetworkKind, Outcome};
use recado_testkit::far_end::FarEnd;
use recado_testkit::http::{Act, Request, raw as answering};
use recado_transport::{ConfigError, Evolution, EvolutionConfig};
use serde_json::{Value, json};

use super::{answer, attempt, fault, message, pointers};

const SENT: &str = r#"{"key":{"remoteJid":"5511987654321@s.whatsapp.net","fromMe":true,"id":"BAE5"},
    "message":{"conversation":"Oi"},"messageTimestamp":"1717689097","status":"PENDING","error":null}"#;

fn config_of(far_end: &FarEnd) -> EvolutionConfig {
    let config = EvolutionConfig::new(far_end.url_of("/evo/"), "SECRET-key");
    EvolutionConfig { instance: Some("loja".to_owned()), ..config }
}

fn evolution_at(far_end: &FarEnd) -> Evolution {
    Evolution::new(config_of(far_end)).expect("an Evolution")
}

fn hello() -> Value {
    json!({ "number": "5511987654321", "text": "Oi" })
}

fn evolution() -> Evolution {
    Evolution::new(EvolutionConfig::new("https://evo.example.com".parse().expect("a URL"), "SECRET-key"))
        .expect("an Evolution")
}

async fn arrived(data: Value) -> (Request, Value) {
    let far_end = FarEnd::scripted([answering("201 Created", "", SENT)]);
    assert!(answer(&evolution_at(&far_end), &data).await.is_some());
    let seen = far_end.only("");
    let body = serde_json::from_slice(&seen.body).expect("a JSON body");
    (seen, body)
}

async fn refused(act: Act) -> Fault {
    let far_end = FarEnd::scripted([act]);
    let fault = fault(&evolution_at(&far_end), &hello()).await;
    far_end.only("");
    assert_eq!(fault.kind, FaultKind::Answer);
    fault
}

#[tokio::test]
async fn text_goes_to_send_text_of_the_default_instance_with_the_api_key() {
    let (seen, body) = arrived(json!({ "number": "+5511987654321", "text": "Olá \"você\"" })).await;
    assert_eq!(seen.line, "POST /evo/message/sendText/loja HTTP/1.1");
    assert_eq!(seen.header_values("apikey").as_deref(), Some("SECRET-key"));
    assert_eq!(seen.header_values("content-type").as_deref(), Some("application/json"));
    assert_eq!(seen.header_values("idempotency-key").as_deref(), Some("job-7f3a"));
    assert_eq!(body, json!({ "number": "5511987654321", "text": "Olá \"você\"" }));
}

#[tokio::test]
async fn media_goes_to_send_media_and_audio_to_its_own_endpoint() {
    let image = json!({ "type": "image", "url": "https://x.example/a.png", "caption": "eis" });
    let (seen, body) = arrived(json!({ "number": "120363123456789012@g.us", "media": image })).await;
    assert_eq!(seen.line, "POST /evo/message/sendMedia/loja HTTP/1.1");
    let expected = json!({ "number": "120363123456789012@g.us", "mediatype": "image", "media": "https://x.example/a.png", "caption": "eis" });
    assert_eq!(body, expected);

    let document = json!({ "type": "document", "base64": "JVBERg==", "fileName": "nota.pdf" });
    let (seen, body) = arrived(json!({ "number": "5511987654321", "media": document })).await;
    assert_eq!(seen.line, "POST /evo/message/sendMedia/loja HTTP/1.1");
    let expected = json!({ "number": "5511987654321", "mediatype": "document", "media": "JVBERg==", "fileName": "nota.pdf" });
    assert_eq!(body, expected);

    let (seen, body) =
        arrived(json!({ "number": "5511987654321", "media": { "type": "audio", "base64": "T2dnUw==" } }))
            .await;
    assert_eq!(seen.line, "POST /evo/message/sendWhatsAppAudio/loja HTTP/1.1");
    assert_eq!(body, json!({ "number": "5511987654321", "audio": "T2dnUw==" }));
}

#[tokio::test]
async fn a_jobs_own_instance_wins_and_is_one_part_of_the_path_whatever_it_holds() {
    for (instance, part) in [
        ("filial-2", "filial-2"),
        ("Loja São João", "Loja%20S%C3%A3o%20Jo%C3%A3o"),
        ("a%2fb?c#d", "a%252fb%3Fc%23d"),
    ] {
        let (seen, _) =
            arrived(json!({ "instance": instance, "number": "5511987654321", "text": "Oi" })).await;
        assert_eq!(seen.line, format!("POST /evo/message/sendText/{part} HTTP/1.1"));
    }
}

#[tokio::test]
async fn every_attempt_carries_the_same_idempotency_key() {
    let far_end = FarEnd::scripted([answering("503 Busy", "", ""), answering("201 Created", "", SENT)]);
    let evolution = evolution_at(&far_end);
    let data = json!({ "number": "5511987654321", "text": "Oi" });
    assert!(matches!(attempt(&evolution, &data, 1).await, Outcome::Failed(_)));
    assert!(matches!(attempt(&evolution, &data, 2).await, Outcome::Accepted { .. }));
    let keys: Vec<_> = far_end.ledger().iter().map(|seen| seen.header_values("idempotency-key")).collect();
    assert_eq!(keys, vec![Some("job-7f3a".to_owned()); 2]);
}

#[tokio::test]
async fn w1_a_refusal_brings_its_status_and_the_whole_body_for_the_rules_to_read() {
    for status in [400, 401, 404, 429, 500, 502, 503, 504] {
        let body = r#"{"status":400,"error":"Bad Request","response":{"message":[{"exists":false}]}}"#;
        let fault = refused(answering(&format!("{status} No"), "Retry-After: 9\r\n", body)).await;
        assert_eq!((fault.status, &*fault.text), (Some(status), body));
        assert_eq!((fault.retry_after, fault.uncertain), (Some(Duration::from_secs(9)), false));
    }
}

#[tokio::test]
async fn w1_a_201_with_an_error_inside_is_a_failure_with_the_status_and_code_inside() {
    let cases = [
        (
            r#"{"status":400,"error":"Bad Request","response":{"message":["Error: Connection Closed"]}}"#,
            400,
            "400",
        ),
        (r#"{"status":503}"#, 503, "503"),
        (r#"{"error":"Bad Request"}"#, 201, "201"),
        (r#"{"key":{"id":"x"},"status":"ERROR"}"#, 201, "201"),
        (
            r#"{"message":"(#131030) Recipient not in allowed list","type":"OAuthException","code":131030}"#,
            201,
            "131030",
        ),
        (r#"{"error_data":{"details":"no"},"code":131047}"#, 201, "131047"),
    ];
    for (body, status, code) in cases {
        let fault = refused(answering("201 Created", "Retry-After: 4\r\n", body)).await;
        assert_eq!((fault.status, fault.code.as_deref(), &*fault.text), (Some(status), Some(code), body));
        assert_eq!(fault.retry_after, Some(Duration::from_secs(4)));
    }
}

#[tokio::test]
async fn a_2xx_with_a_json_object_without_an_error_inside_is_a_yes() {
    for body in [SENT, r#"{"error":false,"status":200}"#, " {}\n"] {
        let far_end = FarEnd::scripted([answering("201 Created", "", body)]);
        assert!(answer(&evolution_at(&far_end), &hello()).await.is_some_and(|kept| kept.is_object()));
        far_end.only("");
    }
}

#[tokio::test]
async fn a_2xx_with_anything_else_was_not_written_by_evolution_and_leaves_the_message_uncertain() {
    for body in ["<html>login</html>", "done", "", "[]", "\"{}\"", "null", "7", "{\"key\":", "{} {}"] {
        let far_end = FarEnd::scripted([answering("200 OK", "", body)]);
        let fault = fault(&evolution_at(&far_end), &hello()).await;
        far_end.only("");
        assert_eq!(fault.kind, FaultKind::Network(NetworkKind::Protocol), "{body}");
        assert!(fault.uncertain, "{body}");
        assert!(
            fault.text.contains("not from Evolution") && fault.text.contains("; check"),
            "{}",
            fault.text
        );
    }
}

#[tokio::test]
async fn a_2xx_whose_body_breaks_off_may_be_a_refusal_so_it_is_uncertain() {
    let head = "HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n";
    for act in [
        Act::Cut(format!("{head}{{\"error\":")),
        Act::Cut(format!("{head}<html>")),
        Act::Hang(format!("{head}<html>")),
        Act::Hang(head.to_owned()),
    ] {
        let far_end = FarEnd::scripted([act]);
        let mut config = config_of(&far_end);
        config.http.answer_wait = Duration::from_millis(50);
        let fault = fault(&Evolution::new(config).expect("an Evolution"), &hello()).await;
        assert!(fault.uncertain && fault.text.contains("broke off"), "{}", fault.text);
        far_end.only("");
    }
}

#[tokio::test]
async fn a_2xx_with_more_than_is_kept_is_a_yes() {
    let far_end = FarEnd::scripted([
        answering("201 Created", "", &format!("{{\"x\":\"{}\"}}", "x".repeat(16 * 1_024))),
        answering("201 Created", "", &"x".repeat(16 * 1_024 + 1)),
        Act::Flood("HTTP/1.1 201 Created\r\n\r\n".into()),
    ]);
    let evolution = evolution_at(&far_end);
    for _ in 0..3 {
        assert_eq!(answer(&evolution, &hello()).await, None);
    }
    far_end.left().await;
    assert_eq!(far_end.ledger().len(), 3);
}

#[tokio::test]
async fn a_refusal_that_timed_out_inside_may_have_been_delivered() {
    let body = r#"{"status":400,"error":"Bad Request","response":{"message":["Error: Timed Out"]}}"#;
    for status in ["400 Bad Request", "201 Created"] {
        assert!(refused(answering(status, "", body)).await.uncertain, "{status}");
    }
}

#[test]
fn a_number_is_digits_with_a_country_code_or_a_jid() {
    let faulty =
        |number: Value| pointers(&evolution(), &json!({ "instance": "i", "number": number, "text": "Oi" }));
    for right in [
        "12345678",
        "+5511987654321",
        "12345678901234567890",
        "5511987654321@s.whatsapp.net",
        "120363123456789012@g.us",
        "5511987654321-1600000000@g.us",
    ] {
        assert_eq!(faulty(json!(right)), [""; 0], "{right}");
    }
    for wrong in [
        json!("1234567"),
        json!("123456789012345678901"),
        json!("55 11 98765-4321"),
        json!("++5511987654321"),
        json!("55(11)987654321"),
        json!("@g.us"),
        json!("a@g.us"),
        json!("1-@g.us"),
        json!("1-2-3@g.us"),
        json!("123@s.whatsapp.net"),
        json!("+5511987654321@s.whatsapp.net"),
        json!("5511987654321@evil.example"),
        json!(""),
        json!(" "),
        json!("٥٥١١٩٨٧٦٥٤٣٢١"),
        json!(5_511_987_654_321_u64),
        json!(null),
    ] {
        assert_eq!(faulty(wrong.clone()), ["/number"], "{wrong}");
    }
}

#[test]
fn exactly_one_of_text_and_media_is_due() {
    let with = |more: Value| {
        let mut data = json!({ "instance": "i", "number": "5511987654321" });
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        data
    };
    let media = json!({ "type": "image", "url": "https://x.example/a.png" });
    assert_eq!(pointers(&evolution(), &with(json!({ "text": "a", "media": media }))), ["/media"]);
    assert_eq!(pointers(&evolution(), &with(json!({}))), [""]);
    assert_eq!(pointers(&evolution(), &with(json!({ "text": "" }))), ["/text"]);
    assert_eq!(pointers(&evolution(), &with(json!({ "text": " \n" }))), ["/text"]);
    assert_eq!(pointers(&evolution(), &with(json!({ "text": ["a"] }))), ["/text"]);
    assert_eq!(pointers(&evolution(), &with(json!({ "media": media }))), [""; 0]);
}

#[test]
fn every_fault_of_media_is_named() {
    let check = |media: Value| {
        pointers(&evolution(), &json!({ "instance": "i", "number": "5511987654321", "media": media }))
    };
    assert_eq!(check(json!({})), ["/media", "/media/type"]);
    assert_eq!(check(json!("x")), ["/media"]);
    assert_eq!(
        check(json!({ "type": "gif", "url": "ftp://x/y", "captoin": "c", "fileName": 7 })),
        ["/media/captoin", "/media/fileName", "/media/type", "/media/url"]
    );
    assert_eq!(
        check(json!({ "type": "image", "url": "https://x.example/a", "base64": "AAAA" })),
        ["/media/base64"]
    );
    for base64 in ["not base64", "data:image/png;base64,AAAA", "AAA", ""] {
        assert_eq!(check(json!({ "type": "image", "base64": base64 })), ["/media/base64"], "{base64}");
    }
    assert_eq!(check(json!({ "type": "document", "base64": "AAAA" })), ["/media/fileName"]);
    assert_eq!(
        check(json!({ "type": "audio", "base64": "AAAA", "caption": "c", "fileName": "f" })),
        ["/media/caption", "/media/fileName"]
    );
}

#[test]
fn an_instance_has_to_come_from_the_job_or_the_configuration_and_be_a_plain_name() {
    let check = |instance: Value| {
        pointers(&evolution(), &json!({ "instance": instance, "number": "5511987654321", "text": "Oi" }))
    };
    for wrong in [
        json!(null),
        json!(""),
        json!("."),
        json!(".."),
        json!("../x"),
        json!("a/b"),
        json!("a\\b"),
        json!("a\nb"),
        json!(7),
        json!("x".repeat(129)),
    ] {
        assert_eq!(check(wrong.clone()), ["/instance"], "{wrong}");
    }
    let mut config = EvolutionConfig::new("https://evo.example.com".parse().unwrap(), "SECRET-key");
    config.instance = Some("a/b".to_owned());
    assert!(matches!(Evolution::new(config), Err(ConfigError::Instance(_))));
}

#[test]
fn faults_come_together_with_advice_and_the_key_stays_out_of_debug_output() {
    let data = json!({ "numero": "1", "media": { "typ": "image" }, "instance": "a/b" });
    assert_eq!(
        pointers(&evolution(), &data),
        ["/instance", "/media", "/media/typ", "/media/type", "/number", "/numero"]
    );
    assert!(
        message(
            &evolution(),
            &json!({ "instance": "i", "number": "5511987654321", "text": "Oi", "numbr": 1 })
        )
        .contains("did you mean `number`?")
    );
    assert!(!format!("{:?}", evolution()).contains("SECRET"));
}
