//! A disk that is really full: a small one of its own, in a mount namespace of its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use recado_core::{AttemptResult, Lease, NewJob, RouteName, Status, Transition};
use recado_store::prelude::*;
use recado_store::{Extended, Settled, Settlement, StoreError};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::again;
use crate::given::{
    Directory, HOUR, T0, accepted, attempt, claim, deliver, heavy, id, job, open, options, runtime, settle,
    settle_with, word_of,
};
use crate::room::accepted_soon;

const DISK: &str = "size=12m";

/// Mounts a small disk on `$1` and goes on with the rest of the command line.
const MOUNT: &str = r#"mount -t tmpfs -o "$0" tmpfs "$1" && shift && exec "$@""#;

/// Runs `test` again on a small disk, or `body` when this is that run.
fn on_a_small_disk(test: &str, body: impl AsyncFnOnce(&Path)) {
    if let Some(dir) = again::work_dir() {
        return runtime().block_on(body(&dir));
    }
    let home = Directory::new();
    let unshare = |flags: &[&str], rest: &[String]| {
        let mut command = Command::new("unshare");
        command.args(flags).args(["sh", "-c", MOUNT, DISK]).arg(home.path()).args(rest);
        again::in_dir(&mut command, home.path()).output()
    };
    let ways: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];
    let can =
        |flags: &&[&str]| unshare(flags, &["true".to_owned()]).is_ok_and(|tried| tried.status.success());
    let Some(flags) = ways.into_iter().find(can) else {
        panic!(
            "this test needs a disk it can fill: run it as root, or allow user namespaces \
             (sysctl kernel.unprivileged_userns_clone=1), and install `unshare` and `mount` (util-linux)"
        );
    };
    let run = unshare(flags, &again::arguments(test)).unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && out.contains("1 passed"), "on the small disk:\n{out}\n{err}");
}

