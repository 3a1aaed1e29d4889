//! Promises of durable stores when they are opened again.

use recado_core::{AuditEvent, AuditKind, NewJob, Status, Timestamp};
use recado_store::{Cancelled, Discarded, Enqueued, Extended, KvWrite, Pick, Redriven, Retention, Settled};

use super::audit_log::{on_record, trim};
use super::snapshot::Snapshot;
use super::transfer::{elsewhere, every_stage, given_by};
use crate::Home;
use crate::given::{
    ACCOUNTS, HOUR, OTHER_BODY, SECOND, Stage, T0, TestStore, deliver, job, jobs_of, priority, route, write,
};

/// Ends the store in good order and opens it again.
pub async fn reopen(store: TestStore, home: &mut dyn Home) -> TestStore {
    store.0.close().await.unwrap();
    drop(store);
    TestStore::at(home).await
}

async fn one_in_each_stage(store: &TestStore) {
    for stage in Stage::ALL {
        store.bring(&stage.name(), stage).await;
    }
    store.written(write("an-entry", "1"), T0).await;
}

pub async fn everything_is_there_after_a_clean_stop(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    one_in_each_stage(&store).await;
    let before = Snapshot::of(&store, T0).await;
    let store = reopen(store, home).await;
    before.assert_same(&Snapshot::of(&store, T0).await, "after close and open");
}

pub async fn everything_is_there_when_it_was_not_closed(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    one_in_each_stage(&store).await;
    let before = Snapshot::of(&store, T0).await;
    drop(store);
    let store = TestStore::at(home).await;
    before.assert_same(&Snapshot::of(&store, T0).await, "after drop and open");
}

pub async fn ids_stay_taken_in_every_phase(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    one_in_each_stage(&store).await;
    let store = reopen(store, home).await;
    for stage in Stage::ALL {
        let status = store.view(&stage.name(), T0).await.status;
        let same = store.enqueue(vec![job(&stage.name())]).await;
        assert_eq!(same, [Enqueued::Duplicate { status }], "{stage:?}");
        let other = store.enqueue(vec![NewJob { body_hash: OTHER_BODY, ..job(&stage.name()) }]).await;
        assert_eq!(other, [Enqueued::Conflict], "{stage:?}");
    }
}

pub async fn order_and_due_times_hold(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store
        .accept(vec![
            NewJob { priority: priority(9), ..job("last") },
            NewJob { due_at: T0.plus(SECOND), ..job("second") },
            job("first"),
            NewJob { due_at: T0.plus(HOUR), ..job("not-yet") },
        ])
        .await;
    let store = reopen(store, home).await;
    let claimed = store.claim(Pick::Ready(route("email")), 10, T0.plus(SECOND)).await;
    let names: Vec<_> = claimed.leases.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!((names, claimed.next_at), (vec!["first", "second", "last"], Some(T0.plus(HOUR))));
}

pub async fn a_lease_held_outside_outlives_the_process(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), job("b")]).await;
    let leases = store.ready(2, T0).await;
    store.extend(leases[1].token, T0.plus(HOUR * 2)).await;
    let store = reopen(store, home).await;
    assert_eq!(store.claim(Pick::Orphaned, 10, T0).await.leases.len(), 0, "nothing has run out");
    assert_eq!(store.0.lease(leases[0].token).await.unwrap().unwrap().expires_at, T0.plus(HOUR));
    assert_eq!(store.extend(leases[0].token, T0.plus(HOUR)).await, Extended::Until(T0.plus(HOUR)));
    store.done(&leases[0], deliver(&leases[0], T0), T0).await;
    let orphans = store.claim(Pick::Orphaned, 10, T0.plus(HOUR)).await;
    assert_eq!(
        (orphans.leases.len(), orphans.next_at),
        (0, Some(T0.plus(HOUR * 2))),
        "it was extended before"
    );
}

pub async fn work_goes_on_where_it_was(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    one_in_each_stage(&store).await;
    let store = reopen(store, home).await;
    let later = T0.plus(HOUR);
    assert_eq!(store.redrive("dead", None, later).await, Redriven::Done);
    assert_eq!(store.redrive("replaying", None, later).await, Redriven::AlreadyReplaying);
    assert_eq!(store.discard("replaying", later).await, Discarded::Replaying);
    assert_eq!(store.cancel("scheduled", later).await, Cancelled::Done);
    assert_eq!(store.cancel("cancelled", later).await, Cancelled::Already);
    for (stage, number) in
        [(Stage::Retrying, 2), (Stage::Postponed, 1), (Stage::Replaying, 2), (Stage::Dead, 2)]
    {
        let own = Pick::Ready(route(&format!("to-{}", stage.name())));
        let lease = store.claim(own, 1, later).await.leases.remove(0);
        assert_eq!(lease.attempt, number, "{stage:?}");
        store.done(&lease, deliver(&lease, later), later).await;
        assert_eq!(store.view(&stage.name(), later).await.status, Status::Sent);
    }
    assert_eq!(store.0.counts(later).await.unwrap().dead_letters, 0, "both replays were delivered");
}

