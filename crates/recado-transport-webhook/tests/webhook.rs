//! Webhooks against receivers that misbehave for real, and a guard that users try to talk round.

mod webhook {
    mod answers;
    mod data;
    mod endpoints;
    mod lookups;
    mod public_addresses;
    mod signatures;
    mod trap;
    mod trials;
    mod written_addresses;

    use std::collections::HashMap;
    use std::sync::Arc;
    use std::time::Duration;

    use recado_core::{CompanyId, Fault, Job, NewJob, Outcome, Payload, Timestamp};
    use recado_testkit::far_end::FarEnd;
    use recado_testkit::jobs::{NOW, new_job};
    use recado_transport::{Delivery, Transport, Wanted};
    use recado_transport_webhook::{Endpoints, Guard, Secret, Target, Webhook, WebhookConfig};
    use serde_json::{Value, json};

    /// No test waits longer than this for anything.
    const PATIENCE: Duration = Duration::from_secs(20);
    const ENDPOINT: &str = "ep-1";

    /// The endpoints of `acme`.
    #[derive(Debug, Default)]
    struct Book(HashMap<&'static str, Target>);

    #[async_trait::async_trait]
    impl Endpoints for Book {
        async fn target(&self, company: &CompanyId, endpoint_id: &str) -> Result<Option<Target>, Fault> {
            Ok(self.0.get(endpoint_id).filter(|_| company.as_str() == "acme").cloned())
        }
    }

    fn secret(seed: u8) -> Secret {
        Secret::generate([seed; 32])
    }

    fn target(url: &str) -> Target {
        Target { url: url.parse().expect("a URL"), secrets: vec![secret(1)], enabled: true }
    }

    fn guard(allowed: &[&str]) -> Guard {
        let allowed = allowed.iter().map(|range| range.parse().expect("a range")).collect();
        Guard { allowed, allow_http: false }
    }

    /// Allowed to reach this machine; a wait so long that only the bound on size ends a flood.
    fn config() -> WebhookConfig {
        WebhookConfig {
            guard: guard(&["127.0.0.1/32", "::1/128"]),
            answer_wait: Duration::from_secs(60),
            ..WebhookConfig::default()
        }
    }

    fn webhook_with(config: WebhookConfig, target: Target) -> Webhook {
        Webhook::new(config, Arc::new(Book(HashMap::from([(ENDPOINT, target)])))).expect("a Webhook")
    }

    fn webhook_to(target: Target) -> Webhook {
        webhook_with(config(), target)
    }

    /// The URL that a receiver's endpoint has.
    fn hook_of(receiver: &FarEnd) -> String {
        receiver.url_of("/hook?from=recado")
    }

    /// The data of a job for the endpoint.
    fn order() -> Value {
        json!({ "endpointId": ENDPOINT, "event": "order.paid", "payload": { "order": 7 } })
    }

    fn payload(data: &Value) -> Payload {
        Payload::new(&data.to_string()).expect("JSON")
    }

    fn job_of(company: &str, data: Payload) -> Job {
        let company = CompanyId::new(company).expect("a name");
        let new = new_job("job-7f3a", "webhook", data.as_str(), NOW);
        Job::from(NewJob { company, expires_at: Timestamp::MAX, ..new })
    }

    async fn attempt(webhook: &Webhook, job: &Job, now: Timestamp) -> Outcome {
        let delivery =
            Delivery { job, attempt: 1, now, timeout: Duration::from_secs(30), answer: Wanted::Receipt };
        tokio::time::timeout(PATIENCE, webhook.send(delivery)).await.expect("the transport hangs")
    }

    async fn send(webhook: &Webhook, data: &Value) -> Outcome {
        attempt(webhook, &job_of("acme", payload(data)), NOW).await
    }

    async fn accepted(webhook: &Webhook, data: &Value) -> Option<Payload> {
        match send(webhook, data).await {
            Outcome::Accepted { answer } => answer,
            other => panic!("{other:?}, where a yes was due"),
        }
    }

    async fn fault(webhook: &Webhook, data: &Value) -> Fault {
        match send(webhook, data).await {
            Outcome::Failed(fault) => fault,
            other => panic!("{other:?}, where a failure was due"),
        }
    }
}