/// Takes every free byte of the disk, as another program would.
fn fill(ballast: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(ballast).unwrap();
    let block = [0_u8; 4_096];
    let error = loop {
        if let Err(error) = file.write_all(&block) {
            break error;
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
}

#[test]
fn a_disk_that_another_program_fills_loses_nothing_and_goes_on_when_there_is_room() {
    let name = "full_disk::a_disk_that_another_program_fills_loses_nothing_and_goes_on_when_there_is_room";
    on_a_small_disk(name, async |dir| {
        let store = open(&options(dir)).unwrap();
        assert!(accepted(&store.enqueue(vec![job("held")]).await));
        let lease = claim(&store, 1, T0).await.remove(0);
        let until = T0.plus(2 * HOUR);
        assert_eq!(store.extend(vec![lease.token], until).await.unwrap(), [Extended::Until(until)]);

        // A job of another route waits, and its listener knows of it.
        let sms = RouteName::new("sms").unwrap();
        assert!(accepted(&store.enqueue(vec![NewJob { route: sms.clone(), ..job("text") }]).await));
        accepted_soon(&store, "after-text").await;
        let mut waker = store.waker(&sms);

        let ballast = dir.join("ballast");
        let mut acknowledged = vec!["held".to_owned(), "text".to_owned(), "after-text".to_owned()];
        let mut refused: Vec<String> = Vec::new();
        let mut fired = false;
        for round in 0..50 {
            // The guard looks now, and is fooled for as long as its look is good for.
            let small = format!("small-{round}");
            accepted_soon(&store, &small).await;
            acknowledged.push(small);
            fill(&ballast);
            refused = (0..100).map(|n| format!("big-{round}-{n}")).collect();
            let batch = refused.iter().map(|name| heavy(name, 4_000)).collect();
            match store.enqueue(batch).await {
                Err(StoreError::Full(why)) => fired = why.contains("ran full"),
                other => panic!("400 kB were taken in by a full disk: {other:?}"),
            }
            if fired {
                break;
            }
            std::fs::remove_file(&ballast).unwrap();
        }
        assert!(fired, "SQLite was never told that the disk is full: nothing was tested");

        let woken = tokio::time::timeout(Duration::from_secs(10), waker.wait()).await;
        assert!(woken.is_ok(), "the queues were read again, and a listener goes by what it knew before");
        for name in &refused {
            assert!(store.job(&id(name), T0).await.unwrap().is_none(), "{name} was refused and is there");
        }
        assert_there(&store, &acknowledged).await;
        let found = store.lease(lease.token).await.unwrap().expect("the lease is gone");
        assert_eq!(found.expires_at, until, "the lease's extension is forgotten");

        std::fs::remove_file(&ballast).unwrap();
        accepted_soon(&store, "room-again").await;
        acknowledged.push("room-again".to_owned());
        let batch = refused.iter().map(|name| heavy(name, 4_000)).collect();
        assert!(accepted(&store.enqueue(batch).await), "what was refused can be asked for again");
        acknowledged.append(&mut refused);
        assert_eq!(settle(&store, &lease, deliver(&lease)).await.unwrap(), Settled::Done);

        store.close().await.unwrap();
        drop(store);
        let store = open(&options(dir)).unwrap();
        assert_there(&store, &acknowledged).await;
        assert_eq!(store.job(&id("held"), T0).await.unwrap().unwrap().status, Status::Sent);
    });
}

#[test]
fn a_disk_that_jobs_fill_keeps_enough_room_to_end_every_one_of_them() {
    let name = "full_disk::a_disk_that_jobs_fill_keeps_enough_room_to_end_every_one_of_them";
    on_a_small_disk(name, async |dir| {
        let reserve_bytes = 3 << 20;
        let store = open(&EmbeddedOptions { reserve_bytes, ..options(dir) }).unwrap();
        let mut taken = 0;
        let why = loop {
            let batch = (0..20).map(|n| heavy(&format!("job-{}", taken + n), 1_000)).collect();
            match store.enqueue(batch).await {
                Ok(_) => taken += 20,
                Err(StoreError::Full(why)) => break why,
                Err(other) => panic!("{other}"),
            }
            assert!(taken < 20_000, "twenty megabytes were taken in by a disk of twelve");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        };
        assert!(why.contains("kept back"), "the disk itself ran full: {why}");
        assert!(taken > 500, "refused after {taken} jobs only");

        // Each fails twice before it is delivered, and then brings about a small one: all in all more is written
        // than the disk could hold.
        let mut settled = 0;
        while settled < 3 * taken {
            let leases = claim(&store, 20, T0).await;
            assert!(!leases.is_empty(), "{settled} of {} were settled, and no more came", 3 * taken);
            let settlement = |lease: &Lease| {
                let (transition, follow_ups) = match lease.attempt {
                    ..3 => (fail(lease), Vec::new()),
                    _ => (deliver(lease), vec![word_of(lease.job.id.as_str())]),
                };
                Settlement { token: lease.token, transition, audit: None, now: T0, follow_ups }
            };
            let answers = store.settle(leases.iter().map(settlement).collect()).await;
            let answers = answers.unwrap_or_else(|error| panic!("after {settled} settlements: {error}"));
            assert!(answers.iter().all(|answer| *answer == Settled::Done));
            settled += leases.len();
        }
        let counts = store.counts(T0).await.unwrap();
        assert_eq!((counts.ended, counts.ready), (taken as u64, taken as u64));
    });
}

#[test]
fn a_settlement_whose_follow_up_does_not_fit_has_not_happened() {
    let name = "full_disk::a_settlement_whose_follow_up_does_not_fit_has_not_happened";
    on_a_small_disk(name, async |dir| {
        let store = open(&options(dir)).unwrap();
        assert!(accepted(&store.enqueue(vec![job("a")]).await));
        let lease = claim(&store, 1, T0).await.remove(0);
        let ballast = dir.join("ballast");
        fill(&ballast);
        let follow_ups = || vec![word_of("a"), heavy("big", 400_000)];
        match settle_with(&store, &lease, deliver(&lease), follow_ups()).await {
            Err(StoreError::Full(why)) => assert!(why.contains("ran full"), "{why}"),
            other => panic!("400 kB were taken in by a full disk: {other:?}"),
        }
        assert_eq!(store.job(&id("a"), T0).await.unwrap().unwrap().status, Status::Delivering);
        for name in ["word-of-a", "big"] {
            assert!(store.job(&id(name), T0).await.unwrap().is_none(), "{name} follows on nothing");
        }

        std::fs::remove_file(&ballast).unwrap();
        let settled = settle_with(&store, &lease, deliver(&lease), follow_ups()).await;
        assert_eq!(settled.unwrap(), Settled::Done);
        assert_there(&store, &["word-of-a".to_owned(), "big".to_owned()]).await;
        assert_eq!(store.job(&id("a"), T0).await.unwrap().unwrap().status, Status::Sent);
    });
}

fn fail(lease: &Lease) -> Transition {
    Transition::RetryAt { at: T0, attempt: attempt(lease, AttemptResult::Failed) }
}

async fn assert_there(store: &EmbeddedStore, names: &[String]) {
    for name in names {
        assert!(store.job(&id(name), T0).await.unwrap().is_some(), "{name} was acknowledged and is gone");
    }
}
