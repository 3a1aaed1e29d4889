//! Nodes that share a store know of each other: who is there, who is going, who is gone, who does how much.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{CompanyId, RouteName, Status};
use recado_engine::admission::tenant_limits::TermsChange;
use recado_engine::duties::nodes::{Health, Node, NodeInfo};
use recado_engine::{Carrier, Clock, Engine, Parts, ProviderAct, Random, RouteAct, Routes, Settings};
use recado_store::{KvWrite, Namespace, StoreError, Wakes};
use recado_store_conformance::faulty::{FaultyStore, Verb};

use crate::given::{Given, Scripted, route, settings, submission, submit};

/// One of several nodes on the same store, and its way to the store.
fn node(
    given: &Given,
    wakes: &Arc<Wakes>,
    name: &str,
    far_end: &Arc<Scripted>,
) -> (Engine, Arc<FaultyStore>) {
    let store = Arc::new(FaultyStore::shared(given.store.clone(), wakes));
    let routes = Routes::new([route("mail", Carrier::Transport(far_end.clone()))]);
    let settings = Settings { node: name.into(), ..settings() };
    let mut parts = Parts::new(store.clone(), routes, settings, given.clock.clone(), Random::from_seed(7));
    parts.info = NodeInfo { host: "mail-1".into(), listen: Some("10.0.0.5:7400".into()) };
    (Engine::start(parts), store)
}

async fn nodes(engine: &Engine) -> Vec<Node> {
    engine.nodes.list().await.unwrap()
}

async fn health(engine: &Engine) -> Vec<(String, Health)> {
    nodes(engine).await.into_iter().map(|node| (node.id.into(), node.health)).collect()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_alone_tells_of_itself_and_writes_nothing() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["ok"]));
    let (engine, store) = given.shaky(&far_end);
    store.fail(Verb::KvWrite, 0, 1, StoreError::Unavailable("not asked for".to_owned()));
    submit(&engine, submission("a")).await;
    given.until("a", Status::Sent).await;
    pass(30).await;
    let [only] = &nodes(&engine).await[..] else { panic!("there are others") };
    assert_eq!((&*only.id, only.health), ("node-1", Health::Ok));
    assert_eq!((only.beat.running, only.beat.ended_last_minute, only.share_percent), (0, 1, 100.0));
    assert_eq!(store.fired(Verb::KvWrite), 0, "it wrote nothing");
}

