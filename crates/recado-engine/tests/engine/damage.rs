//! Jobs whose stored content changed after they were accepted: they are never sent.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{
    BodyHash, Cause, CompanyId, Damage, Job, JobId, NewJob, Payload, Priority, RouteName, Status,
};
use recado_engine::Carrier;
use recado_engine::attempt::worker_leases::LeaseRequest;
use recado_engine::dlq::operator::Replay;
use recado_store::{JobSnapshot, SnapshotState, StoreError};
use recado_store_conformance::faulty::Verb;

use crate::given::{Given, Scripted, route, submission, submit};

/// A job as a damaged store gives it: its checksum was made from other content.
fn struck(given: &Given, name: &str, route: &str, damage: Damage) -> JobSnapshot {
    let now = given.clock_now();
    let mut job = Job::from(NewJob {
        id: JobId::new(name).unwrap(),
        route: RouteName::new(route).unwrap(),
        company: CompanyId::new("acme").unwrap(),
        data: Payload::new(r#"{"to":"AMOUNT-9000"}"#).unwrap(),
        user_id: None,
        correlation_id: None,
        traceparent: None,
        priority: Priority::default(),
        enqueued_at: now,
        due_at: now,
        expires_at: now.plus(Duration::from_secs(3_600)),
        body_hash: BodyHash(1),
    });
    job.checksum = job.checksum.map(|checksum| checksum.inverted(damage));
    let (state, dead_letter) = (SnapshotState::Waiting, None);
    JobSnapshot {
        job,
        body_hash: BodyHash(1),
        state,
        dead_letter,
        queue_place: None,
        audit: Vec::new(),
        archived: 0,
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_job_goes_to_the_dead_letters_and_never_out() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["ok"]));
    let engine =
        given.engine([route("mail", Carrier::Transport(far_end.clone())), route("work", Carrier::Workers)]);
    let transfers = vec![
        struck(&given, "data", "mail", Damage::Data),
        struck(&given, "ids", "mail", Damage::Identity),
        struck(&given, "work", "work", Damage::Data),
    ];
    given.store.adopt(transfers).await.unwrap();
    let request = LeaseRequest {
        routes: vec![RouteName::new("work").unwrap()],
        max: 10,
        wait: Duration::from_secs(1),
        lease: Duration::from_secs(30),
        worker_id: "w".into(),
    };
    assert!(engine.attempts.lease(&request).await.unwrap().is_empty(), "a worker got a damaged job");
    for (name, damage) in [("data", Damage::Data), ("ids", Damage::Identity), ("work", Damage::Data)] {
        given.until(name, Status::Failed).await;
        let entry = given.store.dead_letter(&JobId::new(name).unwrap()).await.unwrap().unwrap();
        assert_eq!((entry.cause, entry.damage()), (Cause::InvalidPayload, Some(damage)), "{name}");
        assert_eq!(entry.failure.code.as_deref(), Some("PAYLOAD_CORRUPT"), "{name}");
    }
    assert_eq!(far_end.count(), 0, "it was sent");

    let replay = async |name: &str, data: Option<&str>| {
        let data = data.map(|data| Payload::new(data).unwrap());
        engine.dlq.replay(&JobId::new(name).unwrap(), data, None, Some("ana")).await.unwrap()
    };
    assert_eq!(replay("data", None).await, Replay::Damaged(Damage::Data));
    assert_eq!(replay("ids", Some(r#"{"to":"ana"}"#)).await, Replay::Damaged(Damage::Identity));
    assert_eq!(replay("data", Some(r#"{"to":"ana"}"#)).await, Replay::Started);
    given.until("data", Status::Sent).await;
    assert_eq!(far_end.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_job_that_cannot_be_settled_yet_holds_no_other_up() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["ok"]));
    let (engine, store) = given.shaky(&far_end);
    store.fail(Verb::Settle, 0, usize::MAX, StoreError::Unavailable("gone".to_owned()));
    given.store.adopt(vec![struck(&given, "data", "mail", Damage::Data)]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(store.fired(Verb::Settle) > 0, "the damaged job was not found");
    submit(&engine, submission("whole")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(far_end.count(), 1, "the whole one waits for the damaged one");
}
