use std::time::Duration;

use recado_core::{BodyHash, CompanyId, JobId, NewJob, Priority, RouteName, Status};
use recado_store::faulty::{FaultyStore, Verb};
use recado_store::reference::ReferenceStore;
use recado_store::{Enqueued, JobFilter, PageRequest};

use super::*;

const T0: Timestamp = Timestamp::from_millis(1_736_677_800_000);
const SHELF: Shelf = Shelf::new("tenants");

fn named(store: Arc<dyn Store>, name: &str) -> Named {
    Named { store, name: name.to_owned() }
}

fn empty(name: &str) -> Named {
    named(Arc::new(ReferenceStore::default()), name)
}

fn job(nth: usize) -> NewJob {
    NewJob {
        id: JobId::new(format!("job-{nth:05}")).unwrap(),
        route: RouteName::new("email").unwrap(),
        company: CompanyId::new("acme").unwrap(),
        data: Payload::new(&format!(r#"{{"nth":{nth}}}"#)).unwrap(),
        user_id: None,
        correlation_id: None,
        traceparent: None,
        priority: Priority::default(),
        enqueued_at: T0,
        due_at: T0,
        expires_at: T0.plus(Duration::from_secs(3_600)),
        body_hash: BodyHash(7),
    }
}

async fn filled(name: &str, jobs: usize) -> Named {
    let full = empty(name);
    full.store.enqueue((0..jobs).map(job).collect()).await.unwrap();
    let value = Some(Payload::new(r#"{"weight":3}"#).unwrap());
    let write = NoteWrite { shelf: SHELF, key: "acme".into(), value, expect: None, expires_at: None };
    full.store.write_notes(vec![write], T0).await.unwrap();
    full
}

async fn leases(store: &dyn Store, max: usize) -> usize {
    let claim = Claim {
        pick: Pick::Ready(RouteName::new("email").unwrap()),
        max,
        now: T0,
        lease_until: T0.plus(Duration::from_secs(60)),
        worker: "w".into(),
        provider: None,
        outlives_process: true,
        turns: Turns::default(),
    };
    store.claim(claim).await.unwrap().leases.len()
}

async fn go(from: &Named, to: &Named) -> Result<Moved, MoveError> {
    move_all(from, to, &[SHELF], T0, |_| {}).await
}

#[tokio::test]
async fn everything_arrives_and_the_source_is_marked() {
    let (from, to) = (filled("embedded:here", 2_500).await, empty("redis://there"));
    let mut steps = Vec::new();
    let moved = move_all(&from, &to, &[SHELF], T0, |step| steps.push(step)).await.unwrap();
    assert_eq!((moved.jobs.count, moved.notes.count, moved.leases_ended), (2_500, 1, 0));
    assert_ne!(moved.jobs.checksum, 0);
    assert!(steps.contains(&Step::Copied { done: 2_500, of: 2_500 }), "{steps:?}");
    assert_eq!(steps.last(), Some(&Step::Checked { done: 2_500, of: 2_500 }));
    assert_eq!(total(&*to.store, T0).await.unwrap(), 2_500);
    assert_eq!(to.store.note(SHELF, "acme", T0).await.unwrap().unwrap().value.as_str(), r#"{"weight":3}"#);
    assert_eq!(moved_to(&*from.store, T0).await.unwrap().as_deref(), Some("redis://there"));
    assert_eq!(moved_to(&*to.store, T0).await.unwrap(), None, "and the target may be served");
    let again = to.store.enqueue(vec![job(7)]).await.unwrap();
    assert_eq!(again, [Enqueued::Duplicate { status: Status::Queued }], "ids stay taken");
}

#[tokio::test]
async fn a_source_that_was_moved_is_not_moved_again() {
    let (from, to) = (filled("a", 3).await, empty("b"));
    go(&from, &to).await.unwrap();
    let again = go(&from, &empty("c")).await;
    assert!(matches!(again, Err(MoveError::SourceMoved { to }) if to == "b"));
}

#[tokio::test]
async fn a_store_that_is_in_use_is_no_target() {
    let (from, to) = (filled("a", 3).await, filled("b", 1).await);
    let refused = go(&from, &to).await;
    assert!(matches!(refused, Err(MoveError::TargetTaken { jobs: 1, .. })), "{refused:?}");
    assert_eq!(moved_to(&*from.store, T0).await.unwrap(), None, "nothing was switched over");
}

#[tokio::test]
async fn a_move_that_was_cut_off_is_taken_up_again() {
    let from = filled("a", 2_500).await;
    let inner = Arc::new(ReferenceStore::default());
    let faulty = Arc::new(FaultyStore::around(inner.clone()));
    // The note that says where it comes from is written, then the notes of the first shelf fail.
    faulty.fail(Verb::WriteNotes, 1, 1, StoreError::Unavailable("cut off".to_owned()));
    let cut = go(&from, &named(faulty.clone(), "b")).await;
    assert!(matches!(cut, Err(MoveError::Target(_))), "{cut:?}");
    assert_eq!(faulty.fired(Verb::WriteNotes), 1);
    assert_eq!(moved_to(&*from.store, T0).await.unwrap(), None);
    let moved = go(&from, &named(inner, "b")).await.unwrap();
    assert_eq!(moved.jobs.count, 2_500);
}

#[tokio::test]
async fn a_job_that_was_being_delivered_goes_on_as_one_whose_holder_vanished() {
    let (from, to) = (filled("a", 3).await, empty("b"));
    assert_eq!(leases(&*from.store, 2).await, 2);
    let moved = go(&from, &to).await.unwrap();
    assert_eq!((moved.jobs.count, moved.leases_ended), (3, 2));
    let page = PageRequest { before: None, limit: 10 };
    let views = to.store.jobs(JobFilter::default(), page, T0).await.unwrap().items;
    let lost = views.iter().filter(|view| view.job.progress.crashes == 1 && view.job.attempts.len() == 1);
    assert_eq!(lost.count(), 2, "the attempt that may have been sent is on record");
    assert_eq!(leases(&*to.store, 10).await, 3);
}

#[tokio::test]
async fn a_target_that_somebody_writes_to_is_found_out() {
    let (from, to) = (filled("a", 3).await, empty("b"));
    let store = to.store.clone();
    let mut once = Some(JobId::new("stranger").unwrap());
    let moved = move_all(&from, &to, &[SHELF], T0, |step| {
        if let (Step::Copied { .. }, Some(id)) = (step, once.take()) {
            let stranger = NewJob { id, ..job(9) };
            let enqueued = futures_util::FutureExt::now_or_never(store.enqueue(vec![stranger]));
            assert!(enqueued.is_some_and(|done| done.is_ok()), "the fault fired");
        }
    })
    .await;
    assert!(matches!(&moved, Err(MoveError::Differs { what }) if what.contains("4 are there")), "{moved:?}");
    assert_eq!(moved_to(&*from.store, T0).await.unwrap(), None);
}

fn paused(nth: usize) -> AuditEvent {
    AuditEvent::about_provider("ses", AuditKind::ProviderPaused, T0).reason(format!("pause {nth}"))
}

async fn on_record(store: &dyn Store) -> Vec<AuditEvent> {
    let span = recado_store::AuditSpan { part: 0, after: 0, newest_first: false };
    store.audit_in(span, 10_000).await.unwrap().into_iter().map(|record| record.event).collect()
}

#[tokio::test]
async fn t14_records_that_belong_to_no_job_arrive_and_are_counted() {
    let (from, to) = (filled("a", 3).await, empty("b"));
    let about = AuditEvent { job_id: Some("job-00001".into()), ..paused(0) };
    from.store.record(vec![about.clone(), paused(1), paused(1), paused(2)]).await.unwrap();
    let moved = go(&from, &to).await.unwrap();
    assert_eq!((moved.jobs.count, moved.records.count), (3, 3));
    assert_ne!(moved.records.checksum, 0);
    assert_eq!(on_record(&*to.store).await, [about.clone(), paused(1), paused(1), paused(2)]);
    assert_eq!(to.store.audit(&job(1).id).await.unwrap(), [about]);
}

#[tokio::test]
async fn what_is_archived_is_not_carried_to_be_archived_again() {
    let (from, to) = (filled("a", 3).await, empty("b"));
    let about = |nth| AuditEvent { job_id: Some("job-00001".into()), ..paused(nth) };
    from.store.record(vec![about(1), paused(2), about(3), paused(4)]).await.unwrap();
    let hold = r#"{"store":"store_a","node":"n","until":"2025-01-12T10:30:00.000Z","archived":{"0":2}}"#;
    let write = NoteWrite {
        shelf: recado_engine::trail::SHELF,
        key: "archiver".into(),
        value: Some(Payload::new(hold).unwrap()),
        expect: None,
        expires_at: None,
    };
    from.store.write_notes(vec![write], T0).await.unwrap();
    let moved = go(&from, &to).await.unwrap();
    assert_eq!(moved.records.count, 1);
    assert_eq!(on_record(&*to.store).await, [about(3), paused(4)]);
    assert_eq!(to.store.audit(&job(1).id).await.unwrap(), [about(1), about(3)], "its trail is whole");
}

#[tokio::test]
async fn records_that_arrived_before_a_move_was_cut_off_are_not_carried_twice() {
    let from = filled("a", 3).await;
    from.store.record((0..2_500).map(paused).collect()).await.unwrap();
    let inner = Arc::new(ReferenceStore::default());
    let faulty = Arc::new(FaultyStore::around(inner.clone()));
    // The note that says where it comes from is written; records arrive; then the notes of the first shelf fail.
    faulty.fail(Verb::WriteNotes, 1, 1, StoreError::Unavailable("cut off".to_owned()));
    assert!(go(&from, &named(faulty.clone(), "b")).await.is_err());
    assert_eq!(faulty.fired(Verb::WriteNotes), 1);
    assert_eq!(on_record(&*inner).await.len(), 2_500, "they had arrived");
    let moved = go(&from, &named(inner.clone(), "b")).await.unwrap();
    assert_eq!((moved.records.count, on_record(&*inner).await.len()), (2_500, 2_500));
}
