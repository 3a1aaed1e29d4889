//! Room is refused before it is gone, and work that is in can always end.

use recado_store::prelude::*;
use std::time::{Duration, Instant};

use recado_core::Status;
use recado_store::{Enqueued, KvWrite, KvWritten, Namespace, Retention, Settled, StoreError};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::given::{
    Directory, T0, accepted, claim, deliver, heavy, id, job, options, settle, settle_with, word_of,
};

/// Room that has come back is noticed within this.
const NOTICE_MAX: Duration = Duration::from_secs(10);

fn full(answer: Result<Vec<Enqueued>, StoreError>) -> String {
    match answer {
        Err(StoreError::Full(why)) => why,
        other => panic!("not refused for want of room: {other:?}"),
    }
}

/// Asks again until the job is accepted.
pub async fn accepted_soon(store: &EmbeddedStore, name: &str) {
    let asked = Instant::now();
    while !accepted(&store.enqueue(vec![job(name)]).await) {
        assert!(asked.elapsed() < NOTICE_MAX, "{name} is refused although there is room again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn with_less_free_than_the_reserve_new_jobs_are_refused_and_old_ones_end() {
    let home = Directory::new();
    let store = home.store();
    assert!(accepted(&store.enqueue(vec![job("old")]).await));
    store.close().await.unwrap();
    drop(store);

    let store =
        EmbeddedStore::open(&EmbeddedOptions { reserve_bytes: u64::MAX, ..options(home.path()) }).unwrap();
    let why = full(store.enqueue(vec![job("new")]).await);
    assert!(why.contains("kept back") && why.contains("store.reserve"), "it says why and what to do: {why}");
    assert_eq!(store.report().await.unwrap().refusing, Some(why));
    assert!(store.job(&id("new"), T0).await.unwrap().is_none(), "a refused job was taken in");

    let lease = claim(&store, 1, T0).await.remove(0);
    assert_eq!(settle(&store, &lease, deliver(&lease)).await.unwrap(), Settled::Done);
    assert_eq!(store.job(&id("old"), T0).await.unwrap().unwrap().status, Status::Sent);
}

#[tokio::test]
async fn with_less_free_than_the_reserve_follow_ups_and_notes_are_still_taken_in() {
    let home = Directory::new();
    let store = home.store();
    assert!(accepted(&store.enqueue(vec![job("old")]).await));
    store.close().await.unwrap();
    drop(store);

    let store =
        EmbeddedStore::open(&EmbeddedOptions { reserve_bytes: u64::MAX, ..options(home.path()) }).unwrap();
    full(store.enqueue(vec![word_of("old")]).await);
    let lease = claim(&store, 1, T0).await.remove(0);
    let settled = settle_with(&store, &lease, deliver(&lease), vec![word_of("old")]).await.unwrap();
    assert_eq!(settled, Settled::Done);
    assert_eq!(store.job(&id("word-of-old"), T0).await.unwrap().unwrap().status, Status::Queued);

    let write = KvWrite {
        namespace: Namespace::new("pauses"),
        key: "email".into(),
        value: Some(lease.job.data),
        expect: None,
        expires_at: None,
        audit: Vec::new(),
    };
    assert_eq!(store.kv_write(vec![write], T0).await.unwrap(), [KvWritten::Done { version: 1 }]);
}

#[tokio::test]
async fn a_store_at_its_greatest_size_refuses_and_accepts_again_once_it_has_drained() {
    const MAX_BYTES: u64 = 1 << 20;
    let home = Directory::in_memory();
    let store =
        EmbeddedStore::open(&EmbeddedOptions { max_bytes: Some(MAX_BYTES), ..options(home.path()) }).unwrap();
    let mut taken = 0;
    let why = loop {
        let batch = (0..10).map(|n| heavy(&format!("job-{}", taken + n), 4_000)).collect();
        match store.enqueue(batch).await {
            Ok(_) => taken += 10,
            refused => break full(refused),
        }
        assert!(taken < 10_000, "forty megabytes were taken in where one was allowed");
        // Longer than a look at the disk is good for.
        tokio::time::sleep(Duration::from_millis(15)).await;
    };
    assert!(why.contains("store.max_size allows 1048576"), "{why}");
    assert!(taken * 4_000 > 512 << 10, "refused after {taken} jobs only");

    for lease in claim(&store, taken, T0).await {
        assert_eq!(settle(&store, &lease, deliver(&lease)).await.unwrap(), Settled::Done);
    }
    store.prune(Retention { ended_max_age: Duration::MAX, ended_max_count: 0 }, T0).await.unwrap();
    accepted_soon(&store, "after-draining").await;
}

#[tokio::test]
async fn the_log_is_folded_back_and_does_not_keep_its_greatest_size() {
    const FOLD_BYTES: u64 = 64 << 20;
    let home = Directory::in_memory();
    let store = home.store();
    let log = || std::fs::metadata(home.log()).map_or(0, |meta| meta.len());
    let mut greatest = 0;
    for batch in 0..100 {
        let jobs = (0..100).map(|n| heavy(&format!("job-{batch}-{n}"), 8_000)).collect();
        assert!(accepted(&store.enqueue(jobs).await));
        greatest = greatest.max(log());
    }
    assert!(
        greatest >= FOLD_BYTES,
        "80 megabytes were written and the log never grew past {greatest}: nothing was tested"
    );
    let asked = Instant::now();
    let mut quiet = 0;
    while log() >= FOLD_BYTES {
        assert!(asked.elapsed() < NOTICE_MAX, "the log still takes {} bytes", log());
        tokio::time::sleep(Duration::from_millis(20)).await;
        quiet += 1;
        store.enqueue(vec![job(&format!("quiet-{quiet}"))]).await.unwrap();
    }
}
