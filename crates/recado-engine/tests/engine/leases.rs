//! Leases of living deliveries, while the store stalls or the wall clock is set.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{AttemptResult, JobId, RouteName, Status};
use recado_engine::attempt::worker_leases::LeaseRequest;
use recado_engine::{Carrier, Clock, Engine, Submission};
use recado_store::{Claim, Pick, StoreError, Turns};
use recado_store_conformance::faulty::{FaultyStore, Verb};

use crate::given::{Given, Scripted, route, submission, submit};

const SECOND: Duration = Duration::from_secs(1);

/// The lease of these tests is fifteen seconds, and a delivery lasts longer.
fn slow() -> Arc<Scripted> {
    Arc::new(Scripted::slow(SECOND * 25))
}

async fn submit_many(engine: &Engine, count: usize) -> Vec<String> {
    let ids: Vec<_> = (0..count).map(|nth| format!("job-{nth}")).collect();
    for id in &ids {
        submit(engine, submission(id)).await;
    }
    ids
}

async fn each_was_sent_once(given: &Given, far_end: &Scripted, ids: &[String]) {
    for id in ids {
        let view = given.until(id, Status::Sent).await;
        let results: Vec<_> = view.job.attempts.iter().map(|attempt| attempt.result).collect();
        assert_eq!(results, [AttemptResult::Sent], "{id}");
    }
    assert_eq!(far_end.count(), ids.len());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_by_more_than_a_lease_takes_no_lease_from_a_delivery() {
    let (given, far_end) = (Given::new(), slow());
    let engine = given.mail(&far_end);
    let ids = submit_many(&engine, 8).await;
    for by_seconds in [3_600, -7_200, 3_600] {
        tokio::time::sleep(SECOND * 3).await;
        given.clock.set_by(by_seconds);
    }
    each_was_sent_once(&given, &far_end, &ids).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stalls_for_longer_than_a_lease_makes_no_delivery_happen_twice() {
    let (given, far_end) = (Given::new(), slow());
    let (engine, store) = given.shaky(&far_end);
    let mut ids = submit_many(&engine, 7).await;
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(far_end.count(), 7);
    store.stall();
    // It is leased while answers wait: its delivery begins when its lease is over.
    let late = tokio::spawn({
        let engine = engine.clone();
        async move { submit(&engine, submission("late")).await }
    });
    tokio::time::sleep(SECOND * 20).await;
    assert!(store.waiting_answers() >= 3, "the enqueue, the claim and a heartbeat wait");
    assert_eq!(given.view("late").await.status, Status::Delivering);
    store.end_stall();
    late.await.unwrap();
    ids.push("late".to_owned());
    each_was_sent_once(&given, &far_end, &ids).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_lease_was_lost_before_it_was_sent_is_not_sent() {
    let (given, far_end) = (Given::new(), Arc::new(Scripted::default()));
    let (engine, store) = given.shaky(&far_end);
    tokio::time::sleep(SECOND).await;
    store.stall();
    let submitted = tokio::spawn({
        let engine = engine.clone();
        async move { submit(&engine, submission("a")).await }
    });
    tokio::time::sleep(SECOND * 20).await;
    // Another node finds the lease over, and has the job now.
    let now = given.clock.steady_now();
    let claim = Claim {
        pick: Pick::Orphaned,
        max: 1,
        now,
        lease_until: now.plus(SECOND * 600),
        worker: "another node".into(),
        provider: None,
        outlives_process: false,
        turns: Turns::default(),
    };
    assert_eq!(given.store.claim(claim).await.unwrap().leases.len(), 1, "it had been leased here");
    store.end_stall();
    submitted.await.unwrap();
    tokio::time::sleep(SECOND * 30).await;
    assert_eq!(far_end.count(), 0, "its new holder sends it");
    assert_eq!(given.view("a").await.status, Status::Delivering);
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_for_the_wall_clock_and_not_for_a_sleep_that_was_measured_before_the_clock_was_set() {
    let (given, far_end) = (Given::new(), Arc::new(Scripted::default()));
    let engine = given.mail(&far_end);
    submit(&engine, Submission { delay: Some(SECOND * 3_600), ..submission("a") }).await;
    tokio::time::sleep(SECOND * 5).await;
    given.clock.set_by(3_590);
    tokio::time::sleep(SECOND * 3).await;
    assert_eq!(far_end.count(), 0, "two seconds early");
    tokio::time::sleep(SECOND * 3).await;
    assert_eq!(far_end.count(), 1, "a second late at most");
}

fn at_most_ten() -> LeaseRequest {
    LeaseRequest {
        routes: vec![RouteName::new("mail").unwrap()],
        max: 10,
        wait: Duration::ZERO,
        lease: SECOND * 20,
        worker_id: "worker-1".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_keeps_its_lease_and_reads_its_end_by_the_wall_clock_whatever_the_clock_did() {
    let given = Given::new();
    let engine = given.engine([route("mail", Carrier::Workers)]);
    submit(&engine, submission("a")).await;
    let lease = engine.attempts.lease(&at_most_ten()).await.unwrap().remove(0);
    for by_seconds in [3_600, -7_200] {
        given.clock.set_by(by_seconds);
        tokio::time::sleep(SECOND * 5).await;
        assert_eq!(given.view("a").await.status, Status::Delivering);
    }
    let end = engine.attempts.extend(lease.token, SECOND * 20).await.unwrap();
    assert_eq!(end, Some(engine.now().plus(SECOND * 20)));
    tokio::time::sleep(SECOND * 22).await;
    assert_eq!(given.view("a").await.status, Status::Queued, "then it is over");
}

#[tokio::test(start_paused = true)]
async fn a_worker_gets_its_leases_although_an_expiry_in_the_same_request_fails() {
    let given = Given::new();
    let store = Arc::new(FaultyStore::around(given.store.clone()));
    let engine = given.engine_on(store.clone(), [route("mail", Carrier::Workers)]);
    submit(&engine, Submission { ttl: Some(SECOND * 60), ..submission("old") }).await;
    submit(&engine, submission("new")).await;
    // Its time is over before the rescuer looks again.
    given.clock.set_by(120);
    store.fail(Verb::Settle, 0, 1, StoreError::Unavailable("gone".to_owned()));
    let leases = engine.attempts.lease(&at_most_ten()).await.unwrap();
    assert_eq!(store.fired(Verb::Settle), 1);
    let names: Vec<_> = leases.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!(names, ["new"]);
    given.until("old", Status::Failed).await;
    assert_eq!(
        given.store.dead_letter(&JobId::new("old").unwrap()).await.unwrap().unwrap().failed_attempts,
        0
    );
}
