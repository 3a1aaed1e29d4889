//! Jobs given and taken whole.

use std::sync::Arc;

use recado_core::{AuditKind, DeadLetterState, JobId, LeaseToken, NewJob, Status, Transition};
use recado_store::reference::ReferenceStore;
use recado_store::{
    Adopted, Cancelled, Claim, DeadLetterFilter, Enqueued, Extended, Fence, FencedWrite, JobSnapshot,
    PageRequest, Pick, SnapshotState, StoreError, Turns,
};

use super::snapshot::Snapshot;
use crate::Home;
use crate::given::{
    DAY, HOUR, Stage, T0, TestStore, act, bury, company, deliver, id, job, jobs_of, route, write,
};

pub fn elsewhere() -> TestStore {
    TestStore(Arc::new(ReferenceStore::default()))
}

/// Everything that a store gives, in pages of three.
pub async fn given_by(store: &TestStore) -> Vec<JobSnapshot> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = store.0.snapshots(after, 3).await.unwrap();
        assert!(page.items.len() <= 3);
        all.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

async fn move_all(from: &TestStore, to: &TestStore) {
    let given = given_by(from).await;
    let count = given.len();
    assert_eq!(to.0.adopt(given).await.unwrap(), vec![Adopted::Done; count]);
}

/// A job at each stage, but for leases.
pub async fn every_stage(store: &TestStore) {
    for stage in Stage::ALL.into_iter().filter(|stage| *stage != Stage::Delivering) {
        store.bring(&stage.name(), stage).await;
    }
}

pub async fn whatever_a_store_knows_of_its_jobs_can_be_given_and_taken(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let origin = elsewhere();
    every_stage(&origin).await;
    let whole = Snapshot::of(&origin, T0).await;
    assert_eq!(whole.jobs.len(), Stage::ALL.len() - 1);

    move_all(&origin, &store).await;
    whole.assert_same(&Snapshot::of(&store, T0).await, "taken in");
    let back = elsewhere();
    move_all(&store, &back).await;
    whole.assert_same(&Snapshot::of(&back, T0).await, "and given again");
    for stage in Stage::ALL.into_iter().filter(|stage| *stage != Stage::Delivering) {
        let again = back.enqueue(vec![job(&stage.name())]).await;
        assert!(matches!(again[0], Enqueued::Duplicate { .. }), "the body's hash of {stage:?} came along");
    }
}

pub async fn a_walk_through_all_snapshots_has_no_gap_and_no_repetition(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("acme", 10)).await;
    let walked: Vec<JobId> = given_by(&store).await.into_iter().map(|transfer| transfer.job.id).collect();
    let accepted: Vec<JobId> = jobs_of("acme", 10).into_iter().map(|job| job.id).collect();
    assert_eq!(walked, accepted, "oldest first");
    let past_the_end = store.0.snapshots(Some(u64::MAX), 3).await.unwrap();
    assert_eq!((past_the_end.items.len(), past_the_end.next), (0, None));
}

pub async fn one_job_can_be_given_alone(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    every_stage(&store).await;
    for whole in given_by(&store).await {
        let id = whole.job.id.clone();
        let alone = store.0.snapshot(&id).await.unwrap().unwrap_or_else(|| panic!("{id} is not given"));
        assert_eq!(format!("{alone:?}"), format!("{whole:?}"));
        assert_eq!(alone.job.data, whole.job.data);
    }
    assert!(store.0.snapshot(&id("unknown")).await.unwrap().is_none());
}

pub async fn a_lease_does_not_travel(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let lease = store.bring("a", Stage::Delivering).await.unwrap();
    let given = given_by(&store).await;
    assert_eq!(given[0].state, SnapshotState::Waiting);
    assert_eq!(
        store.extend(lease.token, T0.plus(HOUR)).await,
        Extended::Until(T0.plus(HOUR)),
        "it stays here"
    );
    let other = elsewhere();
    assert_eq!(other.0.adopt(given).await.unwrap(), [Adopted::Done]);
    assert_eq!(other.extend(LeaseToken(lease.token.0), T0.plus(HOUR)).await, Extended::Stale);
}

