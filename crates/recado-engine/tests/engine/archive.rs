//! The bound of the dead letter queue, its archive, and the way back.

use recado_store::prelude::*;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{AuditKind, DeadLetterState, EventKind, JobId, Payload, Status, Timestamp};
use recado_engine::dlq::archive::{Archive, Imported};
use recado_engine::{Carrier, DeadLetterTerms, Engine, Parts, ProviderAct, Random, Routes};
use recado_store::Store;

use crate::bulk::bury;
use crate::given::{Given, Scripted, route, settings};

/// Time that an entry is kept here.
const TTL: Duration = Duration::from_secs(4 * 3_600);

/// An archive in memory, which can be made to fail.
#[derive(Debug, Default)]
struct Namespace {
    lines: Mutex<Vec<String>>,
    broken: AtomicBool,
    asked: AtomicBool,
}

impl Archive for Namespace {
    fn append(&self, lines: &[String], _: Timestamp) -> io::Result<String> {
        self.asked.store(true, Ordering::SeqCst);
        if self.broken.load(Ordering::SeqCst) {
            return Err(io::Error::other("no space left"));
        }
        self.lines.lock().extend_from_slice(lines);
        Ok("the namespace".to_owned())
    }
}

impl Namespace {
    fn ids(&self) -> Vec<String> {
        let id = |line: &String| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            value["jobId"].as_str().unwrap().to_owned()
        };
        self.lines.lock().iter().map(id).collect()
    }
}

fn bounded(given: &Given, namespace: &Arc<Namespace>, max_size: u64) -> Engine {
    let far_end = Arc::new(Scripted::new(&["550", "ok"]));
    let mut mail = route("mail", Carrier::Transport(far_end));
    mail.terms.dead_letter_ttl = TTL;
    let routes = Routes::new([mail]);
    let mut parts =
        Parts::new(given.store.clone(), routes, settings(), given.clock.clone(), Random::from_seed(7));
    parts.dead_letters =
        DeadLetterTerms { max_size, archive: Some(namespace.clone()), ..DeadLetterTerms::default() };
    Engine::start(parts)
}

/// An archive that is written while an operator replays the entry and it dies again.
#[derive(Debug)]
struct Slow {
    namespace: Namespace,
    store: Arc<dyn Store>,
    engine: Mutex<Option<Engine>>,
}

