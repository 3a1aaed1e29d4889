//! Counts agree with events.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{JobId, Status};
use recado_engine::{Carrier, Engine, RouteAct, Submission};
use recado_store::StoreError;
use recado_store_conformance::faulty::Verb;

use crate::given::{Given, Scripted, route, submission, submit};

/// The value of a sample on the page, which is whole.
async fn sample(engine: &Engine, name: &str) -> f64 {
    let page = engine.gauges.prometheus().await;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("there is no {name} on\n{page}")).parse().unwrap()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn g18_every_job_attempt_and_dead_letter_is_counted_once() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["421", "ok"]));
    let refused = Arc::new(Scripted::new(&["550"]));
    let engine = given
        .engine([route("mail", Carrier::Transport(far_end)), route("strict", Carrier::Transport(refused))]);
    for number in 0..6 {
        submit(&engine, submission(&format!("job-{number}"))).await;
    }
    submit(&engine, submission("job-0")).await;
    for number in 0..4 {
        let job = Submission { route: "strict".to_owned(), ..submission(&format!("bad-{number}")) };
        submit(&engine, job).await;
    }
    for number in 0..6 {
        given.until(&format!("job-{number}"), Status::Sent).await;
    }
    for number in 0..4 {
        given.until(&format!("bad-{number}"), Status::Failed).await;
    }
    pass(6).await;
    let figures = [
        (r#"recado_jobs_accepted_total{route="mail"}"#, 6.0),
        (r#"recado_jobs_accepted_total{route="strict"}"#, 4.0),
        (r#"recado_attempts_total{route="mail",result="failed"}"#, 6.0),
        (r#"recado_attempts_total{route="mail",result="sent"}"#, 6.0),
        (r#"recado_jobs_ended_total{route="mail",status="sent"}"#, 6.0),
        (r#"recado_jobs_ended_total{route="strict",status="failed"}"#, 4.0),
        (r#"retry_attempts_total{attempt="1"}"#, 10.0),
        (r#"retry_attempts_total{attempt="2"}"#, 6.0),
        (r#"submission_retry_total{route="mail"}"#, 6.0),
        (r#"error_classification_distribution{route="strict",classification="PERMANENT"}"#, 4.0),
        (r#"tenant_jobs_processed{company_id="acme"}"#, 16.0),
        ("dlq_entries_total", 4.0),
        ("dlq_size", 4.0),
        (r#"dlq_by_error_code{error_code="550"}"#, 4.0),
        (r#"dlq_by_company{company_id="acme"}"#, 4.0),
        (r#"recado_store_operation_seconds_count{operation="enqueue"}"#, 11.0),
        (r#"recado_store_operation_seconds_count{operation="settle"}"#, 16.0),
    ];
    for (name, expected) in figures {
        assert_eq!(sample(&engine, name).await, expected, "{name}");
    }
    let kpis = engine.metrics.kpis(Some("mail"), Duration::from_secs(3_600)).unwrap();
    assert_eq!((kpis.success_after_retry.value, kpis.mean_attempts.value), (Some(1.0), Some(2.0)));
    assert!(engine.metrics.kpis(Some("nowhere"), Duration::from_secs(3_600)).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_leaves_is_counted_by_the_way_it_went() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["550", "ok"]));
    let engine = given.mail(&far_end);
    for id in ["replayed", "discarded", "cancelled"] {
        let delay = (id == "cancelled").then_some(Duration::from_secs(3_600));
        submit(&engine, Submission { delay, ..submission(id) }).await;
    }
    for id in ["replayed", "discarded"] {
        given.until(id, Status::Failed).await;
    }
    pass(100).await;
    let id = |id: &str| JobId::new(id).unwrap();
    engine.dlq.replay(&id("replayed"), None, None, None).await.unwrap();
    given.until("replayed", Status::Sent).await;
    engine.dlq.discard(&id("discarded"), "no use", None).await.unwrap();
    engine.dlq.cancel(&id("cancelled"), None).await.unwrap();
    pass(6).await;
    for (name, expected) in [
        (r#"recado_dead_letters_left_total{how="replayed"}"#, 1.0),
        (r#"recado_dead_letters_left_total{how="discarded"}"#, 1.0),
        (r#"recado_jobs_ended_total{route="mail",status="cancelled"}"#, 1.0),
        ("dlq_age_seconds_count", 2.0),
        ("dlq_size", 0.0),
    ] {
        assert_eq!(sample(&engine, name).await, expected, "{name}");
    }
    assert!(sample(&engine, "dlq_age_seconds_sum").await >= 200.0);
}

#[tokio::test(start_paused = true)]
async fn g14_a_write_that_a_full_store_refused_is_counted() {
    let given = Given::new();
    let (engine, store) = given.shaky(&Arc::new(Scripted::new(&["ok"])));
    store.fail(Verb::Enqueue, 0, 2, StoreError::Full("no room".to_owned()));
    for _ in 0..2 {
        engine.intake.submit(vec![submission("a"), submission("b")]).await.unwrap_err();
    }
    assert_eq!(store.fired(Verb::Enqueue), 2);
    assert_eq!(sample(&engine, "recado_store_rejected_writes_total").await, 4.0);
    assert_eq!(sample(&engine, r#"recado_jobs_accepted_total{route="mail"}"#).await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_route_that_is_held_back_tells_by_what_and_for_how_long() {
    let given = Given::new();
    let engine = given.mail(&Arc::new(Scripted::new(&["ok"])));

    engine.gate.act_on_route("mail", RouteAct::Pause, None, None).await.unwrap();
    submit(&engine, submission("a")).await;
    pass(400).await;
    let waiting = r#"recado_queue_jobs{route="mail",status="queued"}"#;
    assert_eq!(sample(&engine, waiting).await, 1.0);
    let age = sample(&engine, r#"recado_queue_oldest_due_age_seconds{route="mail"}"#).await;
    assert_eq!(age, 0.0, "a pause on purpose is no delay");
    engine.gate.act_on_route("mail", RouteAct::Resume, None, None).await.unwrap();
    given.until("a", Status::Sent).await;
    assert_eq!(sample(&engine, r#"recado_lane_holds_total{route="mail",reason="pause"}"#).await, 1.0);
    let held = sample(&engine, r#"recado_lane_held_seconds_total{route="mail",reason="pause"}"#).await;
    assert!((400.0..=401.0).contains(&held), "{held}");
}
