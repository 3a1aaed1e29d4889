//! The audit streams, for whoever archives them.

use recado_store::{AuditSpan, Store, StoreError};

use crate::given::{claim, delivered, jobs};
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
    assert_eq!(store.audit_parts(), 3);
    let mut counts = Vec::new();
    for part in 0..3 {
        counts.push(store.audit_in(span(part), 100).await.unwrap().len());
    }
    assert_eq!(counts.iter().sum::<usize>(), 30, "{counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let beyond = store.audit_in(span(3), 1).await;
    assert!(matches!(&beyond, Err(StoreError::Unavailable(words)) if words.contains("0 to 2")), "{beyond:?}");
}
