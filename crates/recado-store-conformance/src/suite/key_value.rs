//! Small durable values, changed by compare-and-set on their version.

use std::time::Duration;

use recado_core::{AuditEvent, AuditKind, Timestamp};
use recado_store::{KvEntry, KvWrite, KvWritten, Pruned, Retention};
use tokio::task::JoinSet;

use super::audit_log::{on_record, trim};
use super::snapshot::Snapshot;
use crate::Home;
use crate::given::{ACCOUNTS, ENDPOINTS, HOUR, SECOND, T0, TestStore, payload, write};

/// Keeps all jobs.
const ENDED_KEPT: Retention = Retention { ended_max_age: Duration::MAX, ended_max_count: u64::MAX };

fn remove(key: &str) -> KvWrite {
    KvWrite { value: None, ..write(key, "null") }
}

fn expecting(version: u64, write: KvWrite) -> KvWrite {
    KvWrite { expect: Some(version), ..write }
}

fn until(at: Timestamp, write: KvWrite) -> KvWrite {
    KvWrite { expires_at: Some(at), ..write }
}

fn just_before(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis() - 1)
}

fn keys(entries: &[KvEntry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.key).collect()
}

pub async fn an_entry_is_read_as_it_was_written(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    assert_eq!(store.entry("smtp-1", T0).await, None);
    let value = r#"{"olá":"ação","n":[1,2]}"#;
    let version = store.written(until(T0.plus(HOUR), write("smtp-1", value)), T0).await;
    assert!(version > 0, "0 stands for absence");
    let written =
        KvEntry { key: "smtp-1".into(), value: payload(value), version, expires_at: Some(T0.plus(HOUR)) };
    assert_eq!(store.entry("smtp-1", T0).await, Some(written.clone()));
    assert_eq!(store.0.kv_list(ACCOUNTS, T0).await.unwrap(), [written]);
}

pub async fn a_namespace_is_read_by_key_and_namespaces_do_not_mix(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let sorted = ["", "%", "A", "a", "a b", "a'b", "a_", "ab", "b", "é", "日"];
    for key in sorted.iter().rev() {
        store.written(write(key, "1"), T0).await;
    }
    store.written(KvWrite { namespace: ENDPOINTS, ..write("a", "2") }, T0).await;
    assert_eq!(keys(&store.0.kv_list(ACCOUNTS, T0).await.unwrap()), sorted);
    let other = store.0.kv_list(ENDPOINTS, T0).await.unwrap();
    assert_eq!((keys(&other), other[0].value.as_str()), (vec!["a"], "2"));
    for key in sorted {
        let found = store.entry(key, T0).await.unwrap();
        assert_eq!((&*found.key, found.value.as_str()), (key, "1"));
    }
    store.written(remove("a"), T0).await;
    assert!(
        store.0.kv_get(ENDPOINTS, "a", T0).await.unwrap().is_some(),
        "the other namespace lost its entry"
    );
}

pub async fn a_write_that_expects_nothing_replaces_whatever_is_there(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let first = store.written(until(T0.plus(HOUR), write("a", "1")), T0).await;
    let second = store.written(write("a", "2"), T0).await;
    assert!(second > first);
    let found = store.entry("a", T0).await.unwrap();
    assert_eq!((found.value.as_str(), found.version), ("2", second));
    assert_eq!(found.expires_at, None, "the end is written anew as well");
    assert_eq!(store.0.kv_list(ACCOUNTS, T0).await.unwrap().len(), 1);
}

pub async fn a_write_happens_only_at_the_version_that_it_expects(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let absent = KvWritten::Conflict { version: 0 };
    assert_eq!(store.write(expecting(1, write("a", "1")), T0).await, absent, "there is none to replace");
    assert_eq!(store.write(expecting(1, remove("a")), T0).await, absent, "there is none to remove");
    let first = store.written(expecting(0, write("a", "1")), T0).await;
    let second = store.written(expecting(first, write("a", "2")), T0).await;

    let before = Snapshot::of(&store, T0).await;
    let conflict = KvWritten::Conflict { version: second };
    for expected in [0, first, second + 1, u64::MAX] {
        assert_eq!(store.write(expecting(expected, write("a", "3")), T0).await, conflict, "{expected}");
        assert_eq!(store.write(expecting(expected, remove("a")), T0).await, conflict, "{expected}");
        before.assert_same(&Snapshot::of(&store, T0).await, "after a conflict");
    }
    assert_eq!(store.entry("a", T0).await.unwrap().version, second);
}

