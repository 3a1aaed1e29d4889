//! Graceful stops.

use std::sync::Arc;
use std::time::Duration;

use recado_core::Status;
use recado_engine::engine::LAST_STEP_MAX;
use recado_engine::{Carrier, EngineError, RouteAct, Submission};
use recado_store::StoreError;
use recado_store_conformance::faulty::Verb;
use tokio::time::Instant;

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
    assert!(matches!(engine.intake.submit(vec![submission("late")]).await, Err(EngineError::Stopping)));

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
    let words = engine.stop().await.unwrap_err().to_string();
    assert!(words.contains("1 deliveries had not ended within the grace"), "{words}");
    assert_eq!(given.view("a").await.status, Status::Delivering, "the delivery was cut off in the middle");

    let _second = given.mail(&far_end);
    given.until("a", Status::Sent).await;
    assert_eq!(far_end.count(), 2);
}

/// A delivery that has ended, and jobs whose time ran out, wait for a store that does not come back.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_within_its_grace_when_outcomes_cannot_be_written_and_says_how_many() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["ok"]));
    let (engine, store) = given.shaky(&far_end);
    store.fail(Verb::Settle, 0, 1_000_000, StoreError::Unavailable("gone".to_owned()));
    submit(&engine, submission("sent")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    engine.gate.act_on_route("mail", RouteAct::Pause, None, None).await.unwrap();
    submit(&engine, Submission { ttl: Some(Duration::from_secs(1)), ..submission("overdue") }).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = Instant::now();
    let grace = settings().stop_grace;
    let stopped = tokio::time::timeout(grace * 10, engine.stop()).await.expect("the stop never ends");
    let words = stopped.unwrap_err().to_string();
    assert!(words.contains("2 outcomes could not be written down"), "{words}");
    assert!(before.elapsed() <= grace + 2 * LAST_STEP_MAX, "{:?}", before.elapsed());
    assert!(store.fired(Verb::Settle) > 2);
}
