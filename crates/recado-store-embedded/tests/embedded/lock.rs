//! One process at a time, and a file that is let go when it should be.

use recado_store::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

use recado_store::{Durability, JobFilter, PageRequest, StoreError};
use recado_store_embedded::{EmbeddedStore, LockError, OpenError, lock_holder};

use crate::given::{Directory, T0, accepted, id, job, options};

#[test]
fn a_second_store_on_the_same_directory_is_told_who_has_it() {
    let home = Directory::new();
    let first = home.store();
    let refused = EmbeddedStore::open(&options(home.path())).unwrap_err();
    let pid = std::process::id().to_string();
    assert!(
        matches!(&refused, OpenError::Lock(LockError::Held { holder, .. }) if *holder == pid),
        "{refused:?}"
    );
    let said = refused.to_string();
    let dir = home.path().display().to_string();
    assert!(said.contains(&pid) && said.contains(&dir) && said.contains("--data-dir"), "{said}");
    assert_eq!(lock_holder(home.path()), Some(pid));
    drop(first);
}

#[tokio::test]
async fn a_closed_store_lets_go_of_the_directory() {
    let home = Directory::new();
    let first = home.store();
    first.close().await.unwrap();
    assert_eq!(lock_holder(home.path()), None);
    let second = EmbeddedStore::open(&options(home.path()));
    assert!(second.is_ok(), "{:?}", second.unwrap_err().to_string());
}

#[tokio::test]
async fn a_dropped_store_finishes_what_it_was_asked_and_lets_go() {
    let home = Directory::new();
    for round in 0..20 {
        let store = home.store();
        let name = format!("job-{round}");
        {
            // Asked for, and the answer is not awaited.
            let asked = store.enqueue(vec![job(&name)]);
            tokio::pin!(asked);
            let _ = tokio::time::timeout(std::time::Duration::ZERO, &mut asked).await;
        }
        drop(store);
        let store = home.store();
        assert!(store.job(&id(&name), T0).await.unwrap().is_some(), "{name} was with the writer and is gone");
    }
}

/// A child has every file of its parent, locks included, until it becomes another program.
#[test]
fn a_store_opens_again_at_once_although_children_are_being_started() {
    let home = Directory::in_memory();
    let (opened, started) = (AtomicU32::new(0), AtomicU32::new(0));
    // However the machine shares itself out: enough of both, at the same time.
    let is_enough = || opened.load(Ordering::Relaxed) >= 100 && started.load(Ordering::Relaxed) >= 20;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_enough() {
                assert!(std::process::Command::new("true").status().unwrap().success());
                started.fetch_add(1, Ordering::Relaxed);
            }
        });
        while !is_enough() {
            // What must not happen ends the other one, too.
            let store = EmbeddedStore::open(&options(home.path()));
            opened.fetch_add(if store.is_ok() { 1 } else { 100 }, Ordering::Relaxed);
            drop(store.unwrap());
        }
    });
}

#[tokio::test]
async fn a_closed_store_says_so_and_does_not_hang() {
    let home = Directory::new();
    let store = home.store();
    store.enqueue(vec![job("a")]).await.unwrap();
    store.close().await.unwrap();
    let broken = |error: StoreError| matches!(error, StoreError::Broken(_));
    assert!(broken(store.enqueue(vec![job("b")]).await.unwrap_err()));
    assert!(broken(store.job(&id("a"), T0).await.unwrap_err()));
    let page = PageRequest { before: None, limit: 1 };
    assert!(broken(store.jobs(JobFilter::default(), page, T0).await.unwrap_err()));
    assert!(broken(store.report().await.unwrap_err()));
    assert!(broken(store.close().await.unwrap_err()));
}

#[tokio::test]
async fn a_closed_store_leaves_one_whole_file_behind() {
    let home = Directory::new();
    let store = home.store();
    assert!(accepted(&store.enqueue(vec![job("a")]).await));
    store.job(&id("a"), T0).await.unwrap();
    store.close().await.unwrap();
    assert!(!home.log().exists(), "the log was not folded back");
    let file = rusqlite::Connection::open(home.file()).unwrap();
    let jobs: i64 = file.query_row("SELECT count(*) FROM jobs", [], |row| row.get(0)).unwrap();
    assert_eq!(jobs, 1);
}

#[tokio::test]
async fn the_report_tells_the_promise_and_the_room() {
    let home = Directory::new();
    let store = home.store();
    let report = store.report().await.unwrap();
    assert_eq!((report.kind, report.durability), ("embedded", Durability::Fsync));
    assert!(report.size_bytes > 0 && report.free_bytes.is_some_and(|free| free > 0));
    assert_eq!(report.refusing, None);
}

#[test]
fn a_directory_that_cannot_be_made_is_named_in_the_error() {
    let home = Directory::new();
    let blocked = home.path().join("file");
    std::fs::write(&blocked, "not a directory").unwrap();
    let error = EmbeddedStore::open(&options(&blocked.join("data"))).unwrap_err();
    assert!(matches!(error, OpenError::Lock(LockError::Io { .. })), "{error:?}");
    assert!(error.to_string().contains("can be written"), "{error}");
}
