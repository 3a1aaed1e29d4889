//! Workers outside the process.

use std::time::Duration;

use recado_core::{Cause, JobId, RouteName, Status};
use recado_engine::attempt::worker_leases::{LeaseRequest, Report, Reported};
use recado_engine::{Carrier, Clock, Engine};

use crate::given::{Given, route, submission, submit};

fn request(wait: Duration) -> LeaseRequest {
    LeaseRequest {
        routes: vec![RouteName::new("mail").unwrap()],
        max: 10,
        wait,
        lease: Duration::from_secs(20),
        worker_id: "worker-1".into(),
    }
}

fn failed(code: &str, message: &str) -> Report {
    Report::Failed {
        code: Some(code.into()),
        message: message.into(),
        stack_trace: Some("at line 1".into()),
        retry_after: None,
    }
}

async fn given_worker_route() -> (Given, Engine) {
    let given = Given::new();
    let engine = given.engine([route("mail", Carrier::Workers)]);
    (given, engine)
}

#[tokio::test(start_paused = true)]
async fn a_worker_leases_fails_leases_again_and_succeeds() {
    let (given, engine) = given_worker_route().await;
    submit(&engine, submission("a")).await;
    let first = engine.attempts.lease(&request(Duration::ZERO)).await.unwrap().remove(0);
    assert_eq!((first.attempt, first.job.id.as_str()), (1, "a"));
    assert_eq!(
        engine.attempts.report(vec![(first.token, failed("421", "busy"))]).await.unwrap(),
        [Reported::Done]
    );
    assert_eq!(given.view("a").await.status, Status::Retrying);

    let second = engine.attempts.lease(&request(Duration::from_secs(30))).await.unwrap().remove(0);
    assert_eq!(second.attempt, 2);
    assert_eq!(
        engine.attempts.report(vec![(second.token, Report::Succeeded { result: None })]).await.unwrap(),
        [Reported::Done]
    );
    assert_eq!(given.view("a").await.status, Status::Sent);
    assert_eq!(
        engine.attempts.report(vec![(second.token, failed("421", "busy"))]).await.unwrap(),
        [Reported::Stale]
    );
    assert_eq!(given.view("a").await.status, Status::Sent, "a stale report changes nothing");
}

#[tokio::test(start_paused = true)]
async fn f11_a_permanent_report_is_buried_with_its_stack_trace() {
    let (_given, engine) = given_worker_route().await;
    submit(&engine, submission("a")).await;
    let lease = engine.attempts.lease(&request(Duration::ZERO)).await.unwrap().remove(0);
    engine.attempts.report(vec![(lease.token, failed("550", "no such user"))]).await.unwrap();
    let entry = engine.inspect().dead_letter(&JobId::new("a").unwrap()).await.unwrap().unwrap();
    assert_eq!(entry.cause, Cause::Permanent);
    assert_eq!(entry.failure.stack_trace.as_deref(), Some("at line 1"));
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_wakes_when_a_job_comes_and_ends_empty_when_none_does() {
    let (given, engine) = given_worker_route().await;
    let poll = tokio::spawn({
        let engine = engine.clone();
        async move { engine.attempts.lease(&request(Duration::from_secs(20))).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = given.clock.now();
    submit(&engine, submission("a")).await;
    let lease = poll.await.unwrap().remove(0);
    assert!(given.clock.now().since(before) < Duration::from_millis(5));
    engine.attempts.report(vec![(lease.token, Report::Succeeded { result: None })]).await.unwrap();

    let before = given.clock.now();
    assert!(engine.attempts.lease(&request(Duration::from_secs(20))).await.unwrap().is_empty());
    assert!(given.clock.now().since(before) >= Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_extends_its_lease_keeps_it_and_one_that_does_not_loses_it() {
    let (given, engine) = given_worker_route().await;
    submit(&engine, submission("a")).await;
    let lease = engine.attempts.lease(&request(Duration::ZERO)).await.unwrap().remove(0);
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert!(engine.attempts.extend(lease.token, Duration::from_secs(20)).await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(given.view("a").await.status, Status::Delivering, "the extension holds");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(given.view("a").await.status, Status::Queued, "the lease ran out");
    assert!(engine.attempts.extend(lease.token, Duration::from_secs(20)).await.unwrap().is_none());
    let report =
        engine.attempts.report(vec![(lease.token, Report::Succeeded { result: None })]).await.unwrap();
    assert_eq!(report, [Reported::Stale]);
}

#[tokio::test(start_paused = true)]
async fn only_worker_routes_can_be_leased() {
    let (_given, engine) = given_worker_route().await;
    let faults = engine
        .attempts
        .check_worker_routes(&[RouteName::new("mail").unwrap(), RouteName::new("nope").unwrap()]);
    assert_eq!(faults.len(), 1);
    assert!(faults[0].1.contains("there is no route `nope`"));
}
