//! It rings once, for the right ones, across restarts and nodes, and says when it is over.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{CompanyId, Event, EventKind, JobId, RouteName, Status, Timestamp};
use recado_engine::duties::alerts::AlertTerms;
use recado_engine::notify::events::Listening;
use recado_engine::notify::notices::{Channel, Notices};
use recado_engine::{Carrier, Engine, Parts, Random, Routes, Settings, Submission};
use recado_store::{JobFilter, PageRequest, Store, StoreError, Wakes};
use recado_store_conformance::faulty::{FaultyStore, Verb};

use crate::given::{Given, Scripted, route, settings, submission, submit};

/// The queue of dead letters rings above two, of one company above one.
fn terms() -> AlertTerms {
    let mut terms = AlertTerms::default();
    for (name, threshold) in [("dlq_size", 2.0), ("dlq_company", 1.0)] {
        terms.config.rule_mut(name).unwrap().threshold = threshold;
    }
    // Notices stay in a queue without a worker, so that they can be looked at.
    terms.config.rule_mut("queue_age").unwrap().enabled = false;
    terms
}

fn node(given: &Given, name: &str, store: Arc<dyn Store>) -> Engine {
    let refusing = Arc::new(Scripted::new(&["550"]));
    let email = Channel::Email {
        route: RouteName::new("notices").unwrap(),
        from: "recado@example.com".into(),
        to: vec!["ops@example.com".into()],
    };
    let notices = Notices {
        channels: [("ops".into(), email)].into(),
        alerts: vec!["ops".into()],
        ..Notices::default()
    };
    let routes =
        Routes::new([route("mail", Carrier::Transport(refusing)), route("notices", Carrier::Workers)]);
    let settings = Settings { node: name.into(), notices, ..settings() };
    let mut parts = Parts::new(store, routes, settings, given.clock.clone(), Random::from_seed(7));
    parts.alerts = terms();
    Engine::start(parts)
}

