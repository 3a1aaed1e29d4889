//! Hints between nodes, without the clock that rings in any case.

use recado_core::{Payload, RouteName};
use recado_store::prelude::*;
use recado_store::{KvWrite, Namespace, Waker};
use recado_store_redis::RedisStore;

use crate::given::{T0, jobs};
use crate::place::Place;
use crate::server::{PATIENCE, Server, until};

/// Two nodes that hear each other.
async fn two_nodes(place: &Place<Server>) -> (RedisStore, RedisStore) {
    let nodes = (place.store().await, place.store().await);
    let channel = format!("{}:hints", place.options.prefix);
    let both = |listeners: &Vec<(String, u64)>| listeners.iter().any(|(_, count)| *count == 2);
    until(place.server.port(), &["PUBSUB", "NUMSUB", &channel], both);
    nodes
}

async fn woken(waker: &mut Waker) -> bool {
    tokio::time::timeout(PATIENCE, waker.rung()).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_wakes_callers_that_wait_on_another_node() {
    let place = Place::single();
    let (one, two) = two_nodes(&place).await;
    let mut work = two.waker(&RouteName::new("email").unwrap());
    one.enqueue(jobs(0..1)).await.unwrap();
    assert!(woken(&mut work).await, "no hint of a job");
    let mut changes = two.kv_changes().unwrap();
    let write = KvWrite {
        namespace: Namespace::new("pauses"),
        key: "acme".into(),
        value: Some(Payload::trusted("1")),
        expect: None,
        expires_at: None,
        audit: Vec::new(),
    };
    one.kv_write(vec![write], T0).await.unwrap();
    assert!(woken(&mut changes).await, "no hint of an entry");
}

#[tokio::test]
async fn without_a_hint_waiting_callers_look_again_after_a_while() {
    let mut place = Place::single();
    place.options.wake_every = std::time::Duration::from_millis(50);
    let store = place.store().await;
    let mut work = store.waker(&RouteName::new("email").unwrap());
    let mut changes = store.kv_changes().unwrap();
    assert!(woken(&mut work).await && woken(&mut changes).await && woken(&mut work).await, "and again");
}
