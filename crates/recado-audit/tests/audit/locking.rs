//! One process writes; readers need no lock of the writer's.

use std::sync::atomic::{AtomicBool, Ordering};

use recado_audit::{Error, Identity, Options, Query, Subject, Trail, search};

use crate::given::{Place, at, entries};

#[test]
fn a_second_writer_is_refused_and_told_who_has_the_trail() {
    let place = Place::new();
    let first = place.open();
    let error = Trail::open(place.dir(), &Options::default()).unwrap_err();
    assert!(matches!(error, Error::Held { .. }), "{error}");
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    drop(first);
    drop(place.open());
}

#[test]
fn readers_read_while_a_writer_writes() {
    let place = Place::new();
    let mut trail = place.open();
    for batch in 0..20 {
        trail.append(&entries(batch * 5 + 1..=batch * 5 + 5), at("2026-11-15T12:00:00Z")).unwrap();
        assert_eq!(place.assert_whole().records, batch * 5 + 5);
        assert_eq!(search(place.dir(), &Query::default()).unwrap().records[0].sequence, batch * 5 + 5);
    }
}

#[test]
fn a_reader_in_the_middle_of_an_append_finds_nothing_wrong() {
    let place = Place::three_months();
    let _writer = place.open();
    let mut bytes = place.read("2026-11.jsonl");
    bytes.extend_from_slice(br#"{"v":1,"sequence":61,"previ"#);
    place.write("2026-11.jsonl", bytes);
    assert_eq!(place.assert_whole().records, 60);
    assert_eq!(search(place.dir(), &Query::default()).unwrap().records[0].sequence, 60);
}

#[test]
fn readers_that_come_in_the_middle_of_erasures_see_the_trail_before_or_after() {
    let place = Place::three_months();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut trail = place.open();
            for user in 0..10_u64 {
                trail.append(&entries(61 + user * 5..=65 + user * 5), at("2026-11-15T12:00:00Z")).unwrap();
                let identity = Identity::User(format!("user-{user}").into());
                let subject = Subject { identity, company: None };
                trail.erase(&subject, "ana", "pedido 17", at("2026-11-15T12:00:00Z")).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let mut rounds = 0;
        while !done.load(Ordering::Acquire) {
            let report = place.assert_whole();
            assert!(report.records >= 60);
            rounds += 1;
        }
        assert!(rounds > 0);
    });
    assert_eq!(place.assert_whole().records, 60 + 10 * 6);
}

#[test]
fn a_copy_without_locks_and_key_can_be_verified_and_searched() {
    let place = Place::three_months();
    let copy = place.copy();
    for name in ["writer.lock", "reader.lock", "signing.pem", "2026-09.index", "2026-10.index"] {
        std::fs::remove_file(copy.path(name)).unwrap();
    }
    assert_eq!(copy.assert_whole().records, 60);
    let names = copy.names();
    assert_eq!(search(copy.dir(), &Query::default()).unwrap().records.len(), 60);
    assert_eq!(copy.names(), names, "a reader left something behind");
}