pub async fn a_job_after_a_restart_does_not_inherit_the_trail_of_a_forgotten_one(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("old", Stage::Sent).await;
    let nothing = Retention { ended_max_age: SECOND, ended_max_count: 0 };
    store.0.prune(nothing, T0).await.unwrap();
    let store = reopen(store, home).await;
    store.accept(vec![job("new")]).await;
    assert_eq!(store.audit_kinds("new").await, []);
}

pub async fn follow_ups_are_there(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let lease = store.only(T0).await;
    let follow_ups = vec![NewJob { route: route("hooks"), ..job("word") }];
    assert_eq!(store.settle_with(&lease, deliver(&lease, T0), follow_ups, T0).await, Settled::Done);
    // Not closed on purpose: every acknowledged write is durable.
    drop(store);
    let store = TestStore::at(home).await;
    assert_eq!(store.view("a", T0).await.status, Status::Sent);
    let leases = store.claim(Pick::Ready(route("hooks")), 10, T0).await.leases;
    assert_eq!(leases.iter().map(|lease| lease.job.id.as_str()).collect::<Vec<_>>(), ["word"]);
    assert_eq!(leases[0].job.data, job("word").data);
}

pub async fn adopted_jobs_are_there(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let origin = elsewhere();
    every_stage(&origin).await;
    store.0.adopt(given_by(&origin).await).await.unwrap();
    let store = reopen(store, home).await;
    Snapshot::of(&origin, T0)
        .await
        .assert_same(&Snapshot::of(&store, T0).await, "adopted, closed and opened");
}

pub async fn the_trail_is_there_and_its_numbers_go_on(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let act = || vec![AuditEvent::about_provider("ses", AuditKind::ProviderPaused, T0)];
    store.bring("a", Stage::Sent).await;
    store.0.record(act()).await.unwrap();
    let before = on_record(&store).await;
    // Not closed on purpose: every record given is durable.
    drop(store);
    let store = TestStore::at(home).await;
    assert_eq!(on_record(&store).await, before);
    trim(&store, before[1].number, Timestamp::MAX, Timestamp::MAX).await;
    let store = reopen(store, home).await;
    store.0.record(act()).await.unwrap();
    let newest = on_record(&store).await.pop().unwrap().number;
    assert!(newest > before[1].number, "{newest} was given after {}", before[1].number);
}

pub async fn entries_are_there_with_their_versions(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let version = store.written(write("kept", "1"), T0).await;
    store.written(KvWrite { expires_at: Some(T0.plus(HOUR)), ..write("for-an-hour", "2") }, T0).await;
    store.written(write("removed", "3"), T0).await;
    store.written(KvWrite { value: None, ..write("removed", "3") }, T0).await;
    let before = store.0.kv_list(ACCOUNTS, T0).await.unwrap();
    let store = reopen(store, home).await;
    assert_eq!(store.0.kv_list(ACCOUNTS, T0).await.unwrap(), before);
    drop(store);
    let store = TestStore::at(home).await;
    assert_eq!(store.0.kv_list(ACCOUNTS, T0).await.unwrap(), before);
    assert_eq!(store.entry("for-an-hour", T0.plus(HOUR)).await, None);
    store.written(KvWrite { expect: Some(version), ..write("kept", "4") }, T0).await;
}

pub async fn no_version_is_given_again(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let read = store.written(write("a", "1"), T0).await;
    store.written(KvWrite { value: None, ..write("a", "1") }, T0).await;
    let store = reopen(store, home).await;
    let written = store.written(KvWrite { expect: Some(0), ..write("a", "2") }, T0).await;
    assert!(written > read, "{written} was given after {read}");
}

pub async fn thousands_come_back(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for tenant in ["a", "b", "c"] {
        store.accept(jobs_of(tenant, 1_000)).await;
    }
    let leases = store.ready(1_000, T0).await;
    let before = store.0.counts(T0).await.unwrap();
    let store = reopen(store, home).await;
    let after = store.0.counts(T0).await.unwrap();
    assert_eq!((after.ready, after.leased), (before.ready, before.leased));
    assert_eq!((after.ready, after.leased), (2_000, leases.len() as u64));
    assert_eq!(store.ready(3_000, T0).await.len(), 2_000);
}