pub async fn a_removed_entry_is_not_there(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let gone = KvWritten::Done { version: 0 };
    let version = store.written(write("a", "1"), T0).await;
    assert_eq!(store.write(expecting(version, remove("a")), T0).await, gone);
    assert_eq!(store.entry("a", T0).await, None);
    assert_eq!(store.0.kv_list(ACCOUNTS, T0).await.unwrap(), []);
    assert_eq!(store.write(remove("a"), T0).await, gone, "removing it again is safe");
    assert_eq!(store.write(expecting(0, remove("a")), T0).await, gone);
    assert_eq!(
        store.write(expecting(version, remove("a")), T0).await,
        KvWritten::Conflict { version: 0 },
        "a writer that expects a value learns that there is none"
    );
}

pub async fn versions_grow_over_all_namespaces(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let mut last = 0;
    for round in 0..20 {
        let namespace = [ACCOUNTS, ENDPOINTS][round % 2];
        let version =
            store.written(KvWrite { namespace, ..write(["a", "b", "c"][round % 3], "1") }, T0).await;
        assert!(version > last, "{version} came after {last}");
        last = version;
    }
}

/// A slow writer read an entry; meanwhile it was lost in one way or another, and written again.
pub async fn an_entry_written_again_is_not_taken_for_the_old_one(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let later = T0.plus(HOUR);
    for way in ["removed", "expired", "expired and pruned"] {
        let read = store.written(until(later, write("a", "\"old\"")), T0).await;
        match way {
            "removed" => assert_eq!(store.write(remove("a"), T0).await, KvWritten::Done { version: 0 }),
            "expired" => {}
            _ => assert_eq!(store.0.prune(ENDED_KEPT, later).await.unwrap().kv_entries, 1),
        }
        let now = if way == "removed" { T0 } else { later };
        let written = store.written(expecting(0, write("a", "\"new\"")), now).await;
        assert!(written > read, "{way}: {written} came after {read}");
        let slow = store.write(expecting(read, write("a", "\"slow\"")), now).await;
        assert_eq!(slow, KvWritten::Conflict { version: written }, "{way}");
        assert_eq!(store.entry("a", now).await.unwrap().value.as_str(), "\"new\"", "{way}");
        store.written(remove("a"), now).await;
    }
}

pub async fn an_entry_whose_time_is_over_is_absent_to_every_verb(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let end = T0.plus(HOUR);
    let version = store.written(until(end, write("a", "1")), T0).await;
    store.written(write("b", "2"), T0).await;
    assert!(store.entry("a", just_before(end)).await.is_some());
    assert_eq!(keys(&store.0.kv_list(ACCOUNTS, just_before(end)).await.unwrap()), ["a", "b"]);
    assert_eq!(store.entry("a", end).await, None);
    assert_eq!(keys(&store.0.kv_list(ACCOUNTS, end).await.unwrap()), ["b"]);

    let absent = KvWritten::Conflict { version: 0 };
    assert_eq!(store.write(expecting(version, write("a", "3")), end).await, absent);
    assert_eq!(store.write(expecting(version, remove("a")), end).await, absent);
    store.written(expecting(0, write("a", "4")), end).await;
    assert_eq!(store.entry("a", end).await.unwrap().value.as_str(), "4");
}

pub async fn an_entry_that_is_over_when_it_is_written_was_never_there(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.written(write("a", "1"), T0).await;
    store.written(until(T0, write("a", "2")), T0).await;
    assert_eq!(store.entry("a", T0).await, None, "it took the place of the old one");
    assert_eq!(store.0.prune(ENDED_KEPT, T0).await.unwrap().kv_entries, 1);
}

pub async fn entries_whose_time_is_over_are_pruned_and_no_others(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let end = T0.plus(HOUR);
    store.written(until(end, write("over", "1")), T0).await;
    store.written(KvWrite { namespace: ENDPOINTS, ..until(end, write("over", "1")) }, T0).await;
    store.written(until(end.plus(SECOND), write("not-yet", "1")), T0).await;
    store.written(until(end, write("lifted", "1")), T0).await;
    store.written(write("lifted", "1"), T0).await;
    store.written(write("for-good", "1"), T0).await;
    assert_eq!(store.0.prune(ENDED_KEPT, just_before(end)).await.unwrap(), Pruned::default());
    let pruned = store.0.prune(ENDED_KEPT, end).await.unwrap();
    assert_eq!(pruned, Pruned { kv_entries: 2, ..Pruned::default() });
    assert_eq!(keys(&store.0.kv_list(ACCOUNTS, T0).await.unwrap()), ["for-good", "lifted", "not-yet"]);
    assert_eq!(store.0.prune(ENDED_KEPT, end).await.unwrap(), Pruned::default(), "they are counted once");
}

