//! One dead letter brought back: what may go wrong with that, and what must not.

use recado_store::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recado_core::breaker::BreakerTerms;
use recado_core::{AuditKind, DeadLetterState, JobId, Payload, Status};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::dlq::operator::Replay;
use recado_engine::{Carrier, Engine, Parts, ProviderAct, Random, Routes, Settings};
use recado_store::Cancelled;

use crate::bulk::bury;
use crate::given::{Given, Scripted, route, settings};

const HOUR: Duration = Duration::from_secs(3_600);

fn with_breaker(given: &Given, far_end: &Arc<Scripted>) -> Engine {
    let routes = Routes::new([route("mail", Carrier::Transport(far_end.clone()))]);
    let settings = Settings { job_ttl: HOUR, ..settings() };
    let mut parts =
        Parts::new(given.store.clone(), routes, settings, given.clock.clone(), Random::from_seed(7));
    let breaker = BreakerTerms::new(5, Duration::from_secs(60), Duration::from_secs(120));
    let terms = ProviderTerms { breaker: Some(breaker), ..ProviderTerms::plain(8) };
    parts.providers = BTreeMap::from([("mail".into(), terms)]);
    Engine::start(parts)
}

fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn g7_a_replay_while_the_provider_is_open_waits_longer_than_a_job_would_and_does_not_die() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["550", "ok"]));
    let engine = with_breaker(&given, &far_end);
    bury(&given, &engine, &["a"]).await;
    engine
        .gate
        .act_on_provider("mail", ProviderAct::OpenBreaker, Some("provider says come back on Monday"), None)
        .await
        .unwrap();
    engine.gate.act_on_provider("mail", ProviderAct::Pause, Some("until Monday"), None).await.unwrap();
    assert_eq!(engine.dlq.replay(&id("a"), None, None, None).await.unwrap(), Replay::Started);
    // A job that was not replayed would be dead after an hour.
    tokio::time::sleep(HOUR * 9).await;
    let view = given.view("a").await;
    assert_eq!((view.status, view.job.progress.attempts_spent), (Status::Queued, 0));
    let entry = given.store.dead_letter(&id("a")).await.unwrap().unwrap();
    assert_eq!(entry.state, DeadLetterState::Replaying, "in sight all the time");

    engine.gate.act_on_provider("mail", ProviderAct::Resume, None, None).await.unwrap();
    engine.gate.act_on_provider("mail", ProviderAct::CloseBreaker, Some("it is Monday"), None).await.unwrap();
    given.until("a", Status::Sent).await;
    assert_eq!(far_end.count(), 2);
    assert!(given.store.dead_letter(&id("a")).await.unwrap().is_none(), "removed only after success");
}

#[tokio::test(start_paused = true)]
async fn g7_two_replays_at_once_deliver_once() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["550", "ok"]));
    let engine = given.mail(&far_end);
    bury(&given, &engine, &["a"]).await;
    let job = id("a");
    let (left, right) = tokio::join!(
        engine.dlq.replay(&job, None, None, Some("ana")),
        engine.dlq.replay(&job, None, None, Some("rui"))
    );
    let mut answers = [left.unwrap(), right.unwrap()];
    answers.sort_by_key(|answer| *answer != Replay::Started);
    assert_eq!(answers, [Replay::Started, Replay::AlreadyReplaying]);
    given.until("a", Status::Sent).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(far_end.count(), 2, "one failure, one delivery");
}

#[tokio::test(start_paused = true)]
async fn g7_a_replay_that_fails_again_comes_back_to_its_entry_with_the_whole_history() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["550", "421", "421", "421", "421", "554"]));
    let engine = given.mail(&far_end);
    bury(&given, &engine, &["a"]).await;
    engine.dlq.replay(&id("a"), None, Some("address corrected"), Some("ana")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(given.view("a").await.status, Status::Failed);
    let entry = given.store.dead_letter(&id("a")).await.unwrap().unwrap();
    assert_eq!((entry.state, entry.failed_attempts), (DeadLetterState::Dead, 6));
    let codes: Vec<_> = entry.attempts.iter().filter_map(|attempt| attempt.error_code.as_deref()).collect();
    assert_eq!(codes, ["550", "421", "421", "421", "421", "554"]);
    assert_eq!(given.store.counts(given.clock_now()).await.unwrap().dead_letters, 1, "one entry a job");
}

#[tokio::test(start_paused = true)]
async fn g7_corrected_data_is_checked_and_the_original_stays_until_it_is_delivered() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["550", "ok"]));
    let engine = given.mail(&far_end);
    bury(&given, &engine, &["a"]).await;
    let wrong = Payload::new(r#"{"text":"refuse me"}"#).unwrap();
    let answer = engine.dlq.replay(&id("a"), Some(wrong), None, None).await.unwrap();
    assert!(matches!(answer, Replay::InvalidData(faults) if faults.len() == 1));

    engine.gate.act_on_provider("mail", ProviderAct::Pause, None, None).await.unwrap();
    let right = Payload::new(r#"{"text":"corrected"}"#).unwrap();
    assert_eq!(engine.dlq.replay(&id("a"), Some(right.clone()), None, None).await.unwrap(), Replay::Started);
    let entry = given.store.dead_letter(&id("a")).await.unwrap().unwrap();
    assert_eq!(entry.original_data.as_str(), "{}");
    assert_eq!(given.view("a").await.job.data, right);
    assert_eq!(engine.dlq.cancel(&id("a"), None).await.unwrap(), Cancelled::Done);
    let entry = given.store.dead_letter(&id("a")).await.unwrap().unwrap();
    assert_eq!((entry.state, entry.original_data.as_str()), (DeadLetterState::Dead, "{}"), "called off");
    assert_eq!(entry.corrected_data, Some(right), "and what a person wrote is kept beside it");
}

#[tokio::test(start_paused = true)]
async fn g7_a_correction_that_fails_again_goes_out_next_time_unless_the_original_is_asked_for() {
    let given = Given::new();
    let engine = given.mail(&Arc::new(Scripted::new(&["550", "550", "550", "550"])));
    bury(&given, &engine, &["a"]).await;
    let corrected = Payload::new(r#"{"text":"corrected"}"#).unwrap();
    let fails_again = async |replay: Replay| {
        assert_eq!(replay, Replay::Started);
        given.until("a", Status::Failed).await;
        let entry = given.store.dead_letter(&id("a")).await.unwrap().unwrap();
        assert_eq!(entry.original_data.as_str(), "{}", "what was accepted");
        entry.corrected_data
    };
    let said = async || {
        let trail = given.store.audit(&id("a")).await.unwrap();
        let last = trail.iter().rev().find(|event| event.kind == AuditKind::Replayed).unwrap().clone();
        last.decision.retry_reason.unwrap()
    };
    let replay = engine.dlq.replay(&id("a"), Some(corrected.clone()), None, None).await.unwrap();
    assert_eq!(fails_again(replay).await, Some(corrected.clone()));
    assert_eq!(&*said().await, "Replayed with corrected data");
    let replay = engine.dlq.replay(&id("a"), None, None, None).await.unwrap();
    assert_eq!(fails_again(replay).await, Some(corrected), "as it stands");
    let replay = engine.dlq.replay_original(&id("a"), None, None).await.unwrap();
    assert_eq!(fails_again(replay).await, None, "taken back");
    assert_eq!(&*said().await, "Replayed with its original data");
}
