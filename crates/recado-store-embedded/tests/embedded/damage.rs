//! Bits that flip in the file: what is damaged is never given out as if it were whole, and stops nothing else.

use recado_core::{AttemptResult, AuditEvent, AuditKind, Damage, DeadLetter, NewJob, Payload, Transition};
use recado_store::prelude::*;
use recado_store::{AuditSpan, AuditTrim, KvWrite, KvWritten, Namespace, PageRequest, Redrive, Redriven};
use recado_store_embedded::EmbeddedStore;

use crate::given::{DAY, Directory, HOUR, T0, attempt, bury, claim, id, job, settle};

fn amount(name: &str) -> NewJob {
    NewJob {
        data: Payload::new(r#"{"amount":"AMOUNT-1000"}"#).unwrap(),
        user_id: Some("user-of-it".into()),
        ..job(name)
    }
}

/// Changes bytes of a closed store's file wherever they stand.
fn flip(home: &Directory, before: &[u8], after: &[u8]) {
    assert_eq!(before.len(), after.len());
    assert!(!home.log().exists(), "what is in the log is not in the file yet");
    let mut bytes = std::fs::read(home.file()).unwrap();
    let places: Vec<_> =
        (0..bytes.len() - before.len()).filter(|at| bytes[*at..].starts_with(before)).collect();
    assert!(!places.is_empty(), "there is nothing to flip");
    for at in places {
        bytes[at..at + after.len()].copy_from_slice(after);
    }
    std::fs::write(home.file(), bytes).unwrap();
}

async fn closed(store: EmbeddedStore) {
    store.close().await.unwrap();
    drop(store);
}

#[tokio::test]
async fn a_flipped_bit_is_found_when_the_job_is_claimed_and_others_are_whole() {
    for (before, after, damage) in [
        (&b"AMOUNT-1000"[..], &b"AMOUNT-9000"[..], Damage::Data),
        (b"AMOUNT-1000", b"AMOUNT-100\xff", Damage::Data),
        (b"{\"amount\"", b"{\"amount\x7f", Damage::Data),
        (b"user-of-it", b"user-of-iu", Damage::Identity),
        (b"struck", b"strucc", Damage::Identity),
        (b"struck", b"struc\xff", Damage::Identity),
    ] {
        let home = Directory::in_memory();
        let store = home.store();
        store.enqueue(vec![amount("struck"), job("whole")]).await.unwrap();
        closed(store).await;
        flip(&home, before, after);
        let store = home.store();
        let leases = claim(&store, 10, T0).await;
        let found: Vec<_> = leases.iter().map(|lease| lease.job.damage()).collect();
        assert_eq!(found, [Some(damage), None], "{}", String::from_utf8_lossy(after));
        let buried = settle(&store, &leases[0], bury(&leases[0], Some("X"), "damaged")).await.unwrap();
        assert_eq!(buried, recado_store::Settled::Done);
        let listed = store.dead_letters(Default::default(), PageRequest { before: None, limit: 10 });
        let listed: Vec<_> = listed.await.unwrap().items.iter().map(DeadLetter::damage).collect();
        assert_eq!(listed, [Some(damage)], "it stays damaged, and can be looked at");
    }
}

#[tokio::test]
async fn a_history_or_a_status_that_cannot_be_read_stops_nothing() {
    let home = Directory::in_memory();
    let store = home.store();
    store.enqueue(vec![job("tried"), job("done")]).await.unwrap();
    let leases = claim(&store, 10, T0).await;
    let lost = Some(attempt(&leases[0], AttemptResult::Lost));
    settle(&store, &leases[0], Transition::Release { at: T0, lost }).await.unwrap();
    settle(&store, &leases[1], crate::given::deliver(&leases[1])).await.unwrap();
    closed(store).await;
    flip(&home, br#""result":"lost""#, br#""result";"lost""#);
    let file = rusqlite::Connection::open(home.file()).unwrap();
    assert_eq!(file.execute("UPDATE jobs SET status = 'senv' WHERE status = 'sent'", []).unwrap(), 1);
    drop(file);
    let store = home.store();
    let leases = claim(&store, 10, T0).await;
    let found: Vec<_> = leases.iter().map(|lease| (lease.job.id.as_str(), lease.job.damage())).collect();
    assert_eq!(found, [("tried", Some(Damage::Identity)), ("done", Some(Damage::Data))]);
    closed(store).await;
    let store = home.store();
    assert_eq!(store.counts(T0).await.unwrap().leased, 2, "leases of damaged jobs are read back");
}

#[tokio::test]
async fn a_dead_letter_that_was_struck_says_so_until_it_is_corrected() {
    let home = Directory::in_memory();
    let store = home.store();
    store.enqueue(vec![amount("a")]).await.unwrap();
    let leases = claim(&store, 1, T0).await;
    settle(&store, &leases[0], bury(&leases[0], None, "no such user")).await.unwrap();
    closed(store).await;
    flip(&home, b"AMOUNT-1000", b"AMOUNT-9000");
    let store = home.store();
    let entry = store.dead_letter(&id("a")).await.unwrap().unwrap();
    assert_eq!(entry.damage(), Some(Damage::Data));
    let moved = store.transfer(&id("a")).await.unwrap().unwrap();
    assert_eq!((moved.job.damage(), moved.checksum()), (Some(Damage::Data), moved.job.checksum.unwrap()));

    let redrive = |data| Redrive {
        id: id("a"),
        data,
        due_at: T0,
        expires_at: T0.plus(DAY),
        audit: AuditEvent::about(&moved.job, AuditKind::Replayed, T0),
        follow_ups: Vec::new(),
    };
    assert_eq!(store.redrive(redrive(None)).await.unwrap(), Redriven::Done);
    let leases = claim(&store, 1, T0.plus(HOUR)).await;
    assert_eq!(leases[0].job.damage(), Some(Damage::Data), "a replay without correction is still damaged");
    settle(&store, &leases[0], bury(&leases[0], None, "damaged")).await.unwrap();

    let corrected = Payload::new(r#"{"amount":"AMOUNT-1000"}"#).unwrap();
    assert_eq!(store.redrive(redrive(Some(corrected.clone()))).await.unwrap(), Redriven::Done);
    let entry = store.dead_letter(&id("a")).await.unwrap().unwrap();
    assert_eq!(entry.damage(), Some(Damage::OriginalData), "what was accepted is lost all the same");
    let leases = claim(&store, 1, T0.plus(HOUR * 2)).await;
    assert_eq!((leases[0].job.damage(), &leases[0].job.data), (None, &corrected));
}

#[tokio::test]
async fn damage_moves_with_the_job_to_another_store() {
    let (home, other) = (Directory::in_memory(), Directory::in_memory());
    let store = home.store();
    store.enqueue(vec![amount("a"), job("b")]).await.unwrap();
    closed(store).await;
    flip(&home, b"AMOUNT-1000", b"AMOUNT-9000");
    let (store, target) = (home.store(), other.store());
    let moved = store.transfers(None, 10).await.unwrap().items;
    target.adopt(moved).await.unwrap();
    let leases = claim(&target, 10, T0).await;
    let found: Vec<_> = leases.iter().map(|lease| lease.job.damage()).collect();
    assert_eq!(found, [Some(Damage::Data), None]);
}

#[tokio::test]
async fn a_damaged_note_is_left_out_and_can_be_written_anew() {
    const ENDPOINTS: Namespace = Namespace::new("endpoints");
    let write = |key: &str, expect| KvWrite {
        namespace: ENDPOINTS,
        key: key.into(),
        value: Some(Payload::new(&format!(r#"{{"url":"https://{key}.example"}}"#)).unwrap()),
        expect,
        audit: Vec::new(),
        expires_at: None,
    };
    let home = Directory::in_memory();
    let store = home.store();
    store.kv_write(vec![write("acme", None), write("bolt", None)], T0).await.unwrap();
    closed(store).await;
    flip(&home, b"https://acme", b"https://acmd");
    let store = home.store();
    let left = store.kv_list(ENDPOINTS, T0).await.unwrap();
    assert_eq!(left.iter().map(|note| &*note.key).collect::<Vec<_>>(), ["bolt"]);
    assert_eq!(store.kv_get(ENDPOINTS, "acme", T0).await.unwrap(), None);
    let noted = store.kv_write(vec![write("acme", Some(0))], T0).await.unwrap();
    assert!(matches!(noted[0], KvWritten::Done { .. }), "{noted:?}");
    assert!(store.kv_get(ENDPOINTS, "acme", T0).await.unwrap().is_some());
}

#[tokio::test]
async fn a_damaged_audit_record_is_left_out_and_stops_neither_archiving_nor_trimming() {
    let home = Directory::in_memory();
    let store = home.store();
    store.enqueue(vec![job("struck"), job("whole")]).await.unwrap();
    for name in ["struck", "whole"] {
        store.record(vec![AuditEvent::about(&job(name).into(), AuditKind::Replayed, T0)]).await.unwrap();
    }
    closed(store).await;
    flip(&home, b"\"jobId\":\"struck\"", b"\"jobId\":\"struck ");
    let store = home.store();
    let span = AuditSpan { part: 0, after: 0, newest_first: false };
    let read = store.audit_in(span, 10).await.unwrap();
    assert_eq!(read.iter().map(|record| record.event.job_id.as_deref()).collect::<Vec<_>>(), [Some("whole")]);
    assert!(store.audit(&id("struck")).await.unwrap().is_empty());
    let later = T0.plus(DAY);
    let trim = AuditTrim { part: 0, up_to: u64::MAX >> 1, before: later, forgotten_before: later };
    assert_eq!(store.trim_audit(trim).await.unwrap(), 2);
    assert_eq!(store.enqueue(vec![job("after")]).await.unwrap().len(), 1, "the store still works");
}
