//! A forgotten job is gone from the disk, and not only from sight.

use recado_core::{AttemptResult, AuditEvent, AuditKind, Payload, Transition};
use recado_store::Settlement;
use recado_store::prelude::*;

use crate::given::{Directory, HOUR, T0, attempt, claim, deliver, id, job};

/// The name of a person.
const CANARY: &str = "maria.canario@example.com";

/// Times that the person is named in the store's files.
fn named(home: &Directory) -> usize {
    let files = std::fs::read_dir(home.path()).unwrap().map(|file| std::fs::read(file.unwrap().path()));
    let named =
        |bytes: Vec<u8>| bytes.windows(CANARY.len()).filter(|text| *text == CANARY.as_bytes()).count();
    files.map(|bytes| named(bytes.unwrap())).sum()
}

/// Short ones lie among others on a page, long ones fill pages of their own.
fn about_her(length: usize) -> Payload {
    let words = CANARY.repeat(length.div_ceil(CANARY.len()));
    Payload::new(&serde_json::to_string(&words).unwrap()).unwrap()
}

#[tokio::test]
async fn t18_nothing_of_a_forgotten_job_stays_in_the_files() {
    let home = Directory::new();
    let store = home.store();
    let mut hers = Vec::new();
    for nth in 0..60 {
        let mut new = job(&format!("job-{nth}"));
        if nth % 3 == 0 {
            new.data = about_her(if nth % 2 == 0 { 10 } else { 30_000 });
            new.user_id = Some(CANARY.into());
            hers.push(id(&format!("job-{nth}")));
        }
        store.enqueue(vec![new]).await.unwrap();
    }
    // Two attempts, so that every row was written more than once.
    for round in 0..2 {
        let now = T0.plus(HOUR * round);
        for lease in claim(&store, 60, now).await {
            let audit = AuditEvent::about(&lease.job, AuditKind::Delivered, now).reason(CANARY.to_owned());
            let transition = match round {
                0 => {
                    let attempt = attempt(&lease, AttemptResult::Lost);
                    Transition::Release { at: now, lost: Some(attempt) }
                }
                _ => deliver(&lease),
            };
            let audit = Some(audit).filter(|_| lease.job.user_id.is_some());
            let settlement =
                Settlement { token: lease.token, transition, audit, now, follow_ups: Vec::new() };
            store.settle(vec![settlement]).await.unwrap();
        }
    }
    assert!(named(&home) >= hers.len(), "she was never in the files: nothing was tested");
    assert_eq!(store.forget(hers).await.unwrap(), 20);
    // The next request finds the log folded.
    store.record(Vec::new()).await.unwrap();
    assert_eq!(named(&home), 0, "while the store is open");
}

/// Jobs that are forgotten at once: many pieces of the writer's work.
const MANY: usize = 2_000;

#[tokio::test(flavor = "multi_thread")]
async fn forgetting_many_jobs_lets_others_in_between() {
    let home = Directory::in_memory();
    let store = std::sync::Arc::new(home.store());
    let ids: Vec<_> = (0..MANY).map(|nth| format!("job-{nth}")).collect();
    store.enqueue(ids.iter().map(|name| job(name)).collect()).await.unwrap();
    let settlements = claim(&store, MANY, T0).await.into_iter().map(|lease| Settlement {
        token: lease.token,
        transition: deliver(&lease),
        audit: Some(AuditEvent::about(&lease.job, AuditKind::Delivered, T0)),
        now: T0,
        follow_ups: Vec::new(),
    });
    store.settle(settlements.collect()).await.unwrap();

    let forgetting = tokio::spawn({
        let store = store.clone();
        async move { store.forget(ids.iter().map(|name| id(name)).collect()).await.unwrap() }
    });
    let mut taken_in = 0;
    while !forgetting.is_finished() {
        store.enqueue(vec![job(&format!("other-{taken_in}"))]).await.unwrap();
        taken_in += 1;
    }
    assert_eq!(forgetting.await.unwrap(), MANY as u64);
    assert!(taken_in >= 10, "only {taken_in} others were taken in while {MANY} jobs were forgotten");
}

#[tokio::test]
async fn a_forget_waits_for_no_reader_and_cuts_the_log_once_it_is_gone() {
    let home = Directory::in_memory();
    let store = std::sync::Arc::new(home.store());
    store.enqueue(vec![job("a")]).await.unwrap();
    let leases = claim(&store, 1, T0).await;
    crate::given::settle(&store, &leases[0], deliver(&leases[0])).await.unwrap();
    let reader = rusqlite::Connection::open(home.file()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM jobs").unwrap();
    let forgetting = tokio::spawn({
        let store = store.clone();
        async move { store.forget(vec![id("a")]).await.unwrap() }
    });
    store.enqueue(vec![job("b")]).await.unwrap();
    assert!(!forgetting.is_finished(), "the reader is in the way: the log cannot be cut");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(forgetting.await.unwrap(), 1);
    assert_eq!(std::fs::metadata(home.log()).unwrap().len(), 0);
}