impl Archive for Slow {
    fn append(&self, lines: &[String], now: Timestamp) -> io::Result<String> {
        if let Some(engine) = self.engine.lock().take() {
            let store = self.store.clone();
            let replay_and_fail = async move {
                let id = JobId::new("a").unwrap();
                let corrected = Payload::new(r#"{"n":2}"#).unwrap();
                engine.dlq.replay(&id, Some(corrected), None, Some("ana")).await.unwrap();
                let died_again = async || store.dead_letter(&id).await.unwrap().unwrap();
                while died_again().await.state != DeadLetterState::Dead
                    || died_again().await.failed_attempts < 2
                {
                    tokio::task::yield_now().await;
                }
            };
            tokio::runtime::Handle::current().block_on(replay_and_fail);
        }
        self.namespace.append(lines, now)
    }
}

// On several threads, so that the archive is written beside the engine.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_died_again_while_it_was_archived_is_given_up_only_in_its_new_version() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["550", "550", "550"]));
    let store: Arc<dyn Store> = given.store.clone();
    let slow = Arc::new(Slow { namespace: Namespace::default(), store, engine: Mutex::default() });
    let routes = Routes::new([route("mail", Carrier::Transport(far_end))]);
    let mut parts =
        Parts::new(given.store.clone(), routes, settings(), given.clock.clone(), Random::from_seed(7));
    parts.dead_letters =
        DeadLetterTerms { max_size: 1, archive: Some(slow.clone()), ..DeadLetterTerms::default() };
    let engine = Engine::start(parts);
    bury(&given, &engine, &["a"]).await;
    *slow.engine.lock() = Some(engine.clone());
    bury(&given, &engine, &["b"]).await;
    until_dead(&given, 1).await;
    assert!(slow.engine.lock().is_none(), "it was replayed in between");
    // It kept its place as the oldest, so the next round takes its second death.
    assert_eq!(slow.namespace.ids(), ["a", "a"]);
    assert!(given.store.dead_letter(&JobId::new("b").unwrap()).await.unwrap().is_some());
    let lines = slow.namespace.lines.lock();
    assert!(!lines[0].contains(r#"{"n":2}"#) && lines[1].contains(r#"{"n":2}"#), "{lines:#?}");
}

async fn dead_count(given: &Given) -> u64 {
    given.store.counts(given.clock_now()).await.unwrap().dead_letters
}

async fn until_dead(given: &Given, count: u64) {
    for _ in 0..10_000 {
        if dead_count(given).await == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("there are {} dead letters, not {count}", dead_count(given).await);
}

async fn kinds(given: &Given, name: &str) -> Vec<AuditKind> {
    let trail = given.store.audit(&JobId::new(name).unwrap()).await.unwrap();
    trail.iter().map(|event| event.kind).collect()
}

#[tokio::test(start_paused = true)]
async fn g1_past_the_bound_the_oldest_are_in_the_archive_and_an_event_says_so() {
    let given = Given::new();
    let namespace = Arc::new(Namespace::default());
    let engine = bounded(&given, &namespace, 3);
    let mut heard = engine.notifier.events.listen(None);
    bury(&given, &engine, &["a", "b", "c"]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!namespace.asked.load(Ordering::SeqCst), "as many as may be");

    bury(&given, &engine, &["d"]).await;
    until_dead(&given, 3).await;
    assert_eq!(namespace.ids(), ["a"]);
    assert_eq!(given.view("a").await.status, Status::Discarded);
    assert_eq!(kinds(&given, "a").await.last(), Some(&AuditKind::DeadLetterArchived));
    let alert = loop {
        let event = heard.receiver.recv().await.unwrap();
        if event.kind == EventKind::AlertFired {
            break event;
        }
    };
    assert_eq!(alert.data.alert.name.as_deref(), Some("dlq_overflow"));

    bury(&given, &engine, &["e"]).await;
    until_dead(&given, 3).await;
    assert_eq!(namespace.ids(), ["a", "b"], "oldest first");
    while let Ok(event) = heard.receiver.try_recv() {
        assert_ne!(event.kind, EventKind::AlertFired, "once is enough");
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_archive_cannot_be_written_nothing_is_removed() {
    let given = Given::new();
    let namespace = Arc::new(Namespace::default());
    namespace.broken.store(true, Ordering::SeqCst);
    let engine = bounded(&given, &namespace, 1);
    let mut heard = engine.notifier.events.listen(None);
    bury(&given, &engine, &["a", "b", "c"]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(namespace.asked.load(Ordering::SeqCst), "the fault fired");
    assert_eq!(dead_count(&given).await, 3);
    let mut told = Vec::new();
    while let Ok(event) = heard.receiver.try_recv() {
        told.extend((event.kind == EventKind::AlertFired).then(|| event.data.reason.clone()).flatten());
    }
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("cannot be written (no space left)"), "{told:?}");

    namespace.broken.store(false, Ordering::SeqCst);
    until_dead(&given, 1).await;
    assert_eq!(namespace.ids(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_is_replaying_is_not_archived() {
    let given = Given::new();
    let namespace = Arc::new(Namespace::default());
    let engine = bounded(&given, &namespace, 1);
    bury(&given, &engine, &["a"]).await;
    engine.gate.act_on_provider("mail", ProviderAct::Pause, None, None).await.unwrap();
    engine.dlq.replay(&JobId::new("a").unwrap(), None, None, None).await.unwrap();
    engine.gate.act_on_provider("mail", ProviderAct::Resume, None, None).await.unwrap();
    bury(&given, &engine, &["b", "c"]).await;
    until_dead(&given, 1).await;
    assert_eq!(namespace.ids(), ["b"], "the oldest that is not on its way");
    given.until("a", Status::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn g7_an_import_brings_an_entry_back_with_its_history_and_twice_is_once() {
    let given = Given::new();
    let namespace = Arc::new(Namespace::default());
    let engine = bounded(&given, &namespace, 1);
    bury(&given, &engine, &["a", "b"]).await;
    let before = given.store.dead_letter(&JobId::new("a").unwrap()).await.unwrap().unwrap();
    until_dead(&given, 1).await;
    // Long after its time, on a system that has room.
    tokio::time::sleep(TTL + TTL / 2).await;
    engine.stop().await.unwrap();
    let engine = bounded(&given, &namespace, 100);
    let line = namespace.lines.lock()[0].clone();
    let import = async |lines: &[&str]| engine.dlq.import_dead_letters(lines, Some("ana")).await.unwrap();
    let id = JobId::new("a").unwrap();
    let answers = import(&[&line, "no line", &line]).await;
    assert_eq!(answers[0], Imported::Done(id.clone()));
    assert_eq!(answers[1], Imported::Unreadable("is not JSON at column 2".to_owned()));
    assert_eq!(answers[2], Imported::Known(id.clone()), "twice is harmless");

    let entry = given.store.dead_letter(&id).await.unwrap().unwrap();
    assert_eq!((entry.moved_at, &entry.attempts), (before.moved_at, &before.attempts));
    assert!(entry.expires_at() > given.clock_now().plus(TTL / 2), "a fresh time");
    assert_eq!(kinds(&given, "a").await.last(), Some(&AuditKind::DeadLetterImported));
    engine.dlq.replay(&id, None, None, None).await.unwrap();
    let sent = given.until("a", Status::Sent).await;
    assert_eq!(sent.job.attempts.len(), 2, "its history goes on");
    assert_eq!(import(&[&line]).await, [Imported::Known(id)], "and not after it was sent");
}

#[tokio::test(start_paused = true)]
async fn g7_a_file_does_not_bring_back_what_was_discarded_or_sent_since() {
    let given = Given::new();
    let namespace = Arc::new(Namespace::default());
    let engine = bounded(&given, &namespace, 1);
    bury(&given, &engine, &["gone", "sent", "last"]).await;
    until_dead(&given, 1).await;
    engine.stop().await.unwrap();
    let engine = bounded(&given, &namespace, 100);
    let lines = namespace.lines.lock().clone();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (gone, sent) = (JobId::new("gone").unwrap(), JobId::new("sent").unwrap());
    let import = async || engine.dlq.import_dead_letters(&lines, Some("ana")).await.unwrap();
    assert_eq!(import().await, [Imported::Done(gone.clone()), Imported::Done(sent.clone())]);
    let trail = [AuditKind::Buried, AuditKind::DeadLetterArchived, AuditKind::DeadLetterImported];
    assert_eq!(kinds(&given, "gone").await, trail, "all of it");

    engine.dlq.discard(&gone, "customer cancelled", Some("ana")).await.unwrap();
    engine.dlq.replay(&sent, None, None, None).await.unwrap();
    given.until("sent", Status::Sent).await;
    let known = [Imported::Known(gone.clone()), Imported::Known(sent.clone())];
    assert_eq!(import().await, known);
    // Nor when the store has forgotten both.
    let forget = recado_store::Retention { ended_max_age: Duration::ZERO, ended_max_count: 0 };
    given.store.prune(forget, given.clock_now()).await.unwrap();
    assert!(given.store.job(&gone, given.clock_now()).await.unwrap().is_none(), "forgotten");
    assert_eq!(import().await, known);
}

#[tokio::test(start_paused = true)]
async fn g7_a_file_adds_nothing_to_what_is_on_record_about_a_job() {
    let given = Given::new();
    let namespace = Arc::new(Namespace::default());
    let engine = bounded(&given, &namespace, 100);
    bury(&given, &engine, &["known", "forgotten"]).await;
    let mut lines = Vec::new();
    for name in ["known", "forgotten"] {
        let entry = given.store.dead_letter(&JobId::new(name).unwrap()).await.unwrap().unwrap();
        let line = engine.dlq.exported(&entry).await.unwrap().unwrap();
        let forged = line.replace("\"kind\":\"BURIED\"", "\"actor\":\"ana\",\"kind\":\"REPLAYED\"");
        assert_ne!(line, forged, "the fault is in place");
        // A line of the first version has no checksum to forge.
        let forged = forged.replace("\"version\":2", "\"version\":1");
        lines.push(forged);
        engine.dlq.discard(&JobId::new(name).unwrap(), "no longer wanted", None).await.unwrap();
    }
    given.store.forget(vec![JobId::new("forgotten").unwrap()]).await.unwrap();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for answer in engine.dlq.import_dead_letters(&lines, Some("rui")).await.unwrap() {
        assert!(matches!(answer, Imported::Done(_)), "{answer:?}");
    }
    let happened = [AuditKind::Buried, AuditKind::Discarded, AuditKind::DeadLetterImported];
    assert_eq!(kinds(&given, "known").await, happened);
    assert_eq!(kinds(&given, "forgotten").await, [AuditKind::DeadLetterImported]);
    let trail = given.store.audit(&JobId::new("forgotten").unwrap()).await.unwrap();
    assert_eq!(
        trail[0].decision.retry_reason.as_deref(),
        Some("Brought back from an export, which alone tells of what was before")
    );
}

#[tokio::test(start_paused = true)]
async fn g6_entries_are_counted_by_the_hour_over_restarts_and_although_they_left() {
    let given = Given::new();
    let namespace = Arc::new(Namespace::default());
    let engine = bounded(&given, &namespace, 100);
    bury(&given, &engine, &["a", "b"]).await;
    engine.dlq.discard(&JobId::new("a").unwrap(), "no longer wanted", None).await.unwrap();
    let last = async |engine: &Engine| {
        let hours = engine.dlq.rate.entries_per_hour().await.unwrap();
        assert_eq!(hours.len(), 24);
        hours.iter().rev().map(|(_, count)| *count).take(3).collect::<Vec<_>>()
    };
    assert_eq!(last(&engine).await, [2, 0, 0]);
    tokio::time::sleep(Duration::from_secs(2 * 3_600)).await;
    bury(&given, &engine, &["c"]).await;
    engine.stop().await.unwrap();
    let engine = bounded(&given, &namespace, 100);
    assert_eq!(last(&engine).await, [1, 0, 2]);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(last(&engine).await, [0, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn g1_an_import_into_a_full_queue_is_refused_and_pushes_no_entry_out() {
    let given = Given::new();
    let namespace = Arc::new(Namespace::default());
    let engine = bounded(&given, &namespace, 2);
    bury(&given, &engine, &["a", "b", "c", "d"]).await;
    until_dead(&given, 2).await;
    let lines = namespace.lines.lock().clone();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let import = async || engine.dlq.import_dead_letters(&lines, Some("ana")).await.unwrap();
    let [a, b] = ["a", "b"].map(|name| JobId::new(name).unwrap());
    let no_room = |id: &JobId| Imported::NoRoom { id: id.clone(), max_size: 2 };
    assert_eq!(import().await, [no_room(&a), no_room(&b)]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((dead_count(&given).await, namespace.ids().len()), (2, 2), "nothing moved");

    engine.dlq.discard(&JobId::new("c").unwrap(), "to make room", None).await.unwrap();
    assert_eq!(import().await, [Imported::Done(a.clone()), no_room(&b)], "as many as fit");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(namespace.ids(), ["a", "b"], "and it stays");
    engine.dlq.discard(&JobId::new("d").unwrap(), "to make room", None).await.unwrap();
    assert_eq!(import().await, [Imported::Known(a), Imported::Done(b)], "refused is not forgotten");
}

#[tokio::test(start_paused = true)]
async fn g1_an_archived_entry_tells_where_it_is_until_it_is_back() {
    let given = Given::new();
    let namespace = Arc::new(Namespace::default());
    let engine = bounded(&given, &namespace, 1);
    bury(&given, &engine, &["a", "b"]).await;
    until_dead(&given, 1).await;
    let [a, b] = ["a", "b"].map(|name| JobId::new(name).unwrap());
    let archived = engine.dlq.archived(&a).await.unwrap().expect("it was one too many");
    assert_eq!((&*archived.place, Some(archived.at)), ("the namespace", given.view("a").await.ended_at));
    engine.dlq.discard(&b, "to make room", None).await.unwrap();
    assert_eq!(engine.dlq.archived(&b).await.unwrap(), None, "a person discarded it");
    let line = namespace.lines.lock()[0].clone();
    engine.dlq.import_dead_letters(&[&line], None).await.unwrap();
    assert_eq!(engine.dlq.archived(&a).await.unwrap(), None, "it is back");
}

#[tokio::test(start_paused = true)]
async fn g21_an_export_is_a_backup_that_brings_back_what_was_discarded_since() {
    let given = Given::new();
    let namespace = Arc::new(Namespace::default());
    let engine = bounded(&given, &namespace, 100);
    bury(&given, &engine, &["a", "b"]).await;
    let [a, b] = ["a", "b"].map(|name| JobId::new(name).unwrap());
    let line = async |id: &JobId| {
        let entry = given.store.dead_letter(id).await.unwrap().unwrap();
        engine.dlq.exported(&entry).await.unwrap().unwrap()
    };
    let (line_of_a, line_of_b) = (line(&a).await, line(&b).await);
    let before = given.store.dead_letter(&a).await.unwrap().unwrap();
    engine.dlq.discard(&a, "by mistake", Some("rui")).await.unwrap();
    engine.dlq.replay(&b, None, None, None).await.unwrap();
    given.until("b", Status::Sent).await;

    let import =
        async || engine.dlq.import_dead_letters(&[&line_of_a, &line_of_b], Some("ana")).await.unwrap();
    assert_eq!(
        import().await,
        [Imported::Done(a.clone()), Imported::Known(b.clone())],
        "what was sent is sent"
    );
    let entry = given.store.dead_letter(&a).await.unwrap().unwrap();
    assert_eq!((&entry.original_data, &entry.attempts), (&before.original_data, &before.attempts));
    assert_eq!(
        kinds(&given, "a").await,
        [AuditKind::Buried, AuditKind::Discarded, AuditKind::DeadLetterImported],
        "its trail goes on"
    );
    engine.dlq.replay(&a, None, None, None).await.unwrap();
    given.until("a", Status::Sent).await;
    assert_eq!(import().await, [Imported::Known(a), Imported::Known(b)], "and not twice");
}
