//! `kill -9` in the middle of everything.

use recado_store::prelude::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use recado_core::Status;
use recado_store::{Claim, Pick, Settled, Turns};

use crate::again;
use crate::given::{
    Directory, HOUR, T0, accepted, claim, deliver, heavy, id, options, runtime, settle_with, word_of,
};
use recado_store_embedded::{EmbeddedStore, lock_holder};

/// Words that the victim has said when it is killed.
const WORDS_MIN: usize = 400;

#[test]
fn what_was_acknowledged_before_kill_9_is_there_afterwards() {
    if let Some(dir) = again::work_dir() {
        runtime().block_on(work_until_killed(&dir));
    }
    let home = Directory::new();
    let arguments = again::arguments("crash::what_was_acknowledged_before_kill_9_is_there_afterwards");
    let mut command = Command::new(&arguments[0]);
    command.args(&arguments[1..]).stdout(Stdio::piped());
    let mut victim = again::in_dir(&mut command, home.path()).spawn().unwrap();
    let mut output = BufReader::new(victim.stdout.take().unwrap());

    let mut said: Vec<String> = Vec::new();
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        // The last line may be cut off where the victim was.
        if line.ends_with('\n') {
            said.extend(line.strip_prefix("done ").map(|words| words.trim_end().to_owned()));
        }
        line.clear();
        if said.len() == WORDS_MIN {
            victim.kill().unwrap();
        }
    }
    let status = victim.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "the victim was not killed in the middle of its work: {status:?}");
    assert_eq!(lock_holder(home.path()), None, "a dead process holds the directory");
    runtime().block_on(assert_kept(&home, &said));
}

/// Enqueues, claims and delivers without end, and says each thing once it is acknowledged.
async fn work_until_killed(dir: &Path) -> ! {
    let store = Arc::new(EmbeddedStore::open(&options(dir)).unwrap());
    let say = |words: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "done {words}").unwrap();
        out.flush().unwrap();
    };
    for worker in 0..4 {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0.. {
                let name = format!("{worker}-{n}");
                assert!(accepted(&store.enqueue(vec![heavy(&name, 700)]).await));
                say(&format!("enqueue {name}"));
                if n % 3 == 0 {
                    for lease in claim(&store, 2, T0).await {
                        let follow_ups = vec![word_of(lease.job.id.as_str())];
                        let settled = settle_with(&store, &lease, deliver(&lease), follow_ups).await;
                        assert_eq!(settled.unwrap(), Settled::Done);
                        say(&format!("deliver {}", lease.job.id));
                    }
                }
            }
        });
    }
    std::future::pending().await
}

async fn assert_kept(home: &Directory, said: &[String]) {
    let store = home.store();
    let (mut enqueued, mut delivered) = (0, 0);
    for words in said {
        let (verb, name) = words.split_once(' ').unwrap();
        let view = store.job(&id(name), T0).await.unwrap();
        let view = view.unwrap_or_else(|| panic!("{name} was acknowledged and is gone"));
        // Acknowledged or not: a delivery and what follows on it are there together or not at all.
        let word = store.job(&word_of(name).id, T0).await.unwrap();
        assert_eq!(word.is_some(), view.status == Status::Sent, "{name} is {}", view.status);
        match verb {
            "enqueue" => enqueued += 1,
            _ => {
                delivered += 1;
                assert_eq!(view.status, Status::Sent, "{name} was delivered and acknowledged");
            }
        }
    }
    assert!(enqueued > 100 && delivered > 20, "{enqueued} enqueued, {delivered} delivered: too few to tell");
    let worker = "after".into();
    let orphans = Claim {
        pick: Pick::Orphaned,
        max: 100,
        now: T0,
        lease_until: T0.plus(HOUR),
        worker,
        provider: None,
        outlives_process: false,
        turns: Turns::default(),
    };
    let held = store.counts(T0).await.unwrap().leased;
    assert_eq!(
        store.claim(orphans).await.unwrap().leases.len() as u64,
        held,
        "what it held is taken over at once"
    );
}