pub async fn adopted_jobs_go_on_where_they_were(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let origin = elsewhere();
    every_stage(&origin).await;
    move_all(&origin, &store).await;

    let own = |stage: Stage| Pick::Ready(route(&format!("to-{}", stage.name())));
    for stage in [Stage::Queued, Stage::Retrying, Stage::Postponed, Stage::Scheduled, Stage::Replaying] {
        let now = T0.plus(HOUR);
        let lease = store.claim(own(stage), 1, now).await.leases.pop();
        let lease = lease.unwrap_or_else(|| panic!("{stage:?} is not claimed"));
        assert_eq!(lease.job.data, job(&stage.name()).data, "{stage:?}");
        store.done(&lease, deliver(&lease, now), now).await;
        assert_eq!(store.view(&stage.name(), now).await.status, Status::Sent);
    }
    assert_eq!(store.dead_letter("replaying").await, None, "it left on delivery");
    assert_eq!(store.redrive("dead", None, T0).await, recado_store::Redriven::Done);
    assert_eq!(store.cancel("sent", T0).await, Cancelled::Refused(Status::Sent));
}

pub async fn an_id_that_is_taken_is_left_alone(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let origin = elsewhere();
    for stage in [Stage::Queued, Stage::Sent, Stage::Dead] {
        store.bring(&stage.name(), stage).await;
    }
    store.bring("cancelled", Stage::Discarded).await;
    for name in ["queued", "sent", "dead", "cancelled"] {
        origin.bring(name, Stage::Cancelled).await;
    }
    let before = Snapshot::of(&store, T0).await;
    assert_eq!(store.0.adopt(given_by(&origin).await).await.unwrap(), [Adopted::Known; 4]);
    before.assert_same(&Snapshot::of(&store, T0).await, "after nothing was adopted");
    // And again inside one batch.
    let twice = given_by(&store).await.remove(0);
    let new = elsewhere();
    assert_eq!(new.0.adopt(vec![twice.clone(), twice]).await.unwrap(), [Adopted::Done, Adopted::Known]);
}

pub async fn a_writer_that_another_has_shut_out_writes_nothing_more(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let origin = elsewhere();
    // Of many companies, so that a store with partitions has them in each.
    let jobs =
        (0..40).map(|nth| NewJob { company: company(&format!("c-{nth}")), ..job(&format!("j-{nth}")) });
    origin.accept(jobs.collect()).await;
    store.bring("held", Stage::Delivering).await;
    let given = given_by(&origin).await;
    let writes = || {
        let claim = Claim {
            pick: Pick::Orphaned,
            max: 10,
            now: T0.plus(DAY),
            lease_until: T0.plus(DAY),
            worker: "mover".into(),
            provider: None,
            outlives_process: true,
            turns: Turns::default(),
        };
        [
            FencedWrite::Claim(claim),
            FencedWrite::Adopt(given.clone()),
            FencedWrite::Record(vec![act("held", AuditKind::LeaseLost, T0)]),
            FencedWrite::KvWrite(vec![write("a", "1")], T0),
        ]
    };
    let fence = |number| Fence { name: "move", number };
    let assert_shut_out = async |number| {
        let before = Snapshot::of(&store, T0).await;
        for write in writes() {
            let refused = store.0.write_fenced(fence(number), write.clone()).await;
            assert!(matches!(refused, Err(StoreError::Fenced)), "{write:?}: {refused:?}");
        }
        before.assert_same(&Snapshot::of(&store, T0).await, "after writes that were refused");
        assert_eq!(store.entry("a", T0).await, None);
        assert_eq!(store.audit_kinds("held").await, []);
    };
    assert_shut_out(7).await;
    store.0.raise_fence(fence(7)).await.unwrap();
    assert!(store.0.write_fenced(fence(7), FencedWrite::Adopt(Vec::new())).await.unwrap().is_empty());
    store.0.raise_fence(fence(8)).await.unwrap();
    assert_shut_out(7).await;
    let refused = store.0.raise_fence(fence(7)).await;
    assert!(matches!(refused, Err(StoreError::Fenced)), "{refused:?}");
    assert_shut_out(7).await;
    store.0.raise_fence(Fence { name: "another", number: 9 }).await.unwrap();
    let mut leases = Vec::new();
    for write in writes() {
        leases.extend(store.0.write_fenced(fence(8), write).await.unwrap());
    }
    assert_eq!(leases.iter().map(|lease| &lease.job.id).collect::<Vec<_>>(), [&id("held")]);
    assert_eq!(given_by(&store).await.len(), 41);
    assert_eq!(store.audit_kinds("held").await, [AuditKind::LeaseLost]);
    assert!(store.entry("a", T0).await.is_some());
}

