//! Breakers as plain keys for other programs.

use recado_core::Payload;
use recado_store::prelude::*;
use recado_store::{KvWrite, Namespace};

use crate::given::T0;
use crate::place::Place;

const PROVIDERS: Namespace = Namespace::new("providers");

fn write(provider: &str, value: Option<&str>) -> KvWrite {
    let value = value.map(|value| Payload::new(value).unwrap());
    KvWrite {
        namespace: PROVIDERS,
        key: provider.into(),
        value,
        expect: None,
        expires_at: None,
        audit: Vec::new(),
    }
}

#[tokio::test]
async fn f4_a_breakers_state_can_be_read_from_its_circuit_keys() {
    let place = Place::single();
    let store = place.store().await;
    let provider = format!("smtp-{}", place.options.prefix);
    let get =
        |name: &str| place.server.ask::<Option<String>>(&["GET", &format!("circuit:{provider}:{name}")]);
    let open = r#"{"breaker":{"state":"OPEN","failures":["2025-01-12T10:29:58.000Z","2025-01-12T10:30:00.000Z"],
        "since":"2025-01-12T10:30:00.000Z","nextProbeAt":"2025-01-12T10:32:00.000Z"},"paused":null}"#;
    store.kv_write(vec![write(&provider, Some(open))], T0).await.unwrap();
    assert_eq!(get("state").as_deref(), Some("OPEN"));
    assert_eq!(get("failures").as_deref(), Some("2"));
    assert_eq!(get("last_failure").as_deref(), Some("2025-01-12T10:30:00.000Z"));
    let lasts: i64 = place.server.ask(&["PTTL", &format!("circuit:{provider}:failures")]);
    assert!((1..=60_000).contains(&lasts), "the count lasts {lasts} ms");

    let stale =
        KvWrite { expect: Some(1_000_000), ..write(&provider, Some(r#"{"breaker":{"state":"HALF_OPEN"}}"#)) };
    store.kv_write(vec![stale], T0).await.unwrap();
    assert_eq!(get("state").as_deref(), Some("OPEN"), "what was not written is not copied");

    store.kv_write(vec![write(&provider, Some(r#"{"breaker":{"state":"CLOSED"}}"#))], T0).await.unwrap();
    assert_eq!((get("state").as_deref(), get("failures").as_deref()), (Some("CLOSED"), Some("0")));
    assert_eq!(get("last_failure"), None);
    store.kv_write(vec![write(&provider, None)], T0).await.unwrap();
    assert_eq!((get("state"), get("failures")), (None, None), "a provider that is gone leaves nothing");
}

#[tokio::test]
async fn f4_when_several_nodes_write_the_circuit_keys_follow_the_last_write() {
    let place = Place::single();
    let provider = format!("shared-{}", place.options.prefix);
    let nodes = [place.store().await, place.store().await, place.store().await];
    let states = ["CLOSED", "OPEN", "HALF_OPEN"];
    for round in 0..100 {
        let write = |state: &str| write(&provider, Some(&format!(r#"{{"breaker":{{"state":"{state}"}}}}"#)));
        let [one, two, three] = [0, 1, 2].map(|at| nodes[at].kv_write(vec![write(states[at])], T0));
        let (one, two, three) = tokio::join!(one, two, three);
        one.and(two).and(three).unwrap();
        let entry = nodes[0].kv_get(PROVIDERS, &provider, T0).await.unwrap().unwrap();
        let state: String = place.server.ask(&["GET", &format!("circuit:{provider}:state")]);
        assert!(
            entry.value.as_str().contains(&format!("\"{state}\"")),
            "{state} in round {round}: {entry:?}"
        );
    }
}

#[tokio::test]
async fn f4_circuit_keys_are_written_in_a_cluster_too() {
    let place = Place::cluster();
    let store = place.store().await;
    let provider = format!("ses-{}", place.options.prefix);
    store.kv_write(vec![write(&provider, Some(r#"{"breaker":{"state":"OPEN"}}"#))], T0).await.unwrap();
    let key = format!("circuit:{provider}:state");
    let mut get = redis::cmd("GET");
    get.arg(&key);
    let state = store.link().command::<redis::Value>(&get).await.unwrap();
    assert_eq!(state, redis::Value::BulkString(b"OPEN".to_vec()));
}
