//! A job that a provider may have taken is sent by no other provider of its route.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::breaker::BreakerTerms;
use recado_core::{AttemptResult, Fault, JobId, NetworkKind, Status};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::{Carrier, Engine, ProviderAct, Route};

use crate::crashes::take_for_and_vanish;
use crate::flaky::{BREAKER, Flaky, mail, protected, restarted, sleep};
use crate::given::{Given, route, submission, submit};

fn with_backup(first: &Arc<Flaky>, second: &Arc<Flaky>) -> Route {
    Route { others: vec![("backup".into(), second.clone())], ..mail(first) }
}

/// Opens at the first failure, for five seconds.
fn opens_at_once() -> [(&'static str, ProviderTerms); 1] {
    let breaker = BreakerTerms { failures: 1, reset: Duration::from_secs(5), ..BREAKER };
    [("mail", ProviderTerms { breaker: Some(breaker), ..ProviderTerms::plain(8) })]
}

fn failing(with: Option<Fault>) -> Arc<Flaky> {
    let flaky = Flaky::default();
    *flaky.answer.lock() = with;
    Arc::new(flaky)
}

fn dropped() -> Option<Fault> {
    Some(Fault::network(NetworkKind::Dropped, "lost after sending"))
}

async fn once_tried(given: &Given, id: &str, attempts: usize) {
    for _ in 0..1_000 {
        if given.view(id).await.job.attempts.len() >= attempts {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it was not tried {attempts} times: {:?}", given.view(id).await.job.attempts);
}

#[tokio::test(start_paused = true)]
async fn a_certain_failure_after_an_uncertain_one_does_not_fail_over() {
    let given = Given::new();
    let (first, second) = (failing(dropped()), failing(None));
    let engine = protected(&given, vec![with_backup(&first, &second)], &opens_at_once());
    submit(&engine, submission("a")).await;
    once_tried(&given, "a", 1).await;
    *first.answer.lock() = Some(Fault::network(NetworkKind::Connect, "connection refused"));
    once_tried(&given, "a", 2).await;
    sleep(4).await;
    let view = given.view("a").await;
    let results: Vec<_> = view.job.attempts.iter().map(|attempt| attempt.result).collect();
    assert_eq!(results[..2], [AttemptResult::Uncertain, AttemptResult::Failed], "the fault did not fire");
    assert_eq!(second.count(), 0, "the first provider may have it");
    *first.answer.lock() = None;
    let view = given.until("a", Status::Sent).await;
    assert!(view.job.attempts.iter().all(|attempt| attempt.provider.as_deref() == Some("mail")));
    assert_eq!(second.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_lost_at_the_second_provider_goes_back_to_it_although_the_first_is_well() {
    let given = Given::new();
    let engine = given.engine([route("mail", Carrier::Workers)]);
    submit(&engine, submission("a")).await;
    take_for_and_vanish(&given, Some("backup")).await;
    engine.stop().await.unwrap();

    let (first, second) = (failing(None), failing(None));
    let _engine = protected(&given, vec![with_backup(&first, &second)], &opens_at_once());
    let view = given.until("a", Status::Sent).await;
    let [lost, sent] = &view.job.attempts[..] else { panic!("two attempts: {:?}", view.job.attempts) };
    assert_eq!((lost.result, lost.provider.as_deref()), (AttemptResult::Lost, Some("backup")));
    assert_eq!(sent.provider.as_deref(), Some("backup"));
    assert_eq!((first.count(), second.count()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_provider_left_the_route_is_buried_with_that_reason_until_a_person_replays_it() {
    let given = Given::new();
    let (first, second) = (failing(dropped()), failing(None));
    let engine = protected(&given, vec![with_backup(&first, &second)], &opens_at_once());
    submit(&engine, submission("a")).await;
    once_tried(&given, "a", 1).await;
    engine.stop().await.unwrap();

    let only_backup = Route { provider: "backup".into(), ..mail(&second) };
    let engine = restarted(&given, vec![only_backup], &[]).await;
    let view = given.until("a", Status::Failed).await;
    assert_eq!(view.job.attempts.len(), 1, "nothing more was tried");
    assert!(view.job.progress.deferrals < 5, "it went round in circles: {:?}", view.job.progress);
    let entry = given.store.dead_letter(&JobId::new("a").unwrap()).await.unwrap().unwrap();
    assert_eq!(entry.failure.code.as_deref(), Some("PROVIDER_GONE"));
    assert!(entry.failure.reason.as_str().contains("provider mail may have taken it"));
    assert_eq!(second.count(), 0);

    replay(&engine, "a").await;
    given.until("a", Status::Sent).await;
    assert_eq!(second.count(), 1, "a person has decided");
}

async fn replay(engine: &Engine, id: &str) {
    engine.dlq.replay(&JobId::new(id).unwrap(), None, None, Some("ana")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_for_its_provider_says_so_and_holds_no_other_back() {
    let given = Given::new();
    let (first, second) = (failing(dropped()), failing(None));
    let engine = protected(&given, vec![with_backup(&first, &second)], &opens_at_once());
    submit(&engine, submission("a")).await;
    once_tried(&given, "a", 1).await;
    assert!(
        engine
            .gate
            .act_on_provider("mail", ProviderAct::Pause, Some("maintenance"), Some("ana"))
            .await
            .unwrap()
            .is_some()
    );
    sleep(60).await;
    let before = given.view("a").await.job.progress.deferrals;
    sleep(600).await;
    let view = given.view("a").await;
    let waits = view.job.progress.deferrals - before;
    assert!((1..=20).contains(&waits), "it was looked at {waits} times in ten minutes");
    let hold = engine.gate.hold_by_pin(&view.job).expect("it is held");
    assert_eq!(hold.why, "provider mail may have taken it, and no other is asked; paused: maintenance");
    submit(&engine, submission("b")).await;
    sleep(1).await;
    assert_eq!(given.view("b").await.status, Status::Sent, "it waits alone");
    assert_eq!(second.count(), 1);

    engine.gate.act_on_provider("mail", ProviderAct::Resume, None, None).await.unwrap();
    *first.answer.lock() = None;
    given.until("a", Status::Sent).await;
    assert_eq!(second.count(), 1);
}
