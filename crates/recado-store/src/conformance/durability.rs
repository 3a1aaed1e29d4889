//! Promises of durable stores when they are opened again.

use recado_core::{AuditEvent, AuditKind, NewJob, Status, Timestamp};

use super::Home;
use super::auditing::{on_record, trim};
use super::given::{
    ACCOUNTS, Desk, HOUR, OTHER_BODY, SECOND, Stage, T0, deliver, job, jobs_of, priority, route, write,
};
use super::moving::{elsewhere, every_stage, given_by};
use super::snapshot::Snapshot;
use crate::{Cancelled, Discarded, Enqueued, Extended, KvWrite, Pick, Redriven, Retention, Settled};

/// Ends the store in good order and opens it again.
pub async fn reopen(desk: Desk, home: &mut dyn Home) -> Desk {
    desk.0.close().await.unwrap();
    drop(desk);
    Desk::at(home).await
}

async fn one_in_each_stage(desk: &Desk) {
    for stage in Stage::ALL {
        desk.bring(&stage.name(), stage).await;
    }
    desk.written(write("a-note", "1"), T0).await;
}

pub async fn everything_is_there_after_a_clean_stop(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    one_in_each_stage(&desk).await;
    let before = Snapshot::of(&desk, T0).await;
    let desk = reopen(desk, home).await;
    before.assert_same(&Snapshot::of(&desk, T0).await, "after close and open");
}

pub async fn everything_is_there_when_nobody_closed_it(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    one_in_each_stage(&desk).await;
    let before = Snapshot::of(&desk, T0).await;
    drop(desk);
    let desk = Desk::at(home).await;
    before.assert_same(&Snapshot::of(&desk, T0).await, "after drop and open");
}

pub async fn ids_stay_taken_in_every_phase(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    one_in_each_stage(&desk).await;
    let desk = reopen(desk, home).await;
    for stage in Stage::ALL {
        let status = desk.view(&stage.name(), T0).await.status;
        let same = desk.enqueue(vec![job(&stage.name())]).await;
        assert_eq!(same, [Enqueued::Duplicate { status }], "{stage:?}");
        let other = desk.enqueue(vec![NewJob { body_hash: OTHER_BODY, ..job(&stage.name()) }]).await;
        assert_eq!(other, [Enqueued::Conflict], "{stage:?}");
    }
}

pub async fn order_and_due_times_hold(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![
        NewJob { priority: priority(9), ..job("last") },
        NewJob { due_at: T0.plus(SECOND), ..job("second") },
        job("first"),
        NewJob { due_at: T0.plus(HOUR), ..job("not-yet") },
    ])
    .await;
    let desk = reopen(desk, home).await;
    let claimed = desk.claim(Pick::Ready(route("email")), 10, T0.plus(SECOND)).await;
    let names: Vec<_> = claimed.leases.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!((names, claimed.next_at), (vec!["first", "second", "last"], Some(T0.plus(HOUR))));
}

pub async fn a_lease_held_outside_outlives_the_process(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a"), job("b")]).await;
    let leases = desk.ready(2, T0).await;
    desk.extend(leases[1].token, T0.plus(HOUR * 2)).await;
    let desk = reopen(desk, home).await;
    assert_eq!(desk.claim(Pick::Orphaned, 10, T0).await.leases.len(), 0, "nothing has run out");
    assert_eq!(desk.0.lease(leases[0].token).await.unwrap().unwrap().expires_at, T0.plus(HOUR));
    assert_eq!(desk.extend(leases[0].token, T0.plus(HOUR)).await, Extended::Until(T0.plus(HOUR)));
    desk.done(&leases[0], deliver(&leases[0], T0), T0).await;
    let orphans = desk.claim(Pick::Orphaned, 10, T0.plus(HOUR)).await;
    assert_eq!(
        (orphans.leases.len(), orphans.next_at),
        (0, Some(T0.plus(HOUR * 2))),
        "it was extended before"
    );
}

pub async fn work_goes_on_where_it_was(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    one_in_each_stage(&desk).await;
    let desk = reopen(desk, home).await;
    let later = T0.plus(HOUR);
    assert_eq!(desk.redrive("dead", None, later).await, Redriven::Done);
    assert_eq!(desk.redrive("replaying", None, later).await, Redriven::AlreadyReplaying);
    assert_eq!(desk.discard("replaying", later).await, Discarded::Replaying);
    assert_eq!(desk.cancel("scheduled", later).await, Cancelled::Done);
    assert_eq!(desk.cancel("cancelled", later).await, Cancelled::Already);
    for (stage, number) in
        [(Stage::Retrying, 2), (Stage::Postponed, 1), (Stage::Replaying, 2), (Stage::Dead, 2)]
    {
        let own = Pick::Ready(route(&format!("to-{}", stage.name())));
        let lease = desk.claim(own, 1, later).await.leases.remove(0);
        assert_eq!(lease.attempt, number, "{stage:?}");
        desk.done(&lease, deliver(&lease, later), later).await;
        assert_eq!(desk.view(&stage.name(), later).await.status, Status::Sent);
    }
    assert_eq!(desk.0.counts(later).await.unwrap().dead_letters, 0, "both replays were delivered");
}

