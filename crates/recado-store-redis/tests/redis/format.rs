//! The format of a store.

use recado_core::Payload;
use recado_store::prelude::*;
use recado_store::{KvWrite, KvWritten, Namespace, StoreError};
use recado_store_redis::{FORMAT_VERSION, RedisOptions, RedisStore};

use crate::given::{T0, jobs, random};
use crate::place::Place;
use crate::server::{PATIENCE, Server, until};

async fn refusal(options: &RedisOptions) -> String {
    RedisStore::open(options, random()).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused_and_not_touched() {
    let place = Place::single();
    let key = format!("{}:{{0}}:format", place.options.prefix);
    let newer = format!("{} 1", FORMAT_VERSION + 1);
    place.server.ask::<()>(&["SET", &key, &newer]);
    assert!(refusal(&place.options).await.contains("newer version"));
    assert_eq!(place.server.ask::<String>(&["GET", &key]), newer);
}

#[tokio::test]
async fn the_number_of_partitions_is_chosen_once() {
    let place = Place::single().in_partitions(3);
    drop(place.store().await);
    let words = refusal(&RedisOptions { partitions: 4, ..place.options.clone() }).await;
    assert!(words.contains("partitions = 3"), "{words}");
    drop(place.store().await);
}

#[tokio::test]
async fn prefixes_keep_stores_apart() {
    let (one, two) = (Place::single(), Place::single());
    one.store().await.enqueue(jobs(0..3)).await.unwrap();
    assert_eq!(two.store().await.counts(T0).await.unwrap().ready, 0);
    assert_eq!(one.store().await.counts(T0).await.unwrap().ready, 3);
}

#[tokio::test]
async fn every_key_has_the_prefix() {
    let server = Server::start();
    let options = RedisOptions { prefix: "ours".into(), ..RedisOptions::new(server.url()) };
    let store = RedisStore::open(&options, random()).await.unwrap();
    store.enqueue(jobs(0..3)).await.unwrap();
    let keys: Vec<String> = server.ask(&["KEYS", "*"]);
    assert!(keys.len() > 3 && keys.iter().all(|key| key.starts_with("ours:{")), "{keys:?}");
}

#[tokio::test]
async fn versions_of_entries_are_not_given_again_after_a_server_lost_its_data() {
    const NAMESPACE: Namespace = Namespace::new("providers");
    let place = Place::single();
    let store = place.store().await;
    let write = |expect| KvWrite {
        namespace: NAMESPACE,
        key: "smtp".into(),
        value: Some(Payload::trusted("1")),
        expect,
        audit: Vec::new(),
        expires_at: None,
    };
    let written = async |expect| store.kv_write(vec![write(expect)], T0).await.unwrap().remove(0);
    let KvWritten::Done { version: lost } = written(None).await else { panic!("a conflict") };
    let namespace = store.kv_versions(&[NAMESPACE]).await.unwrap();
    for key in place.server.ask::<Vec<String>>(&["KEYS", &format!("{}:{{notes}}:*", place.options.prefix)]) {
        place.server.ask::<()>(&["DEL", &key]);
    }
    let KvWritten::Done { version } = written(None).await else { panic!("a conflict") };
    assert!(version > lost, "{version} after {lost}");
    assert_ne!(store.kv_versions(&[NAMESPACE]).await.unwrap(), namespace);
    assert_eq!(
        written(Some(lost)).await,
        KvWritten::Conflict { version },
        "an outdated copy passed for the current one"
    );
}

/// As `FLUSHALL` does.
fn empty(place: &Place<Server>) {
    for key in place.server.ask::<Vec<String>>(&["KEYS", &format!("{}:*", place.options.prefix)]) {
        place.server.ask::<()>(&["DEL", &key]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_emptied_has_its_number_of_partitions_again_within_seconds() {
    let place = Place::single().in_partitions(3);
    let store = place.store().await;
    empty(&place);
    let key = format!("{}:{{2}}:format", place.options.prefix);
    let port = place.server.port();
    tokio::task::spawn_blocking(move || until::<Option<String>>(port, &["GET", &key], Option::is_some))
        .await
        .unwrap();
    let words = refusal(&RedisOptions { partitions: 4, ..place.options.clone() }).await;
    assert!(words.contains("partitions = 3"), "{words}");
    store.enqueue(jobs(0..3)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_another_node_made_anew_with_other_partitions_is_broken_to_those_who_had_it_open() {
    let place = Place::single().in_partitions(3);
    let store = place.store().await;
    for partition in ["0", "1", "2", "3", "notes"] {
        let key = format!("{}:{{{partition}}}:format", place.options.prefix);
        place.server.ask::<()>(&["SET", &key, &format!("{FORMAT_VERSION} 4")]);
    }
    let end = std::time::Instant::now() + PATIENCE;
    let why = loop {
        match store.counts(T0).await {
            Err(StoreError::Broken(why)) => break why,
            other => assert!(std::time::Instant::now() < end, "{other:?}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert!(why.contains("partitions = 4"), "{why}");
}