pub async fn thousands_of_entries_are_pruned_bite_by_bite(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let entries = (0..2_500).map(|n| until(T0, write(&format!("entry-{n}"), "1"))).collect();
    store.0.kv_write(entries, T0).await.unwrap();
    let mut removed = 0;
    for _ in 0..1_000 {
        let batch = store.0.prune(ENDED_KEPT, T0).await.unwrap();
        removed += batch.kv_entries;
        if !batch.more {
            break;
        }
        assert!(batch.kv_entries > 0, "there is more, and none of it was taken");
    }
    assert_eq!(removed, 2_500);
}

pub async fn a_batch_of_writes_is_answered_in_order_each_on_its_own(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    assert_eq!(store.0.kv_write(Vec::new(), T0).await.unwrap(), []);
    let batch = vec![
        expecting(0, write("a", "1")),
        expecting(0, write("a", "2")),
        write("a", "3"),
        remove("b"),
        expecting(0, write("b", "4")),
    ];
    let answers = store.0.kv_write(batch, T0).await.unwrap();
    let [
        KvWritten::Done { version: first },
        KvWritten::Conflict { version: stood },
        KvWritten::Done { version: second },
        KvWritten::Done { version: 0 },
        KvWritten::Done { version: third },
    ] = answers[..]
    else {
        panic!("{answers:?}");
    };
    assert!(first == stood && first < second && second < third, "{answers:?}");
    assert_eq!(store.entry("a", T0).await.unwrap().value.as_str(), "3");
    assert_eq!(store.entry("b", T0).await.unwrap().value.as_str(), "4");
}

pub async fn an_entry_and_its_records_are_written_together_or_not_at_all(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let act = |company: &str| AuditEvent::about_company(company, AuditKind::TenantPaused, T0).by(Some("ana"));
    let recorded = |companies: &[&str], write: KvWrite| KvWrite {
        audit: companies.iter().map(|company| act(company)).collect(),
        ..write
    };
    let batch = vec![
        recorded(&["one", "two"], expecting(0, write("a", "1"))),
        recorded(&["refused"], expecting(0, write("a", "2"))),
        recorded(&["three"], remove("a")),
        write("b", "3"),
    ];
    let answers = store.0.kv_write(batch, T0).await.unwrap();
    assert!(matches!(answers[1], KvWritten::Conflict { .. }), "{answers:?}");
    let on_record = async |store: &TestStore| {
        let records = on_record(store).await.into_iter().map(|record| record.event);
        let mut records: Vec<_> = records.collect();
        records.sort_by(|a, b| a.company_id.cmp(&b.company_id));
        records
    };
    let expected = ["one", "three", "two"].map(act);
    assert_eq!(
        on_record(&store).await,
        expected,
        "what was refused left a record, or what was done left none"
    );
    let gone = trim(&store, u64::MAX >> 1, T0.plus(SECOND), T0.plus(SECOND)).await;
    assert_eq!((gone, on_record(&store).await), (3, Vec::new()), "they are trimmed like others");
}

pub async fn changes_at_once_lose_none(home: &mut dyn Home) {
    const TASKS: u64 = 32;
    const INCREMENTS: u64 = 4;
    let store = TestStore::at(home).await;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let store = store.clone();
        tasks.spawn(async move {
            for _ in 0..INCREMENTS {
                while !increment(&store).await {}
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(store.entry("count", T0).await.unwrap().value.as_str(), (TASKS * INCREMENTS).to_string());
}

/// One try to read, add and write back.
async fn increment(store: &TestStore) -> bool {
    let (count, version) = match store.entry("count", T0).await {
        Some(entry) => (entry.value.parse::<u64>().unwrap(), entry.version),
        None => (0, 0),
    };
    // The others get their chance between the reading and the writing.
    tokio::task::yield_now().await;
    let write = expecting(version, write("count", &(count + 1).to_string()));
    matches!(store.write(write, T0).await, KvWritten::Done { .. })
}
