//! Jobs, accounts and attempts for the tests beside this.

use std::time::Duration;

use recado_core::{Blame, Class, CompanyId, Fault, Job, NewJob, Outcome, Timestamp};
pub use recado_testkit::jobs::NOW;
use recado_testkit::jobs::new_job;
use recado_transport::{Delivery, Transport, Url, Wanted};
use recado_transport_ses::{Ses, SesConfig, SesCredentials};
use serde_json::{Value, json};

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const JOB: &str = "outbox:7f3a.1";
pub const COMPANY: &str = "acme.br:1";

/// An account with fixed keys, each of which says that it must not be seen.
pub fn config(endpoint: Url) -> SesConfig {
    SesConfig {
        region: Some("sa-east-1".into()),
        endpoint_url: Some(endpoint),
        credentials: Some(SesCredentials {
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: "SECRET-key".into(),
            session_token: Some("SECRET-token".into()),
        }),
        connect_timeout: Duration::from_secs(5),
        ..SesConfig::default()
    }
}

pub fn ses(endpoint: Url) -> Ses {
    Ses::new(config(endpoint)).expect("a Ses")
}

/// An e-mail that SES can compose by itself.
pub fn plain() -> Value {
    json!({
        "from": "Acme Saúde <avisos@acme.example>",
        "to": ["Ana <ana@example.com>"],
        "subject": "Sua consulta é amanhã",
        "text": "Olá, Ana! SECRET-text",
    })
}

/// With a file, which SES cannot compose, and a hidden recipient.
pub fn with_file() -> Value {
    let mut data = plain();
    data["cc"] = json!(["caio@example.com"]);
    data["bcc"] = json!(["bia@example.com"]);
    data["attachments"] = json!([
        { "filename": "guia.bin", "contentType": "application/octet-stream", "contentBase64": "AAECA/8=" }
    ]);
    data
}

pub fn job(data: &Value) -> Job {
    let company = CompanyId::new(COMPANY).expect("a name");
    let new = new_job(JOB, "email-ses", &data.to_string(), NOW);
    Job::from(NewJob { company, expires_at: Timestamp::MAX, ..new })
}

pub fn delivery(job: &Job) -> Delivery<'_> {
    Delivery { job, attempt: 1, now: NOW, timeout: Duration::from_secs(30), answer: Wanted::Receipt }
}

pub async fn deliver(ses: &Ses, job: &Job) -> Outcome {
    tokio::time::timeout(PATIENCE, ses.send(delivery(job))).await.expect("the transport hangs")
}

pub async fn send(ses: &Ses, data: &Value) -> Outcome {
    deliver(ses, &job(data)).await
}

/// The fault, held to say something and to repeat no secret.
pub async fn fault(ses: &Ses, data: &Value) -> Fault {
    match send(ses, data).await {
        Outcome::Failed(fault) => {
            assert!(!format!("{fault:?}").contains("SECRET"), "{fault:?}");
            fault
        }
        other => panic!("{other:?}, where a failure was due"),
    }
}

pub async fn answer(ses: &Ses, data: &Value) -> Option<Value> {
    match send(ses, data).await {
        Outcome::Accepted { answer } => answer.map(|answer| answer.parse().expect("JSON")),
        other => panic!("{other:?}, where a yes was due"),
    }
}

/// The class and blame of a fault by the built-in rules.
pub fn judged(fault: &Fault) -> (Class, Blame) {
    let failure = recado_core::rules::named("ses").expect("the rules").classify(fault.clone());
    (failure.class, failure.blame)
}
