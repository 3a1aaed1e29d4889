//! Bringing dead letters back, and giving them up.

use recado_core::{AttemptResult, AuditKind, DeadLetterState, Progress, Status, Transition};
use recado_store::{DeadLetterFilter, Discard, Discarded, PageRequest, Pick, Redriven};

use super::snapshot::{ComparableJob, Snapshot};
use crate::Home;
use crate::given::{
    DAY, HOUR, SECOND, Stage, T0, TestStore, act, attempt, bury, deliver, id, job, retry_at, route,
};

async fn lease_of(store: &TestStore, name: &str, now: recado_core::Timestamp) -> recado_core::Lease {
    store.claim(Pick::Ready(route(&format!("to-{name}"))), 1, now).await.leases.remove(0)
}

pub async fn a_replay_has_a_fresh_budget_and_the_whole_history(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let lease = store.only(T0).await;
    let lost = Some(attempt(1, AttemptResult::Lost, T0));
    store.done(&lease, Transition::Release { at: T0, lost }, T0).await;
    let lease = store.only(T0).await;
    store.done(&lease, Transition::Postpone { until: T0 }, T0).await;
    let lease = store.only(T0).await;
    store.done(&lease, retry_at(&lease, T0, T0), T0).await;
    let lease = store.only(T0).await;
    let mut burial = bury(&lease, Some("POISON"), "its delivery vanished", T0);
    if let Transition::Bury(burial) = &mut burial {
        burial.attempt = Some(attempt(lease.attempt, AttemptResult::Lost, T0));
    }
    store.done(&lease, burial, T0).await;
    let spent = store.view("a", T0).await.job.progress;
    assert_eq!((spent.attempts_spent, spent.crashes), (1, 1), "there is something to forget");

    let now = T0.plus(HOUR);
    assert_eq!(store.redrive("a", None, now).await, Redriven::Done);
    let seen = ComparableJob::from(store.view("a", now).await);
    let progress = Progress { attempts_started: 3, attempts_spent: 0, crashes: 0, deferrals: 1, replays: 1 };
    assert_eq!((seen.progress, seen.attempts.len()), (progress, 3));
    assert_eq!((seen.status, seen.due_at, seen.expires_at), (Status::Queued, now, now.plus(DAY)));
    let lease = store.only(now).await;
    assert_eq!((lease.attempt, lease.job.attempts.len()), (4, 3), "numbers go on");
    assert_eq!(lease.job.data, job("a").data, "the original data");
    let tail = [AuditKind::Buried, AuditKind::Replayed];
    assert!(store.audit_kinds("a").await.ends_with(&tail), "who replayed it is on record");
}