#[tokio::test(start_paused = true)]
async fn each_node_sees_all_of_them_and_their_shares_of_the_work() {
    let given = Given::new();
    let (wakes, far_end) = (Arc::default(), Arc::new(Scripted::slow(Duration::from_millis(100))));
    let (first, _) = node(&given, &wakes, "node-1", &far_end);
    let (second, _) = node(&given, &wakes, "node-2", &far_end);
    for number in 0..40 {
        submit(&first, submission(&format!("job-{number}"))).await;
    }
    for number in 0..40 {
        given.until(&format!("job-{number}"), Status::Sent).await;
    }
    pass(6).await;
    for engine in [&first, &second] {
        let [one, other] = &nodes(engine).await[..] else { panic!("not two") };
        assert_eq!((&*one.id, &*other.id), ("node-1", "node-2"));
        assert_eq!((one.health, other.health), (Health::Ok, Health::Ok));
        assert_eq!((&*other.beat.host, other.beat.listen.as_deref()), ("mail-1", Some("10.0.0.5:7400")));
        assert!(other.beat.seen_at > other.beat.started_at, "it was heard of once");
        assert_eq!(one.beat.ended_last_minute + other.beat.ended_last_minute, 40);
        assert!((one.share_percent + other.share_percent - 100.0).abs() < 0.001);
    }
    pass(70).await;
    assert!(nodes(&first).await.iter().all(|node| node.beat.ended_last_minute == 0), "a minute has passed");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_says_so_while_it_does_and_then_takes_its_leave() {
    let given = Given::new();
    let (wakes, slow) = (Arc::default(), Arc::new(Scripted::slow(Duration::from_secs(20))));
    let (stays, _) = node(&given, &wakes, "node-1", &Arc::new(Scripted::new(&["ok"])));
    // It has the only route with work.
    let store = Arc::new(FaultyStore::shared(given.store.clone(), &wakes));
    let routes = Routes::new([route("letters", Carrier::Transport(slow))]);
    let settings = Settings { node: "node-2".into(), ..settings() };
    let goes = Engine::start(Parts::new(store, routes, settings, given.clock.clone(), Random::from_seed(7)));
    let mut job = submission("long");
    job.route = "letters".to_owned();
    submit(&goes, job).await;
    pass(6).await;
    assert_eq!(nodes(&stays).await[1].beat.running, 1);
    let stopping = tokio::spawn(async move { goes.stop().await });
    pass(1).await;
    assert_eq!(health(&stays).await[1], ("node-2".to_owned(), Health::Stopping));
    stopping.await.unwrap().unwrap();
    assert_eq!(health(&stays).await, [("node-1".to_owned(), Health::Ok)]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_heard_is_silent_and_then_forgotten() {
    let given = Given::new();
    let (wakes, far_end) = (Arc::default(), Arc::new(Scripted::new(&["ok"])));
    let (hears, _) = node(&given, &wakes, "node-1", &far_end);
    let (_cut_off, store) = node(&given, &wakes, "node-2", &far_end);
    pass(1).await;
    assert_eq!(health(&hears).await[1].1, Health::Ok);
    store.fail(Verb::KvWrite, 0, 1_000, StoreError::Unavailable("cut off".to_owned()));
    pass(20).await;
    assert!(store.fired(Verb::KvWrite) > 0, "it was never cut off");
    assert_eq!(health(&hears).await[1], ("node-2".to_owned(), Health::Silent));
    pass(60).await;
    assert_eq!(health(&hears).await, [("node-1".to_owned(), Health::Ok)]);
}

#[tokio::test(start_paused = true)]
async fn a_node_reads_what_others_wrote_and_nothing_when_they_wrote_nothing() {
    let given = Given::new();
    let (wakes, far_end) = (Arc::default(), Arc::new(Scripted::new(&["ok"])));
    let (says, _) = node(&given, &wakes, "node-1", &far_end);
    let (hears, store) = node(&given, &wakes, "node-2", &far_end);
    pass(3).await;
    let before = store.reads_of("routes");
    assert!(before > 0, "it never read");
    pass(20).await;
    assert_eq!(store.reads_of("routes"), before, "nothing has changed but the signs of life");
    says.gate.act_on_route("mail", RouteAct::Pause, None, None).await.unwrap();
    pass(2).await;
    assert_eq!(store.reads_of("routes"), before + 1, "something has");
    assert!(hears.gate.pause_of(&RouteName::new("mail").unwrap()).is_some());
    pass(30).await;
    assert_eq!(store.reads_of("routes"), before + 2, "everything is read again once in a while");
}

/// As a Redis does that lost its last second, or everything.
#[tokio::test(start_paused = true)]
async fn what_the_store_has_lost_no_node_holds_on_to_and_what_is_said_next_is_heard() {
    let given = Given::new();
    let (wakes, far_end) = (Arc::default(), Arc::new(Scripted::new(&["ok"])));
    let (first, _) = node(&given, &wakes, "node-1", &far_end);
    let (second, _) = node(&given, &wakes, "node-2", &far_end);
    let (mail, acme) = (RouteName::new("mail").unwrap(), CompanyId::new("acme").unwrap());
    let pause = |paused| TermsChange { paused: Some(paused), ..TermsChange::default() };
    let paused = |engine: &Engine| {
        let provider = engine.gate.provider_views().remove(0).paused.is_some();
        [provider, engine.gate.pause_of(&mail).is_some(), engine.gate.tenants.terms("acme").paused]
    };
    let provider = first.gate.provider_views().remove(0).name;
    first.gate.act_on_provider(&provider, ProviderAct::Pause, None, None).await.unwrap();
    first.gate.act_on_route("mail", RouteAct::Pause, None, None).await.unwrap();
    first.gate.set_tenant(&acme, pause(true), None).await.unwrap();
    pass(2).await;
    assert_eq!([&first, &second].map(paused), [[true; 3]; 2]);

    let now = given.clock.now();
    for (namespace, key) in [("providers", &*provider), ("routes", "mail"), ("tenants", "acme")] {
        let namespace = Namespace::new(namespace);
        let gone = KvWrite {
            namespace,
            key: key.into(),
            value: None,
            expect: None,
            audit: Vec::new(),
            expires_at: None,
        };
        given.store.kv_write(vec![gone], now).await.unwrap();
    }
    pass(2).await;
    assert_eq!([&first, &second].map(paused), [[false; 3]; 2]);

    second.gate.set_tenant(&acme, pause(true), None).await.unwrap();
    second.gate.act_on_route("mail", RouteAct::Pause, None, None).await.unwrap();
    pass(2).await;
    assert_eq!([&first, &second].map(paused), [[false, true, true]; 2]);
}
