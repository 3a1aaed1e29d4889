//! Replays without a person.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{Cause, JobId, RouteName, Status};
use recado_engine::dlq::auto_replay::AutoReplay;
use recado_engine::{Carrier, DeadLetterTerms, Engine, Parts, ProviderAct, Random, Routes};

use crate::given::{Given, Scripted, route, settings, submission, submit};

const HOUR: Duration = Duration::from_secs(3_600);

fn with_auto_replay(given: &Given, far_end: &Arc<Scripted>, terms: Option<AutoReplay>) -> Engine {
    let routes = Routes::new([route("mail", Carrier::Transport(far_end.clone()))]);
    let mut parts =
        Parts::new(given.store.clone(), routes, settings(), given.clock.clone(), Random::from_seed(7));
    let auto_replay = terms.map(|terms| (RouteName::new("mail").unwrap(), terms)).into_iter().collect();
    parts.dead_letters = DeadLetterTerms { auto_replay, ..DeadLetterTerms::default() };
    Engine::start(parts)
}

fn exhausted() -> AutoReplay {
    AutoReplay { after: HOUR, max: 2, only: vec![Cause::Exhausted] }
}

async fn buried(given: &Given, engine: &Engine, name: &str) {
    submit(engine, submission(name)).await;
    given.until(name, Status::Failed).await;
}

#[tokio::test(start_paused = true)]
async fn g24_an_exhausted_job_is_replayed_after_its_cooldown_and_not_before() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["421", "421", "421", "421", "421", "ok"]));
    let engine = with_auto_replay(&given, &far_end, Some(exhausted()));
    buried(&given, &engine, "a").await;
    tokio::time::sleep(HOUR - Duration::from_secs(60)).await;
    assert_eq!(given.view("a").await.job.progress.replays, 0);
    let sent = given.until("a", Status::Sent).await;
    assert_eq!(sent.job.progress.replays, 1);
    let trail = given.store.audit(&JobId::new("a").unwrap()).await.unwrap();
    let replayed = trail.iter().find(|event| event.actor.as_deref() == Some("recado")).expect("on the trail");
    assert_eq!(replayed.decision.retry_reason.as_deref(), Some("Replayed: automatic, 1 of 2"));
}

#[tokio::test(start_paused = true)]
async fn g24_a_job_is_replayed_no_more_often_than_it_may_be() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["421"]));
    let engine = with_auto_replay(&given, &far_end, Some(exhausted()));
    buried(&given, &engine, "a").await;
    tokio::time::sleep(HOUR * 8).await;
    let view = given.view("a").await;
    assert_eq!((view.status, view.job.progress.replays), (Status::Failed, 2));
    assert_eq!(far_end.count(), 15, "five attempts in each of three lives");
}

#[tokio::test(start_paused = true)]
async fn g24_other_causes_wait_for_a_person() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["550"]));
    let engine = with_auto_replay(&given, &far_end, Some(exhausted()));
    buried(&given, &engine, "a").await;
    tokio::time::sleep(HOUR * 8).await;
    assert_eq!(far_end.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn g24_nothing_is_replayed_while_the_breaker_is_open() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["421", "421", "421", "421", "421", "ok"]));
    let engine = with_auto_replay(&given, &far_end, Some(exhausted()));
    buried(&given, &engine, "a").await;
    engine.gate.act_on_provider("mail", ProviderAct::Pause, Some("maintenance"), None).await.unwrap();
    tokio::time::sleep(HOUR * 5).await;
    assert_eq!(given.view("a").await.job.progress.replays, 0);
    engine.gate.act_on_provider("mail", ProviderAct::Resume, None, None).await.unwrap();
    given.until("a", Status::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn f10_without_being_asked_for_nothing_is_replayed() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["421"]));
    let engine = with_auto_replay(&given, &far_end, None);
    buried(&given, &engine, "a").await;
    tokio::time::sleep(HOUR * 8).await;
    assert_eq!(far_end.count(), 5);
}
