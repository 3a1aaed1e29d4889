//! The audit trail on its way from the store to its files, searched and forgotten.

use recado_store::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use recado_audit::{Content, Evidence, Identity, MONTHS_KEPT, Order, Query, Record, Subject, search, verify};
use recado_core::{AuditEvent, AuditKind, JobId, Status};
use recado_engine::audit::{Erased, Erasing, ErasureOrder, TrailTerms, archived_in};
use recado_engine::{Carrier, Engine, Parts, Random, Routes, Settings, Submission};
use recado_store::{AuditSpan, Retention, Store, StoreError, Wakes};
use recado_store_conformance::faulty::{FaultyStore, Verb};
use tempfile::TempDir;

use crate::given::{Given, Scripted, route, settings, submission, submit};

fn terms(dir: &Path) -> TrailTerms {
    TrailTerms { dir: dir.to_owned(), key: None, months_kept: MONTHS_KEPT }
}

pub fn parts(given: &Given, store: Arc<dyn Store>, script: &[&'static str], dir: &Path) -> Parts {
    let routes = Routes::new([route("mail", Carrier::Transport(Arc::new(Scripted::new(script))))]);
    let mut parts = Parts::new(store, routes, settings(), given.clock.clone(), Random::from_seed(7));
    parts.trail = Some(terms(dir));
    parts
}

pub fn archiving(given: &Given, script: &[&'static str], dir: &Path) -> Engine {
    Engine::start(parts(given, given.store.clone(), script, dir))
}

pub async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Everything in the files, oldest first, once they are proved whole.
pub fn written(dir: &Path) -> Vec<Record> {
    let report = verify(dir, &Evidence::default()).unwrap();
    assert!(report.is_whole(), "{:#?}", report.findings);
    search(dir, &Query { order: Order::OldestFirst, limit: 100_000, ..Query::default() }).unwrap().records
}

fn kinds(records: &[Record]) -> Vec<AuditKind> {
    records.iter().map(|record| record.event().kind).collect()
}

pub async fn paused(given: &Given, engine: &Engine, count: usize) {
    for nth in 0..count {
        let act = AuditEvent::about_provider("mail", AuditKind::ProviderPaused, engine.now());
        given.store.record(vec![act.reason(format!("pause {nth}")).by(Some("ana"))]).await.unwrap();
    }
}

fn of_maria(id: &str) -> Submission {
    Submission { user_id: Some("maria".into()), correlation_id: Some("order-1".into()), ..submission(id) }
}

#[tokio::test(start_paused = true)]
async fn t14_what_is_decided_and_done_goes_to_the_files_with_whom_it_was_about() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &["421", "ok"], dir.path());
    submit(&engine, of_maria("a")).await;
    given.until("a", Status::Sent).await;
    paused(&given, &engine, 1).await;
    pass(5).await;
    let records = written(dir.path());
    assert_eq!(kinds(&records), [AuditKind::RetryScheduled, AuditKind::Delivered, AuditKind::ProviderPaused]);
    let Content::Event { event, .. } = &records[0].content else { panic!("{records:?}") };
    assert_eq!((event.user_id.as_deref(), event.correlation_id.as_deref()), (Some("maria"), Some("order-1")));
    assert_eq!(event.decision.should_retry, Some(true));
    let by_user = Query { user: Some("maria".into()), ..Query::default() };
    assert_eq!(search(dir.path(), &by_user).unwrap().records.len(), 2);
    assert_eq!(
        archived_in(&*given.store, given.clock_now()).await.unwrap()[&0],
        3,
        "the store knows how far"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_leaves_nothing_behind_and_the_next_start_goes_on() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &["ok"], dir.path());
    submit(&engine, submission("a")).await;
    given.until("a", Status::Sent).await;
    engine.stop().await.unwrap();
    assert_eq!(kinds(&written(dir.path())), [AuditKind::Delivered], "no look was due yet");
    let engine = archiving(&given, &["ok"], dir.path());
    paused(&given, &engine, 3).await;
    engine.stop().await.unwrap();
    assert_eq!(written(dir.path()).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn files_put_back_from_a_backup_get_again_what_the_store_still_has() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let (files, backup) = (dir.path().join("audit"), dir.path().join("backup"));
    let engine = archiving(&given, &["ok"], &files);
    paused(&given, &engine, 3).await;
    engine.stop().await.unwrap();
    copy(&files, &backup);
    let engine = archiving(&given, &["ok"], &files);
    paused(&given, &engine, 4).await;
    engine.stop().await.unwrap();
    assert_eq!(written(&files).len(), 7);
    std::fs::remove_dir_all(&files).unwrap();
    copy(&backup, &files);
    assert_eq!(written(&files).len(), 3, "four are lost to the files");
    let engine = archiving(&given, &["ok"], &files);
    paused(&given, &engine, 2).await;
    engine.stop().await.unwrap();
    let numbers: Vec<_> = written(&files).iter().map(source_number).collect();
    assert_eq!(numbers, Vec::from_iter(1..=9), "all of them, once and in order");
    assert_eq!(archived_in(&*given.store, given.clock_now()).await.unwrap().get(&0), Some(&9));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn source_number(record: &Record) -> u64 {
    match &record.content {
        Content::Event { source_sequence, .. } => *source_sequence,
        Content::Erasure { .. } => panic!("nothing was erased"),
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_files_cannot_be_written_the_store_keeps_everything() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let in_the_way = dir.path().join("audit");
    std::fs::write(&in_the_way, "a file where a directory should be").unwrap();
    let engine = archiving(&given, &["ok"], &in_the_way);
    submit(&engine, submission("a")).await;
    given.until("a", Status::Sent).await;
    paused(&given, &engine, 5).await;
    // Long enough for all of it to be trimmed, if it were archived.
    pass(2 * 3_600).await;
    assert!(in_the_way.is_file(), "the fault is still there");
    assert_eq!(archived_in(&*given.store, given.clock_now()).await.unwrap().get(&0), None);
    std::fs::remove_file(&in_the_way).unwrap();
    pass(30).await;
    assert_eq!(written(&in_the_way).len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_could_not_be_written_makes_no_record_come_twice() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let store = Arc::new(FaultyStore::around(given.store.clone()));
    // The right to archive is written down; then the mark of the first batch, and the one after, are not.
    store.fail(Verb::KvWrite, 1, 2, StoreError::Unavailable("gone".to_owned()));
    let engine = Engine::start(parts(&given, store.clone(), &["ok"], dir.path()));
    tokio::task::yield_now().await;
    paused(&given, &engine, 10).await;
    pass(60).await;
    assert_eq!(store.fired(Verb::KvWrite), 2);
    paused(&given, &engine, 10).await;
    pass(5).await;
    let records = written(dir.path());
    let numbers: BTreeSet<u64> = records
        .iter()
        .filter_map(|record| match &record.content {
            Content::Event { source_sequence, .. } => Some(*source_sequence),
            Content::Erasure { .. } => None,
        })
        .collect();
    assert_eq!((records.len(), numbers.len()), (20, 20));
}

#[tokio::test(start_paused = true)]
async fn thousands_of_records_go_bite_by_bite_and_in_order() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &["ok"], dir.path());
    let at = engine.now();
    let act =
        |nth: usize| AuditEvent::about_route("mail", AuditKind::RoutePaused, at).reason(nth.to_string());
    given.store.record((0..5_000).map(act).collect()).await.unwrap();
    pass(30).await;
    let records = written(dir.path());
    let reasons: Vec<_> =
        records.iter().filter_map(|record| record.event().into_owned().decision.retry_reason).collect();
    assert!(
        reasons.iter().enumerate().all(|(nth, reason)| **reason == *nth.to_string())
            && reasons.len() == 5_000
    );
    engine.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_store_forgets_what_is_archived_and_a_forgotten_jobs_trail_is_told_from_the_files() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &["421", "ok"], dir.path());
    submit(&engine, submission("a")).await;
    given.until("a", Status::Sent).await;
    let id = JobId::new("a").unwrap();
    let whole = engine.audit.job_trail(&id).await.unwrap().unwrap();
    assert_eq!(whole.len(), 2);
    // The retention of these tests is an hour.
    pass(3_700).await;
    assert!(given.store.job(&id, given.clock_now()).await.unwrap().is_none(), "it is forgotten");
    let span = recado_store::AuditSpan { part: 0, after: 0, newest_first: false };
    assert!(given.store.audit_records(span, 10).await.unwrap().is_empty(), "and so are its records here");
    assert_eq!(engine.audit.job_trail(&id).await.unwrap(), Some(whole));
    assert_eq!(engine.audit.job_trail(&JobId::new("unknown").unwrap()).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_walk_shows_each_record_once_while_records_move_to_the_files() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &["ok"], dir.path());
    paused(&given, &engine, 5).await;
    pass(5).await;
    for order in [Order::NewestFirst, Order::OldestFirst] {
        for nth in 0..6 {
            let act = AuditEvent::about_route("mail", AuditKind::RoutePaused, engine.now());
            given.store.record(vec![act.reason(format!("{order:?} {nth}"))]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (mut shown, mut place, mut unsealed) = (Vec::new(), None, 0);
        loop {
            let query = Query { order, limit: 2, ..Query::default() };
            let page = engine.audit.search(query, place).await.unwrap();
            unsealed += page.found.iter().filter(|found| found.seal.is_none()).count();
            shown.extend(page.found.into_iter().map(|found| found.event));
            // They are archived under the walk.
            pass(3).await;
            place = page.next;
            if place.is_none() {
                break;
            }
        }
        if order == Order::NewestFirst {
            assert_eq!(unsealed, 2, "the first page was not archived yet");
            shown.reverse();
        }
        let archived = written(dir.path());
        let expected: Vec<_> = archived.iter().map(|record| record.event().into_owned()).collect();
        assert_eq!(shown, expected, "{order:?}");
    }
    let of_routes = Query { kind: Some(AuditKind::RoutePaused), ..Query::default() };
    assert_eq!(engine.audit.search(of_routes, None).await.unwrap().found.len(), 12);
}

/// Every record that a walk shows, by its words.
async fn walked(engine: &Engine, order: Order, limit: usize) -> Vec<String> {
    let (mut shown, mut place) = (Vec::new(), None);
    loop {
        let page = engine.audit.search(Query { order, limit, ..Query::default() }, place).await.unwrap();
        let words = |event: AuditEvent| event.decision.retry_reason.map(String::from).unwrap_or_default();
        shown.extend(page.found.into_iter().map(|found| words(found.event)));
        place = page.next;
        if place.is_none() {
            return shown;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_walk_shows_each_record_once_however_far_the_files_are_behind() {
    const RECORDS: usize = 10_500;
    let (given, wakes, dir) = (Given::new(), Arc::default(), TempDir::new().unwrap());
    let (engine, faulty) = node(&given, &wakes, "one", dir.path());
    faulty.fail(Verb::KvWrite, 0, usize::MAX, StoreError::Unavailable("cut off".to_owned()));
    let act = |nth| {
        let act = AuditEvent::about_provider("mail", AuditKind::ProviderPaused, engine.now());
        act.reason(format!("{nth:05}"))
    };
    given.store.record((0..RECORDS).map(act).collect()).await.unwrap();
    let whole: Vec<String> = (0..RECORDS).map(|nth| format!("{nth:05}")).collect();
    assert_eq!(walked(&engine, Order::OldestFirst, 6_000).await, whole);
    let mut newest_first = walked(&engine, Order::NewestFirst, 6_000).await;
    newest_first.reverse();
    assert_eq!(newest_first, whole);
    assert_eq!(count(dir.path()), 0, "all of them were fresh");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_in_the_files_and_not_marked_yet_is_shown_once() {
    let (given, wakes, dir) = (Given::new(), Arc::default(), TempDir::new().unwrap());
    let (archiver, faulty) = node(&given, &wakes, "one", dir.path());
    paused(&given, &archiver, 1).await;
    pass(5).await;
    let (other, _) = node(&given, &wakes, "two", dir.path());
    faulty.fail(Verb::KvWrite, 0, usize::MAX, StoreError::Unavailable("cut off".to_owned()));
    paused(&given, &archiver, 3).await;
    pass(5).await;
    assert!(
        faulty.fired(Verb::KvWrite) > 0 && count(dir.path()) == 4,
        "they are in the files, and not marked"
    );
    for order in [Order::NewestFirst, Order::OldestFirst] {
        assert_eq!(walked(&other, order, 2).await.len(), 4, "{order:?}");
    }
}

/// One of several nodes on the same store, with files of its own.
pub fn node(given: &Given, wakes: &Arc<Wakes>, name: &str, dir: &Path) -> (Engine, Arc<FaultyStore>) {
    let store = Arc::new(FaultyStore::shared(given.store.clone(), wakes));
    let mut parts = parts(given, store.clone(), &["ok"], dir);
    parts.settings = Settings { node: name.into(), ..settings() };
    (Engine::start(parts), store)
}

pub fn count(dir: &Path) -> usize {
    if dir.join("public.pem").exists() { written(dir).len() } else { 0 }
}

#[tokio::test(start_paused = true)]
async fn of_several_nodes_one_archives_and_another_takes_over_when_it_stops() {
    let (given, wakes) = (Given::new(), Arc::default());
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (first, _) = node(&given, &wakes, "node-1", here.path());
    pass(2).await;
    let (second, _) = node(&given, &wakes, "node-2", there.path());
    paused(&given, &second, 5).await;
    pass(60).await;
    assert_eq!((count(here.path()), count(there.path())), (5, 0));
    let subject = Subject { identity: Identity::User("maria".into()), company: None };
    let order = ErasureOrder { subject, reason: "17".into(), actor: "ana".into(), with_jobs: false };
    assert_eq!(second.audit.erase(order).await.unwrap(), Erasing::Elsewhere { node: "node-1".into() });
    first.stop().await.unwrap();
    paused(&given, &second, 3).await;
    pass(3).await;
    assert_eq!((count(here.path()), count(there.path())), (5, 3), "and none of them twice");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_vanishes_is_replaced_and_finds_out_before_it_marks_anything() {
    for set_by_s in [0, -3_600] {
        a_node_is_replaced(set_by_s).await;
    }
}

/// The clock is set when it vanishes.
async fn a_node_is_replaced(set_by_s: i64) {
    let (given, wakes) = (Given::new(), Arc::default());
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (_first, cut_off) = node(&given, &wakes, "node-1", here.path());
    pass(2).await;
    let (second, _) = node(&given, &wakes, "node-2", there.path());
    paused(&given, &second, 2).await;
    pass(5).await;
    let gone = || StoreError::Unavailable("cut off".to_owned());
    cut_off.fail(Verb::KvRead, 0, 20, gone());
    cut_off.fail(Verb::KvWrite, 0, 20, gone());
    given.clock.set_by(set_by_s);
    paused(&given, &second, 4).await;
    pass(5).await;
    assert_eq!(count(there.path()), 0, "its time is not over yet");
    pass(20).await;
    assert!(cut_off.fired(Verb::KvRead) > 0, "it was cut off");
    assert_eq!((count(here.path()), count(there.path())), (2, 4));
    // The first one is back, and is not in charge any more.
    pass(600).await;
    paused(&given, &second, 1).await;
    pass(5).await;
    assert_eq!((count(here.path()), count(there.path())), (2, 5));
}

fn erasure(with_jobs: bool) -> ErasureOrder {
    let subject = Subject { identity: Identity::User("maria".into()), company: Some("acme".into()) };
    ErasureOrder { subject, reason: "LGPD 17".into(), actor: "ana".into(), with_jobs }
}

#[tokio::test(start_paused = true)]
async fn one_persons_data_goes_from_the_store_and_the_files_and_the_trail_stays_whole() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &["550"], dir.path());
    submit(&engine, of_maria("dead")).await;
    given.until("dead", Status::Failed).await;
    submit(&engine, submission("other")).await;
    given.until("other", Status::Failed).await;
    let later = Submission { delay: Some(Duration::from_secs(600)), ..of_maria("waiting") };
    submit(&engine, later).await;

    assert_eq!(engine.audit.erase(erasure(false)).await.unwrap(), Erasing::JobsWait(1));
    assert_eq!(given.view("dead").await.status, Status::Failed, "nothing was touched");
    let done = engine.audit.erase(erasure(true)).await.unwrap();
    let erased = Erased {
        records: 3,
        recorded_as: vec![5],
        jobs_cancelled: 1,
        dead_letters_discarded: 1,
        jobs_forgotten: 2,
        follow_ups: 0,
    };
    assert_eq!(done, Erasing::Done(erased), "buried, discarded and cancelled; the other one's is not hers");
    for id in ["dead", "waiting"].map(|id| JobId::new(id).unwrap()) {
        assert!(given.store.job(&id, given.clock_now()).await.unwrap().is_none());
        assert!(given.store.dead_letter(&id).await.unwrap().is_none());
        assert_eq!(engine.audit.job_trail(&id).await.unwrap(), None);
    }
    let records = written(dir.path());
    let files: String = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| String::from_utf8_lossy(&std::fs::read(entry.unwrap().path()).unwrap()).into_owned())
        .collect();
    assert!(!files.contains("maria") && !files.contains("\"waiting\"") && files.contains("\"other\""));
    let Content::Erasure { erasure } = &records[4].content else { panic!("{records:?}") };
    assert_eq!((&*erasure.actor, &*erasure.reason, erasure.records), ("ana", "LGPD 17", 3));
    assert_eq!(
        engine.audit.erase(self::erasure(true)).await.unwrap(),
        Erasing::Done(Erased::default()),
        "there is nothing left"
    );
    let found = engine.audit.search(Query::default(), None).await.unwrap().found;
    assert_eq!(found[0].event.kind, AuditKind::PersonalDataErased);
}

#[tokio::test(start_paused = true)]
async fn t18_records_of_jobs_that_the_store_had_forgotten_before_go_with_the_persons_data() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &["ok", "ok", "ok"], dir.path());
    for job in [of_maria("forgotten"), submission("others"), of_maria("known")] {
        let id = job.job_id.clone().unwrap();
        submit(&engine, job).await;
        given.until(&id, Status::Sent).await;
        pass(1).await;
    }
    let missing = Retention { ended_max_age: Duration::from_secs(3_600), ended_max_count: 1 };
    assert_eq!(given.store.prune(missing, given.clock_now()).await.unwrap().ended, 2, "all but the last");
    let in_the_store = async || {
        let span = AuditSpan { part: 0, after: 0, newest_first: false };
        let records = given.store.audit_records(span, 100).await.unwrap();
        records.iter().filter(|record| record.event.user_id.as_deref() == Some("maria")).count()
    };
    assert_eq!(in_the_store().await, 2);
    let done = engine.audit.erase(erasure(true)).await.unwrap();
    assert!(matches!(done, Erasing::Done(Erased { records: 2, jobs_forgotten: 1, .. })), "{done:?}");
    assert_eq!(in_the_store().await, 0);
}
