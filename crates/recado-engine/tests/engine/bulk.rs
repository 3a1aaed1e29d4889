//! Many dead letters at once.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{DeadLetterState, JobId, Payload, Status};
use recado_engine::dlq::bulk::{
    Bulk, BulkAct, BulkOrder, BulkState, CanaryState, Chosen, FAILURES_NAMED_MAX, NAMESPACE, RUNNING_MAX,
    TooMany,
};
use recado_engine::dlq::operator::Replay;
use recado_engine::{Carrier, Engine, ProviderAct};
use recado_store::{DeadLetterFilter, Discarded, KvWrite};
use recado_store_conformance::faulty::FaultyStore;

use crate::given::{Given, Scripted, route, submission, submit};

/// Fails once for good, then goes through.
fn second_time_lucky() -> Arc<Scripted> {
    Arc::new(Scripted::new(&["550", "ok"]))
}

pub async fn bury(given: &Given, engine: &Engine, names: &[&str]) {
    for name in names {
        submit(engine, submission(name)).await;
        given.until(name, Status::Failed).await;
    }
    // What moved to the queue at the very moment of a start would not count as before it.
    tokio::time::sleep(Duration::from_millis(2)).await;
}

pub fn order(act: BulkAct) -> BulkOrder {
    BulkOrder {
        act,
        filter: Chosen::default(),
        rate_per_second: None,
        canary: None,
        words: Some("the domain is verified".into()),
        actor: Some("ana".into()),
    }
}

async fn start(engine: &Engine, order: BulkOrder) -> Bulk {
    engine.dlq.start_bulk(order).await.unwrap().expect("there is room")
}

