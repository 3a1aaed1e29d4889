//! The owner of a record: the job's row names it, and a row's number may be another job's one day.

use recado_core::{AuditEvent, AuditKind, Lease, Timestamp};
use recado_store::prelude::*;
use recado_store::{AuditSpan, AuditTrim, Retention, Settled, Settlement};
use recado_store_embedded::EmbeddedStore;
use rusqlite::Connection;

use crate::given::{DAY, Directory, HOUR, T0, claim, deliver, id, job};

/// Takes a job in and delivers it, with a record.
async fn send(store: &EmbeddedStore, name: &str) {
    store.enqueue(vec![job(name)]).await.unwrap();
    let lease = claim(store, 1, T0).await.remove(0);
    let audit = Some(AuditEvent::about(&lease.job, AuditKind::Delivered, T0));
    let Lease { token, .. } = lease;
    let settlement =
        Settlement { token, transition: deliver(&lease), audit, now: T0, follow_ups: Vec::new() };
    assert_eq!(store.settle(vec![settlement]).await.unwrap(), [Settled::Done]);
}

fn row_of(home: &Directory, name: &str) -> i64 {
    let file = Connection::open(home.file()).unwrap();
    file.query_row("SELECT seq FROM jobs WHERE jobId = ?1", [name], |row| row.get(0)).unwrap()
}

async fn claims_on_record(store: &EmbeddedStore) -> Vec<Box<str>> {
    let span = AuditSpan { part: 0, after: 0, newest_first: false };
    let records = store.audit_records(span, 10).await.unwrap();
    records.into_iter().map(|record| record.event.claim_id).collect()
}

#[tokio::test]
async fn a_job_in_the_row_of_a_forgotten_one_has_a_trail_of_its_own() {
    let home = Directory::new();
    let store = home.store();
    send(&store, "forgotten").await;
    let row = row_of(&home, "forgotten");
    let nothing = Retention { ended_max_age: DAY, ended_max_count: 0 };
    assert_eq!(store.prune(nothing, T0.plus(HOUR)).await.unwrap().ended, 1);
    store.close().await.unwrap();
    drop(store);

    let store = home.store();
    send(&store, "known").await;
    assert_eq!(row_of(&home, "known"), row, "the row was not given again: nothing was tested");
    let trail = store.audit(&id("known")).await.unwrap();
    assert_eq!(trail.iter().map(|event| &*event.claim_id).collect::<Vec<_>>(), ["known"]);

    store.record(vec![AuditEvent::about_route("email", AuditKind::RoutePaused, T0)]).await.unwrap();
    assert_eq!(claims_on_record(&store).await, ["forgotten".into(), "known".into(), Box::<str>::default()]);
    let long_ago = Timestamp::from_millis(0);
    let trim = AuditTrim { part: 0, up_to: 2, before: long_ago, forgotten_before: T0.plus(HOUR) };
    assert_eq!(store.trim_audit(trim).await.unwrap(), 1);
    assert_eq!(claims_on_record(&store).await, ["known".into(), Box::<str>::default()]);
}