async fn bury(engine: &Engine, given: &Given, ids: &[&str], company: &str) {
    for id in ids {
        submit(engine, Submission { company_id: company.to_owned(), ..submission(id) }).await;
        given.until(id, Status::Failed).await;
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Events of alerts, a line each: kind, alert, company.
fn told(heard: &mut Listening) -> Vec<String> {
    let events = std::iter::from_fn(|| heard.receiver.try_recv().ok());
    let line = |event: Arc<Event>| {
        let company = event.company_id.as_ref().map_or("", CompanyId::as_str);
        format!("{} {} {company}", event.kind.as_str(), event.data.alert.name.as_deref().unwrap_or("?"))
            .trim_end()
            .to_owned()
    };
    let of_alerts =
        |event: &Arc<Event>| matches!(event.kind, EventKind::AlertFired | EventKind::AlertResolved);
    events.filter(of_alerts).map(line).collect()
}

/// Notices to the channel, oldest first: their subjects.
async fn notices(given: &Given) -> Vec<String> {
    let filter = JobFilter { route: Some(RouteName::new("notices").unwrap()), ..JobFilter::default() };
    let page = PageRequest { before: None, limit: 100 };
    let found = given.store.jobs(filter, page, Timestamp::from_millis(0)).await.unwrap().items;
    let subject = |data: serde_json::Value| data["subject"].as_str().unwrap().to_owned();
    found.iter().rev().map(|view| subject(view.job.data.parse().unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn g8_an_alert_fires_once_and_is_resolved_once_to_stream_channel_and_list() {
    let given = Given::new();
    let engine = node(&given, "node-1", given.store.clone());
    let mut heard = engine.notifier.events.listen(None);
    bury(&engine, &given, &["a", "b"], "acme").await;
    pass(60).await;
    assert_eq!(told(&mut heard), ["AlertFired dlq_company acme"], "two are not more than two");
    bury(&engine, &given, &["c"], "globex").await;
    pass(60).await;
    assert_eq!(told(&mut heard), ["AlertFired dlq_size"]);
    let firing = engine.alerts.firing();
    let names: Vec<_> = firing.iter().map(|alert| (&*alert.alert, alert.value)).collect();
    assert_eq!(names, [("dlq_company", 2.0), ("dlq_size", 3.0)]);

    for id in ["a", "b", "c"] {
        engine.dlq.discard(&JobId::new(id).unwrap(), "no use", None).await.unwrap();
    }
    pass(200).await;
    assert_eq!(told(&mut heard), Vec::<String>::new(), "it is over after five minutes of calm");
    pass(120).await;
    assert_eq!(told(&mut heard), ["AlertResolved dlq_size", "AlertResolved dlq_company acme"]);
    assert!(engine.alerts.firing().is_empty());
    let subjects = [
        "Recado: AlertFired (alert dlq_company, company acme)",
        "Recado: AlertFired (alert dlq_size)",
        "Recado: AlertResolved (alert dlq_size)",
        "Recado: AlertResolved (alert dlq_company, company acme)",
    ];
    assert_eq!(notices(&given).await, subjects);
}

#[tokio::test(start_paused = true)]
async fn g8_a_restart_neither_rings_again_nor_forgets_that_it_is_over() {
    let given = Given::new();
    let engine = node(&given, "node-1", given.store.clone());
    bury(&engine, &given, &["a", "b"], "acme").await;
    pass(30).await;
    assert_eq!(notices(&given).await.len(), 1);
    engine.stop().await.unwrap();

    let engine = node(&given, "node-1 again", given.store.clone());
    let mut heard = engine.notifier.events.listen(None);
    pass(60).await;
    assert_eq!(engine.alerts.firing().len(), 1, "it still rings");
    assert_eq!(told(&mut heard), Vec::<String>::new(), "and is not told again");
    engine.dlq.discard(&JobId::new("a").unwrap(), "no use", None).await.unwrap();
    engine.dlq.discard(&JobId::new("b").unwrap(), "no use", None).await.unwrap();
    pass(400).await;
    assert_eq!(told(&mut heard), ["AlertResolved dlq_company acme"]);
    assert_eq!(notices(&given).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn g8_of_several_nodes_one_rings_and_another_takes_over_when_it_is_gone() {
    for set_by_s in [0, -3_600] {
        one_rings_and_another_takes_over(set_by_s).await;
    }
}

/// The clock is set when the first one is gone.
async fn one_rings_and_another_takes_over(set_by_s: i64) {
    let given = Given::new();
    let wakes = Arc::new(Wakes::default());
    let shared = || Arc::new(FaultyStore::shared(given.store.clone(), &wakes));
    let first = node(&given, "node-1", shared());
    pass(15).await;
    let second = node(&given, "node-2", shared());
    let mut heard = [first.notifier.events.listen(None), second.notifier.events.listen(None)];
    bury(&second, &given, &["a", "b"], "acme").await;
    pass(60).await;
    let [one, other] = &mut heard;
    assert_eq!((told(one), told(other)), (vec!["AlertFired dlq_company acme".to_owned()], Vec::new()));
    assert_eq!((first.alerts.firing().len(), second.alerts.firing().len()), (1, 1), "the other knows of it");

    first.stop().await.unwrap();
    given.clock.set_by(set_by_s);
    for id in ["a", "b"] {
        second.dlq.discard(&JobId::new(id).unwrap(), "no use", None).await.unwrap();
    }
    pass(400).await;
    assert_eq!(told(&mut heard[1]), ["AlertResolved dlq_company acme"]);
    assert_eq!(notices(&given).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_written_down_is_written_later_and_nothing_rings_twice() {
    let given = Given::new();
    let store = Arc::new(FaultyStore::around(given.store.clone()));
    let engine = node(&given, "node-1", store.clone());
    let mut heard = engine.notifier.events.listen(None);
    // Enough for those who write more often as well.
    store.fail(Verb::KvWrite, 0, 9, StoreError::Unavailable("gone".to_owned()));
    bury(&engine, &given, &["a", "b"], "acme").await;
    pass(120).await;
    assert_eq!(store.fired(Verb::KvWrite), 9);
    assert_eq!(told(&mut heard), ["AlertFired dlq_company acme"]);
    engine.stop().await.unwrap();
    let engine = node(&given, "node-1 again", given.store.clone());
    pass(60).await;
    assert_eq!((engine.alerts.firing().len(), notices(&given).await.len()), (1, 1));
}
