use std::time::Duration;

use recado_core::{BodyHash, Burial, Cause, JobId, NewJob, Payload, RouteName, Status};
use recado_store::reference::ReferenceStore;
use recado_store::{DeadLetterFilter, Enqueued, JobFilter, PageRequest};
use recado_store_conformance::faulty::{FaultyStore, Verb};
use recado_testkit::jobs::{new_job, permanent_failure};

use super::*;

const T0: Timestamp = Timestamp::from_millis(1_736_677_800_000);
const NAMESPACE: Namespace = Namespace::new("tenants");

fn named(store: Arc<dyn Store>, name: &str) -> Named {
    Named { store, name: name.to_owned() }
}

fn empty(name: &str) -> Named {
    named(Arc::new(ReferenceStore::default()), name)
}

fn job(nth: usize) -> NewJob {
    let new = new_job(&format!("job-{nth:05}"), "email", &format!(r#"{{"nth":{nth}}}"#), T0);
    NewJob { expires_at: T0.plus(Duration::from_secs(3_600)), body_hash: BodyHash(7), ..new }
}

async fn filled(name: &str, jobs: usize) -> Named {
    let full = empty(name);
    full.store.enqueue((0..jobs).map(job).collect()).await.unwrap();
    let value = Some(Payload::new(r#"{"weight":3}"#).unwrap());
    let write = KvWrite {
        namespace: NAMESPACE,
        key: "acme".into(),
        value,
        expect: None,
        expires_at: None,
        audit: Vec::new(),
    };
    full.store.kv_write(vec![write], T0).await.unwrap();
    full
}

fn claim(max: usize) -> Claim {
    Claim {
        pick: Pick::Ready(RouteName::new("email").unwrap()),
        max,
        now: T0,
        lease_until: T0.plus(Duration::from_secs(60)),
        worker: "w".into(),
        provider: None,
        outlives_process: true,
        turns: Turns::default(),
    }
}

async fn leases(store: &dyn Store, max: usize) -> usize {
    store.claim(claim(max)).await.unwrap().leases.len()
}

/// The move that keeps a store from being served.
async fn held(side: &Named) -> Option<InMove> {
    in_move(&*side.store, T0).await.unwrap()
}

async fn go(from: &Named, to: &Named) -> Result<Moved, MoveError> {
    move_all(from, to, &[NAMESPACE], T0, |_| {}).await
}

#[tokio::test]
async fn everything_arrives_and_the_source_is_marked() {
    let (from, to) = (filled("embedded:here", 2_500).await, empty("redis://there"));
    let mut steps = Vec::new();
    let moved = move_all(&from, &to, &[NAMESPACE], T0, |step| steps.push(step)).await.unwrap();
    assert_eq!((moved.jobs.count, moved.entries.count, moved.leases_ended), (2_500, 1, 0));
    assert_ne!(moved.jobs.checksum, 0);
    assert!(steps.contains(&Step::Copied { done: 2_500, of: 2_500 }), "{steps:?}");
    assert_eq!(steps.last(), Some(&Step::Checked { done: 2_500, of: 2_500 }));
    assert_eq!(to.side(End::Target, T0).count_jobs().await.unwrap(), 2_500);
    assert_eq!(
        to.store.kv_get(NAMESPACE, "acme", T0).await.unwrap().unwrap().value.as_str(),
        r#"{"weight":3}"#
    );
    assert_eq!(held(&from).await, Some(InMove::MovedTo("redis://there".to_owned())));
    assert_eq!(held(&to).await, None, "and the target may be served");
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
    assert_eq!(held(&from).await, None, "nothing was marked");
}

#[tokio::test]
async fn a_move_that_was_cut_off_is_taken_up_again() {
    let from = filled("a", 2_500).await;
    let inner = Arc::new(ReferenceStore::default());
    let faulty = Arc::new(FaultyStore::around(inner.clone()));
    // The mark and the fence are written, then the first write of the move fails.
    faulty.fail(Verb::Write, 2, 1, StoreError::Unavailable("cut off".to_owned()));
    let cut = go(&from, &named(faulty.clone(), "b")).await;
    assert!(matches!(cut, Err(MoveError::Target(_))), "{cut:?}");
    assert_eq!(faulty.fired(Verb::Write), 1);
    assert_eq!(held(&from).await, Some(InMove::MovingTo("b".to_owned())));
    let moved = go(&from, &named(inner, "b")).await.unwrap();
    assert_eq!(moved.jobs.count, 2_500);
}

/// Jobs that wait, one that is leased, dead letters in another order than they came, an entry, a running bulk act and a
/// record.
async fn busy(name: &str) -> Named {
    let from = filled(name, 6).await;
    for lease in from.store.claim(claim(3)).await.unwrap().leases.into_iter().rev() {
        let failure = permanent_failure(None, "no such user");
        let ttl = Duration::from_secs(86_400);
        let burial = Burial { cause: Cause::Permanent, failure, attempt: None, held_up: false, at: T0, ttl };
        let settlement = Settlement {
            token: lease.token,
            transition: Transition::Bury(burial),
            audit: None,
            now: T0,
            follow_ups: Vec::new(),
        };
        assert_eq!(from.store.settle(vec![settlement]).await.unwrap(), [Settled::Done]);
    }
    assert_eq!(from.store.claim(claim(1)).await.unwrap().leases.len(), 1);
    from.store.record(vec![paused(1)]).await.unwrap();
    from
}

/// The fault that cuts a move off.
#[derive(Clone, Copy, Debug)]
struct Cut {
    at: End,
    verb: Verb,
    /// Writes of that end that go well before.
    after: usize,
}

/// Moves with a fault; whether the fault came before the end.
async fn cut_off(from: &Named, to: &Named, cut: Cut) -> bool {
    let end = if cut.at == End::Source { from } else { to };
    let faulty = Arc::new(FaultyStore::around(end.store.clone()));
    faulty.fail(cut.verb, cut.after, 1, StoreError::Unavailable("cut off".to_owned()));
    let weak = named(faulty.clone(), &end.name);
    let moved = if cut.at == End::Source { go(&weak, to).await } else { go(from, &weak).await };
    assert_eq!(moved.is_err(), faulty.fired(cut.verb) == 1, "{cut:?}: {moved:?}");
    moved.is_err()
}

async fn ids(store: &dyn Store) -> Vec<String> {
    let page = PageRequest { before: None, limit: 100 };
    let jobs = store.jobs(JobFilter::default(), page, T0).await.unwrap().items;
    jobs.into_iter().map(|view| view.job.id.to_string()).collect()
}

async fn dead(store: &dyn Store) -> Vec<String> {
    let page = PageRequest { before: None, limit: 100 };
    let entries = store.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items;
    entries.into_iter().map(|entry| entry.job_id.to_string()).collect()
}

/// Goes through every cut point of a move: each write of each end, not done, and done with its answer lost.
async fn at_every_cut(mut then: impl AsyncFnMut(Cut, Named, Named)) {
    for at in [End::Source, End::Target] {
        for verb in [Verb::Write, Verb::WriteAnswer] {
            for after in 0.. {
                let (from, to, cut) = (busy("a").await, empty("b"), Cut { at, verb, after });
                if !cut_off(&from, &to, cut).await {
                    assert!(after >= if at == End::Source { 4 } else { 5 }, "{cut:?} is the last");
                    break;
                }
                then(cut, from, to).await;
            }
        }
    }
}

#[tokio::test]
async fn a_move_cut_off_anywhere_leaves_one_store_to_be_served_at_most_and_is_taken_up_again() {
    let mut halves = 0;
    at_every_cut(async |cut, from, to| {
        let (source, target) = (held(&from).await, held(&to).await);
        let has_arrived = ids(&*to.store).await.len();
        match (&source, &target) {
            (None, None) => assert_eq!(has_arrived, 0, "{cut:?}: only before anything has moved"),
            (Some(InMove::MovedTo(_)), None) => assert_eq!(has_arrived, 6, "{cut:?}: only once it is whole"),
            (Some(InMove::MovingTo(_)), None) => {
                assert_eq!(has_arrived, 0, "{cut:?}: it was not begun there")
            }
            (Some(InMove::MovingTo(_) | InMove::MovedTo(_)), Some(InMove::FilledFrom(_))) => halves += 1,
            other => panic!("{cut:?}: {other:?}"),
        }
        match go(&from, &to).await {
            Ok(moved) => assert_eq!((moved.jobs.count, moved.entries.count), (6, 1), "{cut:?}"),
            Err(MoveError::SourceMoved { .. }) => assert_eq!(target, None, "{cut:?}: it was whole"),
            Err(error) => panic!("{cut:?}: {error}"),
        }
        assert_eq!(held(&from).await, Some(InMove::MovedTo("b".to_owned())), "{cut:?}");
        assert_eq!(held(&to).await, None, "{cut:?}");
        assert_eq!(ids(&*to.store).await, ids(&*from.store).await, "{cut:?}");
        assert_eq!(dead(&*to.store).await, ["job-00000", "job-00001", "job-00002"], "{cut:?}: as they died");
        let words = async |side: &Named| {
            let mut words: Vec<_> =
                on_record(&*side.store).await.iter().map(|event| format!("{event:?}")).collect();
            words.sort();
            words
        };
        assert_eq!(words(&to).await, words(&from).await, "{cut:?}");
        assert_eq!(leases(&*to.store, 10).await, 3, "{cut:?}: each is there once");
    })
    .await;
    assert!(halves > 8, "{halves} of the cuts left both half way");
}

#[tokio::test]
async fn a_move_cut_off_anywhere_is_called_off_by_name_unless_it_was_whole() {
    at_every_cut(async |cut, from, to| {
        let (source, target) = (held(&from).await, held(&to).await);
        let other = call_off(&from, "c", T0).await;
        assert!(matches!(
            other,
            Err(MoveError::SourceMoving { .. } | MoveError::SourceMoved { .. } | MoveError::NoMove)
        ));
        assert_eq!(held(&from).await, source, "{cut:?}: another one's name calls nothing off");
        match call_off(&from, "b", T0).await {
            Ok(()) => {}
            Err(MoveError::NoMove) => return assert_eq!(source, None, "{cut:?}"),
            Err(MoveError::SourceMoved { .. }) => return assert!(matches!(source, Some(InMove::MovedTo(_)))),
            Err(error) => panic!("{cut:?}: {error}"),
        }
        assert_eq!((held(&from).await, held(&to).await), (None, target.clone()), "{cut:?}");
        assert_eq!(ids(&*from.store).await.len(), 6, "{cut:?}: the source has everything");
        let again = go(&from, &to).await;
        match target {
            Some(_) => {
                assert!(matches!(again, Err(MoveError::TargetHalfFilled { .. })), "{cut:?}: {again:?}")
            }
            None => assert!(again.is_ok(), "{cut:?}: {again:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn a_source_that_is_being_moved_is_moved_nowhere_else() {
    let (from, to) = (busy("a").await, empty("b"));
    assert!(cut_off(&from, &to, Cut { at: End::Target, verb: Verb::Write, after: 1 }).await);
    let elsewhere = go(&from, &empty("c")).await;
    assert!(matches!(&elsewhere, Err(MoveError::SourceMoving { to }) if to == "b"), "{elsewhere:?}");
    let other = go(&busy("d").await, &to).await;
    assert!(matches!(&other, Err(MoveError::TargetHalfFilled { from }) if from == "a"), "{other:?}");
    let on = go(&to, &empty("c")).await;
    assert!(matches!(&on, Err(MoveError::SourceHalfFilled { from }) if from == "a"), "{on:?}");
    let into = go(&busy("d").await, &from).await;
    assert!(matches!(&into, Err(MoveError::TargetMoved { to }) if to == "b"), "{into:?}");
    go(&from, &to).await.unwrap();
    let other = go(&busy("d").await, &to).await;
    assert!(matches!(&other, Err(MoveError::TargetWhole { from }) if from == "a"), "{other:?}");
}

#[tokio::test]
async fn a_move_that_is_called_off_under_way_does_not_end_well() {
    let (from, to) = (busy("a").await, empty("b"));
    let moved = move_all(&from, &to, &[NAMESPACE], T0, |step| {
        if let Step::Copied { .. } = step {
            let called_off = futures_util::FutureExt::now_or_never(call_off(&from, "b", T0));
            assert!(called_off.is_some_and(|done| done.is_ok()), "it was called off");
        }
    })
    .await;
    assert!(matches!(&moved, Err(MoveError::CalledOff)), "{moved:?}");
    assert_eq!((held(&from).await, held(&to).await), (None, Some(InMove::FilledFrom("a".to_owned()))));
}

#[tokio::test]
async fn a_store_with_a_running_node_is_moved_neither_away_nor_into() {
    let node = |side: Named| async move {
        let value = Some(Payload::trusted("{}"));
        let write = KvWrite {
            namespace: nodes::NAMESPACE,
            key: "host/1".into(),
            value,
            expect: None,
            audit: Vec::new(),
            expires_at: None,
        };
        side.store.kv_write(vec![write], T0).await.unwrap();
        side
    };
    for (from, to) in [(node(busy("a").await).await, empty("b")), (busy("a").await, node(empty("b")).await)] {
        let refused = go(&from, &to).await;
        assert!(matches!(&refused, Err(MoveError::InUse { nodes, .. }) if nodes == "host/1"), "{refused:?}");
        assert_eq!((held(&from).await, held(&to).await), (None, None));
    }
}

#[tokio::test]
async fn what_an_earlier_version_left_half_way_is_not_served_and_not_filled_further() {
    let (from, to) = (busy("a").await, empty("b"));
    let value = Some(Payload::trusted(r#"{"store":"a","done":false}"#));
    let namespace = Namespace::new("moves");
    let write =
        KvWrite { namespace, key: "from".into(), value, expect: None, audit: Vec::new(), expires_at: None };
    to.store.kv_write(vec![write], T0).await.unwrap();
    assert_eq!(held(&to).await, Some(InMove::FilledFrom("a".to_owned())));
    let moved = go(&from, &to).await;
    assert!(matches!(&moved, Err(MoveError::TargetHalfFilled { .. })), "{moved:?}");
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
    let codes: Vec<_> = lost.map(|view| view.job.attempts[0].error_code.as_deref()).collect();
    assert_eq!(codes, [Some("LEASE_LOST"); 2], "the attempt that may have been sent is on record");
    assert_eq!(leases(&*to.store, 10).await, 3);
}

#[tokio::test]
async fn a_target_that_another_process_writes_to_is_found_out() {
    let (from, to) = (filled("a", 3).await, empty("b"));
    let store = to.store.clone();
    let mut once = Some(JobId::new("stranger").unwrap());
    let moved = move_all(&from, &to, &[NAMESPACE], T0, |step| {
        if let (Step::Copied { .. }, Some(id)) = (step, once.take()) {
            let stranger = NewJob { id, ..job(9) };
            let enqueued = futures_util::FutureExt::now_or_never(store.enqueue(vec![stranger]));
            assert!(enqueued.is_some_and(|done| done.is_ok()), "the fault fired");
        }
    })
    .await;
    assert!(matches!(&moved, Err(MoveError::Differs { what }) if what.contains("4 are there")), "{moved:?}");
    assert_eq!(held(&to).await, Some(InMove::FilledFrom("a".to_owned())), "nothing was switched over");
}

fn paused(nth: usize) -> AuditEvent {
    AuditEvent::about_provider("ses", AuditKind::ProviderPaused, T0).reason(format!("pause {nth}"))
}

async fn on_record(store: &dyn Store) -> Vec<AuditEvent> {
    let span = recado_store::AuditSpan { part: 0, after: 0, newest_first: false };
    store.audit_records(span, 10_000).await.unwrap().into_iter().map(|record| record.event).collect()
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
    let write = KvWrite {
        namespace: recado_engine::audit::NAMESPACE,
        key: "archiver".into(),
        value: Some(Payload::new(hold).unwrap()),
        expect: None,
        expires_at: None,
        audit: Vec::new(),
    };
    from.store.kv_write(vec![write], T0).await.unwrap();
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
    // The mark that says where it comes from is written; records arrive; then the entries of the first namespace fail.
    faulty.fail(Verb::KvWrite, 1, 1, StoreError::Unavailable("cut off".to_owned()));
    assert!(go(&from, &named(faulty.clone(), "b")).await.is_err());
    assert_eq!(faulty.fired(Verb::KvWrite), 1);
    assert_eq!(on_record(&*inner).await.len(), 2_500, "they had arrived");
    let moved = go(&from, &named(inner.clone(), "b")).await.unwrap();
    assert_eq!((moved.records.count, on_record(&*inner).await.len()), (2_500, 2_500));
}

#[tokio::test]
async fn a_bulk_act_goes_on_behind_the_entry_that_it_had_come_to() {
    let origin = busy("o").await;
    for (number, passed) in [(1_000, Some(0)), (300, Some(1)), (250, Some(1)), (150, Some(2)), (100, None)] {
        let (from, to) = (empty("a"), empty("b"));
        let mut given = origin.store.snapshots(None, 10).await.unwrap().items;
        for transfer in given.iter_mut().filter(|transfer| transfer.dead_letter.is_some()) {
            // Another order than theirs, under numbers with gaps.
            let place =
                ["job-00001", "job-00002", "job-00000"].iter().position(|id| *id == transfer.job.id.as_str());
            transfer.queue_place = place.map(|place| 100 * (place as u64 + 1));
        }
        from.store.adopt(given).await.unwrap();
        let order = dead(&*from.store).await;
        assert_eq!(order, ["job-00000", "job-00002", "job-00001"]);
        let value = serde_json::json!({"id": "rpl_1", "act": "replay", "state": "running", "filter": {}, "place": number,
            "ratePerSecond": 50, "total": 3, "done": 0, "skipped": 0, "failed": 0, "failures": [], "startedAt": T0,
            "heldUntil": T0});
        let value = Some(Payload::trusted(value.to_string()));
        let write = KvWrite {
            namespace: bulk::NAMESPACE,
            key: "rpl_1".into(),
            value,
            expect: None,
            audit: Vec::new(),
            expires_at: None,
        };
        from.store.kv_write(vec![write], T0).await.unwrap();
        move_all(&from, &to, &[bulk::NAMESPACE], T0, |_| {}).await.unwrap();
        assert_eq!(dead(&*to.store).await, order);
        let note = to.store.kv_get(bulk::NAMESPACE, "rpl_1", T0).await.unwrap().unwrap();
        let moved: serde_json::Value = note.value.parse().unwrap();
        let Some(passed) = passed else {
            assert_eq!(moved["walked"], true, "{moved}");
            continue;
        };
        let page = PageRequest { before: moved["place"].as_u64(), limit: 10 };
        let ahead = to.store.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items;
        let ahead: Vec<String> = ahead.into_iter().map(|entry| entry.job_id.to_string()).collect();
        assert_eq!((ahead.as_slice(), &moved["walked"]), (&order[passed..], &false.into()), "below {number}");
    }
}
