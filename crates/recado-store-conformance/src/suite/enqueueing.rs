//! Taking jobs in: each exactly once by its id.

use recado_core::{NewJob, Status};
use recado_store::Enqueued;

use super::snapshot::{ComparableJob, Snapshot};
use crate::Home;
use crate::given::{HOUR, OTHER_BODY, SECOND, Stage, T0, TestStore, id, job, priority, route};

pub async fn a_new_job_is_found_as_it_was_given(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let new = NewJob { priority: priority(2), due_at: T0.plus(HOUR), ..job("a") };
    assert_eq!(store.enqueue(vec![new.clone()]).await, [Enqueued::Accepted { status: Status::Scheduled }]);
    let seen = ComparableJob::from(store.view("a", T0).await);
    let expected = ComparableJob {
        names: ["a", "email", "acme", "user-7", "corr-a"].map(str::to_owned),
        traceparent: new.traceparent,
        priority: 2,
        enqueued_at: T0,
        due_at: T0.plus(HOUR),
        expires_at: new.expires_at,
        progress: recado_core::Progress::default(),
        attempts: Vec::new(),
        data: new.data.as_str().to_owned(),
        status: Status::Scheduled,
        ended_at: None,
        answer: None,
        held_by: None,
    };
    assert_eq!(seen, expected);
    assert!(store.find("b", T0).await.is_none(), "a job that was never enqueued was found");
}

pub async fn a_job_without_user_correlation_and_trace_is_found_without_them(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![NewJob { user_id: None, correlation_id: None, traceparent: None, ..job("a") }]).await;
    let found = store.view("a", T0).await.job;
    assert_eq!((found.user_id, found.correlation_id, found.traceparent), (None, None, None));
}

pub async fn a_job_is_queued_when_due_and_scheduled_before(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let later = NewJob { due_at: T0.plus(SECOND), ..job("later") };
    let answers = store.enqueue(vec![job("now"), later]).await;
    assert_eq!(
        answers,
        [Enqueued::Accepted { status: Status::Queued }, Enqueued::Accepted { status: Status::Scheduled }]
    );
    assert_eq!(store.view("later", T0).await.status, Status::Scheduled);
    assert_eq!(store.view("later", T0.plus(SECOND)).await.status, Status::Queued);
}

pub async fn the_same_job_again_is_a_duplicate_with_its_status_in_every_phase(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for stage in Stage::ALL {
        store.bring(&stage.name(), stage).await;
    }
    let before = Snapshot::of(&store, T0).await;
    for stage in Stage::ALL {
        let shown = store.view(&stage.name(), T0).await.status;
        if let Some(expected) = stage.status() {
            assert_eq!(shown, expected, "a job brought to {stage:?}");
        }
        let answer = store.enqueue(vec![job(&stage.name())]).await;
        assert_eq!(answer, [Enqueued::Duplicate { status: shown }], "the same job again when {stage:?}");
    }
    before.assert_same(&Snapshot::of(&store, T0).await, "after duplicates");
}

pub async fn the_same_id_with_another_body_is_a_conflict_in_every_phase(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for stage in Stage::ALL {
        store.bring(&stage.name(), stage).await;
    }
    let before = Snapshot::of(&store, T0).await;
    for stage in Stage::ALL {
        let other = NewJob { body_hash: OTHER_BODY, ..job(&stage.name()) };
        assert_eq!(store.enqueue(vec![other]).await, [Enqueued::Conflict], "another body when {stage:?}");
    }
    before.assert_same(&Snapshot::of(&store, T0).await, "after conflicts");
}

pub async fn repetitions_inside_one_batch_are_answered_like_any_other(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let other = NewJob { body_hash: OTHER_BODY, ..job("a") };
    let answers = store.enqueue(vec![job("a"), job("b"), job("a"), other, job("c")]).await;
    let accepted = Enqueued::Accepted { status: Status::Queued };
    let duplicate = Enqueued::Duplicate { status: Status::Queued };
    assert_eq!(answers, [accepted.clone(), accepted.clone(), duplicate, Enqueued::Conflict, accepted]);
    assert_eq!(store.ready(10, T0).await.len(), 3, "three ids, three jobs");
}

pub async fn an_empty_batch_is_answered_with_nothing(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    assert_eq!(store.enqueue(Vec::new()).await, []);
}

pub async fn two_callers_with_the_same_job_at_once_get_one_yes(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for round in 0..10 {
        let same = job(&format!("a-{round}"));
        let (left, right) =
            tokio::join!(store.enqueue(vec![same.clone()]), store.enqueue(vec![same.clone()]));
        let accepted =
            [&left[0], &right[0]].into_iter().filter(|answer| matches!(answer, Enqueued::Accepted { .. }));
        assert_eq!(accepted.count(), 1, "{left:?} and {right:?}");
    }
    assert_eq!(store.ready(100, T0).await.len(), 10);
}

pub async fn ids_that_differ_in_one_character_are_different_jobs(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let names = ["a", "A", "a.", "a:", "a-", "aa", "1", "01"];
    store.accept(names.iter().map(|name| NewJob { route: route("other"), ..job(name) }).collect()).await;
    for name in names {
        assert_eq!(store.view(name, T0).await.job.id, id(name));
    }
}
