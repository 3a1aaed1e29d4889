//! Webhooks on their way: events to subscribers, signed, each once; and receivers that fail.

use std::time::Duration;

use recado_core::Policy;
use recado_testkit::far_end::FarEnd;
use serde_json::{Value, json};

use crate::ear::Ear;
use crate::endpoints::{add, id_of, secret_of, server};
use crate::given::{Kind, PATIENCE, Server, Setup, ms};

fn to_endpoint(endpoint: &Value, n: u32) -> Value {
    let data = json!({"endpointId": id_of(endpoint), "event": "order.paid", "payload": {"n": n}});
    json!({"route": "webhook", "companyId": "acme", "data": data})
}

async fn webhook_jobs(server: &Server) -> Vec<Value> {
    server.get("/v1/jobs?route=webhook&limit=1000").await.body["items"].as_array().unwrap().clone()
}

/// Waits for an endpoint to have this many failures to its name: they are counted after the outcome is
/// written down.
async fn counted(server: &Server, path: &str, failures: u32) -> Value {
    let counted = async {
        loop {
            let shown = server.get(path).await.body;
            if shown["consecutiveFailures"] == failures {
                return shown;
            }
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.unwrap_or_else(|_| panic!("not {failures} failures"))
}

/// Waits for the jobs that carry webhooks to have ended, and shows them.
async fn ended_webhook_jobs(server: &Server, count: usize) -> Vec<Value> {
    let ended = async {
        loop {
            let jobs = webhook_jobs(server).await;
            let ended = |job: &Value| job["status"] == "sent" || job["status"] == "failed";
            if jobs.len() == count && jobs.iter().all(ended) {
                return jobs;
            }
            tokio::time::sleep(ms(5)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, ended).await {
        Ok(jobs) => jobs,
        Err(_) => panic!("not {count} ended jobs: {:?}", webhook_jobs(server).await),
    }
}

#[tokio::test]
async fn f12_a_receiver_that_fails_ten_times_in_a_row_is_switched_off_until_its_owner_mends_it() {
    for kind in [Kind::Memory, Kind::Embedded] {
        let server = server(kind).await;
        let receiver = FarEnd::agreeable();
        receiver.says(500, "out of order");
        let endpoint = add(
            &server,
            json!({"companyId": "acme", "url": receiver.url_of::<String>("/"), "events": ["JobExpired"]}),
        )
        .await;
        let path = format!("/v1/endpoints/{}", id_of(&endpoint));
        let mut ear = Ear::open(&server, "?event=EndpointDisabled&companyId=acme").await;

        for n in 1..=10 {
            let job = server.enqueue(to_endpoint(&endpoint, n)).await;
            server.until(&job, "failed").await;
            let shown = counted(&server, &path, n).await;
            assert_eq!(shown["enabled"], json!(n < 10), "after job {n}: {shown}");
        }
        assert_eq!(receiver.ledger().len(), 10);

        let told = ear.next().await;
        assert_eq!((told.event.as_str(), &told.data["companyId"]), ("EndpointDisabled", &json!("acme")));
        assert_eq!(told.data["data"]["endpointId"], endpoint["id"]);
        assert_eq!(told.data["data"]["failures"], 10);
        let shown = server.get(&path).await.body;
        assert_eq!(shown["disabledReason"], "10 deliveries in a row failed");
        assert!(shown["disabledAt"].is_string(), "{shown}");

        let next = server.enqueue(to_endpoint(&endpoint, 11)).await;
        server.until(&next, "failed").await;
        let entry = server.get(&format!("/v1/dlq/{next}")).await.body;
        assert_eq!(entry["lastFailureCode"], "ENDPOINT_DISABLED", "{entry}");
        assert_eq!(receiver.ledger().len(), 10, "nothing is sent to an endpoint that is off");

        receiver.says(200, "{}");
        let on = server.post(&format!("{path}/enable"), "").await.body;
        assert_eq!((&on["enabled"], &on["consecutiveFailures"]), (&json!(true), &json!(0)));
        let replay = server.post(&format!("/v1/dlq/{next}/replay"), "{}").await;
        assert_eq!(replay.status, 202, "{}", replay.body);
        server.until(&next, "sent").await;
        assert_eq!(receiver.arrived(11).await[10].header("webhook-id"), next);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_success_in_between_starts_the_count_anew() {
    let server = server(Kind::Memory).await;
    let receiver = FarEnd::agreeable();
    let endpoint = add(
        &server,
        json!({"companyId": "acme", "url": receiver.url_of::<String>("/"), "events": ["JobExpired"]}),
    )
    .await;
    let path = format!("/v1/endpoints/{}", id_of(&endpoint));
    receiver.says(503, "");
    for n in 1..=9 {
        let job = server.enqueue(to_endpoint(&endpoint, n)).await;
        server.until(&job, "failed").await;
        counted(&server, &path, n).await;
    }
    receiver.says(204, "");
    let job = server.enqueue(to_endpoint(&endpoint, 10)).await;
    server.until(&job, "sent").await;
    assert_eq!(counted(&server, &path, 0).await["enabled"], true);
}

#[tokio::test]
async fn f12_a_410_switches_an_endpoint_off_at_once() {
    let server = server(Kind::Memory).await;
    let receiver = FarEnd::agreeable();
    receiver.says(410, "moved away");
    let endpoint = add(
        &server,
        json!({"companyId": "acme", "url": receiver.url_of::<String>("/"), "events": ["JobExpired"]}),
    )
    .await;
    let mut ear = Ear::open(&server, "?event=EndpointDisabled").await;
    let job = server.enqueue(to_endpoint(&endpoint, 1)).await;
    server.until(&job, "failed").await;
    assert_eq!(ear.next().await.data["data"]["reason"], "it answered 410 Gone");
    let shown = server.get(&format!("/v1/endpoints/{}", id_of(&endpoint))).await.body;
    assert_eq!(
        (&shown["enabled"], &shown["disabledReason"]),
        (&json!(false), &json!("it answered 410 Gone"))
    );
    assert_eq!(receiver.ledger().len(), 1, "it is not asked again");
}

#[tokio::test]
async fn w6_a_subscriber_hears_of_each_event_once_and_can_tell_that_it_is_us() {
    for kind in [Kind::Memory, Kind::Embedded] {
        let server = server(kind).await;
        let receiver = FarEnd::agreeable();
        let endpoint = add(
            &server,
            json!({"companyId": "acme", "url": receiver.url_of::<String>("/"), "events": ["JobSent", "JobFailed"]}),
        )
        .await;
        let of = |company: &str, script: &str| json!({"route": "sandbox", "companyId": company, "data": {"script": [script]}});
        let sent = server.enqueue(of("acme", "ok")).await;
        let failed = server.enqueue(of("acme", "550 no such user")).await;
        let strange = server.enqueue(of("other", "ok")).await;
        server.until(&sent, "sent").await;
        server.until(&failed, "failed").await;
        server.until(&strange, "sent").await;

        // The callbacks were taken in together with the outcomes: there are two, and no more to come.
        let carried = ended_webhook_jobs(&server, 2).await;
        assert!(carried.iter().all(|job| job["status"] == "sent"), "{carried:?}");
        let got = receiver.arrived(2).await;
        assert_eq!(got.len(), 2);
        let about = |job: &str| got.iter().find(|got| got.json()["data"]["jobId"] == job).unwrap();
        for (job, event) in [(&sent, "JobSent"), (&failed, "JobFailed")] {
            let callback = about(job);
            assert!(callback.is_signed_with(secret_of(&endpoint)), "{callback:?}");
            assert!(
                !callback.is_signed_with("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
                "signed with anything"
            );
            assert_eq!((callback.header("webhook-event"), &callback.json()["type"]), (event, &json!(event)));
            assert_eq!(callback.json()["companyId"], "acme");
        }
        let failure = &about(&failed).json()["data"];
        assert_eq!(
            (&failure["errorCode"], &failure["errorClassification"], &failure["status"]),
            (&json!("550"), &json!("PERMANENT"), &json!("failed"))
        );
        assert_ne!(got[0].header("webhook-id"), got[1].header("webhook-id"));
        server.stop().await;
    }
}

#[tokio::test]
async fn the_outcome_of_a_callback_causes_no_callback() {
    let server = server(Kind::Memory).await;
    let receiver = FarEnd::agreeable();
    let everything = json!({"companyId": "acme", "url": receiver.url_of::<String>("/")});
    add(&server, everything).await;
    let job = server.enqueue(json!({"route": "sandbox", "companyId": "acme", "data": {}})).await;
    server.until(&job, "sent").await;
    ended_webhook_jobs(&server, 1).await;
    assert_eq!(receiver.ledger().len(), 1);

    receiver.says(500, "");
    let job = server.enqueue(json!({"route": "sandbox", "companyId": "acme", "data": {}})).await;
    server.until(&job, "sent").await;
    let carried = ended_webhook_jobs(&server, 2).await;
    assert_eq!(carried.iter().filter(|job| job["status"] == "failed").count(), 1, "{carried:?}");
}

#[tokio::test]
async fn w6_a_callback_survives_a_restart_between_the_outcome_and_its_delivery() {
    let patient = || Some(Policy::exponential(ms(1_000), ms(1_000), 1_000));
    let embedded = || Setup { kind: Kind::Embedded, webhooks: patient(), ..Setup::default() };
    let server = Server::start(embedded()).await;
    let receiver = FarEnd::agreeable();
    receiver.says(503, "in a moment");
    let endpoint = add(
        &server,
        json!({"companyId": "acme", "url": receiver.url_of::<String>("/"), "events": ["JobSent"]}),
    )
    .await;
    let job = server.enqueue(json!({"route": "sandbox", "companyId": "acme", "data": {}})).await;
    server.until(&job, "sent").await;
    receiver.arrived(1).await;
    let dir = server.stop_and_leave().await;

    receiver.says(200, "{}");
    let before = receiver.ledger();
    let server = Server::start(Setup { dir: Some(dir), ..embedded() }).await;
    let got = receiver.arrived(before.len() + 1).await;
    let last = got.last().unwrap();
    assert!(last.is_signed_with(secret_of(&endpoint)), "{last:?}");
    assert_eq!((&last.json()["type"], &last.json()["data"]["jobId"]), (&json!("JobSent"), &json!(job)));
    assert_eq!(
        last.header("webhook-id"),
        before[0].header("webhook-id"),
        "the receiver can tell that it is the same"
    );
    let carried = ended_webhook_jobs(&server, 1).await;
    assert_eq!(carried[0]["status"], "sent");
    assert_eq!(receiver.ledger().len(), before.len() + 1);
    server.stop().await;
}

#[tokio::test]
async fn a_new_secret_signs_beside_the_old_one_for_a_day() {
    let server = server(Kind::Memory).await;
    let receiver = FarEnd::agreeable();
    let endpoint = add(
        &server,
        json!({"companyId": "acme", "url": receiver.url_of::<String>("/"), "events": ["JobExpired"]}),
    )
    .await;
    let path = format!("/v1/endpoints/{}", id_of(&endpoint));
    let new = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let rotated = server.patch(&path, json!({"secret": new})).await.body;
    assert_eq!(rotated["secret"], new);
    let until: recado_core::Timestamp = rotated["secretRotatingUntil"].as_str().unwrap().parse().unwrap();
    let updated: recado_core::Timestamp = rotated["updatedAt"].as_str().unwrap().parse().unwrap();
    assert_eq!(until.since(updated), Duration::from_secs(24 * 60 * 60));
    assert!(server.get(&path).await.body.get("secret").is_none(), "it is shown once");

    let job = server.enqueue(to_endpoint(&endpoint, 1)).await;
    server.until(&job, "sent").await;
    let got = &receiver.arrived(1).await[0];
    assert!(got.is_signed_with(new) && got.is_signed_with(secret_of(&endpoint)), "{got:?}");
}