async fn when(engine: &Engine, id: &str, holds: impl Fn(&Bulk) -> bool) -> Bulk {
    for _ in 0..200_000 {
        let bulk = engine.dlq.bulk(id).await.unwrap().expect("it is remembered");
        if holds(&bulk) {
            return bulk;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to that: {:?}", engine.dlq.bulk(id).await.unwrap());
}

async fn ended(engine: &Engine, id: &str) -> Bulk {
    when(engine, id, |bulk| bulk.state != BulkState::Running).await
}

async fn dead(given: &Given, name: &str) -> Option<DeadLetterState> {
    let entry = given.store.dead_letter(&JobId::new(name).unwrap()).await.unwrap();
    entry.map(|entry| entry.state)
}

#[tokio::test(start_paused = true)]
async fn g7_what_was_there_at_the_start_is_replayed_and_what_came_later_is_not() {
    let given = Given::new();
    let far_end = second_time_lucky();
    let engine = given.mail(&far_end);
    bury(&given, &engine, &["a", "b", "c"]).await;
    let bulk = start(&engine, BulkOrder { rate_per_second: Some(1), ..order(BulkAct::Replay) }).await;
    assert_eq!(
        (bulk.figures.total, bulk.figures.done, bulk.state),
        (3, 0, BulkState::Running),
        "counted first"
    );
    bury(&given, &engine, &["late"]).await;

    let bulk = ended(&engine, &bulk.id).await;
    assert_eq!(
        (bulk.state, bulk.figures.done, bulk.figures.skipped, bulk.figures.failed),
        (BulkState::Done, 3, 0, 0)
    );
    assert!(bulk.ended_at.is_some() && bulk.stopped_because.is_none());
    for name in ["a", "b", "c"] {
        given.until(name, Status::Sent).await;
    }
    assert_eq!(dead(&given, "late").await, Some(DeadLetterState::Dead));
    let trail = given.store.audit(&JobId::new("a").unwrap()).await.unwrap();
    let replayed = trail.iter().find(|event| event.actor.as_deref() == Some("ana")).expect("who did it");
    let words = format!("Replayed: the domain is verified (bulk act {})", bulk.id);
    assert_eq!(replayed.decision.retry_reason.as_deref(), Some(&*words), "why, and which act it was");
    assert_eq!(replayed.bulk_id, Some(bulk.id));
}

#[tokio::test(start_paused = true)]
async fn it_keeps_its_pace() {
    let given = Given::new();
    let far_end = second_time_lucky();
    let engine = given.mail(&far_end);
    let names: Vec<String> = (0..30).map(|n| format!("job-{n:02}")).collect();
    bury(&given, &engine, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let began = given.clock_now();
    let bulk = start(&engine, BulkOrder { rate_per_second: Some(10), ..order(BulkAct::Replay) }).await;
    let bulk = ended(&engine, &bulk.id).await;
    assert_eq!(bulk.figures.done, 30);
    let took = given.clock_now().since(began);
    assert!((Duration::from_millis(2_900)..Duration::from_millis(4_500)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_dies_again_stops_the_rest() {
    let given = Given::new();
    let engine = given.mail(&Arc::new(Scripted::new(&["550"])));
    bury(&given, &engine, &["a", "b", "c", "d"]).await;
    let bulk = start(&engine, BulkOrder { canary: Some(2), ..order(BulkAct::Replay) }).await;
    let bulk = ended(&engine, &bulk.id).await;
    assert_eq!((bulk.state, bulk.figures.done), (BulkState::Stopped, 2), "{bulk:?}");
    let canary = bulk.canary.unwrap();
    assert_eq!((canary.state, canary.job_ids.len()), (CanaryState::Died, 2));
    let because = bulk.stopped_because.unwrap();
    assert!(because.contains("failed again: said the far end"), "{because}");
    for name in ["a", "b"] {
        assert_eq!(given.view(name).await.job.progress.replays, 0, "{name} was never touched");
    }
}

#[tokio::test(start_paused = true)]
async fn the_rest_waits_for_a_canary_that_waits_for_a_paused_provider_and_then_goes_on() {
    let given = Given::new();
    let engine = given.mail(&second_time_lucky());
    bury(&given, &engine, &["a", "b", "c"]).await;
    engine.gate.act_on_provider("mail", ProviderAct::Pause, Some("invoice open"), None).await.unwrap();
    let bulk = start(&engine, BulkOrder { canary: Some(1), ..order(BulkAct::Replay) }).await;
    let waiting = |bulk: &Bulk| bulk.canary.as_ref().is_some_and(|canary| canary.waiting_for.is_some());
    let shown = when(&engine, &bulk.id, waiting).await;
    let canary = shown.canary.unwrap();
    assert_eq!(
        (canary.state, canary.waiting_for.as_deref()),
        (CanaryState::Waiting, Some("paused: invoice open"))
    );
    tokio::time::sleep(Duration::from_secs(2 * 3_600)).await;
    assert_eq!(
        engine.dlq.bulk(&bulk.id).await.unwrap().unwrap().figures.done,
        1,
        "still the canary alone, hours later"
    );

    engine.gate.act_on_provider("mail", ProviderAct::Resume, None, None).await.unwrap();
    let bulk = ended(&engine, &bulk.id).await;
    assert_eq!((bulk.state, bulk.figures.done), (BulkState::Done, 3));
    assert_eq!(bulk.canary.unwrap().state, CanaryState::Delivered);
    for name in ["a", "b", "c"] {
        given.until(name, Status::Sent).await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_after_a_restart_and_nothing_is_delivered_twice() {
    let given = Given::new();
    let far_end = second_time_lucky();
    let engine = given.mail(&far_end);
    let names: Vec<String> = (0..10).map(|n| format!("job-{n}")).collect();
    bury(&given, &engine, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let bulk = start(&engine, BulkOrder { rate_per_second: Some(2), ..order(BulkAct::Replay) }).await;
    when(&engine, &bulk.id, |bulk| bulk.figures.done >= 4).await;
    engine.stop().await.unwrap();
    let half = given.store.kv_get(NAMESPACE, &bulk.id, given.clock_now()).await.unwrap().unwrap();
    let half: Bulk = half.value.parse().unwrap();
    assert!(half.state == BulkState::Running && half.figures.done < 10, "it was cut off: {half:?}");

    let engine = given.mail(&far_end);
    let bulk = ended(&engine, &bulk.id).await;
    assert_eq!((bulk.state, bulk.figures.done, bulk.figures.total), (BulkState::Done, 10, 10));
    for name in &names {
        given.until(name, Status::Sent).await;
    }
    assert_eq!(far_end.count(), 20, "each failed once and was delivered once");
}

/// A bulk act over four entries, one of them done, as a process leaves it that did not get to stop, an hour before the
/// clock is set back.
async fn left_behind(given: &Given, far_end: &Arc<Scripted>) -> Bulk {
    let engine = given.mail(far_end);
    bury(given, &engine, &["a", "b", "c", "d"]).await;
    let bulk = start(&engine, BulkOrder { rate_per_second: Some(1), ..order(BulkAct::Replay) }).await;
    when(&engine, &bulk.id, |bulk| bulk.figures.done >= 1).await;
    engine.stop().await.unwrap();
    let now = given.clock_now();
    let note = given.store.kv_get(NAMESPACE, &bulk.id, now).await.unwrap().unwrap();
    let mut value: serde_json::Value = note.value.parse().unwrap();
    value["holder"] = "a node that died".into();
    value["heldUntil"] = now.plus(Duration::from_secs(15)).to_string().into();
    let value = Some(Payload::trusted(value.to_string()));
    let write = KvWrite {
        namespace: NAMESPACE,
        key: bulk.id.clone(),
        value,
        expect: None,
        expires_at: None,
        audit: Vec::new(),
    };
    given.store.kv_write(vec![write], now).await.unwrap();
    given.clock.set_by(-3_600);
    engine.dlq.bulk(&bulk.id).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_whose_process_died_goes_on_at_the_next_start_whatever_the_clock_did() {
    let (given, far_end) = (Given::new(), second_time_lucky());
    let bulk = left_behind(&given, &far_end).await;
    let engine = given.mail(&far_end);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let bulk = engine.dlq.bulk(&bulk.id).await.unwrap().unwrap();
    assert_eq!((bulk.state, bulk.figures.done), (BulkState::Done, 4));
}

#[tokio::test(start_paused = true)]
async fn one_whose_node_died_is_taken_over_by_another_when_it_is_silent_for_long_enough() {
    let (given, far_end) = (Given::new(), second_time_lucky());
    let before = left_behind(&given, &far_end).await;
    let shared = Arc::new(FaultyStore::shared(given.store.clone(), &Arc::default()));
    let engine = given.engine_on(shared, [route("mail", Carrier::Transport(far_end.clone()))]);
    tokio::time::sleep(Duration::from_secs(14)).await;
    let now = engine.dlq.bulk(&before.id).await.unwrap().unwrap().figures.done;
    assert_eq!(now, before.figures.done, "another node may still have it");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let bulk = engine.dlq.bulk(&before.id).await.unwrap().unwrap();
    assert_eq!((bulk.state, bulk.figures.done), (BulkState::Done, 4));
}

#[tokio::test(start_paused = true)]
async fn two_at_once_over_the_same_entries_deliver_each_once() {
    let given = Given::new();
    let far_end = second_time_lucky();
    let engine = given.mail(&far_end);
    let names: Vec<String> = (0..20).map(|n| format!("job-{n:02}")).collect();
    bury(&given, &engine, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let first = start(&engine, order(BulkAct::Replay)).await;
    let second = start(&engine, order(BulkAct::Replay)).await;
    let (first, second) = (ended(&engine, &first.id).await, ended(&engine, &second.id).await);
    assert_eq!(first.figures.done + second.figures.done, 20, "{first:?} {second:?}");
    for name in &names {
        given.until(name, Status::Sent).await;
        assert_eq!(given.view(name).await.job.progress.replays, 1);
    }
    assert_eq!(far_end.count(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_person_stops_it_and_what_it_did_stays_done() {
    let given = Given::new();
    let engine = given.mail(&second_time_lucky());
    bury(&given, &engine, &["a", "b", "c"]).await;
    let bulk = start(&engine, BulkOrder { rate_per_second: Some(1), ..order(BulkAct::Replay) }).await;
    when(&engine, &bulk.id, |bulk| bulk.figures.done >= 1).await;
    let stopped = engine.dlq.stop_bulk(&bulk.id, Some("rui")).await.unwrap().unwrap();
    assert_eq!(
        (stopped.state, stopped.stopped_because.as_deref()),
        (BulkState::Stopped, Some("stopped by rui"))
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = engine.dlq.bulk(&bulk.id).await.unwrap().unwrap();
    assert_eq!(after.state, BulkState::Stopped);
    assert!(after.figures.done < 3, "{after:?}");
    let again = engine.dlq.stop_bulk(&bulk.id, Some("ana")).await.unwrap().unwrap();
    assert_eq!(again, after, "stopping twice changes nothing");
    assert!(engine.dlq.stop_bulk("rpl_nobody", None).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn w3_many_are_discarded_with_a_reason_on_the_trail_of_each() {
    let given = Given::new();
    let engine = given.mail(&second_time_lucky());
    bury(&given, &engine, &["a", "b"]).await;
    let bulk = start(&engine, order(BulkAct::Discard)).await;
    assert_eq!(ended(&engine, &bulk.id).await.figures.done, 2);
    for name in ["a", "b"] {
        assert_eq!(given.view(name).await.status, Status::Discarded);
        let trail = given.store.audit(&JobId::new(name).unwrap()).await.unwrap();
        let last = trail.last().unwrap();
        let words = format!("the domain is verified (bulk act {})", bulk.id);
        assert_eq!(
            (last.actor.as_deref(), last.decision.retry_reason.as_deref()),
            (Some("ana"), Some(&*words))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_discard_leaves_an_entry_alone_that_died_again_since_it_was_read() {
    let given = Given::new();
    let engine = given.mail(&Arc::new(Scripted::new(&["550", "550"])));
    bury(&given, &engine, &["a"]).await;
    let id = JobId::new("a").unwrap();
    let read = given.store.dead_letter(&id).await.unwrap().unwrap();
    assert_eq!(engine.dlq.replay(&id, None, None, Some("ana")).await.unwrap(), Replay::Started);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let newer = given.store.dead_letter(&id).await.unwrap();
    assert!(newer.as_ref().is_some_and(|newer| newer.moved_at > read.moved_at), "it did not die again");
    let discarded = engine.dlq.discard_entry(&read, "old news", Some("ana"), None).await.unwrap();
    assert_eq!(discarded, Discarded::DiedAgain);
    assert_eq!(given.store.dead_letter(&id).await.unwrap(), newer);
    assert_eq!(engine.dlq.discard(&id, "enough", Some("ana")).await.unwrap(), Discarded::Done);
}

#[tokio::test(start_paused = true)]
async fn named_ids_and_filters_hold_together() {
    let given = Given::new();
    let engine = given.mail(&second_time_lucky());
    bury(&given, &engine, &["a", "b", "c"]).await;
    let ids = |names: &[&str]| names.iter().map(|name| JobId::new(*name).unwrap()).collect::<Vec<_>>();
    let filter = Chosen { job_ids: ids(&["a", "c", "unknown"]), ..Chosen::default() };
    let (total, sample) = engine.dlq.choose(&filter, 10).await.unwrap();
    assert_eq!((total, sample.len()), (2, 2));
    let entries = DeadLetterFilter { last_failure_code: Some("421".into()), ..Default::default() };
    let none = Chosen { entries, ..filter.clone() };
    assert_eq!(engine.dlq.choose(&none, 10).await.unwrap().0, 0);

    let bulk = start(&engine, BulkOrder { filter, ..order(BulkAct::Replay) }).await;
    let bulk = ended(&engine, &bulk.id).await;
    assert_eq!((bulk.figures.total, bulk.figures.done), (2, 2));
    given.until("a", Status::Sent).await;
    assert_eq!(dead(&given, "b").await, Some(DeadLetterState::Dead));
}

#[tokio::test(start_paused = true)]
async fn where_nothing_can_be_delivered_it_fails_soon_and_names_a_few() {
    let given = Given::new();
    let engine = given.mail(&second_time_lucky());
    let names: Vec<String> = (0..60).map(|n| format!("job-{n:02}")).collect();
    bury(&given, &engine, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    engine.stop().await.unwrap();
    let engine = given.engine([route("mail", Carrier::Missing("give it a provider".to_owned()))]);
    let bulk = start(&engine, order(BulkAct::Replay)).await;
    let bulk = ended(&engine, &bulk.id).await;
    assert_eq!((bulk.state, bulk.figures.done), (BulkState::Failed, 0));
    assert_eq!(bulk.figures.failures.len(), FAILURES_NAMED_MAX);
    assert!(bulk.figures.failed < 60, "it does not walk on through sixty: {}", bulk.figures.failed);
    assert!(bulk.stopped_because.unwrap().contains("give it a provider"));
}

#[tokio::test(start_paused = true)]
async fn only_a_few_run_at_a_time() {
    let given = Given::new();
    let engine = given.mail(&second_time_lucky());
    bury(&given, &engine, &["a", "b"]).await;
    engine.gate.act_on_provider("mail", ProviderAct::Pause, None, None).await.unwrap();
    let slow = || BulkOrder { canary: Some(1), rate_per_second: Some(1), ..order(BulkAct::Replay) };
    // The first canary takes one entry and the second the other: both wait, and the rest has nothing to do.
    for _ in 0..2 {
        start(&engine, slow()).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let running = engine.dlq.bulks().await.unwrap();
    assert_eq!(running.iter().filter(|bulk| bulk.state == BulkState::Running).count(), 2);
    for _ in 2..RUNNING_MAX {
        start(&engine, slow()).await;
    }
    assert_eq!(engine.dlq.start_bulk(slow()).await.unwrap(), Err(TooMany));
}