pub async fn a_dead_letter_from_the_archive_takes_the_place_of_its_discarded_job(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    let archived = given_by(&store).await;
    let entry = store.dead_letter("a").await;
    assert_eq!(store.discard("a", T0).await, recado_store::Discarded::Done);
    assert_eq!(store.dead_letter("a").await, None);

    assert_eq!(store.0.adopt(archived.clone()).await.unwrap(), [Adopted::Done]);
    assert_eq!(store.dead_letter("a").await, entry);
    assert_eq!(store.view("a", T0).await.status, Status::Failed);
    let trail = store.audit_kinds("a").await;
    assert_eq!(trail, [AuditKind::Buried, AuditKind::Discarded], "all of its trail, and none of it twice");
    assert_eq!(
        Snapshot::of(&store, T0).await.counts,
        [0, 0, 0, 1, 0],
        "counted as dead, and no more as ended"
    );
    assert_eq!(store.0.adopt(archived).await.unwrap(), [Adopted::Known], "once is enough");
    assert_eq!(store.redrive("a", None, T0).await, recado_store::Redriven::Done);
    let lease = store.claim(Pick::Ready(route("to-a")), 1, T0).await.leases.pop().unwrap();
    assert_eq!(lease.job.data, job("a").data);
}

pub async fn dead_letters_are_taken_in_at_their_places(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let origin = elsewhere();
    // Of companies of their own, so that a store with partitions has them in several.
    for name in ["a", "b", "c", "d"] {
        origin.accept(vec![NewJob { company: company(&format!("c-{name}")), ..job(name) }]).await;
    }
    for name in ["c", "a", "d", "b"] {
        let leases = origin.ready(4, T0).await;
        for lease in &leases {
            let dies = lease.job.id.as_str() == name;
            let release = Transition::Release { at: T0, lost: None };
            let transition = if dies { bury(lease, Some("550"), "no such mailbox", T0) } else { release };
            origin.done(lease, transition, T0).await;
        }
    }
    let mut given = given_by(&origin).await;
    for transfer in &mut given {
        let place = ["c", "a", "d", "b"].iter().position(|name| *name == transfer.job.id.as_str());
        transfer.queue_place = place.map(|place| place as u64 + 1);
    }
    assert_eq!(store.0.adopt(given).await.unwrap(), [Adopted::Done; 4]);
    let listed = async |store: &TestStore| {
        let page = PageRequest { before: None, limit: 10 };
        let entries = store.0.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items;
        entries.into_iter().map(|entry| entry.job_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&store).await, ["b", "d", "a", "c"]);
    assert_eq!(listed(&origin).await, ["b", "d", "a", "c"], "as they were");
    let oldest = store.0.oldest_dead_letters(2).await.unwrap();
    assert_eq!(oldest.iter().map(|entry| entry.job_id.as_str()).collect::<Vec<_>>(), ["c", "a"]);
    store.bring("new", Stage::Dead).await;
    assert_eq!(listed(&store).await[0], "new", "what comes later is newer");
}

pub async fn adopted_jobs_wake_their_route(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let origin = elsewhere();
    origin.bring("a", Stage::Queued).await;
    let mut waker = store.0.waker(&route("to-a"));
    move_all(&origin, &store).await;
    waker.wait().await;
}

pub async fn the_oldest_dead_letters_come_first_and_none_that_is_replaying(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    assert!(store.0.oldest_dead_letters(10).await.unwrap().is_empty());
    for (nth, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        store.accept(vec![job(name)]).await;
        let now = T0.plus(HOUR * u32::try_from(nth).unwrap());
        let lease = store.only(now).await;
        store.done(&lease, bury(&lease, Some("550"), "no such mailbox", now), now).await;
    }
    store.redrive("b", None, T0).await;
    let oldest = async |limit| {
        let entries = store.0.oldest_dead_letters(limit).await.unwrap();
        assert!(entries.iter().all(|entry| entry.state == DeadLetterState::Dead));
        entries.into_iter().map(|entry| entry.job_id).collect::<Vec<_>>()
    };
    assert_eq!(oldest(2).await, [id("a"), id("c")]);
    assert_eq!(oldest(10).await, [id("a"), id("c"), id("d")]);
    store.discard("a", T0.plus(DAY)).await;
    assert_eq!(oldest(1).await, [id("c")]);
}
