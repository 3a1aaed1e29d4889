//! Graceful stops.

use std::sync::Arc;
use std::time::Duration;

use recado_core::Status;
use recado_engine::{Carrier, EngineError};

use crate::given::{Given, Scripted, route, settings, submission, submit};

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_finishes_what_runs_and_starts_nothing_new() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::slow(Duration::from_secs(2)));
    let engine = given.mail(&far_end);
    for nth in 0..20 {
        submit(&engine, submission(&format!("job-{nth}"))).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(far_end.count(), 8, "the stop comes while eight deliveries run");
    engine.stop().await.unwrap();
    let mut statuses = Vec::new();
    for nth in 0..20 {
        statuses.push(given.view(&format!("job-{nth}")).await.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == Status::Sent).count(), 8);
    assert_eq!(statuses.iter().filter(|status| **status == Status::Queued).count(), 12);
    assert!(matches!(engine.submit(vec![submission("late")]).await, Err(EngineError::Stopping)));

    let second = given.mail(&far_end);
    for nth in 0..20 {
        given.until(&format!("job-{nth}"), Status::Sent).await;
    }
    assert_eq!(far_end.count(), 20, "nothing was lost, nothing was sent twice");
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn what_outlasts_the_grace_is_repeated_after_the_restart_not_lost() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::slow(Duration::from_secs(20)));
    let mut hasty = settings();
    hasty.stop_grace = Duration::from_secs(1);
    let engine = given.engine_with([route("mail", Carrier::Transport(far_end.clone()))], hasty);
    submit(&engine, submission("a")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    engine.stop().await.unwrap();
    assert_eq!(given.view("a").await.status, Status::Delivering, "the delivery was cut off in the middle");

    let _second = given.mail(&far_end);
    given.until("a", Status::Sent).await;
    assert_eq!(far_end.count(), 2);
}
