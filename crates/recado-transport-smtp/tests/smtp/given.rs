//! Fixtures of the tests.

use std::time::Duration;

use recado_core::{
    Class, Failure, Fault, FaultKind, Job, NetworkKind, NewJob, Outcome, PartialDelivery, Timestamp, Verdict,
    rules,
};
pub use recado_testkit::jobs::NOW;
use recado_testkit::jobs::new_job;
use recado_transport::{Delivery, Transport, Wanted};
use recado_transport_smtp::{Security, Smtp, SmtpConfig};
use serde_json::{Value, json};

use super::server::Server;

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Of the steps that a test lets time out. Everything else has the defaults, which are much longer.
pub const SHORT: Duration = Duration::from_secs(1);

pub const ANA: &str = "ana@example.com";
pub const BOB: &str = "bob@example.com";
pub const EVA: &str = "eva@example.com";

pub fn mail(to: &[&str]) -> Value {
    json!({ "from": "Acme <acme@acme.example>", "to": to, "subject": "Oi", "text": "Olá\n.\n" })
}

/// So many addresses.
pub fn people(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("r{n}@example.com")).collect()
}

pub fn mail_to(people: &[String]) -> Value {
    mail(&people.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn job(data: &Value) -> Job {
    let new = new_job("job-7f3a", "email", &data.to_string(), NOW);
    Job::from(NewJob { expires_at: Timestamp::MAX, ..new })
}

pub fn delivery(job: &Job) -> Delivery<'_> {
    Delivery { job, attempt: 1, now: NOW, timeout: PATIENCE * 2, answer: Wanted::Receipt }
}

/// For a server on this machine; the rest is as users get it.
pub fn config(server: &Server, security: Security) -> SmtpConfig {
    let mut config = SmtpConfig::new("localhost", security);
    // `localhost` has two addresses on most machines, and the server listens on one.
    if security == Security::None {
        config.host = "127.0.0.1".to_owned();
    }
    config.port = server.port;
    config.trusted_roots_pem = Some(server.certificate_pem.clone());
    config
}

pub fn smtp(config: SmtpConfig) -> Smtp {
    Smtp::new(config).expect("a configuration that works")
}

pub fn plain(server: &Server) -> Smtp {
    smtp(config(server, Security::None))
}

pub async fn send_job(smtp: &Smtp, job: &Job) -> Outcome {
    tokio::time::timeout(PATIENCE, smtp.send(delivery(job))).await.expect("the transport hangs")
}

pub async fn send(smtp: &Smtp, data: &Value) -> Outcome {
    send_job(smtp, &job(data)).await
}

pub fn accepted(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Accepted { answer } => answer.expect("an answer").parse().expect("JSON"),
        other => panic!("{other:?}, where a yes was due"),
    }
}

pub fn failed(outcome: Outcome) -> Fault {
    match outcome {
        Outcome::Failed(fault) => fault,
        other => panic!("{other:?}, where a failure was due"),
    }
}

pub fn partly(outcome: Outcome) -> PartialDelivery {
    match outcome {
        Outcome::Partial(partly) => partly,
        other => panic!("{other:?}, where recipients were to differ"),
    }
}

/// The refused recipients, each with its code.
pub fn refusals(partly: &PartialDelivery) -> Vec<(&str, &str)> {
    partly.refused.iter().map(|one| (&*one.recipient, one.fault.code.as_deref().unwrap_or("none"))).collect()
}

pub fn is(fault: &Fault, kind: NetworkKind, uncertain: bool) {
    assert_eq!((fault.kind, fault.uncertain), (FaultKind::Network(kind), uncertain), "{}", fault.text);
}

/// The failure by the route's rules.
pub fn judged(outcome: Outcome) -> Failure {
    match rules::named("smtp").expect("a rule set").verdict(outcome) {
        Verdict::Failed(failure) => failure,
        other => panic!("{other:?}, where one failure was due"),
    }
}

pub fn is_retried(outcome: Outcome) {
    let failure = judged(outcome);
    assert!(failure.class.is_retryable(), "{failure:?}");
}

pub fn is_final(outcome: Outcome) {
    let failure = judged(outcome);
    assert_eq!(failure.class, Class::Permanent, "{failure:?}");
}
