//! Every transport against a far end that misbehaves for real.

mod transport {
    mod data;
    mod http_answers;
    mod http_network;
    mod http_requests;
    mod sandbox;
    mod secrets;
    mod whatsapp;

    use std::time::Duration;

    use recado_core::{Fault, Job, NewJob, Outcome, Payload, Timestamp};
    use recado_testkit::jobs::{NOW, new_job};
    use recado_transport::{Delivery, Transport};
    use serde_json::Value;

    /// No test waits longer than this for anything.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn payload(data: &Value) -> Payload {
        Payload::new(&data.to_string()).expect("JSON")
    }

    fn job(data: Payload) -> Job {
        Job::from(NewJob { expires_at: Timestamp::MAX, ..new_job("job-7f3a", "any", data.as_str(), NOW) })
    }

    async fn attempt(transport: &dyn Transport, data: &Value, attempt: u32) -> Outcome {
        let job = job(payload(data));
        let sending = transport.send(Delivery {
            job: &job,
            attempt,
            now: NOW,
            timeout: std::time::Duration::from_secs(30),
            answer: recado_transport::Wanted::Receipt,
        });
        tokio::time::timeout(PATIENCE, sending).await.expect("the transport hangs")
    }

    async fn send(transport: &dyn Transport, data: &Value) -> Outcome {
        attempt(transport, data, 1).await
    }

    async fn fault(transport: &dyn Transport, data: &Value) -> Fault {
        match send(transport, data).await {
            Outcome::Failed(fault) => fault,
            other => panic!("{other:?}, where a failure was due"),
        }
    }

    async fn answer(transport: &dyn Transport, data: &Value) -> Option<Value> {
        match send(transport, data).await {
            Outcome::Accepted { answer } => answer.map(|answer| answer.parse().expect("JSON")),
            other => panic!("{other:?}, where a yes was due"),
        }
    }

    /// The pointers of all faults, in order, each checked to come with advice.
    fn pointers(transport: &dyn Transport, data: &Value) -> Vec<String> {
        let faults = transport.check(&payload(data)).err().unwrap_or_default();
        assert!(faults.iter().all(|fault| fault.message.contains("; ")), "no advice in {faults:?}");
        let mut pointers: Vec<_> = faults.into_iter().map(|fault| fault.pointer).collect();
        pointers.sort_unstable();
        pointers
    }

    /// The one fault's message.
    fn message(transport: &dyn Transport, data: &Value) -> String {
        match transport.check(&payload(data)) {
            Err(faults) if faults.len() == 1 => faults[0].message.clone(),
            other => panic!("one fault was due for {data}, not {other:?}"),
        }
    }
}
