//! The audit stream, for whoever archives it.

use recado_core::{AuditEvent, AuditKind};
use recado_store::{Store, StoreError};
use recado_store_redis::AuditCursor;

use crate::given::{T0, claim, delivered, jobs};
use crate::place::Place;

#[tokio::test]
async fn what_is_on_record_is_read_in_order_and_trimmed_up_to_a_place() {
    let place = Place::single();
    let store = place.store().await;
    store.enqueue(jobs(0..3)).await.unwrap();
    let leases = store.claim(claim(3)).await.unwrap().leases;
    store.settle(leases.iter().map(delivered).collect()).await.unwrap();
    store.record(vec![AuditEvent::claim("CLM-1", "tiss-claims", AuditKind::ClaimRefused, T0)]).await.unwrap();

    let first = store.audit_after(0, None, 2).await.unwrap();
    let rest = store.audit_after(0, Some(first[1].0), 100).await.unwrap();
    let about: Vec<_> = first.iter().chain(&rest).map(|(_, event)| &*event.claim_id).collect();
    assert_eq!(about, ["job-0", "job-1", "job-2", "CLM-1"]);
    assert!(first[0].0 < first[1].0 && first[1].0 < rest[0].0);

    assert_eq!(store.audit_trim(0, first[1].0).await.unwrap(), 2);
    let left = store.audit_after(0, None, 100).await.unwrap();
    assert_eq!(left, rest, "what was not archived stays");
    assert_eq!(store.audit(&leases[0].job.id).await.unwrap(), [], "its records are in the archive");
    assert_eq!(store.audit(&leases[2].job.id).await.unwrap().len(), 1);
    assert_eq!(store.audit_trim(0, first[1].0).await.unwrap(), 0, "once is enough");
}

#[tokio::test]
async fn each_partition_has_a_stream_of_its_own() {
    let place = Place::single().in_partitions(3);
    let store = place.store().await;
    let events = |n: usize| {
        let new = jobs(0..n).into_iter().enumerate().map(|(nth, new)| recado_core::NewJob {
            company: recado_core::CompanyId::new(format!("company-{nth}")).unwrap(),
            ..new
        });
        new.collect::<Vec<_>>()
    };
    store.enqueue(events(30)).await.unwrap();
    let leases = store.claim(claim(30)).await.unwrap().leases;
    assert_eq!(leases.len(), 30);
    store.settle(leases.iter().map(delivered).collect()).await.unwrap();
    let mut counts = Vec::new();
    for partition in 0..3 {
        counts.push(store.audit_after(partition, None, 100).await.unwrap().len());
    }
    assert_eq!(counts.iter().sum::<usize>(), 30, "{counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let beyond = store.audit_after(3, None, 1).await;
    assert!(matches!(&beyond, Err(StoreError::Unavailable(words)) if words.contains("0 to 2")), "{beyond:?}");
    assert_eq!(store.audit_after(0, Some(AuditCursor { at_ms: u64::MAX, nth: 0 }), 1).await.unwrap(), []);
}
