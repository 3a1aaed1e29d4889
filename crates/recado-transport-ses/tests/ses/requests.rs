//! Requests to SES: sender, content, credentials, the same on every attempt.

use recado_core::CompanyId;
use recado_testkit::far_end::FarEnd;
use recado_testkit::http::{Request, raw as http};
use recado_transport::Transport;
use recado_transport_ses::{Content, Ses, SesConfig};
use serde_json::{Value, json};

use super::far_end::{message, tag, yes};
use super::given::{COMPANY, JOB, config, job, plain, send, with_file};

async fn asked_by(change: impl FnOnce(&mut SesConfig), data: &Value) -> Request {
    let far_end = FarEnd::scripted([yes()]);
    let mut config = config(far_end.url_of(""));
    change(&mut config);
    send(&Ses::new(config).expect("a Ses"), data).await;
    far_end.only("")
}

async fn asked(data: &Value) -> Request {
    asked_by(|_| (), data).await
}

/// The header section of a raw message, unfolded.
fn headers(message: &str) -> Vec<String> {
    let (head, _) = message.split_once("\r\n\r\n").expect("a blank line");
    head.replace("\r\n ", " ").split("\r\n").map(str::to_owned).collect()
}

#[tokio::test]
async fn a_request_is_signed_with_the_accounts_keys() {
    let seen = asked(&plain()).await;
    let signature = seen.header_values("authorization").unwrap();
    assert!(signature.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{signature}");
    assert!(signature.contains("/sa-east-1/ses/aws4_request"), "{signature}");
    assert_eq!(seen.header_values("x-amz-security-token").as_deref(), Some("SECRET-token"));
}

#[tokio::test]
async fn ses_composes_what_it_can() {
    let mut data = plain();
    data["cc"] = json!(["caio@example.com"]);
    data["bcc"] = json!(["bia@example.com"]);
    data["replyTo"] = json!("suporte@acme.example");
    data["html"] = json!("<p>Olá</p>");
    let body = asked(&data).await.json();
    assert_eq!(body["FromEmailAddress"], "=?utf-8?B?QWNtZSBTYcO6ZGU=?= <avisos@acme.example>");
    assert_eq!(
        body["Destination"],
        json!({
            "ToAddresses": ["Ana <ana@example.com>"],
            "CcAddresses": ["caio@example.com"],
            "BccAddresses": ["bia@example.com"],
        })
    );
    assert_eq!(body["ReplyToAddresses"], json!(["suporte@acme.example"]));
    assert_eq!(
        body["Content"],
        json!({ "Simple": {
            "Subject": { "Data": "Sua consulta é amanhã", "Charset": "UTF-8" },
            "Body": {
                "Text": { "Data": "Olá, Ana! SECRET-text", "Charset": "UTF-8" },
                "Html": { "Data": "<p>Olá</p>", "Charset": "UTF-8" },
            },
            "Headers": [{ "Name": "X-Recado-Job", "Value": JOB }],
        } })
    );
}

#[tokio::test]
async fn an_attachment_or_a_header_makes_the_message_raw() {
    let mut headed = plain();
    headed["headers"] = json!({ "List-Unsubscribe": "<mailto:sair@acme.example>" });
    for data in [with_file(), headed] {
        let seen = asked(&data).await;
        assert!(seen.json()["Content"]["Simple"].is_null());
        assert!(headers(&message(&seen)).contains(&format!("X-Recado-Job: {JOB}")));
    }
}

#[tokio::test]
async fn raw_content_is_raw_for_every_recipient() {
    let seen = asked_by(|config| config.content = Content::Raw, &plain()).await;
    assert!(seen.json()["Content"]["Simple"].is_null());
    assert!(headers(&message(&seen)).contains(&format!("X-Recado-Job: {JOB}")));
}

#[tokio::test]
async fn addresses_are_ascii_on_one_line_whatever_the_names() {
    let mut data = plain();
    data["to"] = json!([format!("{} <ana@exämple.com>", "Açaí ".repeat(30))]);
    let body = asked(&data).await.json();
    let address = body["Destination"]["ToAddresses"][0].as_str().unwrap();
    assert!(address.is_ascii() && !address.contains(char::is_control), "{address:?}");
    assert!(address.ends_with("<ana@xn--exmple-cua.com>"), "{address:?}");
}

#[tokio::test]
async fn a_blind_copy_is_in_the_destination_and_nowhere_in_the_message() {
    let seen = asked(&with_file()).await;
    assert_eq!(
        seen.json()["Destination"],
        json!({
            "ToAddresses": ["ana@example.com"],
            "CcAddresses": ["caio@example.com"],
            "BccAddresses": ["bia@example.com"],
        })
    );
    let message = message(&seen);
    assert!(message.contains("ana@example.com") && message.contains("caio@example.com"));
    assert!(!message.contains("bia@example.com") && !message.to_lowercase().contains("bcc:"));
}

#[tokio::test]
async fn no_recipient_is_named_twice() {
    let mut data = plain();
    data["cc"] = json!(["Ana again <ana@EXAMPLE.com>", "caio@example.com"]);
    data["bcc"] = json!(["caio@example.com"]);
    assert_eq!(
        asked(&data).await.json()["Destination"],
        json!({ "ToAddresses": ["Ana <ana@example.com>"], "CcAddresses": ["caio@example.com"] })
    );
}

#[tokio::test]
async fn g15_every_attempt_carries_the_same_message_and_the_same_message_id() {
    let far_end = FarEnd::scripted([http("503 No", "", ""), yes(), http("503 No", "", ""), yes()]);
    let ses = Ses::new(config(far_end.url_of(""))).unwrap();
    for data in [with_file(), plain()] {
        for attempt in [1, 2] {
            let job = job(&data);
            let mut delivery = super::given::delivery(&job);
            delivery.attempt = attempt;
            ses.send(delivery).await;
        }
    }
    let seen = far_end.ledger();
    assert_eq!((seen[0].json(), seen[2].json()), (seen[1].json(), seen[3].json()));
    assert!(headers(&message(&seen[0])).contains(&"Message-ID: <outbox=3A7f3a.1@acme.example>".to_owned()));
}

#[tokio::test]
async fn the_company_and_the_job_are_tags_in_the_characters_that_ses_takes() {
    let seen =
        asked_by(|config| drop(config.tags.insert("campaign".into(), "lembrete".into())), &plain()).await;
    assert_eq!(tag(&seen, "companyId").as_deref(), Some("acme_br_1"));
    assert_eq!(tag(&seen, "jobId").as_deref(), Some("outbox_7f3a_1"));
    assert_eq!(tag(&seen, "campaign").as_deref(), Some("lembrete"));
}

#[tokio::test]
async fn a_company_may_have_a_configuration_set_of_its_own() {
    for (shared, company, used) in [
        (Some("shared"), COMPANY, json!("own-set")),
        (Some("shared"), "other", json!("shared")),
        (None, "other", Value::Null),
    ] {
        let sets = |config: &mut SesConfig| {
            config.configuration_set = shared.map(Into::into);
            config.configuration_sets.insert(CompanyId::new(company).unwrap(), "own-set".into());
        };
        assert_eq!(asked_by(sets, &plain()).await.json()["ConfigurationSetName"], used);
    }
}
