//! Calling a job off before it is sent.

use recado_core::{AuditKind, DeadLetterState, Status};
use recado_store::{Cancelled, Enqueued, Pick, Redriven};

use super::snapshot::{ComparableJob, Snapshot};
use crate::Home;
use crate::given::{DAY, SECOND, Stage, T0, TestStore, deliver, job, payload, route};

pub async fn a_job_that_waits_is_cancelled_and_never_claimed(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let now = T0.plus(SECOND);
    for stage in [Stage::Scheduled, Stage::Queued, Stage::Retrying, Stage::Postponed] {
        let name = stage.name();
        store.bring(&name, stage).await;
        assert_eq!(store.cancel(&name, now).await, Cancelled::Done, "{stage:?}");
        let seen = ComparableJob::from(store.view(&name, now).await);
        assert_eq!((seen.status, seen.ended_at), (Status::Cancelled, Some(now)), "{stage:?}");
        assert_eq!(seen.data, "null", "personal data is not kept longer than it is needed");
        let own = Pick::Ready(route(&format!("to-{name}")));
        assert_eq!(
            store.claim(own, 10, T0.plus(DAY)).await.leases.len(),
            0,
            "{stage:?} was claimed after all"
        );
        assert_eq!(store.audit_kinds(&name).await.last(), Some(&AuditKind::Cancelled), "{stage:?}");
    }
    assert_eq!(
        store.claim(Pick::Overdue, 10, T0.plus(DAY * 2)).await.leases.len(),
        0,
        "one was overdue after all"
    );
}

pub async fn cancelling_twice_changes_nothing_the_second_time(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    assert_eq!(store.cancel("a", T0).await, Cancelled::Done);
    let before = Snapshot::of(&store, T0).await;
    assert_eq!(store.cancel("a", T0.plus(SECOND)).await, Cancelled::Already);
    before.assert_same(&Snapshot::of(&store, T0).await, "after the second cancel");
}

pub async fn it_is_too_late_for_what_is_being_delivered_or_has_ended(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let too_late = [Stage::Delivering, Stage::Sent, Stage::Dead, Stage::Discarded];
    for stage in too_late {
        store.bring(&stage.name(), stage).await;
    }
    let before = Snapshot::of(&store, T0).await;
    for stage in too_late {
        let answer = store.cancel(&stage.name(), T0).await;
        assert_eq!(Some(answer), stage.status().map(Cancelled::Refused), "{stage:?}");
    }
    assert_eq!(store.cancel("unknown", T0).await, Cancelled::Unknown);
    before.assert_same(&Snapshot::of(&store, T0).await, "after refused cancels");
}

pub async fn a_replay_called_off_leaves_the_dead_letter_where_it_was(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    let (mut entry, job) =
        (store.dead_letter("a").await.unwrap(), ComparableJob::from(store.view("a", T0).await));
    assert_eq!(store.redrive("a", None, T0).await, Redriven::Done);
    assert_eq!(store.cancel("a", T0).await, Cancelled::Done);
    assert_eq!(store.dead_letter("a").await.as_ref(), Some(&entry), "state dead, with the original data");
    let corrected = r#"{"corrected":true}"#;
    assert_eq!(store.redrive("a", Some(corrected), T0).await, Redriven::Done);
    assert_eq!(store.cancel("a", T0).await, Cancelled::Done);
    entry.correct(payload(corrected));
    entry.checksum = entry.checksum.map(|checksum| checksum.with_data(entry.data()));
    assert_eq!(store.dead_letter("a").await, Some(entry), "and what it was corrected to beside it");
    let now = ComparableJob::from(store.view("a", T0).await);
    assert_eq!((now.status, now.ended_at, &*now.data), (Status::Failed, None, corrected));
    assert_ne!(now.data, job.data);
    assert_eq!(store.claim(Pick::Ready(route("to-a")), 10, T0.plus(DAY)).await.leases.len(), 0);
    assert_eq!(store.cancel("a", T0).await, Cancelled::Refused(Status::Failed));

    assert_eq!(store.redrive("a", None, T0).await, Redriven::Done, "it can be replayed again");
    let lease = store.claim(Pick::Ready(route("to-a")), 1, T0).await.leases.remove(0);
    assert_eq!(lease.job.progress.replays, 3);
    store.done(&lease, deliver(&lease, T0), T0).await;
    assert_eq!(store.dead_letter("a").await.map(|entry| entry.state), None::<DeadLetterState>);
}

pub async fn the_id_of_a_cancelled_job_stays_taken(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Cancelled).await;
    assert_eq!(store.enqueue(vec![job("a")]).await, [Enqueued::Duplicate { status: Status::Cancelled }]);
}
