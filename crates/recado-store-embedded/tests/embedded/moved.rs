//! A data directory that is moved or removed under an open store: nothing is acknowledged from then on.

use recado_store::prelude::*;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use recado_store::{Claim, Pick, StoreError, Turns};
use recado_store_embedded::EmbeddedStore;

use crate::given::{Directory, HOUR, T0, claim, job, options};

/// Time that anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn data_dir(home: &Directory) -> PathBuf {
    home.path().join("data")
}

async fn refused(store: &EmbeddedStore, name: &str) -> String {
    match store.enqueue(vec![job(name)]).await {
        Err(StoreError::Broken(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_moved_directory_is_noticed_before_anything_else_is_acknowledged() {
    let home = Directory::in_memory();
    let (dir, elsewhere) = (data_dir(&home), home.path().join("elsewhere"));
    let store = EmbeddedStore::open(&options(&dir)).unwrap();
    store.enqueue(vec![job("before")]).await.unwrap();
    std::fs::rename(&dir, &elsewhere).unwrap();
    let why = refused(&store, "after").await;
    assert!(why.contains("was moved, removed or replaced"), "{why}");
    refused(&store, "later").await;
    assert!(matches!(store.report().await, Err(StoreError::Broken(_))), "it still says that it is well");

    // Another process may be at the old place by now.
    let newcomer = EmbeddedStore::open(&options(&dir)).unwrap();
    newcomer.enqueue(vec![job("newcomer")]).await.unwrap();
    drop(store);
    newcomer.enqueue(vec![job("second")]).await.unwrap();
    drop(newcomer);
    let leases = claim(&EmbeddedStore::open(&options(&dir)).unwrap(), 9, T0).await;
    assert_eq!(leases.len(), 2, "the old store's end took something away from the new one");
    let leases = claim(&EmbeddedStore::open(&options(&elsewhere)).unwrap(), 9, T0).await;
    assert!(leases.iter().any(|lease| lease.job.id.as_str() == "before"), "what was acknowledged is gone");
}

#[tokio::test]
async fn a_removed_or_replaced_directory_is_noticed_too() {
    let home = Directory::in_memory();
    let dir = data_dir(&home);
    let store = EmbeddedStore::open(&options(&dir)).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    refused(&store, "after").await;
    drop(store);
    let store = EmbeddedStore::open(&options(&dir)).unwrap();
    let file = dir.join(recado_store_embedded::FILE_NAME);
    std::fs::copy(&file, dir.join("copy")).unwrap();
    std::fs::rename(dir.join("copy"), &file).unwrap();
    let why = refused(&store, "after").await;
    assert!(why.contains("recado.db"), "{why}");
}

#[tokio::test]
async fn it_is_noticed_while_nothing_is_written() {
    let home = Directory::in_memory();
    let dir = data_dir(&home);
    let store = EmbeddedStore::open(&options(&dir)).unwrap();
    std::fs::rename(&dir, home.path().join("elsewhere")).unwrap();
    let began = Instant::now();
    loop {
        let claim = Claim {
            pick: Pick::Orphaned,
            max: 1,
            now: T0,
            lease_until: T0.plus(HOUR),
            worker: "node".into(),
            provider: None,
            outlives_process: false,
            turns: Turns::default(),
        };
        match store.claim(claim).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(StoreError::Broken(_)) => return,
            Err(error) => panic!("{error}"),
        }
        assert!(began.elapsed() < PATIENCE, "it is not noticed");
    }
}
