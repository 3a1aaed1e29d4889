//! The audit streams, as the archiver reads them.

use recado_store::prelude::*;
use recado_store::{AuditSpan, StoreError};

use crate::given::{T0, claim, delivered, jobs};
use crate::place::Place;

#[tokio::test]
async fn each_partition_has_a_stream_of_its_own() {
    let place = Place::single().in_partitions(3);
    let store = place.store().await;
    let new = jobs(0..30).into_iter().enumerate().map(|(nth, new)| recado_core::NewJob {
        company: recado_core::CompanyId::new(format!("company-{nth}")).unwrap(),
        ..new
    });
    store.enqueue(new.collect()).await.unwrap();
    let leases = store.claim(claim(30)).await.unwrap().leases;
    assert_eq!(leases.len(), 30);
    store.settle(leases.iter().map(delivered).collect()).await.unwrap();
    let span = |part| AuditSpan { part, after: 0, newest_first: false };
    assert_eq!(store.audit_parts(), 4, "the key-value entries have one, too");
    let mut counts = Vec::new();
    for part in 0..3 {
        counts.push(store.audit_in(span(part), 100).await.unwrap().len());
    }
    assert_eq!(counts.iter().sum::<usize>(), 30, "{counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let beyond = store.audit_in(span(4), 1).await;
    assert!(matches!(&beyond, Err(StoreError::Unavailable(words)) if words.contains("0 to 3")), "{beyond:?}");
}

#[tokio::test]
async fn numbers_rise_while_a_clock_that_was_set_back_catches_up() {
    let place = Place::single();
    let store = place.store().await;
    let number = async || {
        let one = recado_core::AuditEvent::about_route("email", recado_core::AuditKind::RoutePaused, T0);
        store.record(vec![one]).await.unwrap();
        let newest = AuditSpan { part: 0, after: 0, newest_first: true };
        store.audit_in(newest, 1).await.unwrap()[0].number
    };
    let before = number().await;
    // As many entries of one millisecond as there are numbers for, an hour from now by the server's clock.
    let [seconds, _]: [u64; 2] = place.server.ask(&["TIME"]);
    let full = format!("{}000-8191", seconds + 3_600);
    let key = format!("{}:{{0}}:audit", place.options.prefix);
    let _: String = place.server.ask(&["XADD", &key, &full, "", "{}"]);
    let _: u64 = place.server.ask(&["XDEL", &key, &full]);
    let (first, second) = (number().await, number().await);
    assert!(before < first && first < second, "{before} {first} {second}");
    let last: Vec<(String, Vec<String>)> = place.server.ask(&["XREVRANGE", &key, "+", "-", "COUNT", "1"]);
    assert_eq!(last[0].0, format!("{}001-1", seconds + 3_600), "the next millisecond is taken instead");
}
