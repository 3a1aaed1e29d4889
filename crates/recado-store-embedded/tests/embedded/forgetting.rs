//! What is forgotten is gone from the disk, and not only from sight.

use recado_core::{AttemptResult, AuditEvent, AuditKind, Payload, Transition};
use recado_store::{Settlement, Store};

use crate::given::{Directory, HOUR, T0, attempt, claim, deliver, id, job};

/// What a person is known by.
const CANARY: &str = "maria.canario@example.com";

/// How often the person is named in the store's files.
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
    // Whoever comes next finds the log folded.
    store.record(Vec::new()).await.unwrap();
    assert_eq!(named(&home), 0, "while the store is open");
}
