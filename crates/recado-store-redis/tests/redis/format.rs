//! What a store is written in.

use recado_store::Store;
use recado_store_redis::{FORMAT_VERSION, RedisOptions, RedisStore};

use crate::given::{T0, jobs};
use crate::place::Place;
use crate::server::Server;

async fn refusal(options: &RedisOptions) -> String {
    RedisStore::open(options).await.unwrap_err().to_string()
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
    let store = RedisStore::open(&options).await.unwrap();
    store.enqueue(jobs(0..3)).await.unwrap();
    let keys: Vec<String> = server.ask(&["KEYS", "*"]);
    assert!(keys.len() > 3 && keys.iter().all(|key| key.starts_with("ours:{")), "{keys:?}");
}