pub async fn a_job_after_a_restart_does_not_inherit_the_trail_of_a_forgotten_one(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.bring("old", Stage::Sent).await;
    let nothing = Retention { ended_max_age: SECOND, ended_max_count: 0 };
    desk.0.prune(nothing, T0).await.unwrap();
    let desk = reopen(desk, home).await;
    desk.accept(vec![job("new")]).await;
    assert_eq!(desk.audit_kinds("new").await, []);
}

pub async fn follow_ups_are_there(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a")]).await;
    let lease = desk.only(T0).await;
    let follow_ups = vec![NewJob { route: route("hooks"), ..job("word") }];
    assert_eq!(desk.settle_with(&lease, deliver(&lease, T0), follow_ups, T0).await, Settled::Done);
    // Not closed on purpose: every acknowledged write is durable.
    drop(desk);
    let desk = Desk::at(home).await;
    assert_eq!(desk.view("a", T0).await.status, Status::Sent);
    let leases = desk.claim(Pick::Ready(route("hooks")), 10, T0).await.leases;
    assert_eq!(leases.iter().map(|lease| lease.job.id.as_str()).collect::<Vec<_>>(), ["word"]);
    assert_eq!(leases[0].job.data, job("word").data);
}

pub async fn adopted_jobs_are_there(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    let origin = elsewhere();
    every_stage(&origin).await;
    desk.0.adopt(given_by(&origin).await).await.unwrap();
    let desk = reopen(desk, home).await;
    Snapshot::of(&origin, T0).await.assert_same(&Snapshot::of(&desk, T0).await, "adopted, closed and opened");
}

pub async fn the_trail_is_there_and_its_numbers_go_on(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    let act = || vec![AuditEvent::about_provider("ses", AuditKind::ProviderPaused, T0)];
    desk.bring("a", Stage::Sent).await;
    desk.0.record(act()).await.unwrap();
    let before = on_record(&desk).await;
    // Not closed on purpose: every record given is durable.
    drop(desk);
    let desk = Desk::at(home).await;
    assert_eq!(on_record(&desk).await, before);
    trim(&desk, before[1].number, Timestamp::MAX, Timestamp::MAX).await;
    let desk = reopen(desk, home).await;
    desk.0.record(act()).await.unwrap();
    let newest = on_record(&desk).await.pop().unwrap().number;
    assert!(newest > before[1].number, "{newest} was given after {}", before[1].number);
}

pub async fn notes_are_there_with_their_versions(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    let version = desk.written(write("kept", "1"), T0).await;
    desk.written(KvWrite { expires_at: Some(T0.plus(HOUR)), ..write("for-an-hour", "2") }, T0).await;
    desk.written(write("removed", "3"), T0).await;
    desk.written(KvWrite { value: None, ..write("removed", "3") }, T0).await;
    let before = desk.0.kv_list(ACCOUNTS, T0).await.unwrap();
    let desk = reopen(desk, home).await;
    assert_eq!(desk.0.kv_list(ACCOUNTS, T0).await.unwrap(), before);
    drop(desk);
    let desk = Desk::at(home).await;
    assert_eq!(desk.0.kv_list(ACCOUNTS, T0).await.unwrap(), before);
    assert_eq!(desk.note("for-an-hour", T0.plus(HOUR)).await, None);
    desk.written(KvWrite { expect: Some(version), ..write("kept", "4") }, T0).await;
}

pub async fn no_version_is_given_again(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    let read = desk.written(write("a", "1"), T0).await;
    desk.written(KvWrite { value: None, ..write("a", "1") }, T0).await;
    let desk = reopen(desk, home).await;
    let written = desk.written(KvWrite { expect: Some(0), ..write("a", "2") }, T0).await;
    assert!(written > read, "{written} was given after {read}");
}

pub async fn thousands_come_back(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    for tenant in ["a", "b", "c"] {
        desk.accept(jobs_of(tenant, 1_000)).await;
    }
    let leases = desk.ready(1_000, T0).await;
    let before = desk.0.counts(T0).await.unwrap();
    let desk = reopen(desk, home).await;
    let after = desk.0.counts(T0).await.unwrap();
    assert_eq!((after.ready, after.leased), (before.ready, before.leased));
    assert_eq!((after.ready, after.leased), (2_000, leases.len() as u64));
    assert_eq!(desk.ready(3_000, T0).await.len(), 2_000);
}
