//! One commit serves all callers that waited for the last one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{NewJob, RouteName};
use recado_store::StoreError;
use recado_store::prelude::*;
use rusqlite::Connection;
use tokio::task::JoinSet;

use crate::given::{Directory, HOUR, T0, accepted, id, job};

const CALLERS: usize = 1_000;

/// Commits in a write-ahead log: frames that carry the file's size after the commit.
fn commits(log: &Path) -> usize {
    let log = std::fs::read(log).unwrap();
    let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let page = number(8) as usize;
    let salt = &log[16..24];
    let frames = (32..log.len()).step_by(24 + page).take_while(|frame| log[frame + 8..frame + 16] == *salt);
    frames.filter(|frame| number(frame + 4) != 0).count()
}

#[tokio::test]
async fn a_thousand_callers_who_wait_at_once_share_a_few_commits() {
    let home = Directory::new();
    let store = Arc::new(home.store());
    assert!(accepted(&store.enqueue(vec![job("first")]).await));
    let before = commits(&home.log());

    // While another connection holds the file, the writer waits with the first request and the others queue
    // up.
    let other = Connection::open(home.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut callers = JoinSet::new();
    for n in 0..CALLERS {
        let store = store.clone();
        callers.spawn(async move { accepted(&store.enqueue(vec![job(&format!("job-{n}"))]).await) });
    }
    for _ in 0..CALLERS {
        tokio::task::yield_now().await;
    }
    assert_eq!(commits(&home.log()), before, "nothing was committed while the file was held");
    assert!(callers.try_join_next().is_none(), "a caller was answered before its commit");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(callers.join_all().await.into_iter().all(|accepted| accepted), "a caller was refused");

    let used = commits(&home.log()) - before;
    assert!((1..=10).contains(&used), "{CALLERS} callers took {used} commits");
    assert_eq!(store.counts(T0).await.unwrap().ready, CALLERS as u64 + 1);
}

#[tokio::test]
async fn a_file_that_another_program_keeps_locked_is_an_error_to_try_again_after_and_not_the_end() {
    let home = Directory::in_memory();
    let store = home.store();
    let other = Connection::open(home.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.enqueue(vec![job("a")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("another program"), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(accepted(&store.enqueue(vec![job("a")]).await), "it goes on when the file is free");
    assert!(store.job(&id("a"), T0).await.unwrap().is_some());
}

#[tokio::test]
async fn a_job_that_is_due_after_another_wakes_no_listener() {
    let home = Directory::in_memory();
    let store = home.store();
    let scheduled = |name: &str, hours: u32| NewJob { due_at: T0.plus(HOUR * hours), ..job(name) };
    let mut waker = store.waker(&job("a").route);
    let mut is_woken = async |new: NewJob| {
        waker.reset();
        let of_another_route =
            NewJob { route: RouteName::new("sms").unwrap(), ..job(&format!("after-{}", new.id)) };
        assert!(accepted(&store.enqueue(vec![new]).await));
        // Commits are answered and listeners woken in order, so the wake-up has come by now or will not.
        assert!(accepted(&store.enqueue(vec![of_another_route]).await));
        tokio::time::timeout(Duration::ZERO, waker.wait()).await.is_ok()
    };
    assert!(is_woken(scheduled("second", 2)).await);
    assert!(!is_woken(scheduled("third", 3)).await, "listeners know of an earlier one");
    assert!(is_woken(scheduled("first", 1)).await);
    assert!(is_woken(job("now")).await);
}