pub async fn a_discard_of_an_entry_that_died_again_since_changes_nothing(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    assert_eq!(store.redrive("a", Some(r#"{"corrected":true}"#), T0).await, Redriven::Done);
    let lease = lease_of(&store, "a", T0).await;
    store.done(&lease, bury(&lease, Some("550"), "no such mailbox", T0), T0).await;
    let discard = |replays| Discard {
        id: id("a"),
        replays: Some(replays),
        audit: act("a", AuditKind::DeadLetterArchived, T0),
        follow_ups: vec![job("follow-up")],
    };
    let before = Snapshot::of(&store, T0).await;
    assert_eq!(
        store.0.discard(discard(0)).await.unwrap(),
        Discarded::DiedAgain,
        "its first death was archived"
    );
    before.assert_same(&Snapshot::of(&store, T0).await, "after a refused discard");
    assert_eq!(store.0.discard(discard(1)).await.unwrap(), Discarded::Done);
    assert_eq!(store.view("a", T0).await.status, Status::Discarded);
}

pub async fn a_replay_may_carry_corrected_data(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    let corrected = r#"{"to":["right@example.com"]}"#;
    assert_eq!(store.redrive("a", Some(corrected), T0).await, Redriven::Done);
    let entry = store.dead_letter("a").await.unwrap();
    assert_eq!((entry.state, &entry.original_data), (DeadLetterState::Replaying, &job("a").data));
    assert_eq!(entry.data().as_str(), corrected, "seen beside it while it is on its way");
    let lease = lease_of(&store, "a", T0).await;
    assert_eq!(lease.job.data.as_str(), corrected);
}

pub async fn a_correction_that_fails_again_stands_beside_the_original_and_is_what_goes_out_next(
    home: &mut dyn Home,
) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    let shown = async || {
        let entry = store.dead_letter("a").await.unwrap();
        assert_eq!(entry.original_data, job("a").data, "what was accepted");
        entry.corrected_data.map(|data| data.as_str().to_owned())
    };
    assert_eq!(shown().await, None);
    let fails = async |data: Option<&str>| {
        assert_eq!(store.redrive("a", data, T0).await, Redriven::Done);
        let lease = lease_of(&store, "a", T0).await;
        store.done(&lease, bury(&lease, Some("551"), "moved away", T0), T0).await;
        lease.job.data.as_str().to_owned()
    };
    let (first, second) = (r#"{"to":"first"}"#, r#"{"to":"second"}"#);
    assert_eq!(fails(Some(first)).await, first);
    assert_eq!(shown().await.as_deref(), Some(first));
    assert_eq!(fails(None).await, first, "corrected once is enough");
    assert_eq!(fails(Some(second)).await, second);
    assert_eq!(shown().await.as_deref(), Some(second), "the latest");
    assert_eq!(store.view("a", T0).await.job.data.as_str(), second);

    assert_eq!(store.redrive("a", Some(first), T0).await, Redriven::Done);
    store.cancel("a", T0).await;
    assert_eq!(shown().await.as_deref(), Some(first), "what a person wrote is not thrown away");
    let original = job("a").data;
    assert_eq!(fails(Some(original.as_str())).await, original.as_str());
    assert_eq!(shown().await, None, "back to what was accepted");
}

pub async fn the_entry_stays_through_retries_and_leaves_only_on_delivery(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Replaying).await;
    let state = async || store.dead_letter("a").await.map(|entry| entry.state);
    let steps = [
        |lease: &_| retry_at(lease, T0, T0),
        |_: &_| Transition::Postpone { until: T0 },
        |_: &_| Transition::Release { at: T0, lost: None },
    ];
    for step in steps {
        assert_eq!(state().await, Some(DeadLetterState::Replaying));
        let lease = lease_of(&store, "a", T0).await;
        assert_eq!(state().await, Some(DeadLetterState::Replaying), "while it is delivered");
        store.done(&lease, step(&lease), T0).await;
    }
    let lease = lease_of(&store, "a", T0).await;
    store.done(&lease, deliver(&lease, T0), T0).await;
    assert_eq!(state().await, None, "delivered, so nothing is left for a person to do");
    assert_eq!(store.0.counts(T0).await.unwrap().dead_letters, 0);
}

pub async fn a_replay_that_fails_is_the_same_entry_in_the_same_place(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    store.bring("b", Stage::Dead).await;
    assert_eq!(store.redrive("a", Some(r#"{"corrected":true}"#), T0).await, Redriven::Done);
    let lease = lease_of(&store, "a", T0).await;
    let now = T0.plus(SECOND);
    store.done(&lease, bury(&lease, Some("551"), "moved away", now), now).await;

    let page = PageRequest { before: None, limit: 10 };
    let entries = store.0.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items;
    let names: Vec<_> = entries.iter().map(|entry| entry.job_id.as_str()).collect();
    assert_eq!(names, ["b", "a"], "one entry a job, by when it entered the queue");
    let entry = &entries[1];
    assert_eq!((entry.state, entry.moved_at, entry.failed_attempts), (DeadLetterState::Dead, now, 2));
    assert_eq!(entry.failure.code.as_deref(), Some("551"));
    assert_eq!(entry.attempts.len(), 2, "the history of both lives");
    assert_eq!((&entry.original_data, entry.data().as_str()), (&job("a").data, r#"{"corrected":true}"#));
    assert_eq!(store.0.counts(T0).await.unwrap().dead_letters, 2);
    assert_eq!(store.redrive("a", None, now).await, Redriven::Done, "and it can be replayed again");
}

pub async fn two_replays_at_once_are_one(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    let (left, right) = tokio::join!(store.redrive("a", None, T0), store.redrive("a", None, T0));
    let done = [&left, &right].into_iter().filter(|answer| **answer == Redriven::Done).count();
    let already = [&left, &right].into_iter().filter(|answer| **answer == Redriven::AlreadyReplaying).count();
    assert_eq!((done, already), (1, 1), "{left:?} and {right:?}");
    let before = Snapshot::of(&store, T0).await;
    assert_eq!(store.redrive("a", Some("1"), T0).await, Redriven::AlreadyReplaying);
    before.assert_same(&Snapshot::of(&store, T0).await, "after a replay too many");
    assert_eq!(before.jobs[0].progress.replays, 1);
}

pub async fn only_dead_letters_can_be_replayed(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let others: Vec<_> =
        Stage::ALL.into_iter().filter(|stage| !matches!(stage, Stage::Dead | Stage::Replaying)).collect();
    for stage in &others {
        store.bring(&stage.name(), *stage).await;
    }
    let before = Snapshot::of(&store, T0).await;
    for stage in others {
        assert_eq!(store.redrive(&stage.name(), None, T0).await, Redriven::Unknown, "{stage:?}");
        assert_eq!(store.discard(&stage.name(), T0).await, Discarded::Unknown, "{stage:?}");
    }
    assert_eq!(store.redrive("unknown", None, T0).await, Redriven::Unknown);
    assert_eq!(store.discard("unknown", T0).await, Discarded::Unknown);
    before.assert_same(&Snapshot::of(&store, T0).await, "after replays and discards of what is not dead");
}

pub async fn a_discarded_dead_letter_is_gone_for_good(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    let now = T0.plus(HOUR);
    assert_eq!(store.discard("a", now).await, Discarded::Done);
    assert_eq!(store.dead_letter("a").await, None);
    let seen = ComparableJob::from(store.view("a", now).await);
    assert_eq!((seen.status, seen.ended_at, seen.data.as_str()), (Status::Discarded, Some(now), "null"));
    assert_eq!(store.audit_kinds("a").await, [AuditKind::Buried, AuditKind::Discarded]);
    assert_eq!(store.discard("a", now).await, Discarded::Unknown);
    assert_eq!(store.redrive("a", None, now).await, Redriven::Unknown);
}

pub async fn a_dead_letter_that_is_replaying_cannot_be_discarded(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Replaying).await;
    let before = Snapshot::of(&store, T0).await;
    assert_eq!(store.discard("a", T0).await, Discarded::Replaying);
    before.assert_same(&Snapshot::of(&store, T0).await, "after a refused discard");
}

pub async fn a_replay_for_later_waits_for_its_time(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    store.redrive("a", None, T0.plus(HOUR)).await;
    let own = || Pick::Ready(route("to-a"));
    let early = store.claim(own(), 1, T0).await;
    assert_eq!((early.leases.len(), early.next_at), (0, Some(T0.plus(HOUR))));
    assert_eq!(store.claim(own(), 1, T0.plus(HOUR)).await.leases.len(), 1);
}

pub async fn a_checksum_goes_with_a_job_through_failures_and_corrections(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    for (nth, corrected) in
        [None, Some(r#"{"corrected":1}"#), None, Some(r#"{"corrected":2}"#)].iter().enumerate()
    {
        if nth > 0 {
            assert_eq!(store.redrive("a", *corrected, T0).await, Redriven::Done);
        }
        let lease = store.only(T0).await;
        assert!(lease.job.checksum.is_some(), "round {nth}: nothing can be checked");
        assert_eq!(lease.job.damage(), None, "round {nth}");
        store.done(&lease, bury(&lease, None, "no such user", T0), T0).await;
        assert_eq!(store.dead_letter("a").await.unwrap().damage(), None, "round {nth}");
    }
}
