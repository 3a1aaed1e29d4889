//! A store that fails now and then.

use std::sync::Arc;

use recado_core::Status;
use recado_engine::{EngineError, SubmitRefusal};
use recado_store::StoreError;
use recado_store::faulty::Verb;

use crate::given::{Given, Scripted, submission, submit};

fn unavailable() -> StoreError {
    StoreError::Unavailable("a test says so".to_owned())
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_cannot_be_written_at_once_is_written_later_and_the_job_is_not_sent_again() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::default());
    let (engine, store) = given.shaky(&far_end);
    store.fail(Verb::Settle, 0, 5, unavailable());
    submit(&engine, submission("a")).await;
    given.until("a", Status::Sent).await;
    assert_eq!(store.fired(Verb::Settle), 5, "the fault fired");
    assert_eq!(far_end.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_fails_is_tried_again_and_holds_up_nothing_for_good() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::default());
    let (engine, store) = given.shaky(&far_end);
    store.fail(Verb::Claim, 0, 6, unavailable());
    submit(&engine, submission("a")).await;
    given.until("a", Status::Sent).await;
    assert_eq!(store.fired(Verb::Claim), 6, "the fault fired");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_half_a_batch_is_reported_job_by_job() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::default());
    let (engine, store) = given.shaky(&far_end);
    store.fail(Verb::Enqueue, 1, 1, StoreError::Full("a test says so".to_owned()));
    let batch = (0..1_500).map(|nth| submission(&format!("job-{nth}"))).collect();
    let answers = engine.intake.submit(batch).await.unwrap();
    assert_eq!(store.fired(Verb::Enqueue), 1, "the fault fired");
    assert!(answers[..1_000].iter().all(Result::is_ok));
    assert!(
        answers[1_000..]
            .iter()
            .all(|answer| matches!(answer, Err(SubmitRefusal::NotStored(StoreError::Full(_)))))
    );
    assert_eq!(answers.len(), 1_500);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_nothing_fails_the_whole_submission() {
    let given = Given::new();
    let (engine, store) = given.shaky(&Arc::new(Scripted::default()));
    store.fail(Verb::Enqueue, 0, 1, unavailable());
    let answer = engine.intake.submit(vec![submission("a")]).await;
    assert!(matches!(answer, Err(EngineError::Store(StoreError::Unavailable(_)))));
    assert_eq!(store.fired(Verb::Enqueue), 1, "the fault fired");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_has_failed_for_good_is_announced_so_that_the_process_can_end() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::default());
    let (engine, store) = given.shaky(&far_end);
    store.fail(Verb::Settle, 0, usize::MAX, StoreError::Broken("fsync failed".to_owned()));
    submit(&engine, submission("a")).await;
    assert_eq!(engine.broken().await, "fsync failed");
    assert_eq!(store.fired(Verb::Settle), 1, "a broken store is not asked again");
}
